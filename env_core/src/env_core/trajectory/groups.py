"""Column groups: more columns for the rows of a shard, in files of their own, so that labelling copies no observation.

`columns/<group>/<key>/<shard>.arrow` has one row per row of the shard; `group` says what it is (`hidden_state`,
`return_to_go`), `key` which one (a fingerprint, a discount). `group.json` beside them holds what they were made with.
Every file names the checksum of the shard that it belongs to, and has a sidecar with its own.

Rows may share values: an array `index`, int32 [rows], then says which of M values each row has (−1: none), and only
those M are stored, as an Arrow dictionary. Readers that know nothing of this see the values row by row.

Values are numbers, booleans or text (UTF-8).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from env_core.errors import CorruptShardError, SchemaError, StoreError
from env_core.publish import link_new, locked, make_folder, remove, temporary_beside, write_json
from env_core.trajectory.batch import Array
from env_core.trajectory.checksums import hashed_file
from env_core.trajectory.codecs.arrow import TEXT_KIND, map_table, to_arrow, to_numpy, write_table
from env_core.trajectory.manifest import ShardInfo, read_json
from env_core.trajectory.store import Store

Values = Array | Sequence[str]

INDEX = "index"
"""Name of the array that tells rows' values apart where rows share them."""

PARENT_KEY = b"trajectory.parent_sha256"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=+-]{0,127}")


@dataclass(frozen=True)
class GroupInfo:
    """A column group of a store: what it was made with, and the names of the shards that have it."""

    group: str
    key: str
    metadata: Mapping[str, Any]
    shards: tuple[str, ...]


class ColumnGroup(NamedTuple):
    """A group's columns for one shard: arrays [rows, …], or [M, …] with `index` int32 [rows]; text is `StringDType`."""

    metadata: Mapping[str, Any]
    columns: Mapping[str, Array]


def write_column_group(
    store: Store, group: str, key: str, shard: int | str, columns: Mapping[str, Values], metadata: Mapping[str, Any]
) -> bool:
    """Publishes columns for the rows of a shard. False if the shard has them already: the first writer wins.

    Numbers and booleans are [rows] or [rows, width], text is [rows]; with an `index`, M instead of rows. Raises
    `SchemaError` if they do not fit the shard, `StoreError` if the group was made with other `metadata`, `WriteError`.
    """
    info = store.info(shard)
    folder = _folder(store, group, key)
    arrays = {name: _as_array(name, values) for name, values in columns.items()}
    _check_arrays(arrays, info)
    make_folder(folder)
    _check_metadata(folder, group, key, metadata)
    target = folder / f"{info.name}.arrow"
    temporary = temporary_beside(target)
    with hashed_file(temporary) as file:
        write_table(_to_arrow(arrays), {PARENT_KEY: info.sha256.encode()}, file)
    sidecar = {"sha256": file.sha256, "num_bytes": file.num_bytes, "parent_sha256": info.sha256}
    try:
        with locked(store.path / "locks" / "columns.lock"):
            if target.with_suffix(".json").exists():
                return False
            remove(target)  # without a sidecar: left by a process that died
            link_new(temporary, target)
            return write_json(target.with_suffix(".json"), sidecar, replace=False)
    finally:
        temporary.unlink(missing_ok=True)


def read_column_group(store: Store, group: str, key: str, shard: int | str) -> ColumnGroup:
    """A group's columns for a shard, read-only; all but text and booleans are memory-mapped.

    Raises `StoreError` if there are none, `CorruptShardError` if they are damaged or belong to other rows.
    """
    info = store.info(shard)
    folder = _folder(store, group, key)
    path = folder / f"{info.name}.arrow"
    try:
        metadata = read_json(folder / "group.json")["metadata"]
        sidecar = read_json(path.with_suffix(".json"))
    except FileNotFoundError:
        known = [f"{g.group}/{g.key} ({len(g.shards)} shards)" for g in list_groups(store)]
        raise StoreError(
            f"{store.path} has no columns {group}/{key} for {info.name}. It has: {', '.join(known) or 'none'}."
        ) from None
    store.checker.check(path, sidecar["sha256"])
    table = map_table(path)
    parent = (table.schema.metadata or {}).get(PARENT_KEY, b"").decode()
    if parent != info.sha256:
        raise CorruptShardError(
            f"{path} was made for a shard with SHA-256 {parent}, but {info.name} has {info.sha256}: its rows are "
            "others. Remove the file and make the columns again."
        )
    return ColumnGroup(metadata, _to_numpy(table))


