"""Files that appear whole or not at all, and stay after a power cut: temporary file, fsync, rename or link, fsync.

Whatever the operating system refuses on the way is a `WriteError`.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from env_core.errors import WriteError


def publish(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Replaces `path` by what `write` writes: a reader sees the old file or the new one.

    If `write` raises, the old one stays. Raises `WriteError`.
    """
    temporary = temporary_beside(path)
    with temporary_file(temporary) as file:
        write(file)
    with refusals(path):
        os.replace(temporary, path)
        _sync_folder(path.parent)


def publish_new(path: Path, write: Callable[[BinaryIO], object]) -> bool:
    """Like `publish`, but what is there stays: false, and nothing else, if `path` exists. Raises `WriteError`."""
    temporary = temporary_beside(path)
    with temporary_file(temporary) as file:
        write(file)
    if not link_new(temporary, path):
        temporary.unlink()
        return False
    return True


def write_json(path: Path, data: Any, *, replace: bool) -> bool:
    """Publishes a JSON file. Without `replace`, false if it exists. Raises `WriteError`."""
    content = (json.dumps(data, indent=1) + "\n").encode()
    if not replace:
        return publish_new(path, lambda file: file.write(content))
    publish(path, lambda file: file.write(content))
    return True


def temporary_beside(path: Path) -> Path:
    """A name in the folder of `path` that nothing else uses; files of that pattern are leftovers once it is unused."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


@contextmanager
def temporary_file(path: Path) -> Iterator[BinaryIO]:
    """A new file, complete and on the disk when the block ends, gone if it fails. Raises `WriteError`."""
    try:
        with refusals(path), path.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):  # what went wrong first is what counts
            path.unlink(missing_ok=True)
        raise


def link_new(temporary: Path, target: Path) -> bool:
    """Gives a temporary file its name and takes the temporary one away. False, and nothing else, if the name exists.

    Raises `WriteError`, also on file systems without hard links.
    """
    with refusals(target):
        try:
            os.link(temporary, target)
        except FileExistsError:
            return False
        temporary.unlink()
        _sync_folder(target.parent)
    return True


def remove(path: Path) -> None:
    """Removes a file if it is there. Raises `WriteError`."""
    with refusals(path):
        path.unlink(missing_ok=True)


def make_folder(path: Path) -> Path:
    """Makes a folder and those above it where they are missing. Raises `WriteError`."""
    with refusals(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Holds the lock file at `path`; the kernel lets go of it however the process ends.

    Raises `BlockingIOError` if another holds it and `wait` is false, `WriteError` if it cannot be made.
    """
    make_folder(path.parent)
    with refusals(path):
        file = path.open("a+b")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """Turns what the operating system refuses at `path` (a full disk, a quota, a permission) into `WriteError`."""
    try:
        yield
    except OSError as error:
        raise WriteError(
            f"Writing {path} failed: {error.strerror or error}. Nothing was added, what was there is intact; make room "
            "or fix the permission, then go on."
        ) from error


def _sync_folder(folder: Path) -> None:
    """Makes the names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
