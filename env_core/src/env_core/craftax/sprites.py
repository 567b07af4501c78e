"""A game's textures arranged for drawing by number: a `Sheet` per game and size, in numpy.

A frame is the map's tiles, each p x p pixels, above the rows of the inventory. On the map a tile of ground is covered
by what stands there; in the inventory an icon is covered by a number and that by a glow (Craftax's enchantments).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from env_core.craftax.textures import Textures
from env_core.observation.layout import CLASSIC, CRAFTAX, Layout

DIRECTIONS, ASLEEP = 4, 4
"""Player sprites: left, right, up, down, asleep."""
TURNS = 4
"""Variants of a sprite that flies: number = flipped + 2 * lying."""

_Picture = NDArray[Any]
"""[p, p, 3 or 4]"""


class Slot(NamedTuple):
    """One place of the inventory."""

    row: int
    col: int
    icon: int
    """Number of its first icon, the one for "none"."""
    glow: int
    """Number of its first glow, the one for "none"."""


class Cover(NamedTuple):
    """What is drawn over something else, and where it is drawn; number 0 covers nothing."""

    picture: NDArray[np.uint8]
    """[n, p, p, 3]"""
    shows: NDArray[np.bool_]
    """[n, p, p, 3]"""


class Sheet(NamedTuple):
    """All that frames of one game are made of; p pixels to a tile."""

    ground: NDArray[np.uint8]
    """[blocks * max(1, items), p, p, 3]: every block with every item on it"""
    sprite: NDArray[np.float32]
    """[sprites, p, p, 3], multiplied by how opaque it is: the players, then every mob"""
    behind: NDArray[np.float32]
    """[sprites, p, p, 3]: how much a sprite lets through"""
    icon: NDArray[np.uint8]
    """[icons, p, p, 3]"""
    number: Cover
    glow: Cover
    slots: Mapping[str, Slot]
    inventory_rows: int
    noise: NDArray[np.float32]
    """[map height, map width]: how much of the night's noise each pixel gets"""
    tint: NDArray[np.float32]
    """[3]: the colour of the night"""


class _Icons:
    """Collects icons and glows, giving numbers; every picture is put at its place in a black tile."""

    def __init__(self, tile_pixels: int, margin: int):
        self._blank = np.zeros((tile_pixels, tile_pixels, 4), np.uint8)
        self._margin = margin
        self.icons = [self._blank[..., :3]]  # the first shows nothing, for places without a slot
        self.glows = [self._blank]
        self.slots: dict[str, Slot] = {}

    def add(self, name: str, place: tuple[int, int], icons: Iterable[_Picture], glows: Iterable[_Picture] = ()) -> None:
        """`place` is (column, row), as craftax says it; `icons` and `glows` are those above level 0, in order."""
        col, row = place
        self.slots[name] = Slot(row, col, len(self.icons), len(self.glows))
        self.icons += [self._blank[..., :3], *(self._placed(icon) for icon in icons)]
        self.glows += [self._blank, *(self._placed(glow) for glow in glows)]

    def _placed(self, picture: _Picture) -> NDArray[np.uint8]:
        tile = np.zeros((*self._blank.shape[:2], picture.shape[-1]), np.uint8)
        size = len(picture)
        tile[self._margin : self._margin + size, self._margin : self._margin + size] = picture
        return tile


def craftax_sheet(t: Textures, p: int) -> Sheet:
    """The sheet of Craftax from its textures of `p` pixels to a tile."""
    items = t["full_map_item_textures"][1:, :p, :p]
    on_it = t["block_textures"][:, None] * (1 - items[..., 3:]) + items[..., :3] * items[..., 3:]
    ground = np.concatenate([t["block_textures"][:, None], on_it], axis=1).reshape(-1, p, p, 3)
    players = _premultiplied(t["player_textures"])
    kinds = [_premultiplied_pair(t[f"{kind}_textures"], t[f"{kind}_texture_alphas"]) for kind in _CRAFTAX_KINDS]
    flying = _turned(_premultiplied_pair(t["projectile_textures"], t["projectile_texture_alphas"]))
    sprites = np.concatenate([players, *kinds, flying])
    icons = _craftax_icons(t, p)
    return Sheet(
        ground=ground.astype(np.uint8),
        sprite=sprites[..., :3],
        behind=np.repeat(1 - sprites[..., 3:], 3, axis=-1),
        icon=np.stack(icons.icons),
        number=_cover(_two_digits(t, p)),
        glow=_cover(np.stack(icons.glows)),
        slots=icons.slots,
        inventory_rows=4,
        noise=t["night_noise_intensity_texture"][..., 0].astype(np.float32),
        tint=t["night_texture"][0, 0].astype(np.float32),
    )


