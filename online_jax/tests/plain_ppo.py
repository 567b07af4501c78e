"""PPO once more, as plainly as it can be written: a dense network on the whole observation, loops, and Adam by hand.

It is here to be compared with `online_jax.ppo`: it shares no code with it, and makes the same random draws.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from env_core.observation import Layout, decode
from online_jax.config import PPOConfig
from online_jax.first_layer import Kernel, to_dense

Tower = list[tuple[jax.Array, jax.Array]]
"""Kernel and bias of each layer."""


class PlainPPO:
    """`params` are those of `policies.feed_forward`; they are turned into two towers of dense layers."""

    def __init__(self, env: Any, config: PPOConfig, num_envs: int, num_steps: int, num_updates: int, key: Any) -> None:
        self.env, self.config, self.num_steps, self.num_updates = env, config, num_steps, num_updates
        self.num_envs, self.key = num_envs, key
        self.gradient_steps = 0

    def start(self, params: Any, env_state: Any, obs: Any) -> None:
        self.towers = towers_of(params, self.env.layout)
        self.mean = jax.tree.map(jnp.zeros_like, self.towers)
        self.square = jax.tree.map(jnp.zeros_like, self.towers)
        self.env_state, self.obs = env_state, obs

    def update(self) -> None:
        """Acts for `num_steps`, then learns for `epochs`."""
        self.key, k_collect = jax.random.split(self.key)
        data = self.act(k_collect)
        self.key, k_epochs, _ = jax.random.split(self.key, 3)
        learning_rate = self.config.learning_rate
        if self.config.anneal:
            per_update = self.config.epochs * self.config.minibatches
            learning_rate *= 1 - self.gradient_steps // per_update / self.num_updates
        size = len(data["action"]) // self.config.minibatches
        for key in jax.random.split(k_epochs, self.config.epochs):
            order = np.asarray(jax.random.permutation(key, len(data["action"])))
            for start in range(0, len(order), size):
                rows = {name: column[order[start : start + size]] for name, column in data.items()}
                self.descend(rows, learning_rate)

    def act(self, key: jax.Array) -> dict[str, np.ndarray]:
        """Columns [T * N, ...] of a rollout, with advantages and targets."""
        k_worlds, k_steps = jax.random.split(key)
        worlds = self.env.worlds(k_worlds)
        steps = []
        for k_step in jax.random.split(k_steps, self.num_steps):
            k_act, k_env = jax.random.split(k_step)
            dense = self.dense(self.obs)
            log_probs, value = jitted_evaluate(self.towers, dense)
            action = jax.random.categorical(k_act, log_probs)
            self.env_state, after = self.env.step(k_env, self.env_state, worlds, action)
            log_prob = np.asarray(log_probs)[np.arange(self.num_envs), action]
            _, next_value = jitted_evaluate(self.towers, self.dense(after.next_obs))
            steps.append(
                {
                    "obs": dense,
                    "action": np.asarray(action),
                    "log_prob": log_prob,
                    "value": np.asarray(value),
                    "reward": np.asarray(after.reward),
                    "terminated": np.asarray(after.terminated),
                    "truncated": np.asarray(after.truncated),
                    "next_value": np.asarray(next_value),
                }
            )
            self.obs = after.obs
        return self.with_advantages({name: np.stack([step[name] for step in steps]) for name in steps[0]})

    def with_advantages(self, data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """`next_value` is of what each action led to, before any reset."""
        gamma, decay = self.config.gamma, self.config.gae_lambda
        advantage = np.zeros_like(data["value"])
        later = np.zeros(self.num_envs, np.float32)
        for t in reversed(range(self.num_steps)):
            alive, ended = ~data["terminated"][t], data["terminated"][t] | data["truncated"][t]
            error = data["reward"][t] + gamma * alive * data["next_value"][t] - data["value"][t]
            later = error + gamma * decay * np.where(ended, 0, later)
            advantage[t] = later
        data = {**data, "advantage": advantage, "target": advantage + data["value"]}
        return {name: column.reshape(-1, *column.shape[2:]) for name, column in data.items()}

    def descend(self, rows: dict[str, np.ndarray], learning_rate: float) -> None:
        """One step of Adam on the clipped gradient."""
        self.gradient_steps += 1
        gradient = jitted_gradient(self.towers, rows, self.config)
        norm = np.sqrt(sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(gradient)))
        gradient = jax.tree.map(lambda leaf: leaf * min(1.0, self.config.max_grad_norm / norm), gradient)
        self.mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, self.mean, gradient)
        self.square = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, self.square, gradient)
        first, second = 1 - 0.9**self.gradient_steps, 1 - 0.999**self.gradient_steps
        self.towers = jax.tree.map(
            lambda w, m, v: w - learning_rate * (m / first) / (jnp.sqrt(v / second) + self.config.adam_eps),
            self.towers,
            self.mean,
            self.square,
        )

    def dense(self, obs: Any) -> np.ndarray:
        return decode(jax.tree.map(np.asarray, obs), self.env.layout)


def towers_of(params: Any, layout: Layout) -> dict[str, Tower]:
    """Actor and critic as dense layers, out of the parameters of the policy that is compared."""
    encoder, towers = params["encoder"], params["towers"]["params"]
    first = to_dense(Kernel(encoder["map"], encoder["scalar"]), layout)
    width = first.shape[1] // 2
    halves = {"actor": slice(0, width), "critic": slice(width, None)}
    return {
        name: [(first[:, half], encoder["bias"][half])]
        + [(towers[name][layer]["kernel"], towers[name][layer]["bias"]) for layer in sorted(towers[name])]
        for name, half in halves.items()
    }


def through(tower: Tower, x: jax.Array) -> jax.Array:
    *hidden, (kernel, bias) = tower
    for weights, shift in hidden:
        x = jnp.tanh(x @ weights + shift)
    return x @ kernel + bias


def evaluate(towers: dict[str, Tower], obs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log-probabilities [B, A] and values [B]."""
    logits = through(towers["actor"], obs)
    largest = logits.max(axis=1, keepdims=True)
    log_sum = largest + jnp.log(jnp.exp(logits - largest).sum(axis=1, keepdims=True))
    return logits - log_sum, through(towers["critic"], obs)[:, 0]


def loss(towers: dict[str, Tower], rows: dict[str, jax.Array], config: PPOConfig) -> jax.Array:
    log_probs, value = evaluate(towers, rows["obs"])
    log_prob = log_probs[jnp.arange(len(rows["action"])), rows["action"]]
    advantage = (rows["advantage"] - rows["advantage"].mean()) / (rows["advantage"].std() + 1e-8)
    ratio = jnp.exp(log_prob - rows["log_prob"])
    inside = jnp.minimum(jnp.maximum(ratio, 1 - config.clip), 1 + config.clip)
    gain = jnp.minimum(ratio * advantage, inside * advantage).mean()
    change = jnp.minimum(jnp.maximum(value - rows["value"], -config.clip), config.clip)
    error = jnp.maximum((value - rows["target"]) ** 2, (rows["value"] + change - rows["target"]) ** 2)
    spread = -(jnp.exp(log_probs) * log_probs).sum(axis=1).mean()
    return -gain + config.value * error.mean() / 2 - config.entropy * spread


jitted_evaluate = jax.jit(evaluate)
jitted_gradient = jax.jit(jax.grad(loss), static_argnums=2)
