"""Observations that are plain vectors, and networks that pass them on, so that bonuses can be worked out by hand."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from online_jax import normalising
from online_jax.config import TrainConfig, replaced
from online_jax.intrinsic import Experience, Ingredients, Transitions
from online_jax.networks import Encoder

SIZE = 2


def ingredients(**settings: Any) -> Ingredients:
    """Of a bonus on observations [B, 2]; `settings` by dotted name with `__` for the dot."""
    dotted = {name.replace("__", "."): value for name, value in settings.items()}
    return Ingredients(replaced(TrainConfig(), dotted), encoder, lambda on: normalising.off(), num_actions=2)


def encoder(width: int) -> Encoder:
    """relu(W x), W = identity at the start."""
    return Encoder(
        init=lambda key: {"kernel": jnp.eye(SIZE, width)},
        apply=lambda params, obs, channels=None: jax.nn.relu(obs @ params["kernel"]),
        features=width,
    )


def passing_on(layers: Any) -> Any:
    """An MLP's parameters that let what is not negative through: kernels are identities, biases zero."""
    return jax.tree.map(lambda x: jnp.eye(*x.shape) if x.ndim == 2 else jnp.zeros_like(x), layers)


def zeros(tree: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, tree)


def experience(obs: Any, last_obs: Any, action: Any = None, ended: Any = None) -> Experience:
    """obs [T][N][2], last_obs [N][2], action and ended [T][N] (zeros, if not given)."""
    steps = jnp.array(obs, jnp.float32)
    lead = steps.shape[:2]
    return Experience(
        steps,
        jnp.zeros(lead, jnp.int32) if action is None else jnp.array(action),
        jnp.zeros(lead, bool) if ended is None else jnp.array(ended, bool),
        jnp.array(last_obs, jnp.float32),
    )


def transitions(seed: int, count: int = 8, share_ended: float = 0.0) -> Transitions:
    """At random, [count]."""
    keys = jax.random.split(jax.random.PRNGKey(seed), 4)
    return Transitions(
        jax.random.normal(keys[0], (count, SIZE)),
        jax.random.bernoulli(keys[1], 0.5, (count,)).astype(jnp.int32),
        jax.random.normal(keys[2], (count, SIZE)),
        jax.random.bernoulli(keys[3], share_ended, (count,)),
    )


def at_random(seed: int, steps: int, envs: int, share_ended: float = 0.2) -> Experience:
    """A rollout at random, with ends of episodes here and there."""
    every = transitions(seed, steps * envs, share_ended)
    last = jax.random.normal(jax.random.PRNGKey(seed + 1), (envs, SIZE))
    return Experience(*(x.reshape(steps, envs, *x.shape[1:]) for x in (every.obs, every.action, every.ended)), last)


def same(found: Any, expected: Any) -> bool:
    """Bit for bit."""
    return jax.tree.all(jax.tree.map(lambda x, y: bool((jnp.asarray(x) == jnp.asarray(y)).all()), found, expected))
