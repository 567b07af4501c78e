"""Finished episodes of one policy under one condition: what an evaluation measured, one row for each episode.

On disk: one NumPy archive with the arrays under their names and the rest as JSON. Nothing in it can run.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from env_core.errors import ConfigError, RunError
from env_core.publish import make_folder, publish
from env_core.run.provenance import canonical_json

HEADER = "header_json"
FORMAT = "craftax-episodes"
VERSION = 1


class _Column(NamedTuple):
    dtype: str
    least: float | None
    """The smallest value that makes sense; None: any finite one."""


_COLUMNS = {
    "returns": _Column("float32", None),
    "lengths": _Column("int32", 1),
    "deepest_floor": _Column("int32", 0),
    "achievements": _Column("bool", None),
    "terminated": _Column("bool", None),
    "seeds": _Column("uint64", None),
}


@dataclass(frozen=True, eq=False)
class Episodes:
    """E finished episodes and A achievements. The arrays are copies and read-only.

    Raises `ConfigError` when made of arrays that do not fit together, are empty, or hold what cannot be.
    """

    env_name: str
    returns: NDArray[np.float32]
    """[E], sums of the environment's own rewards, undiscounted."""
    lengths: NDArray[np.int32]
    """[E], steps."""
    deepest_floor: NDArray[np.int32]
    """[E], 0 is the surface."""
    achievements: NDArray[np.bool_]
    """[E, A], unlocked in the episode: taken of its last state, before any reset."""
    terminated: NDArray[np.bool_]
    """[E]; where false, the episode was truncated by a limit of steps."""
    seeds: NDArray[np.uint64]
    """[E], the key of the episode's world, its first word high. The same seed is the same world."""
    achievement_names: tuple[str, ...]
    max_return: float
    """What all achievements together pay: 226 in Craftax, 22 in Classic."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON: what made them. Customary: policy ("sampled", "greedy"), step, config_sha256, seed, git_revision."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "achievement_names", tuple(self.achievement_names))
        object.__setattr__(self, "provenance", _plain_json(self.provenance))
        num_episodes = np.size(self.returns)
        if num_episodes == 0:
            raise ConfigError("There are no episodes. Expected at least one; evaluate until one has ended.")
        for name, column in _COLUMNS.items():
            shape = (num_episodes, len(self.achievement_names)) if name == "achievements" else (num_episodes,)
            object.__setattr__(self, name, _column(name, getattr(self, name), column, shape))
        if len(set(self.achievement_names)) != len(self.achievement_names):
            raise ConfigError(f"An achievement is named twice in {', '.join(self.achievement_names)}.")
        if not self.max_return > 0:
            raise ConfigError(f"max_return is {self.max_return}. Expected what all achievements pay, a number above 0.")

    def __len__(self) -> int:
        return len(self.returns)

    def save(self, path: Path) -> None:
        """Publishes them as a NumPy archive; an older one is replaced. Raises `WriteError`."""
        header = {
            "format": FORMAT,
            "version": VERSION,
            "env_name": self.env_name,
            "achievement_names": self.achievement_names,
            "max_return": self.max_return,
            "provenance": self.provenance,
        }
        arrays: dict[str, Any] = {HEADER: np.frombuffer(json.dumps(header).encode(), np.uint8)}
        arrays |= {name: getattr(self, name) for name in _COLUMNS}
        archive = io.BytesIO()  # NumPy wants a file that it can also read
        np.savez_compressed(archive, **arrays)
        make_folder(path.parent)
        publish(path, lambda file: file.write(archive.getvalue()))

    @classmethod
    def load(cls, path: Path) -> Episodes:
        """The episodes of an archive. Raises `RunError` if it is not there, broken or of a newer version."""
        try:
            with np.load(path, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            header = json.loads(arrays.pop(HEADER).tobytes())
            known, version = header.pop("format") == FORMAT, int(header.pop("version"))
        except FileNotFoundError:
            raise RunError(f"{path} is not there. Expected a file that `Episodes.save` wrote.") from None
        except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
            raise RunError(f"{path} cannot be read as episodes: {error!r}. Evaluate again to replace it.") from error
        if not known or version > VERSION:
            raise RunError(f"{path} is not {FORMAT} up to version {VERSION}. Read it with the program that wrote it.")
        try:
            return cls(**header, **arrays)
        except (TypeError, ConfigError) as error:
            raise RunError(f"{path} holds no valid episodes: {error} Evaluate again to replace it.") from error


def _column(name: str, given: Any, column: _Column, shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.asarray(given)
    axes = "[E, A]" if len(shape) == 2 else "[E]"
    if array.shape != shape:
        raise ConfigError(
            f"{name} has shape {list(array.shape)}. Expected {list(shape)}, {axes}: as many as there are returns"
            + (" and achievement names." if len(shape) == 2 else ".")
        )
    if not np.can_cast(array.dtype, column.dtype, "same_kind"):
        raise ConfigError(f"{name} is {array.dtype}. Expected {column.dtype}, or a type that turns into it unharmed.")
    array = array.astype(column.dtype)  # copies, so that nobody else can change it
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ConfigError(f"{name} holds nan or infinity. Expected numbers; look for the step that gave the first.")
    if column.least is not None and array.min() < column.least:
        raise ConfigError(f"{name} goes down to {array.min()}. Expected {column.least} or more.")
    array.setflags(write=False)
    return array


def _plain_json(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """A copy that went through JSON, so that what is saved is what is loaded."""
    try:
        copy: dict[str, Any] = json.loads(canonical_json(dict(provenance)))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"provenance is not plain JSON: {error}. Give text, numbers, lists and mappings.") from error
    return copy
