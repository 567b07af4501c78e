"""Networks: encoders of observations, and the towers on top of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from env_core.observation import Layout, Packed
from online_jax import first_layer
from online_jax.first_layer import Forward, Kernel

Activation = Callable[[jax.Array], jax.Array]
TANH_GAIN, RELU_GAIN = 2**0.5, 2.0
"""Gains of the orthogonal initialisation of hidden layers, as the peer has them."""


class Encoder(NamedTuple):
    """Observation → features."""

    init: Callable[..., Any]
    """(key) -> params"""
    apply: Callable[..., jax.Array]
    """(params, obs [B, ...], channels=None) -> features float32 [B, features]; `channels` as in `narrowing.choose`"""
    features: int


def orthogonal(gain: float) -> Callable[..., jax.Array]:
    return nn.initializers.orthogonal(gain)


def symbolic_encoder(
    layout: Layout,
    width: int,
    forward: Forward,
    *,
    activation: Activation = nn.tanh,
    kernel_init: Callable[..., jax.Array] | None = None,
    towers: int = 1,
) -> Encoder:
    """activation(W x + b) of the symbolic observation x, computed from its packed form (see `first_layer.py`).

    The `towers` (actor, critic) each have a first layer of their own; they are computed as one, side by side: features
    are [actor | critic]. Initialised orthogonally with gain √2, or by `kernel_init`.
    """
    everything = first_layer.all_channels(layout)
    start = kernel_init or orthogonal(TANH_GAIN)

    def init(key: jax.Array) -> dict[str, jax.Array]:
        keys = jax.random.split(key, towers)
        dense = jnp.concatenate([start(k, (layout.size, width), jnp.float32) for k in keys], axis=1)
        kernel = first_layer.from_dense(dense, layout)
        return {"map": kernel.map, "scalar": kernel.scalar, "bias": jnp.zeros(towers * width)}

    def apply(params: dict[str, jax.Array], obs: Packed, channels: jax.Array | None = None) -> jax.Array:
        kernel = Kernel(params["map"], params["scalar"])
        held = jnp.asarray(everything if channels is None else channels)
        return activation(first_layer.apply(kernel, obs, held, layout, forward) + params["bias"])

    return Encoder(init, apply, towers * width)


class Convolution(nn.Module):
    """`nn.Conv` 5 x 5 with its parameters; on a CPU as a product with the patches, since XLA's convolution takes
    fifteen times as long there within a loop, and all of learning is loops."""

    features: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """[B, H, W, C] → [B, H, W, features]."""
        kernel = self.param("kernel", nn.initializers.lecun_normal(), (5, 5, x.shape[-1], self.features))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        if jax.default_backend() == "cpu":
            return _by_patches(x, kernel) + bias
        axes = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=axes) + bias


@jax.checkpoint  # 25 copies of x are made again when needed, not kept
def _by_patches(x: jax.Array, kernel: jax.Array) -> jax.Array:
    _, height, width, channels = x.shape
    padded = jnp.pad(x, ((0, 0), (2, 2), (2, 2), (0, 0)))
    shifted = [padded[:, i : i + height, j : j + width] for i in range(5) for j in range(5)]
    return jnp.concatenate(shifted, -1) @ kernel.reshape(25 * channels, -1)


class ConvStack(nn.Module):
    """Three times convolution 5 x 5 to 32 features, relu, and the largest of each 3 x 3 pixels; then all in a row."""

    @nn.compact
    def __call__(self, frames: jax.Array) -> jax.Array:
        """float32 [B, H, W, 3] in 0 to 1 → [B, features]."""
        x = frames
        for number in range(3):
            x = _largest_of_3_by_3(nn.relu(Convolution(32, name=f"Conv_{number}")(x)))
        return x.reshape(x.shape[0], -1)


def _largest_of_3_by_3(x: jax.Array) -> jax.Array:
    """[B, H, W, F] → [B, H // 3, W // 3, F]: `nn.max_pool`, whose derivative takes XLA as long as all convolutions on
    a CPU. Of equally large ones, each gets its share of the gradient."""
    batch, height, width, features = x.shape
    tiles = x[:, : height // 3 * 3, : width // 3 * 3].reshape(batch, height // 3, 3, width // 3, 3, features)
    return tiles.max((2, 4))


def pixel_encoder(height: int, width: int, units: int = 0) -> Encoder:
    """Frames uint8 [B, height, width, 3] → features of `ConvStack`, and of a further relu layer if `units` > 0."""
    stack = ConvStack()
    flat = 32 * (height // 27) * (width // 27)

    def init(key: jax.Array) -> dict[str, Any]:
        first, second = jax.random.split(key)
        params: dict[str, Any] = {"stack": stack.init(first, jnp.zeros((1, height, width, 3)))}
        if units:
            params["dense"] = nn.Dense(units).init(second, jnp.zeros((1, flat)))
        return params

    def apply(params: dict[str, Any], obs: jax.Array, channels: jax.Array | None = None) -> jax.Array:
        frames = obs.astype(jnp.float32) / 255 if obs.dtype == jnp.uint8 else obs  # else: normalised already
        x: Any = stack.apply(params["stack"], frames)
        if units:
            hidden: Any = nn.Dense(units).apply(params["dense"], x)
            x = nn.relu(hidden)
        return x

    return Encoder(init, apply, units or flat)


class MLP(nn.Module):
    """relu layers of the given widths and a linear one of `outputs`, with flax's default initialisation."""

    widths: Sequence[int]
    outputs: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in self.widths:
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(self.outputs)(x)


def embedding(encoder: Encoder, widths: Sequence[int], outputs: int) -> Encoder:
    """`encoder`, further relu layers of the given widths and a linear one of `outputs` units; itself an encoder."""
    head = MLP(widths, outputs)

    def init(key: jax.Array) -> dict[str, Any]:
        first, second = jax.random.split(key)
        return {"encoder": encoder.init(first), "head": head.init(second, jnp.zeros((1, encoder.features)))}

    def apply(params: dict[str, Any], obs: Any, channels: jax.Array | None = None) -> jax.Array:
        embedded: Any = head.apply(params["head"], encoder.apply(params["encoder"], obs, channels))
        return embedded

    return Encoder(init, apply, outputs)


class Tower(nn.Module):
    """`depth` layers of `width` units and a linear head of `outputs`, initialised with `gain`."""

    width: int
    depth: int
    outputs: int
    gain: float
    activation: Activation = nn.tanh
    hidden_gain: float = TANH_GAIN

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(self.depth):
            x = self.activation(nn.Dense(self.width, kernel_init=orthogonal(self.hidden_gain))(x))
        return nn.Dense(self.outputs, kernel_init=orthogonal(self.gain))(x)


class Towers(nn.Module):
    """Actor and critic. `separate`: the actor reads the first half of the features, the critic the second.

    Gains of the heads: 0.01 for the logits, so that the first policy is close to uniform, and 1 for the values.
    """

    width: int
    depth: int
    num_actions: int
    num_streams: int
    separate: bool = True
    activation: Activation = nn.tanh
    hidden_gain: float = TANH_GAIN

    @nn.compact
    def __call__(self, features: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns logits [..., num_actions] and values [..., num_streams]."""
        for_actor, for_critic = jnp.split(features, 2, axis=-1) if self.separate else (features, features)
        hidden = (self.activation, self.hidden_gain)
        logits = Tower(self.width, self.depth, self.num_actions, 0.01, *hidden, name="actor")(for_actor)
        values = Tower(self.width, self.depth, self.num_streams, 1.0, *hidden, name="critic")(for_critic)
        return logits, values
