"""What every bonus is given: the steps of a rollout paired with what followed them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from vectors import SIZE, at_random, experience, ingredients

from online_jax.intrinsic.e3b import e3b
from online_jax.intrinsic.icm import icm
from online_jax.intrinsic.none import none
from online_jax.intrinsic.rnd import rnd

BONUSES = pytest.mark.parametrize("bonus", [none, rnd, icm, e3b], ids=lambda bonus: bonus.__name__)

TWO_BY_TWO = experience(
    obs=[[[1, 1], [2, 2]], [[3, 3], [4, 4]]],
    last_obs=[[5, 5], [6, 6]],
    action=[[0, 1], [1, 0]],
    ended=[[False, True], [False, False]],
)
"""Two steps of two environments; the first step of the second one ends its episode."""


def test_transitions_by_hand() -> None:
    """By time, then environment; what follows an ending is the next episode's first observation."""
    steps = TWO_BY_TWO.transitions()
    assert steps.obs[:, 0].tolist() == [1, 2, 3, 4]
    assert steps.next_obs[:, 0].tolist() == [3, 4, 5, 6]
    assert steps.action.tolist() == [0, 1, 1, 0]
    assert steps.ended.tolist() == [False, True, False, False]


def test_encoded_by_hand() -> None:
    encoded = TWO_BY_TWO.encoded(lambda obs: 10 * obs)
    assert encoded[..., 0].tolist() == [[10, 20], [30, 40], [50, 60]]


def test_what_followed_is_at_the_next_step() -> None:
    rollout = at_random(0, steps=4, envs=3)
    following = rollout.encoded(lambda obs: obs)[1:].reshape(-1, SIZE)
    np.testing.assert_array_equal(following, rollout.transitions().next_obs)


@BONUSES
def test_nothing_is_paid_where_an_episode_ended_and_nothing_leaks_between_environments(bonus) -> None:
    """Each of three environments gets what it gets alone."""
    slot = bonus(ingredients(icm__width=4, icm__latent=3, rnd__width=4, rnd__outputs=3))
    rollout = at_random(0, steps=5, envs=3, share_ended=0.4)
    assert 0 < rollout.ended.sum() < 15
    learned, memory = jax.jit(slot.init)(jax.random.PRNGKey(0), rollout.last_obs)
    _, after, together = jax.jit(slot.reward)(learned, memory, rollout)
    assert together.shape == (5, 3)
    assert not together[rollout.ended].any()
    assert bonus is none or (together[~rollout.ended] > 0).all()
    for i in range(3):
        one = jax.tree.map(lambda x, i=i: x[:, i : i + 1], rollout._replace(last_obs=rollout.last_obs[None]))
        one = one._replace(last_obs=one.last_obs[0])
        alone = jax.jit(slot.init)(jax.random.PRNGKey(0), one.last_obs)
        _, after_alone, bonus_alone = jax.jit(slot.reward)(*alone, one)
        np.testing.assert_allclose(bonus_alone[:, 0], together[:, i], rtol=1e-5, atol=1e-7)
        for found, expected in zip(jax.tree.leaves(after_alone), jax.tree.leaves(after), strict=True):
            np.testing.assert_allclose(found[0], expected[i], rtol=1e-5, atol=1e-6)


@BONUSES
def test_seeds_side_by_side_are_each_alone(bonus) -> None:
    """init, reward and update under vmap."""
    slot = bonus(ingredients(icm__width=4, icm__latent=3, rnd__width=4, rnd__outputs=3, rnd__normalise_reward=True))

    def life(key: jax.Array, rollout):
        learned, memory = slot.init(key, rollout.last_obs)
        learned, memory, first = slot.reward(learned, memory, rollout)
        learned, losses = slot.update(learned, rollout.transitions(), None)
        return slot.reward(learned, memory, rollout)[2], first, losses

    keys = jax.random.split(jax.random.PRNGKey(3), 2)
    rollouts = [at_random(seed, steps=4, envs=2) for seed in range(2)]
    together = jax.jit(jax.vmap(life))(keys, jax.tree.map(lambda *x: jnp.stack(x), *rollouts))
    alone = jax.jit(life)
    for i in range(2):
        found = jax.tree.leaves(jax.tree.map(lambda x, i=i: x[i], together))
        for one, other in zip(found, jax.tree.leaves(alone(keys[i], rollouts[i])), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_the_null_object_does_nothing() -> None:
    slot = none(ingredients())
    learned, memory = jax.jit(slot.init)(jax.random.PRNGKey(0), TWO_BY_TWO.last_obs)
    learned, memory, bonus = jax.jit(slot.reward)(learned, memory, TWO_BY_TWO)
    assert (learned, memory) == ((), ()) and not bonus.any() and slot.epochs == 0 and slot.measure(bonus) == {}
