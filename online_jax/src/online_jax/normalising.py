"""Observations shifted and scaled to mean 0 and deviation 1, cut off at ±5 (Burda et al. 2018, section 2.4).

A packed observation stays packed. An entry x of its map is 0 or 1, so its normalised value is one of two numbers, `low`
and `high`: low + x (high - low). Hence W · normalised(x) = (W (high - low)) · x + W · low, and the first layer's own
product on codes does it, with a kernel scaled by (high - low) and a bias raised by W · low.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from env_core.observation import Layout, Packed
from online_jax import first_layer, moments
from online_jax.moments import Moments

LIMIT = 5.0
SMALLEST = 1e-4
"""Deviations below count as this; what never varied is then at 0, and its first change at the limit."""


class Normaliser(NamedTuple):
    init: Callable[[], Moments]
    observe: Callable[..., Moments]
    """(moments, obs [T, N, ...]) -> moments, of those observations too"""
    apply: Callable[..., Any]
    """(moments, params of an encoder, obs [B, ...], channels) -> (params, obs) to apply the encoder to"""


def off() -> Normaliser:
    """The null object."""
    nothing = moments.nothing_seen(jnp.zeros(0))
    return Normaliser(lambda: nothing, lambda seen, obs: seen, lambda seen, params, obs, channels: (params, obs))


def normalised(x: jax.Array, mean: jax.Array, deviation: jax.Array) -> jax.Array:
    return jnp.clip((x - mean) / jnp.maximum(deviation, SMALLEST), -LIMIT, LIMIT)


def packed(layout: Layout) -> Normaliser:
    """For `Packed` observations and `symbolic_encoder`; moments are {"map" [channels, tiles], "scalar" [scalars]}."""
    everything = jnp.asarray(first_layer.all_channels(layout))

    def init() -> Moments:
        return moments.nothing_seen(
            {"map": jnp.zeros((layout.channels, layout.tiles)), "scalar": jnp.zeros(layout.scalars)}
        )

    def observe(seen: Moments, obs: Packed) -> Moments:
        lit = jax.lax.map(lambda step: first_layer.multihot(step, everything, layout).sum(1), obs).sum(0)
        scalar = moments.of_batch(obs.scalar.reshape(-1, layout.scalars))
        share = lit / scalar.count
        batch = Moments(
            scalar.count,
            {"map": share, "scalar": scalar.mean},
            {"map": scalar.count * share * (1 - share), "scalar": scalar.squares},  # of zeros and ones
        )
        return moments.merge(seen, batch)

    def apply(seen: Moments, params: dict[str, Any], obs: Packed, channels: jax.Array | None) -> Any:
        deviation = moments.deviation(seen)
        low, high = (normalised(jnp.float32(x), seen.mean["map"], deviation["map"]) for x in (0, 1))
        low, high = (x if channels is None else x[channels] for x in (low, high))
        scaled = {
            "map": params["map"] * (high - low)[..., None],
            "scalar": params["scalar"],
            "bias": params["bias"] + (params["map"] * low[..., None]).sum((0, 1)),
        }
        return scaled, obs._replace(scalar=normalised(obs.scalar, seen.mean["scalar"], deviation["scalar"]))

    return Normaliser(init, observe, apply)


def pixels(height: int, width: int) -> Normaliser:
    """For frames uint8 [.., height, width, 3] and `pixel_encoder`; each colour of each pixel by itself."""

    def init() -> Moments:
        return moments.nothing_seen(jnp.zeros((height, width, 3)))

    def observe(seen: Moments, obs: jax.Array) -> Moments:
        def add(seen: Moments, step: jax.Array) -> tuple[Moments, None]:
            return moments.merge(seen, moments.of_batch(step.astype(jnp.float32) / 255)), None

        return jax.lax.scan(add, seen, obs)[0]

    def apply(seen: Moments, params: Any, obs: jax.Array, channels: jax.Array | None) -> Any:
        return params, normalised(obs.astype(jnp.float32) / 255, seen.mean, moments.deviation(seen))

    return Normaliser(init, observe, apply)
