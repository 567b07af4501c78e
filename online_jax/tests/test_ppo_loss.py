"""The loss of a minibatch of two steps, worked out by hand.

The policy of the rollout took both actions with probability 1/2. Its advantages, 1 and -1, are normalised already.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from online_jax.config import PPOConfig
from online_jax.intrinsic import Streams
from online_jax.policies import PolicyOutput
from online_jax.ppo import Batch, Transition, ppo_loss

CONFIG = PPOConfig(clip=0.2, value=0.5, entropy=0.01)
ONE = Streams()
jitted_loss = jax.jit(ppo_loss, static_argnums=(1, 3, 4))
jitted_gradient = jax.jit(jax.grad(ppo_loss, has_aux=True), static_argnums=(1, 3, 4))


def unroll(params, memory, obs, is_first):
    """A policy whose outputs are its parameters."""
    return memory, PolicyOutput(params["logits"][None], params["values"][None])


def params(probabilities: list[float], values=((1.0,), (1.0,))) -> dict[str, jax.Array]:
    """A policy that gives the action taken, 0, these probabilities, and the other one the rest."""
    logits = jnp.log(jnp.array([[p, 1 - p] for p in probabilities]))
    return {"logits": logits, "values": jnp.array(values, jnp.float32)}


def batch(advantages=((1.0,), (-1.0,)), values=((1.0,), (1.0,)), targets=((1.0,), (1.0,))) -> Batch:
    """Rows [1, 2] and streams K, as lists [2][K]."""
    nothing = jnp.zeros((1, 2), bool)
    arrays = [jnp.array(rows, jnp.float32)[None] for rows in (advantages, values, targets)]
    steps = Transition(
        obs=(),
        is_first=nothing,
        action=jnp.zeros((1, 2), jnp.int32),
        log_prob=jnp.full((1, 2), math.log(0.5)),
        values=arrays[1],
        rewards=jnp.zeros_like(arrays[1]),
        terminated=nothing,
        truncated=nothing,
        truncated_values=jnp.zeros_like(arrays[1]),
    )
    return Batch((), steps, arrays[0], arrays[2])


def loss(params, batch: Batch, streams: Streams = ONE, config: PPOConfig = CONFIG) -> dict[str, float]:
    total, metrics = jitted_loss(params, unroll, batch, streams, config, config.entropy)
    return {"total": float(total), **{name.removeprefix("ppo/"): float(value) for name, value in metrics.items()}}


@pytest.mark.parametrize(
    ("probabilities", "expected", "clipped"),
    [
        ((0.5, 0.5), 0.0, 0.0),  # ratios 1 and 1: -(1 - 1) / 2
        ((0.55, 0.45), -0.1, 0.0),  # ratios 1.1 and 0.9, inside the range: -(1.1 - 0.9) / 2
        ((0.75, 0.25), -0.2, 1.0),  # 1.5 counts as 1.2, 0.5 as 0.8: gains beyond the range are not counted
        ((0.25, 0.75), 0.5, 1.0),  # 0.5 and 1.5 count in full: losses are. -(0.5 - 1.5) / 2
        ((0.75, 0.5), -0.1, 0.5),  # -(1.2 - 1) / 2
    ],
)
def test_clipped_surrogate(probabilities, expected, clipped) -> None:
    found = loss(params(probabilities), batch())
    assert found["policy_loss"] == pytest.approx(expected, abs=1e-6)
    assert found["clip_fraction"] == clipped


@pytest.mark.parametrize(
    ("value", "target", "squared"),
    [
        (2.0, 3.0, 1.8**2),  # moved from 1 to 2: counts as 1.2, further from 3
        (0.9, 0.0, 0.9**2),  # moved by less than the range
        (3.0, 1.0, 2.0**2),  # overshot: the clipped 1.2 is nearer to 1, but the larger error counts
        (1.0, 1.0, 0.0),
    ],
)
def test_clipped_value_loss(value, target, squared) -> None:
    found = loss(params([0.5, 0.5], [[value], [1.0]]), batch(targets=[[target], [1.0]]))
    assert found["value_loss"] == pytest.approx(0.5 * squared / 2, rel=1e-6)


def test_entropy_and_divergence() -> None:
    """p = 3/4: -(0.75 ln 0.75 + 0.25 ln 0.25); ratios 1.5 and 0.5: ((0.5 - ln 1.5) + (-0.5 - ln 0.5)) / 2."""
    assert loss(params([0.5, 0.5]), batch())["entropy"] == pytest.approx(math.log(2))
    found = loss(params([0.75, 0.25]), batch())
    assert found["entropy"] == pytest.approx(0.5623351446188083)
    assert found["approx_kl"] == pytest.approx(0.14384103622589042, rel=1e-5)


def test_the_total_weighs_its_terms() -> None:
    """policy -0.2, value 0.5 · (3.24 + 0) / 2 = 0.81, entropy 0.56233514."""
    found = loss(params([0.75, 0.25], [[2.0], [1.0]]), batch(targets=[[3.0], [1.0]]))
    assert found["total"] == pytest.approx(-0.2 + 0.5 * 0.81 - 0.01 * 0.5623351446188083, abs=1e-6)


def test_advantages_are_normalised() -> None:
    """5 and 1 have mean 3 and deviation 2, so become 1 and -1."""
    shifted = loss(params([0.55, 0.3]), batch(advantages=[[5.0], [1.0]]))
    assert shifted["policy_loss"] == pytest.approx(loss(params([0.55, 0.3]), batch())["policy_loss"], abs=1e-6)


def test_two_streams() -> None:
    """Advantages add up by weight, here to 3 - 2·1 = 1 and 1 - 2·1 = -1; value losses add up as they are.

    Values stay at 1 and targets are 1.1 and 1.2 in stream one, 0.9 and 1.0 in stream two: half of
    (0.01 + 0.04) / 2 and of (0.01 + 0) / 2.
    """
    streams = Streams(mix=((1, 0), (0, 1)), gamma=(0.9, 0.9), episodic=(True, False), weight=(1.0, -2.0))
    ones = [[1.0, 1.0], [1.0, 1.0]]
    rows = batch([[3.0, 1.0], [1.0, 1.0]], ones, [[1.1, 0.9], [1.2, 1.0]])
    found = loss(params([0.75, 0.25], ones), rows, streams)
    assert found["policy_loss"] == pytest.approx(-0.2, abs=1e-6)
    assert found["value_loss"] == pytest.approx(0.5 * (0.025 + 0.005), rel=1e-5)


def gradient(probabilities, values, batch, config) -> dict[str, np.ndarray]:
    return jax.tree.map(
        np.asarray, jitted_gradient(params(probabilities, values), unroll, batch, ONE, config, config.entropy)[0]
    )


def test_descent_makes_the_better_action_likelier() -> None:
    only_policy = PPOConfig(value=0.0, entropy=0.0)
    logits = gradient([0.5, 0.5], [[1.0], [1.0]], batch(), only_policy)["logits"]
    assert logits[0, 0] < 0 < logits[0, 1]  # advantage 1: descent raises the logit of the action taken
    assert logits[1, 0] > 0 > logits[1, 1]


def test_beyond_the_clip_range_nothing_pulls() -> None:
    only_policy = PPOConfig(value=0.0, entropy=0.0)
    assert not gradient([0.75, 0.25], [[1.0], [1.0]], batch(), only_policy)["logits"].any()
    assert gradient([0.25, 0.75], [[1.0], [1.0]], batch(), only_policy)["logits"].all()


def test_descent_moves_values_to_their_targets_and_widens_the_policy() -> None:
    rows = batch(targets=[[2.0], [0.0]])
    values = gradient([0.5, 0.5], [[1.1], [0.9]], rows, PPOConfig(entropy=0.0))["values"]
    assert values[0, 0] < 0 < values[1, 0]
    only_entropy = PPOConfig(value=0.0, clip=1e-9)
    logits = gradient([0.9, 0.1], [[1.0], [1.0]], batch(), only_entropy)["logits"]
    assert logits[0, 0] > 0 > logits[0, 1] and logits[1, 0] < 0 < logits[1, 1]
