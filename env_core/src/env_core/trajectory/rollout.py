"""What a recorder hands to the builder: T steps of n environment slots, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from env_core.errors import SchemaError, nearest
from env_core.trajectory.batch import Array, Header
from env_core.trajectory.schema import Column

FLAGS = ("is_first", "is_last", "is_terminal")
"""Columns that follow from the endings; the builder makes them."""


@dataclass(frozen=True)
class Rollout:
    """T consecutive steps of n slots, E of which ended their episode."""

    columns: Mapping[str, Array]
    """[T, n, …] by name: what a row holds, without the flags."""
    terminated: Array
    """bool [T, n]: the episode ended by itself at this step."""
    truncated: Array
    """bool [T, n]: a time limit ended it; never together with `terminated`."""
    terminal_obs: Mapping[str, Array]
    """[E, …] by name: what the episodes that ended here ended with, in the order of `np.nonzero(ended)`."""
    final_obs: Mapping[str, Array]
    """[n, …] by name: the observation after the last step; that of the new episode where the last step ended one."""
    is_first: Array
    """bool [n]: whether the first row starts an episode."""
    episode_id: Array
    """int64 [n]: the episode of the first row; each ending adds one."""
    env_seed: Array | None = None
    """uint64 [n]: key of the first row's world; None if unknown."""
    next_env_seed: Array | None = None
    """uint64 [E]: key of the world that follows each ending; None if unknown."""
    policy_step: int = 0
    """Environment steps that the acting policy was trained on."""
    contiguous: bool = True
    """False if steps were left out since the rollout before: what is open is closed as cut and not continued."""

    @cached_property
    def ended(self) -> Array:
        """bool [T, n]"""
        return self.terminated | self.truncated

    @cached_property
    def num_endings(self) -> int:
        """E"""
        return int(self.ended.sum())


def checked(rollout: Rollout, header: Header, num_slots: int) -> Rollout:
    """`rollout` with the schema's dtypes. Raises `SchemaError` naming the array that does not fit."""
    steps = np.shape(rollout.terminated)[0] if np.ndim(rollout.terminated) == 2 else 0
    grid = (steps, num_slots)
    flat = replace(
        rollout,
        terminated=_cast("terminated", rollout.terminated, np.dtype(bool), grid),
        truncated=_cast("truncated", rollout.truncated, np.dtype(bool), grid),
        is_first=_cast("is_first", rollout.is_first, np.dtype(bool), (num_slots,)),
        episode_id=_cast("episode_id", rollout.episode_id, np.dtype(np.int64), (num_slots,)),
        env_seed=_seeds("env_seed", rollout.env_seed, num_slots),
    )
    if steps == 0:
        raise SchemaError("A rollout has no step; terminated must be [T, n] with T >= 1.")
    if (flat.terminated & flat.truncated).any():
        raise SchemaError("A step is both terminated and truncated; an episode that ends by itself is not truncated.")
    known = {name: column for name, column in header.columns.items() if name not in FLAGS}
    observed = {name: column for name, column in known.items() if not column.per_step and name.startswith("obs_")}
    given = {name: column for name, column in known.items() if column.required or name in rollout.columns}
    return replace(
        flat,
        next_env_seed=_seeds("next_env_seed", rollout.next_env_seed, flat.num_endings),
        columns=_cast_all("columns", rollout.columns, given, grid),
        terminal_obs=_cast_all("terminal_obs", rollout.terminal_obs, observed, (flat.num_endings,)),
        final_obs=_cast_all("final_obs", rollout.final_obs, observed, (num_slots,)),
    )


def _cast_all(
    what: str, arrays: Mapping[str, Array], columns: Mapping[str, Column], leading: tuple[int, ...]
) -> dict[str, Array]:
    for name in arrays:
        if name not in columns:
            raise SchemaError(f"{what} has an unexpected {name!r}. {nearest(name, columns)}")
    for name in columns:
        if name not in arrays:
            raise SchemaError(f"{what} lacks {name!r}; it must have {', '.join(columns)}.")
    return {
        name: _cast(f"{what}[{name!r}]", arrays[name], column.dtype, (*leading, *column.shape))
        for name, column in columns.items()
    }


def _cast(what: str, array: Array, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> Array:
    """`array` as `dtype`, if its kind and shape fit and no whole number changes."""
    array = np.asarray(array)
    if array.shape != shape or not np.can_cast(array.dtype, dtype, "same_kind"):
        raise SchemaError(f"{what} is {array.dtype}{list(array.shape)}; expected {dtype}{list(shape)}.")
    if array.dtype == dtype:
        return array
    cast = array.astype(dtype)
    if dtype.kind in "iu" and not np.array_equal(cast, array):
        raise SchemaError(f"{what} has values that {dtype} cannot hold.")
    return cast


def _seeds(what: str, seeds: Array | None, length: int) -> Array | None:
    return None if seeds is None else _cast(what, seeds, np.dtype(np.uint64), (length,))
