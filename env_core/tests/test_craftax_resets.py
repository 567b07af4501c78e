"""Resets by a game small enough to check by hand: a world is a number, and action 1 is fatal."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from env_core.craftax.wrappers import (
    EnvState,
    Game,
    begin,
    create_worlds,
    first_state,
    optimistic,
    plain,
    play,
    pooled,
    with_resets,
)
from env_core.observation import Packed

LIMIT = 5
LIVE, DIE, DIG = 0, 1, 2


class Small(NamedTuple):
    world: jax.Array
    clock: jax.Array
    alive: jax.Array
    floor: jax.Array


def _endings(state: Small) -> tuple[jax.Array, jax.Array]:
    return ~state.alive, (state.clock >= LIMIT) & state.alive


def _step(key: jax.Array, state: Small, action: jax.Array) -> tuple[Small, jax.Array]:
    floor = state.floor + jnp.where(action == DIG, 1, -1)
    moved = Small(state.world, state.clock + 1, action != DIE, jnp.maximum(floor, 0).astype(jnp.int32))
    return moved, 0.5 * moved.clock.astype(jnp.float32)


GAME = Game(
    reset=lambda key: Small(key[1], jnp.int32(0), jnp.bool_(True), jnp.int32(0)),
    step=_step,
    endings=_endings,
    observe=lambda state: Packed(state.world[None], state.clock[None], state.floor[None].astype(jnp.float32)),
    floor=lambda state: state.floor,
    achievements=lambda state: state.clock >= jnp.array([1, 3]),
)
STRATEGIES = {"pool": pooled(6), "optimistic": optimistic(2), "plain": plain()}
ALL = pytest.mark.parametrize("resets", STRATEGIES.values(), ids=STRATEGIES)


class Played:
    """A run of `actions` [T, N] with one set of worlds."""

    def __init__(self, resets, actions, seed: int = 0) -> None:
        keys = jax.random.split(jax.random.PRNGKey(seed), len(actions) + 2)
        self.prepared = resets.prepare(create_worlds(GAME), keys[0])
        self.state, self.obs = first_state(GAME, keys[1], len(actions[0]))
        step = jax.jit(with_resets(GAME, resets), donate_argnums=1)
        self.first = jax.tree.map(np.array, self.state)
        self.steps, self.states = [], []
        for key, action in zip(keys[2:], actions, strict=True):
            self.state, timestep = step(key, self.state, self.prepared, jnp.array(action, jnp.int32))
            self.steps.append(jax.tree.map(np.array, timestep))
            self.states.append(jax.tree.map(np.array, self.state))


@ALL
def test_an_ended_episode_continues_in_a_fresh_world(resets) -> None:
    played = Played(resets, [[LIVE, DIG, LIVE, LIVE], [LIVE, DIE, LIVE, DIG]])
    before, after = played.steps
    assert after.terminated.tolist() == [False, True, False, False]
    assert after.next_obs.mob[:, 0].tolist() == [2, 2, 2, 2]  # the terminal observation is kept
    assert after.obs.mob[:, 0].tolist() == [2, 0, 2, 2]  # and the policy sees the first one of the fresh world
    world, state = played.first.inner.world, played.states[-1]
    assert after.next_obs.tile[:, 0].tolist() == world.tolist()
    assert (state.inner.world == world).tolist() == [True, False, True, True]
    assert after.obs.tile[1, 0] == state.inner.world[1] == state.statistics.world_key[1, 1]
    assert state.used == 1
    for ours, theirs in zip(before.obs, before.next_obs, strict=True):
        assert np.array_equal(ours, theirs)


@ALL
def test_statistics_by_hand(resets) -> None:
    """Rewards are 0.5, 1.0, 1.5, …; the first environment digs twice and dies, the second never ends."""
    played = Played(resets, [[DIG, LIVE], [DIG, LIVE], [DIE, DIG], [LIVE, LIVE]])
    episodes = [timestep.episode for timestep in played.steps]
    assert [e.episode_return.tolist() for e in episodes] == [[0.5, 0.5], [1.5, 1.5], [3.0, 3.0], [0.5, 5.0]]
    assert [e.length.tolist() for e in episodes] == [[1, 1], [2, 2], [3, 3], [1, 4]]
    assert [e.deepest_floor.tolist() for e in episodes] == [[1, 0], [2, 0], [2, 1], [0, 1]]
    assert [e.index.tolist() for e in episodes] == [[0, 0], [0, 0], [0, 0], [1, 0]]
    assert [t.achievements.tolist() for t in played.steps] == [
        [[True, False]] * 2,
        [[True, False]] * 2,
        [[True, True]] * 2,  # of the state that the action led to, though a fresh world has none
        [[True, False], [True, True]],
    ]
    ended = played.states[2].statistics
    assert (ended.episode_return.tolist(), ended.length.tolist()) == ([0.0, 3.0], [0, 3])
    assert (ended.deepest_floor.tolist(), ended.index.tolist()) == ([0, 1], [1, 0])


@ALL
def test_the_time_limit_truncates_and_death_at_the_limit_terminates(resets) -> None:
    played = Played(resets, [[LIVE, LIVE, LIVE]] * 4 + [[LIVE, DIE, LIVE]] + [[LIVE, LIVE, DIE]])
    assert not any((t.terminated | t.truncated).any() for t in played.steps[:4])
    assert played.steps[4].terminated.tolist() == [False, True, False]
    assert played.steps[4].truncated.tolist() == [True, False, True]
    assert played.steps[5].terminated.tolist() == [False, False, True]
    assert played.steps[5].episode.length.tolist() == [1, 1, 1]
    assert played.states[5].used == 4


@ALL
def test_world_key_makes_the_world_again(resets) -> None:
    played = Played(resets, [[DIE, DIE, LIVE], [LIVE, DIE, DIE]])
    for state in (played.first, *played.states):
        again = jax.vmap(GAME.reset)(jnp.asarray(state.statistics.world_key))
        assert again.world.tolist() == state.inner.world.tolist()
    assert played.first.statistics.world_key.dtype == np.uint32


@ALL
def test_the_same_key_plays_the_same(resets) -> None:
    actions = [[DIE, LIVE], [LIVE, DIE], [DIG, DIE]]
    one, two, other = Played(resets, actions), Played(resets, actions), Played(resets, actions, seed=1)
    assert all(map(np.array_equal, jax.tree.leaves(one.states), jax.tree.leaves(two.states)))
    assert one.states[-1].inner.world.tolist() != other.states[-1].inner.world.tolist()


@ALL
def test_a_step_gives_back_the_types_that_it_got(resets) -> None:
    """So that the state can be carried by a scan, and donated."""
    state, _ = first_state(GAME, jax.random.key(0), 4)  # typed keys are accepted, too
    worlds = resets.prepare(create_worlds(GAME), jax.random.PRNGKey(1))

    def body(state: EnvState, key: jax.Array):
        return with_resets(GAME, resets)(key, state, worlds, jnp.full(4, DIE, jnp.int32))

    after, timesteps = jax.lax.scan(body, state, jax.random.split(jax.random.PRNGKey(2), 3))
    assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, state)
    assert timesteps.terminated.all() and int(after.used) == 12


def test_a_pool_gives_each_world_once_before_any_twice() -> None:
    """Six worlds; eight endings, of which the third step's two see the first worlds again."""
    played = Played(STRATEGIES["pool"], [[DIE, DIE, LIVE], [DIE, DIE, DIE], [LIVE, DIE, DIE]], seed=3)
    worlds = played.prepared.key[:, 1].tolist()
    assert len(set(worlds)) == 6
    given = [[played.states[t].inner.world[n] for n in range(3)] for t in range(3)]
    assert given[0][:2] == worlds[:2]
    assert given[1] == worlds[2:5]
    assert given[2][1:] == [worlds[5], worlds[0]]


