"""Groups of runs: curves on a common grid and final scores worked out by hand, and the files that tell them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from env_core.errors import ConfigError, RunError
from env_core.evaluation import Comparison, Group, compare, write_comparison
from env_core.evaluation.comparison import Curve, binned, final_score, metric_files
from env_core.evaluation.comparison_report import comparison_table, notes
from env_core.run import MetricsLog


def _curve(steps: Sequence[float], values: Sequence[float], weights: Sequence[float] | None = None) -> Curve:
    return Curve("a", *(np.array(one, float) for one in (steps, values, weights or [1] * len(steps))))


def _run(path: Path, values: Sequence[float], every: int = 10, **more: Sequence[float]) -> Path:
    path.mkdir(parents=True)
    log = MetricsLog(path / "metrics.jsonl")
    for number, value in enumerate(values):
        rest = {name.replace("__", "/"): column[number] for name, column in more.items()}
        log.write((number + 1) * every, {"episode/return": value, **rest})
    log.close()
    return path


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        (_curve([10, 20, 30, 40], [1, 2, 3, 4]), [1, 2, 3, 4]),  # a line at an edge belongs to the bin that ends there
        (_curve([1, 9, 15, 40], [1, 3, 5, 9]), [2, 5, 7, 9]),  # a mean, then a straight line over the empty bin
        (_curve([5, 10, 40], [1, 4, 4], [2, 1, 1]), [2, 8 / 3, 10 / 3, 4]),  # a weighted mean
        (_curve([15, 25], [1, 2]), [np.nan, 1, 2, np.nan]),  # not begun, and ended
        (_curve([0, 40], [1, 4]), [1, 2, 3, 4]),
    ],
)
def test_binned_by_hand(curve: Curve, expected: list[float]) -> None:
    np.testing.assert_allclose(binned(curve, np.array([0.0, 10, 20, 30, 40])), expected)


@pytest.mark.parametrize(
    ("last", "weights", "expected"),
    [
        (0.1, None, 4.0),
        (0.25, None, 4.0),  # steps above 30
        (0.5, None, 3.5),
        (0.5, [1, 1, 3, 1], 3.25),
        (1.0, None, 2.5),
        (0.001, None, 4.0),  # the last line, however small the share
    ],
)
def test_final_scores_by_hand(last: float, weights: list[float] | None, expected: float) -> None:
    assert final_score(_curve([10, 20, 30, 40], [1, 2, 3, 4], weights), last) == pytest.approx(expected)


def test_a_group_is_the_mean_of_its_runs_where_all_have_a_value(tmp_path: Path) -> None:
    runs = [_run(tmp_path / "a", [1, 2, 3, 4]), _run(tmp_path / "b", [3, 4, 5])]
    (group,) = compare([Group("ppo", runs)], last=0.25, resamples=2_000).groups
    # Three bins of 13.3 steps, since the shorter run can fill no more; its last line, at 30, is in the third.
    np.testing.assert_allclose(group.curves, [[1, 2, 3.5], [3, 4, 5]])
    np.testing.assert_allclose(group.mean, [2, 3, 4.25])
    np.testing.assert_allclose([group.low, group.high], [[1, 2, 3.5], [3, 4, 5]])  # of two, a quarter each are alike
    np.testing.assert_allclose(group.finals, [4.0, 5.0])
    np.testing.assert_allclose(group.last_steps, [40, 30])
    assert group.final == pytest.approx((4.5, 4.0, 5.0))


def test_a_group_ends_with_its_shortest_run(tmp_path: Path) -> None:
    runs = [_run(tmp_path / "long", [1, 2, 3, 4]), _run(tmp_path / "short", [5, 6, 7, 8], every=5)]
    (group,) = compare([Group("ppo", runs)], resamples=50).groups
    np.testing.assert_allclose(group.mean, [(1 + 5.5) / 2, (2 + 7.5) / 2, np.nan, np.nan])


def test_returns_are_means_over_episodes_and_losses_over_lines(tmp_path: Path) -> None:
    run = _run(tmp_path / "a", [1, 5, float("nan")], episode__count=[3, 1, 0], ppo__loss=[1.0, 5.0, 9.0])
    (returns,) = compare([Group("a", [run])], "episode/return", last=1.0).groups
    (losses,) = compare([Group("a", [run])], "ppo/loss", last=1.0).groups
    (counts,) = compare([Group("a", [run])], "episode/count", last=1.0).groups
    assert returns.finals[0] == pytest.approx(2.0)
    assert losses.finals[0] == pytest.approx(5.0)
    assert counts.finals[0] == pytest.approx(4 / 3)


def test_a_run_of_several_seeds_counts_as_several(tmp_path: Path) -> None:
    for seed, value in [(0, 1.0), (2, 3.0), (10, 8.0)]:
        _run(tmp_path / "many" / "seeds" / str(seed), [value] * 4)
    (tmp_path / "many" / "metrics.jsonl").write_text('{"step": 1, "episode/return": 99.0}\n')
    assert list(metric_files(tmp_path / "many")) == ["many/0", "many/2", "many/10"]
    (group,) = compare([Group("ppo", [tmp_path / "many"])], resamples=50).groups
    np.testing.assert_allclose(group.finals, [1, 3, 8])


def _comparison(folder: Path) -> Comparison:
    better = [_run(folder / "runs" / f"b{seed}", [1, 2, 5 + seed]) for seed in range(2)]
    worse = [_run(folder / "runs" / f"w{seed}", [1, 2, 3 + 2 * seed]) for seed in range(2)]
    return compare([Group("better", better), Group("worse", worse), Group("alone", [_run(folder / "c", [1, 2, 9])])])


def test_improvement_is_told_for_both_sides(tmp_path: Path) -> None:
    comparison = _comparison(tmp_path)  # finals: 5, 6 against 3, 5
    assert comparison.improvement["better", "worse"].value == pytest.approx((1 + 0.5 + 1 + 1) / 4)
    assert comparison.improvement["worse", "better"].value == pytest.approx(0.5 / 4)
    assert np.isnan(comparison.improvement["better", "alone"].low)
    assert len(comparison.improvement) == 6


def test_the_table_says_who_has_one_run_only(tmp_path: Path) -> None:
    text = comparison_table(_comparison(tmp_path))
    rows = {line.split("  ")[0]: line.split() for line in reversed(text.splitlines()) if line}
    assert rows["better"][:5] == ["better", "2", "5.50", "[5.00,", "6.00]"]
    assert rows["alone"] == ["alone", "1", "9.00", "9.00", "9.00", "9.00"]
    assert "neither band nor interval: alone." in text
    assert not any("different steps" in note for note in notes(_comparison(tmp_path / "again")))


def test_runs_of_different_lengths_are_told(tmp_path: Path) -> None:
    runs = [_run(tmp_path / "a", [1, 2, 3, 4]), _run(tmp_path / "b", [3, 4, 5])]
    assert any("from 30 to 40" in note for note in notes(compare([Group("a", runs)], resamples=50)))


def test_a_comparison_is_three_files(tmp_path: Path) -> None:
    comparison = _comparison(tmp_path)
    write_comparison(tmp_path / "out", comparison)
    files = ["comparison.json", "comparison.png", "comparison.txt"]
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == files
    data: dict[str, Any] = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert data == comparison.as_json()
    assert data["groups"]["better"]["runs"] == [
        {"run": "b0", "final": 5.0, "last_step": 30},
        {"run": "b1", "final": 6.0, "last_step": 30},
    ]
    assert data["groups"]["alone"]["final"] == {"value": 9.0, "low": None, "high": None}
    assert str(tmp_path) not in json.dumps(data)
    assert (tmp_path / "out" / "comparison.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_without_matplotlib_the_numbers_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match="extra `plots`"):
        write_comparison(tmp_path / "out", _comparison(tmp_path))
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["comparison.json", "comparison.txt"]


def test_comparisons_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    run = _run(tmp_path / "a", [1.0, 2.0])
    other = _run(tmp_path / "b", [float("nan")])
    with pytest.raises(ConfigError, match="nothing to compare"):
        compare([])
    with pytest.raises(ConfigError, match="has no runs"):
        compare([Group("a", [])])
    with pytest.raises(ConfigError, match="is given twice"):
        compare([Group("a", [run]), Group("b", [tmp_path / "b" / ".." / "a"])])
    with pytest.raises(ConfigError, match="Two groups are named 'a'"):
        compare([Group("a", [run]), Group("a", [other])])
    with pytest.raises(ConfigError, match=r"last is 10"):
        compare([Group("a", [run])], last=10)
    with pytest.raises(RunError, match="Did you mean 'episode/return'"):
        compare([Group("a", [run])], "episode/returns")
    with pytest.raises(RunError, match="is null"):
        compare([Group("a", [run, other])])
    with pytest.raises(RunError, match="is not there"):
        compare([Group("a", [tmp_path / "nowhere"])])
