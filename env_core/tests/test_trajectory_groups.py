"""Column groups: more columns for the same rows, tied to them, written once."""

from pathlib import Path

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_core.errors import CorruptShardError, SchemaError, StoreError
from env_core.testing.store_conformance import consecutive_batches
from env_core.trajectory.groups import list_groups, read_column_group, write_column_group
from env_core.trajectory.inspection import verify_store
from env_core.trajectory.store import Store, StoreWriter


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return recorded(tmp_path_factory.mktemp("store"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return recorded(tmp_path)


def recorded(path: Path) -> Store:
    batches = consecutive_batches(2)
    with StoreWriter.open(path, batches[0].header) as writer:
        for batch in batches:
            writer.append(batch)
    return Store.open(path)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(0, 5), st.sampled_from(["float16", "float32", "int64", "bool"]), st.integers())
def test_shared_values_are_exact(shared: Store, num_values: int, width: int, dtype: str, seed: int) -> None:
    random = np.random.default_rng(abs(seed))
    rows = shared.shards[0].num_rows
    values = random.integers(0, 2, (num_values, width) if width else num_values).astype(dtype)
    index = random.integers(-1, num_values, rows).astype(np.int32)
    key = f"k{len(list_groups(shared))}"  # hypothesis comes back with the same numbers
    assert write_column_group(shared, "hidden_state", key, 0, {"hidden_state": values, "index": index}, {})
    columns = read_column_group(shared, "hidden_state", key, 0).columns
    assert np.array_equal(columns["hidden_state"], values) and columns["hidden_state"].dtype == values.dtype
    assert np.array_equal(columns["index"], index) and columns["index"].dtype == np.int32


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.text() | st.sampled_from(["", "\0", "a\0", "日本語", "🤖" * 9]), min_size=1),
    st.booleans(),
    st.booleans(),
)
def test_text_is_exact(shared: Store, texts: list[str], per_row: bool, as_list: bool) -> None:
    rows = shared.shards[0].num_rows
    chosen = np.arange(rows) % (len(texts) + 1) - 1
    given_text = [texts[i] for i in chosen] if per_row else texts
    columns: dict = {"text": given_text if as_list else np.array(given_text, np.dtypes.StringDType())}
    if not per_row:
        columns["index"] = chosen.astype(np.int32)
    key = f"k{len(list_groups(shared))}"
    assert write_column_group(shared, "text", key, 0, columns, {"version": "1"})
    read = read_column_group(shared, "text", key, 0).columns
    assert read["text"].tolist() == given_text and read["text"].dtype == np.dtypes.StringDType()
    assert not read["text"].flags.writeable
    assert np.array_equal(read.get("index", chosen), chosen)


