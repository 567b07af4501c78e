"""A batch as a file: `arrow` for stores, `npz` for interchange. Both carry the same names and convert exactly.

A codec only moves bytes: it reads a `RawShard`, and `batch_from_raw` makes a batch of it, the same way for all.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from env_core.errors import SchemaError
from env_core.trajectory.batch import Header, SegmentTable, TrajectoryBatch
from env_core.trajectory.validation import validate_structure
from env_core.trajectory.versions import RawShard, is_newer_minor, migrate


class Writable(Protocol):
    """An open binary file, as far as a codec needs it."""

    def write(self, data: bytes, /) -> int: ...


def raw_from_batch(batch: TrajectoryBatch) -> RawShard:
    """The parts of a batch that a file holds; columns in the order of the field table. Raises `SchemaError` if its
    structure is wrong."""
    validate_structure(batch)
    columns = {name: batch.columns[name] for name in batch.header.columns if name in batch.columns}
    return RawShard(batch.header.to_json(), columns, batch.segments.to_json())


def batch_from_raw(raw: RawShard, where: str) -> TrajectoryBatch:
    """What a codec read, as a batch: migrated, without columns that a newer minor version added, structure checked.

    Columns may come with their axes flattened, [R, width]. Raises `VersionError` or `SchemaError` naming `where`.
    """
    raw = migrate(raw, where)
    header = Header.from_json(raw.header, where)
    try:
        columns = {}
        for name, column in raw.columns.items():
            shape = header.columns[name].shape if name in header.columns else column.shape[1:]
            if name in header.columns or not is_newer_minor(header.schema_version):
                fits = column[:1].size == int(np.prod(shape)) * len(column[:1])
                columns[name] = column.reshape(len(column), *shape) if fits else column
        batch = TrajectoryBatch(header, columns, SegmentTable.from_json(raw.segments))
        validate_structure(batch)
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from error
    return batch
