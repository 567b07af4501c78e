"""What makes a batch valid. Structure (dtypes, shapes, the segment table) is checked at every read, values at writing.

Values are not checked again at every read because a shard's checksum shows that they are those that were written.
"""

from __future__ import annotations

import numpy as np

from env_core.errors import SchemaError, nearest
from env_core.observation.layout import layouts
from env_core.observation.packed import EMPTY_MOB
from env_core.trajectory.batch import NO_SEGMENT, Array, Header, SegmentTable, TrajectoryBatch
from env_core.trajectory.schema import PACKED, SCHEMA_VERSION, SEGMENT_FIELDS, Ending
from env_core.trajectory.versions import is_newer_minor


def validate(batch: TrajectoryBatch) -> None:
    """Structure and values. Raises `SchemaError` for the first thing that is wrong."""
    validate_structure(batch)
    check_header(batch.header)
    _check_flags(batch)
    _check_steps(batch)
    _check_finite(batch)
    if batch.header.encoding in PACKED:
        _check_tiles(batch)
        _check_mobs(batch)


def validate_structure(batch: TrajectoryBatch) -> None:
    """Columns, dtypes, shapes and the segment table, without reading the rows. Raises `SchemaError`."""
    known = batch.header.columns
    for name in batch.columns:
        if name not in known:
            raise SchemaError(f"Unknown column {name!r} for {batch.header.encoding}. {nearest(name, known)}")
    for name, column in known.items():
        if name not in batch.columns:
            if column.required:
                raise SchemaError(f"Column {name!r} is missing; {batch.header.encoding} requires it.")
            continue
        given = batch.columns[name]
        wanted = (batch.num_rows, *column.shape)
        if given.dtype != column.dtype or given.shape != wanted:
            raise SchemaError(
                f"Column {name!r} is {given.dtype}{list(given.shape)}; expected {column.dtype}{list(wanted)}."
            )
    _check_segments(batch.segments, batch.num_rows)


def _check_segments(segments: SegmentTable, num_rows: int) -> None:
    """Segments follow one another without gap and cover the rows; ids ascend; endings are known."""
    for field in SEGMENT_FIELDS:
        column = getattr(segments, field.name)
        kind_ok = column.dtype.kind == "U" if field.dtype == "str" else column.dtype == np.dtype(field.dtype)
        if not kind_ok or column.shape != (len(segments),):
            raise SchemaError(
                f"Segment column {field.name!r} is {column.dtype}{list(column.shape)}; "
                f"expected {field.dtype}[{len(segments)}]."
            )
    if len(segments) == 0:
        raise SchemaError("The batch has no segment; a batch holds at least one step.")
    _first(segments.num_steps < 1, "Segment {} has no step; leave it out.")
    expected = np.concatenate([[0], segments.row_end + 1])
    _first(
        segments.row_start != expected[:-1],
        "Segment {} does not start where the one before ends; segments are contiguous, n steps take n+1 rows.",
    )
    if expected[-1] != num_rows:
        raise SchemaError(f"The segments cover {expected[-1]} rows, the columns have {num_rows}.")
    _first(np.diff(segments.segment_id, prepend=-1) < 1, "The segment_id of segment {} does not ascend from 0.")
    known = np.isin(segments.ending, list(Ending))
    _first(~known, f"The ending of segment {{}} is none of {', '.join(Ending)}.")
    continues = segments.continues_from
    _first(
        (continues < NO_SEGMENT) | (continues >= segments.segment_id),
        "Segment {} continues a segment that is not before it; −1 means none.",
    )


def check_header(header: Header) -> None:
    """What rows of this header need before there are any. Raises `SchemaError`.

    A named layout means the same codes everywhere: the header's hash must be that of the layout of that name.
    """
    if not header.columns or is_newer_minor(header.schema_version):
        raise SchemaError(f"The header says schema {header.schema_version}; this program writes {SCHEMA_VERSION}.")
    layout = layouts.get(header.encoding)
    given = header.provenance.layout_sha256
    if layout is not None and given != layout.sha256:
        raise SchemaError(
            f"The header's layout_sha256 is {given}, but {layout.name} has {layout.sha256}: the observations were made "
            "with another layout. Record with the encoding that names it."
        )


def _check_flags(batch: TrajectoryBatch) -> None:
    """is_first, is_last and is_terminal say what the segment table says."""
    segments, columns = batch.segments, batch.columns
    starts = np.zeros(batch.num_rows, bool)
    starts[segments.row_start[segments.continues_from == NO_SEGMENT]] = True
    _first(
        columns["is_first"] & ~starts,
        "is_first is set on row {}, which does not start a segment or starts one that continues another.",
    )
    for name, endings in (
        ("is_last", [Ending.TERMINATED, Ending.TRUNCATED]),
        ("is_terminal", [Ending.TERMINATED]),
    ):
        expected = np.zeros(batch.num_rows, bool)
        expected[segments.row_end[np.isin(segments.ending, endings)]] = True
        _first(
            columns[name] != expected,
            f"{name} of row {{}} contradicts the segment table: it is set on the final row of {' and '.join(endings)} "
            "segments and nowhere else.",
        )


def _check_steps(batch: TrajectoryBatch) -> None:
    """Actions are not negative; on final rows whatever belongs to a step is null, so zero."""
    _first(batch.columns["action"] < 0, "action of row {} is negative; actions are numbered from 0.")
    final = batch.segments.row_end
    for name, column in batch.header.columns.items():
        if column.per_step and name in batch.columns:
            nonzero = batch.columns[name][final].reshape(len(final), -1).any(axis=1)
            _first(nonzero, f"{name} is not zero on the final row of segment {{}}, which holds no step.")


def _check_finite(batch: TrajectoryBatch) -> None:
    for name, column in batch.columns.items():
        if column.dtype.kind == "f":
            finite = np.isfinite(column).reshape(len(column), -1)
            if not finite.all():
                _first(~finite.all(axis=1), f"{name} of row {{}} is not finite.")


def _check_tiles(batch: TrajectoryBatch) -> None:
    codes = layouts[batch.header.encoding].codes
    tiles = batch.columns["obs_tile"]
    if tiles.max(initial=0) >= codes:
        _first((tiles >= codes).any(axis=1), f"obs_tile of row {{}} has a code of {codes} or more, which no tile has.")


def _check_mobs(batch: TrajectoryBatch) -> None:
    layout = layouts[batch.header.encoding]
    mobs = batch.columns["obs_mob"]
    before, after = mobs[:, :-1], mobs[:, 1:]
    unordered = (before >= after) & (after != EMPTY_MOB)
    if unordered.any():
        _first(unordered.any(axis=1), "obs_mob of row {} is not ascending with empty slots (0xFFFF) last.")
    limit = layout.tiles * layout.mob_channels
    outside = (mobs >= limit) & (mobs != EMPTY_MOB)
    if outside.any():
        _first(outside.any(axis=1), f"obs_mob of row {{}} has a code of {limit} or more, which no mob has.")


def _first(wrong: Array | np.bool, message: str) -> None:
    """Raises `SchemaError` with the position of the first true value in `message`, and how many there are."""
    positions = np.flatnonzero(wrong)
    if len(positions):
        more = f" ({len(positions)} like it)" if len(positions) > 1 else ""
        raise SchemaError(message.format(positions[0]) + more)
