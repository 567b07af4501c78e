"""The scalars mean what the game counts, over the whole range."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_core.errors import LayoutError, ObservationError
from env_core.observation import CLASSIC, CRAFTAX, Layout
from env_core.observation.quantities import limits, quantities, scalars

BOTH = pytest.mark.parametrize("layout", [CRAFTAX, CLASSIC], ids=lambda layout: layout.name)

ROOTS = (
    *("wood", "stone", "coal", "iron", "diamond", "sapphire", "ruby", "sapling", "torches", "arrows"),
    *(f"potion_{colour}" for colour in ("red", "green", "blue", "pink", "cyan", "yellow")),
)
TENTHS = ("food", "drink", "energy", "mana", "xp", "dexterity", "strength", "intelligence")


def person(layout: Layout) -> np.ndarray:
    """The scalars of somebody who has nothing and faces left."""
    scalar = np.zeros(layout.scalars, np.float32)
    scalar[layout.scalar_names.index("facing_left")] = 1
    return scalar


def with_values(layout: Layout, name: str, values: np.ndarray) -> np.ndarray:
    scalar = np.tile(person(layout), (len(values), 1))
    scalar[:, layout.scalar_names.index(name)] = values
    return scalar


def read(layout: Layout, name: str, values: np.ndarray) -> list[float]:
    return quantities(with_values(layout, name, values), layout)[:, layout.scalar_names.index(name)].tolist()


COUNTS = np.arange(100)


@pytest.mark.parametrize("name", ROOTS)
def test_counts_that_craftax_shows_as_roots(name: str) -> None:
    as_shown = np.sqrt(COUNTS.astype(np.float32)) / np.float32(10)
    assert read(CRAFTAX, name, as_shown) == COUNTS.tolist()
    assert read(CRAFTAX, name, as_shown.astype(np.float16)) == COUNTS.tolist()  # as old recordings keep them
    for ulps in (-4, 4):
        near = (as_shown.view(np.int32) + ulps).view(np.float32)[1:]
        assert read(CRAFTAX, name, near) == COUNTS[1:].tolist()


@pytest.mark.parametrize("name", TENTHS)
def test_numbers_that_craftax_shows_as_tenths(name: str) -> None:
    assert read(CRAFTAX, name, COUNTS.astype(np.float32) * np.float32(0.1)) == COUNTS.tolist()
    assert read(CRAFTAX, name, COUNTS.astype(np.float32) / np.float32(10)) == COUNTS.tolist()


@pytest.mark.parametrize("name", CLASSIC.scalar_names[:16])
def test_numbers_that_classic_divides_in_half_precision(name: str) -> None:
    as_shown = (np.arange(10).astype(np.float16) / np.float16(10)).astype(np.float32)
    assert read(CLASSIC, name, as_shown) == list(range(10))


@pytest.mark.parametrize(
    ("name", "divisor", "highest"),
    [
        *(("books", 2, 9), ("pickaxe", 4, 4), ("sword", 4, 4), ("helmet", 2, 2), ("boots", 2, 2), ("floor", 10, 8)),
        *(("sword_enchantment", 1, 2), ("boots_enchantment", 1, 2), ("bow", 1, 1), ("learned_iceball", 1, 1)),
    ],
)
def test_levels(name: str, divisor: int, highest: int) -> None:
    levels = np.arange(highest + 1)
    assert read(CRAFTAX, name, levels.astype(np.float32) / np.float32(divisor)) == levels.tolist()
    if name != "books":
        with pytest.raises(ObservationError, match=f"for {name}, which no {name} of craftax_symbolic/1 gives"):
            read(CRAFTAX, name, np.float32([(highest + 1) / divisor]))


def test_health_keeps_every_blow_of_the_game() -> None:
    health = np.arange(-400, 281) / 20  # armour takes tenths of a blow; a sleeper's wounds are 3.5 times as deep
    shown = health.astype(np.float32) / np.float32(10)
    assert read(CRAFTAX, "health", shown) == health.tolist()


@BOTH
def test_light_is_kept_to_a_hundredth(layout: Layout) -> None:
    assert read(layout, "light_level", np.float32([0, 0.004, 0.006, 0.5, 0.98765, 1])) == [0, 0, 0.01, 0.5, 0.99, 1]


@BOTH
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_what_is_edited_reads_as_edited(layout: Layout, data: st.DataObject) -> None:
    value = quantities(person(layout), layout)
    for at, (name, limit) in enumerate(zip(layout.scalar_names, limits(layout), strict=True)):
        if not name.startswith("facing"):
            value[at] = data.draw(st.integers(0, int(limit)))
    assert quantities(scalars(value, layout), layout).tolist() == value.tolist()


@BOTH
def test_leading_axes_are_free_and_zero_has_no_minus(layout: Layout) -> None:
    many = np.tile(person(layout) * np.float32(-0.0) + person(layout), (2, 3, 1))
    assert quantities(many, layout).shape == (2, 3, layout.scalars)
    negative = with_values(layout, "light_level", np.float32([-0.0, -0.001]))
    assert not np.signbit(quantities(negative, layout)).any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, -0.5, 0.08])
def test_what_no_quantity_gives_is_refused_where_it_stands(value: float) -> None:
    scalar = np.tile(person(CRAFTAX), (5, 1))
    scalar[3, CRAFTAX.scalar_names.index("coal")] = value
    with pytest.raises(ObservationError, match=r"observation 3 has \S+ for coal, which no coal of craftax_symbolic/1"):
        quantities(scalar, CRAFTAX)


@BOTH
def test_the_player_faces_one_way(layout: Layout) -> None:
    scalar = np.tile(person(layout), (2, 1))
    scalar[1, layout.scalar_names.index("facing_down")] = 1
    with pytest.raises(ObservationError, match=r"observation 1 has \[1, 0, 0, 1\] for facing_left.*exactly one"):
        quantities(scalar, layout)
    with pytest.raises(ObservationError, match=r"the observation has \[0, 0, 0, 0\]"):
        quantities(np.zeros(layout.scalars, np.float32), layout)


def test_other_shapes_and_games_are_refused() -> None:
    with pytest.raises(ObservationError, match=r"are \[\.\.\., 51\], not \[2, 22\]"):
        quantities(np.zeros((2, 22), np.float32), CRAFTAX)
    other = Layout("other/1", 1, 1, ("grass",), (), (), False, 0, ("health",))
    with pytest.raises(LayoutError, match="nothing is known of what the scalars of 'other/1' mean; known are craftax_"):
        quantities(np.zeros(1, np.float32), other)
    with pytest.raises(ObservationError, match="for pickaxe"):
        value = quantities(person(CRAFTAX), CRAFTAX)
        value[CRAFTAX.scalar_names.index("pickaxe")] = 5
        scalars(value, CRAFTAX)
