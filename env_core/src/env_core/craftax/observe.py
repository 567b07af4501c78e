"""Game state -> packed observation, in JAX, never making the one-hot; and the packed observation decoded in JAX.

`decode(observe(state), layout)` equals the environment's own `jit(get_obs)(state)` bit for bit. (Inside a larger
program the game's own floats vary in the last bit, because XLA merges its divisions with what made the state; ours do
not.) Three habits of the game are reproduced on purpose:

- a mob is written with `.at[position].set(on_screen)`, and JAX wraps negative indices: a mob just off the left or top
  edge is written, as absent, at the opposite edge, where it erases one of its kind;
- the last write to a cell wins, and absent mobs write too;
- a dark tile hides its mobs (Craftax; Craftax-Classic has no light in the map).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from env_core.errors import LayoutError
from env_core.observation.layout import CLASSIC, CRAFTAX, Layout
from env_core.observation.packed import EMPTY_MOB, Packed


class _Scene(NamedTuple):
    """What an observation reads of a state; M mobs in the order in which the game writes them."""

    position: Array  # int32 [2], the player's row and column
    grid_shape: tuple[int, int]
    look: Callable[[Array, Array], Array]  # rows, cols -> tile codes there; both are inside the grid
    mob_position: Array  # int32 [M, 2]
    mob_channel: Array  # int32 [M]
    mob_present: Array  # bool [M]
    scalar: Array  # float32 [scalars]


def observer(layout: Layout) -> Callable[[Any], Packed]:
    """The function from one game state of `layout`'s game to its `Packed`; vmap it over many.

    Raises `LayoutError` for a layout that no game here has.
    """
    scenes = {CRAFTAX: _craftax_scene, CLASSIC: _classic_scene}
    if layout not in scenes:
        known = ", ".join(known.name for known in scenes)
        raise LayoutError(f"no game shows {layout.name!r} as described; games here show {known}")
    scene_of = scenes[layout](layout)

    def observe(state: Any) -> Packed:
        scene = scene_of(state)
        tile = _tiles(scene, layout)
        return Packed(tile.astype(jnp.uint8), _mobs(scene, tile, layout), scene.scalar)

    return observe


def decode(packed: Packed, layout: Layout) -> Array:
    """`Packed` with leading axes [...] -> float32 [..., layout.size]; the JAX twin of `observation.decode`.

    Codes are trusted: an unknown one gives a wrong observation, not an error.
    """
    lead = packed.tile.shape[:-1]
    tile = packed.tile.reshape(-1, layout.tiles)
    mob = packed.mob.reshape(-1, layout.mob_slots).astype(jnp.int32)
    flat = jnp.asarray(layout.code_bits, jnp.float32)[tile].reshape(-1, layout.map_size)
    at = mob // layout.mob_channels * layout.channels + layout.first_mob_channel + mob % layout.mob_channels
    at = jnp.where(mob == EMPTY_MOB, layout.map_size, at)  # out of range, so dropped
    flat = flat.at[jnp.arange(len(flat))[:, None], at].set(1, mode="drop")
    return jnp.concatenate([flat.reshape(*lead, layout.map_size), packed.scalar], axis=-1)


def _tiles(scene: _Scene, layout: Layout) -> Array:
    """int32 [tiles]: the codes around the player."""
    corner = scene.position - jnp.array([layout.rows // 2, layout.cols // 2])
    rows = (corner[0] + jnp.arange(layout.rows))[:, None]
    cols = (corner[1] + jnp.arange(layout.cols))[None, :]
    height, width = scene.grid_shape
    inside = (rows >= 0) & (rows < height) & (cols >= 0) & (cols < width)
    # Beyond the grid the game shows darkness, or out-of-bounds blocks where there is no light to lack.
    outside = 0 if layout.has_light else 1 + layout.blocks.index("out_of_bounds")
    codes = scene.look(jnp.clip(rows, 0, height - 1), jnp.clip(cols, 0, width - 1))
    return jnp.where(inside, codes, outside).reshape(-1)


def _mobs(scene: _Scene, tile: Array, layout: Layout) -> Array:
    """uint16 [mob_slots]: the codes of the visible mobs, ascending."""
    view = jnp.array([layout.rows, layout.cols])
    at = scene.mob_position - scene.position + view // 2
    shown = ((at >= 0) & (at < view)).all(axis=1) & scene.mob_present
    written = jnp.where(at < 0, at + view, at)
    lands = ((written >= 0) & (written < view)).all(axis=1)
    cell = jnp.where(lands, written[:, 0] * layout.cols + written[:, 1], 0)
    code = cell * layout.mob_channels + scene.mob_channel
    target = jnp.where(lands, code, -1 - jnp.arange(len(code)))  # those that land nowhere overwrite nothing
    overwritten = jnp.triu(target[:, None] == target[None, :], k=1).any(axis=1)
    visible = shown & ~overwritten & (tile[cell] > 0)
    return jnp.sort(jnp.where(visible, code, EMPTY_MOB)).astype(jnp.uint16)


def _craftax_scene(layout: Layout) -> Callable[[Any], _Scene]:
    def scene(s: Any) -> _Scene:
        floor = s.player_level

        def look(rows: Array, cols: Array) -> Array:
            code = 1 + s.map[floor, rows, cols] * layout.num_items + s.item_map[floor, rows, cols]
            return jnp.where(s.light_map[floor, rows, cols] > 0.05, code, 0)  # the game's threshold

        kinds = (s.melee_mobs, s.passive_mobs, s.ranged_mobs, s.mob_projectiles, s.player_projectiles)
        types = layout.mob_channels // len(kinds)
        return _Scene(
            position=s.player_position,
            grid_shape=s.map.shape[1:],
            look=look,
            mob_position=jnp.concatenate([mobs.position[floor] for mobs in kinds]),
            mob_channel=jnp.concatenate([types * k + mobs.type_id[floor] for k, mobs in enumerate(kinds)]),
            mob_present=jnp.concatenate([mobs.mask[floor] for mobs in kinds]),
            scalar=_craftax_scalars(s),
        )

    return scene


def _craftax_scalars(s: Any) -> Array:
    """float32 [51], by the game's own expressions: XLA's division by a constant is not numpy's."""
    from craftax.craftax.constants import MONSTERS_KILLED_TO_CLEAR_LEVEL
    from craftax.craftax.util.game_logic_utils import is_boss_vulnerable

    attributes = (s.player_health, s.player_food, s.player_drink, s.player_energy, s.player_mana)
    learned = (s.player_xp, s.player_dexterity, s.player_strength, s.player_intelligence)
    held, attributes, learned, floor = _as_given((s.inventory, attributes, learned, s.player_level))
    common = (held.wood, held.stone, held.coal, held.iron, held.diamond)
    rare = (held.sapphire, held.ruby, held.sapling, held.torches, held.arrows)
    tools = (held.books / 2.0, held.pickaxe / 4.0, held.sword / 4.0, s.sword_enchantment, s.bow_enchantment, held.bow)
    special = (
        s.light_level,
        s.is_sleeping,
        s.is_resting,
        s.learned_spells[0],
        s.learned_spells[1],
        floor / 10.0,
        s.monsters_killed[s.player_level] >= MONSTERS_KILLED_TO_CLEAR_LEVEL,
        is_boss_vulnerable(s),
    )
    parts = (
        jnp.array([*(jnp.sqrt(count) / 10.0 for count in (*common, *rare)), *tools]).astype(jnp.float32),
        jnp.sqrt(held.potions) / 10.0,
        jnp.array([value / 10.0 for value in (*attributes, *learned)]).astype(jnp.float32),
        jax.nn.one_hot(s.player_direction - 1, num_classes=4),
        held.armour / 2.0,
        s.armour_enchantments,
        jnp.array(special),
    )
    return jnp.concatenate(parts).astype(jnp.float32)


