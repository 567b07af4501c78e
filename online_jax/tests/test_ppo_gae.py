"""Advantages worked out by hand.

All tables: rewards 1, 2, 3, 4, values 1, the value after the last step 2, gamma 0.5, trace decay 0.5. Undisturbed,

    delta      = 1+.5·1-1, 2+.5·1-1, 3+.5·1-1, 4+.5·2-1 = 0.5, 1.5, 2.5, 4
    advantage  = delta + 0.25 · next advantage          = 1.09375, 2.375, 3.5, 4
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from online_jax import ppo
from online_jax.intrinsic import Streams
from online_jax.ppo import Transition, gae

jitted_gae = jax.jit(gae, static_argnums=(2, 3))
NEVER: tuple[int, ...] = ()
PLAIN = [1.09375, 2.375, 3.5, 4.0]


def steps(terminated=NEVER, truncated=NEVER, truncated_value=0.0, streams: int = 1) -> Transition:
    """Four steps of one environment, in which the named steps end an episode."""
    ended = [np.isin(np.arange(4), list(which))[:, None] for which in (terminated, truncated)]
    one_each = np.ones((4, 1, streams), np.float32)
    return Transition(
        obs=(),
        is_first=np.zeros((4, 1), bool),
        action=np.zeros((4, 1), np.int32),
        log_prob=np.zeros((4, 1), np.float32),
        values=jnp.asarray(one_each),
        rewards=jnp.asarray(one_each * np.arange(1, 5, dtype=np.float32)[:, None, None]),
        terminated=jnp.asarray(ended[0]),
        truncated=jnp.asarray(ended[1]),
        truncated_values=jnp.asarray(np.where(ended[1][..., None], one_each * np.float32(truncated_value), 0)),
    )


def advantages(steps: Transition, streams: Streams | None = None, trace_decay: float = 0.5) -> list[list[float]]:
    """gae under jit, stream by stream."""
    streams = streams or Streams(gamma=(0.5,))
    last_values = jnp.full((1, len(streams.gamma)), 2.0)
    result = jitted_gae(steps, last_values, streams, trace_decay)
    assert result.shape == steps.values.shape
    return result[:, 0].T.tolist()


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        ({}, PLAIN),
        # The second step's delta becomes 2 - 1 = 1, and nothing comes back from the third.
        ({"terminated": [1]}, [0.75, 1.0, 3.5, 4.0]),
        # Stopped where the value is 6: delta 2 + 0.5·6 - 1 = 4, and nothing comes back from the third.
        ({"truncated": [1], "truncated_value": 6.0}, [1.5, 4.0, 3.5, 4.0]),
        # The last step: delta 4 - 1 = 3, whatever the value after it.
        ({"terminated": [3]}, [1.078125, 2.3125, 3.25, 3.0]),
        # The last step: delta 4 + 0.5·6 - 1 = 6.
        ({"truncated": [3], "truncated_value": 6.0}, [1.125, 2.5, 4.0, 6.0]),
        # Every step an episode of its own: reward - value.
        ({"terminated": [0, 1, 2, 3]}, [0.0, 1.0, 2.0, 3.0]),
        # One of each: step 0 as terminated, step 2 stopped where the value is 6, delta 3 + 3 - 1 = 5.
        ({"terminated": [0], "truncated": [2], "truncated_value": 6.0}, [0.0, 2.75, 5.0, 4.0]),
    ],
)
def test_by_hand(ended, expected) -> None:
    assert advantages(steps(**ended)) == [expected]


def test_without_decay_or_discount_it_is_the_sum_of_rewards_less_the_value() -> None:
    assert advantages(steps(), Streams(gamma=(1.0,)), trace_decay=1.0) == [[11.0, 10.0, 8.0, 5.0]]


def test_without_trace_it_is_the_one_step_error() -> None:
    assert advantages(steps(), trace_decay=0.0) == [[0.5, 1.5, 2.5, 4.0]]


def test_each_stream_has_its_own_discount() -> None:
    """gamma 1 with trace decay 0.5: deltas 1, 2, 3, 5; advantages 5 → 5.5 → 4.75 → 3.375."""
    two = advantages(steps(streams=2), Streams(mix=((1, 0), (0, 1)), gamma=(0.5, 1.0), episodic=(True, True)))
    assert two == [PLAIN, [3.375, 4.75, 5.5, 5.0]]


@pytest.mark.parametrize("ended", [{"terminated": [1]}, {"truncated": [1], "truncated_value": 6.0}])
def test_a_stream_that_is_not_episodic_goes_on_over_the_ending(ended) -> None:
    streams = Streams(mix=((1, 0), (0, 1)), gamma=(0.5, 0.5), episodic=(True, False))
    episodic, endless = advantages(steps(**ended, streams=2), streams)
    assert endless == PLAIN
    assert episodic == advantages(steps(**ended))[0] != PLAIN


def test_environments_and_seeds_do_not_mix() -> None:
    """Two environments side by side, and two runs under vmap, give what each gives alone."""
    cases = [steps(), steps(terminated=[1]), steps(truncated=[1], truncated_value=6.0), steps(terminated=[3])]
    alone = [advantages(case)[0] for case in cases]
    last = jnp.full((1, 1), 2.0)
    beside = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=1), *cases)
    together = gae(beside, jnp.full((4, 1), 2.0), Streams(gamma=(0.5,)), 0.5)
    assert together[..., 0].T.tolist() == alone
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *cases)
    mapped = jax.vmap(lambda case: gae(case, last, Streams(gamma=(0.5,)), 0.5))(stacked)
    assert mapped[:, :, 0, 0].tolist() == alone


def test_two_streams_by_hand() -> None:
    """The first ends with the episode, γ = 1/2; the second goes on, γ = 1; trace decay 1/2, and step 1 ends an episode.

    Rewards of the game 1, 2, 3, 4 and bonuses 10, 0, 20, 0, kept apart; values 1, after the last step 2.
    The first stream is that of the table above. The second: deltas 10+1-1, 0+1-1, 20+1-1, 0+2-1 = 10, 0, 20, 1, and
    advantages 1, 20 + .5 · 1 = 20.5, 0 + .5 · 20.5 = 10.25, 10 + .5 · 10.25 = 15.125.
    """
    streams = Streams(mix=((1, 0), (0, 1)), gamma=(0.5, 1.0), episodic=(True, False), weight=(1.0, 0.1))
    both = steps(terminated=[1], streams=2)
    game_and_bonus = jnp.array([[1, 10], [2, 0], [3, 20], [4, 0]], jnp.float32)[:, None]
    both = both._replace(rewards=ppo._weighted(game_and_bonus[..., None, :], streams.mix))
    assert both.rewards[:, 0].tolist() == game_and_bonus[:, 0].tolist()
    found = advantages(both, streams)
    assert found == [[0.75, 1.0, 3.5, 4.0], [15.125, 10.25, 20.5, 1.0]]
    together = ppo._weighted(jnp.array(found).T, streams.weight)
    assert together.tolist() == pytest.approx([0.75 + 1.5125, 1 + 1.025, 3.5 + 2.05, 4 + 0.1])


def test_one_stream_may_be_any_mix() -> None:
    """Half of the game's reward and twice the bonus, beside the bonus alone."""
    rewards = jnp.array([[[4.0, 1.0]], [[2.0, 3.0]]])  # [T, N, (game, bonus)]
    mixed = ppo._weighted(rewards[..., None, :], ((0.5, 2.0), (0.0, 1.0)))
    assert mixed[:, 0].tolist() == [[4.0, 1.0], [7.0, 3.0]]
