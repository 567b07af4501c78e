"""Reading a whole store through: `verify_store` looks for anything wrong, `summarise` says what was recorded.

`verify_store` reads every byte again, whatever was remembered of earlier checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from env_core.errors import TrajectoryError, WriteError
from env_core.trajectory import archive
from env_core.trajectory.batch import NO_SEGMENT, TrajectoryBatch
from env_core.trajectory.checksums import Checker, Progress, no_progress
from env_core.trajectory.groups import list_groups, read_column_group
from env_core.trajectory.manifest import OnShard, ShardInfo, read_json, shards_folder, sidecar_path
from env_core.trajectory.schema import Ending
from env_core.trajectory.store import Store


@dataclass
class Report:
    """What `verify_store` found. `defects` make a store unfit in part; `leftovers` are files that no reader sees."""

    num_shards: int = 0
    num_rows: int = 0
    defects: list[str] = field(default_factory=list)
    leftovers: list[Path] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything published can be read and is what was written."""
        return not self.defects


def verify_store(store: Store, progress: Progress = no_progress, on_shard: OnShard = no_progress) -> Report:
    """Checksums, every rule of the schema, sidecars, segments that continue others, column groups, leftovers."""
    store = Store(store.path, store.header, store.shards, Checker(afresh=True, progress=progress))
    report = Report(num_shards=len(store.shards))
    ends: dict[tuple[str, int], bytes] = {}
    for info in store.shards:
        on_shard(info)
        archived = archive.is_archived(store.path, info.name)
        try:
            batch = _verified(store, info)
            report.num_rows += batch.num_rows
            report.defects += _broken_continuations(info, batch, ends)
            if archived:
                archive.archive_shard(store.path, info)
        except (TrajectoryError, WriteError) as error:
            report.defects.append(f"{info.name}: {error}")
    report.defects += _broken_groups(store)
    report.leftovers = _leftovers(store)
    return report


def _verified(store: Store, info: ShardInfo) -> TrajectoryBatch:
    """A shard whose bytes, rules and sidecar are right. Raises a `TrajectoryError` else."""
    batch = store.shard(info.name)
    batch.validate()
    found = ShardInfo.of(batch, info.name, info.sha256, info.num_bytes, info.writer)
    sidecar = sidecar_path(store.path, info.name)
    try:
        told = ShardInfo.from_json(read_json(sidecar), sidecar)
    except FileNotFoundError:
        raise TrajectoryError(f"{sidecar} is gone; restore it from a copy.") from None
    for source, given in (("the manifest", info), (str(sidecar), told)):
        if given != found:
            raise TrajectoryError(f"{source} says {given.to_json()}, the rows say {found.to_json()}.")
    return batch


def _broken_continuations(info: ShardInfo, batch: TrajectoryBatch, ends: dict[tuple[str, int], bytes]) -> list[str]:
    """One defect, if any segment does not start with the observation that the segment it continues stopped with.

    `ends` holds the final observations of cut segments so far; those of this batch are added.
    """
    segments, broken = batch.segments, []
    observed = [name for name in batch.columns if name.startswith("obs_")]

    def observation(row: int) -> bytes:
        return b"".join(batch.columns[name][row].tobytes() for name in observed)

    for i in np.flatnonzero(segments.continues_from != NO_SEGMENT):
        before = int(segments.continues_from[i])
        if ends.pop((info.writer, before), None) != observation(segments.row_start[i]):
            broken.append(f"segment {segments.segment_id[i]} says that it continues segment {before}")
    for i in np.flatnonzero(segments.ending == Ending.CUT):
        ends[info.writer, int(segments.segment_id[i])] = observation(segments.row_end[i])
    if not broken:
        return []
    more = f", and so on for {len(broken) - 1} more" if len(broken) > 1 else ""
    return [
        f"{info.name}: {broken[0]} of writer {info.writer!r}, which is missing, not cut, in a damaged shard, or stops "
        f"with another observation{more}."
    ]


def _broken_groups(store: Store) -> list[str]:
    """Column groups that cannot be read, or belong to rows that are not there."""
    broken = []
    names = {shard.name for shard in store.shards}
    for group in list_groups(store):
        where = f"columns {group.group}/{group.key}"
        for name in group.shards:
            if name not in names:
                broken.append(f"{where}: the store has no {name}; remove its columns.")
                continue
            try:
                read_column_group(store, group.group, group.key, name)
            except TrajectoryError as error:
                broken.append(f"{where}: {error}")
    return broken


def _leftovers(store: Store) -> list[Path]:
    """Files of processes that died (or, right now, of a writer at work): the next writer removes what is stale."""
    names = {shard.name for shard in store.shards}
    unpublished = [path for path in shards_folder(store.path).glob("shard-*.arrow") if path.stem not in names]
    return sorted([*unpublished, *store.path.rglob(".*.tmp")])


@dataclass(frozen=True)
class Returns:
    """Undiscounted extrinsic returns of the episodes that were recorded from their first step to their end.

    `defects` names the shards that were left out, and why.
    """

    num_complete: int
    mean: float | None
    defects: tuple[str, ...] = ()


def complete_returns(store: Store, skip_corrupt: bool = False, on_shard: OnShard = no_progress) -> Returns:
    """Follows episodes over the borders of segments and shards.

    Raises the errors of `Store.shard`, or leaves such shards out, with the episodes that they hold a part of, if
    `skip_corrupt`.
    """
    open_returns: dict[tuple[str, int], float] = {}
    returns, defects = [], []
    for info in store.shards:
        on_shard(info)
        try:
            batch = store.shard(info.name)
        except TrajectoryError as error:
            if not skip_corrupt:
                raise
            defects.append(f"{info.name}: {error}")
            continue
        segments = batch.segments
        sums = np.add.reduceat(batch.columns["reward"].astype(np.float64), segments.row_start)
        starts = batch.columns["is_first"][segments.row_start]
        for i, (segment_id, before) in enumerate(zip(segments.segment_id, segments.continues_from, strict=True)):
            earlier = 0.0 if starts[i] else open_returns.pop((info.writer, int(before)), None)
            if earlier is None:
                continue
            if segments.ending[i] == Ending.CUT:
                open_returns[info.writer, int(segment_id)] = earlier + sums[i]
            else:
                returns.append(earlier + sums[i])
    return Returns(len(returns), float(np.mean(returns)) if returns else None, tuple(defects))
