"""Every piece of the text of a map, made once: a text is then only looked up and joined (numpy only)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from env_core.observation import words
from env_core.observation.layout import Layout

Texts = NDArray[np.object_]  # of str


@dataclass(frozen=True)
class Pieces:
    """The pieces of one game's texts, by tile of the map and tile code. An entry is its lead and what follows it.

    Mobs are not among the pieces: their words go between an entry's lead and the rest.
    """

    header: str
    name: Texts
    """[codes]: "torch on path"."""
    mob_name: tuple[str, ...]
    centre: int
    ahead: NDArray[np.intp]
    """[4]: the tile ahead of the player, by direction."""
    row_lead: list[str]
    """[tiles]"""
    row_entry: Texts
    """[tiles, codes]: the tile in its row of the map."""
    nearest: NDArray[np.intp]
    """[tiles]: the tiles by distance, then from the top, then from the left."""
    distance: NDArray[np.intp]
    """[tiles]"""
    list_lead: tuple[list[str], list[str]]
    """[2][tiles]: of a tile that begins its line of the list; of one that goes on in it."""
    list_entry: Texts
    """[2, tiles, codes]: the tile in the list."""
    is_notable: NDArray[np.bool_]
    """[codes]"""
    open_kind: NDArray[np.intp]
    """[codes]: the kind of open ground; -1 for what is more than that."""
    open_count: Texts
    """[kinds, tiles + 1]: so many tiles of a kind; "" for none."""


@cache
def pieces(layout: Layout) -> Pieces:
    down, right = np.divmod(np.arange(layout.tiles), layout.cols)
    down, right = down - layout.rows // 2, right - layout.cols // 2
    distance = np.abs(down) + np.abs(right)
    across = [_steps(offset, "left", "right") for offset in right.tolist()]
    along = [_steps(offset, "up", "down") for offset in down.tolist()]
    name = np.array(words.tile_words(layout), object)
    row_lead, row_rest = _rows(layout, across, along)
    list_lead = ([f"\nDistance {steps}: " for steps in distance], [", "] * layout.tiles)
    list_rest = [f" {' '.join(filter(None, place)) or 'here'}" for place in zip(across, along, strict=True)]
    open_kind, open_count = _open_ground(layout)
    centre = layout.tiles // 2
    return Pieces(
        header=f"Map of {layout.cols} columns and {layout.rows} rows with you in the middle."
        " A place is so many steps left or right of you and so many up or down.\n",
        name=name,
        mob_name=words.mob_words(layout),
        centre=centre,
        ahead=np.array([centre - 1, centre + 1, centre - layout.cols, centre + layout.cols]),
        row_lead=row_lead,
        row_entry=_entries(row_lead, name, row_rest),
        nearest=np.argsort(distance, kind="stable"),
        distance=distance,
        list_lead=list_lead,
        list_entry=np.stack([_entries(lead, name, list_rest) for lead in list_lead]),
        is_notable=_is_notable(layout),
        open_kind=open_kind,
        open_count=open_count,
    )


def _steps(offset: int, before: str, after: str) -> str:
    return f"{abs(offset)} {before if offset < 0 else after}" if offset else ""


def _rows(layout: Layout, across: list[str], along: list[str]) -> tuple[list[str], list[str]]:
    """For each tile, what precedes and what follows its name in its row of the map."""
    lead, rest = [], []
    for tile, (column, row) in enumerate(zip(across, along, strict=True)):
        first, last = tile % layout.cols == 0, tile % layout.cols == layout.cols - 1
        title = f"Row {row}: " if row else "Middle row: "
        lead.append(title if first else ", ")
        rest.append(f" {column or 'middle'}" + ("\n" if last else ""))
    return lead, rest


def _entries(lead: list[str], name: Texts, rest: list[str]) -> Texts:
    """[tiles, codes]: lead [tiles], name [codes] and rest [tiles] joined."""
    before, after = np.array(lead, object)[:, None], np.array(rest, object)[:, None]
    entries: Texts = before + name + after
    return entries


def _is_notable(layout: Layout) -> NDArray[np.bool_]:
    """bool [codes]: there is an item, or a block that is neither open ground nor comes in masses."""
    plain = (*words.OPEN_GROUND, *words.BULK)
    lit = [item > 0 or block not in plain for block in layout.blocks for item in range(max(1, layout.num_items))]
    return np.array([False, *lit])


def _open_ground(layout: Layout) -> tuple[NDArray[np.intp], Texts]:
    """The kind of open ground of each code, and the words for so many tiles of each kind."""
    blocks = [name for name in words.OPEN_GROUND if name in layout.blocks]
    kind = np.full(layout.codes, -1, np.intp)
    kind[0] = 0
    for number, name in enumerate(blocks):
        kind[1 + layout.blocks.index(name) * max(1, layout.num_items)] = 1 + number  # without an item
    word_of = dict(zip(layout.blocks, words.block_words(layout), strict=True))
    kinds = [words.UNLIT, *(word_of[name] for name in blocks)]
    counts = [["", *(f"{word} {count}" for count in range(1, layout.tiles + 1))] for word in kinds]
    return kind, np.array(counts, object)
