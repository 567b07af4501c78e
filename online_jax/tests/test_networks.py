"""The encoder of frames beside flax's own layers."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from online_jax.networks import ConvStack


class Plain(nn.Module):
    """The same with flax's pooling."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(3):
            x = nn.max_pool(nn.relu(nn.Conv(32, (5, 5))(x)), (3, 3), strides=(3, 3))
        return x.reshape(x.shape[0], -1)


def test_frames_are_pooled_as_flax_pools_them() -> None:
    """Also where height and width are no multiples of 27, like Craftax's 130 x 110, and the rest is dropped."""
    frames = jax.random.uniform(jax.random.PRNGKey(0), (2, 31, 58, 3))
    params = ConvStack().init(jax.random.PRNGKey(1), frames)

    def loss(stack: nn.Module) -> tuple[jax.Array, jax.Array]:
        features = jnp.asarray(stack.apply(params, frames))
        return features, jax.grad(lambda params: (jnp.asarray(stack.apply(params, frames)) ** 2).sum())(params)

    (ours, gradient), (plain, expected) = loss(ConvStack()), loss(Plain())
    assert ours.shape == (2, 32 * 1 * 2)
    np.testing.assert_array_equal(ours, plain)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), gradient, expected)
