"""Files that appear whole or not at all, and stay after a power cut: temporary file, fsync, link or rename, fsync.

A published file is never overwritten unless `replace` says so.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from env_core.errors import StoreError, StoreWriteError

READ_BYTES = 1 << 20


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
        """Leaves the file open, for writers that close what they write to: `temporary_file` has yet to sync it."""

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def temporary_beside(path: Path) -> Path:
    """A name in the folder of `path` that nothing else uses; files of that pattern are leftovers once it is unused."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """Turns what the operating system refuses at `path` (a full disk, a quota, a permission) into `StoreWriteError`."""
    try:
        yield
    except OSError as error:
        raise StoreWriteError(
            f"Writing {path} failed: {error.strerror or error}. Nothing was added, what was there is intact; make room "
            "or fix the permission, then go on."
        ) from error


@contextmanager
def temporary_file(path: Path) -> Iterator[HashingFile]:
    """A new file, complete and on the disk when the block ends, gone if it fails. Raises `StoreWriteError`."""
    try:
        with refusals(path), path.open("xb") as file:
            hashing = HashingFile(file)
            yield hashing
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def link_new(temporary: Path, target: Path) -> bool:
    """Gives a temporary file its name and takes the temporary one away. False, and nothing else, if the name exists.

    Raises `StoreWriteError`, also on file systems without hard links.
    """
    with refusals(target):
        try:
            os.link(temporary, target)
        except FileExistsError:
            return False
        temporary.unlink()
        sync_folder(target.parent)
    return True


def write_json(path: Path, data: Any, *, replace: bool) -> bool:
    """Publishes a JSON file. Without `replace`, False if it exists. Raises `StoreWriteError`."""
    temporary = temporary_beside(path)
    with temporary_file(temporary) as file:
        file.write((json.dumps(data, indent=1) + "\n").encode())
    if not replace:
        if link_new(temporary, path):
            return True
        temporary.unlink()
        return False
    with refusals(path):
        temporary.replace(path)
        sync_folder(path.parent)
    return True


def remove(path: Path) -> None:
    """Removes a file if it is there. Raises `StoreWriteError`."""
    with refusals(path):
        path.unlink(missing_ok=True)


def make_folder(path: Path) -> Path:
    """Makes a folder and those above it where they are missing. Raises `StoreWriteError`."""
    with refusals(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises `FileNotFoundError`, or `StoreError` if it is not one."""
    try:
        data = json.loads(path.read_text())
    except ValueError as error:
        raise StoreError(f"{path} is not valid JSON ({error}); restore it from a copy.") from error
    if not isinstance(data, dict):
        raise StoreError(f"{path} holds {type(data).__name__}, expected a JSON object; restore it from a copy.")
    return cast(dict[str, Any], data)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(file: IO[bytes], progress: Callable[[int], None] = lambda _: None) -> str:
    """Hex digest of the rest of an open file; `progress` is told the bytes of every piece."""
    digest = hashlib.sha256()
    while piece := file.read(READ_BYTES):
        digest.update(piece)
        progress(len(piece))
    return digest.hexdigest()


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Holds the lock file at `path`; the kernel lets go of it however the process ends.

    Raises `BlockingIOError` if another holds it and `wait` is false, `StoreWriteError` if it cannot be made.
    """
    make_folder(path.parent)
    with refusals(path):
        file = path.open("a+b")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
