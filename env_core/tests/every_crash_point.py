"""Kills a process at every call that changes a store on disk, one after the other, and checks what is left each time.

usage: every_crash_point.py FOLDER append|retract      Prints the number of crash points. It forks.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from env_core.testing.store_conformance import consecutive_batches
from env_core.trajectory.inspection import verify_store
from env_core.trajectory.store import Store, StoreWriter

BATCHES = consecutive_batches(4)
HEADER = BATCHES[0].header
CHANGING_CALLS = ("link", "unlink", "replace", "fsync")


def kill_at(call: int) -> None:
    """Makes this process kill itself just before the given call, counted from 1, that changes the disk."""
    calls = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return wrapper

    for name in CHANGING_CALLS:
        setattr(os, name, counted(getattr(os, name)))


def append(root: Path) -> None:
    with StoreWriter.open(root, HEADER) as writer:
        writer.append(BATCHES[2])


def retract(root: Path) -> None:
    with StoreWriter.open(root, HEADER) as writer:
        writer.retract(writer.shards[1:])


def survives(root: Path, allowed: set[int]) -> None:
    """Whoever reads sees all of a change or nothing of it, and the next writer goes on and leaves no litter."""
    store = Store.open(root)
    count = len(store.shards)
    assert count in allowed, count
    for read, written in zip(store.batches(), BATCHES, strict=False):
        assert read.equals(written)
    assert verify_store(store).ok
    with StoreWriter.open(root, HEADER) as writer:
        assert len(writer.shards) == count
        for batch in BATCHES[count:]:
            writer.append(batch)
    report = verify_store(Store.open(root))
    assert report.ok and report.num_shards == 4 and not report.leftovers, report


def crash(root: Path, action: Callable[[Path], None], call: int) -> bool:
    """Runs `action` in a child that dies at this call; false if it finished before."""
    child = os.fork()
    if child == 0:
        kill_at(call)
        action(root)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def main(folder: str, what: str) -> None:
    action, allowed = {"append": (append, {2, 3}), "retract": (retract, {1, 2})}[what]
    prepared = Path(folder) / "prepared"
    with StoreWriter.open(prepared, HEADER) as writer:
        for batch in BATCHES[:2]:
            writer.append(batch)
    call, seen = 1, set()
    while True:
        root = Path(folder) / f"{what}-{call}"
        shutil.copytree(prepared, root)
        if not crash(root, action, call):
            break
        seen.add(len(Store.open(root).shards))
        survives(root, allowed)
        call += 1
    assert seen == allowed, seen  # both outcomes were met, so the commit point lies between two of the calls
    sys.stdout.write(f"{call - 1}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
