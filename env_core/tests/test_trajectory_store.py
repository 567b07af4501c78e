"""The store passes the conformance kit; and what is particular to this one."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from env_core.errors import CorruptShardError, SchemaError, StoreError, VersionError, WriteError
from env_core.testing.examples import example_batch, example_header
from env_core.testing.store_conformance import StoreConformance, consecutive_batches
from env_core.trajectory import checksums
from env_core.trajectory.builder import SegmentBuilder
from env_core.trajectory.inspection import complete_returns, verify_store
from env_core.trajectory.store import Store, StoreWriter


class TestStore(StoreConformance):
    pass


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A store of two shards that go on from one another."""
    batches = consecutive_batches(2)
    with StoreWriter.open(tmp_path, batches[0].header) as writer:
        for batch in batches:
            writer.append(batch)
    return tmp_path


def test_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no trajectory store"):
        Store.open(tmp_path / "nowhere")


def test_a_store_may_be_empty(tmp_path: Path) -> None:
    StoreWriter.open(tmp_path, example_header()).close()
    store = Store.open(tmp_path)
    assert (store.shards, store.totals.num_rows) == ((), 0)
    assert complete_returns(store).mean is None


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(StoreError, match="no trajectory store and not empty"):
        StoreWriter.open(tmp_path, example_header())
    with pytest.raises(StoreError, match="is a file"):
        StoreWriter.open(tmp_path / "thesis.tex", example_header())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("name", ["", "a/b", "../up", "a.b", "x" * 65])
def test_writer_names_make_no_paths(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="no writer name"):
        StoreWriter.open(tmp_path / "store", example_header(), name)


def test_unknown_shards_are_named(recorded: Path) -> None:
    store = Store.open(recorded)
    with pytest.raises(StoreError, match="Did you mean 'shard-000001'"):
        store.shard("shard-00001")
    with pytest.raises(StoreError, match="numbered from 0; there is no 2"):
        store.shard(2)


def test_an_invalid_batch_is_refused_and_nothing_added(recorded: Path) -> None:
    batch = example_batch(seed=5)
    broken = replace(batch, columns={**batch.columns, "action": np.full(batch.num_rows, -1, np.int16)})
    with StoreWriter.open(recorded, batch.header, "other") as writer:
        with pytest.raises(SchemaError, match="action of row 0 is negative"):
            writer.append(broken)
        with pytest.raises(StoreError, match="encoding: the store has"):
            writer.append(example_batch("bits/1"))
    report = verify_store(Store.open(recorded))
    assert report.num_shards == 2 and not report.leftovers


def test_a_closed_writer_writes_no_more(recorded: Path) -> None:
    writer = StoreWriter.open(recorded, example_header())
    writer.close()
    with pytest.raises(StoreError, match="is closed"):
        writer.append(example_batch())
    writer.close()


def test_numbers_are_not_used_twice(recorded: Path) -> None:
    batches = consecutive_batches(2)
    with StoreWriter.open(recorded, batches[0].header) as writer:
        writer.retract(writer.shards)
        names = [writer.append(batch).name for batch in batches]
    assert names == ["shard-000002", "shard-000003"]
    with pytest.raises(CorruptShardError, match="retracted just now"):  # to whoever opened it before
        Store(recorded, batches[0].header, [replace(writer.shards[0], name="shard-000000")]).shard(0)


def test_what_was_verified_is_remembered_until_the_file_changes(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = checksums.verify
    monkeypatch.setattr(checksums, "verify", lambda path, *rest: (read.append(path.name), real(path, *rest)))
    Store.open(recorded).shard(0)
    Store.open(recorded).shard(0)
    assert len(read) == 2, "a file that changed a moment ago is not believed to stay so"
    monkeypatch.setattr(checksums, "CLOCK_STEP_NS", 0)
    read.clear()
    for _ in range(3):
        store = Store.open(recorded)
        store.shard(0)
        store.shard(0)
    assert read == ["shard-000000.arrow"]
    path = recorded / "shards" / "shard-000000.arrow"
    time.sleep(0.02)
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptShardError, match=r"is damaged: its SHA-256 is .*, it was published with"):
        store.shard(0)


