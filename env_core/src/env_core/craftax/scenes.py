"""States that play seldom or never reaches, for testing whatever reads a state.

`put_on_floor` shows the deep floors without the months of play; `crowded` fills the screen's edges with mobs that
overlap, erase one another and stand just off the screen; `scrambled` shows every block, item and shade of light.
All are functions of one state: vmap them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from env_core.craftax.wrappers import GameState
from env_core.observation.layout import CLASSIC, CRAFTAX, Layout

_KINDS = {
    CRAFTAX: ("melee_mobs", "passive_mobs", "ranged_mobs", "mob_projectiles", "player_projectiles"),
    CLASSIC: ("zombies", "cows", "skeletons", "arrows"),
}


def put_on_floor(state: GameState, floor: Array) -> GameState:
    """The Craftax player at the ladder that leads up from `floor`; on floor 0 where it stands."""
    at = jnp.where(floor == 0, state.player_position, state.up_ladders[floor])
    return state.replace(player_level=jnp.asarray(floor, jnp.int32), player_position=at.astype(jnp.int32))


def crowded(layout: Layout) -> Callable[[Array, GameState], GameState]:
    """key, state -> the player somewhere, with random possessions, among mobs on and beyond the screen's edges.

    A third of the mobs meet in one cell, a third where a wrapped index would meet it, a third anywhere near; one in
    four is absent. On which floor, of what map and in what light the player stands does not change.
    """

    def crowd(key: Array, state: GameState) -> GameState:
        keys = jax.random.split(key, 3 + len(_KINDS[layout]))
        height, width = state.map.shape[-2:]
        position = jax.random.randint(keys[0], (2,), 0, jnp.array([height, width]))
        meeting = jax.random.randint(keys[1], (2,), 0, jnp.array([layout.rows, layout.cols]))
        changes: dict[str, Any] = {
            name: _crowd_mobs(key, getattr(state, name), position, meeting, layout)
            for key, name in zip(keys[3:], _KINDS[layout], strict=True)
        }
        changes |= _random_person(keys[2], state)
        return state.replace(player_position=position, **changes)

    return crowd


def scrambled(layout: Layout) -> Callable[[Array, GameState], GameState]:
    """key, state -> random blocks (and items, and light about the threshold of sight) on the player's floor."""

    def scramble(key: Array, state: GameState) -> GameState:
        shape = state.map.shape[-2:]
        key_block, key_item, key_light = jax.random.split(key, 3)
        block = jax.random.randint(key_block, shape, 0, layout.num_blocks).astype(state.map.dtype)
        if not layout.items:
            return state.replace(map=block)
        floor = state.player_level
        item = jax.random.randint(key_item, shape, 0, layout.num_items).astype(state.item_map.dtype)
        light = jax.random.uniform(key_light, shape, state.light_map.dtype, 0.0, 0.15)
        return state.replace(
            map=state.map.at[floor].set(block),
            item_map=state.item_map.at[floor].set(item),
            light_map=state.light_map.at[floor].set(light),
        )

    return scramble


def _crowd_mobs(key: Array, mobs: Any, position: Array, meeting: Array, layout: Layout) -> Any:
    """Mobs of one kind, on every floor, around the player at `position`."""
    key_choice, key_near, key_wrap, key_mask, key_type = jax.random.split(key, 5)
    shape, view = mobs.mask.shape, jnp.array([layout.rows, layout.cols])
    choice = jax.random.randint(key_choice, (*shape, 1), 0, 3)
    near = jax.random.randint(key_near, (*shape, 2), -view, 2 * view)
    wrapping = meeting - view * jax.random.bernoulli(key_wrap, 0.5, (*shape, 2))
    on_view = jnp.where(choice == 0, meeting, jnp.where(choice == 1, wrapping, near))
    changes = {
        "position": (on_view + position - view // 2).astype(mobs.position.dtype),
        "mask": jax.random.bernoulli(key_mask, 0.75, shape),
    }
    if hasattr(mobs, "type_id"):
        types = jax.random.randint(key_type, (*shape, 2), 0, 8).min(axis=-1)  # low types often, so that some coincide
        changes["type_id"] = types.astype(mobs.type_id.dtype)
    return mobs.replace(**changes)


# The largest value of each number that the scalars of an observation show; 9 for those not named.
_LIMITS = {
    "player_direction": 4,
    "sword_enchantment": 2,
    "bow_enchantment": 2,
    "armour_enchantments": 2,
    "monsters_killed": 16,
    "boss_timesteps_to_spawn_this_round": 1,
}
_HELD_LIMITS = {"pickaxe": 4, "sword": 4, "bow": 1, "armour": 2, "books": 2, "arrows": 99}
_SHOWN = (
    *("player_health", "player_food", "player_drink", "player_energy", "player_mana", "player_xp"),
    *("player_dexterity", "player_strength", "player_intelligence", "player_direction", "light_level"),
    *("sword_enchantment", "bow_enchantment", "armour_enchantments", "learned_spells", "is_sleeping", "is_resting"),
    *("monsters_killed", "boss_timesteps_to_spawn_this_round"),
)


def _random_person(key: Array, state: GameState) -> dict[str, Any]:
    """Random values for what the scalars show, of the state's own types."""
    key_person, key_held = jax.random.split(key)
    shown = {name: getattr(state, name) for name in _SHOWN if hasattr(state, name)}
    held = state.inventory.__dict__
    person = _random_values(key_person, shown, _LIMITS, default=9)
    # a direction is 1 to 4
    person["player_direction"] = jnp.maximum(person["player_direction"], 1)
    return {**person, "inventory": state.inventory.replace(**_random_values(key_held, held, _HELD_LIMITS, default=9))}


def _random_values(key: Array, values: dict[str, Any], limits: dict[str, int], default: int) -> dict[str, Any]:
    keys = jax.random.split(key, len(values))
    return {
        name: _random_like(k, jnp.asarray(value), limits.get(name, default))
        for k, (name, value) in zip(keys, values.items(), strict=True)
    }


def _random_like(key: Array, value: Array, largest: int) -> Array:
    """0 to `largest` for integers, tenths of it for floats, heads or tails for booleans."""
    if value.dtype == jnp.bool_:
        return jax.random.bernoulli(key, 0.5, value.shape)
    if jnp.issubdtype(value.dtype, jnp.floating):
        return (jax.random.randint(key, value.shape, 0, 10 * largest + 1) / 10).astype(value.dtype)
    return jax.random.randint(key, value.shape, 0, largest + 1).astype(value.dtype)
