"""Files hold exactly what a batch held, nothing in them can run, and programs that know nothing of us read them."""

import json
from pathlib import Path

import numpy as np
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_core.errors import CorruptShardError, SchemaError
from env_core.testing.examples import example_batch
from env_core.trajectory.codecs.arrow import read_arrow, to_arrow, to_numpy, write_arrow, write_raw
from env_core.trajectory.codecs.npz import read_npz, write_npz
from env_core.trajectory.schema import ENCODINGS
from env_core.trajectory.versions import RawShard

CODECS = {"arrow": (write_arrow, read_arrow), "npz": (write_npz, read_npz)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("codecs")


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=25, deadline=None)
@given(
    encoding=st.sampled_from(ENCODINGS),
    num_steps=st.integers(2, 9),
    num_slots=st.integers(1, 3),
    num_streams=st.integers(1, 3),
    seed=st.integers(0, 2**16),
)
def test_exact(
    folder: Path, codec: str, encoding: str, num_steps: int, num_slots: int, num_streams: int, seed: int
) -> None:
    batch = example_batch(encoding, num_steps=num_steps, num_slots=num_slots, num_streams=num_streams, seed=seed)
    write, read = CODECS[codec]
    with (folder / "batch").open("wb") as file:
        write(batch, file)
    assert read(folder / "batch").equals(batch)


def written(batch, path: Path) -> Path:
    with path.open("wb") as file:
        write_arrow(batch, file)
    return path


def test_a_read_shard_is_a_view_of_its_file(tmp_path: Path) -> None:
    batch = read_arrow(written(example_batch(), tmp_path / "shard.arrow"))
    mapped = pa.total_allocated_bytes()
    for name in ("obs_tile", "obs_mob", "obs_scalar", "action", "reward", "value"):
        column = batch.columns[name]
        assert not column.flags.owndata and not column.flags.writeable, name
    assert mapped == 0, "reading a mapped file allocates nothing"


def test_polars_reads_a_shard_without_this_package(tmp_path: Path) -> None:
    batch = example_batch(num_streams=2)
    frame = polars.read_ipc(written(batch, tmp_path / "shard.arrow"))
    assert frame.columns == [name for name in batch.header.columns if name in batch.columns]
    assert frame["action"].is_null().to_numpy().tolist() == (~batch.is_step).tolist()
    assert np.array_equal(frame["obs_tile"].to_numpy(), batch.columns["obs_tile"])
    assert np.array_equal(frame["reward"].fill_null(0).to_numpy(), batch.columns["reward"])
    assert frame["is_terminal"].to_numpy().tolist() == batch.columns["is_terminal"].tolist()
    # Segments without our table: one begins after each null action.
    segment = frame["action"].is_null().shift(1, fill_value=False).cum_sum()
    lengths = frame.group_by(segment.alias("segment"), maintain_order=True).len()["len"].to_list()
    assert lengths == (batch.segments.num_steps + 1).tolist()


def test_pyarrow_reads_header_and_segments(tmp_path: Path) -> None:
    batch = example_batch()
    with pa.memory_map(str(written(batch, tmp_path / "shard.arrow"))) as source:
        table = pa.ipc.open_file(source).read_all()
    header = json.loads(table.schema.metadata[b"trajectory.header"])
    segments = json.loads(table.schema.metadata[b"trajectory.segments"])
    assert header["provenance"]["env_id"] == "Craftax-Symbolic-v1"
    assert segments["ending"] == batch.segments.ending.tolist()
    assert table.column("action").null_count == len(batch.segments)


def test_an_archive_holds_no_python_objects(tmp_path: Path) -> None:
    path = tmp_path / "batch.npz"
    with path.open("wb") as file:
        write_npz(example_batch(), file)
    with np.load(path) as archive:  # NumPy refuses objects unless told otherwise
        assert all(archive[name].dtype.kind in "biufU" for name in archive.files)


def test_an_archive_with_an_object_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "batch.npz"
    np.savez(path, header_json=np.array([{"schema_version": "1.0"}], dtype=object))
    with pytest.raises(CorruptShardError, match="cannot be read as a trajectory archive"):
        read_npz(path)


@pytest.mark.parametrize("content", [b"", b"no archive at all", b"ARROW1\0\0"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    for _, read in CODECS.values():
        with pytest.raises(CorruptShardError, match=str(path)):
            read(path)


def test_another_arrow_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.arrow"
    polars.DataFrame({"action": [1, 2]}).write_ipc(path)
    with pytest.raises(CorruptShardError, match="no trajectory shard"):
        read_arrow(path)


def test_a_shard_that_breaks_the_schema_is_named(tmp_path: Path) -> None:
    batch = example_batch()
    columns = {name: column for name, column in batch.columns.items() if name != "is_last"}
    path = tmp_path / "shard.arrow"
    with path.open("wb") as file:
        write_raw(RawShard(batch.header.to_json(), columns, batch.segments.to_json()), {}, file)
    with pytest.raises(SchemaError, match=r"shard\.arrow: Column 'is_last' is missing"):
        read_arrow(path)


@given(st.integers(0, 70), st.sampled_from(["bool", "uint8", "int16", "float16", "float32"]), st.integers(0, 5))
def test_arrow_arrays_and_back(rows: int, dtype: str, width: int) -> None:
    random = np.random.default_rng(rows)
    column = random.integers(0, 2, (rows, width) if width else rows).astype(dtype)
    array = to_arrow(column, valid=random.random(rows) < 0.5)
    array.validate(full=True)
    assert np.array_equal(to_numpy(array), column)
    assert np.array_equal(to_numpy(array.slice(rows // 3)), column[rows // 3 :])
