"""The segment builder's plain twin: walks every slot step by step, one row at a time. Slow and obvious."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from env_core.trajectory.batch import TrajectoryBatch
from env_core.trajectory.rollout import Rollout


@dataclass
class Segment:
    slot: int
    episode_id: int
    env_seed: int
    policy_step: int
    is_first: bool
    continues_from: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    ending: str = "cut"
    segment_id: int = -1


class StepByStep:
    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self.next_id = 0
        self.continues = [-1] * num_slots

    def build(self, rollouts: list[Rollout]) -> list[Segment]:
        segments = []
        for slot in range(self.num_slots):
            if not rollouts[0].contiguous:
                self.continues[slot] = -1
            walked = self._walk(slot, rollouts)
            for segment in walked:
                segment.segment_id = self.next_id
                self.next_id += 1
            self.continues[slot] = walked[-1].segment_id if walked[-1].ending == "cut" else -1
            segments += walked
        return segments

    def _walk(self, slot: int, rollouts: list[Rollout]) -> list[Segment]:
        segments: list[Segment] = []
        current, last_final = None, None
        for number, rollout in enumerate(rollouts):
            if current is not None and not rollout.contiguous:
                current.rows.append(last_final)
                current = None
            episode, seed, first = (
                int(rollout.episode_id[slot]),
                int(rollout.env_seed[slot]),
                bool(rollout.is_first[slot]),
            )
            for t in range(len(rollout.terminated)):
                if current is None:
                    continues = self.continues[slot] if number == 0 and t == 0 else -1
                    current = Segment(slot, episode, seed, rollout.policy_step, first, continues)
                    segments.append(current)
                current.rows.append({name: column[t, slot] for name, column in rollout.columns.items()})
                first = False
                if rollout.terminated[t, slot] or rollout.truncated[t, slot]:
                    which = int(np.sum(rollout.ended.reshape(-1)[: t * self.num_slots + slot]))
                    current.rows.append({name: column[which] for name, column in rollout.terminal_obs.items()})
                    current.ending = "terminated" if rollout.terminated[t, slot] else "truncated"
                    current, episode, seed, first = None, episode + 1, int(rollout.next_env_seed[which]), True
            last_final = {name: column[slot] for name, column in rollout.final_obs.items()}
        if current is not None:
            current.rows.append(last_final)
        return segments


def assert_same(batch: TrajectoryBatch, expected: list[Segment]) -> None:
    """Whether a batch holds these segments and nothing else, value for value."""
    table = batch.segments
    assert len(table) == len(expected)
    row = 0
    for i, segment in enumerate(expected):
        told = {name: getattr(table, name)[i].item() for name in ("segment_id", "env_slot", "episode_id", "env_seed")}
        assert told == {
            "segment_id": segment.segment_id,
            "env_slot": segment.slot,
            "episode_id": segment.episode_id,
            "env_seed": segment.env_seed,
        }
        assert (table.ending[i], table.policy_step[i]) == (segment.ending, segment.policy_step)
        assert (table.continues_from[i], table.row_start[i]) == (segment.continues_from, row)
        assert table.num_steps[i] == len(segment.rows) - 1
        for k, values in enumerate(segment.rows):
            last = k == len(segment.rows) - 1
            for name, column in batch.header.columns.items():
                flags = {
                    "is_first": k == 0 and segment.is_first,
                    "is_last": last and segment.ending != "cut",
                    "is_terminal": last and segment.ending == "terminated",
                }
                value = values.get(name, flags.get(name, np.zeros(column.shape, column.dtype)))
                assert np.array_equal(batch.columns[name][row], value), (name, row)
            assert batch.is_step[row] == (not last)
            row += 1
    assert row == batch.num_rows
