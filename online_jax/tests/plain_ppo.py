"""PPO once more, as plainly as it can be written: dense networks on the whole observation, loops, and Adam by hand.

It is here to be compared with `online_jax.ppo`: it shares no code with it, and makes the same random draws.
`plain_networks` and `plain_bonus` are what it acts with and is curious by.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from plain_bonus import NoBonus
from plain_networks import Adam, dense

from online_jax.config import PPOConfig, TrainConfig


class PlainPPO:
    """Goes on from `state` (of `ppo.init`) with a network of `plain_networks` and a bonus of `plain_bonus`."""

    def __init__(self, env: Any, config: TrainConfig, state: Any, network: Any, bonus: Any = None) -> None:
        self.env, self.settings, self.config = env, config, config.ppo
        self.network, self.bonus = network, bonus or NoBonus(config)
        self.key, self.env_state, self.obs = state.key, state.actor.env_state, state.actor.obs
        self.params, self.memory = network.params, state.actor.memory
        self.is_first = np.ones(config.num_envs, bool)
        self.adam = Adam(self.params, config.ppo)
        self.updates = 0
        self.unroll = jax.jit(network.unroll)
        self.gradient = jax.jit(jax.grad(partial(loss, network.unroll, self.bonus.weights, self.config)))

    def update(self) -> None:
        """Acts for `num_steps`, then learns for `epochs`, and then its bonus does."""
        self.key, k_collect = jax.random.split(self.key)
        memory = self.memory
        data = self.act(k_collect)
        self.key, k_epochs, k_bonus = jax.random.split(self.key, 3)
        learning_rate = self.config.learning_rate
        if self.config.anneal:
            learning_rate *= 1 - self.updates / self.settings.num_updates
        if not self.network.recurrent:
            data = {name: column.reshape(1, -1, *column.shape[2:]) for name, column in data.items()}
        sequences = data["action"].shape[1]
        size = sequences // self.config.minibatches
        for key in jax.random.split(k_epochs, self.config.epochs):
            order = np.asarray(jax.random.permutation(key, sequences))
            for start in range(0, sequences, size):
                which = order[start : start + size]
                rows = {name: column[:, which] for name, column in data.items()}
                part = jax.tree.map(lambda x, which=which: x[which], memory)
                self.params = self.adam.descend(self.params, self.gradient(self.params, part, rows), learning_rate)
        self.bonus.learn(k_bonus)
        self.updates += 1

    def act(self, key: jax.Array) -> dict[str, np.ndarray]:
        """Columns [T, N, ...] of a rollout, with advantages and targets."""
        k_worlds, k_steps = jax.random.split(key)
        worlds = self.env.worlds(k_worlds)
        steps = [self.step(k_step, worlds) for k_step in jax.random.split(k_steps, self.settings.num_steps)]
        data = {name: np.stack([step[name] for step in steps]) for name in steps[0]}
        last = dense(self.obs, self.env.layout)
        ended = data["terminated"] | data["truncated"]
        bonus = self.bonus.reward(data["obs"], last, data["action"], ended)
        return self.with_advantages(data, bonus)

    def step(self, key: jax.Array, worlds: Any) -> dict[str, np.ndarray]:
        k_act, k_env = jax.random.split(key)
        obs, is_first = dense(self.obs, self.env.layout), self.is_first
        self.memory, log_probs, values = self.evaluate(obs, is_first)
        action = jax.random.categorical(k_act, log_probs)
        self.env_state, after = self.env.step(k_env, self.env_state, worlds, action)
        self.obs, self.is_first = after.obs, np.asarray(after.terminated | after.truncated)
        led_to = dense(after.next_obs, self.env.layout)
        return {
            "obs": obs,
            "is_first": is_first,
            "action": np.asarray(action),
            "log_prob": np.asarray(log_probs)[np.arange(len(action)), action],
            "value": np.asarray(values),
            "reward": np.asarray(after.reward),
            "terminated": np.asarray(after.terminated),
            "truncated": np.asarray(after.truncated),
            "value_led_to": np.asarray(self.evaluate(led_to, np.zeros_like(is_first))[2]),
            "value_next": np.asarray(self.evaluate(dense(self.obs, self.env.layout), self.is_first)[2]),
        }

    def evaluate(self, obs: np.ndarray, is_first: np.ndarray) -> tuple[Any, jax.Array, jax.Array]:
        memory, log_probs, values = self.unroll(self.params, self.memory, obs[None], is_first[None])
        return memory, log_probs[0], values[0]

    def with_advantages(self, data: dict[str, np.ndarray], bonus: np.ndarray) -> dict[str, np.ndarray]:
        """`value_led_to` is of what each action led to, before any reset, `value_next` of what was seen next."""
        decay = self.config.gae_lambda
        advantage = np.zeros_like(data["value"])
        for k, stream in enumerate(self.bonus.streams):
            later = np.zeros(self.settings.num_envs, np.float32)
            for t in reversed(range(self.settings.num_steps)):
                terminated, truncated = data["terminated"][t], data["truncated"][t]
                following = np.where(terminated, 0, data["value_led_to"][t][:, k])
                ended = terminated | truncated
                if not stream.ends_with_episode:
                    following, ended = data["value_next"][t][:, k], np.zeros_like(ended)
                reward = stream.of_game * data["reward"][t] + stream.of_bonus * bonus[t]
                error = reward + stream.gamma * following - data["value"][t][:, k]
                later = error + stream.gamma * decay * np.where(ended, 0, later)
                advantage[t][:, k] = later
        return {**data, "advantage": advantage, "target": advantage + data["value"]}


def loss(
    unroll: Any, weights: tuple[float, ...], config: PPOConfig, params: Any, memory: Any, rows: dict[str, jax.Array]
) -> jax.Array:
    _, log_probs, value = unroll(params, memory, rows["obs"], rows["is_first"])
    log_prob = (log_probs * (rows["action"][..., None] == jnp.arange(log_probs.shape[-1]))).sum(-1)
    advantage = sum(weight * rows["advantage"][..., k] for k, weight in enumerate(weights))
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    ratio = jnp.exp(log_prob - rows["log_prob"])
    inside = jnp.minimum(jnp.maximum(ratio, 1 - config.clip), 1 + config.clip)
    gain = jnp.minimum(ratio * advantage, inside * advantage).mean()
    change = jnp.minimum(jnp.maximum(value - rows["value"], -config.clip), config.clip)
    error = jnp.maximum((value - rows["target"]) ** 2, (rows["value"] + change - rows["target"]) ** 2)
    spread = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
    return -gain + config.value * sum(error[..., k].mean() for k in range(len(weights))) / 2 - config.entropy * spread
