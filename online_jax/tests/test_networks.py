"""The encoder of frames beside flax's own layers."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from online_jax.networks import ConvStack


class Plain(nn.Module):
    """The same of flax's layers."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(3):
            x = nn.max_pool(nn.relu(nn.Conv(32, (5, 5))(x)), (3, 3), strides=(3, 3))
        return x.reshape(x.shape[0], -1)


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_convolution_and_pooling_are_flax_s(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Also where height and width are no multiples of 27, like Craftax's 130 x 110, and the rest is dropped."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    frames = jax.random.uniform(jax.random.PRNGKey(0), (2, 31, 58, 3))
    params = ConvStack().init(jax.random.PRNGKey(1), frames)
    jax.tree.map(np.testing.assert_array_equal, params, Plain().init(jax.random.PRNGKey(1), frames))

    def loss(stack: nn.Module) -> tuple[jax.Array, jax.Array]:
        features = jnp.asarray(stack.apply(params, frames))
        return features, jax.grad(lambda params: (jnp.asarray(stack.apply(params, frames)) ** 2).sum())(params)

    (ours, gradient), (plain, expected) = loss(ConvStack()), loss(Plain())
    assert ours.shape == (2, 32 * 1 * 2)
    np.testing.assert_allclose(ours, plain, rtol=1e-5, atol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), gradient, expected)
