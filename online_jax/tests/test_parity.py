"""The loop computes what a plain implementation computes, alone, compiled in two parts, and for many seeds at once."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_ppo import PlainPPO, towers_of
from probes import scribble, silent, small_config, variant_on

from online_jax import ppo
from online_jax.learner import Learner

UPDATES = 3
CONFIG = small_config(updates=UPDATES, learning_rate=3e-3, max_grad_norm=0.5, gamma=0.9, network={"depth": 3})
ENV = scribble("Craftax-Classic-Symbolic-v1", reset="pool", max_timesteps=9, ending_rate=0.1)
VARIANT = variant_on(ENV, CONFIG)


@pytest.fixture(scope="module")
def states() -> list[Any]:
    """The state before the first update and after each."""
    iterate = jax.jit(lambda state: ppo.iterate(VARIANT, state))
    states = [jax.jit(lambda key: ppo.init(VARIANT, key))(jax.random.PRNGKey(0))]
    for _ in range(UPDATES):
        states.append(iterate(states[-1])[0])
    return states


def _close(found: Any, expected: Any, atol: float) -> None:
    leaves = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    for one, other in leaves:
        np.testing.assert_allclose(one, other, atol=atol, rtol=0)


def test_a_plain_implementation_learns_the_same(states: list[Any]) -> None:
    plain = PlainPPO(ENV, CONFIG.ppo, CONFIG.num_envs, CONFIG.num_steps, UPDATES, states[0].key)
    plain.start(states[0].params, states[0].actor.env_state, states[0].actor.obs)
    for state in states[1:]:
        plain.update()
        _close(plain.towers, towers_of(state.params, ENV.layout), atol=2e-5)
        _close(plain.env_state, state.actor.env_state, atol=1e-5)  # the same actions were taken
    moved = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), states[0].params, states[-1].params)
    assert max(jax.tree.leaves(moved)) > 1e-2
    ended = states[-1].actor.env_state.statistics.index
    assert (ended > 0).all()  # of which some by the time limit: nine steps out of twenty-four


def test_the_compiled_parts_learn_the_same(states: list[Any]) -> None:
    learner = Learner(VARIANT, silent)
    state = learner.init(0)
    for expected in states[1:]:
        state = learner.update(state).state
        _close(state.params, expected.params, atol=1e-5)
        assert np.array_equal(state.key, expected.key) and state.update == expected.update
        assert np.array_equal(state.actor.is_first, expected.actor.is_first)


def test_many_seeds_at_once_learn_what_each_learns_alone(states: list[Any]) -> None:
    keys = jnp.stack([states[0].key, jax.random.PRNGKey(7)])
    together = jax.jit(jax.vmap(lambda key: ppo.iterate(VARIANT, states[0]._replace(key=key))[0].params))(keys)
    _close(jax.tree.map(lambda leaf: leaf[0], together), states[1].params, atol=1e-5)
    differences = jax.tree.map(lambda leaf: float(jnp.abs(leaf[0] - leaf[1]).max()), together)
    assert max(jax.tree.leaves(differences)) > 1e-3
