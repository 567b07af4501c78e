"""What happens around the game at every step: many at once, statistics, endings told apart, fresh worlds.

Read `Environment.step` (built by `with_resets`) as: play -> observe -> which ended -> draw worlds -> continue in them.
A game is four pure functions (`Game`); a way to reset is two (`Resets`). Nothing here knows Craftax by name.

Axes: N environments, P worlds of a pool, A achievements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

GameState = Any
"""The game's own state, a pytree."""

Obs = Any
"""What is observed: `Packed`, a frame uint8 [H, W, 3], or another pytree of arrays; with leading axes where said."""


class Game(NamedTuple):
    """One game as pure functions of one state; the wrappers vmap them. Keys are uint32 [2]."""

    reset: Callable[[Array], GameState]  # key -> state
    step: Callable[[Array, GameState, Array], tuple[GameState, Array]]  # key, state, action -> state, reward
    endings: Callable[[GameState], tuple[Array, Array]]  # state -> terminated, truncated
    observe: Callable[[GameState], Obs]
    floor: Callable[[GameState], Array]  # int32, 0 at the surface
    achievements: Callable[[GameState], Array]  # bool [A]


class EpisodeStatistics(NamedTuple):
    """The running episode of each environment; leaves [N]."""

    episode_return: Array  # float32
    length: Array  # int32, steps
    deepest_floor: Array  # int32, 0 at the surface
    index: Array  # type: ignore[assignment]  # int32, episodes that ended before it here (shadows tuple.index)
    world_key: Array  # uint32 [N, 2], the key of the reset that made its world


class EnvState(NamedTuple):
    """What `Environment.step` carries. Safe to donate."""

    inner: GameState  # leaves [N, ...]
    statistics: EpisodeStatistics
    used: Array  # int32 [], worlds handed out so far


class Timestep(NamedTuple):
    """What a step gave; leaves [N, ...]. At most one of `terminated` and `truncated` is true."""

    obs: Obs  # what the policy sees next: the first observation of a fresh world where an episode ended
    next_obs: Obs  # what the action led to: the last observation of an episode that ended, else the same as obs
    reward: Array  # float32
    terminated: Array  # bool: death or success
    truncated: Array  # bool: the step limit, and nothing else, ended it
    episode: EpisodeStatistics  # with this step, before any reset
    achievements: Array  # bool [N, A], of the state that the action led to, before any reset


class Worlds(NamedTuple):
    """Fresh worlds with their first observations; leaves [P, ...]."""

    inner: GameState
    obs: Obs
    key: Array  # uint32 [P, 2]; `Game.reset` of it makes the world again


CreateWorlds = Callable[[Array], Worlds]  # keys uint32 [P, 2] -> worlds


class Resets(NamedTuple):
    """A way to find fresh worlds for the episodes that end."""

    prepare: Callable[[CreateWorlds, Array], Any]
    """create, key -> worlds made once per rollout; () where none are."""
    draw: Callable[[CreateWorlds, Array, Any, Array, Array], tuple[Worlds, Array]]
    """create, key, prepared, ended bool [N], used int32 [] -> worlds [P], and which of them each environment takes."""


def pooled(pool_size: int) -> Resets:
    """`pool_size` worlds made once per rollout; each ended episode takes the next one.

    A world comes up twice only when more than `pool_size` episodes end in one rollout. Making a world costs about as
    much as 24 steps, so a pool is the cheapest way unless it holds far more worlds than episodes end in a rollout.
    """

    def draw(_: CreateWorlds, __: Array, worlds: Worlds, ended: Array, used: Array) -> tuple[Worlds, Array]:
        return worlds, (used + _place_among_ended(ended)) % pool_size

    return Resets(lambda create, key: create(jax.random.split(key, pool_size)), draw)


