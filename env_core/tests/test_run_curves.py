"""curves.png: which metrics share a panel, and that a picture comes out."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from env_core.errors import ConfigError, RunError
from env_core.run import MetricsLog, curves, plot_curves
from env_core.run.curves import banded, collect, panels, smoothed


def _size(png: Path) -> tuple[int, int]:
    header = png.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", header[16:24])
    return width, height


def test_known_metrics_come_first_and_the_rest_is_grouped_by_prefix() -> None:
    names = ["rnd/bonus", "ppo/value_loss", "ppo/clip_fraction", "episode/return", "rnd/loss", "ppo/entropy", "speed"]
    series = collect([{"step": 1, "time": 0.0, **dict.fromkeys(names, 1.0)}])
    assert [(panel.title, [one.name for one in panel.series]) for panel in panels(series)] == [
        ("Return per episode", ["episode/return"]),
        ("Value loss (ppo)", ["ppo/value_loss"]),
        ("Loss (rnd)", ["rnd/loss"]),
        ("Policy entropy (nats)", ["ppo/entropy"]),
        ("Share of steps clipped", ["ppo/clip_fraction"]),
        ("Bonus (rnd)", ["rnd/bonus"]),
        ("Speed", ["speed"]),
    ]


def test_of_many_metrics_the_highest_are_shown() -> None:
    lines = [{"step": 1, **{f"achievement/a{number}": number / 10 for number in range(10)}}]
    (panel,) = panels(collect(lines))
    assert panel.title == "Achievement rates: highest 6 of 10"
    assert [one.name for one in panel.series] == [f"achievement/a{number}" for number in (9, 8, 7, 6, 5, 4)]


def test_a_null_is_a_gap_and_a_metric_of_nulls_is_no_curve() -> None:
    lines = [{"step": 1, "x": 1.0, "y": None}, {"step": 2, "x": None}, {"step": 3, "x": 3.0}]
    (series,) = collect(lines)
    assert series.name == "x"
    np.testing.assert_array_equal(series.steps, [1, 2, 3])
    np.testing.assert_array_equal(series.values, [1.0, np.nan, 3.0])


def test_smoothing_is_a_mean_over_a_twentieth_that_skips_gaps() -> None:
    np.testing.assert_array_equal(smoothed(np.array([1.0, 5.0, 3.0])), [1.0, 5.0, 3.0])
    ramp = np.arange(80.0)
    np.testing.assert_allclose(smoothed(ramp)[2:-2], ramp[2:-2])
    np.testing.assert_allclose(smoothed(ramp)[[0, 79]], [1.0, 78.0])  # the means of 0, 1, 2 and of 77, 78, 79
    ramp[40] = np.nan
    np.testing.assert_allclose(smoothed(ramp)[40], (38 + 39 + 41 + 42) / 4)


@pytest.mark.parametrize("updates", [1, 50])
def test_a_picture_comes_out(tmp_path: Path, updates: int) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for update in range(updates):
        log.write(
            (update + 1) * 8192,
            {"episode/return": update if update else float("nan"), "ppo/value_loss": 1.0, "steps_per_second": 12000.0}
            | {f"achievement/a{number}": 0.1 for number in range(9)},
        )
    log.close()
    picture = plot_curves(tmp_path)
    assert picture == tmp_path / "curves.png"
    width, height = _size(picture)
    assert width > 1000
    assert height > 300


def test_without_metrics_there_is_nothing_to_draw(tmp_path: Path) -> None:
    MetricsLog(tmp_path / "metrics.jsonl").close()
    with pytest.raises(RunError, match="no metrics yet"):
        plot_curves(tmp_path)


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.write(1, {"x": 1})
    log.close()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match="extra `plots`"):
        plot_curves(tmp_path)


def test_the_band_is_what_the_seeds_span() -> None:
    """Of the values that there are, step by step; metrics that only the run has, or one seed, have none."""
    mean = collect([{"step": step, "x": 2.0, "speed": 1.0, "once": 1.0} for step in (1, 2, 3)])
    one = collect([{"step": 1, "x": 1.0, "once": 1.0}, {"step": 2, "x": None}, {"step": 3, "x": 5.0}])
    two = collect([{"step": 1, "x": 3.0}, {"step": 2, "x": 4.0}])
    bands = {series.name: series.band for series in banded(mean, [one, two])}
    np.testing.assert_array_equal(bands["x"], [[1.0, 4.0, 5.0], [3.0, 4.0, 5.0]])
    assert bands["speed"] is None and bands["once"] is None


def test_a_run_of_several_seeds_is_drawn_with_its_bands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = {}
    monkeypatch.setattr(curves, "_draw", lambda title, contents: drawn.update({title: contents}) or Figure())
    for folder, offset in ((tmp_path, 0.0), (tmp_path / "seeds/10", -1.0), (tmp_path / "seeds/9", 1.0)):
        folder.mkdir(parents=True, exist_ok=True)
        log = MetricsLog(folder / "metrics.jsonl")
        for step in (1, 2, 3):
            log.write(step, {"episode/return": step + offset})
        log.close()
    plot_curves(tmp_path)
    ((title, (panel,)),) = drawn.items()
    assert title == f"{tmp_path.name}: mean of 2 seeds; band: lowest to highest seed"
    np.testing.assert_array_equal(panel.series[0].band, [[0.0, 1.0, 2.0], [2.0, 3.0, 4.0]])
    monkeypatch.undo()
    assert _size(plot_curves(tmp_path))[0] > 300
