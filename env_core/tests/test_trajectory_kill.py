"""Real processes, really killed: readers see whole shards only, and the next writer goes on."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from env_core.errors import WriteError
from env_core.testing.store_conformance import consecutive_batches
from env_core.trajectory.inspection import verify_store
from env_core.trajectory.store import Store, StoreWriter

HERE = Path(__file__).parent


def start_writer(store: Path, name: str, seed: int, count: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "append_for_ever.py"), str(store), name, str(seed), str(count)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("what", ["append", "retract"])
def test_a_kill_at_every_point(tmp_path: Path, what: str) -> None:
    script = str(HERE / "every_crash_point.py")
    result = subprocess.run([sys.executable, script, str(tmp_path), what], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 10


def test_kills_at_random_moments_while_another_reads(tmp_path: Path) -> None:
    moments = random.Random(0)
    seen = 0
    for seed in range(8):
        process, before = start_writer(tmp_path, "main", seed), seen
        until = time.monotonic() + moments.uniform(0, 0.15)
        while time.monotonic() < until or seen == before:
            count = sum(1 for _ in Store.open(tmp_path).batches())
            assert count >= seen
            seen = count
        process.send_signal(signal.SIGKILL)
        process.wait()
        store = Store.open(tmp_path)
        assert [batch.num_rows for batch in store.batches()] == [shard.num_rows for shard in store.shards]
    assert seen >= 8
    report = verify_store(Store.open(tmp_path))
    assert report.ok, report.defects


def test_two_processes_append_to_one_store(tmp_path: Path) -> None:
    processes = [start_writer(tmp_path, name, seed, count=12) for seed, name in enumerate(("left", "right"))]
    assert [process.wait() for process in processes] == [0, 0]
    store = Store.open(tmp_path)
    assert sorted(shard.writer for shard in store.shards) == ["left"] * 12 + ["right"] * 12
    report = verify_store(store)
    assert report.ok and not report.leftovers, report


def test_a_killed_writer_gives_its_name_back(tmp_path: Path) -> None:
    process = start_writer(tmp_path, "main", 0)
    process.kill()
    process.wait()
    start_writer(tmp_path, "main", 1, count=len(Store.open(tmp_path).shards) + 1).wait()
    assert verify_store(Store.open(tmp_path)).ok


FULL_DISK = """
import resource, sys
from env_core.errors import WriteError
from env_core.testing.store_conformance import consecutive_batches
from env_core.trajectory.store import StoreWriter
batches = consecutive_batches(2)
with StoreWriter.open(sys.argv[1], batches[0].header) as writer:
    writer.append(batches[0])
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
    try:
        writer.append(batches[1])
    except WriteError as error:
        sys.stdout.write(str(error))
"""


def test_a_write_that_the_system_refuses_half_way(tmp_path: Path) -> None:
    store = tmp_path / "store"
    result = subprocess.run([sys.executable, "-c", FULL_DISK, str(store)], capture_output=True, text=True, check=True)
    assert "File too large" in result.stdout and "what was there is intact" in result.stdout
    report = verify_store(Store.open(store))
    assert report.ok and report.num_shards == 1 and not report.leftovers


def test_a_manifest_that_cannot_be_written_is_made_up_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    batches = consecutive_batches(2)
    with StoreWriter.open(tmp_path, batches[0].header) as writer:
        with monkeypatch.context() as patch:

            def refuse(*_: object) -> None:
                raise WriteError("no room")

            patch.setattr("env_core.trajectory.writer.write_manifest", refuse)
            writer.append(batches[0])
        assert "manifest is behind" in caplog.text
        assert len(Store.open(tmp_path).shards) == 1
        writer.append(batches[1])
    (tmp_path / "manifest.json").unlink()  # all of it can be told from the sidecars
    assert [a.equals(b) for a, b in zip(Store.open(tmp_path).batches(), batches, strict=True)] == [True] * 2
