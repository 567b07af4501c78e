"""Packed observation -> text: the one way in which this workspace tells a language model what a player sees.

Labelling, serving, online learning and play all call `describe`, so that a text means the same everywhere. It depends
on nothing but the observation, the form and this package; a changed word is a new `TEXT_VERSION`.

Places have one convention: **steps left or right, then steps up or down, from the player**, in words, without the part
that is zero: "2 left 1 up", "3 down", and "here" for the player's own tile. The distance is the sum of both. The words
are those of the actions that move. In the rows of the map, which say how far up or down they are, a tile's place is
"2 left", and "middle" in the player's own column. Commas part entries and stand nowhere else within a line.

Two forms:

- `full`: every tile of the map, then the notable ones (with a mob, an item or a block that is not in `words.BULK`)
  nearest first, then the status. Two observations have one text only if their tiles, mobs and quantities
  (`quantities.py`) agree.
- `interesting`: no map; every tile that is more than open ground, nearest first, and how many tiles there are of each
  kind of open ground (`words.OPEN_GROUND`, and unlit), then the status. What it does not tell: **where** each kind of
  open ground lies. It tells all else that `full` tells.
"""

from __future__ import annotations

import hashlib
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from env_core.errors import ConfigError, ObservationError, nearest
from env_core.observation import words
from env_core.observation.layout import CLASSIC, CRAFTAX, Layout
from env_core.observation.packed import EMPTY_MOB, Packed, check_packed, placed_mobs
from env_core.observation.pieces import Pieces, pieces
from env_core.observation.quantities import facing, facings, limits, quantities, scalars
from env_core.observation.status import status_texts

TEXT_VERSION = "craftax-text/1"
"""Changes with every change of a word; `text_sha256` is its proof."""

FORMS = ("full", "interesting")

_BLOCK = 1024  # observations are worked on so many at a time, which bounds memory


def describe(packed: Packed, layout: Layout, form: str = "full") -> list[str]:
    """The texts of `packed`, whose parts have one leading axis [B, ...]; `form` is one of `FORMS`.

    Raises `ObservationError` for a misshapen part, an unknown code or a scalar that means nothing, `LayoutError` for a
    game that is not known here, `ConfigError` for an unknown form.
    """
    if form not in FORMS:
        raise ConfigError(f"unknown form of text {form!r}. {nearest(form, FORMS)}")
    packed = Packed(*map(np.asarray, packed))
    lead = check_packed(packed, layout)
    if len(lead) != 1:
        raise ObservationError(
            f"texts are made of observations [B, ...], not of {[*lead, '...']}: give the parts one leading axis"
        )
    value = quantities(packed.scalar, layout)
    texts: list[str] = []
    for start in range(0, lead[0], _BLOCK):
        block = slice(start, start + _BLOCK)
        texts += _described(Packed(*(part[block] for part in packed)), value[block], layout, form)
    return texts


@cache
def text_sha256() -> str:
    """Hex digest of the texts of fixed observations, which use every word: what a fingerprint of the text consists of.

    Texts agree between two installations only if this and `TEXT_VERSION` do.
    """
    digest = hashlib.sha256(TEXT_VERSION.encode())
    for layout in (CRAFTAX, CLASSIC):
        for form in FORMS:
            for text in describe(specimens(layout), layout, form):
                digest.update(text.encode() + b"\0")
    return digest.hexdigest()


def specimens(layout: Layout) -> Packed:
    """Twelve observations that between them use every word: what `text_sha256` reads. They are not of play.

    Ten show all tiles, mobs and quantities; then one is all unlit, and one all stone, without a mob.
    """
    row = np.arange(12)[:, None]
    tile = (np.arange(layout.tiles) + layout.tiles * row) % layout.codes
    tile[10] = 0
    tile[11] = 1 + layout.blocks.index("stone") * max(1, layout.num_items)
    slot = np.arange(layout.mob_slots)
    # two mobs to a tile, of other kinds in every row
    mob = slot // 2 * 5 * layout.mob_channels + (slot + layout.mob_slots * row) % layout.mob_channels
    mob[10:] = EMPTY_MOB
    value = 7 * row % (np.minimum(limits(layout), 98) + 1)  # 7 is coprime to the number of values that have words
    value[:, facings(layout)] = np.eye(4)[row[:, 0] % 4]
    return Packed(tile.astype(np.uint8), np.sort(mob, axis=1).astype(np.uint16), scalars(value, layout))


