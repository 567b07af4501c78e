"""What is said of episodes: by hand for three of them, as a table, and as a folder of files."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluated import many_episodes, three_episodes

from env_core.errors import ConfigError
from env_core.evaluation import Episodes, summarise, table, write_report
from env_core.evaluation.summary import differences, ranked_achievements
from env_core.evaluation.tables import aligned, with_interval

FILES = ["episodes-greedy.npz", "episodes-sampled.npz", "evaluation.json", "evaluation.png", "evaluation.txt"]


def _values(summary: dict[str, Any]) -> dict[str, float]:
    return {name: cell["value"] for name, cell in summary.items() if isinstance(cell, dict) and "value" in cell}


def test_a_summary_by_hand() -> None:
    summary = summarise(three_episodes(), resamples=500)
    assert _values(summary) == pytest.approx(
        {
            "return_mean": 3.0,
            "return_iqm": 3.0,  # of three, nothing is cut
            "return_percent": 30.0,
            "length": 30.0,
            "achievements": 5 / 3,
            "deepest_floor": 1.0,
            "terminated": 2 / 3,
        }
    )
    assert _values(summary["floor_reached"]) == pytest.approx({"1": 2 / 3, "2": 1 / 3})
    assert _values(summary["achievement_rate"]) == pytest.approx(
        {"collect_wood": 1.0, "place_table": 2 / 3, "eat_cow": 0.0}
    )
    assert (summary["num_episodes"], summary["return_min"], summary["return_max"]) == (3, 1.0, 6.0)
    assert summary["provenance"] == {"policy": "sampled", "step": 1_000_000}
    assert summary["return_mean"]["low"] < 3 < summary["return_mean"]["high"]
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_floors_that_only_others_reached_are_zeros_in_a_report(tmp_path: Path) -> None:
    conditions = {"deep": three_episodes(), "shallow": three_episodes(deepest_floor=[0, 0, 1])}
    report = write_report(tmp_path, conditions, resamples=50)
    assert _values(report["conditions"]["deep"]["floor_reached"]) == pytest.approx({"1": 2 / 3, "2": 1 / 3})
    assert _values(report["conditions"]["shallow"]["floor_reached"]) == pytest.approx({"1": 1 / 3, "2": 0.0})


def test_one_episode_has_means_without_bounds() -> None:
    summary = summarise(many_episodes(1, 5))
    assert summary["return_mean"]["low"] is None
    assert summary["return_iqm"]["high"] is None
    json.dumps(summary, allow_nan=False)


def test_differences_pair_the_same_worlds() -> None:
    """Worlds 8 and 7 are shared: their differences are 2 - 5 and 1 - 3."""
    other = three_episodes(returns=[5.0, 3.0, 50.0], seeds=np.array([8, 7, 1], np.uint64))
    (difference,) = differences({"a": three_episodes(), "b": other}, resamples=500)
    assert (difference["of"], difference["minus"], difference["pairs"]) == ("a", "b", 2)
    assert difference["return"] == pytest.approx({"value": -2.5, "low": -3.0, "high": -2.0})


@pytest.mark.parametrize("seeds", [[1, 2, 3], [7, 7, 8]], ids=["no world in common", "a world played twice"])
def test_without_pairs_there_is_no_difference(seeds: list[int]) -> None:
    other = three_episodes(seeds=np.array(seeds, np.uint64))
    assert differences({"a": three_episodes(), "b": other}) == []


def test_the_table_has_a_column_for_each_condition() -> None:
    summaries = {"sampled": summarise(three_episodes()), "greedy": summarise(many_episodes(1, 2))}
    lines = table(summaries).splitlines()
    assert lines[0].split() == ["sampled", "greedy"]
    rows = {line.split("  ")[0]: line for line in lines}
    assert rows["episodes"].split() == ["episodes", "3", "1"]
    assert "3.00 [1.00, 6.00]" in rows["return"]
    assert rows["place table, %"].split()[3:] == ["66.7", "[20.8,", "93.9]", "–"]
    assert any(line.startswith("Never unlocked (2): eat_cow") for line in lines)
    assert len({len(line) for line in lines[:3]}) == 1
    with pytest.raises(ConfigError, match="no summaries"):
        table({})


def test_achievements_come_by_their_highest_rate() -> None:
    low, high = summarise(three_episodes()), summarise(three_episodes(achievements=np.eye(3, dtype=bool)))
    assert list(ranked_achievements({"a": high})) == ["collect_wood", "place_table", "eat_cow"]
    assert list(ranked_achievements({"a": low, "b": high}).values()) == pytest.approx([1, 2 / 3, 1 / 3])


def test_cells() -> None:
    assert with_interval({"value": 0.5, "low": 0.25, "high": 1.0}, 1, 100) == "50.0 [25.0, 100.0]"
    assert with_interval({"value": 0.5, "low": None, "high": None}) == "0.50"
    assert with_interval({"value": None, "low": None, "high": None}) == "–"
    assert with_interval(None) == "–"
    assert aligned([["a", "1"], ["bcd", "22"], ["", ""]]) == "a     1\nbcd  22\n\n"


def _size(png: Path) -> tuple[int, int]:
    header = png.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", header[16:24])
    return width, height


def test_a_report_is_a_folder_of_files(tmp_path: Path) -> None:
    conditions = {"sampled": many_episodes(30, 40), "greedy": many_episodes(20, 40, seed=1)}
    report = write_report(tmp_path / "report", conditions, resamples=200)
    assert sorted(file.name for file in (tmp_path / "report").iterdir()) == FILES
    assert json.loads((tmp_path / "report" / "evaluation.json").read_text()) == report
    assert list(report["conditions"]) == ["sampled", "greedy"]
    assert report["differences"][0]["pairs"] == 20
    text = (tmp_path / "report" / "evaluation.txt").read_text()
    assert text == table(report["conditions"], report["differences"])
    assert "Return of sampled minus greedy, in the same 20 worlds" in text
    width, height = _size(tmp_path / "report" / "evaluation.png")
    assert width > 1500 and height > 800  # about 33 achievements in two columns, two bars each
    loaded = Episodes.load(tmp_path / "report" / "episodes-greedy.npz")
    np.testing.assert_array_equal(loaded.returns, conditions["greedy"].returns)


def test_a_report_of_next_to_nothing(tmp_path: Path) -> None:
    nothing = three_episodes(achievements=np.zeros((3, 3), bool), deepest_floor=[0, 0, 0], returns=[0.0, 0.0, 0.0])
    write_report(tmp_path, {"sampled": nothing}, resamples=50)
    assert _size(tmp_path / "evaluation.png")[0] > 1500
    assert "Never unlocked (3)" in (tmp_path / "evaluation.txt").read_text()


def test_reports_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no episodes to report"):
        write_report(tmp_path, {})
    with pytest.raises(ConfigError, match="part of a file's name"):
        write_report(tmp_path, {"../greedy": three_episodes()})
    with pytest.raises(ConfigError, match="one environment"):
        write_report(tmp_path, {"a": three_episodes(), "b": three_episodes(env_name="Craftax-Classic-Symbolic-v1")})
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_numbers_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match="extra `plots`"):
        write_report(tmp_path, {"sampled": three_episodes()}, resamples=50)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "episodes-sampled.npz",
        "evaluation.json",
        "evaluation.txt",
    ]
