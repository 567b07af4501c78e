"""Random network distillation, with a target that passes observations on and a predictor that says 0.

The bonus of a step is then the mean square of the observation that followed: (1, 3) pays (1 + 9) / 2 = 5.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from vectors import experience, ingredients, passing_on, same, transitions, zeros

from online_jax.intrinsic import IntrinsicReward
from online_jax.intrinsic.rnd import rnd


def bench(**settings: Any) -> tuple[IntrinsicReward, dict[str, Any]]:
    slot = rnd(ingredients(rnd__width=2, rnd__outputs=2, **settings))
    learned, _ = jax.jit(slot.init)(jax.random.PRNGKey(0), jnp.zeros((1, 2)))
    return slot, {**learned, "target": passing_on(learned["target"]), "predictor": zeros(learned["predictor"])}


def paid(slot: IntrinsicReward, learned: Any, memory: Any, rollout: Any) -> tuple[Any, Any, list[list[float]]]:
    learned, memory, bonus = jax.jit(slot.reward)(learned, memory, rollout)
    return learned, memory, bonus.tolist()


TWO = experience(
    obs=[[[9, 9], [9, 9]], [[1, 3], [2, 0]]],
    last_obs=[[2, 4], [0, 6]],
    ended=[[False, False], [True, False]],
)
"""What follows: (1, 3) and (2, 0), then the end of an episode and (0, 6)."""


def test_by_hand() -> None:
    slot, learned = bench()
    after, _, bonus = paid(slot, learned, jnp.zeros(2), TWO)
    assert bonus == [[5, 2], [0, 18]]
    assert same(after, learned)  # looking at it teaches nothing


def test_the_weight_of_the_bonus() -> None:
    assert paid(*bench(rnd__reward=0.5), jnp.zeros(2), TWO)[2] == [[2.5, 1], [0, 9]]


ONE = experience(obs=[[[9, 9]], [[2, 0]], [[7, 7]]], last_obs=[[0, 4]], ended=[[False], [True], [False]])
"""Pays 2, 0 (the end of an episode) and 8."""


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_normalised_by_hand(weight: float) -> None:
    """With γ = 1/2 the discounted sums are 2, 1, 8.5 (over the end of the episode too), and then, in the next rollout,
    6.25, 3.125, 9.5625; the bonus is divided by the deviation of all sums so far, and its weight comes on top."""
    slot, learned = bench(rnd__normalise_reward=True, rnd__gamma=0.5, rnd__reward=weight)
    learned, memory, first = paid(slot, learned, jnp.zeros(1), ONE)
    assert memory.tolist() == pytest.approx([8.5])
    np.testing.assert_allclose(np.ravel(first), weight * np.array([2, 0, 8]) / np.std([2, 1, 8.5]), rtol=1e-5)
    _, memory, second = paid(slot, learned, memory, ONE)
    sums = [2, 1, 8.5, 6.25, 3.125, 9.5625]
    assert memory.tolist() == pytest.approx([9.5625])
    np.testing.assert_allclose(np.ravel(second), weight * np.array([2, 0, 8]) / np.std(sums), rtol=1e-5)


def test_the_target_never_moves_and_what_repeats_loses_its_bonus() -> None:
    """Learning (1, 0) over and over; (0, 1) is new."""
    slot = rnd(ingredients(rnd__width=8, rnd__outputs=4, rnd__learning_rate=1e-2, rnd__loss=1.0))
    old, new = jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0])
    learned, memory = jax.jit(slot.init)(jax.random.PRNGKey(1), jnp.zeros((2, 2)))
    rollout = experience(obs=[[[0, 0], [0, 0]]], last_obs=jnp.stack([old, new]))
    batch = transitions(0)._replace(next_obs=jnp.tile(old, (8, 1)))

    def step(learned: Any, _: None) -> Any:
        learned, losses = slot.update(learned, batch, None)
        return learned, losses["rnd/loss"]

    before = jax.jit(slot.reward)(learned, memory, rollout)[2][0]
    after, losses = jax.lax.scan(step, learned, None, 200)
    assert losses[-1] < 0.01 * losses[0]
    assert same(after["target"], learned["target"]) and not same(after["predictor"], learned["predictor"])
    bonus_of_old, bonus_of_new = jax.jit(slot.reward)(after, memory, rollout)[2][0]
    assert bonus_of_old < 0.02 * before[0]
    assert bonus_of_new > 10 * bonus_of_old


def test_the_loss_by_hand_and_steps_that_ended_are_not_learnt_from() -> None:
    """Of (1, 3), (2, 0) and an ended step: (5 + 2 + 0) / 3, times the loss's weight."""
    slot, learned = bench(rnd__loss=0.3)
    batch = transitions(0, count=3)._replace(
        next_obs=jnp.array([[1.0, 3.0], [2.0, 0.0], [8.0, 8.0]]), ended=jnp.array([False, False, True])
    )
    update = jax.jit(lambda learned, batch: slot.update(learned, batch, None))
    after, losses = update(learned, batch)
    assert float(losses["rnd/loss"]) == pytest.approx(0.3 * 7 / 3)
    assert not same(after["predictor"], learned["predictor"])
    other = batch._replace(next_obs=batch.next_obs.at[2].set(jnp.array([-5.0, 1.0])))
    assert same(update(learned, other), (after, losses))
    assert same(update(learned, batch._replace(ended=jnp.ones(3, bool)))[0]["predictor"], learned["predictor"])


def test_two_streams() -> None:
    """The game's reward ends with the episode; the bonus goes on, with a discount of its own, unless told otherwise."""
    streams = rnd(ingredients(ppo__gamma=0.9, rnd__gamma=0.7, rnd__advantage=0.25)).streams
    assert streams == (((1, 0), (0, 1)), (0.9, 0.7), (True, False), (1, 0.25))
    assert rnd(ingredients(rnd__episodic=True)).streams.episodic == (True, True)
