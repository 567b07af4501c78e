"""A store: a folder of shards. `Store` reads it, `StoreWriter` appends to it; see `manifest` for what lies where.

Opening a store takes a snapshot of its list of shards: open it again to see what was appended since. A shard is a
memory map: opening one costs nothing but, the first time, its checksum.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from env_core.errors import CorruptShardError, SchemaError, StoreError, nearest
from env_core.publish import make_folder, publish_new
from env_core.trajectory import archive
from env_core.trajectory.batch import Header, TrajectoryBatch
from env_core.trajectory.checksums import Checker, Progress, no_progress
from env_core.trajectory.codecs.arrow import read_arrow
from env_core.trajectory.codecs.npz import write_npz
from env_core.trajectory.manifest import OnShard, ShardInfo, read_json, read_manifest, shard_path, sidecar_path
from env_core.trajectory.schema import Ending
from env_core.trajectory.writer import TARGET_SHARD_BYTES, StoreWriter

__all__ = ["TARGET_SHARD_BYTES", "ShardInfo", "Store", "StoreWriter", "Totals"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Totals:
    """Sums over shards. An episode is finished by a segment that is not cut; `num_bytes` are those of plain shards."""

    num_shards: int
    num_rows: int
    num_steps: int
    num_segments: int
    num_bytes: int
    endings: dict[str, int]

    @property
    def episodes_finished(self) -> int:
        """Episodes whose end was recorded."""
        return self.endings[Ending.TERMINATED] + self.endings[Ending.TRUNCATED]


class Store:
    """The shards of a store at the moment that it was opened, in the order of their numbers."""

    def __init__(self, root: Path, header: Header, shards: Sequence[ShardInfo], checker: Checker | None = None) -> None:
        self.path = root
        self.header = header
        """That of the store's first writer. A shard's own, with its provenance, is `shard(i).header`."""
        self.shards = tuple(shards)
        self.skipped: list[str] = []
        """Names of the shards that `batches(skip_corrupt=True)` left out, each once."""
        self.checker = checker or Checker()

    @classmethod
    def open(cls, path: Path | str) -> Store:
        """Raises `StoreError` if there is no store at `path`, `VersionError` if a newer program made it."""
        root = Path(path)
        manifest = read_manifest(root)
        return cls(root, manifest.header, manifest.shards)

    @property
    def totals(self) -> Totals:
        """Sums over all shards, from their sidecars."""
        return Totals(
            num_shards=len(self.shards),
            num_rows=sum(shard.num_rows for shard in self.shards),
            num_steps=sum(shard.num_steps for shard in self.shards),
            num_segments=sum(shard.num_segments for shard in self.shards),
            num_bytes=sum(shard.num_bytes for shard in self.shards),
            endings={e.value: sum(shard.endings.get(e, 0) for shard in self.shards) for e in Ending},
        )

    def info(self, shard: int | str) -> ShardInfo:
        """The entry of a shard, by position or name. Raises `StoreError` if there is none."""
        if isinstance(shard, int):
            if not 0 <= shard < len(self.shards):
                raise StoreError(f"{self.path} has {len(self.shards)} shards, numbered from 0; there is no {shard}.")
            return self.shards[shard]
        for info in self.shards:
            if info.name == shard:
                return info
        raise StoreError(f"{self.path} has no shard {shard!r}. {nearest(shard, [s.name for s in self.shards])}")

    def shard(self, shard: int | str) -> TrajectoryBatch:
        """A shard, memory-mapped and read-only, by position or name; an archived one is rehydrated.

        Raises `StoreError` if there is no such shard, `CorruptShardError` if its bytes are not those that were
        published, `VersionError` if a newer program wrote it.
        """
        info = self.info(shard)
        path = shard_path(self.path, info.name)
        archive.rehydrate(self.path, info)
        self.checker.check(path, info.sha256)
        return read_arrow(path)

    def shard_header(self, shard: int | str) -> Header:
        """The header of a shard, with its provenance, from its sidecar. Raises `StoreError`."""
        path = sidecar_path(self.path, self.info(shard).name)
        try:
            return Header.from_json(read_json(path).get("header", {}), str(path))
        except (FileNotFoundError, SchemaError) as error:
            raise StoreError(f"{path} is missing or malformed ({error}); restore it from a copy.") from error

    def batches(self, skip_corrupt: bool = False) -> Iterator[TrajectoryBatch]:
        """Every shard in order. A damaged one raises `CorruptShardError`, unless `skip_corrupt`: then it is left out,
        named in `skipped`, and a warning is logged."""
        for info in self.shards:
            try:
                batch = self.shard(info.name)
            except CorruptShardError as error:
                if not skip_corrupt:
                    raise
                if info.name not in self.skipped:
                    self.skipped.append(info.name)
                log.warning("Left out %s (%d so far): %s", info.name, len(self.skipped), error)
                continue
            yield batch

    def export(
        self, folder: Path | str, shards: Sequence[int | str] | None = None, on_shard: OnShard = no_progress
    ) -> list[Path]:
        """Writes each shard (all, if none is named) as `<folder>/<name>.npz` and returns the paths.

        Raises `StoreError` if such a file exists, and the errors of `shard` and `WriteError`.
        """
        out = make_folder(Path(folder))
        paths = []
        for info in self.shards if shards is None else [self.info(shard) for shard in shards]:
            on_shard(info)
            target = out / f"{info.name}.npz"
            if not publish_new(target, partial(write_npz, self.shard(info.name))):
                raise StoreError(f"{target} exists; remove it or export to another folder.")
            paths.append(target)
        return paths

    def archive(self, progress: Progress = no_progress, on_shard: OnShard = no_progress) -> None:
        """Compresses every shard for keeping; the first use of one brings it back. Errors: `archive.archive_shard`."""
        for info in self.shards:
            on_shard(info)
            archive.archive_shard(self.path, info, progress)

    def restore(self, progress: Progress = no_progress, on_shard: OnShard = no_progress) -> None:
        """Undoes `archive`. Errors: `archive.restore_shard`."""
        for info in self.shards:
            on_shard(info)
            archive.restore_shard(self.path, info, progress)
