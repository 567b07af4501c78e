"""A batch of recorded rows in memory: frozen, columnar, with its header and its segment table.

A segment of n steps has n+1 consecutive rows; the last holds only the final observation. So `next_obs` of row i is the
observation of row i+1, and the last row of an episode holds its terminal observation. `TrajectoryBatch.is_step` tells
the two kinds of rows apart; on final rows the columns of a step (`action`, `reward`, …) are null, stored as zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from env_core.errors import SchemaError
from env_core.trajectory.schema import SCHEMA_VERSION, SEGMENT_FIELDS, Column, columns_of
from env_core.trajectory.versions import RawShard, migrate

Array = np.ndarray[Any, np.dtype[Any]]

NO_SEGMENT = -1
"""`continues_from` of a segment that continues none."""


@dataclass(frozen=True)
class Provenance:
    """Where rows come from. Hashes are SHA-256 in hexadecimal; `parents` are those of the files they were made of."""

    env_id: str
    craftax_version: str
    layout_sha256: str | None
    producer: str
    git_revision: str | None
    config_sha256: str
    seed: int
    policy_checkpoint_sha256: str | None = None
    parents: tuple[str, ...] = ()
    created_at: str = ""


@dataclass(frozen=True)
class Header:
    """What all rows of a shard share. `sizes` are those that `schema.EXTRA_SIZES` asks for."""

    encoding: str
    provenance: Provenance
    num_streams: int = 1
    sizes: Mapping[str, int] = field(default_factory=dict)
    required_features: tuple[str, ...] = ()
    schema_version: str = SCHEMA_VERSION

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The columns that its batches may have. Raises `SchemaError` if encoding, streams or sizes make no sense."""
        return columns_of(self.encoding, self.num_streams, self.sizes)

    def to_json(self) -> dict[str, Any]:
        """A JSON object; `from_json` gives an equal header back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], where: str = "the header") -> Header:
        """Reads, migrating, a header of any readable version. Raises `VersionError` or `SchemaError` naming `where`."""
        data = migrate(RawShard(dict(data), {}, {}), where).header
        try:
            known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
            told = known["provenance"]
            provenance = Provenance(**{f.name: told[f.name] for f in fields(Provenance) if f.name in told})
            provenance = Provenance(**{**asdict(provenance), "parents": tuple(provenance.parents)})
            features = tuple(known.get("required_features", ()))
            return cls(**{**known, "provenance": provenance, "required_features": features})
        except (KeyError, TypeError) as error:
            raise SchemaError(f"{where} is not the header of a trajectory file: {error!r}.") from error


@dataclass(frozen=True, eq=False)
class SegmentTable:
    """The segments of a batch, in row order: equally long columns [S], one per field of `schema.SEGMENT_FIELDS`."""

    segment_id: Array
    env_slot: Array
    episode_id: Array
    row_start: Array
    num_steps: Array
    ending: Array
    continues_from: Array
    env_seed: Array
    has_env_seed: Array
    policy_step: Array

    def __len__(self) -> int:
        return len(self.segment_id)

    @property
    def row_end(self) -> Array:
        """The final row of each segment, int64 [S]."""
        return self.row_start + self.num_steps

    def to_json(self) -> dict[str, list[Any]]:
        """Columnar JSON: a list per column; an unknown `env_seed` is null."""
        return columnar({f.name: getattr(self, f.name) for f in SEGMENT_FIELDS})

    @classmethod
    def from_json(cls, data: Mapping[str, list[Any]]) -> SegmentTable:
        """The table of `to_json`. Raises `SchemaError` for a missing or malformed column."""
        try:
            seeds = data["env_seed"]
            full = {**data, "env_seed": [s or 0 for s in seeds], "has_env_seed": [s is not None for s in seeds]}
            return cls(**{f.name: np.array(full[f.name], np.dtype(f.dtype)) for f in SEGMENT_FIELDS})
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise SchemaError(f"The segment table is malformed: {error!r}.") from error


def columnar(segments: Mapping[str, Array]) -> dict[str, list[Any]]:
    """The columns of a segment table, of whatever version, as in a file's metadata: lists, null for unknown seeds."""
    table = {name: column.tolist() for name, column in segments.items()}
    known = table.pop("has_env_seed")
    table["env_seed"] = [seed if has else None for seed, has in zip(table["env_seed"], known, strict=True)]
    return table


@dataclass(frozen=True, eq=False)
class TrajectoryBatch:
    """Rows [R], their segments [S] and the header. Columns may be read-only views of a memory-mapped file."""

    header: Header
    columns: Mapping[str, Array]
    segments: SegmentTable

    @property
    def num_rows(self) -> int:
        """R, final rows included."""
        return len(self.columns["is_first"])

    @property
    def num_steps(self) -> int:
        """Rows that hold a step: R less one for each segment."""
        return self.num_rows - len(self.segments)

    @property
    def nbytes(self) -> int:
        """Bytes of all columns in memory."""
        return sum(column.nbytes for column in self.columns.values())

    @cached_property
    def is_step(self) -> Array:
        """Whether a row holds a step, bool [R]; false on the final row of each segment."""
        is_step = np.ones(self.num_rows, bool)
        is_step[self.segments.row_end] = False
        return is_step

    def rows_of(self, segment: int) -> slice:
        """The n+1 rows of the segment at this position of the table."""
        start = int(self.segments.row_start[segment])
        return slice(start, start + int(self.segments.num_steps[segment]) + 1)

    def validate(self) -> None:
        """Checks everything that the schema asks of a batch. Raises `SchemaError` naming field, row and remedy."""
        from env_core.trajectory.validation import validate  # it needs this module's types

        validate(self)

    def equals(self, other: TrajectoryBatch) -> bool:
        """Whether header, segments and columns are equal, bit for bit, dtypes included."""
        return (
            self.header == other.header
            and self.segments.to_json() == other.segments.to_json()
            and self.columns.keys() == other.columns.keys()
            and all(_same(column, other.columns[name]) for name, column in self.columns.items())
        )


def _same(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