def classic_sheet(t: Textures, p: int) -> Sheet:
    """The sheet of Craftax-Classic from its textures of `p` pixels to a tile."""
    rgba = t["player_textures"]
    players = _premultiplied(np.concatenate([rgba[..., :3], rgba[..., 3:].astype(np.float32) / 255], axis=-1))
    mobs = ("zombie", "cow", "skeleton", "arrow")
    pairs = [_premultiplied_pair(t[f"{mob}_texture"][None], t[f"{mob}_texture_alpha"][None]) for mob in mobs]
    sprites = np.concatenate([players, *pairs[:3], _turned(pairs[3])])
    icons = _classic_icons(t, p)
    return Sheet(
        ground=t["block_textures"].astype(np.uint8),
        sprite=sprites[..., :3],
        behind=np.repeat(1 - sprites[..., 3:], 3, axis=-1),
        icon=np.stack(icons.icons),
        number=_cover(_one_digit(t, p)),
        glow=_cover(np.stack(icons.glows)),
        slots=icons.slots,
        inventory_rows=2,
        noise=t["night_noise_intensity_texture"][..., 0].astype(np.float32),
        tint=t["night_texture"][0, 0].astype(np.float32),
    )


SHEETS = {CRAFTAX: craftax_sheet, CLASSIC: classic_sheet}

_CRAFTAX_KINDS = ("melee_mob", "passive_mob", "ranged_mob")


def first_sprites(game: Layout, t: Textures) -> dict[str, int]:
    """Number of the first sprite of each kind of mob, "flying" the last."""
    kinds = {kind: len(t[f"{kind}_textures"]) for kind in _CRAFTAX_KINDS} if game == CRAFTAX else {}
    sizes = kinds or {"zombie": 1, "cow": 1, "skeleton": 1}
    starts = DIRECTIONS + 1 + np.cumsum([0, *sizes.values()])
    return dict(zip([*sizes, "flying"], starts.tolist(), strict=True))


def _premultiplied(rgba: _Picture) -> NDArray[np.float32]:
    rgba = rgba.astype(np.float32)
    return np.concatenate([rgba[..., :3] * rgba[..., 3:], rgba[..., 3:]], axis=-1)


def _premultiplied_pair(rgb: _Picture, alpha: _Picture) -> NDArray[np.float32]:
    return _premultiplied(np.concatenate([rgb, alpha[..., :1]], axis=-1))


def _turned(sprites: NDArray[np.float32]) -> NDArray[np.float32]:
    """[n, p, p, 4] -> [TURNS * n, p, p, 4]"""
    upright = [sprites, sprites[:, ::-1]]
    lying = [picture.transpose(0, 2, 1, 3) for picture in upright]
    return np.stack([*upright, *lying], axis=1).reshape(-1, *sprites.shape[1:])


def _cover(rgba: NDArray[np.uint8]) -> Cover:
    return Cover(rgba[..., :3], np.repeat(rgba[..., 3:] > 0, 3, axis=-1))


def _digits(t: Textures, suffix: str) -> NDArray[np.uint8]:
    """[10, d, d, 4], a digit's colours being black where it shows nothing"""
    colour, alpha = t[f"number_textures{suffix}"], t[f"number_textures_alpha{suffix}"]
    return np.concatenate([colour, alpha[..., :1]], axis=-1).astype(np.uint8)


def _two_digits(t: Textures, p: int) -> NDArray[np.uint8]:
    """[100, p, p, 4]: 1 to 99 at the lower right, nothing for 0 and for leading zeros"""
    tens, ones = _digits(t, ""), _digits(t, "_with_zero")
    d = ones.shape[1]
    tiles = np.zeros((10, 10, p, p, 4), np.uint8)
    tiles[:, :, p - d :, p - d :] = ones
    tiles[0, 0, p - d :, p - d :] = tens[0]
    tiles[:, :, p - d :, p - 2 * d : p - d] = tens[:, None]
    return tiles.reshape(100, p, p, 4)


