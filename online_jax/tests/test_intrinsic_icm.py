"""Curiosity, with an encoder that passes observations on, and a forward model that foresees s' = s + a (1, 0)."""

from __future__ import annotations

from functools import partial
from math import log
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from vectors import experience, ingredients, passing_on, same, transitions, zeros

from online_jax.intrinsic import IntrinsicReward
from online_jax.intrinsic.icm import icm

SMALL = {"icm__width": 2, "icm__latent": 2}


def bench(**settings: Any) -> tuple[IntrinsicReward, dict[str, Any]]:
    slot = icm(ingredients(**SMALL, **settings))
    learned, memory = jax.jit(slot.init)(jax.random.PRNGKey(0), jnp.zeros((1, 2)))
    assert memory == ()
    params = {
        "phi": passing_on(learned["params"]["phi"]),
        "forward": passing_on(learned["params"]["forward"]),
        "inverse": zeros(learned["params"]["inverse"]),
    }
    first = params["forward"]["params"]["Dense_0"]  # reads (s, one-hot a)
    first["kernel"] = jnp.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    return slot, {**learned, "params": params}


def updated(slot: IntrinsicReward, learned: Any, batch: Any) -> tuple[Any, Any]:
    return jax.jit(lambda learned, batch: slot.update(learned, batch, None))(learned, batch)


STEPS = experience(
    obs=[[[1, 2], [0, 3]], [[2, 2], [4, 3]], [[5, 5], [4, 3]]],
    last_obs=[[9, 9], [4, 5]],
    action=[[1, 1], [0, 0], [1, 0]],
    ended=[[False, False], [False, False], [True, False]],
)
"""(1, 2) by action 1 to (2, 2): as foreseen. (0, 3) by 1 to (4, 3): foreseen (1, 3), off by (3, 0): 9 / 2.
(2, 2) by 0 to (5, 5): off by (3, 3): 9. (4, 3) by 0 stays: as foreseen. An ending. (4, 3) by 0 to (4, 5): 4 / 2."""


def test_by_hand() -> None:
    slot, learned = bench()
    after, memory, bonus = jax.jit(slot.reward)(learned, (), STEPS)
    assert bonus.tolist() == [[0, 4.5], [9, 0], [0, 2]]
    assert same(after, learned) and memory == ()
    half, learned = bench(icm__reward=0.5)
    assert jax.jit(half.reward)(learned, (), STEPS)[2].tolist() == [[0, 2.25], [4.5, 0], [0, 1]]


def test_losses_by_hand() -> None:
    """Of six steps, one ended. Forward: (4.5 + 9 + 2) / 6. Inverse: two logits of 0, so ln 2 for five of six."""
    slot, learned = bench()
    _, losses = updated(slot, learned, STEPS.transitions())
    assert float(losses["icm/forward_loss"]) == pytest.approx(15.5 / 6)
    assert float(losses["icm/inverse_loss"]) == pytest.approx(log(2) * 5 / 6)


def drawn(**settings: Any) -> tuple[IntrinsicReward, Any]:
    """With networks as they start."""
    slot = icm(ingredients(icm__width=4, icm__latent=3, **settings))
    return slot, jax.jit(slot.init)(jax.random.PRNGKey(2), jnp.zeros((1, 2)))[0]


def moved(before: Any, after: Any) -> set[str]:
    """The models whose parameters changed."""
    return {name for name, part in before["params"].items() if not same(part, after["params"][name])}


def test_the_forward_loss_does_not_move_the_encoder() -> None:
    batch = transitions(1)
    for weights, expected in [
        ({"icm__inverse_loss": 0.0}, {"forward"}),
        ({"icm__forward_loss": 0.0}, {"phi", "inverse"}),
        ({}, {"phi", "forward", "inverse"}),
    ]:
        slot, learned = drawn(**weights)
        assert moved(learned, updated(slot, learned, batch)[0]) == expected


def test_steps_that_ended_contribute_nothing() -> None:
    slot, learned = drawn()
    batch = transitions(1, share_ended=0.5)
    assert 0 < batch.ended.sum() < 8
    where = jax.vmap(lambda ended, x, y: jax.tree.map(partial(jnp.where, ended), x, y))
    other = where(batch.ended, transitions(2), batch)._replace(ended=batch.ended)
    assert not same(other.next_obs, batch.next_obs)
    for found, expected in zip(
        jax.tree.leaves(updated(slot, learned, other)), jax.tree.leaves(updated(slot, learned, batch)), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-7)
    assert moved(learned, updated(slot, learned, batch._replace(ended=jnp.ones(8, bool)))[0]) == set()


def test_each_model_is_clipped_and_optimised_by_itself() -> None:
    """A forward loss of any size leaves what encoder and inverse model learn as it is."""
    batch = transitions(1)
    results = []
    for weight in (1.0, 1e6):
        slot, learned = drawn(icm__forward_loss=weight)
        results.append(updated(slot, learned, batch)[0])
    small, large = results
    for name in ("phi", "inverse"):
        for part in ("params", "opt_states"):
            for found, expected in zip(
                jax.tree.leaves(large[part][name]), jax.tree.leaves(small[part][name]), strict=True
            ):
                np.testing.assert_allclose(found, expected, atol=1e-7)
    assert not same(large["opt_states"]["forward"], small["opt_states"]["forward"])


def test_what_can_be_foreseen_loses_its_bonus() -> None:
    """Two kinds of steps whose action shows in what follows: both models learn them, and the bonus of these fades."""
    slot = icm(ingredients(icm__width=8, icm__latent=3, icm__learning_rate=1e-2))
    learned, _ = jax.jit(slot.init)(jax.random.PRNGKey(3), jnp.zeros((1, 2)))
    action = jnp.array([0, 1] * 4)
    here = jnp.ones((8, 2))
    batch = transitions(0)._replace(obs=here, action=action, next_obs=here.at[:, 0].add(2.0 * action - 1))
    _, losses = jax.lax.scan(lambda learned, _: slot.update(learned, batch, None), learned, None, 300)
    assert losses["icm/inverse_loss"][-1] < 0.05 < 0.5 < losses["icm/inverse_loss"][0]
    assert losses["icm/forward_loss"][-1] < 0.05 * losses["icm/forward_loss"].max()
