"""Networks: encoders of observations, and the towers on top of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from env_core.observation import Layout, Packed
from online_jax import first_layer
from online_jax.first_layer import Forward, Kernel


class Encoder(NamedTuple):
    """Observation → features. `channels` and `shown` tell which parts of `params["map"]` an observation touches."""

    init: Callable[..., Any]
    """(key) -> params"""
    apply: Callable[..., jax.Array]
    """(params, obs [B, ...], channels=all) -> features float32 [B, features]"""
    features: int
    channels: int
    """Map channels: the first axis of the parameter `map`; 0 for an encoder that has none."""
    shown: Callable[..., jax.Array]
    """(obs [..., B, ...]) -> bool [channels]: those that the observations light"""


def orthogonal(gain: float) -> Callable[..., jax.Array]:
    return nn.initializers.orthogonal(gain)


def symbolic_encoder(layout: Layout, width: int, forward: Forward, towers: int = 2) -> Encoder:
    """tanh(W x + b) of the symbolic observation x, computed from its packed form (see `first_layer.py`).

    The `towers` (actor, critic) each have a first layer of their own, orthogonally initialised with gain √2; they are
    computed as one, side by side: features are [actor | critic].
    """
    everything = first_layer.all_channels(layout)

    def init(key: jax.Array) -> dict[str, jax.Array]:
        keys = jax.random.split(key, towers)
        dense = jnp.concatenate([orthogonal(2**0.5)(k, (layout.size, width), jnp.float32) for k in keys], axis=1)
        kernel = first_layer.from_dense(dense, layout)
        return {"map": kernel.map, "scalar": kernel.scalar, "bias": jnp.zeros(towers * width)}

    def apply(params: dict[str, jax.Array], obs: Packed, channels: Any = everything) -> jax.Array:
        kernel = Kernel(params["map"], params["scalar"])
        return jnp.tanh(first_layer.apply(kernel, obs, jnp.asarray(channels), layout, forward) + params["bias"])

    return Encoder(init, apply, towers * width, layout.channels, lambda obs: first_layer.shown(obs, layout))


class Tower(nn.Module):
    """`depth` tanh layers of `width` units and a linear head of `outputs`, initialised with `gain`."""

    width: int
    depth: int
    outputs: int
    gain: float

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(self.depth):
            x = nn.tanh(nn.Dense(self.width, kernel_init=orthogonal(2**0.5))(x))
        return nn.Dense(self.outputs, kernel_init=orthogonal(self.gain))(x)


class Towers(nn.Module):
    """Separate actor and critic on features [..., 2 * width]: the actor reads the first half, the critic the second.

    Gains of the heads: 0.01 for the logits, so that the first policy is close to uniform, and 1 for the values.
    """

    width: int
    depth: int
    num_actions: int
    num_streams: int

    @nn.compact
    def __call__(self, features: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns logits [..., num_actions] and values [..., num_streams]."""
        for_actor, for_critic = jnp.split(features, 2, axis=-1)
        logits = Tower(self.width, self.depth, self.num_actions, 0.01, name="actor")(for_actor)
        values = Tower(self.width, self.depth, self.num_streams, 1.0, name="critic")(for_critic)
        return logits, values
