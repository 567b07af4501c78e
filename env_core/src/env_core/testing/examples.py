"""Seeded example data: headers of every encoding, rollouts and batches with all three endings. All of it is valid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from env_core.observation.layout import layouts
from env_core.observation.packed import EMPTY_MOB
from env_core.trajectory.batch import Array, Header, Provenance, TrajectoryBatch
from env_core.trajectory.builder import SegmentBuilder
from env_core.trajectory.rollout import FLAGS, Rollout
from env_core.trajectory.schema import BITS, PACKED, PIXEL, Column

EXAMPLE_SIZES = {BITS: {"map_size": 37, "size": 45}, PIXEL: {"height": 6, "width": 7}}


def example_header(encoding: str = PACKED[0], num_streams: int = 1, seed: int = 0) -> Header:
    """A header with made-up provenance; `bits/1` and `pixel/1` have the small sizes of `EXAMPLE_SIZES`."""
    layout = layouts.get(encoding)
    provenance = Provenance(
        env_id="Craftax-Classic-Symbolic-v1" if "classic" in encoding else "Craftax-Symbolic-v1",
        craftax_version="1.6.1",
        layout_sha256=layout.sha256 if layout else None,
        producer="examples",
        git_revision="0" * 40,
        config_sha256="1" * 64,
        seed=seed,
        policy_checkpoint_sha256="2" * 64,
        parents=("3" * 64,),
        created_at="2026-11-21T00:00:00+00:00",
    )
    return Header(encoding, provenance, num_streams, EXAMPLE_SIZES.get(encoding, {}))


@dataclass
class ExampleRecorder:
    """Plays a pretend environment in `num_slots` slots: `rollout` gives the next steps, going on where it stopped."""

    header: Header
    num_slots: int
    seed: int = 0
    ending_rate: float = 0.2

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self._next_obs = self._observations(self.num_slots)
        self._is_first = np.ones(self.num_slots, bool)
        self._episode_id = np.zeros(self.num_slots, np.int64)
        self._env_seed = self._random.integers(1, 2**63, self.num_slots, np.uint64)

    def rollout(self, num_steps: int, *, contiguous: bool = True, policy_step: int = 0) -> Rollout:
        """The next `num_steps` steps of every slot, every fifth or so ending its episode."""
        ended = self._random.random((num_steps, self.num_slots)) < self.ending_rate
        terminated = ended & (self._random.random(ended.shape) < 0.5)
        next_obs = self._observations(num_steps * self.num_slots)
        final = {name: column[-self.num_slots :] for name, column in next_obs.items()}
        columns = self._step_columns(ended.shape)
        for name, column in next_obs.items():
            before = np.concatenate([self._next_obs[name], column[: -self.num_slots]])
            columns[name] = before.reshape(num_steps, self.num_slots, *column.shape[1:])
        num_endings = int(ended.sum())
        next_seed = self._random.integers(1, 2**63, num_endings, np.uint64)
        rollout = Rollout(
            columns, terminated, ended & ~terminated, self._observations(num_endings), final, self._is_first,
            self._episode_id, self._env_seed, next_seed, policy_step, contiguous,
        )  # fmt: skip
        self._next_obs, self._is_first = final, ended[-1]
        self._episode_id = self._episode_id + ended.sum(axis=0)
        self._env_seed = self._env_seed.copy()
        self._env_seed[np.nonzero(ended)[1]] = next_seed
        return rollout

    def _observations(self, rows: int) -> dict[str, Array]:
        names = [n for n, c in self.header.columns.items() if not c.per_step and n not in FLAGS]
        return {name: self._values(name, self.header.columns[name], rows) for name in names}

    def _step_columns(self, shape: tuple[int, ...]) -> dict[str, Array]:
        rows = int(np.prod(shape))
        specs = {name: column for name, column in self.header.columns.items() if column.per_step}
        return {name: self._values(name, c, rows).reshape(*shape, *c.shape) for name, c in specs.items()}

    def _values(self, name: str, column: Column, rows: int) -> Array:
        shape = (rows, *column.shape)
        if name == "obs_tile":
            return self._random.integers(0, layouts[self.header.encoding].codes, shape).astype(column.dtype)
        if name == "obs_mob":
            return self._mobs(rows)
        if column.dtype.kind == "f":
            return self._random.standard_normal(shape, np.float32).astype(column.dtype)
        return self._random.integers(0, 17 if name == "action" else 256, shape).astype(column.dtype)

    def _mobs(self, rows: int) -> Array:
        """Zero to all slots used, ascending, each code once."""
        layout = layouts[self.header.encoding]
        most = layout.tiles * layout.mob_channels // layout.mob_slots
        steps = self._random.integers(1, most, (rows, layout.mob_slots))
        codes = (np.cumsum(steps, axis=1) - 1).astype(np.uint16)
        used = self._random.integers(0, layout.mob_slots + 1, (rows, 1))
        return np.where(np.arange(layout.mob_slots) < used, codes, np.uint16(EMPTY_MOB))


def example_batch(
    encoding: str = PACKED[0], *, num_steps: int = 20, num_slots: int = 4, num_streams: int = 1, seed: int = 0
) -> TrajectoryBatch:
    """A batch of `num_steps` steps of each slot in two rollouts with a gap between them.

    With the default numbers it has several episodes in a slot and segments of all three endings.
    """
    header = example_header(encoding, num_streams, seed)
    recorder = ExampleRecorder(header, num_slots, seed)
    builder = SegmentBuilder(header, range(num_slots))
    builder.add(recorder.rollout(num_steps // 2, policy_step=100))
    builder.add(recorder.rollout(num_steps - num_steps // 2, policy_step=200, contiguous=False))
    return builder.build()
