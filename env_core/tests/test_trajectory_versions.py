"""Versions: what is read, what is refused, and that a released version stays what it was."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from env_core.errors import VersionError
from env_core.testing.examples import example_header
from env_core.trajectory import schema, versions
from env_core.trajectory.codecs.npz import read_npz
from env_core.trajectory.groups import read_column_group
from env_core.trajectory.inspection import verify_store
from env_core.trajectory.schema import FIELDS, SCHEMA_VERSION, SEGMENT_FIELDS, Field, fingerprint
from env_core.trajectory.store import Store, StoreWriter
from env_core.trajectory.versions import RawShard, migrate, parse_version

DATA = Path(__file__).parent / "data"
RELEASED = {"1.0": "7471ce8dcf53c1a1dc8f7c2a4221d81841d20b1ade9b1ad4a1ece2effb97e6c1"}
"""The fingerprint of the field tables of every version. A line is added for a new version and never changed."""


def test_fields_change_only_with_the_version() -> None:
    assert fingerprint() == RELEASED[SCHEMA_VERSION], (
        "The field tables changed. Give them a new SCHEMA_VERSION, a golden store and a line here; a field that "
        "readers cannot ignore needs a new major version and a step in versions.MIGRATIONS."
    )


def test_the_fingerprint_sees_every_property_but_the_meaning() -> None:
    first, *rest = FIELDS
    for other in (
        Field("x", first.dtype, first.shape, True, first.meaning, encodings=first.encodings),
        Field(first.name, "int8", first.shape, True, first.meaning, encodings=first.encodings),
        Field(first.name, first.dtype, (3,), True, first.meaning, encodings=first.encodings),
        Field(first.name, first.dtype, first.shape, False, first.meaning, encodings=first.encodings),
        Field(first.name, first.dtype, first.shape, True, first.meaning, encodings=()),
        Field(first.name, first.dtype, first.shape, True, first.meaning, "1.1", first.encodings),
        Field(first.name, first.dtype, first.shape, True, first.meaning, encodings=first.encodings, per_step=True),
    ):
        assert fingerprint([other, *rest]) != fingerprint()
    assert fingerprint(FIELDS, SEGMENT_FIELDS[1:]) != fingerprint()
    same = Field(first.name, first.dtype, first.shape, True, "in other words", encodings=first.encodings)
    assert fingerprint([same, *rest]) == fingerprint()


GOLDEN = {
    "craftax_symbolic/1": ("cut cut cut terminated", 1.3204382765106857),
    "craftax_classic_symbolic/1": ("cut truncated cut cut cut", 5.766536831855774),
    "bits/1": ("terminated cut cut truncated cut", -2.2574460059404373),
    "pixel/1": ("terminated cut cut cut terminated", -2.03813455067575),
}
"""By encoding: the endings of the golden store's segments, and the sum of its rewards."""


@pytest.fixture(params=GOLDEN)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Store]:
    """An encoding and a copy of the store that the first reader of version 1.0 was tested with."""
    encoding = str(request.param)
    shutil.copytree(DATA / "store-1.0" / encoding.replace("/", "-"), tmp_path / "store")
    return encoding, Store.open(tmp_path / "store")


