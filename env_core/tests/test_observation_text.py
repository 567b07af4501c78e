"""The text says what the observation shows: golden texts, and texts read back."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from text_reader import Read, read

from env_core.errors import ConfigError, LayoutError, ObservationError
from env_core.observation import CLASSIC, CRAFTAX, EMPTY_MOB, Layout, Packed, words
from env_core.observation.quantities import limits, quantities, scalars
from env_core.observation.text import FORMS, TEXT_VERSION, describe, specimens, text_sha256

BOTH = pytest.mark.parametrize("layout", [CRAFTAX, CLASSIC], ids=lambda layout: layout.name)
GOLDEN = Path(__file__).parent / "data" / "text"

# To change a word: change it, give TEXT_VERSION a new number, and put both here.
VERSION = "craftax-text/1"
SHA256 = "e27bf905f7508bb4def27803de1801fb0159902da5810538a4ae4d16458664c6"

Cell = tuple[int, int]  # steps right, steps down


def scene(
    layout: Layout,
    ground: str,
    things: dict[Cell, tuple[str, str]],
    mobs: dict[Cell, list[str]],
    facing: str,
    **counts: float,
) -> Packed:
    """One observation: `ground` everywhere but where `things` says (block, item); "" is unlit."""
    items = layout.items or ("none",)

    def code(block: str, item: str) -> int:
        return 1 + layout.blocks.index(block) * len(items) + items.index(item) if block else 0

    tile = np.full((1, layout.tiles), code(ground, "none"), np.uint8)
    for cell, (block, item) in things.items():
        tile[0, at(layout, cell)] = code(block, item)
    codes = [at(layout, cell) * layout.mob_channels + layout.mobs.index(name) for cell, m in mobs.items() for name in m]
    mob = np.full((1, layout.mob_slots), EMPTY_MOB, np.uint16)
    mob[0, : len(codes)] = sorted(codes)
    value = np.zeros((1, layout.scalars))
    for name, count in (counts | {f"facing_{facing}": 1}).items():
        value[0, layout.scalar_names.index(name)] = count
    return Packed(tile, mob, scalars(value, layout))


def at(layout: Layout, cell: Cell) -> int:
    right, down = cell
    return (down + layout.rows // 2) * layout.cols + right + layout.cols // 2


MEADOW = scene(
    CRAFTAX,
    "grass",
    {
        (-1, 0): ("tree", "none"),
        (2, 1): ("path", "ladder_down"),
        (-3, -2): ("water", "none"),
        (5, 4): ("", "none"),
        (4, 4): ("", "none"),
        (0, 2): ("crafting_table", "none"),
        (-5, 0): ("stone", "none"),
    },
    {(1, -1): ["cow"], (-2, 0): ["zombie"]},
    "left",
    health=9,
    food=8,
    drink=7,
    energy=9,
    mana=9,
    dexterity=1,
    strength=1,
    intelligence=1,
    wood=5,
    sapling=1,
    pickaxe=1,
    light_level=0.87,
    ladder_open=1,
)
REALM = scene(
    CRAFTAX,
    "fire_grass",
    {
        (0, 0): ("path", "ladder_up"),
        (0, 1): ("path", "torch"),
        (-5, -4): ("fire_tree", "none"),
        (3, 0): ("lava", "none"),
        (2, 2): ("darkness", "none"),
        (2, 3): ("", "none"),
    },
    {
        (0, 1): ["pigman", "player_fireball"],
        (0, 0): ["fireball2"],
        (4, -4): ["fire_elemental"],
        (5, -4): ["arrow2", "player_arrow"],
    },
    "down",
    health=6.45,
    food=13,
    drink=0,
    energy=17,
    mana=21,
    xp=2,
    dexterity=5,
    strength=3,
    intelligence=4,
    is_sleeping=1,
    is_resting=1,
    wood=99,
    stone=64,
    coal=3,
    iron=2,
    diamond=1,
    sapphire=4,
    ruby=5,
    sapling=6,
    torches=7,
    arrows=8,
    books=2,
    pickaxe=4,
    sword=3,
    sword_enchantment=2,
    bow=1,
    bow_enchantment=1,
    potion_red=1,
    potion_green=2,
    potion_blue=3,
    potion_pink=4,
    potion_cyan=5,
    potion_yellow=6,
    helmet=1,
    chestplate=2,
    boots=2,
    boots_enchantment=1,
    chestplate_enchantment=2,
    learned_fireball=1,
    learned_iceball=1,
    floor=6,
    boss_vulnerable=1,
)
CAVE = scene(
    CLASSIC,
    "stone",
    {(0, 0): ("path", "none"), (1, 0): ("path", "none"), (-1, 0): ("iron", "none"), (4, -3): ("out_of_bounds", "none")},
    {(1, 0): ["skeleton", "arrow"]},
    "right",
    health=3,
    food=1,
    drink=2,
    energy=4,
    is_sleeping=1,
    wood=9,
    stone=2,
    wood_pickaxe=1,
    stone_pickaxe=2,
    iron_sword=1,
    light_level=0.3,
)
SCENES = {"meadow": (CRAFTAX, MEADOW), "realm": (CRAFTAX, REALM), "cave": (CLASSIC, CAVE)}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SCENES)
def test_golden_texts(name: str, form: str) -> None:
    """Written by hand from the scenes above and the rules in `text.py`."""
    layout, packed = SCENES[name]
    assert describe(packed, layout, form) == [(GOLDEN / f"{name}-{form}.txt").read_text()]


def test_a_changed_word_is_a_new_version() -> None:
    assert (TEXT_VERSION, text_sha256()) == (VERSION, SHA256)


@BOTH
def test_the_digest_reads_every_word(layout: Layout) -> None:
    texts = "".join(text for form in FORMS for text in describe(specimens(layout), layout, form))
    said = [*words.tile_words(layout), *words.mob_words(layout), *words.DIRECTIONS, "Distance 0", "nothing", "awake"]
    if layout is CRAFTAX:
        said += [f"{n} ({floor})" for n, floor in enumerate(words.FLOORS)]
        said += [f"{metal} {tool}" for metal in words.MATERIALS for tool in ("pickaxe", "sword") if metal != "no"]
        said += [f"{metal} {piece}" for metal in words.ARMOUR_MATERIALS[1:] for piece in words.ARMOUR]
        said += [f"bow with {kind} enchantment" for kind in words.ENCHANTMENTS[1:]]
        said += [f"{colour} potion " for colour in words.POTIONS] + [
            "Spells: fireball, iceball",
            "sleeping and resting",
        ]
        said += ["ladder down open", "ladder down closed", "boss vulnerable", "boss protected"]
    assert [word for word in said if word not in texts] == []


@BOTH
def test_words_are_unique_and_leave_commas_and_digits_to_the_text(layout: Layout) -> None:
    for names in (words.tile_words(layout), words.mob_words(layout), words.action_names[layout.name]):
        assert len(set(names)) == len(names)
        assert not any(mark in name for name in names for mark in ",;:()0123456789")
    assert len(words.tile_words(layout)) == layout.codes and len(words.mob_words(layout)) == layout.mob_channels
    assert not any(part in name for name in words.mob_words(layout) for part in (" on ", " and "))
    assert set(words.OPEN_GROUND) | set(words.BULK) <= set(CRAFTAX.blocks)
    assert not set(words.OPEN_GROUND) & set(words.BULK)


@st.composite
def observations(draw: st.DrawFn, layout: Layout, most: int = 2) -> Packed:
    """Any codes, any mobs (also in the dark), any quantities."""
    count = draw(st.integers(0, most))
    tile = draw(arrays(np.uint8, (count, layout.tiles), elements=st.integers(0, layout.codes - 1)))
    code = st.integers(0, layout.tiles * layout.mob_channels - 1)
    mob = np.full((count, layout.mob_slots), EMPTY_MOB, np.uint16)
    for row in mob:
        codes = draw(st.lists(code, max_size=layout.mob_slots, unique=True))
        row[: len(codes)] = sorted(codes)
    value = np.zeros((count, layout.scalars))
    for at_, (name, limit) in enumerate(zip(layout.scalar_names, limits(layout), strict=True)):
        size = {"light_level": 100, "health": 20 if layout is CRAFTAX else 1}.get(name, 1)  # steps to a whole
        value[:, at_] = draw(arrays(np.int64, count, elements=st.integers(0, min(99 * size, int(limit) * size))))
        value[:, at_] /= size
    first = layout.scalar_names.index("facing_left")
    value[:, first : first + 4] = np.eye(4)[draw(arrays(np.int64, count, elements=st.integers(0, 3)))]
    return Packed(tile, mob, scalars(value, layout))


def shown(packed: Packed, row: int, layout: Layout) -> dict[Cell, tuple[int, frozenset[int]]]:
    """What the text should say of each tile, worked out one by one."""
    mobs: dict[int, set[int]] = {}
    for code in packed.mob[row][packed.mob[row] != EMPTY_MOB].tolist():
        mobs.setdefault(code // layout.mob_channels, set()).add(code % layout.mob_channels)
    cells = [
        (x, y)
        for y in range(-(layout.rows // 2), layout.rows // 2 + 1)
        for x in range(-(layout.cols // 2), layout.cols // 2 + 1)
    ]
    return {cell: (int(packed.tile[row, number]), frozenset(mobs.get(number, ()))) for number, cell in enumerate(cells)}


def check_status(seen: Read, packed: Packed, row: int, layout: Layout) -> None:
    value = dict(zip(layout.scalar_names, quantities(packed.scalar[row], layout).tolist(), strict=True))
    unsaid = {name for name, count in value.items() if not count}  # a count of nothing may be left out
    assert {name: seen.quantities.get(name, 0) for name in value} == value
    assert set(seen.quantities) - set(value) <= {"is_resting"} and set(value) - set(seen.quantities) <= unsaid


def check_list(seen: Read, listed: dict[Cell, tuple[int, frozenset[int]]]) -> None:
    """The list has these tiles and no others, nearest first, then from the top, then from the left."""
    assert seen.near == listed
    assert list(seen.near) == sorted(listed, key=lambda cell: (abs(cell[0]) + abs(cell[1]), cell[1], cell[0]))


AHEAD = {"facing_left": (-1, 0), "facing_right": (1, 0), "facing_up": (0, -1), "facing_down": (0, 1)}


def check_around(seen: Read, tiles: dict[Cell, tuple[int, frozenset[int]]]) -> None:
    (ahead,) = (cell for name, cell in AHEAD.items() if seen.quantities[name])
    assert seen.own == tiles[0, 0] and seen.ahead == tiles[ahead]


def block_and_item(code: int, layout: Layout) -> tuple[str, int]:
    """The block's name, "unlit" for none, and the number of the item."""
    block, item = divmod(code - 1, max(1, layout.num_items))
    return (layout.blocks[block], item) if code else ("unlit", 0)


