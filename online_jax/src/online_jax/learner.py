"""The compiled loop: `ppo.collect` and `ppo.learn` as programs on the device, called by the host once per update."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from online_jax import ppo
from online_jax.keeping import Kept
from online_jax.metrics import EpisodeTotals
from online_jax.ppo import TrainState, Variant

Status = Callable[[str], AbstractContextManager[Any]]
"""Says on the screen what takes so long."""


class Update(NamedTuple):
    """What one update gave; everything is on the device until somebody asks."""

    state: TrainState
    losses: dict[str, jax.Array]
    episodes: EpisodeTotals
    kept: Kept


class Learner:
    """Compiles when it must, says so, and keeps count of the time that it takes (`compile_seconds`).

    The update is two programs, so that the second can be one of several sizes (`narrowing.py`) and the first, which
    holds the environment and takes longest to compile, need not be. Each reuses the memory of the state it is given.
    """

    def __init__(self, variant: Variant, status: Status) -> None:
        self.variant = variant
        self.compile_seconds = 0.0
        self._status = status
        self._programs: dict[str, Any] = {}

    def init(self, seed: int) -> TrainState:
        """The state before the first update."""
        key = jax.random.PRNGKey(seed)
        program = self._compiled("worlds and networks", partial(ppo.init, self.variant), (key,), ())
        return program(key)

    def abstract_state(self) -> Any:
        """Shapes and dtypes of the state."""
        return jax.eval_shape(partial(ppo.init, self.variant), jax.random.PRNGKey(0))

    def update(self, state: TrainState) -> Update:
        """One update. `state` is used up."""
        key, k_collect = jax.random.split(state.key)
        arguments = (state.actor, state.params, state.learned, state.opt_state, k_collect)
        collect = self._compiled("the environment and the policy", self._collect, arguments, (0,))
        actor, rollout, kept, live = collect(*arguments)
        state = state._replace(actor=actor, key=key)
        size = self._size(live)
        learn = self._compiled(f"learning ({size} channels)", partial(self._learn, size), (state, rollout), (0,))
        state, losses = learn(state, rollout)
        return Update(state, losses, rollout.episodes, kept)

    def _collect(self, actor: Any, params: Any, learned: Any, opt_state: Any, key: jax.Array) -> Any:
        actor, rollout, kept = ppo.collect(self.variant, params, learned, actor, key)
        live = self.variant.policy.narrowing.live(opt_state, rollout.steps.obs)
        return actor, rollout, kept, live.sum(dtype=jnp.int32)

    def _learn(self, size: int, state: TrainState, rollout: ppo.Rollout) -> Any:
        return ppo.learn(self.variant, state, rollout, size)

    def _size(self, live: jax.Array) -> int:
        """Asks the device only where the answer matters."""
        narrowing = self.variant.policy.narrowing
        return narrowing.sizes[0] if len(narrowing.sizes) == 1 else narrowing.size(int(live))

    def _compiled(self, name: str, function: Any, arguments: tuple[Any, ...], donate: tuple[int, ...]) -> Any:
        if name not in self._programs:
            began = time.monotonic()
            # Of shapes alone: a restored state is the same program, and found in the cache.
            shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), arguments)
            with self._status(f"compiling {name}"):
                self._programs[name] = jax.jit(function, donate_argnums=donate).lower(*shapes).compile()
            self.compile_seconds += time.monotonic() - began
        return self._programs[name]
