"""The benchmark measures what it says: parts that add up to the whole, in a table and a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from probes import scribble
from small_runs import SMALL

from env_core.errors import RunError
from online_jax import assemble, bench, stopwatch
from online_jax.stopwatch import PARTS

SETTINGS = SMALL[: SMALL.index("--num-envs")] + SMALL[SMALL.index("--num-steps") :]
"""Those of the small run, but for the number of environments."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bench") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assemble, "make", scribble)
        bench.main(["--num-envs", "4", "--updates", "3", "--out", str(out), *SETTINGS])
    return out


@pytest.fixture
def result(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "bench.json").read_text())


def test_the_results_are_three_files(folder: Path, result: dict[str, Any]) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["bench.json", "bench.png", "bench.txt"]
    assert (folder / "bench.png").stat().st_size > 10_000
    assert (folder / "bench.txt").read_text() == bench.table(result)
    assert result["preset"] == "ppo" and result["platform"] == "cpu" and result["failed"] == {}
    assert [row["num_envs"] for row in result["rows"]] == [4]


def test_the_parts_add_up(result: dict[str, Any]) -> None:
    for row in result["rows"]:
        parts = row["seconds"]
        assert tuple(parts) == PARTS and min(parts.values()) >= 0
        assert parts["environment"] > 0 and parts["update"] > 0
        assert row["steps_per_second"] == pytest.approx(row["num_envs"] * 8 / row["update_seconds"])
        assert row["environment_steps_per_second"] == pytest.approx(row["num_envs"] * 8 / parts["environment"])
        total = sum(parts.values())  # more than the whole loop only where a difference was taken for 0
        assert total >= 0.99 * row["update_seconds"]
        assert row["compile_seconds"] > 0 and 50 < row["peak_memory_mb"] < 50_000


def test_a_size_that_does_not_fit_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def measure(settings: Any, *_: Any) -> stopwatch.Measured:
        if settings.num_envs > 128:
            raise RunError("too little memory")
        seconds = dict.fromkeys(PARTS, 0.25)
        return stopwatch.Measured(settings.num_envs, 64, 1, 7.0, 8192.0, 32768.0, seconds, 1.0, 0.5, 100.0, "process")

    monkeypatch.setattr(stopwatch, "measure", measure)
    bench.main(["--num-envs", "256", "128", "64", "128", "--out", str(tmp_path / "out"), "--quiet"])
    rows = json.loads((tmp_path / "out/bench.json").read_text())["rows"]
    assert [row["num_envs"] for row in rows] == [64, 128]
    said = (tmp_path / "out/bench.txt").read_text()
    assert " 128    8,192  32,768    25%  0.2500" in said
    assert "256 environments: too little memory" in said
    with pytest.raises(SystemExit):
        bench.main(["--num-envs", "256", "--out", str(tmp_path / "other"), "--quiet"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--updates", "0"], "--updates 0 must be at least 1"),
        (["--num-envs", "3", "--num-steps", "5"], "cannot be split"),
        (["nonsense"], "Unknown preset 'nonsense'"),
    ],
)
def test_wrong_settings_are_told_before_anything_is_measured(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        bench.main([*arguments, "--out", str(tmp_path / "out")])
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_folder_with_anything_in_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(SystemExit):
        bench.main(["--out", str(tmp_path)])
    assert "is not empty. Name another folder with --out." in capsys.readouterr().err