@BOTH
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_full_text_says_everything(layout: Layout, data: st.DataObject) -> None:
    """All that is packed is read back: two observations of which anything differs have different texts."""
    packed = data.draw(observations(layout))
    texts = describe(packed, layout, "full")
    assert len(texts) == len(packed.tile)
    for row, text in enumerate(texts):
        seen, tiles = read(text, layout), shown(packed, row, layout)
        assert seen.view == (layout.cols, layout.rows)
        assert list(seen.tiles.items()) == list(tiles.items())
        plain = {"unlit", *words.OPEN_GROUND, *words.BULK}
        check_list(
            seen,
            {
                cell: (code, mobs)
                for cell, (code, mobs) in tiles.items()
                if mobs or block_and_item(code, layout)[1] or block_and_item(code, layout)[0] not in plain
            },
        )
        check_around(seen, tiles)
        check_status(seen, packed, row, layout)


@BOTH
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_interesting_text_says_all_but_where_open_ground_lies(layout: Layout, data: st.DataObject) -> None:
    packed = data.draw(observations(layout))
    for row, text in enumerate(describe(packed, layout, "interesting")):
        seen, tiles = read(text, layout), shown(packed, row, layout)
        block_of = dict(zip(layout.blocks, words.block_words(layout), strict=True)) | {"unlit": "unlit"}
        listed, counts = {}, {}
        for cell, (code, mobs) in tiles.items():
            block, item = block_and_item(code, layout)
            if mobs or item or block not in ("unlit", *words.OPEN_GROUND):
                listed[cell] = (code, mobs)
            else:
                counts[block_of[block]] = counts.get(block_of[block], 0) + 1
        assert seen.tiles == {} and seen.open_ground == counts
        check_list(seen, listed)
        check_around(seen, tiles)
        check_status(seen, packed, row, layout)


