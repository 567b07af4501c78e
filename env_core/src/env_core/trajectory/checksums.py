"""Checksums, verified once per file and remembered: a flipped bit in an uncompressed Arrow file goes unnoticed without.

What was verified is remembered beside the file (`<name>.checked`) with its size, time of change and inode: a file that
changed in any way is read through again, and so is one that changed within the last second, for file systems tell time
in steps. A folder that cannot be written to is no reason to fail: nothing is remembered there, and each process
verifies once for itself.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from env_core.errors import CorruptShardError, StoreError, WriteError
from env_core.publish import temporary_file, write_json
from env_core.trajectory.manifest import read_json

CLOCK_STEP_NS = 1_000_000_000
"""Coarser than any file system's clock that a store is likely to lie on."""

READ_BYTES = 1 << 20

Progress = Callable[[int], None]
"""Is told how many bytes more were read."""


def no_progress(_: object) -> None:
    """Tells nobody."""


class Checker:
    """Verifies files against the checksums that they were published with, each at most once.

    With `afresh`, what earlier processes verified counts for nothing. `progress` hears of every byte that is read.
    """

    def __init__(self, afresh: bool = False, progress: Progress = no_progress) -> None:
        self._verified: dict[Path, dict[str, Any]] = {}
        self._afresh = afresh
        self._progress = progress

    def check(self, path: Path, sha256: str) -> None:
        """Returns if the file is whole, at once if it is known to be. Raises `CorruptShardError`."""
        try:
            state = _state(path, sha256)
        except OSError as error:
            raise gone(path, error) from error
        if self._verified.get(path) == state:
            return
        settled = _settled(state)
        if self._afresh or _remembered(path) != state:
            verify(path, sha256, self._progress)
            if settled:
                _remember(path, state)
        if settled:
            self._verified[path] = state


def verify(path: Path, sha256: str, progress: Progress = no_progress) -> None:
    """Reads the file through. Raises `CorruptShardError` if its checksum is not `sha256` or it cannot be read."""
    try:
        with path.open("rb") as file:
            found = sha256_of(file, progress)
    except OSError as error:
        raise gone(path, error) from error
    if found != sha256:
        raise CorruptShardError(
            f"{path} is damaged: its SHA-256 is {found}, it was published with {sha256}. Restore it from a copy, or "
            "leave it out explicitly (skip_corrupt=True); everything else in the store can be read."
        )


def sha256_of(file: IO[bytes], progress: Progress = no_progress) -> str:
    """Hex digest of the rest of an open file; `progress` is told the bytes of every piece."""
    digest = hashlib.sha256()
    while piece := file.read(READ_BYTES):
        digest.update(piece)
        progress(len(piece))
    return digest.hexdigest()


class HashingFile:
    """A binary file that hashes what is written to it, so that the checksum is of the bytes that were meant."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.num_bytes = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.num_bytes += len(data)
        self._file.write(data)
        return len(data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Leaves the file open, for writers that close what they write to: it has yet to be synced."""

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


@contextmanager
def hashed_file(path: Path) -> Iterator[HashingFile]:
    """`publish.temporary_file`, with the checksum of what was written to it. Raises `WriteError`."""
    with temporary_file(path) as file:
        yield HashingFile(file)


def gone(path: Path, error: OSError) -> CorruptShardError:
    """The error for a file that should be there and cannot be opened."""
    return CorruptShardError(
        f"{path} cannot be read: {error.strerror or error}. If it was retracted just now, open the store again; else "
        "restore it from a copy, or leave it out explicitly (skip_corrupt=True)."
    )


def _state(path: Path, sha256: str) -> dict[str, Any]:
    status = path.stat()
    return {
        "sha256": sha256,
        "size": status.st_size,
        "changed_ns": status.st_ctime_ns,
        "inode": status.st_ino,
    }


def _settled(state: dict[str, Any]) -> bool:
    """Whether a change from now on would show in the state."""
    age: int = time.time_ns() - state["changed_ns"]
    return age > CLOCK_STEP_NS


def _note(path: Path) -> Path:
    return path.with_suffix(".checked")


def _remember(path: Path, state: dict[str, Any]) -> None:
    with suppress(WriteError):  # a folder that cannot be written to: this process remembers
        write_json(_note(path), state, replace=True)


def _remembered(path: Path) -> dict[str, Any] | None:
    try:
        return read_json(_note(path))
    except (OSError, StoreError):
        return None
