"""What any trajectory store must do, as pytest tests to inherit.

```python
class TestMyStore(StoreConformance):
    def open_writer(self, path, header, writer="main"): ...
    def open_store(self, path): ...
```
The defaults open `env_core.trajectory.store`. Replace `disk_full` too for a store that does not call `os.fsync`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar
from unittest import mock

import numpy as np

from env_core.errors import CorruptShardError, StoreError, VersionError, WorkspaceError, WriteError
from env_core.testing.examples import ExampleRecorder, example_batch, example_header
from env_core.testing.rewriting import rewrite_shard
from env_core.trajectory.batch import Header, TrajectoryBatch
from env_core.trajectory.builder import SegmentBuilder
from env_core.trajectory.codecs.npz import read_npz
from env_core.trajectory.groups import list_groups, read_column_group, write_column_group
from env_core.trajectory.manifest import shard_path
from env_core.trajectory.schema import ENCODINGS
from env_core.trajectory.store import Store, StoreWriter

E = TypeVar("E", bound=WorkspaceError)


def refused(kind: type[E], action: Callable[[], object]) -> str:
    """The message with which `action` raises `kind`; fails if it does not."""
    try:
        action()
    except kind as error:
        return str(error)
    raise AssertionError(f"expected {kind.__name__}")


def consecutive_batches(count: int, seed: int = 0) -> list[TrajectoryBatch]:
    """Batches that one recorder built one after the other, so that segments go on from each to the next."""
    header = example_header(seed=seed)
    recorder, builder = ExampleRecorder(header, 3, seed), SegmentBuilder(header, range(3))
    batches = []
    for _ in range(count):
        builder.add(recorder.rollout(12))
        batches.append(builder.build())
    return batches


class StoreConformance:
    """The tests. Each gets an empty folder, `tmp_path`."""

    def open_writer(self, path: Path, header: Header, writer: str = "main") -> StoreWriter:
        """Opens a store for appending."""
        return StoreWriter.open(path, header, writer)

    def open_store(self, path: Path) -> Store:
        """Opens a store for reading."""
        return Store.open(path)

    def disk_full(self) -> AbstractContextManager[object]:
        """While open, whatever is to reach the disk does not."""
        return mock.patch("os.fsync", side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def test_what_was_appended_is_read(self, tmp_path: Path) -> None:
        for encoding in ENCODINGS:
            batch = example_batch(encoding, num_streams=2)
            path = tmp_path / encoding.replace("/", "-")
            with self.open_writer(path, batch.header) as writer:
                info = writer.append(batch)
            store = self.open_store(path)
            assert store.shards == (info,)
            assert store.shard(0).equals(batch)
            assert store.shard(info.name).header == batch.header
            assert (store.totals.num_rows, store.totals.num_steps) == (batch.num_rows, batch.num_steps)

    def test_segments_go_on_over_shards(self, tmp_path: Path) -> None:
        batches = consecutive_batches(3)
        self._record(tmp_path, batches)
        read = list(self.open_store(tmp_path).batches())
        assert [a.equals(b) for a, b in zip(read, batches, strict=True)] == [True] * 3
        ids = np.concatenate([batch.segments.segment_id for batch in read])
        assert np.array_equal(ids, np.arange(len(ids)))
        assert (read[1].segments.continues_from >= 0).any()

    def test_a_full_disk_adds_nothing_and_harms_nothing(self, tmp_path: Path) -> None:
        first, second = consecutive_batches(2)
        with self.open_writer(tmp_path, first.header) as writer:
            writer.append(first)
            before = _files(tmp_path)
            with self.disk_full():
                refused(WriteError, lambda: writer.append(second))
            assert _files(tmp_path) == before
            assert [batch.equals(first) for batch in self.open_store(tmp_path).batches()] == [True]
            writer.append(second)
        assert self.open_store(tmp_path).shard(1).equals(second)

    def test_two_writers_append_at_the_same_time(self, tmp_path: Path) -> None:
        batches = {name: consecutive_batches(6, seed) for seed, name in enumerate(("left", "right"))}

        def record(name: str) -> None:
            with self.open_writer(tmp_path, batches[name][0].header, name) as writer:
                for batch in batches[name]:
                    writer.append(batch)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(record, batches))
        store = self.open_store(tmp_path)
        assert len({shard.name for shard in store.shards}) == 12
        for name, written in batches.items():
            own = [store.shard(shard.name) for shard in store.shards if shard.writer == name]
            assert [a.equals(b) for a, b in zip(own, written, strict=True)] == [True] * 6

    def test_a_writer_name_is_exclusive_while_open(self, tmp_path: Path) -> None:
        header = example_header()
        with self.open_writer(tmp_path, header):
            assert "another writer name" in refused(StoreError, lambda: self.open_writer(tmp_path, header))
        self.open_writer(tmp_path, header).close()

    def test_other_rows_are_refused_and_the_difference_named(self, tmp_path: Path) -> None:
        self._record(tmp_path, consecutive_batches(1))
        other = example_header("craftax_classic_symbolic/1")
        message = refused(StoreError, lambda: self.open_writer(tmp_path, other, "other"))
        assert all(name in message for name in ("env_id", "layout_sha256", "encoding"))

    def test_rows_cannot_be_doubled(self, tmp_path: Path) -> None:
        (batch,) = consecutive_batches(1)
        self._record(tmp_path, [batch])
        with self.open_writer(tmp_path, batch.header) as writer:
            assert "retract" in refused(StoreError, lambda: writer.append(batch))
        assert len(self.open_store(tmp_path).shards) == 1

    def test_every_flipped_bit_is_noticed(self, tmp_path: Path) -> None:
        self._record(tmp_path, consecutive_batches(2))
        store = self.open_store(tmp_path)
        path = shard_path(tmp_path, store.shards[0].name)
        whole = path.read_bytes()
        random = np.random.default_rng(0)
        for position in random.choice(len(whole), 100, replace=False):
            store.shard(0)  # whole, and remembered as such
            flipped = bytearray(whole)
            flipped[position] ^= 1 << random.integers(8)
            path.write_bytes(flipped)
            assert path.name in refused(CorruptShardError, lambda: self.open_store(tmp_path).shard(0))
            path.write_bytes(whole)
        assert self.open_store(tmp_path).shard(0).num_rows == store.shards[0].num_rows

    def test_a_truncated_shard_is_refused_or_skipped_and_counted(self, tmp_path: Path) -> None:
        batches = consecutive_batches(3)
        self._record(tmp_path, batches)
        store = self.open_store(tmp_path)
        name = store.shards[1].name
        os.truncate(shard_path(tmp_path, name), 1000)
        assert name in refused(CorruptShardError, lambda: list(store.batches()))
        read = list(store.batches(skip_corrupt=True))
        assert [a.equals(b) for a, b in zip(read, batches[::2], strict=True)] == [True] * 2
        assert store.skipped == [name]

    def test_a_missing_shard_is_an_error_and_no_omission(self, tmp_path: Path) -> None:
        self._record(tmp_path, consecutive_batches(2))
        for path in (tmp_path / "shards").glob("shard-000000.*"):
            path.unlink()
        store = self.open_store(tmp_path)
        assert len(store.shards) == 2
        refused(CorruptShardError, lambda: list(store.batches()))

    def test_a_newer_major_version_is_refused(self, tmp_path: Path) -> None:
        self._record(tmp_path, consecutive_batches(1))
        rewrite_shard(tmp_path, "shard-000000", header={"schema_version": "2.0"})
        assert "2.0" in refused(VersionError, lambda: self.open_store(tmp_path).shard(0))

    def test_a_newer_minor_version_is_read_without_its_new_columns(self, tmp_path: Path) -> None:
        (batch,) = consecutive_batches(1)
        self._record(tmp_path, [batch])
        extra = {"mood": np.zeros(batch.num_rows, np.float32)}
        rewrite_shard(tmp_path, "shard-000000", header={"schema_version": "1.7", "weather": "fine"}, columns=extra)
        read = self.open_store(tmp_path).shard(0)
        assert "mood" not in read.columns
        assert all(np.array_equal(read.columns[name], column) for name, column in batch.columns.items())

    def test_an_unknown_required_feature_is_refused(self, tmp_path: Path) -> None:
        self._record(tmp_path, consecutive_batches(1))
        rewrite_shard(tmp_path, "shard-000000", header={"required_features": ["half_steps"]})
        assert "half_steps" in refused(VersionError, lambda: self.open_store(tmp_path).shard(0))

    def test_retracted_shards_are_gone_and_recorded_again(self, tmp_path: Path) -> None:
        batches = consecutive_batches(3)
        self._record(tmp_path, batches)
        with self.open_writer(tmp_path, batches[0].header) as writer:
            writer.retract(writer.shards[1:])
            assert [batch.equals(batches[0]) for batch in self.open_store(tmp_path).batches()] == [True]
            for batch in batches[1:]:
                writer.append(batch)
        read = list(self.open_store(tmp_path).batches())
        assert [a.equals(b) for a, b in zip(read, batches, strict=True)] == [True] * 3

    def test_a_writer_retracts_only_its_own(self, tmp_path: Path) -> None:
        self._record(tmp_path, consecutive_batches(1))
        with self.open_writer(tmp_path, example_header(), "other") as writer:
            refused(StoreError, lambda: writer.retract(["shard-000000"]))
        assert len(self.open_store(tmp_path).shards) == 1

    def test_column_groups_belong_to_their_rows(self, tmp_path: Path) -> None:
        batches = consecutive_batches(2)
        self._record(tmp_path, batches)
        store = self.open_store(tmp_path)
        values = np.arange(batches[0].num_rows, dtype=np.float32)
        assert write_column_group(store, "return_to_go", "g", 0, {"value": values}, {"gamma": 0.99})
        assert not write_column_group(store, "return_to_go", "g", 0, {"value": -values}, {"gamma": 0.99})
        assert np.array_equal(read_column_group(store, "return_to_go", "g", 0).columns["value"], values)
        assert list_groups(store)[0].shards == ("shard-000000",)
        other = {"gamma": 0.9}
        assert "gamma" in refused(
            StoreError, lambda: write_column_group(store, "return_to_go", "g", 0, {"value": values}, other)
        )

    def test_npz_and_arrow_are_exact_both_ways(self, tmp_path: Path) -> None:
        for encoding in ENCODINGS:
            batch = example_batch(encoding, num_streams=3)
            path = tmp_path / encoding.replace("/", "-")
            with self.open_writer(path, batch.header) as writer:
                writer.append(batch)
            (exported,) = self.open_store(path).export(path / "npz")
            with self.open_writer(path / "again", batch.header) as writer:
                writer.append(read_npz(exported))
            assert self.open_store(path / "again").shard(0).equals(batch)

    def test_an_archive_comes_back_on_first_use(self, tmp_path: Path) -> None:
        batches = consecutive_batches(2)
        self._record(tmp_path, batches)
        before = self.open_store(tmp_path)
        before.archive()
        assert not shard_path(tmp_path, "shard-000000").exists()
        store = self.open_store(tmp_path)
        assert store.shards == before.shards
        assert [a.equals(b) for a, b in zip(store.batches(), batches, strict=True)] == [True] * 2

    def _record(self, path: Path, batches: list[TrajectoryBatch]) -> None:
        with self.open_writer(path, batches[0].header) as writer:
            for batch in batches:
                writer.append(batch)


def _files(root: Path) -> dict[str, bytes]:
    """Every file of a store but its locks."""
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file() and p.suffix != ".lock"}
