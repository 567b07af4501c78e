"""How a rollout is dealt out: every step exactly once per epoch, sequences whole where a policy needs them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from online_jax.ppo import minibatches, segments

T, N = 4, 6


def rollout() -> dict[str, jax.Array]:
    """Step t of environment n is numbered 10 n + t."""
    number = 10 * jnp.arange(N) + jnp.arange(T)[:, None]
    return {"number": number, "pair": jnp.stack([number, -number], -1)}


def test_segments_of_a_feed_forward_policy_are_single_steps() -> None:
    found = segments(rollout(), recurrent=False)
    assert found["number"].shape == (1, T * N) and found["pair"].shape == (1, T * N, 2)
    assert sorted(found["number"].ravel().tolist()) == sorted(rollout()["number"].ravel().tolist())
    assert np.array_equal(found["pair"][..., 0], found["number"])


def test_segments_of_a_recurrent_policy_are_whole_sequences() -> None:
    found = segments(rollout(), recurrent=True)
    assert np.array_equal(found["number"], rollout()["number"])


@pytest.mark.parametrize(("recurrent", "count"), [(False, 1), (False, 4), (False, 24), (True, 2), (True, 6)])
def test_every_step_comes_exactly_once(recurrent: bool, count: int) -> None:
    given = segments(rollout(), recurrent)
    dealt = jax.jit(minibatches, static_argnums=2)(jax.random.PRNGKey(0), given, count)
    length, sequences = given["number"].shape
    assert dealt["number"].shape == (count, length, sequences // count)
    assert dealt["pair"].shape == (count, length, sequences // count, 2)
    assert sorted(dealt["number"].ravel().tolist()) == sorted(given["number"].ravel().tolist())
    assert np.array_equal(dealt["pair"][..., 1], -dealt["number"])  # a step's parts stay together


def test_a_recurrent_policys_sequences_stay_whole_and_in_order() -> None:
    dealt = minibatches(jax.random.PRNGKey(3), segments(rollout(), recurrent=True), 3)["number"]
    sequences = np.moveaxis(np.asarray(dealt), 1, 2).reshape(-1, T)
    assert sorted(sequences.tolist()) == [(10 * n + np.arange(T)).tolist() for n in range(N)]


def test_the_key_decides_the_order() -> None:
    flat = segments(rollout(), recurrent=False)
    one, same, other = (minibatches(jax.random.PRNGKey(k), flat, 4)["number"].tolist() for k in (0, 0, 1))
    assert one == same != other
    assert one != flat["number"].reshape(4, 1, -1).tolist()  # shuffled at all
