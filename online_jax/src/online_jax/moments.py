"""Running mean and variance, merged batch by batch (Chan et al. 1979), so that float32 lasts for any number of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Moments(NamedTuple):
    """Of any number of quantities at once, an array or a pytree of arrays."""

    count: jax.Array  # type: ignore[assignment]  # shadows tuple.count
    """float32: observations so far"""
    mean: Any
    squares: Any
    """sum of squared differences from the mean"""


def nothing_seen(like: Any) -> Moments:
    """Before the first observation; `like` is one observation."""
    zero = jax.tree.map(lambda x: jnp.zeros(jnp.shape(x), jnp.float32), like)
    return Moments(jnp.float32(0), zero, zero)


def of_batch(values: jax.Array) -> Moments:
    """Of an array's values along its first axis."""
    mean = values.mean(0)
    return Moments(jnp.float32(len(values)), mean, ((values - mean) ** 2).sum(0))


def merge(one: Moments, other: Moments) -> Moments:
    """Those of both together."""
    count = one.count + other.count
    share = other.count / jnp.maximum(count, 1)
    mean = jax.tree.map(lambda a, b: a + (b - a) * share, one.mean, other.mean)
    squares = jax.tree.map(
        lambda a, b, mean_a, mean_b: a + b + (mean_b - mean_a) ** 2 * one.count * share,
        one.squares,
        other.squares,
        one.mean,
        other.mean,
    )
    return Moments(count, mean, squares)


def deviation(moments: Moments) -> Any:
    """Standard deviation of each quantity; 0 before the first observation."""
    return jax.tree.map(lambda squares: jnp.sqrt(squares / jnp.maximum(moments.count, 1)), moments.squares)
