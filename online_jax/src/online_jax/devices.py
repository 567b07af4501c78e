"""Where arrays live: environments spread over devices, everything else on every one of them.

`jax.jit` does the rest: from the placement of what goes in and comes out, XLA makes the program of each device and what
they exchange. The mathematics is written once, for all environments (`ppo.py`), and is the same on any number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from env_core.errors import ConfigError, RunError

AXIS = "envs"


@dataclass(frozen=True)
class Placement:
    """`mesh` is None on one device, where nothing needs to be said."""

    mesh: Mesh | None
    num_envs: int

    @property
    def num_devices(self) -> int:
        return 1 if self.mesh is None else self.mesh.size

    def spread(self, tree: Any, axis: int) -> Any:
        """The tree's shapes with their place: leaves whose `axis` counts environments are split along it."""

        def place(leaf: Any) -> Any:
            split = leaf.ndim > axis and leaf.shape[axis] == self.num_envs
            return self._placed(leaf, PartitionSpec(*[None] * axis, AXIS) if split else PartitionSpec())

        return jax.tree.map(place, tree)

    def everywhere(self, tree: Any) -> Any:
        """The tree's shapes, each leaf whole on every device."""
        return jax.tree.map(lambda leaf: self._placed(leaf, PartitionSpec()), tree)

    def put_everywhere(self, tree: Any) -> Any:
        """The tree's arrays, the same in every process, as arrays of all devices."""
        if self.mesh is None:
            return tree
        return jax.device_put(tree, NamedSharding(self.mesh, PartitionSpec()))

    def sharing_worlds(self, env: Any) -> Any:
        """`env`, whose worlds for a rollout are made by all devices together, and then held by each.

        Without it each device would make all of them. Held whole, they are at hand wherever an episode ends, so that no
        game state passes between devices while they act.
        """
        if self.mesh is None:
            return env
        made, held = (NamedSharding(self.mesh, PartitionSpec(*axes)) for axes in ((AXIS,), ()))

        def place(leaf: jax.Array) -> jax.Array:
            if leaf.shape[0] % self.num_devices == 0:
                leaf = jax.lax.with_sharding_constraint(leaf, made)
            return jax.lax.with_sharding_constraint(leaf, held)

        return replace(env, worlds=lambda key: jax.tree.map(place, env.worlds(key)))

    def share(self, minibatches: Any) -> Any:
        """Inside a program, minibatches [count, L, M / count, ...] with each device holding its part of every one.

        Without it, XLA would have every device learn from all of them: what a shuffle puts where, it cannot know.
        A leaf whose third axis the devices cannot share evenly (a bare `memory`, say) is left to XLA.
        """
        if self.mesh is None:
            return minibatches
        divided = NamedSharding(self.mesh, PartitionSpec(None, None, AXIS))

        def place(leaf: jax.Array) -> jax.Array:
            return leaf if leaf.shape[2] % self.num_devices else jax.lax.with_sharding_constraint(leaf, divided)

        return jax.tree.map(place, minibatches)

    def _placed(self, leaf: Any, spec: PartitionSpec) -> jax.ShapeDtypeStruct:
        sharding = None if self.mesh is None else NamedSharding(self.mesh, spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def place(num_envs: int, devices: int = 0) -> Placement:
    """`num_envs` environments on `devices` of this process's devices; 0: as many as divide them evenly.

    With several processes (`cluster.join`), on all devices of all of them. Raises `ConfigError` if there are fewer
    devices than asked for, or if they cannot share the environments evenly.
    """
    if jax.process_count() > 1:
        count, known = jax.device_count(), jax.devices()
        if devices not in (0, jax.local_device_count()):
            raise ConfigError(
                f"--devices {devices}: a run of several processes uses all {count} devices. Leave it out."
            )
    else:
        known = jax.local_devices()
        if devices > len(known):
            raise ConfigError(f"--devices {devices}, but this machine shows {len(known)} ({known[0].platform}).")
        count = devices or max(n for n in range(1, len(known) + 1) if num_envs % n == 0)
    if num_envs % count:
        near = [n for n in (num_envs - num_envs % count, num_envs - num_envs % count + count) if n]
        raise ConfigError(
            f"--num-envs {num_envs} cannot be shared evenly among {count} devices. "
            f"Nearest that can: {', '.join(map(str, near))}."
        )
    return Placement(None if count == 1 else Mesh(known[:count], (AXIS,)), num_envs)


@contextmanager
def enough_memory(remedy: str) -> Iterator[None]:
    """Turns a device's refusal of memory, wherever it comes to light, into a `RunError` that ends with `remedy`."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error) and "Out of memory" not in str(error):
            raise
        raise RunError(f"The device has too little memory: {str(error).splitlines()[0][:200]} {remedy}") from None
