"""The first layer on normalised packed observations is the dense layer on normalised decoded ones."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_observations import packed

from env_core.observation import CLASSIC, CRAFTAX, Layout, Packed, decode
from online_jax import first_layer, normalising
from online_jax.first_layer import FORWARDS, Kernel
from online_jax.networks import symbolic_encoder

T, N, WIDTH = 5, 4, 3
LAYOUTS = pytest.mark.parametrize("layout", [CRAFTAX, CLASSIC], ids=lambda layout: layout.name)


def rollouts(layout: Layout) -> list[Packed]:
    """Two, of which the second shows more; neither shows every channel."""
    flat = [packed(layout, seed, batch=T * N, codes=layout.codes // part) for seed, part in ((1, 4), (2, 2))]
    flat = [obs._replace(scalar=3 * obs.scalar + np.arange(layout.scalars, dtype=np.float32)) for obs in flat]
    return [jax.tree.map(lambda x: x.reshape(T, N, *x.shape[1:]), obs) for obs in flat]


def dense(obs: Packed, layout: Layout) -> np.ndarray:
    """float64 [B, size]"""
    return decode(jax.tree.map(lambda x: np.asarray(x).reshape(-1, x.shape[-1]), obs), layout).astype(np.float64)


def normalised(x: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The paper's formula over all that was `seen`; with what never varied at 0, or at the limit when it does."""
    return np.clip((x - seen.mean(0)) / np.maximum(seen.std(0), 1e-4), -5, 5)


@cache
def observed(layout: Layout) -> tuple[Any, np.ndarray]:
    """Moments of two rollouts, and both decoded."""
    normaliser = normalising.packed(layout)
    observe = jax.jit(normaliser.observe)
    seen = normaliser.init()
    for rollout in rollouts(layout):
        seen = observe(seen, rollout)
    return seen, np.concatenate([dense(rollout, layout) for rollout in rollouts(layout)])


@LAYOUTS
def test_moments_are_those_of_the_decoded_observations(layout: Layout) -> None:
    seen, everything = observed(layout)
    assert float(seen.count) == len(everything) == 2 * T * N
    means, deviations = (
        np.asarray(first_layer.to_dense(Kernel(x["map"][..., None], x["scalar"][:, None]), layout))[:, 0]
        for x in (seen.mean, normalising.moments.deviation(seen))
    )
    np.testing.assert_allclose(means, everything.mean(0), atol=1e-5)
    np.testing.assert_allclose(deviations, everything.std(0), atol=1e-5)
    assert ((everything.std(0) > 0) & (everything.max(0) == 1)).sum() > 100


@LAYOUTS
@pytest.mark.parametrize("forward", FORWARDS)
@pytest.mark.parametrize("narrow", [False, True], ids=["all", "narrow"])
def test_the_layer_is_the_dense_one_on_normalised_observations(layout: Layout, forward: Any, narrow: bool) -> None:
    """Also on observations that were not among those observed, and with only the channels that either showed."""
    seen, everything = observed(layout)
    encoder = symbolic_encoder(layout, WIDTH, forward, activation=lambda x: x)
    params = {**encoder.init(jax.random.PRNGKey(3)), "bias": jnp.arange(WIDTH, dtype=jnp.float32)}
    obs = packed(layout, 4, batch=6, codes=layout.codes // 2)
    kernel = np.asarray(first_layer.to_dense(Kernel(params["map"], params["scalar"]), layout), np.float64)
    expected = normalised(dense(obs, layout), everything) @ kernel + np.arange(WIDTH)
    channels = None
    if narrow:
        shown = first_layer.shown(obs, layout)
        for rollout in rollouts(layout):
            shown |= first_layer.shown(rollout, layout)
        channels = jnp.flatnonzero(shown)
        assert 10 < len(channels) < layout.channels
        params = {**params, "map": params["map"][channels]}

    @jax.jit
    def layer(params: Any, obs: Packed) -> jax.Array:
        scaled, shown = normalising.packed(layout).apply(seen, params, obs, channels)
        return encoder.apply(scaled, shown, channels)

    np.testing.assert_allclose(layer(params, obs), expected, atol=1e-3, rtol=1e-4)
    plain = encoder.apply(params, obs, channels)
    assert np.abs(plain - expected).max() > 1  # it does make a difference


@LAYOUTS
def test_before_the_first_observation_scalars_count_and_the_map_is_at_the_limit(layout: Layout) -> None:
    """Deviation 0 counts as 1e-4: every bit that is lit is at 5, every other at 0."""
    normaliser = normalising.packed(layout)
    encoder = symbolic_encoder(layout, WIDTH, "product", activation=lambda x: x)
    params, obs = encoder.init(jax.random.PRNGKey(0)), packed(layout, 0)
    found = encoder.apply(*normaliser.apply(normaliser.init(), params, obs, None))
    kernel = np.asarray(first_layer.to_dense(Kernel(params["map"], params["scalar"]), layout))
    expected = np.clip(dense(obs, layout) * 1e4, -5, 5) @ kernel
    np.testing.assert_allclose(found, expected, atol=2e-4)


def test_pixels_are_normalised_one_by_one() -> None:
    random = np.random.default_rng(0)
    frames = [random.integers(0, 256, (T, N, 3, 4, 3), np.uint8) for _ in range(2)]
    for one in frames:
        one[..., 0, 0, :] = 7  # never varies
    normaliser = normalising.pixels(3, 4)
    seen = normaliser.init()
    for one in frames:
        seen = jax.jit(normaliser.observe)(seen, one)
    everything = np.concatenate(frames).reshape(-1, 3, 4, 3) / 255
    new = random.integers(0, 256, (6, 3, 4, 3), np.uint8)
    params, found = normaliser.apply(seen, "params", new, None)
    assert params == "params" and found.dtype == jnp.float32
    np.testing.assert_allclose(found, normalised(new / 255, everything), atol=1e-3)
    _, again = normaliser.apply(seen, "params", frames[0][0], None)
    assert (np.abs(again)[:, 0, 0] < 1).all()  # what never varied is near 0, though its deviation is none


def test_off_changes_nothing() -> None:
    off = normalising.off()
    seen = off.observe(off.init(), "observations")
    assert off.apply(seen, "params", "obs", None) == ("params", "obs")
