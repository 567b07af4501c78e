"""Shards: Arrow IPC files, uncompressed, of one record batch, so that a memory map of the file is the batch.

Any Arrow reader opens them. Columns with axes are fixed-size lists of all their elements, row-major; the null of a
column that belongs to a step marks the final row of a segment. Header and segment table are JSON in the file's metadata
under `HEADER_KEY` and `SEGMENTS_KEY`, so that a shard needs no other file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from env_core.errors import CorruptShardError
from env_core.trajectory.batch import Array, TrajectoryBatch
from env_core.trajectory.codecs import Writable, batch_from_raw, raw_from_batch
from env_core.trajectory.versions import RawShard

HEADER_KEY = b"trajectory.header"
SEGMENTS_KEY = b"trajectory.segments"
TEXT_KIND = np.dtypes.StringDType().kind


def write_arrow(batch: TrajectoryBatch, file: Writable) -> None:
    """Writes a shard to an open binary file. Raises `OSError` if that cannot be written."""
    per_step = [name for name, column in batch.header.columns.items() if column.per_step]
    write_raw(raw_from_batch(batch), dict.fromkeys(per_step, batch.is_step), file)


def write_raw(raw: RawShard, valid: dict[str, Array], file: Writable) -> None:
    """Writes the parts of a shard; `valid` are the rows [R] where a column is not null, for columns that have nulls."""
    metadata = {HEADER_KEY: json.dumps(raw.header).encode(), SEGMENTS_KEY: json.dumps(raw.segments).encode()}
    arrays = {name: to_arrow(column, valid.get(name)) for name, column in raw.columns.items()}
    write_table(arrays, metadata, file)


def write_table(arrays: dict[str, pa.Array], metadata: dict[bytes, bytes], file: Writable) -> None:
    """Writes equally long arrays as an IPC file of one record batch."""
    table = pa.record_batch(list(arrays.values()), names=list(arrays)).replace_schema_metadata(metadata)
    with pa.ipc.new_file(pa.PythonFile(file, mode="w"), table.schema) as writer:
        writer.write_batch(table)


def read_arrow(path: Path) -> TrajectoryBatch:
    """A shard as read-only views of its memory-mapped file (booleans, eight to a byte in the file, are unpacked).

    Raises `CorruptShardError` if it is no such file, `VersionError` or `SchemaError` if it is not for this reader.
    """
    return batch_from_raw(read_raw(path), str(path))


def read_raw(path: Path) -> RawShard:
    """The parts of a shard, before any version is looked at. Raises `CorruptShardError`."""
    table = map_table(path)
    metadata = table.schema.metadata or {}
    try:
        header, segments = (json.loads(metadata[key]) for key in (HEADER_KEY, SEGMENTS_KEY))
    except (KeyError, ValueError) as error:
        raise CorruptShardError(f"{path} is no trajectory shard: its metadata lacks {error}.") from error
    columns = {name: to_numpy(table.column(name)) for name in table.schema.names}
    return RawShard(header, columns, segments)


def map_table(path: Path) -> pa.RecordBatch:
    """The one record batch of a memory-mapped IPC file. Raises `CorruptShardError`."""
    try:
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            if reader.num_record_batches != 1:
                raise CorruptShardError(f"{path} has {reader.num_record_batches} record batches; a shard has one.")
            return reader.get_batch(0)
    except (pa.ArrowException, OSError) as error:
        raise CorruptShardError(f"{path} cannot be read as an Arrow file: {error}") from error


def to_arrow(column: Array, valid: Array | None = None) -> pa.Array:
    """A column [R, …] as an Arrow array of R values or fixed-size lists, sharing its memory; null where not `valid`.

    Text (`StringDType`, [R]) is copied.
    """
    rows = len(column)
    if column.dtype.kind == TEXT_KIND:
        return pa.array(column.tolist(), pa.large_string(), mask=None if valid is None else ~valid)
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    flat = np.ascontiguousarray(column).reshape(-1)
    if flat.dtype == bool:
        values, data = pa.bool_(), pa.py_buffer(np.packbits(flat, bitorder="little"))
    else:
        values, data = pa.from_numpy_dtype(flat.dtype), pa.py_buffer(flat)
    if column.ndim == 1:
        return pa.Array.from_buffers(values, rows, [bitmap, data])
    child = pa.Array.from_buffers(values, len(flat), [None, data])
    width = int(np.prod(column.shape[1:]))
    return pa.Array.from_buffers(pa.list_(values, width), rows, [bitmap], children=[child])


def to_numpy(array: Any) -> Array:
    """The values of an Arrow array, [R] or [R, width], nulls included, as a read-only view of its buffers.

    Text is copied, to `StringDType`, with "" for null.
    """
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        text = np.array(array.fill_null("").to_pylist(), np.dtypes.StringDType())
        text.flags.writeable = False
        return text
    if pa.types.is_fixed_size_list(array.type):
        width = array.type.list_size
        first = array.offset * width
        return to_numpy(array.values.slice(first, len(array) * width)).reshape(len(array), width)
    data = array.buffers()[1]
    if pa.types.is_boolean(array.type):
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        return bits[array.offset : array.offset + len(array)].view(bool)
    dtype = np.dtype(array.type.to_pandas_dtype())
    return np.frombuffer(data, dtype)[array.offset : array.offset + len(array)]
