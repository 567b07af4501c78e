"""Every rule of the schema: a valid batch with one thing changed is refused, and the message names that thing."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_core.errors import SchemaError
from env_core.testing.examples import example_batch, example_header
from env_core.trajectory.batch import Header, SegmentTable, TrajectoryBatch
from env_core.trajectory.schema import ENCODINGS, columns_of

BATCH = example_batch()
SEGMENTS = BATCH.segments
CUT, TERMINATED = (int(np.flatnonzero(SEGMENTS.ending == name)[0]) for name in ("cut", "terminated"))


def with_column(name: str, row: object, value: object) -> TrajectoryBatch:
    column = np.array(BATCH.columns[name])
    column[row] = value
    return replace(BATCH, columns={**BATCH.columns, name: column})


def with_segments(**columns: object) -> TrajectoryBatch:
    return replace(BATCH, segments=replace(SEGMENTS, **columns))


def changed(name: str, position: int, value: object) -> TrajectoryBatch:
    column = np.array(getattr(SEGMENTS, name))
    column[position] = value
    return with_segments(**{name: column})


FINAL = int(SEGMENTS.row_end[0])
MIDDLE = int(SEGMENTS.row_start[np.argmax(SEGMENTS.num_steps)]) + 1
REFUSED = {
    "a column too many": (
        replace(BATCH, columns={**BATCH.columns, "obs_tiles": BATCH.columns["obs_tile"]}),
        "Unknown column 'obs_tiles'.*Did you mean 'obs_tile'",
    ),
    "a required column missing": (
        replace(BATCH, columns={name: c for name, c in BATCH.columns.items() if name != "reward"}),
        "'reward' is missing",
    ),
    "a wrong dtype": (
        replace(BATCH, columns={**BATCH.columns, "reward": BATCH.columns["reward"].astype(np.float64)}),
        "'reward' is float64.*expected float32",
    ),
    "a wrong shape": (
        replace(BATCH, columns={**BATCH.columns, "obs_tile": BATCH.columns["obs_tile"][:, :98]}),
        r"'obs_tile' is uint8\[104, 98\].*\[104, 99\]",
    ),
    "a wrong segment dtype": (with_segments(row_start=SEGMENTS.row_start.astype(np.int32)), "'row_start' is int32"),
    "no segment": (
        replace(BATCH, segments=SegmentTable.from_json({n: [] for n in SEGMENTS.to_json()})),
        "no segment",
    ),
    "an empty segment": (changed("num_steps", 2, 0), "Segment 2 has no step"),
    "a gap between segments": (changed("row_start", 2, SEGMENTS.row_start[2] + 1), "Segment 2 does not start where"),
    "rows beyond the segments": (
        changed("num_steps", -1, SEGMENTS.num_steps[-1] + 1),
        "segments cover 105 rows, the columns have 104",
    ),
    "ids that do not ascend": (changed("segment_id", 3, 2), "segment 3 does not ascend"),
    "an unknown ending": (changed("ending", 1, "aborted"), "ending of segment 1 is none of terminated, truncated, cut"),
    "a continuation of the future": (
        changed("continues_from", 1, 1),
        "Segment 1 continues a segment that is not before",
    ),
    "is_first in the middle": (with_column("is_first", MIDDLE, True), f"is_first is set on row {MIDDLE}"),
    "is_last missing": (with_column("is_last", SEGMENTS.row_end[TERMINATED], False), "is_last of row .* contradicts"),
    "is_last where it was cut": (with_column("is_last", SEGMENTS.row_end[CUT], True), "is_last of row .* contradicts"),
    "is_terminal in the middle": (with_column("is_terminal", MIDDLE, True), f"is_terminal of row {MIDDLE} contradicts"),
    "a negative action": (with_column("action", 0, -1), "action of row 0 is negative"),
    "an action on a final row": (with_column("action", FINAL, 3), "action is not zero on the final row of segment 0"),
    "a reward on a final row": (with_column("reward", FINAL, 1), "reward is not zero on the final row of segment 0"),
    "an infinite reward": (with_column("reward", 0, np.inf), "reward of row 0 is not finite"),
    "a NaN in the observation": (with_column("obs_scalar", (5, 3), np.nan), "obs_scalar of row 5 is not finite"),
    "an impossible tile": (with_column("obs_tile", (7, 0), 186), "obs_tile of row 7 has a code of 186 or more"),
    "mobs out of order": (with_column("obs_mob", (4, slice(0, 2)), [9, 3]), "obs_mob of row 4 is not ascending"),
    "a mob twice": (with_column("obs_mob", (4, slice(0, 2)), [9, 9]), "obs_mob of row 4 is not ascending"),
    "a mob after an empty slot": (with_column("obs_mob", (4, slice(-2, None)), [0xFFFF, 5]), "obs_mob of row 4"),
    "an impossible mob": (with_column("obs_mob", 4, [3960] + [0xFFFF] * 13), "obs_mob of row 4 has a code of 3960"),
    "another layout": (
        replace(
            BATCH, header=replace(BATCH.header, provenance=replace(BATCH.header.provenance, layout_sha256="f" * 64))
        ),
        "layout_sha256 is ffff",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    batch, message = REFUSED[case]
    with pytest.raises(SchemaError, match=message):
        batch.validate()


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("num_streams", [1, 3])
def test_examples_are_valid(encoding: str, num_streams: int) -> None:
    batch = example_batch(encoding, num_streams=num_streams)
    batch.validate()
    assert set(batch.segments.ending.tolist()) == {"terminated", "truncated", "cut"}
    assert ("intrinsic_reward" in batch.columns) == (num_streams > 1)


def test_a_recording_may_begin_in_the_middle_of_an_episode() -> None:
    start = int(np.flatnonzero(BATCH.columns["is_first"])[0])
    with_column("is_first", start, False).validate()


def test_a_continuation_is_not_the_first_of_its_episode() -> None:
    start = np.flatnonzero(BATCH.columns["is_first"][SEGMENTS.row_start])[-1]
    with pytest.raises(SchemaError, match="is_first is set on row"):
        changed("continues_from", int(start), 0).validate()


def test_views() -> None:
    assert BATCH.num_steps == 80
    assert (BATCH.num_rows, len(SEGMENTS)) == (104, 24)
    rows = BATCH.rows_of(1)
    assert (rows.start, rows.stop) == (SEGMENTS.row_start[1], SEGMENTS.row_end[1] + 1)
    assert np.flatnonzero(~BATCH.is_step).tolist() == SEGMENTS.row_end.tolist()
    assert not BATCH.equals(with_column("reward", 0, 5.0))


def test_sizes_come_from_the_layout_or_the_header() -> None:
    shapes = {name: column.shape for name, column in columns_of("craftax_symbolic/1", 2, {}).items()}
    assert [shapes[name] for name in ("obs_tile", "obs_mob", "obs_scalar", "value", "intrinsic_reward")] == [
        (99,), (14,), (51,), (2,), (1,)
    ]  # fmt: skip
    shapes = {name: c.shape for name, c in columns_of("bits/1", 1, {"map_size": 37, "size": 45}).items()}
    assert (shapes["obs_bits"], shapes["obs_scalar"]) == ((5,), (8,))
    assert "obs_scalar" not in columns_of("bits/1", 1, {"map_size": 8, "size": 8})


@pytest.mark.parametrize(
    ("encoding", "num_streams", "sizes", "message"),
    [
        ("craftax_symbolic/2", 1, {}, "Did you mean 'craftax_symbolic/1'"),
        ("pixel/1", 1, {}, "pixel/1 wants whole numbers for \\['height', 'width'\\]"),
        ("craftax_symbolic/1", 1, {"height": 3}, "for nothing"),
        ("bits/1", 1, {"map_size": 9, "size": 8}, "map_size 9 is more"),
        ("bits/1", 0, {"map_size": 8, "size": 8}, "num_streams is 0"),
    ],
)
def test_headers_that_make_no_sense(encoding: str, num_streams: int, sizes: dict[str, int], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        columns_of(encoding, num_streams, sizes)


@settings(max_examples=30)
@given(st.sampled_from(ENCODINGS), st.integers(1, 4), st.integers(0, 2**40), st.booleans())
def test_header_json(encoding: str, num_streams: int, seed: int, known: bool) -> None:
    header = example_header(encoding, num_streams, seed)
    if not known:
        nothing = replace(header.provenance, policy_checkpoint_sha256=None, git_revision=None, parents=())
        header = replace(header, provenance=nothing)
    assert Header.from_json(header.to_json()) == header


def test_a_malformed_header_is_named() -> None:
    data = example_header().to_json()
    del data["provenance"]
    with pytest.raises(SchemaError, match=r"the sidecar is not the header.*provenance"):
        Header.from_json(data, "the sidecar")
