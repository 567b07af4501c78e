"""Checkpoints: the whole training state through orbax, and a JSON file beside that says what it is.

    checkpoints/step-000000819200/
      state/            orbax: `ppo.TrainState`
      checkpoint.json   written last: without it, the folder is an unfinished checkpoint and is ignored

The newest few are kept, and the best one: that before which episodes went best. docs/checkpoints.md describes it all.
"""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as orbax

from env_core.errors import ResumeError, RunError, VersionError, WriteError
from env_core.publish import write_json
from online_jax.cluster import is_main, wait_for_all

SCHEMA_VERSION = "2.0"
JSON = "checkpoint.json"
STATE = "state"

logging.getLogger("absl").setLevel(logging.WARNING)  # orbax reports every step of every save


@dataclass(frozen=True)
class Checkpoint:
    """What checkpoint.json says."""

    step: int
    """environment steps of each seed"""
    update: int
    config_sha256: str
    choices: dict[str, Any]
    """what was measured on the device that trained, so that a resumed run computes the same"""
    recorders: list[dict[str, Any]]
    """where recording stands, by seed"""
    score: float | None
    """mean return of the episodes that ended since the checkpoint before; null if none did"""
    created_at: str
    schema_version: str = SCHEMA_VERSION


def folder_of(folder: Path, step: int) -> Path:
    return folder / f"step-{step:012d}"


def finished(folder: Path) -> list[Path]:
    """The finished checkpoints in `folder`, oldest first."""
    return sorted(path.parent for path in folder.glob(f"step-*/{JSON}"))


def save(folder: Path, state: Any, about: Checkpoint, keep: int) -> Path:
    """Saves `state`, then removes all but the `keep` newest and the best.

    Raises `RunError` if the disk refuses; older ones stay. Of several processes, each has to call it.
    """
    target = folder_of(folder, about.step)
    try:
        if is_main():
            if target.exists():  # unfinished, or of the same step: this one replaces it
                _remove(target)
            target.mkdir(parents=True)
        wait_for_all("checkpoint folder")
        with orbax.StandardCheckpointer() as checkpointer:
            checkpointer.save((target / STATE).absolute(), jax.tree.map(_filled, state))
        if is_main():
            write_json(target / JSON, asdict(about), replace=True)
    except (OSError, ValueError, WriteError) as error:
        shutil.rmtree(target, ignore_errors=True)
        raise RunError(
            f"The checkpoint {target} could not be written: {error}. The ones before it are intact; make room and "
            "continue with --resume."
        ) from error
    if is_main():
        _remove_old(folder, keep)
    wait_for_all("checkpoint saved")
    return target


def _remove_old(folder: Path, keep: int) -> None:
    kept = {*finished(folder)[-keep:], *([found[0]] if (found := best(folder)) else [])}
    for path in folder.glob("step-*"):
        if path not in kept:
            _remove(path)


def _remove(path: Path) -> None:
    (path / JSON).unlink(missing_ok=True)  # first: half a checkpoint must not look whole
    shutil.rmtree(path)


def latest(folder: Path) -> tuple[Path, Checkpoint] | None:
    """The newest finished checkpoint, or None."""
    paths = finished(folder)
    return (paths[-1], describe(paths[-1])) if paths else None


def best(folder: Path) -> tuple[Path, Checkpoint] | None:
    """The finished checkpoint with the highest score, the later one of equals; None without any that has a score."""
    described = [(path, describe(path)) for path in finished(folder)]
    scored = [one for one in described if one[1].score is not None]
    return max(scored, key=lambda one: (one[1].score, one[1].step), default=None)


def describe(path: Path) -> Checkpoint:
    """Reads checkpoint.json. Raises `VersionError` for another major version, `ResumeError` if it is malformed."""
    try:
        values = json.loads((path / JSON).read_text())
        major = int(values["schema_version"].split(".")[0])
        if major != int(SCHEMA_VERSION.split(".")[0]):
            raise VersionError(
                f"{path} has checkpoint schema {values['schema_version']}; this program reads {SCHEMA_VERSION}. "
                "Use the version that wrote it (config.json names it)."
            )
        return Checkpoint(**{name: values[name] for name in Checkpoint.__dataclass_fields__})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResumeError(
            f"{path / JSON} is not as this program wrote it ({error!r}). Remove that folder to go back to the "
            "checkpoint before it."
        ) from error


def restore(path: Path, like: Any) -> Any:
    """The state saved at `path`, with the structure, shapes, dtypes and places of `like` (`ShapeDtypeStruct`s).

    Raises `ResumeError` if it is damaged or of another shape.
    """
    return _restored(path, like, {})


def restore_params(path: Path, like: Any) -> Any:
    """The policy's parameters alone, without reading the rest of the state; errors as in `restore`."""
    return _restored(path, {"params": like}, {"partial_restore": True})["params"]


def _filled(leaf: Any) -> Any:
    """An empty array, such as the slot of something that is switched off, as one number: orbax refuses empty ones."""
    return leaf if leaf.size else np.zeros(1, leaf.dtype)


def _restored(path: Path, like: Any, options: dict[str, Any]) -> Any:
    here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])  # else orbax looks for the devices that saved it

    def saved(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct(leaf.shape if leaf.size else (1,), leaf.dtype, sharding=leaf.sharding or here)

    def emptied(found: Any, leaf: Any) -> Any:
        return found if leaf.size else jax.device_put(np.zeros(leaf.shape, leaf.dtype), leaf.sharding)

    abstract = jax.tree.map(saved, like)
    arguments = orbax.args.PyTreeRestore(abstract, orbax.checkpoint_utils.construct_restore_args(abstract), **options)
    try:
        with orbax.PyTreeCheckpointer() as checkpointer:
            restored = checkpointer.restore((path / STATE).absolute(), args=arguments)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResumeError(
            f"{path} cannot be read as the state of this run: {str(error)[:300]}. Remove that folder to go back to the "
            "checkpoint before it."
        ) from error
    return jax.tree.map(emptied, restored, like)