def test_golden_stores_stay_readable(golden: tuple[str, Store]) -> None:
    encoding, store = golden
    assert verify_store(store).defects == []
    batch = store.shard(0)
    assert (batch.header.schema_version, batch.header.encoding) == ("1.0", encoding)
    assert batch.segments.ending.tolist() == GOLDEN[encoding][0].split()
    assert float(batch.columns["reward"].astype(np.float64).sum()) == GOLDEN[encoding][1]
    assert read_npz(store.path / "shard-000000.npz").equals(batch)
    columns = read_column_group(store, "hidden_state", "example", 0).columns
    assert columns["hidden_state"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert columns["index"].tolist() == [i % 3 - 1 for i in range(batch.num_rows)]


def test_golden_stores_can_be_appended_to(golden: tuple[str, Store]) -> None:
    _, store = golden
    with StoreWriter.open(store.path, store.header, "today") as writer:
        writer.append(replace(store.shard(0), header=store.header))
    assert verify_store(Store.open(store.path)).defects == []


def test_a_golden_store_row_by_row() -> None:
    """Numbers that were read once by eye and hang on no generator."""
    batch = read_npz(DATA / "store-1.0" / "bits-1" / "shard-000000.npz")
    assert batch.segments.to_json() == {
        "segment_id": [0, 1, 2, 3, 4],
        "env_slot": [0, 0, 0, 1, 1],
        "episode_id": [0, 1, 1, 0, 1],
        "row_start": [0, 2, 5, 9, 13],
        "num_steps": [1, 2, 3, 3, 3],
        "ending": ["terminated", "cut", "cut", "truncated", "cut"],
        "continues_from": [-1, -1, -1, -1, -1],
        "env_seed": [
            309772256114100880,
            6559135335059087062,
            6559135335059087062,
            6729883641140734396,
            8596733250189458740,
        ],
        "policy_step": [100, 100, 200, 100, 200],
    }
    assert batch.columns["action"].tolist() == [15, 0, 12, 0, 0, 1, 4, 8, 0, 3, 16, 6, 0, 1, 11, 4, 0]
    assert batch.columns["obs_bits"][:2].tolist() == [[161, 139, 143, 239, 71], [92, 38, 132, 248, 94]]
    assert np.flatnonzero(batch.columns["is_first"]).tolist() == [0, 2, 9, 13]
    assert np.flatnonzero(batch.columns["is_terminal"]).tolist() == [1]


@pytest.mark.parametrize("text", ["1", "1.0.0", "one", "1.x", None, 1.0, "-1.0"])
def test_versions_are_two_whole_numbers(text: object) -> None:
    with pytest.raises(VersionError, match="no schema version"):
        parse_version(text)


def raw(version: str, **header: object) -> RawShard:
    return RawShard({**example_header().to_json(), "schema_version": version, **header}, {}, {})


def test_newer_minor_versions_and_this_one_are_read() -> None:
    assert parse_version("1.12") > parse_version("1.9")
    for version in ("1.0", "1.1", "1.12"):
        assert migrate(raw(version), "here").header["schema_version"] == version


def test_newer_major_versions_and_unknown_features_are_refused() -> None:
    with pytest.raises(VersionError, match=f"here has schema 2.0, this reader knows {SCHEMA_VERSION}"):
        migrate(raw("2.0"), "here")
    with pytest.raises(VersionError, match=r"requires \['x'\]"):
        migrate(raw("1.0", required_features=["x"]), "here")


def test_older_major_versions_go_through_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "SCHEMA_VERSION", "3.0")

    def rename_act(shard: RawShard) -> RawShard:
        columns = {"action" if name == "act" else name: column for name, column in shard.columns.items()}
        return shard._replace(columns=columns, header={**shard.header, "schema_version": "2.0"})

    def halve_reward(shard: RawShard) -> RawShard:
        columns = {**shard.columns, "reward": shard.columns["reward"] / 2}
        return shard._replace(columns=columns, header={**shard.header, "schema_version": "3.0"})

    old = raw("1.0")._replace(columns={"act": np.arange(3), "reward": np.array([2.0, 4.0, 6.0])})
    new = migrate(old, "here", {1: rename_act, 2: halve_reward})
    assert new.header["schema_version"] == "3.0"
    assert new.columns["action"].tolist() == [0, 1, 2]
    assert new.columns["reward"].tolist() == [1, 2, 3]
    with pytest.raises(VersionError, match="schema major 1 and no migration"):
        migrate(old, "here", {2: halve_reward})


def test_nothing_leads_here_from_version_zero() -> None:
    with pytest.raises(VersionError, match="no migration"):
        migrate(raw("0.9"), "here")


def test_the_tables_are_consistent() -> None:
    names = [field.name for field in FIELDS]
    assert len(set(names)) == len(names)
    assert all(encoding in schema.ENCODINGS for field in FIELDS for encoding in field.encodings)
    assert {field.since for field in (*FIELDS, *SEGMENT_FIELDS)} <= set(RELEASED)
