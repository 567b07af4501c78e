"""Shards at rest: the bytes of a shard compressed with zstd, so that they come back exactly, checksum and all.

`zstd -d`, and any Arrow reader behind a decompressing stream, reads an archived shard without this code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa

from env_core.errors import CorruptShardError, WriteError
from env_core.publish import link_new, locked, remove, temporary_beside
from env_core.trajectory.checksums import READ_BYTES, Progress, gone, hashed_file, no_progress, sha256_of, verify
from env_core.trajectory.manifest import ShardInfo, shard_path, shards_folder

ARCHIVE_READS = 3
"""How often `archive_shard` reads the bytes of a shard: to check, to compress, and decompressed, to compare."""

RESTORE_READS = 2
"""How often `restore_shard` does: to decompress, and to check."""


def archive_path(root: Path, name: str) -> Path:
    """Where the archived form of a shard is."""
    return shards_folder(root) / f"{name}.arrow.zst"


def is_archived(root: Path, name: str) -> bool:
    """Whether only the archived form of a shard is there."""
    return archive_path(root, name).exists() and not shard_path(root, name).exists()


def archive_shard(root: Path, shard: ShardInfo, progress: Progress = no_progress) -> None:
    """Compresses a shard and removes its plain form once the compressed one is safe and proven to give it back.

    Raises `CorruptShardError` if the shard is damaged, `WriteError` if the disk refuses.
    """
    plain, packed = shard_path(root, shard.name), archive_path(root, shard.name)
    with _archive_lock(root):
        if is_archived(root, shard.name):
            return
        verify(plain, shard.sha256, progress)
        if not packed.exists():
            temporary = temporary_beside(packed)
            with (
                hashed_file(temporary) as file,
                plain.open("rb") as source,
                pa.CompressedOutputStream(pa.PythonFile(file, mode="w"), "zstd") as compressed,
            ):
                while piece := source.read(READ_BYTES):
                    compressed.write(piece)
                    progress(len(piece))
            link_new(temporary, packed)
        verify_archived(root, shard, progress)
        remove(plain)


def verify_archived(root: Path, shard: ShardInfo, progress: Progress = no_progress) -> None:
    """Decompresses without keeping anything. Raises `CorruptShardError` unless the shard's own bytes come out."""
    path = archive_path(root, shard.name)
    with _decompressed(path) as stream:
        found = sha256_of(stream, progress)
    if found != shard.sha256:
        raise _damaged(path, shard.sha256, found)


def rehydrate(root: Path, shard: ShardInfo, progress: Progress = no_progress) -> None:
    """Puts the plain form of a shard back in its place if only the archived one is there, which it keeps.

    Raises `CorruptShardError` if the archived form is damaged, `WriteError` if the plain one cannot be written.
    """
    plain, packed = shard_path(root, shard.name), archive_path(root, shard.name)
    if not is_archived(root, shard.name):
        return
    with _archive_lock(root):
        if not is_archived(root, shard.name):
            return
        for leftover in plain.parent.glob(f".{plain.name}.*.tmp"):
            remove(leftover)
        temporary = temporary_beside(plain)
        with hashed_file(temporary) as file, _decompressed(packed) as stream:
            while piece := stream.read(READ_BYTES):
                file.write(piece)
                progress(len(piece))
        if file.sha256 != shard.sha256:
            temporary.unlink()
            raise _damaged(packed, shard.sha256, file.sha256)
        link_new(temporary, plain)


def restore_shard(root: Path, shard: ShardInfo, progress: Progress = no_progress) -> None:
    """Rehydrates a shard and removes the archived form. Same errors as `rehydrate`."""
    rehydrate(root, shard, progress)
    verify(shard_path(root, shard.name), shard.sha256, progress)
    remove(archive_path(root, shard.name))


@contextmanager
def _decompressed(path: Path) -> Iterator[IO[bytes]]:
    try:
        with pa.OSFile(str(path)) as source, pa.CompressedInputStream(source, "zstd") as stream:
            yield cast(IO[bytes], stream)
    except WriteError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise gone(path, error if isinstance(error, OSError) else OSError(str(error))) from error


def _archive_lock(root: Path) -> Any:
    """One process at a time archives or rehydrates; who comes second finds the work done."""
    return locked(root / "locks" / "archive.lock")


def _damaged(path: Path, expected: str, found: str) -> CorruptShardError:
    return CorruptShardError(
        f"{path} is damaged: decompressed, its SHA-256 is {found}, the shard's is {expected}. Restore it from a copy."
    )
