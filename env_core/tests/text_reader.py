"""Reads back what `describe` wrote, without any of its code: only the words of `words.py` are shared.

A text that can be read back says everything; two observations with one text are one observation to the reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from env_core.observation import Layout, words

_STEPS = r"(?:(\d+) (left|right))?\s?(?:(\d+) (up|down))?"


@dataclass
class Read:
    """What a text says. Offsets are (steps right, steps down); a tile is its code and the numbers of its mobs."""

    view: tuple[int, int] = (0, 0)
    tiles: dict[tuple[int, int], tuple[int, frozenset[int]]] = field(default_factory=dict)
    """The map, row by row."""
    near: dict[tuple[int, int], tuple[int, frozenset[int]]] = field(default_factory=dict)
    """The list, in its order."""
    distances: list[int] = field(default_factory=list)
    own: tuple[int, frozenset[int]] | None = None
    ahead: tuple[int, frozenset[int]] | None = None
    open_ground: dict[str, int] = field(default_factory=dict)
    quantities: dict[str, float] = field(default_factory=dict)


def read(text: str, layout: Layout) -> Read:
    seen = Read()
    assert text.endswith("\n") and "\n\n" not in text
    header, *lines = text.splitlines()
    cols, rows = re.match(r"Map of (\d+) columns and (\d+) rows", header).groups()
    seen.view = int(cols), int(rows)
    for line in lines:
        title, said = re.match(r"(.+?):(?: (.*))?$", line).groups()
        entries = said.split(", ") if said and said not in ("nothing", "none") else []
        if row := re.match(rf"Row {_STEPS}$|Middle row$", title):
            _read_row(seen, row, entries, layout)
        elif distance := re.match(r"Distance (\d+)$", title):
            _read_distance(seen, int(distance[1]), entries, layout)
        else:
            _read_line(seen, title, entries, layout)
    return seen


def _read_row(seen: Read, row: re.Match, entries: list[str], layout: Layout) -> None:
    _, down = _offset(row)
    for entry in entries:
        what, place = re.match(r"(.+) (middle|\d+ left|\d+ right)$", entry).groups()
        right, _ = _offset(re.match(_STEPS, place))
        assert (right, down) not in seen.tiles
        seen.tiles[right, down] = _tile(what, layout)


def _read_distance(seen: Read, distance: int, entries: list[str], layout: Layout) -> None:
    assert entries and distance not in seen.distances
    seen.distances.append(distance)
    for entry in entries:
        what, place = re.match(r"(\D+) (here|\d.*)$", entry).groups()
        offset = _offset(re.match(_STEPS, place))
        assert abs(offset[0]) + abs(offset[1]) == distance and offset not in seen.near
        seen.near[offset] = _tile(what, layout)


def _offset(steps: re.Match) -> tuple[int, int]:
    across, side, along, way = steps.groups() if steps.re.groups else (None,) * 4
    right = int(across or 0) * (-1 if side == "left" else 1)
    return right, int(along or 0) * (-1 if way == "up" else 1)


def _tile(what: str, layout: Layout) -> tuple[int, frozenset[int]]:
    names, kinds = words.tile_words(layout), words.mob_words(layout)
    if what in names:
        return names.index(what), frozenset()
    mobs, _, what = what.partition(" on ")
    channels = [kinds.index(mob) for mob in mobs.split(" and ")]
    assert len(set(channels)) == len(channels)
    return names.index(what), frozenset(channels)


def _read_line(seen: Read, title: str, entries: list[str], layout: Layout) -> None:
    said = seen.quantities
    if title == "Your tile":
        (entry,) = entries
        seen.own = _tile(entry, layout)
    elif facing := re.match(r"Facing (left|right|up|down)$", title):
        (entry,) = entries
        seen.ahead = _tile(entry, layout)
        said |= {f"facing_{way}": way == facing[1] for way in words.DIRECTIONS}
    elif title == "Open ground":
        seen.open_ground = dict(_counted(entries))
    elif title == "Body":
        *values, state = entries
        said |= dict(_counted(values))
        said |= {f"is_{way}": way in state.split(" and ") for way in ("sleeping", "resting")}
    elif title == "Experience":
        said |= dict(_counted(entries))
    elif title == "Inventory":
        names = {"torch": "torches", "arrow": "arrows", "book": "books"}
        for word, count in _counted(entries):
            colour, _, is_potion = word.partition(" ")
            said[f"potion_{colour}" if is_potion else names.get(word, word)] = count
    elif title in ("Tools", "Armour"):
        _read_crafted(said, entries)
    elif title == "Spells":
        said |= {f"learned_{spell}": 1 for spell in entries}
    elif title == "Floor":
        floor, ladder, boss, light = entries
        number, name = re.match(r"(\d) \((.+)\)$", floor).groups()
        assert words.FLOORS[int(number)] == name
        said |= {"floor": int(number), "ladder_open": ladder == "ladder down open"}
        said |= {"boss_vulnerable": boss == "boss vulnerable"} | dict(_counted([light], "light_level"))
    elif title == "Light":
        (light,) = entries
        said["light_level"] = float(light)
    else:
        assert title in ("Notable, nearest first", "Around you, nearest first"), title


def _counted(entries: list[str], name: str = "") -> list[tuple[str, float]]:
    pairs = [re.match(r"(\D+) (-?\d+(?:\.\d+)?)$", entry).groups() for entry in entries]
    return [(name or word, float(number)) for word, number in pairs]


def _read_crafted(said: dict[str, float], entries: list[str]) -> None:
    for entry in entries:
        if counted := re.match(r"((?:wood|stone|iron) (?:pickaxe|sword)) (\d+)$", entry):  # Craftax-Classic
            said[counted[1].replace(" ", "_")] = float(counted[2])
            continue
        material, thing, enchantment = re.match(
            r"(?:(no|wood|stone|iron|diamond) )?(\w+)(?: with (fire|ice) enchantment)?$", entry
        ).groups()
        materials = words.MATERIALS if thing in ("pickaxe", "sword") else words.ARMOUR_MATERIALS
        said[thing] = float(material != "no") if thing == "bow" else materials.index(material)
        if thing != "pickaxe":
            said[f"{thing}_enchantment"] = words.ENCHANTMENTS.index(enchantment or "no")
