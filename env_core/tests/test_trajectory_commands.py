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


def test_info_tells_what_the_sidecars_say_of_a_damaged_store(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = json.loads(run(capsys, "info", "--json", store)[1])
    assert whole["defects"] == []
    path = store / "shards" / "shard-000000.arrow"
    path.write_bytes(path.read_bytes()[:-1])
    status, out, err = run(capsys, "info", store)
    assert (status, err) == (1, "")
    *told, last = out.splitlines()
    assert any("72 in 91 rows" in line for line in told) and any("git_revision" in line for line in told)
    assert re.fullmatch(r"defect: shard-000000: .*shard-000000\.arrow is damaged: .*", last)
    status, out, _ = run(capsys, "info", "--json", store)
    damaged = json.loads(out)
    assert status == 1 and len(damaged["defects"]) == 1
    assert damaged["complete_episodes"] < whole["complete_episodes"]
    assert {n for n in whole if whole[n] != damaged[n]} == {"defects", "complete_episodes", "mean_return"}


def test_info_without_a_sidecar(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "shards" / "shard-000001.json").unlink()
    status, out, _ = run(capsys, "info", store)
    assert status == 1 and "72 in 91 rows" in out
    assert out.splitlines()[-1].startswith("defect: shard-000001: ")


@pytest.mark.parametrize(
    ("arguments", "shares"),  # of each shard
    [
        (["info"], [0, 1]),
        (["verify"], [0, 1]),
        (["export", "--out", "{folder}"], [0, 1]),
        (["archive"], [0, 1 / 3, 2 / 3, 1]),
        (["archive", "--restore"], [0, 1 / 2]),  # nothing to decompress
    ],
)
def test_progress_shows_on_a_terminal(
    store: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    shares: list[float],
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    status, _, err = run(capsys, *(a.format(folder=tmp_path / "npz") for a in arguments), store)
    lines = err.split("\r\033[K")
    assert status == 0 and lines[0] == lines[-1] == ""
    first, second = (shard.num_bytes for shard in Store.open(store).shards)
    done = [first * share for share in shares] + [first + second * share for share in shares]
    assert [line.rpartition("  ")[2] for line in lines[1:-1]] == [
        f"0 of 0 MB ({part / (first + second):.0%})" for part in done
    ]
    assert lines[1].startswith("shard-000000 (1 of 2) ") and lines[-2].startswith("shard-000001 (2 of 2) ")


def test_progress_counts_the_shards_that_were_asked_for(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _, _, err = run(capsys, "export", store, "--out", tmp_path / "npz", "--shards", "shard-000001")
    assert "shard-000001 (1 of 1)  0 of 0 MB (100%)" in err and "shard-000000" not in err


def test_a_failure_takes_the_progress_line_away_first(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    (store / "shards" / "shard-000000.arrow").write_bytes(b"nothing")
    status, _, err = run(capsys, "archive", store)
    assert status == 2
    assert re.fullmatch(r"\r\033\[Kerror: .* is damaged: .*\n", err[err.rindex("\r") :])


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
