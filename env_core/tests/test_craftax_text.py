"""Our words against the installed games: their enums, and Craftax's own text of played states."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from craftax.craftax import constants
from craftax.craftax.renderer import render_craftax_text
from craftax.craftax_classic import constants as classic_constants
from text_reader import Read, read

from env_core.craftax.scenes import crowded, put_on_floor
from env_core.observation import CLASSIC, CRAFTAX, Packed, words
from env_core.observation.text import describe


def names(enum) -> list[str]:
    return [member.name.lower() for member in sorted(enum, key=lambda member: member.value)]


def test_actions() -> None:
    assert list(words.action_names[CRAFTAX.name]) == names(constants.Action)
    assert list(words.action_names[CLASSIC.name]) == names(classic_constants.Action)
    assert [f"drink_potion_{colour}" for colour in words.POTIONS] == [
        n for n in names(constants.Action) if "potion" in n
    ]
    assert list(words.DIRECTIONS) == names(constants.Action)[1:5] == names(classic_constants.Action)[1:5]
    assert constants.DIRECTIONS[1:5].tolist() == [[0, -1], [0, 1], [-1, 0], [1, 0]]  # (down, right) of each


def test_blocks_and_items_are_the_games_names_but_for_these() -> None:
    ours = dict(zip(names(constants.BlockType), words.block_words(CRAFTAX), strict=True))
    assert {name: word for name, word in ours.items() if word != name.replace("_", " ")} == {
        "wall_moss": "mossy wall",
        "enchantment_table_fire": "fire enchantment table",
        "enchantment_table_ice": "ice enchantment table",
        "grave2": "grave of the second kind",
        "grave3": "grave of the third kind",
        "necromancer_vulnerable": "vulnerable necromancer",
    }
    assert words.block_words(CLASSIC) == words.block_words(CRAFTAX)[: len(names(classic_constants.BlockType))]
    ours = dict(zip(names(constants.ItemType), words.item_words(CRAFTAX), strict=True))
    assert ours == {
        "none": "none",
        "torch": "torch",
        "ladder_down": "ladder down",
        "ladder_up": "ladder up",
        "ladder_down_blocked": "blocked ladder down",
    }


def test_floors() -> None:
    achievements = {member.value: member.name.lower() for member in constants.Achievement}
    entered = [achievements[value] for value in constants.LEVEL_ACHIEVEMENT_MAP.tolist()[1:]]
    assert [f"enter_{floor.replace(' ', '_')}" for floor in words.FLOORS[1:]] == entered


def test_who_shoots_what() -> None:
    """The projectiles that we name after their shooter are shot by nobody else; of the rest, nobody is named."""
    mobs, kinds = words.mob_words(CRAFTAX), constants.RANGED_MOB_TYPE_TO_PROJECTILE_TYPE_MAPPING.tolist()
    ranged, projectiles = mobs[16:24], mobs[24:32]
    shooters = {p: [mob for mob, kind in zip(ranged, kinds, strict=True) if kind == p] for p in range(8)}
    for number, projectile in enumerate(projectiles):
        _, _, shooter = projectile.partition(" of a")
        if shooter:
            assert [re.sub("^n? ", "", shooter)] == shooters[number]
    assert [word for word in projectiles if " of a" in word] == [projectiles[i] for i in (4, 6, 7)]


# The names that Craftax's text gives mobs, by their channel. It leaves out the passive mobs that do not exist.
SHOT = ("Arrow", "Dagger", "Fireball", "Iceball", "Arrow", "Slimeball", "Fireball", "Iceball")
THEIR_MOBS = [
    *("Zombie", "Gnome Warrior", "Orc Soldier", "Lizard", "Knight", "Troll", "Pigman", "Frost Troll"),
    *("Cow", "Bat", "Snail", *("" for _ in range(5))),
    *("Skeleton", "Gnome Archer", "Orc Mage", "Kobold", "Archer", "Deep Thing", "Fire Elemental", "Ice Elemental"),
    *SHOT,
    *(f"{name} (Player)" for name in SHOT),
]


def as_craftax_says(seen: Read) -> str:
    """What Craftax's own text says of what we read in ours, without the two lines that have a fraction."""
    lines = ["Map:"]
    for (right, down), (code, mobs) in seen.tiles.items():
        block, item = divmod(code - 1, 5)
        there = [THEIR_MOBS[min(mobs)]] if mobs else []  # it shows one mob of a tile
        there += [constants.ItemType(item).name.lower()] if item else []
        there += [constants.BlockType(block).name.lower()] if code else []
        lines.append(f"{right}, {down}: {' on '.join(there) if code else 'Darkness'}")
    of = {name: int(seen.quantities.get(name, 0)) for name in CRAFTAX.scalar_names}
    lines += ["", "Inventory:"]
    counted = ("wood", "stone", "coal", "iron", "diamond", "sapphire", "ruby", "sapling")
    lines += [f"{name.title()}: {of[name]}" for name in counted]
    lines += [f"Torch: {of['torches']}", f"Arrow: {of['arrows']}", f"Book: {of['books']}"]
    materials, enchantments = ("", "Wood", "Stone", "Iron", "Diamond"), ("No", "Fire", "Ice")
    lines += [f"{materials[of['pickaxe']]} Pickaxe"] * bool(of["pickaxe"])
    sword = f"{materials[of['sword']]} Sword with {enchantments[of['sword_enchantment']]} enchantment"
    lines += [sword] * bool(of["sword"])
    lines += [f"Bow with {enchantments[of['bow_enchantment']]} enchantment"] * bool(of["bow"])
    lines += [f"{colour.title()} potion: {of[f'potion_{colour}']}" for colour in words.POTIONS]
    for piece in ("helmet", "chestplate", "leggings", "boots"):
        enchanted = f"{piece.title()} with {enchantments[of[f'{piece}_enchantment']]} enchantment"
        lines += [f"{('', 'Iron', 'Diamond')[of[piece]]} {enchanted}"] * bool(of[piece])
    lines += [f"{name.title()}: {of[name]}" for name in ("food", "drink", "energy", "mana")] + [f"XP: {of['xp']}"]
    lines += [f"{name.title()}: {of[name]}" for name in ("dexterity", "strength", "intelligence")]
    lines += [f"Direction: {way}" for way in words.DIRECTIONS if of[f"facing_{way}"]]
    flags = ("is_sleeping", "is_resting", "learned_fireball", "learned_iceball")
    lines += [f"{name.replace('_', ' ').title()}: {bool(of[name])}" for name in flags]
    lines += [f"Floor: {of['floor']}", f"Ladder Open: {bool(of['ladder_open'])}"]
    return "\n".join([*lines, f"Is Boss Vulnerable: {bool(of['boss_vulnerable'])}", ""])