def test_exchanged_open_ground_changes_only_the_full_text() -> None:
    """Sand and grass, neither under nor before the player, change places."""
    sand = dict.fromkeys(((3, 3), (2, 2)), ("sand", "none"))
    one = scene(CRAFTAX, "grass", sand, {}, "left")
    other = scene(CRAFTAX, "grass", {cell: sand[cell] for cell in ((3, 3),)} | {(-2, 2): ("sand", "none")}, {}, "left")
    assert describe(one, CRAFTAX, "interesting") == describe(other, CRAFTAX, "interesting")
    assert describe(one, CRAFTAX, "full") != describe(other, CRAFTAX, "full")
    ahead = scene(CRAFTAX, "grass", {(3, 3): ("sand", "none"), (-1, 0): ("sand", "none")}, {}, "left")
    assert describe(one, CRAFTAX, "interesting") != describe(ahead, CRAFTAX, "interesting")


@BOTH
@pytest.mark.parametrize("form", FORMS)
def test_a_text_does_not_depend_on_its_neighbours(layout: Layout, form: str) -> None:
    """Many at once, more than are worked on together, and one by one."""
    few = specimens(layout)
    many = Packed(*(np.concatenate([part] * 200) for part in few))
    assert describe(many, layout, form) == [text for _ in range(200) for text in describe(few, layout, form)]
    alone = [describe(Packed(*(part[i : i + 1] for part in few)), layout, form)[0] for i in range(len(few.tile))]
    assert alone == describe(few, layout, form)
    assert describe(Packed(*(part[:0] for part in few)), layout, form) == []