def list_groups(store: Store) -> list[GroupInfo]:
    """All column groups of a store, by name and key."""
    found = []
    for path in sorted(store.path.glob("columns/*/*/group.json")):
        data = read_json(path)
        shards = sorted(p.stem for p in path.parent.glob("shard-*.json"))
        found.append(GroupInfo(data["group"], data["key"], data["metadata"], tuple(shards)))
    return found


def _folder(store: Store, group: str, key: str) -> Path:
    for what, name in (("group", group), ("key", key)):
        if not NAME.fullmatch(name):
            raise StoreError(f"{name!r} is no {what} of columns; use letters, digits and '_ . = + -', no path.")
    return store.path / "columns" / group / key


def _as_array(name: str, values: Values) -> Array:
    """Text as a `StringDType` array without missing values, arrays of anything else as they are."""
    if isinstance(values, np.ndarray) and values.dtype.kind != TEXT_KIND:
        return values
    texts = values.ravel().tolist() if isinstance(values, np.ndarray) else list(values)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise SchemaError(
                f"Column {name!r} has {text!r} as text {i}; expected str. Rows without a text have the index −1; "
                "numbers are given as NumPy arrays."
            )
    try:
        return np.array(texts, np.dtypes.StringDType()).reshape(np.shape(values))
    except UnicodeEncodeError as error:
        raise SchemaError(f"Column {name!r} has text that UTF-8 cannot hold ({error}); replace it.") from error


def _check_arrays(arrays: Mapping[str, Array], info: ShardInfo) -> None:
    values = {name: array for name, array in arrays.items() if name != INDEX}
    if not values:
        raise SchemaError("A column group needs at least one array besides the index.")
    for name, array in values.items():
        text = array.dtype.kind == TEXT_KIND
        if array.dtype.kind not in {*"biuf", TEXT_KIND} or array.ndim not in ((1,) if text else (1, 2)):
            raise SchemaError(
                f"Column {name!r} is {array.dtype}{list(array.shape)}; expected numbers [rows] or [rows, width], or "
                "text [rows] as a list of str or a StringDType array."
            )
    lengths = {len(array) for array in values.values()}
    if INDEX not in arrays:
        if lengths != {info.num_rows}:
            raise SchemaError(f"The columns have {sorted(lengths)} rows; {info.name} has {info.num_rows}.")
        return
    index = arrays[INDEX]
    if index.dtype != np.int32 or index.shape != (info.num_rows,) or len(lengths) != 1:
        raise SchemaError(
            f"The index is {index.dtype}{list(index.shape)} over columns of {sorted(lengths)} values; expected "
            f"int32[{info.num_rows}] over columns of one length."
        )
    if index.min() < -1 or index.max() >= min(lengths):
        raise SchemaError(f"The index goes from {index.min()} to {index.max()}; expected -1 to {min(lengths) - 1}.")


def _check_metadata(folder: Path, group: str, key: str, metadata: Mapping[str, Any]) -> None:
    """The first writer of a group says what it is made with; all others must agree."""
    path = folder / "group.json"
    write_json(path, {"group": group, "key": key, "metadata": dict(metadata)}, replace=False)
    theirs = read_json(path)["metadata"]
    names = sorted(n for n in {*theirs, *metadata} if theirs.get(n) != metadata.get(n))
    if names:
        told = "; ".join(f"{n}: {theirs.get(n)!r} there, {metadata.get(n)!r} given" for n in names)
        raise StoreError(f"Columns {group}/{key} were made otherwise: {told}. Use another key.")


def _to_arrow(arrays: Mapping[str, Array]) -> dict[str, pa.Array]:
    values = {name: to_arrow(array) for name, array in arrays.items() if name != INDEX}
    if INDEX not in arrays:
        return values
    index = arrays[INDEX]
    shared = to_arrow(np.maximum(index, 0), valid=index >= 0)
    return {name: pa.DictionaryArray.from_arrays(shared, array) for name, array in values.items()}


def _to_numpy(table: pa.RecordBatch) -> dict[str, Array]:
    columns = {}
    for name, array in zip(table.schema.names, table.columns, strict=True):
        if pa.types.is_dictionary(array.type):
            columns[name] = to_numpy(array.dictionary)
            valid = np.asarray(array.indices.is_valid())
            columns[INDEX] = np.where(valid, to_numpy(array.indices), np.int32(-1))
        else:
            columns[name] = to_numpy(array)
    return columns
