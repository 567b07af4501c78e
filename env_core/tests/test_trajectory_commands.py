"""The program `trajectories`: what it prints and the status it leaves."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from env_core.testing.store_conformance import consecutive_batches
from env_core.trajectory.__main__ import main
from env_core.trajectory.codecs.npz import read_npz
from env_core.trajectory.groups import write_column_group
from env_core.trajectory.store import Store, StoreWriter


@pytest.fixture
def store(tmp_path: Path) -> Path:
    batches = consecutive_batches(2)
    with StoreWriter.open(tmp_path / "store", batches[0].header) as writer:
        for batch in batches:
            writer.append(batch)
    return tmp_path / "store"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return int(stopped.value.code or 0), printed.out, printed.err


def test_info(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened = Store.open(store)
    write_column_group(opened, "return_to_go", "g", 0, {"value": np.zeros(opened.shards[0].num_rows)}, {})
    status, out, _ = run(capsys, "info", store)
    assert status == 0
    for text in (
        "Craftax-Symbolic-v1",
        "craftax_symbolic/1, schema 1.0",
        "72 in 91 rows",
        "mean return",
        "writer main",
    ):
        assert text in out
    assert re.search(r"^columns return_to_go/g +1 of 2 shards$", out, re.MULTILINE)


def test_info_json(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "info", "--json", store)
    summary = json.loads(out)
    assert status == 0
    assert (summary["shards"], summary["rows"], summary["steps"]) == (2, 91, 72)
    assert summary["writers"]["main"]["provenance"]["seed"] == 0
    assert summary["episodes_finished"] == summary["endings"]["terminated"] + summary["endings"]["truncated"]


def test_verify_is_silent_about_a_good_store_and_names_what_is_wrong(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "verify", store) == (0, f"{store}: 2 shards, 91 rows read, all good\n", "")
    path = store / "shards" / "shard-000001.arrow"
    path.write_bytes(path.read_bytes()[:-1])
    status, out, _ = run(capsys, "verify", store)
    assert status == 1
    assert "defect: shard-000001" in out and "1 defects" in out


def test_verify_shows_progress_on_a_terminal(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _, _, err = run(capsys, "verify", store)
    assert "shard-000001" in err and "(100%)" in err


def test_export_and_archive(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(
        capsys, "export", store, "--format", "npz", "--out", tmp_path / "npz", "--shards", "shard-000001"
    )
    assert (status, out) == (0, f"1 npz files in {tmp_path / 'npz'}\n")
    assert read_npz(tmp_path / "npz" / "shard-000001.npz").equals(Store.open(store).shard(1))
    assert "2 shards archived" in run(capsys, "archive", store)[1]
    assert run(capsys, "archive", store, "--restore")[:2] == (0, "2 shards restored\n")


def test_what_cannot_be_done_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "info", tmp_path / "nowhere")
    assert (status, out) == (2, "")
    assert err.startswith("error: There is no trajectory store at") and err.count("\n") == 1


def test_help_tells_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--help")
    assert status == 0
    assert all(command in out for command in ("info", "verify", "export", "archive", "usage: trajectories"))


def test_it_runs_as_a_module(store: Path) -> None:
    command = [sys.executable, "-m", "env_core.trajectory", "verify", str(store)]
    assert "all good" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
