"""Policies: pure functions, feed-forward and recurrent in one form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from online_jax.memory import Memory
from online_jax.networks import Encoder, Towers


class PolicyOutput(NamedTuple):
    logits: jax.Array
    """float32 [..., A], of a categorical distribution over actions"""
    values: jax.Array
    """float32 [..., K], one per reward stream"""


class Policy(NamedTuple):
    init: Callable[..., Any]
    """(key) -> params"""
    initial_memory: Callable[..., Any]
    """(num_envs) -> memory, () when feed-forward"""
    unroll: Callable[..., Any]
    """(params, memory, obs [L, M, ...], is_first [L, M], channels=None) -> (memory, PolicyOutput [L, M, ...]);
    `channels` as in `narrowing.choose`"""
    recurrent: bool
    """whether learning needs whole sequences"""


def actor_critic(encoder: Encoder, memory: Memory, towers: Towers) -> Policy:
    """Observation → encoder → memory (maybe `memory.nothing`) → actor and critic."""

    def init(key: jax.Array) -> dict[str, Any]:
        k_encoder, k_towers, k_memory = jax.random.split(key, 3)
        params = {"encoder": encoder.init(k_encoder), "memory": memory.init(k_memory)}
        features = jax.eval_shape(
            lambda params: memory.unroll(
                params, memory.initial(1), jnp.zeros((1, 1, encoder.features)), jnp.ones((1, 1), bool)
            )[1],
            params["memory"],
        )
        return {**params, "towers": towers.init(k_towers, jnp.zeros(features.shape))}

    def unroll(
        params: Any, state: Any, obs: Any, is_first: jax.Array, channels: jax.Array | None = None
    ) -> tuple[Any, PolicyOutput]:
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), obs)
        features = encoder.apply(params["encoder"], flat, channels).reshape(*is_first.shape, -1)
        state, features = memory.unroll(params["memory"], state, features, is_first)
        outputs: Any = towers.apply(params["towers"], features.reshape(-1, features.shape[-1]))
        return state, PolicyOutput(*(x.reshape(*is_first.shape, -1) for x in outputs))

    return Policy(init, memory.initial, unroll, memory.recurrent)


def act(policy: Policy, params: Any, memory: Any, obs: Any, is_first: jax.Array) -> tuple[Any, PolicyOutput]:
    """One step of `unroll`: observations [N, ...] -> (memory, PolicyOutput [N, ...])."""
    memory, output = policy.unroll(params, memory, jax.tree.map(lambda x: x[None], obs), is_first[None])
    return memory, jax.tree.map(lambda x: x[0], output)


def log_prob(logits: jax.Array, action: jax.Array) -> jax.Array:
    """Log-probability of `action` int [...] under logits [..., A]."""
    return jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], -1)[..., 0]


def entropy(logits: jax.Array) -> jax.Array:
    """Entropy in nats of the categorical distributions [..., A]."""
    return -(jax.nn.softmax(logits) * jax.nn.log_softmax(logits)).sum(-1)
