"""Every preset learns what it must on environments whose answers are known, and not when it learns wrongly."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

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
    RECALL,
    ROUND,
    SHOWN,
    SIGNAL,
    Table,
    TableArrays,
    frame_of,
    play,
    small_config,
    tile_of,
    variant_on,
)

from online_jax import ppo
from online_jax.config import replaced
from online_jax.policies import act
from online_jax.presets import PRESETS

GAMMA = 0.5
UPDATES = 40
SMALL_BONUS = {
    "ppo-rnd": {"rnd.width": 8, "rnd.outputs": 8},
    "ppo-icm": {"icm.width": 8, "icm.latent": 4, "icm.reward": 1e-3},
    "ppo-e3b": {"icm.width": 8, "icm.latent": 4, "e3b.reward": 1e-3},
}
"""So small that the values stay what they are without (the bonus of `rnd` has a value of its own)."""
SETTINGS = {
    name: {**settings, **SMALL_BONUS.get(name, {})} for name, settings in PRESETS.items() if name != "ppo-pixel"
}
EVERY_PRESET = pytest.mark.parametrize("preset", SETTINGS)


class Case(NamedTuple):
    table: Table
    max_timesteps: int = 1000
    learning_rate: float = 0.03
    weight: float = 1.0
    """of the advantages in the policy's loss; -1 flips them"""


STILL, FLIPPED = Case(MATCH, learning_rate=0.0), Case(CHOICE, weight=-1.0)
CASES = (
    *map(Case, (CONSTANT, SIGNAL, DELAY, CHOICE, MATCH, FORK, RECALL)),
    Case(ROUND, max_timesteps=3),
    STILL,
    FLIPPED,
)


class Answers(NamedTuple):
    probabilities: np.ndarray
    """[SHOWN, A], at an episode's first step"""
    values: np.ndarray
    """[SHOWN], likewise"""
    recalled: np.ndarray
    """[2]: the probability of action 1 when 0 or 1 was shown, a step passed, and then it is time to say which"""


def learnt_by(variant: ppo.Variant, updates: int = UPDATES) -> Any:
    """The policy's parameters after so many updates."""
    state = ppo.init(variant, jax.random.PRNGKey(0))
    return jax.lax.scan(lambda state, _: (ppo.iterate(variant, state)[0], None), state, None, updates)[0].params


def at_first_steps(variant: ppo.Variant, params: Any, obs: Any) -> tuple[jax.Array, jax.Array]:
    """Probabilities [SHOWN, A] and values [SHOWN] of the game's own reward."""
    memory = variant.policy.initial_memory(SHOWN)
    _, output = act(variant.policy, params, memory, obs, jnp.ones(SHOWN, bool))
    return jax.nn.softmax(output.logits), output.values[:, 0]


@cache
def learnt(preset: str) -> dict[Case, Answers]:
    """All cases at once, as one program."""

    def learn(table: TableArrays, max_timesteps: Any, learning_rate: Any, weight: Any) -> Answers:
        config = small_config(
            num_envs=16, updates=UPDATES, gamma=GAMMA, learning_rate=learning_rate, entropy=0.0, gae_lambda=0.95
        )
        variant = variant_on(play(table, max_timesteps), replaced(config, SETTINGS[preset]))
        streams = variant.streams
        variant = variant._replace(streams=streams._replace(weight=tuple(weight * one for one in streams.weight)))
        params = learnt_by(variant)
        path = tile_of(jnp.array([[0, 1], [2, 2], [3, 3]]))
        memory, is_first = variant.policy.initial_memory(2), jnp.array([[True] * 2, [False] * 2, [False] * 2])
        _, along = variant.policy.unroll(params, memory, path, is_first)
        recalled = jax.nn.softmax(along.logits)[-1, :, 1]
        return Answers(*at_first_steps(variant, params, tile_of(jnp.arange(SHOWN))), recalled)

    tables, *settings = zip(*CASES, strict=True)
    stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *map(TableArrays.of, tables))
    results = jax.device_get(jax.jit(jax.vmap(learn))(stacked, *map(jnp.array, settings)))
    return {case: jax.tree.map(lambda x, i=i: x[i], results) for i, case in enumerate(CASES)}


