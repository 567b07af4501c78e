"""What changes over a run, worked out by hand, and gradient steps that are left out once the policy moved enough."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import MATCH, TableArrays, play, small_config, variant_on

from online_jax import ppo
from online_jax.assemble import schedule
from online_jax.config import PPOConfig


def coefficients(updates: int, **settings: Any) -> tuple[list[float], list[float]]:
    """Learning rates and entropy weights of a run's updates."""
    at = jax.jit(schedule(PPOConfig(**settings), updates))
    both = [at(jnp.int32(update)) for update in range(updates)]
    assert all(x.dtype == jnp.float32 for one in both for x in one)
    return [float(one.learning_rate) for one in both], [float(one.entropy) for one in both]


def test_the_learning_rate_falls_to_zero_after_the_last_update() -> None:
    assert coefficients(4, learning_rate=0.8)[0] == pytest.approx([0.8, 0.6, 0.4, 0.2])
    assert coefficients(4, learning_rate=0.8, anneal=False)[0] == pytest.approx([0.8] * 4)


@pytest.mark.parametrize(
    ("updates", "final", "expected"),
    [
        (5, None, [0.4, 0.4, 0.4, 0.4, 0.4]),
        (5, 0.0, [0.4, 0.3, 0.2, 0.1, 0.0]),
        (3, 0.8, [0.4, 0.6, 0.8]),
        (1, 0.0, [0.4]),
    ],
)
def test_the_entropys_weight_reaches_its_end_at_the_last_update(updates: int, final: Any, expected: list) -> None:
    assert coefficients(updates, entropy=0.4, entropy_final=final)[1] == pytest.approx(expected, abs=1e-7)


EPOCHS, MINIBATCHES, RATE = 3, 4, 0.02


@cache
def learnt(target_kl: float, learning_rate: float = RATE) -> tuple[Any, dict[str, float]]:
    """Parameters after one update of large steps, and its metrics."""
    steps = {"epochs": EPOCHS, "minibatches": MINIBATCHES, "target_kl": target_kl}
    config = small_config(num_envs=8, learning_rate=learning_rate, anneal=False, **steps)
    variant = variant_on(play(TableArrays.of(MATCH)), config)
    iterate = jax.jit(lambda: ppo.iterate(variant, ppo.init(variant, jax.random.PRNGKey(0))))
    state, losses, _ = iterate()
    return jax.device_get((state.params, state.opt_state)), {name: float(value) for name, value in losses.items()}


def assert_same(found: Any, expected: Any) -> None:
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6, rtol=0)


def test_a_threshold_that_is_never_reached_changes_nothing() -> None:
    found, losses = learnt(1e3)
    expected, plain = learnt(0.0)
    assert_same(found, expected)
    assert losses["ppo/stopped"] == 0 and "ppo/stopped" not in plain


def test_steps_are_left_out_from_the_first_that_is_too_far_on() -> None:
    """The first gradient step sees no divergence yet, and the second sees too much."""
    (_, adam), losses = learnt(1e-6)
    taken = EPOCHS * MINIBATCHES * (1 - losses["ppo/stopped"])
    counts = [int(leaf) for leaf in jax.tree.leaves(adam) if leaf.dtype == np.int32]
    assert counts == [1] and taken == pytest.approx(1, abs=1e-4)


def test_after_that_nothing_moves() -> None:
    """One step of Adam moves no parameter by more than the learning rate, and most by just that. Twelve do."""
    start, _ = learnt(1e-6, learning_rate=0.0)
    far = {threshold: furthest(learnt(threshold)[0][0], start[0]) for threshold in (1e-6, 0.0)}
    assert far[1e-6] == pytest.approx(RATE, rel=0.01)
    assert far[0.0] > 2 * RATE


def furthest(params: Any, start: Any) -> float:
    moved = jax.tree.map(lambda x, y: float(np.abs(x - y).max(initial=0)), params, start)
    return max(jax.tree.leaves(moved))
