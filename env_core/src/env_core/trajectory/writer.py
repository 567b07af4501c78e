"""Appending to a store: `StoreWriter`. Several processes may write to one store, each under its own writer name.

A shard is written and made durable beside its place, then published under the store's lock: it gets the next free
number by a hard link, which never overwrites, and counts from the moment its sidecar appears. Whatever is there when
the lock is free and has no sidecar was left by a process that died.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from env_core.errors import StoreError, WriteError, nearest
from env_core.publish import link_new, locked, make_folder, remove, temporary_beside, write_json
from env_core.trajectory.batch import Header, TrajectoryBatch
from env_core.trajectory.checksums import HashingFile, hashed_file
from env_core.trajectory.codecs.arrow import write_arrow
from env_core.trajectory.manifest import (
    MANIFEST,
    Manifest,
    ShardInfo,
    differences,
    manifest_path,
    read_manifest,
    shard_path,
    shards_folder,
    sidecar_path,
    store_lock,
    write_manifest,
)
from env_core.trajectory.validation import check_header

TARGET_SHARD_BYTES = 96 * 2**20
"""Build a batch when the builder holds about this much: large enough to read well, small enough to keep in memory."""

WRITER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
log = logging.getLogger(__name__)


class StoreWriter:
    """An open writer. Use it as a context manager, or `close` it; a killed process lets go of it too."""

    def __init__(self, root: Path, header: Header, writer: str, held: ExitStack) -> None:
        self.path = root
        self.header = header
        self.writer = writer
        self.shards: tuple[ShardInfo, ...] = ()
        """This writer's own shards, in order."""
        self._closed = False
        self._adopt(self._repair())
        self._held = held.pop_all()

    @classmethod
    def open(cls, path: Path | str, header: Header, writer: str = "main") -> StoreWriter:
        """Opens the store at `path`, creating it if there is none, and repairs what a killed process left.

        Raises `StoreError` if the writer name is in use, the folder holds something else, or the store's rows are of
        another environment, layout, encoding or major version; `SchemaError` if no rows can have this header;
        `VersionError` if a newer program made the store; `WriteError` if the disk refuses.
        """
        root = Path(path)
        check_header(header)
        if not WRITER_NAME.fullmatch(writer):
            raise StoreError(f"{writer!r} is no writer name; use up to 64 letters, digits, '-' and '_'.")
        _check_folder(root)
        with ExitStack() as held:
            make_folder(shards_folder(root))
            try:
                held.enter_context(locked(root / "locks" / f"writer-{writer}.lock", wait=False))
            except BlockingIOError as error:
                raise StoreError(
                    f"Writer {writer!r} of {root} is open in another process. Stop that process, or choose another "
                    "writer name."
                ) from error
            return cls(root, header, writer, held)

    def append(self, batch: TrajectoryBatch) -> ShardInfo:
        """Publishes a batch as the next shard.

        Raises `SchemaError` if the batch is not valid, `StoreError` if it does not belong into this store or repeats
        segment ids of this writer, `WriteError` if the disk refuses; then nothing is added.
        """
        self._check_open()
        self._check_belongs(batch)
        batch.validate()
        temporary = temporary_beside(shards_folder(self.path) / f"{self.writer}.arrow")
        with hashed_file(temporary) as file:
            write_arrow(batch, file)
        try:
            with locked(store_lock(self.path)):
                manifest = self._finish_retraction(read_manifest(self.path))
                shard = self._publish(batch, temporary, file, manifest.next_shard)
                self.shards = (*self.shards, shard)
                self._index()
        finally:
            temporary.unlink(missing_ok=True)
        return shard

    def retract(self, shards: Sequence[ShardInfo | str]) -> None:
        """Takes own shards back, all or none, with their column groups: what a resumed run is about to record again.

        Raises `StoreError` if one is not this writer's, `WriteError` if the disk refuses.
        """
        self._check_open()
        names = [shard if isinstance(shard, str) else shard.name for shard in shards]
        own = {shard.name for shard in self.shards}
        for name in names:
            if name not in own:
                raise StoreError(f"{name!r} is no shard of writer {self.writer!r} in {self.path}. {nearest(name, own)}")
        if not names:
            return
        with locked(store_lock(self.path)):
            manifest = read_manifest(self.path)
            kept = tuple(shard for shard in manifest.shards if shard.name not in names)
            retracted = replace(manifest, shards=kept, retracted=(*manifest.retracted, *names))
            write_manifest(self.path, retracted)
            self._adopt(retracted)
            self._finish_retraction(retracted)

    def close(self) -> None:
        """Gives the writer name back. Closing twice does nothing."""
        self._closed = True
        self._held.close()

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"Writer {self.writer!r} of {self.path} is closed; open it again.")

    def _check_belongs(self, batch: TrajectoryBatch) -> None:
        if wrong := differences(self.header, batch.header):
            raise StoreError(f"These rows do not belong into {self.path}: {'; '.join(wrong)}. Write to another store.")
        last = self.shards[-1].last_segment_id if self.shards else -1
        if len(batch.segments) and batch.segments.segment_id[0] <= last:
            raise StoreError(
                f"The batch starts with segment {batch.segments.segment_id[0]}, but writer {self.writer!r} of "
                f"{self.path} has written up to segment {last}. Make the builder of the state kept with those shards, "
                "retract the shards that you record again, or use another writer name."
            )

    def _publish(self, batch: TrajectoryBatch, temporary: Path, file: HashingFile, number: int) -> ShardInfo:
        """Links the rows to the first free number from `number` on, then the sidecar, which publishes them."""
        while not link_new(temporary, shard_path(self.path, name := f"shard-{number:06d}")):
            number += 1
        shard = ShardInfo.of(batch, name, file.sha256, file.num_bytes, self.writer)
        try:
            write_json(
                sidecar_path(self.path, name), {**shard.to_json(), "header": batch.header.to_json()}, replace=False
            )
        except BaseException:
            shard_path(self.path, name).unlink(missing_ok=True)
            raise
        return shard

    def _index(self) -> None:
        """Brings the manifest up to date. The shard is published already, so a failure here is no loss."""
        try:
            write_manifest(self.path, read_manifest(self.path))
        except WriteError as error:
            log.warning("The manifest is behind its sidecars until the next write: %s", error)

    def _adopt(self, manifest: Manifest) -> None:
        self.shards = tuple(shard for shard in manifest.shards if shard.writer == self.writer)

    def _repair(self) -> Manifest:
        """Creates or checks the store, and clears up after processes that died."""
        with locked(store_lock(self.path)):
            try:
                manifest = read_manifest(self.path)
            except StoreError:
                if manifest_path(self.path).exists():
                    raise
                manifest = Manifest(self.header)
            if wrong := differences(manifest.header, self.header):
                raise StoreError(f"{self.path} holds other rows: {'; '.join(wrong)}. Write to another store.")
            manifest = self._finish_retraction(manifest)
            self._remove_orphans(manifest)
            write_manifest(self.path, manifest)
            return manifest

    def _finish_retraction(self, manifest: Manifest) -> Manifest:
        """Removes the files of retracted shards, sidecars first, then forgets them. Needs the store's lock."""
        if not manifest.retracted:
            return manifest
        for name in manifest.retracted:
            for path in (
                sidecar_path(self.path, name),
                *shards_folder(self.path).glob(f"{name}.*"),
                *self.path.glob(f"columns/*/*/{name}.*"),
            ):
                remove(path)
        finished = replace(manifest, retracted=())
        write_manifest(self.path, finished)
        return finished

    def _remove_orphans(self, manifest: Manifest) -> None:
        """Removes what no living process can still need: under the store's lock, rows without a sidecar and half-made
        sidecars; under this writer's name, its temporary files. Files of other writers stay."""
        published = {shard.name for shard in manifest.shards}
        folder = shards_folder(self.path)
        orphans = [path for path in folder.glob("shard-*.arrow") if path.stem not in published]
        orphans += [*folder.glob(".shard-*.json.*.tmp"), *self.path.glob(f".{manifest_path(self.path).name}.*.tmp")]
        orphans += folder.glob(f".{self.writer}.arrow.*.tmp")
        for path in orphans:
            log.info("Removing %s, left by a process that died", path)
            remove(path)


def _check_folder(root: Path) -> None:
    """A new store wants an empty place; an existing one, or one that another writer is just making, has its own names
    in it."""
    if root.exists() and not root.is_dir():
        raise StoreError(f"{root} is a file; a store is a folder.")
    names = {path.name for path in root.iterdir()} if root.exists() else set()
    if names and names.isdisjoint({MANIFEST, "shards", "locks"}):
        raise StoreError(f"{root} is no trajectory store and not empty; choose another folder.")
