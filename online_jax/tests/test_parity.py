"""The loop computes what a plain implementation computes, alone, compiled in two parts, and for many seeds at once."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_bonus import E3B, ICM, RND
from plain_networks import Recurrent, TwoTowers
from plain_ppo import PlainPPO
from probes import scribble, silent, small_config, variant_on

from online_jax import ppo
from online_jax.config import TrainConfig, replaced
from online_jax.learner import Learner
from online_jax.presets import PRESETS

UPDATES = 3
CONFIG = small_config(updates=UPDATES, learning_rate=3e-3, max_grad_norm=0.5, gamma=0.9, network={"depth": 3})
ENV = scribble("Craftax-Classic-Symbolic-v1", reset="pool", max_timesteps=9, ending_rate=0.1)
SMALL: dict[str, dict[str, Any]] = {
    "ppo-rnd": {"rnd.width": 8, "rnd.outputs": 6, "rnd.learning_rate": 3e-3, "rnd.gamma": 0.8, "rnd.advantage": 0.5},
    "ppo-icm": {"icm.width": 8, "icm.latent": 6, "icm.learning_rate": 3e-3, "icm.epochs": 2},
    "ppo-e3b": {"icm.width": 8, "icm.latent": 6, "icm.learning_rate": 3e-3, "icm.epochs": 2},
}
BONUSES = {"ppo-rnd": RND, "ppo-icm": ICM, "ppo-e3b": E3B}


def settings(preset: str) -> TrainConfig:
    return replaced(CONFIG, {**PRESETS[preset], **SMALL.get(preset, {})})


VARIANT = variant_on(ENV, settings("ppo"))


@cache
def states(preset: str = "ppo") -> list[Any]:
    """The state before the first update and after each."""
    variant = VARIANT if preset == "ppo" else variant_on(ENV, settings(preset))
    iterate = jax.jit(lambda state: ppo.iterate(variant, state)[0])
    states = [jax.jit(lambda key: ppo.init(variant, key))(jax.random.PRNGKey(0))]
    for _ in range(UPDATES):
        states.append(iterate(states[-1]))
    return states


def _close(found: Any, expected: Any, atol: float) -> None:
    leaves = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    for one, other in leaves:
        np.testing.assert_allclose(one, other, atol=atol, rtol=0)


def _moved(before: Any, after: Any) -> float:
    """The largest change of any parameter."""
    return max(jax.tree.leaves(jax.tree.map(lambda a, b: float(jnp.abs(a - b).max(initial=0)), before, after)))


@pytest.mark.parametrize("preset", ["ppo", "ppo-rnn", *BONUSES])
def test_a_plain_implementation_learns_the_same(preset: str) -> None:
    start, *after = states(preset)
    network = (Recurrent if preset == "ppo-rnn" else TwoTowers)(start.params, ENV.layout)
    bonus = BONUSES[preset](settings(preset), start.learned, ENV.layout) if preset in BONUSES else None
    plain = PlainPPO(ENV, settings(preset), start, network, bonus)
    for state in after:
        plain.update()
        _close(plain.params, network.of(state.params, ENV.layout), atol=2e-5)
        _close(plain.env_state, state.actor.env_state, atol=1e-5)  # the same actions were taken
        _close(plain.memory, state.actor.memory, atol=2e-5)
        if bonus is not None:
            _close(bonus.params, bonus.of(state.learned, ENV.layout), atol=2e-5)
    assert _moved(start.params, after[-1].params) > 1e-2
    if bonus is not None:
        assert _moved(start.learned, after[-1].learned) > 1e-3
    ended = after[-1].actor.env_state.statistics.index
    assert (ended > 0).all()  # of which some by the time limit: nine steps out of twenty-four


def test_the_compiled_parts_learn_the_same() -> None:
    learner = Learner(VARIANT, silent)
    state = learner.init(0)
    for expected in states()[1:]:
        state = learner.update(state).state
        _close(state.params, expected.params, atol=1e-5)
        assert np.array_equal(state.key, expected.key) and state.update == expected.update
        assert np.array_equal(state.actor.is_first, expected.actor.is_first)


def test_many_seeds_at_once_learn_what_each_learns_alone() -> None:
    start, first, *_ = states()
    keys = jnp.stack([start.key, jax.random.PRNGKey(7)])
    together = jax.jit(jax.vmap(lambda key: ppo.iterate(VARIANT, start._replace(key=key))[0].params))(keys)
    _close(jax.tree.map(lambda leaf: leaf[0], together), first.params, atol=1e-5)
    assert _moved(*(jax.tree.map(lambda leaf, i=i: leaf[i], together) for i in range(2))) > 1e-3