def test_optimistic_worlds_are_shared_only_when_they_run_out() -> None:
    """Four environments share two new worlds a step."""
    played = Played(STRATEGIES["optimistic"], [[DIE, LIVE, DIE, LIVE], [DIE] * 4])
    two, four = (state.inner.world.tolist() for state in played.states)
    assert two[0] != two[2]
    assert four[0] == four[2] != four[1] == four[3]


def test_plain_worlds_are_never_shared() -> None:
    played = Played(STRATEGIES["plain"], [[DIE] * 4, [DIE] * 4])
    assert len({int(world) for state in played.states for world in state.inner.world}) == 8


def test_the_worlds_that_are_asked_for_are_played_without_resets() -> None:
    """Each by keys of its own, so that an episode goes the same way whatever is played beside it."""
    keys = jax.random.split(jax.random.PRNGKey(5), 3)
    state, obs = begin(GAME, keys)
    assert state.inner.world.tolist() == keys[:, 1].tolist() == obs.tile[:, 0].tolist()
    assert state.statistics.world_key.tolist() == keys.tolist()
    dice = jnp.array([[0, 7], [0, 8], [0, 9]], jnp.uint32)
    game = GAME._replace(step=lambda key, state, action: (_step(key, state, action)[0], key[1].astype(jnp.float32)))
    outcome = play(game, dice, state, jnp.array([LIVE, DIE, DIG]))
    assert outcome.reward.tolist() == [7.0, 8.0, 9.0]
    assert outcome.terminated.tolist() == [False, True, False]
    assert outcome.inner.world.tolist() == keys[:, 1].tolist()  # nothing was reset
    assert outcome.episode.length.tolist() == [1, 1, 1]
    alone = play(game, dice[2:], begin(GAME, keys[2:])[0], jnp.array([DIG]))
    assert jax.tree.map(lambda x: x[2:].tolist(), outcome) == jax.tree.map(lambda x: x.tolist(), alone)