def test_the_order_and_repetition_of_mobs_do_not_matter() -> None:
    tile, mob, scalar = REALM
    shuffled = mob[:, ::-1].copy()
    assert (mob[:, -2:] == EMPTY_MOB).all()
    shuffled[:, 0] = shuffled[:, 1] = mob[:, 0]
    for form in FORMS:
        assert describe(Packed(tile, shuffled, scalar), CRAFTAX, form) == describe(REALM, CRAFTAX, form)


def test_what_is_given_stays_as_it_was() -> None:
    """Mobs in disorder, in memory that cannot be written."""
    given_ = Packed(*(part[:, ::-1].copy() if part is REALM.mob else part.copy() for part in REALM))
    for part in given_:
        part.setflags(write=False)
    assert describe(given_, CRAFTAX) == describe(REALM, CRAFTAX)


def test_a_list_does_not_go_on_in_the_next_observation() -> None:
    """Each of these shows one thing, at one distance."""
    things = scene(CLASSIC, "grass", {(-1, 0): ("iron", "none")}, {}, "left")
    twice = Packed(*(np.concatenate([part, part]) for part in things))
    for form in FORMS:
        assert describe(twice, CLASSIC, form) == describe(things, CLASSIC, form) * 2


def test_what_cannot_be_told_is_refused() -> None:
    good = MEADOW
    bad = {
        "tile code 186": good._replace(tile=np.full_like(good.tile, 186)),
        "mob code 3960": good._replace(mob=np.full_like(good.mob, 99 * 40)),
        "mob of craftax_symbolic/1 must be uint16": good._replace(mob=good.mob.astype(np.int32)),
        "which no wood of craftax_symbolic/1 gives": good._replace(scalar=good.scalar * np.nan),
        r"observations \[B, \.\.\.\], not of \[1, 1, '\.\.\.'\]": Packed(*(part[None] for part in good)),
        r"observations \[B, \.\.\.\], not of \['\.\.\.'\]": Packed(*(part[0] for part in good)),
    }
    for message, packed in bad.items():
        with pytest.raises(ObservationError, match=message):
            describe(packed, CRAFTAX)
    with pytest.raises(ConfigError, match=r"unknown form of text 'ful'. Did you mean 'full'\?"):
        describe(good, CRAFTAX, "ful")
    other = Layout("other/1", 1, 1, ("grass",), (), (), False, 0, ("health",))
    nothing = Packed(np.ones((1, 1), np.uint8), np.zeros((1, 0), np.uint16), np.zeros((1, 1), np.float32))
    with pytest.raises(LayoutError, match="other/1"):
        describe(nothing, other)
