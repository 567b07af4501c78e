"""What the device hands to the recorder: the kept environments' steps, and how their episodes ended.

A rollout holds each step's observation, but not the one at which an episode ends: the next row already shows a fresh
world. Those few are collected, in the order in which they happen, in a buffer beside the rollout. Only the first
`kept_envs` environments are kept; with none, every array here has size zero and costs nothing.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Endings(NamedTuple):
    """Episodes of the kept environments that ended so far in this rollout, by time, then environment."""

    obs: Any
    """[C, ...]: terminal observations"""
    next_world_key: jax.Array
    """uint32 [C, 2]: key of the world that the environment continued in"""
    num_endings: jax.Array
    """int32; more than C if the buffer was too small, which the recorder refuses"""


class Kept(NamedTuple):
    """A rollout of the k kept environments, for the recorder; time-major."""

    obs: Any
    """[T, k, ...]"""
    action: jax.Array
    """[T, k]"""
    log_prob: jax.Array
    """[T, k]"""
    values: jax.Array
    """[T, k, K]"""
    reward: jax.Array
    """[T, k], the environment's own"""
    bonus: jax.Array
    """[T, k], intrinsic"""
    terminated: jax.Array
    truncated: jax.Array
    endings: Endings
    is_first: jax.Array
    """[k], of the first step; so are the next two"""
    episode: jax.Array
    """int32 [k]: episodes that ended here before"""
    world_key: jax.Array
    """uint32 [k, 2]"""
    final_obs: Any
    """[k, ...]: after the last step"""


def no_endings(env: Any, obs: Any, kept_envs: int, num_steps: int) -> Endings:
    """An empty buffer for as many endings as a rollout can have.

    That is one per environment, of the episode that was under way, and the share of steps at which the environment says
    that later ones can end.
    """
    later = math.ceil(kept_envs * num_steps * env.max_ending_rate)
    capacity = min(kept_envs * num_steps, kept_envs + later)
    return Endings(
        jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape[1:]), x.dtype), obs),
        jnp.zeros((capacity, 2), jnp.uint32),
        jnp.int32(0),
    )


def add_endings(endings: Endings, ended: jax.Array, terminal_obs: Any, next_world_key: jax.Array) -> Endings:
    """Appends what ended at this step; all of the k kept environments, [k, ...]."""
    capacity = endings.next_world_key.shape[0]
    place = jnp.where(ended, endings.num_endings + jnp.cumsum(ended, dtype=jnp.int32) - 1, capacity)

    def put(buffer: jax.Array, values: jax.Array) -> jax.Array:
        return buffer.at[place].set(values, mode="drop")

    return Endings(
        jax.tree.map(put, endings.obs, terminal_obs),
        put(endings.next_world_key, next_world_key),
        endings.num_endings + ended.sum(dtype=jnp.int32),
    )


def first(kept_envs: int, tree: Any, axis: int = 0) -> Any:
    """The kept environments' part of a tree whose leaves have the environments on `axis`."""
    return jax.tree.map(lambda x: jax.lax.slice_in_dim(x, 0, kept_envs, axis=axis), tree)
