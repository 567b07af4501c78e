"""Learning on the part of the first layers that a rollout can change.

Most of the 83 map channels of a Craftax observation belong to floors that an agent has yet to see. A channel that no
observation has lit has a zero gradient, hence zero moments, hence does not move: Adam on the others alone gives the
same parameters. So `learn` cuts the channels seen so far out of the parameters and of the optimiser's state, works on
those, and pastes them back. The same is done for the networks of an exploration bonus.

This holds for any optimiser that leaves a parameter alone whose gradient and state are zero (not for weight decay).
The number of channels is a shape, so there is a compiled program for each of a few sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from env_core.observation import Layout
from online_jax import first_layer

SIZES = (20, 24, 32, 48, 64)


class Narrowing(NamedTuple):
    """Which numbers of channels there are programs for."""

    sizes: tuple[int, ...]
    """Ascending; the last one is all of the layout's channels (0 where observations have none)."""
    shown: Callable[..., jax.Array]
    """(obs [..., B, ...]) -> bool [channels]: those that the observations light"""

    @property
    def channels(self) -> int:
        return self.sizes[-1]

    def size(self, live: int) -> int:
        """The smallest of `sizes` that holds `live` channels."""
        return next(size for size in self.sizes if size >= live)

    def choose(self, live: jax.Array, size: int) -> jax.Array | None:
        """int32 [size]: all `live` channels, of which there must not be more, and others to fill up; None for all."""
        if size == self.channels:
            return None
        return jnp.sort(jnp.argsort(~live, stable=True)[:size]).astype(jnp.int32)


def on(layout: Layout) -> Narrowing:
    """For packed observations of `layout`."""
    sizes = (*(size for size in SIZES if size < layout.channels), layout.channels)
    return Narrowing(sizes, lambda obs: first_layer.shown(obs, layout))


def off(channels: int = 0) -> Narrowing:
    """All channels always; also for observations that have none."""
    return Narrowing((channels,), lambda obs: jnp.zeros(channels, bool))


def cut(tree: Any, channels: jax.Array | None) -> Any:
    """Parameters, optimiser states or both, with only `channels` of their maps."""
    return tree if channels is None else _at_map(lambda leaf: leaf[channels], tree)


def paste(whole: Any, part: Any, channels: jax.Array | None) -> Any:
    """`whole` with `part`, which was cut from it and has learnt, in its place."""
    if channels is None:
        return part
    return _at_map(lambda leaf, new: leaf.at[channels].set(new), whole, part, other=lambda _, new: new)


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
