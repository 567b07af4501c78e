"""Several processes as one run: who is who, and what they agree on.

Each process runs the same program on its own devices; arrays span all of them (`devices.py`). The main process alone
writes the run directory, except for checkpoints, of which each process writes its part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from env_core.errors import ConfigError, RunError
from env_core.run import Run

PATH_BYTES = 4096


def join() -> None:
    """Joins the processes of one SLURM job step into one run.

    Under `srun`, JAX reads where the others are from SLURM's variables. Elsewhere, JAX_COORDINATOR_ADDRESS
    (host:port of process 0), JAX_NUM_PROCESSES and JAX_PROCESS_ID say it. To be called before anything else is done
    with JAX. Raises `ConfigError` if one of the three is missing.
    """
    if "JAX_NUM_PROCESSES" in os.environ:
        names = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
        if missing := [name for name in names if name not in os.environ]:
            raise ConfigError(f"JAX_NUM_PROCESSES is set, but not {', '.join(missing)}. Set all of {', '.join(names)}.")
        address, count, number = (os.environ[name] for name in names)
        jax.distributed.initialize(address, int(count), int(number))
    else:
        jax.distributed.initialize()


def is_main() -> bool:
    return jax.process_index() == 0


def wait_for_all(what: str) -> None:
    """Returns when every process has come here."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(what)


def any_of(*flags: bool) -> tuple[bool, ...]:
    """Each flag: whether it is true in any process. Every process must ask at the same point."""
    if jax.process_count() == 1:
        return flags
    gathered = np.asarray(multihost_utils.process_allgather(np.array(flags))).reshape(-1, len(flags))
    return tuple(bool(column.any()) for column in gathered.T)


class Follower:
    """The run as the processes beside the main one see it: they write nothing but their part of the checkpoints."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.record: dict[str, Any] = {"config_sha256": "", "resumed": []}

    def log(self, step: int, values: Mapping[str, Any]) -> None: ...

    def truncate_metrics(self, step: int) -> int:
        return 0

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None: ...


def shared(open_run: Callable[[], Run]) -> Run | Follower:
    """The run that the main process opens, in every process; if it cannot, all stop."""
    if not is_main():
        path = _from_main(None)
        if path == Path():
            raise RunError("The main process could not open the run; its own message says why.")
        return Follower(path)
    try:
        run = open_run()
    except BaseException:
        _from_main(Path())
        raise
    _from_main(run.path)
    return run


def _from_main(path: Path | None) -> Path:
    """The main process's path, in every process."""
    content = np.zeros(PATH_BYTES, np.uint8)
    if path is not None:
        encoded = os.fsencode(path)
        content[: len(encoded)] = np.frombuffer(encoded, np.uint8)
    received = np.asarray(multihost_utils.broadcast_one_to_all(content))
    return Path(os.fsdecode(received.tobytes().rstrip(b"\0")))
