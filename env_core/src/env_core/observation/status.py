"""The lines of text that say what the scalars of an observation mean (numpy only).

Every quantity is said: a count of nothing by leaving it out, everything else by a word or a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from env_core.observation.layout import CLASSIC, CRAFTAX, Layout
from env_core.observation.words import (
    ARMOUR,
    ARMOUR_MATERIALS,
    ENCHANTMENTS,
    FLOORS,
    MATERIALS,
    POTIONS,
    SPELLS,
)

_Quantities = dict[str, float]

_VITALS = ("health", "food", "drink", "energy")
_ATTRIBUTES = ("xp", "dexterity", "strength", "intelligence")
_ORES = ("wood", "stone", "coal", "iron", "diamond")
_HELD = {
    **{name: name for name in (*_ORES, "sapphire", "ruby", "sapling")},
    "torches": "torch",
    "arrows": "arrow",
    "books": "book",
    **{f"potion_{colour}": f"{colour} potion" for colour in POTIONS},
}
_CLASSIC_HELD = {name: name for name in (*_ORES, "sapling")}
_CLASSIC_TOOLS = {
    f"{material}_{tool}": f"{material} {tool}"
    for tool in ("pickaxe", "sword")
    for material in ("wood", "stone", "iron")
}


def status_texts(value: NDArray[np.float64], layout: Layout) -> list[str]:
    """The lines about each of quantities [B, scalars] of a known game, each line ended."""
    parts = [
        _per_distinct(value.take(columns, axis=1), names, write)
        for columns, (names, write) in zip(_columns(layout), _SECTIONS[layout], strict=True)
    ]
    return ["".join(lines) for lines in zip(*parts, strict=True)]


def _per_distinct(value: NDArray[np.float64], names: tuple[str, ...], write: Callable[[_Quantities], str]) -> list[str]:
    """`write` of each row of value [B, names]; equal rows, of which play has many, are written once."""
    keys = value.view(f"V{value.itemsize * len(names)}").ravel().tolist()
    written: dict[bytes, str] = {}
    texts = []
    for row, key in enumerate(keys):
        text = written.get(key)
        if text is None:
            text = written[key] = write(dict(zip(names, value[row].tolist(), strict=True)))
        texts.append(text)
    return texts


@cache
def _columns(layout: Layout) -> list[list[int]]:
    """Where the quantities of each section stand."""
    return [[layout.scalar_names.index(name) for name in names] for names, _ in _SECTIONS[layout]]


def _craftax_body(of: _Quantities) -> str:
    states = [word for name, word in (("is_sleeping", "sleeping"), ("is_resting", "resting")) if of[name]]
    return (
        f"Body: {_numbers(of, (*_VITALS, 'mana'))}, {' and '.join(states) or 'awake'}\n"
        f"Experience: {_numbers(of, _ATTRIBUTES)}\n"
    )


def _craftax_belongings(of: _Quantities) -> str:
    tools = [
        _crafted(MATERIALS[int(of["pickaxe"])], "pickaxe", 0),
        _crafted(MATERIALS[int(of["sword"])], "sword", of["sword_enchantment"]),
        _crafted("" if of["bow"] else "no", "bow", of["bow_enchantment"]),
    ]
    armour = [_crafted(ARMOUR_MATERIALS[int(of[piece])], piece, of[f"{piece}_enchantment"]) for piece in ARMOUR]
    return (
        f"Inventory: {_counts(of, _HELD)}\n"
        f"Tools: {_listed(tools)}\n"
        f"Armour: {_listed(armour)}\n"
        f"Spells: {_listed(spell for spell in SPELLS if of[f'learned_{spell}'])}\n"
    )


def _craftax_surroundings(of: _Quantities) -> str:
    floor = int(of["floor"])
    return (
        f"Floor: {floor} ({FLOORS[floor]}), ladder down {'open' if of['ladder_open'] else 'closed'},"
        f" boss {'vulnerable' if of['boss_vulnerable'] else 'protected'}, light {of['light_level']:g}\n"
    )


def _classic_body(of: _Quantities) -> str:
    return f"Body: {_numbers(of, _VITALS)}, {'sleeping' if of['is_sleeping'] else 'awake'}\n"


def _classic_belongings(of: _Quantities) -> str:
    return f"Inventory: {_counts(of, _CLASSIC_HELD)}\nTools: {_counts(of, _CLASSIC_TOOLS)}\n"


def _classic_surroundings(of: _Quantities) -> str:
    return f"Light: {of['light_level']:g}\n"


_Section = tuple[tuple[str, ...], Callable[[_Quantities], str]]

# Quantities that change together are written together. Light changes at every step, so it stands with few others.
_SECTIONS: dict[Layout, tuple[_Section, ...]] = {
    CRAFTAX: (
        ((*_VITALS, "mana", *_ATTRIBUTES, "is_sleeping", "is_resting"), _craftax_body),
        (
            (
                *_HELD,
                *("pickaxe", "sword", "sword_enchantment", "bow", "bow_enchantment"),
                *ARMOUR,
                *(f"{piece}_enchantment" for piece in ARMOUR),
                *(f"learned_{spell}" for spell in SPELLS),
            ),
            _craftax_belongings,
        ),
        (("floor", "ladder_open", "boss_vulnerable", "light_level"), _craftax_surroundings),
    ),
    CLASSIC: (
        ((*_VITALS, "is_sleeping"), _classic_body),
        ((*_CLASSIC_HELD, *_CLASSIC_TOOLS), _classic_belongings),
        (("light_level",), _classic_surroundings),
    ),
}


def _crafted(material: str, thing: str, enchantment: float) -> str:
    """ "iron sword with fire enchantment"; nothing for what is neither there nor enchanted."""
    if material == "no" and not enchantment:
        return ""
    enchanted = f" with {ENCHANTMENTS[int(enchantment)]} enchantment" if enchantment else ""
    return f"{material} {thing}{enchanted}".lstrip()


def _numbers(of: _Quantities, names: Iterable[str]) -> str:
    return ", ".join(f"{name} {of[name]:g}" for name in names)


def _counts(of: _Quantities, words: dict[str, str]) -> str:
    return _listed(f"{word} {of[name]:g}" for name, word in words.items() if of[name])


def _listed(words: Iterable[str]) -> str:
    return ", ".join(word for word in words if word) or "nothing"
