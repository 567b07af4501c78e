"""A run directory: created or resumed, held by one process, and written so that nothing is lost when that is killed."""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, SupportsFloat

from env_core import workspace
from env_core.errors import ConfigError, ResumeError, RunError, RunExistsError, RunLockedError
from env_core.publish import write_json
from env_core.run import metrics, wandb_log
from env_core.run.provenance import config_sha256, provenance

CONFIG = "config.json"
LOCK = "lock"


class Run:
    """A run directory that this process alone writes to, until `close` or the process's end.

    Made by `Run.create` or `Run.resume`. `path` is the directory, `config` the configuration it was created with,
    `record` all of config.json.
    """

    def __init__(self, path: Path, lock: int, record: dict[str, Any], wandb: bool):
        self.path = path
        self.record = record
        self.config: dict[str, Any] = record["config"]
        self.checkpoints = path / "checkpoints"
        self._lock = lock
        self._metrics = metrics.MetricsLog(path / metrics.FILE_NAME)
        self._wandb = wandb_log.start(path, record, asked=wandb)

    @classmethod
    def create(cls, path: Path | str | None, name: str, config: Mapping[str, Any], wandb: bool = False) -> Run:
        """Makes a new run directory: `path`, or else `<name>-seed<seed>-<date>-<time>` among the workspace's runs.

        `wandb` logs to Weights & Biases as well, which also happens if WANDB_API_KEY is set.
        Raises `RunExistsError` if `path` holds anything, `RunLockedError` if another process is creating it,
        `ConfigError` if `config` is not plain JSON.
        """
        record = _new_record(name, config)
        if path is None:
            folder = _new_folder(workspace.load().paths.runs, name, config.get("seed"))
        else:
            folder = Path(path).expanduser().absolute()
            _make(folder)
            _refuse_contents(folder)
        with _locked(folder) as lock:
            _refuse_contents(folder)  # once more: another process may have been quicker
            write_json(folder / CONFIG, record, replace=True)
            return cls(folder, lock, record, wandb)

    @classmethod
    def resume(
        cls,
        path: Path | str,
        config: Mapping[str, Any] | None = None,
        may_differ: Collection[str] = (),
        wandb: bool = False,
    ) -> Run:
        """Takes up a run directory again and notes it in config.json.

        `config`, if given, must be the one that the run was created with, except for the dotted keys `may_differ`
        (such as `total_steps`). Raises `ResumeError` for any other difference and where there is no run,
        `RunLockedError` while another process writes to it.
        """
        folder = Path(path).expanduser().absolute()
        _require_run(folder)
        with _locked(folder) as lock:
            record = _read_record(folder)
            changes = {} if config is None else _changes(folder, record["config"], dict(config), may_differ)
            record["resumed"].append({**provenance(), "changes": changes})
            write_json(folder / CONFIG, record, replace=True)
            return cls(folder, lock, record, wandb)

    @staticmethod
    def read_config(path: Path | str) -> dict[str, Any]:
        """The configuration that a run was created with. Raises `ResumeError` where there is no run."""
        folder = Path(path).expanduser().absolute()
        _require_run(folder)
        return dict(_read_record(folder)["config"])

    def log(self, step: int, values: Mapping[str, SupportsFloat]) -> None:
        """Appends `values` at `step` (environment steps) to metrics.jsonl, and to wandb if that is on."""
        line = self._metrics.write(step, values)
        if self._wandb is not None:
            self._wandb.log(line)

    def truncate_metrics(self, step: int) -> int:
        """Drops the metrics after `step`, that of the checkpoint a resumed run continues from; returns how many."""
        return self._metrics.truncate(step)

    def close(self) -> None:
        """Ends wandb's run and frees the directory. Closing twice does nothing."""
        if self._lock < 0:
            return
        if self._wandb is not None:
            self._wandb.finish()
        self._metrics.close()
        os.close(self._lock)
        self._lock = -1

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _new_record(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    try:
        digest = config_sha256(config)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"The configuration of a run must be plain JSON, to be saved with it: {error}.") from None
    run_id = uuid.uuid4().hex[:12]
    return {
        "name": name,
        "run_id": run_id,
        "config": json.loads(json.dumps(config)),
        "config_sha256": digest,
        **provenance(),
        "resumed": [],
    }


def _new_folder(runs: Path, name: str, seed: object) -> Path:
    """Creates a folder that nobody has; mkdir decides between two processes in the same second."""
    seeded = f"-seed{seed}" if seed is not None else ""
    stem = f"{name}{seeded}-{datetime.now():%Y%m%d-%H%M%S}"
    _make(runs)
    attempt = 1
    while True:
        folder = runs / (stem if attempt == 1 else f"{stem}-{attempt}")
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            attempt += 1
        except OSError as error:
            raise _cannot_create(folder, error) from None


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_create(folder, error) from None


def _cannot_create(folder: Path, error: OSError) -> RunError:
    return RunError(
        f"The run directory {folder} cannot be created: {error.strerror}. "
        "Name another with --run-dir, or set CRAFTAX_PATHS_RUNS to a folder that you may write to."
    )


def _refuse_contents(folder: Path) -> None:
    """An empty folder is free; so is one whose creator died before it wrote anything but the lock."""
    contents = sorted(
        entry.name for entry in folder.iterdir() if entry.name != LOCK and not entry.name.endswith(".tmp")
    )
    if contents:
        shown = ", ".join(contents[:3]) + (", …" if len(contents) > 3 else "")
        advice = "Continue that run with --resume, or name" if CONFIG in contents else "Name"
        raise RunExistsError(f"{folder} is not empty (it holds {shown}). {advice} another directory with --run-dir.")


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Takes the directory's lock for the run that the body makes; lets go of it only if that fails."""
    lock = _lock(folder)
    try:
        yield lock
    except BaseException:
        os.close(lock)
        raise


def _lock(folder: Path) -> int:
    """Takes the directory's lock, which the system frees when the process ends, also by kill -9."""
    path = folder / LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror}. Choose a run directory of yours.") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        who = f"process {holder}" if holder.isdecimal() else "another process"
        raise RunLockedError(
            f"{folder} is being written to by {who}. Wait until that ends or stop it, or choose another --run-dir."
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _require_run(folder: Path) -> None:
    if not (folder / CONFIG).is_file():
        raise ResumeError(f"{folder} is no run: it holds no {CONFIG}. Name a directory that a training program made.")


def _read_record(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        intact = isinstance(record, dict) and config_sha256(record["config"]) == record["config_sha256"]
        intact = intact and isinstance(record["resumed"], list) and bool(record["run_id"])
    except (OSError, ValueError, KeyError, TypeError):
        intact = False
    if not intact:
        raise ResumeError(
            f"{path} is not as this program wrote it (it is broken, or its `config` was edited). "
            "Restore it, or start a new run."
        )
    return dict(record)


def _changes(folder: Path, old: Any, new: dict[str, Any], may_differ: Collection[str]) -> dict[str, Any]:
    """The settings of `new` that differ, by dotted key, as [before, after]."""
    before, after = _flat(old), _flat(json.loads(json.dumps(new)))
    changes = {
        key: [before.get(key), after.get(key)]
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key) or (key in before) != (key in after)
    }
    refused = [f"{key}: {was!r} → {now!r}" for key, (was, now) in changes.items() if key not in may_differ]
    if refused:
        raise ResumeError(
            f"{folder} was made with another configuration ({'; '.join(refused)}). "
            "Resume with the old settings, or start a new run with another --run-dir."
        )
    return changes


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, below in value.items():
        flat |= _flat(below, f"{prefix}.{key}" if prefix else key)
    return flat
