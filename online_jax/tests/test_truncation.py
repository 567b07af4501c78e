"""An episode that the time limit stops is worth what it would have gone on to be worth."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import CHAIN, TableArrays, play, small_config, tile_of, variant_on

from online_jax import ppo
from online_jax.policies import act

LIMIT = 3
CONFIG = small_config(num_envs=6, num_steps=10)
VARIANT = variant_on(play(TableArrays.of(CHAIN), LIMIT), CONFIG)


@pytest.fixture(scope="module")
def played() -> tuple[Any, Any]:
    """The state before a rollout, and the rollout on the host."""
    state = jax.jit(lambda key: ppo.init(VARIANT, key))(jax.random.PRNGKey(1))
    params = jax.tree.map(lambda leaf: leaf * 3, state.params)  # values that differ from state to state
    state = state._replace(params=params)

    def collect(state: Any) -> Any:
        return ppo.collect(VARIANT, state.params, state.learned, state.actor, state.key)[2]

    return state, jax.device_get(jax.jit(collect)(state))


def _values(state: Any, of: np.ndarray) -> np.ndarray:
    """The policy's values of states of the table."""
    _, output = act(VARIANT.policy, state.params, (), tile_of(jnp.asarray(of)), jnp.zeros(of.shape, bool))
    return np.asarray(output.values[:, 0])


def test_the_rollout_follows_the_table(played: tuple[Any, Any]) -> None:
    """Walked through by hand, one environment after the other."""
    _, rollout = played
    steps = rollout.steps
    kinds = set()
    for env in range(CONFIG.num_envs):
        at, clock = 0, 0
        for t in range(CONFIG.num_steps):
            action = steps.action[t, env]
            assert steps.obs.tile[t, env, 0] == 1 + at
            assert steps.is_first[t, env] == (clock == 0)
            assert steps.rewards[t, env, 0] == CHAIN.rewards[at][action]
            at, clock = CHAIN.following[at][action], clock + 1
            ends = "terminated" if at < 0 else "truncated" if clock == LIMIT else "goes on"
            kinds.add(ends)
            assert (steps.terminated[t, env], steps.truncated[t, env]) == (ends == "terminated", ends == "truncated")
            if ends != "goes on":
                at, clock = 0, 0
    assert kinds == {"terminated", "truncated", "goes on"}


def test_truncated_values_are_those_of_where_the_episode_stopped(played: tuple[Any, Any]) -> None:
    """Not of the fresh world's first observation, and 0 where nothing was truncated."""
    state, rollout = played
    steps = rollout.steps
    led_to = np.array(CHAIN.following)[steps.obs.tile[..., 0].astype(int) - 1, steps.action]
    expected = _values(state, led_to[steps.truncated])
    assert np.abs(expected - _values(state, np.array([0]))).min() > 1e-3
    np.testing.assert_allclose(steps.truncated_values[steps.truncated][:, 0], expected, atol=1e-5)
    assert not steps.truncated_values[~steps.truncated].any()


def test_the_advantage_of_the_last_step_counts_on_that_value(played: tuple[Any, Any]) -> None:
    _, rollout = played
    steps, config = rollout.steps, CONFIG.ppo
    advantages = np.asarray(ppo.gae(steps, rollout.last_values, VARIANT.streams, config.gae_lambda))
    stopped = steps.truncated
    expected = steps.rewards + config.gamma * steps.truncated_values - steps.values
    np.testing.assert_allclose(advantages[stopped], expected[stopped], atol=1e-5)
    over = steps.terminated
    np.testing.assert_allclose(advantages[over], (steps.rewards - steps.values)[over], atol=1e-5)


def test_last_values_are_those_of_the_observation_after_the_rollout(played: tuple[Any, Any]) -> None:
    state, rollout = played
    steps = jax.tree.map(lambda leaf: leaf[-1], rollout.steps)
    led_to = np.array(CHAIN.following)[steps.obs.tile[:, 0].astype(int) - 1, steps.action]
    at = np.where(steps.terminated | steps.truncated, 0, led_to)
    np.testing.assert_allclose(rollout.last_values[:, 0], _values(state, at), atol=1e-5)
