"""Settings → `Variant`: each slot of the loop is filled by what its setting names."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from env_core.craftax.make import Environment, make
from env_core.observation import Layout
from online_jax import memory, narrowing, normalising
from online_jax.config import PPOConfig, TrainConfig
from online_jax.first_layer import Forward
from online_jax.floors import NUM_FLOORS
from online_jax.intrinsic import Ingredients, IntrinsicReward, Streams
from online_jax.networks import RELU_GAIN, TANH_GAIN, Encoder, Towers, pixel_encoder, symbolic_encoder
from online_jax.policies import Policy, actor_critic
from online_jax.ppo import Coefficients, Schedule, Variant
from online_jax.presets import BONUSES


def variant(config: TrainConfig) -> Variant:
    """The whole of it. `config.network`'s `auto` settings have been chosen (`calibrate.choose`)."""
    return variant_on(make_environment(config), config)


def variant_on(env: Environment, config: TrainConfig, streams: Streams | None = None) -> Variant:
    """The same on any environment, and with other reward streams than the bonus has by itself."""
    intrinsic = bonus(config, env)
    streams = streams or intrinsic.streams
    return Variant(
        env=env,
        policy=policy(config, env, len(streams.gamma)),
        intrinsic=intrinsic,
        streams=streams,
        narrowing=narrowing_of(config, env),
        optimiser=optax.chain(
            optax.clip_by_global_norm(config.ppo.max_grad_norm), optax.scale_by_adam(eps=config.ppo.adam_eps)
        ),
        schedule=schedule(config.ppo, config.num_updates),
        config=config.ppo,
        num_envs=config.num_envs,
        num_steps=config.num_steps,
        kept_envs=config.recorded_envs,
        num_floors=NUM_FLOORS if config.dump_new_floors else 0,
    )


def make_environment(config: TrainConfig) -> Environment:
    limit = {"max_timesteps": config.env.max_timesteps} if config.env.max_timesteps else {}
    return make(
        config.env_name,
        reset=config.env.reset,
        pool_size=config.pool_size,
        reset_ratio=config.env.reset_ratio,
        **limit,
    )


def policy(config: TrainConfig, env: Environment, num_streams: int = 1) -> Policy:
    """Two towers on packed observations have a first layer each; a GRU and a stack of convolutions are shared."""
    network = config.network
    packed = isinstance(env.layout, Layout)
    separate = packed and network.memory == "none"
    tanh = separate if network.activation == "auto" else network.activation == "tanh"
    activation: Any = nn.tanh if tanh else nn.relu
    if isinstance(env.layout, Layout):
        encoder = symbolic_encoder(
            env.layout, network.width, forward(config), activation=activation, towers=2 if separate else 1
        )
    else:
        encoder = pixel_encoder(env.layout.height, env.layout.width)
    core = memory.nothing() if network.memory == "none" else memory.gru(encoder.features, network.width)
    towers = Towers(
        network.width,
        network.depth - 1 if packed else max(1, network.depth - 2),
        env.num_actions,
        num_streams,
        separate,
        activation,
        TANH_GAIN if tanh else RELU_GAIN,
    )
    return actor_critic(encoder, core, towers)


def bonus(config: TrainConfig, env: Environment) -> IntrinsicReward:
    """The function that `presets.BONUSES` names, on this environment's observations."""
    module, _, name = BONUSES[config.bonus].partition(":")
    make_bonus: Callable[[Ingredients], IntrinsicReward] = getattr(import_module(module), name)
    return make_bonus(Ingredients(config, bonus_encoder(config, env), normaliser(env), env.num_actions))


def num_streams(config: TrainConfig, env: Environment) -> int:
    """Reward streams, of which the policy has a value each."""
    return len(bonus(config, env).streams.gamma)


def bonus_encoder(config: TrainConfig, env: Environment) -> Callable[[int], Encoder]:
    def encoder(width: int) -> Encoder:
        if not isinstance(env.layout, Layout):
            return pixel_encoder(env.layout.height, env.layout.width, width)
        lecun = nn.initializers.lecun_normal()
        return symbolic_encoder(env.layout, width, forward(config), activation=nn.relu, kernel_init=lecun)

    return encoder


def normaliser(env: Environment) -> Callable[[bool], normalising.Normaliser]:
    def choose(on: bool) -> normalising.Normaliser:
        if not on:
            return normalising.off()
        if isinstance(env.layout, Layout):
            return normalising.packed(env.layout)
        return normalising.pixels(env.layout.height, env.layout.width)

    return choose


def forward(config: TrainConfig) -> Forward:
    return "gather" if config.network.first_layer == "gather" else "product"  # `auto`: nobody has measured


def narrowing_of(config: TrainConfig, env: Environment) -> narrowing.Narrowing:
    if not isinstance(env.layout, Layout):
        return narrowing.off()
    whole = narrowing.on(env.layout)
    return whole._replace(sizes=whole.sizes[-1:]) if config.network.narrow == "off" else whole


def schedule(config: PPOConfig, num_updates: int) -> Schedule:
    """The learning rate, constant or falling linearly to 0; the entropy's weight, constant or moving linearly."""
    final = config.entropy if config.entropy_final is None else config.entropy_final

    def coefficients(update: jax.Array) -> Coefficients:
        done = update / num_updates
        rate = config.learning_rate * (1 - done) if config.anneal else config.learning_rate
        # At the last update, the entropy's weight is the final one.
        weight = config.entropy + (final - config.entropy) * jnp.minimum(update / max(1, num_updates - 1), 1)
        return Coefficients(jnp.asarray(rate, jnp.float32), jnp.asarray(weight, jnp.float32))

    return coefficients