@pytest.fixture(scope="module")
def states(full):
    """Played on each floor, twice; then the second half among crowds of mobs, with random possessions."""
    state, _ = full.env.reset(jax.random.PRNGKey(11), full.num_envs)
    state = state._replace(inner=jax.vmap(put_on_floor)(state.inner, jnp.arange(full.num_envs) % 9))
    worlds = full.env.worlds(jax.random.PRNGKey(12))
    for step in range(20):
        key_action, key_step = jax.random.split(jax.random.PRNGKey(step))
        action = jax.random.randint(key_action, (full.num_envs,), 0, full.env.num_actions)
        state, _ = full.env.step(key_step, state, worlds, action)
    played = state.inner
    crowd = jax.jit(jax.vmap(crowded(CRAFTAX)))(jax.random.split(jax.random.PRNGKey(13), full.num_envs), played)
    existing = crowd.passive_mobs.replace(type_id=crowd.passive_mobs.type_id % 3)
    return played, crowd.replace(passive_mobs=existing)


@pytest.mark.parametrize(("kind", "number"), [(0, 0), (0, 4), (1, 9), (1, 15)], ids=str)
def test_our_text_says_what_craftax_says(states, full, kind: int, number: int) -> None:
    packed = Packed(*(np.asarray(part)[number : number + 1] for part in full.observe(states[kind])))
    seen = read(describe(packed, CRAFTAX, "full")[0], CRAFTAX)
    theirs = render_craftax_text(jax.tree.map(lambda leaf: leaf[number], states[kind]))
    fractions = dict(re.findall(r"^(Health|Light): (.*)\n", theirs, re.MULTILINE))
    assert re.sub(r"^(Health|Light): .*\n", "", theirs, flags=re.MULTILINE) == as_craftax_says(seen)
    assert seen.quantities["health"] == pytest.approx(float(fractions["Health"]), abs=1e-5)
    assert seen.quantities["light_level"] == pytest.approx(float(fractions["Light"]), abs=0.005)
    if kind:
        assert any(mobs for _, mobs in seen.tiles.values()) and len(seen.quantities) > 40


def test_all_that_is_played_can_be_told(states, full) -> None:
    for inner in states:
        packed = Packed(*map(np.asarray, full.observe(inner)))
        assert len({*describe(packed, CRAFTAX)}) == full.num_envs


def test_classic_says_what_the_state_holds(classic) -> None:
    state, _ = classic.env.reset(jax.random.PRNGKey(3), classic.num_envs)
    inner = jax.jit(jax.vmap(crowded(CLASSIC)))(jax.random.split(jax.random.PRNGKey(4), classic.num_envs), state.inner)
    texts = describe(Packed(*map(np.asarray, classic.observe(inner))), CLASSIC)
    inner = jax.tree.map(np.asarray, inner)
    blocks = np.pad(inner.map, ((0, 0), (9, 9), (9, 9)), constant_values=1)  # out of bounds
    for number, text in enumerate(texts):
        seen = read(text, CLASSIC)
        row, col = inner.player_position[number] + 9
        for (right, down), (code, _) in seen.tiles.items():
            assert code - 1 == blocks[number, row + down, col + right]
        of = {name: seen.quantities.get(name, 0) for name in CLASSIC.scalar_names}
        held = {name: int(count[number]) for name, count in inner.inventory.__dict__.items()}
        vital = {name: int(getattr(inner, f"player_{name}")[number]) for name in ("health", "food", "drink", "energy")}
        assert {name: of[name] for name in (*held, *vital)} == held | vital
        assert of["is_sleeping"] == inner.is_sleeping[number]
        assert of[f"facing_{words.DIRECTIONS[inner.player_direction[number] - 1]}"]
