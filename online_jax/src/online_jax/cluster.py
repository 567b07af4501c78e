"""Several processes as one run: who is who, and what they agree on.

Each process runs the same program on its own devices; arrays span all of them (`devices.py`). The main process alone
writes the run directory, except for checkpoints, of which each process writes its part.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from orbax.checkpoint import multihost

from env_core.errors import ConfigError, RunError
from env_core.run import Run

MESSAGE_BYTES = 8192
PATIENCE_SECONDS = 3600
"""How long processes wait for one that compiles, or writes."""
SHUTDOWN_SECONDS = 15
"""How long a process that failed waits for the others before it ends, which ends them."""


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
        jax.distributed.initialize(address, int(count), int(number), shutdown_timeout_seconds=SHUTDOWN_SECONDS)
    else:
        jax.distributed.initialize(shutdown_timeout_seconds=SHUTDOWN_SECONDS)


def is_main() -> bool:
    return jax.process_index() == 0


def wait_for_all(what: str) -> None:
    """Returns when every process has come here.

    To be called where some may take long: what devices exchange has to begin within seconds on all (30 on CPUs).
    """
    if jax.process_count() > 1:
        multihost.get_barrier_sync_fn()(key=what, timeout_ms=1000 * PATIENCE_SECONDS)


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
        path = _heard(None)
        if path is None:
            raise RunError("The main process could not open the run; its own message says why.")
        return Follower(Path(path))
    try:
        run = open_run()
    except BaseException:
        _heard(None)
        raise
    _heard(os.fsdecode(run.path))
    return run


def from_main(decide: Callable[[], Any]) -> Any:
    """What the main process decides (JSON), in every process; for what each could see differently, or see late."""
    if jax.process_count() == 1:
        return decide()
    return _heard(decide() if is_main() else None)


def _heard(said: Any) -> Any:
    """What the main process said, in every process."""
    wait_for_all("message")  # the main process may have taken long to decide
    content = np.zeros(MESSAGE_BYTES, np.uint8)
    encoded = json.dumps(said).encode()
    content[: len(encoded)] = np.frombuffer(encoded, np.uint8)
    received = np.asarray(multihost_utils.broadcast_one_to_all(content)).astype(np.uint8)
    return json.loads(received.tobytes().rstrip(b"\0"))
