"""The GRU against tables worked out by hand, flax's cell, and the gradient of a plain loop."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from online_jax import memory
from online_jax.memory import recur

L, M, F, H = 7, 3, 4, 5
NEVER, AT_THE_THIRD = [False, False, False], [False, False, True]


def one_unit(**entries: float) -> dict[str, jax.Array]:
    """A GRU of one unit and one feature, all weights zero but the named ones (W_r, b_n, U_z, c, …)."""

    def row(letter: str) -> jax.Array:
        return jnp.array([entries.get(f"{letter}_{gate}", 0.0) for gate in "rzn"], jnp.float32)

    return {
        "input": row("W")[None],
        "input_bias": row("b"),
        "recurrent": row("U")[None],
        "recurrent_bias": jnp.array([entries.get("c", 0.0)], jnp.float32),
    }


def states(params: dict[str, jax.Array], x: list[float], is_first: list[bool], start: float = 0.0) -> list[float]:
    """The states that follow `start`, one per step."""
    unroll = jax.jit(memory.gru(1, 1).unroll)
    steps = jnp.array(x, jnp.float32)[:, None, None]
    last, all_of_them = unroll(params, jnp.full((1, 1), start), steps, jnp.array(is_first)[:, None])
    assert float(last[0, 0]) == float(all_of_them[-1, 0, 0])
    return [float(state) for state in all_of_them[:, 0, 0]]


@pytest.mark.parametrize(
    ("params", "x", "is_first", "start", "expected"),
    [
        # r = z = 1/2, n = tanh(x + h): .5 tanh 1 = .380797; .5 tanh .380797 + .5 · .380797 = .372098; and so on.
        (one_unit(W_n=1, U_n=2), [1, 0, 0], NEVER, 0.0, [0.380797, 0.372098, 0.363962]),
        # Forgotten at the third step, which is x = 0: n = tanh 0.
        (one_unit(W_n=1, U_n=2), [1, 0, 0], AT_THE_THIRD, 0.0, [0.380797, 0.372098, 0.0]),
        # The first step counts the state before: .5 tanh(1 + 1) + .5 · 1 = .982014; unless it is a first one.
        (one_unit(W_n=1, U_n=2), [1], [False], 1.0, [0.982014]),
        (one_unit(W_n=1, U_n=2), [1], [True], 1.0, [0.380797]),
        # z is 1 where x is 1 (keep) and 0 where it is 0 (replace by n = tanh(.5 c) = tanh .5 = .462117).
        (one_unit(W_z=200, b_z=-100, c=1), [1, 0, 1], NEVER, 0.25, [0.25, 0.462117, 0.462117]),
        # r is 1 where x is 1, else 0; z = 0, n = tanh(r (h + c)): tanh 1 = .761594, tanh 1.761594 = .942680, tanh 0.
        (one_unit(W_r=200, b_r=-100, b_z=-100, U_n=1, c=1), [1, 1, 0], NEVER, 0.0, [0.761594, 0.942680, 0.0]),
        # The gates see h: z = σ(200 h - 100) is 1 at h = 1 and 0 at h = 0, r = σ(0) = 1/2, n = tanh(.5 h · 0) = 0.
        (one_unit(U_z=200, b_z=-100), [0, 0], [False, False], 1.0, [1.0, 1.0]),
        (one_unit(U_z=200, b_z=-100), [0, 0], [False, True], 1.0, [1.0, 0.0]),
    ],
)
def test_by_hand(params, x, is_first, start, expected) -> None:
    assert states(params, x, is_first, start) == pytest.approx(expected, abs=2e-6)


class Drawn:
    """Parameters, a start and a sequence with first steps here and there, all at random."""

    def __init__(self, seed: int = 0) -> None:
        keys = jax.random.split(jax.random.PRNGKey(seed), 8)
        self.gru = memory.gru(F, H)
        self.params = self.gru.init(keys[0])
        for i, name in enumerate(("input_bias", "recurrent_bias")):  # which start at zero
            self.params[name] = jax.random.normal(keys[1 + i], self.params[name].shape)
        self.state = jax.random.normal(keys[3], (M, H))
        self.x = jax.random.normal(keys[4], (L, M, F))
        self.is_first = jax.random.bernoulli(keys[5], 0.3, (L, M)).at[0].set(jnp.array([True, False, False]))
        self.weights = jax.random.normal(keys[6], (L, M, H))


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    return Drawn()


def test_it_is_flax_s_cell_step_by_step(drawn: Drawn) -> None:
    gates = {"r": 0, "z": 1, "n": 2}
    cell = nn.GRUCell(H)

    def part(name: str, gate: str) -> jax.Array:
        return jnp.split(drawn.params[name], 3, -1)[gates[gate]]

    params: dict[str, Any] = {
        f"i{gate}": {"kernel": part("input", gate), "bias": part("input_bias", gate)} for gate in gates
    }
    params |= {f"h{gate}": {"kernel": part("recurrent", gate)} for gate in gates}
    params["hn"]["bias"] = drawn.params["recurrent_bias"]
    state, expected = drawn.state, []
    for x, is_first in zip(drawn.x, drawn.is_first, strict=True):
        state, _ = cell.apply({"params": params}, jnp.where(is_first[:, None], 0.0, state), x)
        expected.append(state)
    last, found = jax.jit(drawn.gru.unroll)(drawn.params, drawn.state, drawn.x, drawn.is_first)
    np.testing.assert_allclose(found, jnp.stack(expected), atol=1e-6)
    np.testing.assert_array_equal(last, found[-1])


def test_it_starts_as_flax_s_cell_does() -> None:
    """Gate by gate: orthogonal recurrent kernels, input kernels of variance 1 / F, no bias."""
    params = memory.gru(400, 30).init(jax.random.PRNGKey(1))
    for kernel in jnp.split(params["recurrent"], 3, -1):
        np.testing.assert_allclose(kernel @ kernel.T, jnp.eye(30), atol=1e-5)
    for kernel in jnp.split(params["input"], 3, -1):
        assert float(kernel.std()) == pytest.approx(400**-0.5, rel=0.05)
    assert not params["input_bias"].any() and not params["recurrent_bias"].any()


def test_one_unroll_is_many_of_one_step(drawn: Drawn) -> None:
    state, pieces = drawn.state, []
    for t in range(L):
        state, piece = drawn.gru.unroll(drawn.params, state, drawn.x[t : t + 1], drawn.is_first[t : t + 1])
        pieces.append(piece)
    _, whole = drawn.gru.unroll(drawn.params, drawn.state, drawn.x, drawn.is_first)
    np.testing.assert_allclose(jnp.concatenate(pieces), whole, atol=1e-6)


def plain(kernel: Any, bias: Any, h: Any, x: Any, is_first: Any) -> jax.Array:
    """`recur` as a loop that JAX differentiates by itself."""
    found = []
    for t in range(L):
        h = h * (1 - is_first[t, :, None])
        r, z = (1 / (1 + jnp.exp(-(x[t, :, gate] + h @ kernel[:, gate]))) for gate in (slice(0, H), slice(H, 2 * H)))
        h = (1 - z) * jnp.tanh(x[t, :, 2 * H :] + r * (h @ kernel[:, 2 * H :] + bias)) + z * h
        found.append(h)
    return jnp.stack(found)


def gradients(function: Any, drawn: Drawn, state: jax.Array, x: jax.Array, is_first: jax.Array) -> Any:
    """With respect to all but `is_first`, of a sum in which every state counts differently."""

    def total(kernel: Any, bias: Any, h: Any, x: Any) -> jax.Array:
        return (drawn.weights * function(kernel, bias, h, x, is_first) ** 2).sum()

    params = drawn.params
    return jax.grad(total, argnums=(0, 1, 2, 3))(params["recurrent"], params["recurrent_bias"], state, x)


def from_input(drawn: Drawn) -> jax.Array:
    return drawn.x @ drawn.params["input"] + drawn.params["input_bias"]


def assert_close(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        assert np.abs(other).max() > 1e-2
        np.testing.assert_allclose(one, other, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("first", ["here and there", "nowhere", "everywhere"])
def test_gradients_are_those_of_a_plain_loop(drawn: Drawn, first: str) -> None:
    is_first = drawn.is_first if first == "here and there" else jnp.full((L, M), first == "everywhere")
    arguments = (drawn, drawn.state, from_input(drawn), is_first)
    found = jax.jit(lambda: gradients(recur, *arguments))()
    expected = gradients(plain, *arguments)
    for name, one, other in zip(("kernel", "bias", "h", "x"), found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5, rtol=1e-4, err_msg=name)
        nothing = first == "everywhere" and name in ("kernel", "h")  # nothing is remembered
        assert (np.abs(other).max() > 1e-2) is not nothing


def test_gradients_under_vmap(drawn: Drawn) -> None:
    """Three runs at once, of different states, inputs and first steps, learn what each learns alone."""
    batch = (
        jnp.stack([drawn.state, -drawn.state, 2 * drawn.state]),
        jnp.stack([from_input(drawn), from_input(drawn)[::-1], 0.5 * from_input(drawn)]),
        jnp.stack([drawn.is_first, drawn.is_first[::-1], jnp.zeros((L, M), bool)]),
    )
    together = jax.jit(jax.vmap(lambda *one: gradients(recur, drawn, *one)))(*batch)
    for i in range(3):
        expected = gradients(plain, drawn, *(part[i] for part in batch))
        assert_close([leaf[i] for leaf in together], expected)


def test_the_null_object_passes_features_through() -> None:
    nothing = memory.nothing()
    x = jnp.arange(6.0).reshape(1, 2, 3)
    state, features = nothing.unroll(nothing.init(jax.random.PRNGKey(0)), nothing.initial(2), x, jnp.ones((1, 2), bool))
    assert state == () and features is x and not nothing.recurrent
