"""The words for what the games show: tiles, mobs, floors, actions.

Words are the games' own names with spaces for underscores, except where those would mislead a reader or give two
things one word. No word contains a comma or a digit, so that commas part entries and digits are numbers, nothing else.
"""

from __future__ import annotations

from env_core.observation.layout import CLASSIC, CRAFTAX, Layout

UNLIT = "unlit"  # not `darkness`, which is a block of its own: the rock behind a dungeon's walls

_BLOCKS = {
    "wall_moss": "mossy wall",
    "enchantment_table_fire": "fire enchantment table",
    "enchantment_table_ice": "ice enchantment table",
    "necromancer_vulnerable": "vulnerable necromancer",
    "grave2": "grave of the second kind",
    "grave3": "grave of the third kind",
}
_ITEMS = {"ladder_down_blocked": "blocked ladder down"}

# Who shoots the second arrow, fireball and iceball: the game's table from ranged mobs to projectiles. They hurt more.
_PROJECTILES = {
    "arrow": "enemy arrow",
    "dagger": "enemy dagger",
    "fireball": "enemy fireball",
    "iceball": "enemy iceball",
    "arrow2": "enemy arrow of an archer",
    "slimeball": "enemy slimeball",
    "fireball2": "enemy fireball of a fire elemental",
    "iceball2": "enemy iceball of an ice elemental",
}
_COUNTED = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")

OPEN_GROUND = ("grass", "sand", "path", "gravel", "fire_grass", "ice_grass", "darkness", "out_of_bounds")
"""Blocks that are counted, not listed, where only what is interesting is described; unlit tiles are counted too."""

BULK = ("stone", "tree", "water", "wall", "wall_moss", "stalagmite", "fire_tree", "ice_shrub")
"""Blocks that come in masses: listed where only what is interesting is described, but not notable beside a map."""

FLOORS = (
    *("overworld", "dungeon", "gnomish mines", "sewers", "vault", "troll mines", "fire realm", "ice realm"),
    "graveyard",
)
MATERIALS = ("no", "wood", "stone", "iron", "diamond")  # of pickaxe and sword, by level
ARMOUR_MATERIALS = ("no", "iron", "diamond")
ENCHANTMENTS = ("no", "fire", "ice")
ARMOUR = ("helmet", "chestplate", "leggings", "boots")
POTIONS = ("red", "green", "blue", "pink", "cyan", "yellow")
SPELLS = ("fireball", "iceball")
DIRECTIONS = ("left", "right", "up", "down")  # in the order of the scalars `facing_…`

_CLASSIC_ACTIONS = (
    *("noop", "left", "right", "up", "down", "do", "sleep", "place_stone", "place_table", "place_furnace"),
    *("place_plant", "make_wood_pickaxe", "make_stone_pickaxe", "make_iron_pickaxe"),
    *("make_wood_sword", "make_stone_sword", "make_iron_sword"),
)
_ACTIONS = (
    *_CLASSIC_ACTIONS,
    *("rest", "descend", "ascend", "make_diamond_pickaxe", "make_diamond_sword", "make_iron_armour"),
    *("make_diamond_armour", "shoot_arrow", "make_arrow", "cast_fireball", "cast_iceball", "place_torch"),
    *(f"drink_potion_{colour}" for colour in POTIONS),
    *("read_book", "enchant_sword", "enchant_armour", "make_torch"),
    *("level_up_dexterity", "level_up_strength", "level_up_intelligence", "enchant_bow"),
)
action_names: dict[str, tuple[str, ...]] = {CRAFTAX.name: _ACTIONS, CLASSIC.name: _CLASSIC_ACTIONS}
"""By the name of the layout, the game's actions in its order, as an `Environment` of env_core.craftax names them."""


def block_words(layout: Layout) -> tuple[str, ...]:
    """A word for each of `layout.blocks`."""
    return tuple(_BLOCKS.get(name, _spaced(name)) for name in layout.blocks)


def item_words(layout: Layout) -> tuple[str, ...]:
    """A word for each of `layout.items`; the first means that there is none."""
    return tuple(_ITEMS.get(name, _spaced(name)) for name in layout.items)


def mob_words(layout: Layout) -> tuple[str, ...]:
    """A word for each of `layout.mobs`: creatures, what they shoot ("enemy …"), and what the player shot ("your …")."""
    return tuple(_mob_word(name) for name in layout.mobs)


def tile_words(layout: Layout) -> tuple[str, ...]:
    """A word for each tile code of the packed form (`layout.codes`): "unlit", "grass", "torch on path"."""
    lit = (
        f"{item} on {block}" if number else block
        for block in block_words(layout)
        for number, item in enumerate(item_words(layout) or ("none",))
    )
    return UNLIT, *lit


def _mob_word(name: str) -> str:
    if name.startswith("player_"):
        projectile = name.removeprefix("player_")
        kind = " of the second kind" if projectile.endswith("2") else ""
        return f"your {projectile.removesuffix('2')}{kind}"
    if name.startswith("passive_"):  # never filled by the game
        return f"passive creature of the {_COUNTED[int(name.removeprefix('passive_'))]} kind"
    return _PROJECTILES.get(name, _spaced(name))


def _spaced(name: str) -> str:
    return name.replace("_", " ")
