"""Moments merged batch by batch are those of everything at once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_jax import moments
from online_jax.moments import Moments

jitted_merge = jax.jit(moments.merge)
jitted_of_batch = jax.jit(moments.of_batch)


def merged(batches: list[np.ndarray]) -> Moments:
    seen = moments.nothing_seen(jnp.zeros(batches[0].shape[1:]))
    for batch in batches:
        seen = jitted_merge(seen, jitted_of_batch(batch))
    return seen


def test_by_hand() -> None:
    """1, 2, 6 and then 3, 8: mean 3, squares 4 + 1 + 9 = 14; all five: mean 4, squares 9 + 4 + 4 + 1 + 16 = 34."""
    first = moments.of_batch(jnp.array([1.0, 2.0, 6.0]))
    assert tuple(map(float, first)) == (3, 3, 14)
    both = moments.merge(first, moments.of_batch(jnp.array([3.0, 8.0])))
    assert tuple(map(float, both)) == pytest.approx((5, 4, 34))
    assert float(moments.deviation(both)) == pytest.approx((34 / 5) ** 0.5)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([1, 2, 7]), min_size=1, max_size=8),
    offset=st.sampled_from([0.0, -3.0, 1e3]),
    scale=st.sampled_from([1e-2, 1.0, 50.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_batches_are_what_all_at_once_are(sizes: list[int], offset: float, scale: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    batches = [(offset + scale * random.standard_normal((size, 2))).astype(np.float32) for size in sizes]
    everything = np.concatenate(batches).astype(np.float64)
    seen = merged(batches)
    rounding = 1e-6 * (abs(offset) + scale)
    assert float(seen.count) == len(everything)
    np.testing.assert_allclose(seen.mean, everything.mean(0), atol=4 * rounding, rtol=1e-5)
    np.testing.assert_allclose(moments.deviation(seen), everything.std(0), atol=4 * rounding, rtol=1e-3)


def test_a_large_offset_leaves_the_deviation() -> None:
    """Where E[x²] - E[x]² in float32 has nothing left of it."""
    random = np.random.default_rng(0)
    batches = [(1e5 + random.standard_normal((64, 3))).astype(np.float32) for _ in range(50)]
    everything = np.concatenate(batches)
    naive = np.sqrt(np.abs((everything**2).mean(0) - everything.mean(0) ** 2))
    assert (np.abs(naive - 1) > 0.5).any()
    np.testing.assert_allclose(moments.deviation(merged(batches)), everything.astype(np.float64).std(0), rtol=0.01)


def test_the_order_of_merging_does_not_matter() -> None:
    random = np.random.default_rng(1)
    one, two, three = (moments.of_batch(jnp.asarray(random.standard_normal((n, 2)))) for n in (3, 1, 8))
    left = moments.merge(moments.merge(one, two), three)
    right = moments.merge(three, moments.merge(two, one))
    for found, expected in zip(left, right, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_nothing_seen_is_neutral() -> None:
    nothing = moments.nothing_seen({"a": jnp.zeros(2), "b": jnp.zeros(())})
    still_nothing = (moments.merge(nothing, nothing), moments.deviation(nothing))
    assert not any(leaf.any() for leaf in jax.tree.leaves(still_nothing))
    batch = Moments(jnp.float32(4), {"a": jnp.array([1.0, 2.0]), "b": jnp.float32(3)}, {"a": jnp.ones(2), "b": 8.0})
    for merged_with_it in (moments.merge(nothing, batch), moments.merge(batch, nothing)):
        assert jax.tree.all(jax.tree.map(lambda x, y: bool(jnp.all(x == y)), merged_with_it, batch))


def test_many_at_once() -> None:
    """Under vmap, as with several seeds."""
    batches = jnp.asarray(np.random.default_rng(2).standard_normal((3, 5, 2)), jnp.float32)
    together = jax.vmap(lambda batch: moments.merge(moments.of_batch(batch), moments.of_batch(2 * batch)))(batches)
    for i, batch in enumerate(batches):
        alone = moments.merge(moments.of_batch(batch), moments.of_batch(2 * batch))
        np.testing.assert_allclose(together.squares[i], alone.squares, rtol=1e-6)
