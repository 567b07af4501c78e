"""Rollouts in, batches out: `SegmentBuilder`, used by everything that records.

A rollout is T steps of n environment slots side by side. A batch wants each slot's steps together, cut into segments,
each closed by the observation that its last action led to. The builder keeps rollouts as they were given and moves
every row once, in `build`.

Segments end at endings, at gaps in the recording and at `build`, and nowhere else: two rollouts that follow one another
without a gap lie in one segment. A segment's `policy_step` is that of its first step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from env_core.errors import SchemaError
from env_core.trajectory.assembly import assemble, stretch_ends
from env_core.trajectory.batch import NO_SEGMENT, Array, Header, TrajectoryBatch
from env_core.trajectory.rollout import FLAGS, Rollout, checked
from env_core.trajectory.schema import Ending
from env_core.trajectory.validation import check_header


class SegmentBuilder:
    """Collects rollouts and builds batches of them.

    `env_slots` [n] numbers the recorded environment slots, in the order of the rollouts' second axis. `state` is what
    `state()` gave after the last `build`: a builder made of it goes on with the same segment ids. Raises `SchemaError`
    if it belongs to other slots, or if no rows can have this header.
    """

    def __init__(self, header: Header, env_slots: Sequence[int], state: Mapping[str, Any] | None = None) -> None:
        if len(set(env_slots)) != len(env_slots) or min(env_slots, default=-1) < 0:
            raise SchemaError(f"env_slots must be different numbers from 0: {list(env_slots)}.")
        check_header(header)
        self._header = header
        self._env_slots = np.array(env_slots, np.int32)
        self._rollouts: list[Rollout] = []
        self._next_obs: Mapping[str, Array] = {}
        fresh = {
            "env_slots": self._env_slots.tolist(),
            "next_segment_id": 0,
            "started": False,
            "ended": [False] * len(env_slots),
            "episode_id": [0] * len(env_slots),
            "continues_from": [NO_SEGMENT] * len(env_slots),
        }
        state = fresh if state is None else state
        if state.keys() != fresh.keys() or state["env_slots"] != fresh["env_slots"]:
            raise SchemaError(f"The builder's state is not one of slots {fresh['env_slots']}: {dict(state)}.")
        self._next_segment_id = int(state["next_segment_id"])
        self._started = bool(state["started"])
        self._ended = np.array(state["ended"], bool)
        self._episode_id = np.array(state["episode_id"], np.int64)
        self._continues_from = np.array(state["continues_from"], np.int64)

    @property
    def rows(self) -> int:
        """Rows of the batch that `build` would make now."""
        rows = 0
        for rollout, stops in zip(self._rollouts, stretch_ends(self._rollouts), strict=True):
            rows += rollout.ended.size + rollout.num_endings + (int((~rollout.ended[-1]).sum()) if stops else 0)
        return rows

    @property
    def nbytes(self) -> int:
        """Bytes of that batch's columns."""
        names = (*self._rollouts[0].columns, *FLAGS) if self._rollouts else ()
        return self.rows * sum(self._header.columns[name].row_bytes for name in names)

    def add(self, rollout: Rollout) -> None:
        """Takes a rollout. Its arrays are kept, not copied: leave them as they are until `build`.

        Raises `SchemaError`, and takes nothing, if an array does not fit the schema or a contiguous rollout does not go
        on where the one before stopped.
        """
        rollout = checked(rollout, self._header, len(self._env_slots))
        if self._rollouts and rollout.columns.keys() != self._rollouts[0].columns.keys():
            raise SchemaError(
                f"The rollout has the columns {sorted(rollout.columns)}, those before it in this batch have "
                f"{sorted(self._rollouts[0].columns)}; build() before changing what is recorded."
            )
        if self._started and rollout.contiguous:
            self._check_goes_on(rollout)
        if not rollout.contiguous and not self._rollouts:
            self._continues_from[:] = NO_SEGMENT
        self._rollouts.append(rollout)
        self._started = True
        self._ended = rollout.ended[-1]
        self._episode_id = rollout.episode_id + rollout.ended.sum(axis=0)
        self._next_obs = rollout.final_obs

    def build(self) -> TrajectoryBatch:
        """The batch of everything added since the last `build`. Segments still open are closed as cut, and go on in the
        next contiguous rollout. Raises `SchemaError` if nothing was added."""
        if not self._rollouts:
            raise SchemaError("Nothing was added since the last build(); ask `rows` first.")
        batch = assemble(
            self._header, self._env_slots, self._rollouts, self._continues_from, first_id=self._next_segment_id
        )
        last = np.flatnonzero(np.diff(batch.segments.env_slot, append=-1) != 0)
        still_open = batch.segments.ending[last] == Ending.CUT
        self._continues_from = np.where(still_open, batch.segments.segment_id[last], NO_SEGMENT)
        self._next_segment_id += len(batch.segments)
        self._rollouts = []
        return batch

    def state(self) -> dict[str, Any]:
        """What the constructor needs to go on after the last `build`, as a JSON object.

        Raises `SchemaError` if rows are waiting for a `build`: they are not part of it and would be lost.
        """
        if self._rollouts:
            raise SchemaError(f"{self.rows} rows are waiting; build() and write the batch before keeping the state.")
        return {
            "env_slots": self._env_slots.tolist(),
            "next_segment_id": self._next_segment_id,
            "started": self._started,
            "ended": self._ended.tolist(),
            "episode_id": self._episode_id.tolist(),
            "continues_from": self._continues_from.tolist(),
        }

    def _check_goes_on(self, rollout: Rollout) -> None:
        """A contiguous rollout starts with what the one before led to."""
        remedy = "Pass contiguous=False if steps were left out between the two rollouts."
        for what, given, expected in (
            ("is_first", rollout.is_first, self._ended),
            ("episode_id", rollout.episode_id, self._episode_id),
        ):
            wrong = np.flatnonzero(given != expected)
            if len(wrong):
                i = wrong[0]
                raise SchemaError(
                    f"{what} of slot {self._env_slots[i]} is {given[i]} on the first row; after the rollout before it "
                    f"must be {expected[i]}. {remedy}"
                )
        for name, expected in self._next_obs.items():
            given = rollout.columns[name][0]
            if given.tobytes() != expected.tobytes():
                raise SchemaError(f"The first {name} is not the final_obs of the rollout before. {remedy}")
