"""The elliptical bonus against numpy's inverse of ridge · I + Σ φφᵀ, and by hand."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from vectors import at_random, experience, ingredients, passing_on, same, transitions

from online_jax.intrinsic import Experience, IntrinsicReward
from online_jax.intrinsic.e3b import e3b, elliptical
from online_jax.intrinsic.icm import encoder, icm

SMALL = {"icm__width": 2, "icm__latent": 2}
RIDGE = 0.5


def bench(**settings: Any) -> tuple[IntrinsicReward, Any]:
    """With an encoder that passes observations on."""
    slot = e3b(ingredients(**SMALL, e3b__ridge=RIDGE, **settings))
    learned, _ = jax.jit(slot.init)(jax.random.PRNGKey(0), jnp.zeros((1, 2)))
    return slot, {**learned, "params": {**learned["params"], "phi": passing_on(learned["params"]["phi"])}}


def start(slot: IntrinsicReward, envs: int) -> jax.Array:
    return jax.jit(slot.init)(jax.random.PRNGKey(0), jnp.zeros((envs, 2)))[1]


def test_by_hand() -> None:
    """C = 1/2 at the start. (1, 0) pays 1 / .5 = 2; again 1 / 1.5, again 1 / 2.5; (0, 2), a new direction, 4 / .5 = 8.
    Then the episode ends, which pays nothing, and (1, 0) is worth 2 again."""
    slot, learned = bench()
    a, b = [1, 0], [0, 2]
    rollout = experience(
        obs=[[[9, 9]], [a], [a], [a], [b], [b]],
        last_obs=[a],
        ended=[[False], [False], [False], [False], [True], [False]],
    )
    _, memory, bonus = jax.jit(slot.reward)(learned, start(slot, 1), rollout)
    assert bonus[:, 0].tolist() == pytest.approx([2, 1 / 1.5, 1 / 2.5, 8, 0, 2], rel=1e-6)
    np.testing.assert_allclose(memory[0], [[1 / 1.5, 0], [0, 2]], rtol=1e-6)
    tenth, learned = bench(e3b__reward=0.1)
    assert jax.jit(tenth.reward)(learned, start(tenth, 1), rollout)[2][0, 0] == pytest.approx(0.2)


def by_inversion(latent: np.ndarray, ended: np.ndarray, sums: np.ndarray, ridge: float) -> np.ndarray:
    """Bonuses [T, N] of what followed, `latent` [T, N, F]; `sums` [N, F, F], Σ φφᵀ of the episodes, goes on."""
    bonus = np.zeros(ended.shape)
    for t, n in np.ndindex(*ended.shape):
        if ended[t, n]:
            sums[n] = 0
            continue
        inverse = np.linalg.inv(ridge * np.eye(latent.shape[-1]) + sums[n])
        bonus[t, n] = latent[t, n] @ inverse @ latent[t, n]
        sums[n] += np.outer(latent[t, n], latent[t, n])
    return bonus


def test_it_is_numpy_s_inverse_over_rollouts_and_episodes() -> None:
    """Three rollouts of twelve steps: episodes go on from one to the next."""
    given = ingredients(icm__width=8, icm__latent=6, e3b__ridge=0.1)
    slot, phi, envs = e3b(given), encoder(given), 3
    rollouts = [at_random(seed, 12, envs, share_ended=0.06) for seed in (10, 20, 30)]
    assert 0 < sum(int(rollout.ended.sum()) for rollout in rollouts) < 12
    learned, memory = jax.jit(slot.init)(jax.random.PRNGKey(5), rollouts[0].last_obs)
    reward = jax.jit(slot.reward)
    encoded = jax.jit(lambda rollout: rollout.encoded(lambda obs: phi.apply(learned["params"]["phi"], obs)))
    sums = np.zeros((envs, 6, 6))
    for rollout in rollouts:
        _, memory, bonus = reward(learned, memory, rollout)
        latent = encoded(rollout)[1:]
        expected = by_inversion(np.asarray(latent, np.float64), np.asarray(rollout.ended), sums, 0.1)
        np.testing.assert_allclose(bonus, expected, rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(memory, np.linalg.inv(0.1 * np.eye(6) + sums), atol=2e-3)


def test_a_long_episode_keeps_the_inverse() -> None:
    """Two thousand updates in float32: still symmetric, and the inverse to four digits."""
    latent = jax.random.normal(jax.random.PRNGKey(0), (2000, 1, 8)) * jnp.logspace(-1, 1, 8)
    inverse, _ = jax.lax.scan(elliptical, jnp.eye(8)[None] / 0.1, latent)
    every = np.asarray(latent[:, 0], np.float64)
    expected = np.linalg.inv(0.1 * np.eye(8) + every.T @ every)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(inverse[0] / scale, expected / scale, atol=1e-3)
    np.testing.assert_allclose(inverse[0], inverse[0].T, atol=1e-6)


def test_what_repeats_within_an_episode_loses_its_bonus() -> None:
    slot, learned = bench()
    rollout = experience(obs=[[[1, 2]]] * 8, last_obs=[[1, 2]])
    bonus = jax.jit(slot.reward)(learned, start(slot, 1), rollout)[2][:, 0]
    assert (jnp.diff(bonus) < 0).all() and bonus[-1] < 0.2 * bonus[0]


def test_it_learns_what_curiosity_learns() -> None:
    given = ingredients(**SMALL)
    batch = transitions(0, share_ended=0.3)
    key = jax.random.PRNGKey(4)
    slots = (e3b(given), icm(given))

    def learnt(slot: IntrinsicReward) -> Any:
        return jax.jit(lambda: slot.update(slot.init(key, batch.obs)[0], batch, None))()

    assert same(*map(learnt, slots))
    assert slots[0].epochs == slots[1].epochs and slots[0].streams == slots[1].streams


def test_the_weight_of_curiosity_does_not_matter() -> None:
    rollout: Experience = at_random(0, 3, 2)
    bonuses = [
        jax.jit(slot.reward)(learned, start(slot, 2), rollout)[2] for slot, learned in (bench(), bench(icm__reward=7.0))
    ]
    assert same(*bonuses)
