"""What a policy remembers from step to step: nothing, or the state of a GRU.

Axes: L steps of M sequences, F features in, H units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp


class Memory(NamedTuple):
    """A core between encoder and towers. Its state is an argument and a result, also when it is empty."""

    init: Callable[..., Any]
    """(key) -> params"""
    initial: Callable[..., Any]
    """(num_envs) -> state"""
    unroll: Callable[..., Any]
    """(params, state [M, ...], features [L, M, F], is_first [L, M]) -> (state, features [L, M, H])"""
    recurrent: bool
    """whether learning needs whole sequences"""


def nothing() -> Memory:
    """The null object: features pass through."""
    return Memory(lambda key: (), lambda num_envs: (), lambda params, state, x, is_first: (state, x), recurrent=False)


def gru(features: int, width: int) -> Memory:
    """Gated recurrent unit (Cho et al. 2014), forgetting where a step is the first of its episode.

        r = σ(x W_r + b_r + h U_r)        z = σ(x W_z + b_z + h U_z)
        n = tanh(x W_n + b_n + r * (h U_n + c))        h' = (1 - z) * n + z * h

    W_r | W_z | W_n are one matrix [F, 3H], and so are the U [H, 3H]: Lecun-normal and orthogonal at the start, gate by
    gate, as in flax. What does not depend on h is computed for all steps at once.
    """

    def init(key: jax.Array) -> dict[str, jax.Array]:
        keys = jax.random.split(key, 6)
        lecun, orthogonal = nn.initializers.lecun_normal(), nn.initializers.orthogonal()
        return {
            "input": jnp.concatenate([lecun(k, (features, width)) for k in keys[:3]], 1),
            "input_bias": jnp.zeros(3 * width),
            "recurrent": jnp.concatenate([orthogonal(k, (width, width)) for k in keys[3:]], 1),
            "recurrent_bias": jnp.zeros(width),
        }

    def unroll(params: Any, state: jax.Array, x: jax.Array, is_first: jax.Array) -> tuple[jax.Array, jax.Array]:
        from_input = x @ params["input"] + params["input_bias"]
        states = recur(params["recurrent"], params["recurrent_bias"], state, from_input, is_first)
        return states[-1], states

    return Memory(init, lambda num_envs: jnp.zeros((num_envs, width)), unroll, recurrent=True)


class _Gates(NamedTuple):
    """One step; leaves [M, H]."""

    before: jax.Array
    """h, zero where the step is a first one"""
    r: jax.Array
    z: jax.Array
    n: jax.Array
    recalled: jax.Array
    """h U_n + c"""


def _step(kernel: jax.Array, bias: jax.Array, h: jax.Array, x: jax.Array, is_first: jax.Array) -> Any:
    h = jnp.where(is_first[:, None], 0.0, h)
    x_r, x_z, x_n = jnp.split(x, 3, -1)
    h_r, h_z, h_n = jnp.split(h @ kernel, 3, -1)
    r, z, recalled = nn.sigmoid(x_r + h_r), nn.sigmoid(x_z + h_z), h_n + bias
    n = jnp.tanh(x_n + r * recalled)
    return (1 - z) * n + z * h, _Gates(h, r, z, n, recalled)


@jax.custom_vjp
def recur(kernel: jax.Array, bias: jax.Array, h: jax.Array, x: jax.Array, is_first: jax.Array) -> jax.Array:
    """The states [L, M, H] that follow `h` [M, H], with x W + b = `x` [L, M, 3H], U = `kernel`, c = `bias`.

    Its derivative is written out so that the gradient of U is one product over all steps, not one per step added up.
    """
    return _forward(kernel, bias, h, x, is_first)[0]


def _forward(kernel: jax.Array, bias: jax.Array, h: jax.Array, x: jax.Array, is_first: jax.Array) -> Any:
    def step(h: jax.Array, inputs: Any) -> Any:
        h, gates = _step(kernel, bias, h, *inputs)
        return h, (h, gates)

    states, gates = jax.lax.scan(step, h, (x, is_first))[1]
    return states, (kernel, gates, is_first)


def _backward(saved: Any, gradient: jax.Array) -> Any:
    """`gradient` [L, M, H] with respect to the states."""
    kernel, gates, is_first = saved
    transposed = kernel.T

    def step(later: jax.Array, inputs: Any) -> Any:
        """`later` is the gradient that reaches h' from the steps after."""
        gradient, gates, is_first = inputs
        total = gradient + later
        d_n = total * (1 - gates.z) * (1 - gates.n**2)
        d_recalled = d_n * gates.r
        d_r = d_n * gates.recalled * gates.r * (1 - gates.r)
        d_z = total * (gates.before - gates.n) * gates.z * (1 - gates.z)
        from_h = jnp.concatenate([d_r, d_z, d_recalled], -1)
        d_h = jnp.where(is_first[:, None], 0.0, total * gates.z + from_h @ transposed)
        return d_h, (jnp.concatenate([d_r, d_z, d_n], -1), from_h)

    start = jnp.zeros_like(gradient[0])
    d_h, (d_x, from_h) = jax.lax.scan(step, start, (gradient, gates, is_first), reverse=True)
    d_kernel = jnp.einsum("lmh,lmg->hg", gates.before, from_h)
    d_bias = from_h[..., -gradient.shape[-1] :].sum((0, 1))
    return d_kernel, d_bias, d_h, d_x, None


recur.defvjp(_forward, _backward)
