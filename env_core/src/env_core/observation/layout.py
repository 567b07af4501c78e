"""What one symbolic Craftax observation shows, and where: the constants of each game, without the game.

An observation is a flat float32 vector. Its first part is a map of `rows` x `cols` tiles, row-major, each with the
channels [block one-hot | item one-hot | mobs multi-hot | light] of 0 and 1; the scalars follow. Craftax darkens: an
unlit tile shows no channel at all. Craftax-Classic has neither items nor light, so every tile shows a block.

The names are the game's own, in the game's order. `env_core.craftax.make` compares them with the installed game and
raises `LayoutError` where they differ.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

LIGHT = 1  # the light of a tile takes one channel, behind the mobs


@dataclass(frozen=True)
class Layout:
    """Names and sizes of one game's observation. `blocks`, `items` and `mobs` are channel names in channel order."""

    name: str
    rows: int
    cols: int
    blocks: tuple[str, ...]
    items: tuple[str, ...]
    mobs: tuple[str, ...]
    has_light: bool
    mob_slots: int
    """The most mobs that the game can show at once."""
    scalar_names: tuple[str, ...]

    @property
    def tiles(self) -> int:
        return self.rows * self.cols

    @property
    def num_blocks(self) -> int:
        return len(self.blocks)

    @property
    def num_items(self) -> int:
        return len(self.items)

    @property
    def mob_channels(self) -> int:
        return len(self.mobs)

    @property
    def first_mob_channel(self) -> int:
        return self.num_blocks + self.num_items

    @property
    def channels(self) -> int:
        return self.first_mob_channel + self.mob_channels + LIGHT * self.has_light

    @property
    def codes(self) -> int:
        """Number of tile codes: dark (0), then every block with every item."""
        return 1 + self.num_blocks * max(1, self.num_items)

    @property
    def scalars(self) -> int:
        return len(self.scalar_names)

    @property
    def map_size(self) -> int:
        return self.tiles * self.channels

    @property
    def size(self) -> int:
        return self.map_size + self.scalars

    @cached_property
    def sha256(self) -> str:
        """Hex digest of every name and size above: two layouts with one digest read the same bytes the same way."""
        return _digest(asdict(self))

    @cached_property
    def code_channels(self) -> NDArray[np.int32]:
        """int32 [codes, k]: the channels that each tile code lights, padded with -1; none for code 0.

        k is 3 with items and light (block, item, light) and 1 without (block).
        """
        number = np.arange(self.codes - 1)
        lit = [number // max(1, self.num_items)]
        if self.items:
            lit.append(self.num_blocks + number % self.num_items)
        if self.has_light:
            lit.append(np.full_like(number, self.channels - 1))
        table = np.full((self.codes, len(lit)), -1, np.int32)
        table[1:] = np.stack(lit, axis=1)
        table.setflags(write=False)
        return table

    @cached_property
    def code_bits(self) -> NDArray[np.uint8]:
        """uint8 [codes, channels]: `code_channels` as 0 and 1."""
        bits = np.zeros((self.codes, self.channels), np.uint8)
        code, lit = np.nonzero(self.code_channels >= 0)
        bits[code, self.code_channels[code, lit]] = 1
        bits.setflags(write=False)
        return bits

    def channel_name(self, channel: int) -> str:
        """Name of a map channel, for messages: "block stone", "item torch", "mob zombie" or "light"."""
        if channel < self.num_blocks:
            return f"block {self.blocks[channel]}"
        if channel < self.first_mob_channel:
            return f"item {self.items[channel - self.num_blocks]}"
        if channel < self.first_mob_channel + self.mob_channels:
            return f"mob {self.mobs[channel - self.first_mob_channel]}"
        return "light"


@dataclass(frozen=True)
class Pixels:
    """Observations that are frames: uint8 [height, width, 3], RGB."""

    height: int
    width: int
    name: ClassVar[str] = "pixel/1"

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.height, self.width, 3)

    @cached_property
    def sha256(self) -> str:
        """Hex digest of name and sizes."""
        return _digest({"name": self.name, **asdict(self)})


def _digest(said: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_CLASSIC_BLOCKS = _names(
    "invalid out_of_bounds grass water stone tree wood path coal iron diamond crafting_table furnace sand lava plant"
    " ripe_plant"
)
_BLOCKS = _CLASSIC_BLOCKS + _names(
    "wall darkness wall_moss stalagmite sapphire ruby chest fountain fire_grass ice_grass gravel fire_tree ice_shrub"
    " enchantment_table_fire enchantment_table_ice necromancer grave grave2 grave3 necromancer_vulnerable"
)
_MELEE = _names("zombie gnome_warrior orc_soldier lizard knight troll pigman frost_troll")
_PASSIVE = _names("cow bat snail passive_3 passive_4 passive_5 passive_6 passive_7")  # the game fills three of eight
_RANGED = _names("skeleton gnome_archer orc_mage kobold archer deep_thing fire_elemental ice_elemental")
_PROJECTILES = _names("arrow dagger fireball iceball arrow2 slimeball fireball2 iceball2")
_DIRECTIONS = _names("facing_left facing_right facing_up facing_down")

CRAFTAX = Layout(
    name="craftax_symbolic/1",
    rows=9,
    cols=11,
    blocks=_BLOCKS,
    items=_names("none torch ladder_down ladder_up ladder_down_blocked"),
    mobs=_MELEE + _PASSIVE + _RANGED + _PROJECTILES + tuple(f"player_{name}" for name in _PROJECTILES),
    has_light=True,
    mob_slots=14,
    scalar_names=_names(
        "wood stone coal iron diamond sapphire ruby sapling torches arrows books pickaxe sword sword_enchantment"
        " bow_enchantment bow potion_red potion_green potion_blue potion_pink potion_cyan potion_yellow"
        " health food drink energy mana xp dexterity strength intelligence"
    )
    + _DIRECTIONS
    + _names(
        "helmet chestplate leggings boots helmet_enchantment chestplate_enchantment leggings_enchantment"
        " boots_enchantment light_level is_sleeping is_resting learned_fireball learned_iceball floor ladder_open"
        " boss_vulnerable"
    ),
)

CLASSIC = Layout(
    name="craftax_classic_symbolic/1",
    rows=7,
    cols=9,
    blocks=_CLASSIC_BLOCKS,
    items=(),
    mobs=_names("zombie cow skeleton arrow"),
    has_light=False,
    mob_slots=11,
    scalar_names=_names(
        "wood stone coal iron diamond sapling wood_pickaxe stone_pickaxe iron_pickaxe wood_sword stone_sword iron_sword"
        " health food drink energy"
    )
    + _DIRECTIONS
    + _names("light_level is_sleeping"),
)

layouts: dict[str, Layout] = {layout.name: layout for layout in (CRAFTAX, CLASSIC)}

environment_layouts: dict[str, Layout] = {
    "Craftax-Symbolic-v1": CRAFTAX,
    "Craftax-Classic-Symbolic-v1": CLASSIC,
}
"""Every environment with symbolic observations, and what they look like; known without the game."""

pixel_layouts: dict[str, Pixels] = {
    "Craftax-Pixels-v1": Pixels(130, 110),
    "Craftax-Classic-Pixels-v1": Pixels(63, 63),
}
"""Every environment whose observations are frames, and their sizes."""

game_layouts: dict[str, Layout] = environment_layouts | {
    "Craftax-Pixels-v1": CRAFTAX,
    "Craftax-Classic-Pixels-v1": CLASSIC,
}
"""Every environment, and what the symbolic observations of its game look like, whatever its own are."""