def test_a_folder_that_cannot_be_written_to_is_read_all_the_same(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise WriteError("read-only")

    monkeypatch.setattr(checksums, "CLOCK_STEP_NS", 0)
    monkeypatch.setattr(checksums, "write_json", refuse)
    assert Store.open(recorded).shard(0).num_rows > 0


def test_other_providers_of_the_same_layout_may_share_a_store(recorded: Path) -> None:
    header = example_header()
    other = replace(header, provenance=replace(header.provenance, seed=9, config_sha256="c" * 64))
    batch = replace(example_batch(), header=other)
    with StoreWriter.open(recorded, other, "other") as writer:
        name = writer.append(batch).name
    assert Store.open(recorded).shard_header(name).provenance.seed == 9


def test_export_never_overwrites(recorded: Path, tmp_path: Path) -> None:
    store = Store.open(recorded)
    assert [path.name for path in store.export(tmp_path / "npz", ["shard-000001"])] == ["shard-000001.npz"]
    with pytest.raises(StoreError, match=r"shard-000001.npz exists"):
        store.export(tmp_path / "npz")


def test_archives_are_checked_and_restored(recorded: Path) -> None:
    before = (recorded / "shards" / "shard-000000.arrow").read_bytes()
    store = Store.open(recorded)
    store.archive()
    store.archive()
    assert verify_store(Store.open(recorded)).ok
    assert not list((recorded / "shards").glob("*.arrow")), "verify leaves an archive archived"
    packed = recorded / "shards" / "shard-000001.arrow.zst"
    whole = packed.read_bytes()
    packed.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorruptShardError, match=r"shard-000001.arrow.zst"):
        Store.open(recorded).shard(1)
    report = verify_store(Store.open(recorded))
    assert len(report.defects) == 1 and not report.leftovers
    packed.write_bytes((recorded / "shards" / "shard-000000.arrow.zst").read_bytes())
    with pytest.raises(CorruptShardError, match=r"shard-000001\.arrow\.zst is damaged: decompressed, its SHA-256"):
        Store.open(recorded).shard(1)
    assert not (recorded / "shards" / "shard-000001.arrow").exists()
    packed.write_bytes(whole)
    Store.open(recorded).restore()
    assert (recorded / "shards" / "shard-000000.arrow").read_bytes() == before
    assert not list((recorded / "shards").glob("*.zst"))


def damaged_sidecar(root: Path, **changes: object) -> None:
    path = root / "shards" / "shard-000001.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_verify_names_every_defect(recorded: Path) -> None:
    assert verify_store(Store.open(recorded)).ok
    damaged_sidecar(recorded, num_rows=7)
    (defect,) = verify_store(Store.open(recorded)).defects
    assert "shard-000001" in defect and "'num_rows': 7" in defect
    (recorded / "shards" / "shard-000001.json").unlink()
    (defect,) = verify_store(Store.open(recorded)).defects
    assert "shard-000001.json is gone" in defect


def test_verify_follows_segments_over_shards(tmp_path: Path) -> None:
    first, second = consecutive_batches(2)
    observations = np.array(second.columns["obs_tile"])
    start = second.segments.row_start[np.flatnonzero(second.segments.continues_from >= 0)[0]]
    observations[start] = (observations[start] + 1) % 186
    changed = replace(second, columns={**second.columns, "obs_tile": observations})
    with StoreWriter.open(tmp_path, first.header) as writer:
        writer.append(first)
        writer.append(changed)
    (defect,) = verify_store(Store.open(tmp_path)).defects
    assert "stops with another observation" in defect


