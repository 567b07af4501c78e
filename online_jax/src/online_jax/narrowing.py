"""Learning on the part of the first layer that a rollout can change.

Most of the 83 map channels of a Craftax observation belong to floors that an agent has yet to see. A channel that no
observation has lit has a zero gradient, hence zero moments, hence does not move: Adam on the others alone gives the
same parameters. So `learn` cuts the live channels out of the parameters and of the optimiser's state, works on those,
and pastes them back. Live are the channels that the rollout shows, and those that the optimiser still moves.

This holds for any optimiser that leaves a parameter alone whose gradient and state are zero (not for weight decay).
The number of channels is a shape, so there is a compiled program for each of a few sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from online_jax.networks import Encoder

SIZES = (20, 24, 32, 48, 64)


class Part(NamedTuple):
    """One cut: `unroll` is the policy's on what `cut` leaves of its parameters."""

    unroll: Callable[..., Any]
    cut: Callable[..., Any]
    """(tree) -> tree: of parameters, optimiser states or both"""
    paste: Callable[..., Any]
    """(whole, part) -> whole, with the part in its place"""


class Narrowing(NamedTuple):
    sizes: tuple[int, ...]
    """Numbers of channels that can be cut out, ascending; the last one is all of them."""
    live: Callable[..., jax.Array]
    """(opt_state, obs [..., B, ...]) -> bool [channels]"""
    part: Callable[..., Part]
    """(live, size) -> Part with the live channels, which must not be more than `size`"""

    def size(self, live: int) -> int:
        """The smallest of `sizes` that holds `live` channels."""
        return next(size for size in self.sizes if size >= live)


def of_encoder(encoder: Encoder, unroll_with: Callable[..., Any]) -> Narrowing:
    """Narrows the parameter `map` of an encoder; `unroll_with(encode)` makes a policy's unroll with an encoder."""

    def live(opt_state: Any, obs: Any) -> jax.Array:
        moving = [(leaf != 0).any((1, 2)) for path, leaf in jax.tree.leaves_with_path(opt_state) if _is_map(path)]
        return reduce(jnp.logical_or, moving, encoder.shown(obs))

    def part(live: jax.Array, size: int) -> Part:
        if size == encoder.channels:
            return everything
        channels = jnp.sort(jnp.argsort(~live, stable=True)[:size]).astype(jnp.int32)
        return Part(
            unroll_with(lambda params, obs: encoder.apply(params, obs, channels)),
            lambda tree: _at_map(lambda leaf: leaf[channels], tree),
            lambda whole, part: _at_map(
                lambda leaf, new: leaf.at[channels].set(new), whole, part, other=lambda _, new: new
            ),
        )

    everything = Part(unroll_with(encoder.apply), lambda tree: tree, lambda whole, part: part)
    return Narrowing((*(size for size in SIZES if size < encoder.channels), encoder.channels), live, part)


def off(narrowing: Narrowing) -> Narrowing:
    """The same with all channels always."""
    return narrowing._replace(sizes=narrowing.sizes[-1:])


def _is_map(path: tuple[Any, ...]) -> bool:
    return [getattr(step, "key", None) for step in path[-2:]] == ["encoder", "map"]


def _at_map(
    change: Callable[..., jax.Array],
    tree: Any,
    *others: Any,
    other: Callable[..., Any] = lambda leaf, *_: leaf,
) -> Any:
    """`change` on the leaves of `encoder.map`, `other` on the rest."""
    return jax.tree.map_with_path(
        lambda path, leaf, *rest: (change if _is_map(path) else other)(leaf, *rest), tree, *others
    )
