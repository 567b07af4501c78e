"""What the scalars of an observation mean: the game's quantities, and back (numpy only).

The games scale what they count: Craftax shows `sqrt(wood) / 10`, `pickaxe / 4`, `health / 10`. `quantities` undoes it.
Everything is a whole number but two: the light, and in Craftax health, since armour takes tenths off a blow. Both are
kept to 0.01. All blows of the game are multiples of 0.05, so that health loses nothing; light is continuous and does.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from env_core.errors import LayoutError, ObservationError
from env_core.observation.layout import CLASSIC, CRAFTAX, Layout

_TOLERANCE = 0.25  # what half precision does to sqrt(99) / 10 is 0.1; nothing honest is off by more
_MOST = 999  # no quantity of the games comes near it

_FACING = ("facing_left", "facing_right", "facing_up", "facing_down")
_ARMOUR = ("helmet", "chestplate", "leggings", "boots")
_POTIONS = tuple(f"potion_{colour}" for colour in ("red", "green", "blue", "pink", "cyan", "yellow"))
_MATERIALS = ("wood", "stone", "coal", "iron", "diamond", "sapphire", "ruby", "sapling")


class _Scales(NamedTuple):
    """How one game's scalars are read: quantity = scalar * divisor, and squared where it is a root. By name."""

    roots: tuple[str, ...]
    divisors: dict[str, int]
    """1 for those not named."""
    fractional: tuple[str, ...]
    highest: dict[str, int]
    """`_MOST` for those not named."""


_SCALES = {
    CRAFTAX: _Scales(
        roots=(*_MATERIALS, "torches", "arrows", *_POTIONS),
        divisors={
            **dict.fromkeys((*_MATERIALS, "torches", "arrows", *_POTIONS), 10),
            **dict.fromkeys(("health", "food", "drink", "energy", "mana", "xp"), 10),
            **dict.fromkeys(("dexterity", "strength", "intelligence", "floor"), 10),
            **dict.fromkeys(("pickaxe", "sword"), 4),
            **dict.fromkeys(("books", *_ARMOUR), 2),
        },
        fractional=("health", "light_level"),
        highest={
            **dict.fromkeys(("pickaxe", "sword"), 4),
            **dict.fromkeys(_ARMOUR, 2),
            **dict.fromkeys((f"{name}_enchantment" for name in ("sword", "bow", *_ARMOUR)), 2),
            **dict.fromkeys(("bow", *_FACING, "is_sleeping", "is_resting", "learned_fireball", "learned_iceball"), 1),
            **dict.fromkeys(("ladder_open", "boss_vulnerable"), 1),
            "floor": 8,
        },
    ),
    CLASSIC: _Scales(
        roots=(),
        divisors=dict.fromkeys(CLASSIC.scalar_names[: CLASSIC.scalar_names.index(_FACING[0])], 10),
        fractional=("light_level",),
        highest=dict.fromkeys((*_FACING, "is_sleeping"), 1),
    ),
}


def quantities(scalar: NDArray[np.float32], layout: Layout) -> NDArray[np.float64]:
    """float32 [..., scalars] -> float64 [..., scalars]: what the game counts, in the order of `layout.scalar_names`.

    Raises `ObservationError` naming the first value that no quantity gives, `LayoutError` for an unknown game.
    """
    table = _table(layout)
    if scalar.ndim == 0 or scalar.shape[-1] != layout.scalars:
        raise ObservationError(f"scalars of {layout.name} are [..., {layout.scalars}], not {list(scalar.shape)}")
    with np.errstate(invalid="ignore"):  # what is not a number fits no quantity
        exact = scalar * table.divisor
        np.multiply(exact, np.abs(exact), out=exact, where=table.is_root)  # with its sign: a root is not negative
        value = np.rint(exact) + 0.0  # + 0.0: no minus before a zero
        value[..., table.fractional] = exact[..., table.fractional].round(2) + 0.0
        good = (np.abs(exact - value) <= _TOLERANCE) & (value >= table.lowest) & (value <= table.highest)
    if not good.all():
        at = tuple(np.argwhere(~good)[0])
        name = layout.scalar_names[at[-1]]
        raise ObservationError(
            f"{_where(at[:-1])} has {scalar[at]} for {name}, which no {name} of {layout.name} gives."
            " Check that it is of this game and was not normalised."
        )
    _check_facing(value, layout)
    return value


def scalars(value: NDArray[np.float64], layout: Layout) -> NDArray[np.float32]:
    """The inverse of `quantities`, up to the last bit of a float32: for editing what an observation says.

    Raises `ObservationError` for what the game cannot have, `LayoutError` for an unknown game.
    """
    table = _table(layout)
    with np.errstate(invalid="ignore"):
        scalar = (np.where(table.is_root, np.sqrt(value), value) / table.divisor).astype(np.float32)
    quantities(scalar, layout)
    return scalar


def facing(value: NDArray[np.float64], layout: Layout) -> NDArray[np.intp]:
    """Of quantities [B, scalars], where each player faces: 0 left, 1 right, 2 up, 3 down."""
    direction: NDArray[np.intp] = value[:, facings(layout)].argmax(axis=1)
    return direction


def facings(layout: Layout) -> slice:
    """Where the four scalars stand that say where the player faces."""
    first = layout.scalar_names.index(_FACING[0])
    return slice(first, first + len(_FACING))


def limits(layout: Layout) -> NDArray[np.float64]:
    """float64 [scalars]: the highest quantity that each scalar may show; far more than the game gives, for counts."""
    return _table(layout).highest


class _Table(NamedTuple):
    """`_Scales` as arrays [scalars]; `fractional` holds places."""

    divisor: NDArray[np.float64]
    is_root: NDArray[np.bool_]
    fractional: NDArray[np.intp]
    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]


@cache
def _table(layout: Layout) -> _Table:
    scales = _SCALES.get(layout)
    if scales is None:
        known = ", ".join(known.name for known in _SCALES)
        raise LayoutError(f"nothing is known of what the scalars of {layout.name!r} mean; known are {known}")
    names = layout.scalar_names
    return _Table(
        divisor=np.array([scales.divisors.get(name, 1) for name in names], np.float64),
        is_root=np.array([name in scales.roots for name in names]),
        fractional=np.array([names.index(name) for name in scales.fractional], np.intp),
        # a deadly blow may leave less than nothing
        lowest=np.array([-_MOST if name == "health" else 0 for name in names], np.float64),
        highest=np.array([scales.highest.get(name, _MOST) for name in names], np.float64),
    )


def _check_facing(value: NDArray[np.float64], layout: Layout) -> None:
    directions = value[..., facings(layout)]
    wrong = np.argwhere(directions.sum(axis=-1) != 1)
    if len(wrong):
        at = tuple(wrong[0])
        raise ObservationError(
            f"{_where(at)} has {directions[at].astype(int).tolist()} for {', '.join(_FACING)}: exactly one must be 1"
        )


def _where(at: tuple[np.intp, ...]) -> str:
    return f"observation {', '.join(str(int(i)) for i in at)}" if at else "the observation"