def test_verify_names_the_segments_after_a_damaged_shard_in_one_line(tmp_path: Path) -> None:
    first, second = consecutive_batches(2)
    with StoreWriter.open(tmp_path, first.header) as writer:
        writer.append(first)
        writer.append(second)
    continued = int((second.segments.continues_from >= 0).sum())
    assert continued > 1
    with (tmp_path / "shards" / "shard-000000.arrow").open("r+b") as file:
        file.seek(1000)
        byte = file.read(1)
        file.seek(1000)
        file.write(bytes([byte[0] ^ 1]))
    damaged, orphaned = verify_store(Store.open(tmp_path)).defects
    assert "shard-000000" in damaged
    assert "in a damaged shard" in orphaned and f"and so on for {continued - 1} more" in orphaned


def test_verify_tells_leftovers_and_the_next_writer_removes_its_own(recorded: Path) -> None:
    shards = recorded / "shards"
    orphan = shards / "shard-000009.arrow"
    mine, theirs = shards / ".main.arrow.0badcafe.tmp", shards / ".other.arrow.0badcafe.tmp"
    for path in (orphan, mine, theirs):
        path.write_bytes(b"half a shard")
    report = verify_store(Store.open(recorded))
    assert report.ok and set(report.leftovers) == {orphan, mine, theirs}
    StoreWriter.open(recorded, example_header()).close()
    assert not orphan.exists() and not mine.exists()
    assert theirs.exists(), "another writer may be writing it right now"


def test_a_store_of_a_newer_program_is_not_opened(recorded: Path) -> None:
    path = recorded / "manifest.json"
    data = json.loads(path.read_text())
    data["header"]["schema_version"] = "2.0"
    path.write_text(json.dumps(data))
    with pytest.raises(VersionError, match=r"manifest\.json has schema 2.0"):
        Store.open(recorded)
    with pytest.raises(VersionError, match=r"manifest\.json has schema 2.0"):
        StoreWriter.open(recorded, example_header())


def test_a_spoilt_manifest_is_named(recorded: Path) -> None:
    (recorded / "manifest.json").write_text("{")
    with pytest.raises(StoreError, match=r"manifest\.json is not valid JSON"):
        Store.open(recorded)


def test_returns_of_complete_episodes_go_over_shards(tmp_path: Path) -> None:
    batches = consecutive_batches(4, seed=3)
    with StoreWriter.open(tmp_path, batches[0].header) as writer:
        for batch in batches:
            writer.append(batch)
    running: dict[tuple[int, int], float] = {}
    expected = []
    for batch in batches:  # every slot from its first step, so every episode that ends is complete
        for i, ending in enumerate(batch.segments.ending):
            episode = (int(batch.segments.env_slot[i]), int(batch.segments.episode_id[i]))
            total = running.pop(episode, 0.0) + batch.columns["reward"][batch.rows_of(i)].astype(float).sum()
            if ending == "cut":
                running[episode] = total
            else:
                expected.append(total)
    returns = complete_returns(Store.open(tmp_path))
    assert returns.num_complete == len(expected)
    assert returns.mean == pytest.approx(np.mean(expected))


def test_a_header_that_no_rows_can_have_is_refused_before_any_are_recorded(tmp_path: Path) -> None:
    header = example_header()
    foreign = replace(header, provenance=replace(header.provenance, layout_sha256="f" * 64))
    for wrong, message in (
        (foreign, "layout_sha256 is ffff"),
        (replace(header, schema_version="1.9"), r"schema 1\.9; this program writes 1\.0"),
        (replace(header, encoding="craftax_symbolic"), "Did you mean 'craftax_symbolic/1'"),
    ):
        with pytest.raises(SchemaError, match=message):
            StoreWriter.open(tmp_path / "store", wrong)
        with pytest.raises(SchemaError, match=message):
            SegmentBuilder(wrong, [0])
    assert not (tmp_path / "store").exists()


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="fix the permission"):
        StoreWriter.open(tmp_path / "file" / "store", example_header())


def test_writers_that_make_a_store_at_the_same_time(tmp_path: Path) -> None:
    header = example_header()

    def make(store: Path, name: str) -> None:
        StoreWriter.open(store, header, name).close()

    with ThreadPoolExecutor(4) as pool:
        for number in range(10):
            list(pool.map(make, [tmp_path / f"store-{number}"] * 4, "abcd"))
