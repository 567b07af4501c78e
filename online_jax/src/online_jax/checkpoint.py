"""Checkpoints: the whole training state through orbax, and a JSON file beside that says what it is.

    checkpoints/step-000000819200/
      state/            orbax: `ppo.TrainState`
      checkpoint.json   written last: without it, the folder is an unfinished checkpoint and is ignored

`checkpoint.json` holds `schema_version`, `step` (environment steps), `update`, `config_sha256`, `choices` (what was
measured on the device that trained, so that a resumed run computes the same), `recorder` (where recording stands) and
`created_at`.
"""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as orbax

from env_core.errors import ResumeError, RunError, VersionError, WriteError
from env_core.publish import write_json

SCHEMA_VERSION = "1.0"
JSON = "checkpoint.json"
STATE = "state"

logging.getLogger("absl").setLevel(logging.WARNING)  # orbax reports every step of every save


@dataclass(frozen=True)
class Checkpoint:
    """What checkpoint.json says."""

    step: int
    update: int
    config_sha256: str
    choices: dict[str, Any]
    recorder: dict[str, Any]
    created_at: str
    schema_version: str = SCHEMA_VERSION


def folder_of(folder: Path, step: int) -> Path:
    return folder / f"step-{step:012d}"


def finished(folder: Path) -> list[Path]:
    """The finished checkpoints in `folder`, oldest first."""
    return sorted(path.parent for path in folder.glob(f"step-*/{JSON}"))


def save(folder: Path, state: Any, about: Checkpoint, keep: int) -> Path:
    """Saves `state`, then removes all but the `keep` newest. Raises `RunError` if the disk refuses; older ones stay."""
    target = folder_of(folder, about.step)
    try:
        if target.exists():  # unfinished, or of the same step: this one replaces it
            _remove(target)
        target.mkdir(parents=True)
        with orbax.StandardCheckpointer() as checkpointer:
            checkpointer.save((target / STATE).absolute(), state)
        write_json(target / JSON, asdict(about), replace=True)
    except (OSError, ValueError, WriteError) as error:
        shutil.rmtree(target, ignore_errors=True)
        raise RunError(
            f"The checkpoint {target} could not be written: {error}. The ones before it are intact; make room and "
            "continue with --resume."
        ) from error
    _remove_old(folder, keep)
    return target


def _remove_old(folder: Path, keep: int) -> None:
    kept = set(finished(folder)[-keep:])
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


def describe(path: Path) -> Checkpoint:
    """Reads checkpoint.json. Raises `VersionError` for a newer major version, `ResumeError` if it is malformed."""
    try:
        values = json.loads((path / JSON).read_text())
        major = int(values["schema_version"].split(".")[0])
        if major > int(SCHEMA_VERSION.split(".")[0]):
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
    """The state saved at `path`, with the structure, shapes and dtypes of `like` (arrays or `ShapeDtypeStruct`s).

    Raises `ResumeError` if it is damaged or of another shape.
    """
    abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), like)
    try:
        with orbax.StandardCheckpointer() as checkpointer:
            return checkpointer.restore((path / STATE).absolute(), abstract)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResumeError(
            f"{path} cannot be read as the state of this run: {str(error)[:300]}. Remove that folder to go back to the "
            "checkpoint before it."
        ) from error
