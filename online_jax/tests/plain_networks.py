"""Networks for `plain_ppo`: layers as pairs of kernel and bias, made out of the parameters of those they are compared
with."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from env_core.observation import Layout, decode
from online_jax.config import PPOConfig
from online_jax.first_layer import Kernel, to_dense

Layers = list[tuple[jax.Array, jax.Array]]
"""Kernel and bias of each layer."""


def dense(obs: Any, layout: Layout) -> np.ndarray:
    """float32 [N, size]"""
    return decode(jax.tree.map(np.asarray, obs), layout)


def first_of(encoder: Any, layout: Layout) -> tuple[jax.Array, jax.Array]:
    return to_dense(Kernel(encoder["map"], encoder["scalar"]), layout), encoder["bias"]


def layers_of(module: Any) -> Layers:
    return [(module[name]["kernel"], module[name]["bias"]) for name in sorted(module)]


def through(layers: Layers, x: jax.Array, squash: Any) -> jax.Array:
    *hidden, (kernel, bias) = layers
    for weights, shift in hidden:
        x = squash(x @ weights + shift)
    return x @ kernel + bias


def relu(x: jax.Array) -> jax.Array:
    return x * (x > 0)


def log_probs_of(logits: jax.Array) -> jax.Array:
    largest = logits.max(axis=-1, keepdims=True)
    return logits - largest - jnp.log(jnp.exp(logits - largest).sum(axis=-1, keepdims=True))


class TwoTowers:
    """Actor and critic, each with all its layers, tanh."""

    recurrent = False

    def __init__(self, params: Any, layout: Layout) -> None:
        self.params = self.of(params, layout)

    @staticmethod
    def of(params: Any, layout: Layout) -> dict[str, Layers]:
        kernel, bias = first_of(params["encoder"], layout)
        width = len(bias) // 2
        halves = {"actor": slice(0, width), "critic": slice(width, None)}
        towers = params["towers"]["params"]
        return {name: [(kernel[:, half], bias[half]), *layers_of(towers[name])] for name, half in halves.items()}

    @staticmethod
    def unroll(params: dict[str, Layers], memory: Any, obs: jax.Array, is_first: jax.Array) -> Any:
        """obs [L, M, size] → memory, log-probabilities [L, M, A] and values [L, M, K]."""
        log_probs = log_probs_of(through(params["actor"], obs, jnp.tanh))
        return memory, log_probs, through(params["critic"], obs, jnp.tanh)


class Recurrent:
    """One relu layer, a GRU, and then actor and critic, relu."""

    recurrent = True

    def __init__(self, params: Any, layout: Layout) -> None:
        self.params = self.of(params, layout)

    @staticmethod
    def of(params: Any, layout: Layout) -> dict[str, Any]:
        towers = params["towers"]["params"]
        return {
            "first": first_of(params["encoder"], layout),
            "gru": params["memory"],
            "actor": layers_of(towers["actor"]),
            "critic": layers_of(towers["critic"]),
        }

    @staticmethod
    def unroll(params: dict[str, Any], memory: jax.Array, obs: jax.Array, is_first: jax.Array) -> Any:
        gru, width, outputs = params["gru"], memory.shape[-1], []
        kernel, bias = params["first"]
        for x, new in zip(relu(obs @ kernel + bias), is_first, strict=True):
            memory = memory * (1 - new[:, None])
            given, recalled = x @ gru["input"] + gru["input_bias"], memory @ gru["recurrent"]
            reset, keep = (
                1 / (1 + jnp.exp(-given[:, gate] - recalled[:, gate]))
                for gate in (slice(0, width), slice(width, 2 * width))
            )
            proposal = jnp.tanh(given[:, 2 * width :] + reset * (recalled[:, 2 * width :] + gru["recurrent_bias"]))
            memory = keep * memory + (1 - keep) * proposal
            outputs.append(memory)
        features = jnp.stack(outputs)
        log_probs = log_probs_of(through(params["actor"], features, relu))
        return memory, log_probs, through(params["critic"], features, relu)


class Adam:
    """By hand, on a gradient whose norm is limited."""

    def __init__(self, params: Any, config: PPOConfig) -> None:
        self.config, self.steps = config, 0
        self.mean = jax.tree.map(jnp.zeros_like, params)
        self.square = jax.tree.map(jnp.zeros_like, params)

    def descend(self, params: Any, gradient: Any, learning_rate: float) -> Any:
        self.steps += 1
        norm = np.sqrt(sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(gradient)))
        gradient = jax.tree.map(lambda leaf: leaf * min(1.0, self.config.max_grad_norm / norm), gradient)
        self.mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, self.mean, gradient)
        self.square = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, self.square, gradient)
        first, second = 1 - 0.9**self.steps, 1 - 0.999**self.steps
        return jax.tree.map(
            lambda w, m, v: w - learning_rate * (m / first) / (jnp.sqrt(v / second) + self.config.adam_eps),
            params,
            self.mean,
            self.square,
        )