def test_polars_shows_text_row_by_row(store: Store) -> None:
    rows = store.shards[0].num_rows
    index = (np.arange(rows) // 30 - 1).astype(np.int32)
    write_column_group(store, "text", "v1", 0, {"text": ["It is dark."], "index": index}, {})
    write_column_group(store, "text", "v2", 0, {"text": ["é"] * rows}, {})
    folder = store.path / "columns" / "text"
    shown = polars.read_ipc(folder / "v1" / "shard-000000.arrow")["text"].cast(polars.String)
    assert shown.to_list() == [None] * 30 + ["It is dark."] * (rows - 30)
    assert polars.read_ipc(folder / "v2" / "shard-000000.arrow")["text"].to_list() == ["é"] * rows
    assert verify_store(store).ok


def test_a_column_per_row(store: Store) -> None:
    rows = store.shards[1].num_rows
    arrays = {"value": np.linspace(0, 1, rows, dtype=np.float32), "valid": np.arange(rows) % 3 == 0}
    write_column_group(store, "return_to_go", "gamma=0.99", "shard-000001", arrays, {"gamma": 0.99})
    group = read_column_group(store, "return_to_go", "gamma=0.99", 1)
    assert group.metadata == {"gamma": 0.99}
    assert all(np.array_equal(group.columns[name], array) for name, array in arrays.items())
    (info,) = list_groups(store)
    assert (info.group, info.key, info.shards) == ("return_to_go", "gamma=0.99", ("shard-000001",))


def test_shared_values_cost_their_number_and_polars_shows_them_row_by_row(store: Store) -> None:
    rows = store.shards[0].num_rows
    values = np.arange(2 * 2560, dtype=np.float16).reshape(2, 2560)
    index = np.minimum(np.arange(rows) // 20, 1).astype(np.int32)
    write_column_group(store, "hidden_state", "f", 0, {"hidden_state": values, "index": index}, {})
    path = store.path / "columns" / "hidden_state" / "f" / "shard-000000.arrow"
    assert path.stat().st_size < values.nbytes + 4 * rows + 2000
    assert np.array_equal(polars.read_ipc(path)["hidden_state"].to_numpy(), values[index])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "at least one array"),
        ({"value": np.zeros(3, np.float32)}, r"have \[3\] rows; shard-000000 has 43"),
        ({"value": np.zeros((43, 2, 2), np.float32)}, "'value' is float32"),
        ({"text": np.array(["a"] * 43)}, "'text' is <U1.* a list of str or a StringDType array"),
        ({"text": np.full((43, 1), "a", np.dtypes.StringDType())}, r"'text' is StringDType\(\)\[43, 1\]"),
        ({"text": ["a"] * 42 + [7]}, "'text' has 7 as text 42; expected str"),
        ({"text": np.array(["a", None], np.dtypes.StringDType(na_object=None))}, "has None as text 1"),
        ({"text": ["a"] * 42 + ["\ud800"]}, "text that UTF-8 cannot hold"),
        ({"text": ["a"] * 42}, r"have \[42\] rows; shard-000000 has 43"),
        ({"value": np.zeros(2), "index": np.zeros(43, np.int64)}, "index is int64"),
        ({"value": np.zeros(2), "index": np.full(43, 2, np.int32)}, "index goes from 2 to 2; expected -1 to 1"),
        ({"value": np.zeros(2), "more": np.zeros(3), "index": np.zeros(43, np.int32)}, r"columns of \[2, 3\] values"),
    ],
)
def test_what_does_not_fit_the_shard_is_refused(shared: Store, arrays: dict, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        write_column_group(shared, "g", "refused", 0, arrays, {})


@pytest.mark.parametrize(("group", "key"), [("../up", "k"), ("g", "a/b"), ("", "k"), ("g", ".hidden")])
def test_names_make_no_paths(shared: Store, group: str, key: str) -> None:
    with pytest.raises(StoreError, match="use letters, digits"):
        write_column_group(shared, group, key, 0, {"value": np.zeros(43)}, {})


def test_what_is_missing_is_told_with_what_is_there(store: Store) -> None:
    write_column_group(store, "g", "k", 0, {"value": np.zeros(43)}, {})
    with pytest.raises(StoreError, match=r"no columns g/k for shard-000001. It has: g/k \(1 shards\)"):
        read_column_group(store, "g", "k", 1)


def test_columns_of_other_rows_and_damaged_ones_are_refused(store: Store) -> None:
    write_column_group(store, "g", "k", 0, {"value": np.zeros(43)}, {})
    folder = store.path / "columns" / "g" / "k"
    for suffix in ("arrow", "json"):
        (folder / f"shard-000001.{suffix}").write_bytes((folder / f"shard-000000.{suffix}").read_bytes())
    with pytest.raises(CorruptShardError, match="was made for a shard with SHA-256"):
        read_column_group(store, "g", "k", 1)
    path = folder / "shard-000000.arrow"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    with pytest.raises(CorruptShardError, match="is damaged"):
        read_column_group(Store.open(store.path), "g", "k", 0)
    assert len(verify_store(store).defects) == 2


def test_a_file_without_sidecar_is_taken_for_a_dead_writers(store: Store) -> None:
    write_column_group(store, "g", "k", 0, {"value": np.zeros(43)}, {})
    (store.path / "columns" / "g" / "k" / "shard-000000.json").unlink()
    assert list_groups(store)[0].shards == ()
    assert write_column_group(store, "g", "k", 0, {"value": np.ones(43)}, {})
    assert read_column_group(store, "g", "k", 0).columns["value"].all()


def test_retraction_takes_the_columns_along(store: Store) -> None:
    write_column_group(store, "g", "k", 1, {"value": np.zeros(store.shards[1].num_rows)}, {})
    with StoreWriter.open(store.path, store.header) as writer:
        writer.retract(["shard-000001"])
    assert list_groups(Store.open(store.path))[0].shards == ()
