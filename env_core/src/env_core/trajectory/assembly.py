"""From rollouts to one batch: where every row goes, and the table of segments. Pure functions of `build`.

S is the number of steps of all rollouts together, n the number of slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from env_core.trajectory.batch import NO_SEGMENT, Array, Header, SegmentTable, TrajectoryBatch
from env_core.trajectory.rollout import Rollout
from env_core.trajectory.schema import Ending


class Places(NamedTuple):
    """Where rows go, for steps [S, n] and segments [Z], the latter ordered by slot, then time."""

    row: Array
    """int64 [S, n]: destination of each step. The row after a closing step takes the segment's final observation."""
    start: Array
    """int64 [Z]: first step of each segment."""
    end: Array
    """int64 [Z]: last step."""
    slot: Array
    """int64 [Z]"""


def stretch_ends(rollouts: Sequence[Rollout]) -> list[bool]:
    """For each rollout: whether the recording stops after it, at a gap or because it is the last."""
    return [not following.contiguous for following in rollouts[1:]] + [True] * bool(rollouts)


def assemble(
    header: Header, env_slots: Array, rollouts: Sequence[Rollout], continues_from: Array, first_id: int
) -> TrajectoryBatch:
    """One batch of all rollouts. `continues_from` [n] are the segments that each slot's first one continues;
    ids count from `first_id`. The slots' segments follow one another, in the order of `env_slots`."""
    ended = np.concatenate([rollout.ended for rollout in rollouts])
    closes = ended.copy()
    closes[[end - 1 for _, end in _spans(rollouts, stretch_ends(rollouts))]] = True
    places = _place(closes)
    num_rows = closes.size + len(places.slot)
    columns = {name: _column(header, name, rollouts, places, num_rows) for name in rollouts[0].columns}
    segments = _segments(env_slots, rollouts, places, continues_from, first_id)
    columns["is_first"] = np.zeros(num_rows, bool)
    columns["is_first"][places.row] = _starts_episode(rollouts)
    for name, endings in (("is_last", (Ending.TERMINATED, Ending.TRUNCATED)), ("is_terminal", (Ending.TERMINATED,))):
        columns[name] = np.zeros(num_rows, bool)
        columns[name][segments.row_end] = np.isin(segments.ending, endings)
    ordered = {name: columns[name] for name in header.columns if name in columns}
    return TrajectoryBatch(header, ordered, segments)


def _spans(rollouts: Sequence[Rollout], chosen: Sequence[bool]) -> list[tuple[int, int]]:
    """First step and end of each chosen rollout among all S steps."""
    stops = np.cumsum([len(rollout.terminated) for rollout in rollouts])
    spans = [(int(stop) - len(r.terminated), int(stop)) for r, stop in zip(rollouts, stops, strict=True)]
    return [span for span, wanted in zip(spans, chosen, strict=True) if wanted]


def _place(closes: Array) -> Places:
    """`closes` bool [S, n]: steps after which a segment closes; the last one of every slot is one."""
    num_steps = len(closes)
    before = np.cumsum(closes, axis=0) - closes
    rows_per_slot = num_steps + closes.sum(axis=0)
    first_row = np.cumsum(rows_per_slot) - rows_per_slot
    row = first_row + np.arange(num_steps)[:, None] + before
    slot, end = np.nonzero(closes.T)
    start = np.where(np.diff(slot, prepend=-1) > 0, 0, np.roll(end, 1) + 1)
    return Places(row, start, end, slot)


def _column(header: Header, name: str, rollouts: Sequence[Rollout], places: Places, num_rows: int) -> Array:
    """One column with every rollout's rows in place, and the final observations where segments close."""
    spec = header.columns[name]
    column = np.zeros((num_rows, *spec.shape), spec.dtype)
    everything = _spans(rollouts, [True] * len(rollouts))
    for rollout, stops, (start, end) in zip(rollouts, stretch_ends(rollouts), everything, strict=True):
        row = places.row[start:end]
        column[row] = rollout.columns[name]
        if name in rollout.final_obs:
            column[row[rollout.ended] + 1] = rollout.terminal_obs[name]
            if stops:
                still_open = ~rollout.ended[-1]
                column[row[-1, still_open] + 1] = rollout.final_obs[name][still_open]
    return column


def _segments(
    env_slots: Array, rollouts: Sequence[Rollout], places: Places, continues_from: Array, first_id: int
) -> SegmentTable:
    start, end, slot = places.start, places.end, places.slot
    rollout_of = np.repeat(np.arange(len(rollouts)), [len(rollout.terminated) for rollout in rollouts])
    terminated = np.concatenate([rollout.terminated for rollout in rollouts])[end, slot]
    truncated = np.concatenate([rollout.truncated for rollout in rollouts])[end, slot]
    seeds, has_seed = _seeds(rollouts)
    return SegmentTable(
        segment_id=first_id + np.arange(len(slot), dtype=np.int64),
        env_slot=env_slots[slot],
        episode_id=_episodes(rollouts)[start, slot],
        row_start=places.row[start, slot],
        num_steps=end - start + 1,
        ending=np.select([terminated, truncated], [Ending.TERMINATED, Ending.TRUNCATED], Ending.CUT),
        continues_from=np.where(start == 0, continues_from[slot], NO_SEGMENT),
        env_seed=seeds[start, slot],
        has_env_seed=has_seed[start, slot],
        policy_step=np.array([rollout.policy_step for rollout in rollouts], np.int64)[rollout_of[start]],
    )


def _starts_episode(rollouts: Sequence[Rollout]) -> Array:
    """bool [S, n]: whether a step is the first of its episode: told for a rollout's first row, after an ending else."""
    return np.concatenate([np.concatenate([r.is_first[None], r.ended[:-1]]) for r in rollouts])


def _episodes(rollouts: Sequence[Rollout]) -> Array:
    """int64 [S, n]: the episode of each step."""
    return np.concatenate([r.episode_id + np.cumsum(r.ended, axis=0) - r.ended for r in rollouts])


def _seeds(rollouts: Sequence[Rollout]) -> tuple[Array, Array]:
    """uint64 and bool [S, n]: key of the world, and whether it is known, of each step that can start a segment."""
    seeds, known = [], []
    for rollout in rollouts:
        seed, has = np.zeros(rollout.ended.shape, np.uint64), np.zeros(rollout.ended.shape, bool)
        if rollout.env_seed is not None:
            seed[0], has[0] = rollout.env_seed, True
        if rollout.next_env_seed is not None:
            step, slot = np.nonzero(rollout.ended)
            within = step + 1 < len(seed)
            follows = step[within] + 1, slot[within]
            seed[follows], has[follows] = rollout.next_env_seed[within], True
        seeds.append(seed)
        known.append(has)
    return np.concatenate(seeds), np.concatenate(known)