def optimistic(ratio: int) -> Resets:
    """One new world per `ratio` environments at every step, whether or not an episode ends.

    When more episodes end in one step than there are new worlds, some share one: hence the name.
    """

    def draw(create: CreateWorlds, key: Array, _: Any, ended: Array, __: Array) -> tuple[Worlds, Array]:
        count = -(-len(ended) // ratio)
        return create(jax.random.split(key, count)), _place_among_ended(ended) % count

    return Resets(_nothing, draw)


def plain() -> Resets:
    """A new world for every environment at every step: no world is ever shared, and nearly all are thrown away."""

    def draw(create: CreateWorlds, key: Array, _: Any, ended: Array, __: Array) -> tuple[Worlds, Array]:
        return create(jax.random.split(key, len(ended))), jnp.arange(len(ended))

    return Resets(_nothing, draw)


def _nothing(_: CreateWorlds, __: Array) -> tuple[()]:
    return ()


def _place_among_ended(ended: Array) -> Array:
    """int32 [N]: 0 for the first that ended, 1 for the second, …; between, a number that is not used."""
    return jnp.maximum(jnp.cumsum(ended, dtype=jnp.int32) - 1, 0)


class Outcome(NamedTuple):
    """What an action led to, with no reset yet; leaves [N, ...], as in `Timestep`."""

    inner: GameState
    obs: Obs
    reward: Array
    terminated: Array
    truncated: Array
    episode: EpisodeStatistics
    achievements: Array


def play(game: Game, keys: Array, state: EnvState, action: Array) -> Outcome:
    """Steps every environment once, each by its key of `keys` uint32 [N, 2], and never resets: terminal states and
    observations are kept."""
    inner, reward = jax.vmap(game.step)(keys, state.inner, action)
    terminated, truncated = jax.vmap(game.endings)(inner)
    before = state.statistics
    episode = before._replace(
        episode_return=before.episode_return + reward,
        length=before.length + 1,
        deepest_floor=jnp.maximum(before.deepest_floor, jax.vmap(game.floor)(inner)),
    )
    observe, achievements = jax.vmap(game.observe), jax.vmap(game.achievements)
    return Outcome(inner, observe(inner), reward, terminated, truncated, episode, achievements(inner))


def create_worlds(game: Game) -> CreateWorlds:
    def create(keys: Array) -> Worlds:
        inner = jax.tree.map(_strong, jax.vmap(game.reset)(keys))
        return Worlds(inner, jax.vmap(game.observe)(inner), keys)

    return create


def first_state(game: Game, key: Array, num_envs: int) -> tuple[EnvState, Obs]:
    """Every environment in a world of its own, and their first observations [N, ...]."""
    return begin(game, jax.random.split(raw_key(key), num_envs))


def begin(game: Game, keys: Array) -> tuple[EnvState, Obs]:
    """An environment in the world of each key of `keys` uint32 [N, 2], and their first observations [N, ...]."""
    worlds = create_worlds(game)(keys)
    statistics = _fresh_statistics(game, worlds, jnp.zeros(len(keys), jnp.int32))
    return EnvState(worlds.inner, statistics, jnp.int32(0)), worlds.obs


StepFunction = Callable[[Array, EnvState, Any, Array], tuple[EnvState, Timestep]]


def with_resets(game: Game, resets: Resets) -> StepFunction:
    """The step of `Environment`: key, state, prepared worlds, action int32 [N] -> state, timestep."""
    create = create_worlds(game)

    def step(key: Array, state: EnvState, worlds: Any, action: Array) -> tuple[EnvState, Timestep]:
        key_play, key_draw = jax.random.split(raw_key(key))
        outcome = play(game, jax.random.split(key_play, len(action)), state, action)
        ended = outcome.terminated | outcome.truncated
        pool, which = resets.draw(create, key_draw, worlds, ended, state.used)
        fresh = jax.tree.map(lambda leaf: leaf[which], pool)
        statistics = _fresh_statistics(game, fresh, outcome.episode.index + 1)
        after = EnvState(
            inner=choose(ended, fresh.inner, outcome.inner),
            statistics=choose(ended, statistics, outcome.episode),
            used=state.used + ended.sum(dtype=jnp.int32),
        )
        timestep = Timestep(
            obs=choose(ended, fresh.obs, outcome.obs),
            next_obs=outcome.obs,
            reward=outcome.reward,
            terminated=outcome.terminated,
            truncated=outcome.truncated,
            episode=outcome.episode,
            achievements=outcome.achievements,
        )
        return after, timestep

    return step


def raw_key(key: Array) -> Array:
    """A key as uint32 [2], the form in which the game and a trajectory keep it; typed keys are unwrapped."""
    return jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key


def _fresh_statistics(game: Game, worlds: Worlds, index: Array) -> EpisodeStatistics:
    return EpisodeStatistics(
        episode_return=jnp.zeros(index.shape, jnp.float32),
        length=jnp.zeros(index.shape, jnp.int32),
        deepest_floor=jnp.copy(jax.vmap(game.floor)(worlds.inner)),  # may be a leaf of the state: donated only once
        index=index,
        world_key=worlds.key,
    )


def choose(where: Array, yes: Any, no: Any) -> Any:
    """Per environment, `yes` where `where` [N], else `no`, leaf by leaf."""
    return jax.tree.map(lambda a, b: jnp.where(where.reshape(-1, *[1] * (b.ndim - 1)), a, b), yes, no)


def _strong(leaf: Array) -> Array:
    """The same values without JAX's weak type, so that a step's output has exactly its input's types."""
    return jax.lax.convert_element_type(leaf, leaf.dtype)
