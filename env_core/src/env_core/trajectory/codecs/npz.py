"""Interchange: one NumPy archive with the columns and the segment table under their names, and the header as JSON.

It holds no Python objects: nothing in it can run, and any NumPy opens it.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from env_core.errors import CorruptShardError
from env_core.trajectory.batch import TrajectoryBatch, columnar
from env_core.trajectory.codecs import Writable, batch_from_raw, raw_from_batch
from env_core.trajectory.schema import SEGMENT_FIELDS
from env_core.trajectory.versions import RawShard

HEADER = "header_json"
SEGMENT_PREFIX = "segment."


def write_npz(batch: TrajectoryBatch, file: Writable) -> None:
    """Writes a compressed archive to an open binary file. Raises `OSError` if that cannot be written."""
    raw = raw_from_batch(batch)
    segments = {SEGMENT_PREFIX + field.name: getattr(batch.segments, field.name) for field in SEGMENT_FIELDS}
    header = np.frombuffer(json.dumps(raw.header).encode(), np.uint8)
    arrays: dict[str, Any] = {HEADER: header, **raw.columns, **segments}
    archive = io.BytesIO()  # NumPy wants a file that it can also read
    np.savez_compressed(archive, **arrays)
    file.write(archive.getvalue())


def read_npz(path: Path) -> TrajectoryBatch:
    """The batch of an archive, in memory.

    Raises `CorruptShardError` if it is no such file, `VersionError` or `SchemaError` if it is not for this reader.
    """
    try:
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop(HEADER).tobytes())
        segments = {name: arrays.pop(name) for name in list(arrays) if name.startswith(SEGMENT_PREFIX)}
        table = columnar({name.removeprefix(SEGMENT_PREFIX): column for name, column in segments.items()})
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise CorruptShardError(f"{path} cannot be read as a trajectory archive: {error!r}") from error
    return batch_from_raw(RawShard(header, arrays, table), str(path))
