"""The slot that an exploration bonus fills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax


class Experience(NamedTuple):
    """What a bonus is computed from; leaves [N, ...]. `next_obs` is what the action led to, never a reset one."""

    obs: Any
    action: jax.Array
    next_obs: Any
    terminated: jax.Array
    truncated: jax.Array


class IntrinsicReward(NamedTuple):
    """`learned` is what the bonus learns (networks, optimiser, statistics); `memory` belongs to the episodes."""

    init: Callable[..., Any]
    """(key, obs [N, ...]) -> (learned, memory)"""
    reward: Callable[..., Any]
    """(learned, memory, Experience [N]) -> (memory, reward float32 [N]); runs at every step of a rollout"""
    update: Callable[..., Any]
    """(learned, Rollout, key) -> (learned, metrics); runs once per update, after the policy has learnt"""