def at_start(preset: str, case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities [S, A] and values [S] of the states in which the table's episodes start."""
    answers, starts = learnt(preset)[case], list(case.table.starts)
    return answers.probabilities[starts], answers.values[starts]


@EVERY_PRESET
@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        pytest.param(CONSTANT, [1.0], id="constant"),
        pytest.param(SIGNAL, [-1.0, 1.0], id="signal"),
        pytest.param(DELAY, [GAMMA], id="delay"),
    ],
)
def test_values(preset: str, probe: Table, expected: list[float]) -> None:
    assert at_start(preset, Case(probe))[1] == pytest.approx(expected, abs=0.05)


@EVERY_PRESET
@pytest.mark.parametrize(
    ("probe", "right", "value"),
    [
        pytest.param(CHOICE, [1], 1.0, id="choice"),
        pytest.param(MATCH, [0, 1], 1.0, id="match"),
        pytest.param(FORK, [1], GAMMA, id="fork"),
    ],
)
def test_the_best_policy_is_found(preset: str, probe: Table, right: list[int], value: float) -> None:
    probabilities, values = at_start(preset, Case(probe))
    assert (probabilities[np.arange(len(right)), right] > 0.9).all()
    assert values == pytest.approx([value] * len(right), abs=0.15)


def test_later_states_have_their_values_too() -> None:
    """Where nothing is remembered, a state is worth the same whenever it is seen."""
    assert learnt("ppo")[Case(DELAY)].values[:2] == pytest.approx([GAMMA, 1.0], abs=0.05)
    assert learnt("ppo")[Case(FORK)].values[2] == pytest.approx(1.0, abs=0.15)


@EVERY_PRESET
def test_a_time_limit_does_not_end_the_value(preset: str) -> None:
    """1 + γ + γ² + … = 2, though no episode lasts longer than three steps, which pay 1.75."""
    assert at_start(preset, Case(ROUND, max_timesteps=3))[1] == pytest.approx([1 / (1 - GAMMA)], abs=0.05)


@EVERY_PRESET
def test_only_memory_recalls(preset: str) -> None:
    """Without, both cases look the same at the last step: the right action is taken half of the time."""
    when_0, when_1 = learnt(preset)[Case(RECALL)].recalled
    if preset == "ppo-rnn":
        assert when_0 < 0.1 and when_1 > 0.9
    else:
        assert when_0 == when_1


@EVERY_PRESET
def test_nothing_is_learnt_without_learning(preset: str) -> None:
    probabilities, values = at_start(preset, STILL)
    assert probabilities == pytest.approx(0.5 * np.ones((2, 2)), abs=0.1)
    assert not (values > 0.8).all()


@EVERY_PRESET
def test_a_flipped_advantage_learns_the_wrong_thing(preset: str) -> None:
    probabilities, values = at_start(preset, FLIPPED)
    assert probabilities[0, 1] < 0.1
    assert values == pytest.approx([-1.0], abs=0.15)


def test_the_colour_of_a_frame_shows_the_right_action() -> None:
    """Few steps: convolutions take long here."""
    updates = 16
    config = small_config(
        num_steps=4, updates=updates, gamma=GAMMA, learning_rate=0.01, entropy=0.0, network={"depth": 3}, epochs=4
    )
    variant = variant_on(play(TableArrays.of(MATCH), in_frames=True), config)

    @jax.jit
    def learn() -> tuple[jax.Array, jax.Array]:
        return at_first_steps(variant, learnt_by(variant, updates), frame_of(jnp.arange(SHOWN)))

    probabilities, values = learn()
    assert probabilities[0, 0] > 0.9 and probabilities[1, 1] > 0.9
    assert values[:2] == pytest.approx([1.0, 1.0], abs=0.3)