def _classic_scene(layout: Layout) -> Callable[[Any], _Scene]:
    def scene(s: Any) -> _Scene:
        kinds = (s.zombies, s.cows, s.skeletons, s.arrows)
        return _Scene(
            position=s.player_position,
            grid_shape=s.map.shape,
            look=lambda rows, cols: 1 + s.map[rows, cols],
            mob_position=jnp.concatenate([mobs.position for mobs in kinds]),
            mob_channel=jnp.concatenate([jnp.full(len(mobs.position), k) for k, mobs in enumerate(kinds)]),
            mob_present=jnp.concatenate([mobs.mask for mobs in kinds]),
            scalar=_classic_scalars(s),
        )

    return scene


def _classic_scalars(s: Any) -> Array:
    """float32 [22], by the game's own expressions: it divides in float16."""
    held, intrinsics = _as_given((s.inventory, (s.player_health, s.player_food, s.player_drink, s.player_energy)))
    blocks = (held.wood, held.stone, held.coal, held.iron, held.diamond, held.sapling)
    pickaxes = (held.wood_pickaxe, held.stone_pickaxe, held.iron_pickaxe)
    swords = (held.wood_sword, held.stone_sword, held.iron_sword)
    parts = (
        jnp.array([*blocks, *pickaxes, *swords]).astype(jnp.float16) / 10.0,
        jnp.array(intrinsics).astype(jnp.float16) / 10.0,
        jax.nn.one_hot(s.player_direction - 1, num_classes=4),
        jnp.array([s.light_level, s.is_sleeping]),
    )
    return jnp.concatenate(parts).astype(jnp.float32)


def _as_given(values: Any) -> Any:
    """The same values, of which the compiler knows nothing.

    A fresh world's health is the constant 9: folded at compile time, 9 / 10 is 0.9, while at run time XLA multiplies
    and gives 0.90000004. An observation must depend on the state alone, not on the program around it.
    """
    return jax.lax.optimization_barrier(values)
