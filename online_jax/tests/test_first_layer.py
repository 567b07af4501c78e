"""The first layer on packed observations is the dense layer on the observation that the environment would give."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_observations import packed

from env_core.observation import CLASSIC, CRAFTAX, Layout, decode
from online_jax import first_layer
from online_jax.first_layer import FORWARDS, Kernel

WIDTH, BATCH = 3, 4
LAYOUTS = pytest.mark.parametrize("layout", [CRAFTAX, CLASSIC], ids=lambda layout: layout.name)
jitted_shown = jax.jit(first_layer.shown, static_argnums=1)
WAYS = pytest.mark.parametrize("forward", FORWARDS)


@st.composite
def observations(draw) -> dict:
    """What to make `packed` from: how much is dark, how many mobs each observation shows, and a seed for the rest."""
    return {
        "seed": draw(st.integers(0, 2**32 - 1)),
        "dark": draw(st.sampled_from([0.0, 0.3, 1.0])),
        "crowd": draw(st.sampled_from(["none", "some", "all"])),
    }


def dense_kernel(layout: Layout, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((layout.size, WIDTH)).astype(np.float32)


def everything(layout: Layout) -> jax.Array:
    return jnp.arange(layout.channels)


@cache
def layer(layout: Layout, forward: str):
    return jax.jit(lambda kernel, obs, channels: first_layer.apply(kernel, obs, channels, layout, forward))


@cache
def pulled_back(layout: Layout, forward: str):
    """The gradient of the layer's output weighed by `weights` [B, H]."""
    apply = layer(layout, forward)
    return jax.jit(jax.grad(lambda kernel, obs, channels, weights: (apply(kernel, obs, channels) * weights).sum()))


def cut(kernel: Kernel, channels: np.ndarray) -> Kernel:
    return Kernel(kernel.map[channels], kernel.scalar)


def without(dense: np.ndarray, layout: Layout, channels: np.ndarray) -> np.ndarray:
    """The dense kernel with the rows of all other channels zero."""
    rows = np.zeros((layout.tiles, layout.channels, 1), bool)
    rows[:, channels] = True
    return np.concatenate([dense[: layout.map_size] * rows.reshape(-1, 1), dense[layout.map_size :]])


@LAYOUTS
def test_dense_and_back_is_exact(layout: Layout) -> None:
    dense = dense_kernel(layout)
    kernel = first_layer.from_dense(jnp.asarray(dense), layout)
    assert kernel.map.shape == (layout.channels, layout.tiles, WIDTH)
    assert kernel.scalar.shape == (layout.scalars, WIDTH)
    assert np.array_equal(first_layer.to_dense(kernel, layout), dense)
    again = first_layer.from_dense(first_layer.to_dense(kernel, layout), layout)
    assert all(map(np.array_equal, again, kernel))


@LAYOUTS
def test_a_row_of_the_dense_kernel_lands_where_the_observation_lights_it(layout: Layout) -> None:
    """Channel 2 of tile 5 is value 5 * channels + 2 of the observation."""
    dense = np.zeros((layout.size, WIDTH), np.float32)
    dense[5 * layout.channels + 2] = 7.0
    kernel = first_layer.from_dense(jnp.asarray(dense), layout)
    assert np.argwhere(np.asarray(kernel.map)[..., 0]).tolist() == [[2, 5]]
    assert not np.asarray(kernel.scalar).any()


@LAYOUTS
@WAYS
@settings(max_examples=20, deadline=None)
@given(observations())
def test_equals_the_dense_layer(layout: Layout, forward: str, made: dict) -> None:
    obs, dense = packed(layout, **made), dense_kernel(layout)
    kernel = first_layer.from_dense(jnp.asarray(dense), layout)
    found = layer(layout, forward)(kernel, obs, everything(layout))
    np.testing.assert_allclose(found, decode(obs, layout) @ dense, rtol=1e-5, atol=1e-4)


@LAYOUTS
@WAYS
@settings(max_examples=15, deadline=None)
@given(observations())
def test_on_some_channels_equals_the_dense_layer_without_the_others(layout: Layout, forward: str, made: dict) -> None:
    obs, dense = packed(layout, **made), dense_kernel(layout)
    channels = np.sort(np.random.default_rng(made["seed"]).choice(layout.channels, 7, replace=False))
    kernel = cut(first_layer.from_dense(jnp.asarray(dense), layout), channels)
    found = layer(layout, forward)(kernel, obs, jnp.asarray(channels))
    np.testing.assert_allclose(found, decode(obs, layout) @ without(dense, layout, channels), rtol=1e-5, atol=1e-4)


@LAYOUTS
@WAYS
@settings(max_examples=10, deadline=None)
@given(observations(), st.booleans())
def test_gradient_equals_the_dense_layers(layout: Layout, forward: str, made: dict, narrow: bool) -> None:
    """That of sum(weights * output) with respect to the kernel is obs.T @ weights."""
    obs = packed(layout, **made)
    random = np.random.default_rng(made["seed"])
    channels = np.sort(random.choice(layout.channels, 7, replace=False)) if narrow else np.arange(layout.channels)
    weights = random.standard_normal((BATCH, WIDTH)).astype(np.float32)
    kernel = cut(first_layer.from_dense(jnp.asarray(dense_kernel(layout)), layout), channels)
    found = pulled_back(layout, forward)(kernel, obs, jnp.asarray(channels), weights)
    dense = first_layer.from_dense(jnp.asarray(decode(obs, layout).T @ weights), layout)
    np.testing.assert_allclose(found.map, dense.map[channels], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.scalar, dense.scalar, rtol=1e-4, atol=1e-4)


@LAYOUTS
@settings(max_examples=20, deadline=None)
@given(observations())
def test_shown_are_the_channels_that_the_observation_lights(layout: Layout, made: dict) -> None:
    obs = packed(layout, **made)
    grid = decode(obs, layout)[:, : layout.map_size].reshape(-1, layout.channels)
    assert np.array_equal(jitted_shown(obs, layout), grid.any(axis=0))


@WAYS
def test_many_kernels_under_vmap(forward: str) -> None:
    """As for many seeds at once: each kernel with its own observations, and all with the same."""
    layout = CLASSIC
    dense = jnp.stack([dense_kernel(layout, seed) for seed in range(2)])
    kernels = jax.vmap(lambda kernel: first_layer.from_dense(kernel, layout))(dense)
    sets = [packed(layout, seed, 0.0, "some") for seed in range(2)]
    obs = jax.tree.map(lambda *parts: jnp.stack(parts), *sets)
    apply, grad = layer(layout, forward), pulled_back(layout, forward)
    weights = jnp.ones((BATCH, WIDTH))
    own = jax.vmap(apply, (0, 0, None))(kernels, obs, everything(layout))
    shared = jax.vmap(apply, (0, None, None))(kernels, sets[0], everything(layout))
    gradients = jax.vmap(grad, (0, 0, None, None))(kernels, obs, everything(layout), weights)
    for i, (kernel, one) in enumerate(zip(dense, sets, strict=True)):
        np.testing.assert_allclose(own[i], decode(one, layout) @ kernel, rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(shared[i], decode(sets[0], layout) @ kernel, rtol=1e-5, atol=1e-4)
        expected = first_layer.from_dense(decode(one, layout).T @ weights, layout)
        np.testing.assert_allclose(gradients.map[i], expected.map, rtol=1e-5, atol=1e-5)
