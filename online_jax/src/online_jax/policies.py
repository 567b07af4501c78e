"""Policies: pure functions, feed-forward and recurrent in one form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from online_jax import narrowing
from online_jax.narrowing import Narrowing
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
    """(params, memory, obs [L, M, ...], is_first [L, M]) -> (memory, PolicyOutput [L, M, ...])"""
    recurrent: bool
    """whether learning needs whole sequences"""
    narrowing: Narrowing
    """which part of the parameters a rollout can change"""


def feed_forward(encoder: Encoder, towers: Towers) -> Policy:
    """Acts on the present observation alone: encoder → actor and critic."""

    def init(key: jax.Array) -> dict[str, Any]:
        first, second = jax.random.split(key)
        return {"encoder": encoder.init(first), "towers": towers.init(second, jnp.zeros((1, encoder.features)))}

    def unroll_with(encode: Callable[..., jax.Array]) -> Callable[..., Any]:
        def unroll(params: Any, memory: Any, obs: Any, is_first: jax.Array) -> tuple[Any, PolicyOutput]:
            flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), obs)
            outputs: Any = towers.apply(params["towers"], encode(params["encoder"], flat))
            shaped = (x.reshape(*is_first.shape, -1) for x in outputs)
            return memory, PolicyOutput(*shaped)

        return unroll

    return Policy(
        init=init,
        initial_memory=lambda num_envs: (),
        unroll=unroll_with(encoder.apply),
        recurrent=False,
        narrowing=narrowing.of_encoder(encoder, unroll_with),
    )


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