def _described(packed: Packed, value: NDArray[np.float64], layout: Layout, form: str) -> list[str]:
    piece = pieces(layout)
    scene = _read(packed, layout, piece)
    own = [f"Your tile: {tile}\n" for tile in _tile_texts(scene, piece, np.array(piece.centre))]
    direction = facing(value, layout)
    ahead = _tile_texts(scene, piece, piece.ahead[direction])
    faced = [f"Facing {words.DIRECTIONS[way]}: {tile}\n" for way, tile in zip(direction.tolist(), ahead, strict=True)]
    status = status_texts(value, layout)
    if form == "full":
        near = _nearest_first(scene, piece, "Notable", piece.is_notable[scene.tile] | (scene.mobs > 0))
        parts = [_map_rows(scene, piece), own, faced, near, status]
    else:
        shown = (piece.open_kind[scene.tile] < 0) | (scene.mobs > 0)
        near = _nearest_first(scene, piece, "Around you", shown)
        parts = [own, faced, near, _open_ground(scene, piece, ~shown), status]
    return [piece.header + "".join(lines) for lines in zip(*parts, strict=True)]


class _Scene(NamedTuple):
    """The maps of B observations."""

    tile: NDArray[np.intp]
    """[B, tiles]: codes."""
    mobs: NDArray[np.intp]
    """[B, tiles]: which of `mob_texts` stands before the tile's name."""
    mob_texts: list[str]
    """"" for no mob, then "zombie on " and the like."""


def _read(packed: Packed, layout: Layout, piece: Pieces) -> _Scene:
    mob = np.sort(packed.mob, axis=1)
    mob[:, 1:][mob[:, 1:] == mob[:, :-1]] = EMPTY_MOB  # a mob that is said twice is there once
    row, tile, kind = placed_mobs(mob, layout)
    mobs = np.zeros(packed.tile.shape, np.intp)
    mobs[row, tile] = 1 + kind
    cell = row * layout.tiles + tile
    crowds: dict[int, list[str]] = {}
    for second in (1 + np.flatnonzero(cell[1:] == cell[:-1])).tolist():
        crowd = crowds.setdefault(int(cell[second]), [piece.mob_name[kind[second - 1]]])
        crowd.append(piece.mob_name[kind[second]])
    mobs.flat[list(crowds)] = 1 + len(piece.mob_name) + np.arange(len(crowds))
    together = (" and ".join(crowd) for crowd in crowds.values())
    mob_texts = ["", *(f"{mobs} on " for mobs in (*piece.mob_name, *together))]
    return _Scene(packed.tile.astype(np.intp), mobs, mob_texts)


def _tile_texts(scene: _Scene, piece: Pieces, at: NDArray[np.intp]) -> list[str]:
    """What each observation shows on its tile `at` [B] or []."""
    row = np.arange(len(scene.tile))
    names = piece.name[scene.tile[row, at]].tolist()
    return [scene.mob_texts[mob] + name for mob, name in zip(scene.mobs[row, at].tolist(), names, strict=True)]


def _map_rows(scene: _Scene, piece: Pieces) -> list[str]:
    entries = piece.row_entry[np.arange(scene.tile.shape[1]), scene.tile]
    row, tile = np.nonzero(scene.mobs)
    for r, t, mob in zip(row.tolist(), tile.tolist(), scene.mobs[row, tile].tolist(), strict=True):
        lead = piece.row_lead[t]
        entries[r, t] = lead + scene.mob_texts[mob] + entries[r, t][len(lead) :]
    return list(map("".join, entries.tolist()))


def _nearest_first(scene: _Scene, piece: Pieces, title: str, shown: NDArray[np.bool_]) -> list[str]:
    """Lines with the tiles that are `shown` [B, tiles], one for each distance."""
    row, place = np.nonzero(shown[:, piece.nearest])
    tile = piece.nearest[place]
    distance = piece.distance[tile]
    goes_on = np.zeros(len(row), np.intp)  # 1 where the line began before
    goes_on[1:] = (row[1:] == row[:-1]) & (distance[1:] == distance[:-1])
    entries = piece.list_entry[goes_on, tile, scene.tile[row, tile]]
    mobs = scene.mobs[row, tile]
    for i in np.flatnonzero(mobs).tolist():
        lead = piece.list_lead[goes_on[i]][tile[i]]
        entries[i] = lead + scene.mob_texts[mobs[i]] + entries[i][len(lead) :]
    parts = entries.tolist()
    ends = np.searchsorted(row, np.arange(len(shown) + 1)).tolist()
    return [f"{title}, nearest first:{''.join(parts[start:end]) or ' nothing'}\n" for start, end in pairwise(ends)]


def _open_ground(scene: _Scene, piece: Pieces, counted: NDArray[np.bool_]) -> list[str]:
    """The line with how many of the tiles that are `counted` [B, tiles] are of each kind of open ground."""
    rows, kinds = len(counted), len(piece.open_count)
    row, tile = np.nonzero(counted)
    kind = piece.open_kind[scene.tile[row, tile]]
    counts = np.bincount(row * kinds + kind, minlength=rows * kinds).reshape(rows, kinds)
    entries = piece.open_count[np.arange(kinds), counts].tolist()
    return [f"Open ground: {', '.join(filter(None, line)) or 'none'}\n" for line in entries]
