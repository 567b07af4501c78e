"""The lossless packed form of a symbolic observation, and back (numpy only).

A Craftax observation is 33,072 bytes of float32, of which 331 say anything: one code per tile, at most 14 mobs, and
the scalars. `decode(encode(x)) == x` bit for bit, or `encode` raises; nothing is rounded or guessed.

    tile    uint8 [..., tiles]        0 = dark, else 1 + block * num_items + item (Classic: 1 + block, always lit)
    mob     uint16 [..., mob_slots]   tile * mob_channels + channel of each mob, ascending, then EMPTY_MOB
    scalar  float32 [..., scalars]    as the environment gives them

`encode_bits` and `decode_bits` do the same for any flat observation that begins with 0/1 values, eight to a byte.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from env_core.errors import ObservationError
from env_core.observation.layout import Layout

EMPTY_MOB = 0xFFFF

_ONE = np.uint32(0x3F800000)  # the bits of 1.0f
_BLOCK_BYTES = 1 << 20  # rows are worked on in blocks of about this size, which a core keeps in its cache


class Packed(NamedTuple):
    """One or many packed observations; a JAX pytree as it stands. Leading axes are free and the same in all three."""

    tile: Any
    mob: Any
    scalar: Any


class Bits(NamedTuple):
    """One or many observations whose leading 0/1 values are eight to a byte, the first in the lowest bit.

    bits uint8 [..., ceil(map_size / 8)], scalar float32 [..., size - map_size].
    """

    bits: Any
    scalar: Any


def encode(obs: NDArray[np.float32], layout: Layout) -> Packed:
    """float32 [..., layout.size] -> `Packed`.

    Raises `ObservationError`, naming the first offending observation and tile, for another dtype or size, a map value
    that is neither 0.0 nor 1.0, a tile that is neither dark nor one lit block (with one item), or too many mobs.
    """
    rows = _as_rows(obs, layout.size, layout.name)
    packed = Packed(
        np.empty((len(rows), layout.tiles), np.uint8),
        np.full((len(rows), layout.mob_slots), EMPTY_MOB, np.uint16),
        rows[:, layout.map_size :].copy(),
    )
    step = max(1, _BLOCK_BYTES // (4 * layout.size))
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        _encode_map(rows[block, : layout.map_size], layout, packed.tile[block], packed.mob[block], start)
    return Packed(*(part.reshape(*obs.shape[:-1], part.shape[-1]) for part in packed))


def decode(packed: Packed, layout: Layout, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """`Packed` -> float32 [..., layout.size], written into `out` where given (same shape, C-contiguous).

    Raises `ObservationError` for a misshapen part, an unknown tile or mob code, or an `out` that does not fit.
    """
    lead = check_packed(packed, layout)
    out = _check_out(out, (*lead, layout.size))
    rows, tile = _flat(out), _flat(packed.tile)
    table = layout.code_bits.astype(np.float32)
    for row, codes in zip(rows, tile, strict=True):
        # `clip` only spares numpy a temporary copy: the codes were checked
        table.take(codes, axis=0, out=row[: layout.map_size].reshape(layout.tiles, layout.channels), mode="clip")
    row_of, at, channel = placed_mobs(_flat(packed.mob), layout)
    rows[row_of, at * layout.channels + layout.first_mob_channel + channel] = 1.0
    rows[:, layout.map_size :] = _flat(packed.scalar)
    return out


def check_packed(packed: Packed, layout: Layout) -> tuple[int, ...]:
    """The leading axes of `packed`.

    Raises `ObservationError` for a misshapen part or an unknown tile code; `placed_mobs` looks at the mobs.
    """
    lead: tuple[int, ...] = packed.tile.shape[:-1]
    wanted = {
        "tile": (np.uint8, layout.tiles),
        "mob": (np.uint16, layout.mob_slots),
        "scalar": (np.float32, layout.scalars),
    }
    for part, (name, (dtype, size)) in zip(packed, wanted.items(), strict=True):
        if part.dtype != dtype or part.shape != (*lead, size):
            raise ObservationError(
                f"{name} of {layout.name} must be {np.dtype(dtype)} {[*lead, size]},"
                f" not {part.dtype} {list(part.shape)}"
            )
    if packed.tile.size and packed.tile.max() >= layout.codes:
        raise ObservationError(f"tile code {packed.tile.max()}: {layout.name} has codes 0 to {layout.codes - 1}")
    return lead


def placed_mobs(mob: NDArray[np.uint16], layout: Layout) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """For every mob of mob [B, mob_slots], in order: its row, its tile, and its number among `layout.mobs`.

    Raises `ObservationError` for an unknown code.
    """
    row, slot = np.nonzero(mob != EMPTY_MOB)
    tile, channel = np.divmod(mob[row, slot].astype(np.intp), layout.mob_channels)
    if tile.size and tile.max() >= layout.tiles:
        last = layout.tiles * layout.mob_channels - 1
        raise ObservationError(
            f"mob code {mob[row, slot].max()}: {layout.name} has codes 0 to {last}, and {EMPTY_MOB} for none"
        )
    return row, tile, channel


def encode_bits(obs: NDArray[np.float32], map_size: int) -> Bits:
    """float32 [..., size], whose first `map_size` values are 0.0 or 1.0 -> `Bits`.

    Raises `ObservationError` naming the first value that is neither, or for another dtype or size.
    """
    if obs.ndim == 0 or not 0 <= map_size <= obs.shape[-1]:
        raise ObservationError(f"map_size {map_size} does not fit observations of shape {list(obs.shape)}")
    rows = _as_rows(obs, obs.shape[-1], "bits/1")
    ones = np.empty((len(rows), map_size), bool)
    wrong = _read_ones(rows[:, :map_size], ones)
    if wrong is not None:
        row, at = wrong
        raise ObservationError(
            f"observation {row}, value {at} is {rows[row, at]}: the first {map_size} values must be 0.0 or 1.0"
            " to be packed as bits/1"
        )
    bits = np.packbits(ones, axis=1, bitorder="little")
    lead = obs.shape[:-1]
    return Bits(bits.reshape(*lead, bits.shape[1]), rows[:, map_size:].copy().reshape(*lead, rows.shape[1] - map_size))


def decode_bits(bits: Bits, map_size: int, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """`Bits` -> float32 [..., map_size + scalars], written into `out` where given (same shape, C-contiguous).

    Raises `ObservationError` where the parts do not fit `map_size` or each other.
    """
    num_bytes = (map_size + 7) // 8
    if bits.bits.dtype != np.uint8 or bits.bits.ndim == 0 or bits.bits.shape[-1] != num_bytes:
        raise ObservationError(
            f"bits must be uint8 [..., {num_bytes}] for a map of {map_size} values,"
            f" not {bits.bits.dtype} {list(bits.bits.shape)}"
        )
    if bits.scalar.shape[:-1] != bits.bits.shape[:-1] or bits.scalar.dtype != np.float32:
        raise ObservationError(
            f"scalar must be float32 with the leading axes of bits, {list(bits.bits.shape[:-1])},"
            f" not {bits.scalar.dtype} {list(bits.scalar.shape)}"
        )
    scalars = bits.scalar.shape[-1]
    out = _check_out(out, (*bits.bits.shape[:-1], map_size + scalars))
    rows = _flat(out)
    rows[:, :map_size] = np.unpackbits(_flat(bits.bits), axis=1, count=map_size, bitorder="little")
    rows[:, map_size:] = _flat(bits.scalar)
    return out


def _as_rows(obs: NDArray[np.float32], size: int, name: str) -> NDArray[np.float32]:
    if obs.dtype != np.float32 or obs.ndim == 0 or obs.shape[-1] != size:
        raise ObservationError(f"{name} packs float32 [..., {size}], not {obs.dtype} {list(obs.shape)}")
    return _flat(np.ascontiguousarray(obs))


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    """[..., n] as [B, n]; said in full because -1 cannot be worked out where n is 0."""
    return array.reshape(math.prod(array.shape[:-1]), array.shape[-1])


def _check_out(out: NDArray[np.float32] | None, shape: tuple[int, ...]) -> NDArray[np.float32]:
    if out is None:
        return np.empty(shape, np.float32)
    if out.shape != shape or out.dtype != np.float32 or not out.flags.c_contiguous:
        raise ObservationError(
            f"out must be C-contiguous float32 {list(shape)}, not {out.dtype} {list(out.shape)}"
            + ("" if out.flags.c_contiguous else ", not contiguous")
        )
    return out


def _read_ones(values: NDArray[np.float32], ones: NDArray[np.bool_]) -> tuple[int, int] | None:
    """Fills `ones` with where `values` [B, n] is 1.0; the (row, column) of the first that is neither 0.0 nor 1.0."""
    words = values.view(np.uint32)  # by bits: -0.0 and NaN must not pass for 0 or 1
    np.equal(words, _ONE, out=ones)
    if np.array_equal(words != 0, ones):
        return None
    row, at = np.argwhere((words != 0) != ones)[0]
    return int(row), int(at)


def _encode_map(
    values: NDArray[np.float32], layout: Layout, tile: NDArray[np.uint8], mob: NDArray[np.uint16], start: int
) -> None:
    """Packs the maps values [B, map_size] into `tile` and `mob`; `start` is the number of the first, for messages.

    The codes are read as if every map were well-formed; then the map that they mean must be the map that was given.
    """
    ones = np.empty(values.shape, bool)
    wrong = _read_ones(values, ones)
    if wrong is not None:
        row, at = wrong
        where = _place(layout, start + row, at // layout.channels)
        raise ObservationError(
            f"{where}, {layout.channel_name(at % layout.channels)} is {values[row, at]}: a map value is 0.0 or 1.0."
            f" {_ADVICE}"
        )
    grid = ones.reshape(-1, layout.tiles, layout.channels)
    _read_tiles(grid, layout, tile)
    placed = _read_mobs(grid, layout, mob, start)
    meant = layout.code_bits.take(tile, axis=0)
    meant.reshape(len(tile), -1)[placed] = 1
    if not np.array_equal(meant, grid.view(np.uint8)):
        row, at = np.argwhere((meant != grid).any(axis=2))[0]
        raise ObservationError(_explain(grid[row, at], layout, _place(layout, start + int(row), int(at))))


def _read_tiles(grid: NDArray[np.bool_], layout: Layout, tile: NDArray[np.uint8]) -> None:
    code = grid[..., : layout.num_blocks].argmax(axis=2)
    if layout.items:
        code *= layout.num_items
        code += grid[..., layout.num_blocks : layout.first_mob_channel].argmax(axis=2)
    code += 1
    if layout.has_light:
        code *= grid[..., -1]
    tile[:] = code


def _read_mobs(
    grid: NDArray[np.bool_], layout: Layout, mob: NDArray[np.uint16], start: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Fills `mob` [B, mob_slots]; returns the row and the map position of each mob."""
    first = layout.first_mob_channel
    shown = np.ascontiguousarray(grid[..., first : first + layout.mob_channels]).reshape(len(grid), -1)
    row, code = np.divmod(np.flatnonzero(shown), shown.shape[1])
    count = np.bincount(row, minlength=len(grid))
    if count.max(initial=0) > layout.mob_slots:
        crowded = int(np.argmax(count > layout.mob_slots))
        raise ObservationError(
            f"observation {start + crowded} shows {count[crowded]} mobs: {layout.name} has room for {layout.mob_slots}."
            f" {_ADVICE}"
        )
    slot = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    mob[row, slot] = code
    return row, (code // layout.mob_channels) * layout.channels + first + code % layout.mob_channels


_ADVICE = "Check that the observation is of this game; any observation with a 0/1 map can be stored as bits/1."


def _place(layout: Layout, row: int, tile: int) -> str:
    return f"observation {row}, tile {tile} (row {tile // layout.cols}, column {tile % layout.cols})"


def _explain(channels: NDArray[np.bool_], layout: Layout, where: str) -> str:
    """What is wrong with one tile's channels: the message of the error."""
    lit = [layout.channel_name(int(c)) for c in np.flatnonzero(channels)]
    expected = "nothing at all or light with one block and one item" if layout.has_light else "exactly one block"
    seen = ", ".join(lit) if lit else "nothing"
    return f"{where} shows {seen}: apart from mobs, {layout.name} shows {expected}. {_ADVICE}"
