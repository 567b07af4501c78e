"""The first layer on packed observations: a dense layer on the one-hot observation that is never made.

Its kernel is that of a dense layer [size, H] whose map rows are stored by channel, `[channels, tiles, H]`: what one
channel (grass, say) contributes at every tile lies together, so that the channels which a rollout shows can be cut out
as whole slabs. `from_dense` and `to_dense` convert.

Two ways to compute the same product, chosen by measurement per device (`calibrate.py`):

gather    add up the rows that each tile's code and each mob name: about 300 of 8,268 rows for an observation.
product   multiply the multi-hot map of the given channels with the kernel, one matrix product.

The gradient with respect to the kernel is always the product, over the given channels only: with the two dozen channels
that a Craftax floor shows, it costs less than a third of the dense layer's.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from env_core.observation import EMPTY_MOB, Layout, Packed

Forward = Literal["gather", "product"]
FORWARDS: tuple[Forward, ...] = get_args(Forward)
_NOWHERE = np.int32(2**30)  # a row outside every kernel: gathers as zero


class Kernel(NamedTuple):
    """`map` float32 [channels, tiles, H] and `scalar` float32 [scalars, H]: the rows of a dense kernel, regrouped."""

    map: jax.Array
    scalar: jax.Array


def from_dense(kernel: jax.Array, layout: Layout) -> Kernel:
    """A dense kernel [size, H], in the order of the environment's own observation → `Kernel`. `to_dense` undoes it."""
    tiles = kernel[: layout.map_size].reshape(layout.tiles, layout.channels, -1)
    return Kernel(jnp.swapaxes(tiles, 0, 1), kernel[layout.map_size :])


def to_dense(kernel: Kernel, layout: Layout) -> jax.Array:
    """`Kernel` → the dense kernel [size, H] that gives the same output on the environment's own observation."""
    tiles = jnp.swapaxes(kernel.map, 0, 1).reshape(layout.map_size, -1)
    return jnp.concatenate([tiles, kernel.scalar])


def all_channels(layout: Layout) -> NDArray[np.int32]:
    return np.arange(layout.channels, dtype=np.int32)


def shown(obs: Packed, layout: Layout) -> jax.Array:
    """bool [channels]: which channels any of the observations [..., B] lights."""
    codes = jnp.zeros(layout.codes, bool).at[obs.tile.reshape(-1)].set(True)
    from_tiles = (codes[:, None] & (layout.code_bits > 0)).any(0)
    return from_tiles.at[_mob_channels(obs, layout).reshape(-1)].set(True, mode="drop")


def _mob_channels(obs: Packed, layout: Layout) -> jax.Array:
    """int32 [..., slots]: each mob's channel of the layout, past the last one where the slot is empty."""
    code = obs.mob.astype(jnp.int32)
    return jnp.where(code == EMPTY_MOB, layout.channels, layout.first_mob_channel + code % layout.mob_channels)


def multihot(obs: Packed, channels: jax.Array, layout: Layout) -> jax.Array:
    """float32 [P, B, tiles]: which tiles of each observation [B] light each of the P `channels`."""
    lit = jnp.asarray(layout.code_bits, jnp.float32).T[channels]  # [P, codes]
    tiles = lit[:, obs.tile.astype(jnp.int32)]
    slot = _slot_of_channel(channels, layout)[_mob_channels(obs, layout)]
    tile = obs.mob.astype(jnp.int32) // layout.mob_channels
    row = jnp.arange(obs.tile.shape[0])[:, None]
    return tiles.at[slot, row, tile].set(1.0, mode="drop")


def _slot_of_channel(channels: jax.Array, layout: Layout) -> jax.Array:
    """int32 [layout.channels + 1]: where each channel of the layout stands in `channels`; past the end if it does not,
    as the last entry, which is no channel."""
    absent = jnp.full(layout.channels + 1, channels.shape[0], jnp.int32)
    return absent.at[channels].set(jnp.arange(channels.shape[0], dtype=jnp.int32))


def _gathered(kernel: Kernel, obs: Packed, channels: jax.Array, layout: Layout) -> jax.Array:
    slot = _slot_of_channel(channels, layout)
    count, tiles, width = kernel.map.shape
    rows = kernel.map.reshape(count * tiles, width)

    def row(slot: jax.Array, tile: jax.Array) -> jax.Array:
        return jnp.where(slot < count, slot * tiles + tile, _NOWHERE)

    lit = slot[jnp.asarray(layout.code_channels)]  # -1, no channel, reads the last entry: absent
    by_tile = row(lit[obs.tile.astype(jnp.int32)], jnp.arange(tiles)[:, None]).reshape(obs.tile.shape[0], -1)
    by_mob = row(slot[_mob_channels(obs, layout)], obs.mob.astype(jnp.int32) // layout.mob_channels)
    return _add_rows(obs.scalar @ kernel.scalar, rows, jnp.concatenate([by_tile, by_mob], 1))


def _add_rows(total: jax.Array, rows: jax.Array, index: jax.Array) -> jax.Array:
    """total [B, H] plus the `rows` that `index` int32 [B, R] names; those outside count as zero."""

    def add(total: jax.Array, index: jax.Array) -> tuple[jax.Array, None]:
        return total + rows.at[index].get(mode="fill", fill_value=0), None

    return jax.lax.scan(add, total, index.T, unroll=8)[0]


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def apply(kernel: Kernel, obs: Packed, channels: jax.Array, layout: Layout, forward: Forward) -> jax.Array:
    """float32 [B, H]: the dense layer (without bias) on observations [B].

    `channels` int32 [P] says which channels of the layout `kernel.map` [P, tiles, H] holds; what the observations show
    beside them counts as zero. The gradient with respect to `kernel` has its shapes; observations have none.
    """
    if forward == "gather":
        return _gathered(kernel, obs, channels, layout)
    return _product(kernel, obs, channels, layout)


def _product(kernel: Kernel, obs: Packed, channels: jax.Array, layout: Layout) -> jax.Array:
    return jnp.einsum("pbt,pth->bh", multihot(obs, channels, layout), kernel.map) + obs.scalar @ kernel.scalar


def _forward(
    kernel: Kernel, obs: Packed, channels: jax.Array, layout: Layout, forward: Forward
) -> tuple[jax.Array, tuple[Packed, jax.Array]]:
    return apply(kernel, obs, channels, layout, forward), (obs, channels)


def _backward(
    layout: Layout, _: Forward, saved: tuple[Packed, jax.Array], gradient: jax.Array
) -> tuple[Kernel, None, None]:
    obs, channels = saved
    by_channel = jnp.einsum("pbt,bh->pth", multihot(obs, channels, layout), gradient)
    return Kernel(by_channel, obs.scalar.T @ gradient), None, None


apply.defvjp(_forward, _backward)