def _one_digit(t: Textures, p: int) -> NDArray[np.uint8]:
    """[10, p, p, 4]: 1 to 9 near the lower right, nothing for 0"""
    digits = _digits(t, "")
    d = digits.shape[1]
    tiles = np.zeros((10, p, p, 4), np.uint8)
    tiles[:, p - d - 1 : p - 1, p - d - 1 : p - 1] = digits
    return tiles


def _craftax_icons(t: Textures, p: int) -> _Icons:
    blocks, potions = t["smaller_block_textures"], t["potion_textures"]
    icons = _Icons(p, (p - blocks.shape[1]) // 2)
    stats = ("health", "hunger", "thirst", "energy", "mana")
    for col, (name, texture) in enumerate(zip(("health", "food", "drink", "energy", "mana"), stats, strict=True)):
        icons.add(name, (col, 0), [t[f"{texture}_texture"]])
    for name, place in _CRAFTAX_BLOCKS.items():
        icons.add(name, place, [blocks[CRAFTAX.blocks.index(name)]])
    icons.add("sapling", (5, 1), [t["sapling_texture"]])
    icons.add("torches", (2, 2), [t["torch_inv_texture"]])
    icons.add("books", (3, 2), [t["book_texture"]])
    icons.add("fireball", (4, 2), [t["fireball_inv_texture"]])
    icons.add("iceball", (5, 2), [t["iceball_inv_texture"]])
    for number, potion in enumerate(potions):
        icons.add(f"potion_{number}", (number, 3), [potion])
    icons.add("floor", (6, 0), [])
    icons.add("bow", (6, 1), t["bow_textures"][1:])
    icons.add("arrows", (6, 2), [t["player_projectile_textures"][0]], _glows(t["arrow_enchantment_textures"]))
    for number in range(4):
        glows = _glows(t["armour_enchantment_textures"][:, number])
        icons.add(f"armour_{number}", (7, number), t["armour_textures"][1:, number], glows)
    icons.add("sword", (8, 1), t["sword_textures"][1:], _glows(t["sword_enchantment_textures"]))
    icons.add("pickaxe", (8, 2), t["pickaxe_textures"][1:])
    for row, (name, texture) in enumerate(_ATTRIBUTES.items()):
        icons.add(name, (9, row), [t[f"{texture}_texture"]])
    return icons


_CRAFTAX_BLOCKS = {
    "wood": (0, 2),
    "stone": (1, 2),
    "coal": (0, 1),
    "iron": (1, 1),
    "diamond": (2, 1),
    "sapphire": (3, 1),
    "ruby": (4, 1),
}
_ATTRIBUTES = {"xp": "xp", "dexterity": "dex", "strength": "str", "intelligence": "int"}


def _glows(rgba: _Picture) -> list[_Picture]:
    """Those above level 0, black where they show nothing."""
    return [np.concatenate([glow[..., :3] * glow[..., 3:], glow[..., 3:]], axis=-1) for glow in rgba[1:]]


def _classic_icons(t: Textures, p: int) -> _Icons:
    blocks = t["smaller_block_textures"]
    icons = _Icons(p, (p - blocks.shape[1]) // 2 - 1)
    for col, (name, texture) in enumerate(
        zip(("health", "food", "drink", "energy"), ("health", "hunger", "thirst", "energy"), strict=True)
    ):
        icons.add(name, (col, 0), [t[f"{texture}_texture"]])
    icons.add("sapling", (4, 0), [t["sapling_texture"]])
    for number, name in enumerate(("wood", "stone", "coal", "iron", "diamond")):
        place = ((5 + number) % CLASSIC.cols, (5 + number) // CLASSIC.cols)
        icons.add(name, place, [blocks[CLASSIC.blocks.index(name)]])
    for number, name in enumerate(CLASSIC_TOOLS):
        icons.add(name, (1 + number, 1), [t[f"{name}_texture"]])
    return icons


CLASSIC_TOOLS = ("wood_pickaxe", "stone_pickaxe", "iron_pickaxe", "wood_sword", "stone_sword", "iron_sword")
