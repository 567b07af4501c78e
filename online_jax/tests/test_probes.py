"""PPO learns what it must on environments whose answers are known, and not when it learns wrongly."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import (
    CHOICE,
    CONSTANT,
    DELAY,
    FORK,
    MATCH,
    ROUND,
    SIGNAL,
    STATES,
    Table,
    TableArrays,
    play,
    shown_state,
    small_config,
    variant_on,
)

from online_jax import ppo
from online_jax.intrinsic import Streams
from online_jax.policies import act

GAMMA = 0.5
UPDATES = 40


class Case(NamedTuple):
    table: Table
    max_timesteps: int = 1000
    learning_rate: float = 0.03
    weight: float = 1.0
    """of the advantage in the policy's loss; -1 flips it"""


STILL, FLIPPED = Case(MATCH, learning_rate=0.0), Case(CHOICE, weight=-1.0)
CASES = (*map(Case, (CONSTANT, SIGNAL, DELAY, CHOICE, MATCH, FORK)), Case(ROUND, max_timesteps=3), STILL, FLIPPED)


def learn(table: TableArrays, max_timesteps: jax.Array, learning_rate: jax.Array, weight: jax.Array):
    """What PPO has learnt after `UPDATES` updates: probabilities [S, A] and values [S]."""
    config = small_config(
        num_envs=16, updates=UPDATES, gamma=GAMMA, learning_rate=learning_rate, entropy=0.0, gae_lambda=0.95
    )
    streams = Streams(gamma=(GAMMA,), weight=(weight,))
    variant = variant_on(play(table, max_timesteps), config, streams)
    state = ppo.init(variant, jax.random.PRNGKey(0))
    state, _ = jax.lax.scan(lambda state, _: (ppo.iterate(variant, state)[0], None), state, None, UPDATES)
    _, output = act(variant.policy, state.params, (), shown_state(jnp.arange(STATES)), jnp.ones(STATES, bool))
    return jax.nn.softmax(output.logits), output.values[:, 0]


@cache
def learnt() -> dict[Case, tuple[np.ndarray, np.ndarray]]:
    """All cases at once, as one program."""
    tables, *settings = zip(*CASES, strict=True)
    stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *map(TableArrays.of, tables))
    results = jax.jit(jax.vmap(learn))(stacked, *map(jnp.array, settings))
    return {case: tuple(np.asarray(result[i]) for result in results) for i, case in enumerate(CASES)}


def answers(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities [S, A] and values [S] of the states that its table has."""
    probabilities, values = learnt()[case]
    states = len(case.table.rewards)
    return probabilities[:states], values[:states]


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        pytest.param(CONSTANT, [1.0], id="constant"),
        pytest.param(SIGNAL, [-1.0, 1.0], id="signal"),
        pytest.param(DELAY, [GAMMA, 1.0], id="delay"),
    ],
)
def test_values(probe: Table, expected: list[float]) -> None:
    assert answers(Case(probe))[1] == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize(
    ("probe", "right", "values"),
    [
        pytest.param(CHOICE, [1], [1.0], id="choice"),
        pytest.param(MATCH, [0, 1], [1.0, 1.0], id="match"),
        pytest.param(FORK, [1, None, None], [GAMMA, -1.0, 1.0], id="fork"),
    ],
)
def test_the_best_policy_is_found(probe: Table, right: list[int | None], values: list[float]) -> None:
    probabilities, found = answers(Case(probe))
    for state, action in enumerate(right):
        if action is not None:
            assert probabilities[state, action] > 0.9
    assert found[right.index(right[0])] == pytest.approx(values[0], abs=0.15)


def test_a_time_limit_does_not_end_the_value() -> None:
    """1 + γ + γ² + … = 2, though no episode lasts longer than three steps, which pay 1.75."""
    assert answers(Case(ROUND, max_timesteps=3))[1] == pytest.approx([1 / (1 - GAMMA)], abs=0.05)


def test_nothing_is_learnt_without_learning() -> None:
    probabilities, values = answers(STILL)
    assert probabilities == pytest.approx(0.5 * np.ones((2, 2)), abs=0.1)
    assert not (values > 0.8).all()


def test_a_flipped_advantage_learns_the_wrong_thing() -> None:
    probabilities, values = answers(FLIPPED)
    assert probabilities[0, 1] < 0.1
    assert values == pytest.approx([-1.0], abs=0.15)
