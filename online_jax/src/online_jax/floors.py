"""The observation at which each floor was first reached, found on the device and kept by the host.

The predecessor's users looked at these to see what a new floor takes an agent by surprise with. `Reached` costs a few
comparisons per step; with no floors asked for, every array here has size zero.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from env_core.observation import Layout, Packed
from env_core.observation.text import describe
from env_core.publish import publish, write_json

FOLDER = "floors"
NUM_FLOORS = 9
"""Craftax's; Classic has the first one only."""


class Reached(NamedTuple):
    """By floor, the first time in a rollout that an episode went as deep; leaves [F, ...]."""

    found: jax.Array
    """bool"""
    obs: Any
    """packed, also where the policy sees pixels"""
    world_key: jax.Array
    """uint32 [F, 2] of that episode's world"""
    length: jax.Array
    """int32: steps from the episode's start"""
    step: jax.Array
    """int32: steps of the rollout before"""


def none_reached(env: Any, env_state: Any, num_floors: int) -> Reached:
    """Before a rollout."""
    if not num_floors:
        return Reached(jnp.zeros(0, bool), (), *(jnp.zeros(0, jnp.int32),) * 3)
    one = jax.eval_shape(
        env.observe, jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), env_state.inner)
    )
    return Reached(
        jnp.zeros(num_floors, bool),
        jax.tree.map(lambda x: jnp.zeros((num_floors, *x.shape), x.dtype), one),
        jnp.zeros((num_floors, 2), jnp.uint32),
        jnp.zeros(num_floors, jnp.int32),
        jnp.zeros(num_floors, jnp.int32),
    )


def add(reached: Reached, env: Any, env_state: Any, step: jax.Array) -> Reached:
    """With what the environments show after step number `step` of the rollout; `env_state` is after it."""
    floors = len(reached.found)
    if not floors:
        return reached
    statistics = env_state.statistics
    at = statistics.deepest_floor[None, :] == jnp.arange(floors)[:, None]  # [F, N]
    which = at.argmax(1)
    states = jax.tree.map(lambda x: x[which], env_state.inner)
    now = Reached(
        at.any(1),
        jax.vmap(env.observe)(states),
        statistics.world_key[which],
        statistics.length[which],
        jnp.broadcast_to(step, floors),
    )
    new = now.found & ~reached.found
    chosen = jax.tree.map(lambda old, one: jnp.where(new.reshape(-1, *[1] * (old.ndim - 1)), one, old), reached, now)
    return chosen._replace(found=reached.found | now.found)


class FloorLog:
    """Keeps the first observation of each floor below the surface: `floor-<n>.npz` (packed), `.txt` and `.json`."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self._folder, self._layout = folder, layout
        self._known = {int(path.stem.removeprefix("floor-")) for path in folder.glob("floor-*.json")}

    def take(self, reached: Reached, policy_step: int, num_envs: int) -> None:
        """Takes a rollout's, on the host; `policy_step` are the environment steps before it."""
        for floor in np.flatnonzero(reached.found).tolist():
            if floor and floor not in self._known:
                one = jax.tree.map(lambda x, floor=floor: np.asarray(x)[floor], reached)
                self._write(floor, one, policy_step, num_envs)
                self._known.add(floor)

    def _write(self, floor: int, reached: Reached, policy_step: int, num_envs: int) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        packed = Packed(*reached.obs)
        content = io.BytesIO()
        np.savez_compressed(content, obs_tile=packed.tile, obs_mob=packed.mob, obs_scalar=packed.scalar)
        text = describe(Packed(*(x[None] for x in packed)), self._layout)[0]
        target = self._folder / f"floor-{floor}"
        publish(target.with_suffix(".npz"), lambda file: file.write(content.getvalue()))
        publish(target.with_suffix(".txt"), lambda file: file.write(text.encode()))
        about = {
            "floor": floor,
            "step": policy_step + (int(reached.step) + 1) * num_envs,
            "episode_length": int(reached.length),
            "world_key": [int(word) for word in reached.world_key],
            "encoding": self._layout.name,
        }
        write_json(target.with_suffix(".json"), about, replace=True)  # last: it says that the floor is known
