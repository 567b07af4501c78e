"""The compiled loop: `ppo.collect` and `ppo.learn` as programs on the devices, called by the host once per update."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from online_jax import cluster, ppo
from online_jax.devices import Placement
from online_jax.floors import Reached
from online_jax.keeping import Kept
from online_jax.metrics import EpisodeTotals
from online_jax.ppo import TrainState, Variant

Status = Callable[[str], AbstractContextManager[Any]]
"""Says on the screen what takes so long."""


class Update(NamedTuple):
    """What one update gave; everything is on the device until somebody asks. With several seeds, leaves [S, ...]."""

    state: TrainState
    losses: dict[str, jax.Array]
    episodes: EpisodeTotals
    kept: Kept
    reached: Reached


class Acted(NamedTuple):
    """What the first half of an update gave, on the device."""

    state: TrainState
    rollout: ppo.Rollout
    kept: Kept
    live: jax.Array
    """int32: channels seen up to now, the most of any seed's"""


class Learner:
    """Compiles when it must, says so, and keeps count of the time that it takes (`compile_seconds`).

    The update is two programs, so that the second can be one of several sizes (`narrowing.py`) and the first, which
    holds the environment and takes longest to compile, need not be. Each reuses the memory of the state it is given.

    With `num_seeds` above 1, S agents are trained side by side: every array has them as its first axis.
    """

    def __init__(
        self, variant: Variant, status: Status, placement: Placement | None = None, num_seeds: int = 1
    ) -> None:
        self._placement = placement or Placement(None, variant.num_envs)
        self.variant = variant._replace(env=self._placement.sharing_worlds(variant.env), share=self._placement.share)
        self.compile_seconds = 0.0
        self._status = status
        self._num_seeds = num_seeds
        self._lead = 0 if num_seeds == 1 else 1
        self.programs: dict[str, Any] = {}
        """compiled, by name"""

    def init(self, seed: int) -> TrainState:
        """The state before the first update, of `num_seeds` seeds from `seed` on."""
        return self._start("worlds and networks", self._init, self._keys(seed))

    def tuned(self, state: TrainState, params: Any) -> TrainState:
        """`state` with the policy's parameters replaced by `params`, which may be of one seed."""
        copies = params if not self._lead else jax.tree.map(lambda x: jnp.stack([x] * self._num_seeds), params)
        return state._replace(params=self._placement.put_everywhere(copies))

    def abstract_state(self) -> Any:
        """Shapes, dtypes and places of the state."""
        state = jax.eval_shape(self._init, self._keys(0))
        return self._placement.everywhere(state)._replace(actor=self._placement.spread(state.actor, self._lead))

    def update(self, state: TrainState) -> Update:
        """One update. `state` is used up."""
        acted = self.collect(state)
        state, losses = self.learn(acted)
        return Update(state, losses, acted.rollout.episodes, acted.kept, acted.rollout.reached)

    def collect(self, state: TrainState) -> Acted:
        """Its first half: a rollout. `state` is used up."""
        arguments = (state.actor, state.params, state.learned, state.seen, state.key)
        program = self._compiled(
            "the environment and the policy", self._collect, arguments, (0, 2), self._place_collect
        )
        actor, learned, key, rollout, kept, live = program(*arguments)
        return Acted(state._replace(actor=actor, learned=learned, key=key), rollout, kept, live)

    def learn(self, acted: Acted) -> tuple[TrainState, dict[str, jax.Array]]:
        """Its second half: the state after it, and the losses. The state in `acted` is used up."""
        size = self._size(acted.live)
        program = self._compiled(
            f"learning ({size} channels)" if size else "learning",
            self._vectorised(partial(self._learn, size)),
            (acted.state, acted.rollout),
            (0,),
            self._place_learn,
        )
        return program(acted.state, acted.rollout)

    def everywhere(self, tree: Any) -> Any:
        """The tree's arrays on all devices of this learner."""
        return self._placement.put_everywhere(tree)

    def _keys(self, seed: int) -> jax.Array:
        """uint32 [2], or [S, 2]."""
        keys = [jax.random.PRNGKey(one) for one in range(seed, seed + self._num_seeds)]
        return jnp.stack(keys) if self._lead else keys[0]

    def _vectorised(self, function: Any) -> Any:
        return jax.vmap(function) if self._lead else function

    def _init(self, keys: jax.Array) -> TrainState:
        return self._vectorised(partial(ppo.init, self.variant))(keys)

    def _collect(self, actor: Any, params: Any, learned: Any, seen: Any, key: jax.Array) -> Any:
        def one(actor: Any, params: Any, learned: Any, seen: Any, key: jax.Array) -> Any:
            key, k_collect = jax.random.split(key)
            actor, learned, rollout, kept = ppo.collect(self.variant, params, learned, actor, k_collect)
            live = ppo.seen_with(self.variant, seen, rollout).sum(dtype=jnp.int32)
            return actor, learned, key, rollout, kept, live

        actor, learned, key, rollout, kept, live = self._vectorised(one)(actor, params, learned, seen, key)
        return actor, learned, key, rollout, kept, live.max()

    def _learn(self, size: int, state: TrainState, rollout: ppo.Rollout) -> Any:
        return ppo.learn(self.variant, state, rollout, size)

    def _size(self, live: jax.Array) -> int:
        """Asks the device only where the answer matters."""
        narrowing = self.variant.narrowing
        return narrowing.channels if len(narrowing.sizes) == 1 else narrowing.size(int(live))

    def _place_collect(self, result: Any) -> Any:
        """The places of what `_collect` returns."""
        actor, learned, key, rollout, kept, live = result
        place, lead = self._placement, self._lead
        rollout = place.everywhere(rollout)._replace(
            steps=place.spread(rollout.steps, lead + 1),
            memory=place.spread(rollout.memory, lead),
            last_obs=place.spread(rollout.last_obs, lead),
            last_values=place.spread(rollout.last_values, lead),
        )
        rest = place.everywhere((learned, key)), place.everywhere((kept, live))
        return place.spread(actor, lead), *rest[0], rollout, *rest[1]

    def _place_learn(self, result: Any) -> Any:
        state, losses = result
        placed = self._placement.everywhere(state)._replace(actor=self._placement.spread(state.actor, self._lead))
        return placed, self._placement.everywhere(losses)

    def _start(self, name: str, function: Any, keys: jax.Array) -> Any:
        def placed(_: Any) -> Any:
            return self.abstract_state()

        keys = self._placement.put_everywhere(keys)
        return self._compiled(name, function, (keys,), (), placed)(keys)

    def _compiled(
        self, name: str, function: Any, arguments: tuple[Any, ...], donate: Sequence[int], placed: Callable[[Any], Any]
    ) -> Any:
        """The program called `name`; `placed` says where its results go."""
        if name not in self.programs:
            began = time.monotonic()
            self.programs[name] = self._compile(name, function, arguments, donate, placed)
            cluster.wait_for_all(name)  # of several processes, some may have found it in their cache
            self.compile_seconds += time.monotonic() - began
        return self.programs[name]

    def _compile(self, name: str, function: Any, arguments: Any, donate: Sequence[int], placed: Any) -> Any:
        several = self._placement.mesh is not None
        # Of shapes alone: a restored state is the same program, and found in the cache.
        shapes = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding if several else None), arguments
        )
        with self._status(f"compiling {name}"):
            places = {}
            if several:
                result = jax.eval_shape(function, *shapes)
                places["out_shardings"] = jax.tree.map(lambda leaf: leaf.sharding, placed(result))
            return jax.jit(function, donate_argnums=donate, **places).lower(*shapes).compile()
