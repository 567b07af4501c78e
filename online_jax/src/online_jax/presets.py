"""A variant is one function that fills the slots of the loop; its name is what follows `online:train`."""

from __future__ import annotations

from collections.abc import Callable

import optax

from env_core.craftax.make import Environment, make
from online_jax import intrinsic, narrowing
from online_jax.config import PPOConfig, TrainConfig
from online_jax.first_layer import Forward
from online_jax.networks import Towers, symbolic_encoder
from online_jax.policies import Policy, feed_forward
from online_jax.ppo import Streams, Variant


def ppo(config: TrainConfig) -> Variant:
    """PPO with separate feed-forward actor and critic on the packed symbolic observation, and no bonus."""
    env = make_environment(config)
    return assemble(config, env, symbolic_policy(config, env), intrinsic.none(), Streams(gamma=(config.ppo.gamma,)))


PRESETS: dict[str, Callable[[TrainConfig], Variant]] = {"ppo": ppo}


def make_environment(config: TrainConfig) -> Environment:
    limit = {"max_timesteps": config.env.max_timesteps} if config.env.max_timesteps else {}
    return make(
        config.env_name,
        reset=config.env.reset,
        pool_size=config.pool_size,
        reset_ratio=config.env.reset_ratio,
        **limit,
    )


def symbolic_policy(config: TrainConfig, env: Environment, num_streams: int = 1) -> Policy:
    network = config.network
    forward: Forward = "gather" if network.first_layer == "gather" else "product"  # `auto`: nobody has measured
    encoder = symbolic_encoder(env.layout, network.width, forward)
    policy = feed_forward(encoder, Towers(network.width, network.depth - 1, env.num_actions, num_streams))
    return policy._replace(narrowing=narrowing.off(policy.narrowing)) if network.narrow == "off" else policy


def assemble(
    config: TrainConfig, env: Environment, policy: Policy, bonus: intrinsic.IntrinsicReward, streams: Streams
) -> Variant:
    schedule = learning_rate(config.ppo, config.num_updates)
    return Variant(
        env=env,
        policy=policy,
        intrinsic=bonus,
        streams=streams,
        optimiser=optax.chain(
            optax.clip_by_global_norm(config.ppo.max_grad_norm), optax.adam(schedule, eps=config.ppo.adam_eps)
        ),
        schedule=schedule,
        config=config.ppo,
        num_envs=config.num_envs,
        num_steps=config.num_steps,
        kept_envs=config.recorded_envs,
    )


def learning_rate(config: PPOConfig, num_updates: int) -> optax.Schedule:
    """Gradient steps → step size: constant, or falling linearly to 0 from update to update."""
    per_update = config.epochs * config.minibatches
    if not config.anneal:
        return optax.constant_schedule(config.learning_rate)
    return lambda count: config.learning_rate * (1 - (count // per_update) / num_updates)
