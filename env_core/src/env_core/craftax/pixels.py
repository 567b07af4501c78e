"""Game state -> frame, in JAX: uint8 [H, W, 3], to within rounding what craftax's own renderer draws.

Craftax blends the whole map once for every kind of block; here a tile is looked up whole. Apart from that, all is
drawn in craftax's order and by its arithmetic: ground with items, player, mobs, light, night, sleep; below that the
inventory.
Every pixel is the whole number nearest to craftax's float (its observation times 255), except that where that float
lies within float32's accuracy of the middle between two numbers, either may come out.

Axes: p pixels to a tile, M things that stand on the map.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import NDArray

from env_core.craftax import sprites
from env_core.craftax.noise import uniform
from env_core.craftax.sprites import Sheet
from env_core.craftax.textures import Status, load_textures
from env_core.observation.layout import CLASSIC, CRAFTAX, Layout


class _Scene(NamedTuple):
    """What the map shows of a state, as numbers of a `Sheet`."""

    ground: Array  # int32 [rows, cols]
    light: Array | None  # float32 [rows, cols]
    position: Array  # int32 [M, 2], row and column on the map shown, those drawn last coming last
    sprite: Array  # int32 [M]
    present: Array  # bool [M]


class _Held(NamedTuple):
    """What one place of the inventory shows."""

    icon: Any  # int32, 0 for none
    number: Any = 0  # int32
    glow: Any = 0  # int32


def painter(game: Layout, tile_pixels: int, status: Status | None = None) -> Callable[[Any], Array]:
    """The function from one state of `game` to its frame, uint8 [H, W, 3]; vmap it over many.

    The textures are made first where need be (`env_core.craftax.textures`), which `status` shows. Raises `WriteError`.
    """
    textures = load_textures(game, tile_pixels, status)
    sheet = sprites.SHEETS[game](textures, tile_pixels)
    scene_of, inventory_of, darken = _GAMES[game]
    first = sprites.first_sprites(game, textures)

    def draw(state: Any) -> Array:
        land = _map(sheet, game, scene_of(state, game, first))
        land = jnp.clip(jnp.rint(darken(sheet, state, land)), 0, 255).astype(jnp.uint8)
        return jnp.concatenate([land, _inventory(sheet, game, inventory_of(state))])

    return draw


def _map(sheet: Sheet, game: Layout, scene: _Scene) -> Array:
    """float32 [rows * p, cols * p, 3]: the ground and all that stands on it, by the light that falls there."""
    lines = _lines(sheet.ground, scene.ground).astype(jnp.float32)
    view = jnp.array([game.rows, game.cols])
    shown = ((scene.position >= 0) & (scene.position < view)).all(axis=1) & scene.present
    row, col = jnp.where(shown, scene.position.T, view[:, None])
    p = sheet.ground.shape[1]
    sprite, behind = (jnp.asarray(table).reshape(len(table), p, -1) for table in (sheet.sprite, sheet.behind))

    def stand(i: int, lines: Array) -> Array:
        under = lines[row[i], :, col[i]]
        over = behind[scene.sprite[i]] * under + sprite[scene.sprite[i]]
        return lines.at[row[i], :, col[i]].set(over, mode="drop")

    lines = jax.lax.fori_loop(0, len(row), stand, lines)
    if scene.light is not None:
        lines = scene.light[:, None, :, None] * lines
    land: Array = lines.reshape(game.rows * p, game.cols * p, 3)
    return land


def _lines(tiles: NDArray[Any], numbers: Array) -> Array:
    """The tiles [n, p, p, c] that are numbered [rows, cols], line by line as in a picture: [rows, p, cols, p * c].

    Line by line at once, because tiles that are whole would have to be taken apart again.
    """
    p = tiles.shape[1]
    line = numbers[:, None, :] * p + jnp.arange(p)[None, :, None]
    return jnp.asarray(tiles).reshape(len(tiles) * p, -1)[line]


def _inventory(sheet: Sheet, game: Layout, held: dict[str, _Held]) -> Array:
    """uint8 [inventory rows * p, cols * p, 3]"""
    cells = [_Held(0)] * (sheet.inventory_rows * game.cols)
    for name, slot in sheet.slots.items():
        has = held[name]
        cells[slot.row * game.cols + slot.col] = _Held(slot.icon + has.icon, has.number, slot.glow + has.glow)
    numbers = (jnp.stack([jnp.asarray(cell[i], jnp.int32) for cell in cells]) for i in range(3))
    icon, number, glow = (layer.reshape(sheet.inventory_rows, game.cols) for layer in numbers)
    lines = _lines(sheet.icon, icon)
    for cover, which in ((sheet.number, number), (sheet.glow, glow)):
        lines = jnp.where(_lines(cover.shows, which), _lines(cover.picture, which), lines)
    p = sheet.icon.shape[1]
    return lines.reshape(sheet.inventory_rows * p, game.cols * p, 3)


def _around(state: Any, game: Layout, height: int, width: int) -> tuple[Array, Array, Array]:
    """Rows [rows, 1] and columns [1, cols] of the map around the player, inside it, and where they were outside."""
    corner = state.player_position - jnp.array([game.rows // 2, game.cols // 2])
    rows = (corner[0] + jnp.arange(game.rows))[:, None]
    cols = (corner[1] + jnp.arange(game.cols))[None, :]
    outside = (rows < 0) | (rows >= height) | (cols < 0) | (cols >= width)
    return jnp.clip(rows, 0, height - 1), jnp.clip(cols, 0, width - 1), outside


def _stood(state: Any, game: Layout, mobs: list[tuple[Array, Array, Array]]) -> tuple[Array, Array, Array]:
    """Position, sprite and presence of the player and then `mobs`, which are those three of each kind."""
    centre = jnp.array([game.rows // 2, game.cols // 2])
    player = jnp.where(state.is_sleeping, sprites.ASLEEP, state.player_direction - 1)
    kinds = [(state.player_position[None], player[None], jnp.ones(1, bool)), *mobs]
    position, sprite, present = (jnp.concatenate(parts) for parts in zip(*kinds, strict=True))
    return position - state.player_position + centre, sprite, present


def _turn(direction: Array) -> Array:
    """int32 [n]: which variant of a sprite flies in `direction` int32 [n, 2]."""
    flipped, lying = (direction > 0).any(axis=1), direction[:, 1] != 0
    return flipped + 2 * lying


def _craftax_scene(s: Any, game: Layout, first: dict[str, int]) -> _Scene:
    from craftax.craftax.constants import MONSTERS_KILLED_TO_CLEAR_LEVEL
    from craftax.craftax.util.game_logic_utils import is_boss_vulnerable

    floor = s.player_level
    rows, cols, outside = _around(s, game, *s.map.shape[1:])
    block = jnp.where(outside, game.blocks.index("out_of_bounds"), s.map[floor, rows, cols])
    boss, weak = map(game.blocks.index, ("necromancer", "necromancer_vulnerable"))
    block = jnp.where((block == boss) & is_boss_vulnerable(s), weak, block)
    item = jnp.where(outside, game.items.index("none"), s.item_map[floor, rows, cols])
    cleared = s.monsters_killed[floor] >= MONSTERS_KILLED_TO_CLEAR_LEVEL
    down, blocked = map(game.items.index, ("ladder_down", "ladder_down_blocked"))
    item = jnp.where((item == down) & ~cleared, blocked, item)

    names = list(first)
    walking = zip(names[:-1], (s.melee_mobs, s.passive_mobs, s.ranged_mobs), names[1:], strict=True)
    mobs = [
        (m.position[floor], first[kind] + jnp.clip(m.type_id[floor], 0, first[after] - first[kind] - 1), m.mask[floor])
        for kind, m, after in walking
    ]
    flying = ((s.mob_projectiles, s.mob_projectile_directions), (s.player_projectiles, s.player_projectile_directions))
    mobs += [
        (m.position[floor], first["flying"] + sprites.TURNS * m.type_id[floor] + _turn(heading[floor]), m.mask[floor])
        for m, heading in flying
    ]
    light = jnp.where(outside, 0, s.light_map[floor, rows, cols])
    return _Scene(block * game.num_items + item, light, *_stood(s, game, mobs))


def _classic_scene(s: Any, game: Layout, first: dict[str, int]) -> _Scene:
    rows, cols, outside = _around(s, game, *s.map.shape)
    block = jnp.where(outside, game.blocks.index("out_of_bounds"), s.map[rows, cols])
    walking = {"zombie": s.zombies, "cow": s.cows, "skeleton": s.skeletons}
    mobs = [(m.position, jnp.full(len(m.position), first[kind]), m.mask) for kind, m in walking.items()]
    mobs.append((s.arrows.position, first["flying"] + _turn(s.arrow_directions), s.arrows.mask))
    return _Scene(block, None, *_stood(s, game, mobs))


def _noise(sheet: Sheet, state: Any) -> Array:
    """float32 [map height, map width, 1]: grey from 32 to 127, fresh at every step"""
    return (uniform(state.state_rng, sheet.noise.shape) * 95 + 32)[..., None]


def _craftax_night(sheet: Sheet, state: Any, land: Array) -> Array:
    """float32 [map height, map width, 3]: the map at this time of day, dimmed for a player who sleeps."""
    light_level = jax.lax.optimization_barrier(state.light_level)  # as the state says, not as the program made it
    daylight = jnp.where(state.player_level == 0, light_level, 1.0)
    mask = jnp.asarray(sheet.noise)[..., None] * jnp.maximum(2 * (0.5 - daylight), 0.0)
    night = (1.0 - mask) * land + mask * _noise(sheet, state)
    night = jnp.asarray(sheet.tint) * 0.5 + 0.5 * night
    land = daylight * land + (1 - daylight) * night
    awake: Array = 1.0 - state.is_sleeping * 0.5
    return awake * land


def _classic_night(sheet: Sheet, state: Any, land: Array) -> Array:
    """float32 [map height, map width, 3]: the map at this time of day, grey for a player who sleeps.

    Craftax takes the grey of the blended picture. This is the same, since greys blend as colours do, and lets the
    compiler make each number of the noise once.
    """
    asleep, tint = state.is_sleeping, jnp.asarray(sheet.tint)
    daylight = jax.lax.optimization_barrier(state.light_level)  # as the state says, not as the program made it
    mask = jnp.asarray(sheet.noise)[..., None] * jnp.maximum(2 * (0.5 - daylight), 0.0)
    grey = _grey(land)
    faded = jnp.where(asleep, grey, 0.4 * land + 0.6 * grey)
    night = (1 - mask) * faded + mask * _noise(sheet, state)
    night = 0.5 * night + 0.5 * jnp.where(asleep, _grey(tint), tint)
    land = daylight * jnp.where(asleep, grey, land) + (1 - daylight) * night
    return jnp.where(asleep, 0.5 * land + 0.5 * jnp.array([0, 0, 16]), land)


def _grey(land: Array) -> Array:
    """[..., 3] -> [..., 1], as bright as each colour looks"""
    red, green, blue = jnp.split(land, 3, axis=-1)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def _some(count: Array) -> _Held:
    """An icon if there is one, and how many."""
    return _Held(count > 0, jnp.minimum(count // 10, 9) * 10 + count % 10)


def _craftax_inventory(s: Any) -> dict[str, _Held]:
    held = s.inventory
    counted = ("wood", "stone", "coal", "iron", "diamond", "sapphire", "ruby", "sapling", "torches", "books")
    shown = {name: _some(getattr(held, name)) for name in counted}
    shown |= {name: _some(getattr(s, f"player_{name}")) for name in ("food", "drink", "energy", "mana")}
    shown |= {f"potion_{number}": _some(held.potions[number]) for number in range(len(held.potions))}
    shown |= {
        f"armour_{number}": _Held(held.armour[number], 0, s.armour_enchantments[number])
        for number in range(len(held.armour))
    }
    digits = {name: jnp.minimum(getattr(s, f"player_{name}"), 9) for name in ("dexterity", "strength", "intelligence")}
    shown |= {name: _Held(1, digit) for name, digit in digits.items()}
    return shown | {
        "health": _some(jnp.maximum(jnp.floor(s.player_health), 1).astype(jnp.int32)),
        "xp": _Held(s.player_xp > 0, jnp.minimum(s.player_xp, 9)),
        "floor": _Held(0, s.player_level),
        "fireball": _Held(s.learned_spells[0]),
        "iceball": _Held(s.learned_spells[1]),
        "bow": _Held(held.bow),
        "arrows": _some(held.arrows)._replace(glow=s.bow_enchantment * (held.arrows > 0)),
        "sword": _Held(held.sword, 0, s.sword_enchantment),
        "pickaxe": _Held(held.pickaxe),
    }


def _classic_inventory(s: Any) -> dict[str, _Held]:
    held = s.inventory
    counts = {name: getattr(held, name) for name in ("wood", "stone", "coal", "iron", "diamond", "sapling")}
    counts |= {name: getattr(held, name) for name in sprites.CLASSIC_TOOLS}
    counts |= {name: getattr(s, f"player_{name}") for name in ("health", "food", "drink", "energy")}
    return {name: _Held(count > 0, _digit(count)) for name, count in counts.items()}


def _digit(count: Array) -> Array:
    """0 to 9. Above, craftax's lookup stops at 9; below, as where health falls under 0, it counts from the end."""
    return jnp.clip(jnp.where(count < 0, count + 10, count), 0, 9)


_GAMES = {
    CRAFTAX: (_craftax_scene, _craftax_inventory, _craftax_night),
    CLASSIC: (_classic_scene, _classic_inventory, _classic_night),
}
