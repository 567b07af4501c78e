"""Episodes played for an evaluation: each in its own world to its end, as if it were played alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import END, Table, TableArrays, play, scribble, small_config

from online_jax import assemble
from online_jax.measure import jobs_of, keep
from online_jax.play import Player, Trace, step_keys, world_keys
from online_jax.policies import Policy, act

SHORT_OR_LONG = Table(
    (0, 1),
    ((3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    ((END, END), (2, 2), (3, 3), (4, 4), (END, END)),
)
"""One step that pays 3, or four that pay 1 each, whatever the policy does."""
NAME = "Craftax-Classic-Symbolic-v1"


@dataclass
class Game:
    env: Any
    policy: Policy
    params: Any

    @cached_property
    def act(self) -> Any:
        return jax.jit(lambda memory, obs, first: act(self.policy, self.params, memory, obs, first))


def game(env: Any, **network: Any) -> Game:
    """A policy far from uniform, so that what it sees and remembers matters."""
    policy = assemble.policy(small_config(network=network), env)
    params = policy.init(jax.random.PRNGKey(3))
    params["towers"]["params"]["actor"] = jax.tree.map(lambda x: 100 * x, params["towers"]["params"]["actor"])
    return Game(env, policy, params)


@pytest.fixture(scope="module", params=["none", "gru"])
def scribbled_game(request: pytest.FixtureRequest) -> Game:
    return game(scribble(NAME), memory=request.param)


def played(
    game: Game, worlds: int, slots: int, greedy: Sequence[bool], traced: bool = False
) -> tuple[Any, list[Trace]]:
    """Results of all jobs, and the traces."""
    player, traces = Player(game.env, game.policy, slots, traced), []
    for now in player.play(game.params, game.env.begin(world_keys(0, 0, worlds)), greedy):
        results = jax.device_get(now.results)
        traces.append(jax.device_get(now.trace))
    return results, traces


def alone(game: Game, key: jax.Array, greedy: bool) -> dict[str, Any]:
    """One episode, step by step."""
    state, obs = game.env.begin(key[None])
    memory, first, actions, values, total = game.policy.initial_memory(1), True, [], [], 0.0
    while True:
        for_policy, for_game = step_keys(key, jnp.int32(len(actions)))
        memory, output = game.act(memory, obs, jnp.array([first]))
        action = output.logits[0].argmax() if greedy else jax.random.categorical(for_policy, output.logits[0])
        outcome = game.env.play(for_game[None], state, action[None])
        state, obs, first = state._replace(inner=outcome.inner, statistics=outcome.episode), outcome.obs, False
        actions.append(int(action))
        values.append(float(output.values[0, 0]))
        total += float(outcome.reward[0])
        if outcome.terminated[0] or outcome.truncated[0]:
            return {
                "return": total,
                "actions": actions,
                "values": values,
                "floor": int(outcome.episode.deepest_floor[0]),
                "achievements": outcome.achievements[0].tolist(),
                "terminated": bool(outcome.terminated[0]),
            }


def test_long_episodes_count_as_much_as_short_ones() -> None:
    """With few slots, taking the first episodes to end would find too many of the short ones."""
    table = game(play(TableArrays.of(SHORT_OR_LONG)))
    results, _ = played(table, worlds=150, slots=4, greedy=[False])
    starts = np.asarray(jax.vmap(table.env.world)(world_keys(0, 0, 150)).state)
    assert 50 < starts.sum() < 100
    assert results.lengths.tolist() == np.where(starts == 0, 1, 4).tolist()
    assert results.returns.tolist() == np.where(starts == 0, 3.0, 4.0).tolist()
    assert results.finished.all() and results.terminated.all() and results.achievements.all()


def test_a_limit_of_steps_truncates() -> None:
    table = game(play(TableArrays.of(SHORT_OR_LONG), max_timesteps=3))
    results, _ = played(table, worlds=20, slots=4, greedy=[True])
    starts = np.asarray(jax.vmap(table.env.world)(world_keys(0, 0, 20)).state)
    assert results.lengths.tolist() == np.where(starts == 0, 1, 3).tolist()
    assert results.terminated.tolist() == (starts == 0).tolist()
    assert not results.achievements[starts == 1].any()  # of the state that it stopped in


def test_every_episode_is_what_it_would_be_if_played_alone(scribbled_game: Game) -> None:
    worlds, greedy = 6, [False, True]
    results, traces = played(scribbled_game, worlds, 4, greedy, traced=True)
    kept: dict[int, list[Trace]] = {job: [] for job in jobs_of(range(worlds), worlds, 2)}
    for trace in traces:
        keep(kept, trace)
    for job, pieces in kept.items():
        expected = alone(scribbled_game, world_keys(0, 0, worlds)[job % worlds], greedy[job // worlds])
        assert np.concatenate([one.action for one in pieces]).tolist() == expected["actions"]
        assert np.concatenate([one.values[:, 0] for one in pieces]) == pytest.approx(expected["values"], abs=1e-4)
        assert np.concatenate([one.reward for one in pieces]).sum() == pytest.approx(expected["return"])
        assert results.returns[job] == pytest.approx(expected["return"])
        assert results.lengths[job] == len(expected["actions"])
        assert results.deepest_floor[job] == expected["floor"]
        assert results.achievements[job].tolist() == expected["achievements"]
        assert results.terminated[job] == expected["terminated"]
    assert results.returns[:worlds].tolist() != results.returns[worlds:].tolist()


def test_slots_change_nothing() -> None:
    """More slots than episodes, and one."""
    scribbled_game = game(scribble(NAME))
    expected = played(scribbled_game, 6, 1, [False, True])[0]
    found = played(scribbled_game, 6, 30, [False, True])[0]
    assert jax.tree.map(np.ndarray.tolist, found) == jax.tree.map(np.ndarray.tolist, expected)


def test_worlds_are_the_same_however_many_there_are() -> None:
    few, many = world_keys(7, 0, 3), world_keys(7, 0, 10)
    assert few.tolist() == many[:3].tolist()
    assert world_keys(7, 3, 7).tolist() == many[3:].tolist()
    assert len({tuple(key) for key in many.tolist()} | {tuple(key) for key in world_keys(8, 0, 10).tolist()}) == 20


def test_the_dice_are_not_those_that_made_the_world() -> None:
    """Craftax splits a world's key to make it: a step's keys must not be among the pieces."""
    key = world_keys(0, 0, 1)[0]
    pieces = {tuple(piece) for piece in jax.random.split(key, 100).tolist()} | {tuple(key.tolist())}
    dice = {tuple(one.tolist()) for length in range(20) for one in step_keys(key, jnp.int32(length))}
    assert len(dice) == 40 and not dice & pieces
