"""Intervals against tables worked out by hand and against every resample that there is."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_core.errors import ConfigError
from env_core.evaluation import statistics
from env_core.evaluation.statistics import (
    Interval,
    bootstrap,
    bootstrap_means,
    interquartile_mean,
    mean,
    paired,
    probability_of_improvement,
    rate,
)

TINY = [1.0, 2.0, 10.0]


def _every_resample(samples: list[float]) -> np.ndarray:
    """All n^n resamples of n samples, each as likely as any other: [n^n, n]."""
    return np.array(list(product(samples, repeat=len(samples))))


def _exact(values: np.ndarray, confidence: float) -> tuple[float, float]:
    """Quantiles of a distribution given in full, repeated so that interpolation between neighbours does not matter."""
    tail = 50 * (1 - confidence)
    low, high = np.percentile(np.repeat(values, 1000), [tail, 100 - tail])
    return float(low), float(high)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([7.0], 7.0),
        ([1.0, 2.0, 9.0], 4.0),  # fewer than four: nothing is cut
        ([9.0, 1.0, 3.0, 2.0], 2.5),  # 1 and 9 are cut
        ([1, 2, 3, 4, 100], 3.0),
        ([-50, 0, 1, 2, 3, 4, 5, 99], 2.5),  # two at either end
    ],
)
def test_interquartile_mean_by_hand(samples: list[float], expected: float) -> None:
    assert interquartile_mean(np.array(samples, float)) == pytest.approx(expected)
    twice = np.array([samples, samples[::-1]], float)
    np.testing.assert_allclose(interquartile_mean(twice), [expected, expected])


@pytest.mark.parametrize("confidence", [0.5, 0.8])
@pytest.mark.parametrize("statistic", [mean, lambda samples: samples.max(-1)], ids=["mean", "max"])
def test_bootstrap_against_every_resample_of_three(statistic: statistics.Statistic, confidence: float) -> None:
    low, high = _exact(statistic(_every_resample(TINY)), confidence)
    interval = bootstrap(TINY, statistic, confidence, resamples=20_000, seed=1)
    assert interval == pytest.approx((float(statistic(np.array(TINY))), low, high))


def test_bootstrap_means_against_every_resample_of_three() -> None:
    columns = np.array([TINY, [0.0, 0.0, 6.0]]).T
    intervals = bootstrap_means(columns, 0.8, resamples=20_000)
    for place, column in enumerate(columns.T):
        expected = (float(column.mean()), *_exact(mean(_every_resample(list(column))), 0.8))
        assert intervals[place] == pytest.approx(expected)


def test_runs_are_resampled_each_by_itself() -> None:
    """Whatever is drawn from runs that are constant, the mean is that of all samples: 4 of 0 and 2 of 3."""
    assert bootstrap([[0.0] * 4, [3.0] * 2]) == Interval(1.0, 1.0, 1.0)
    low, high = bootstrap([0.0] * 4 + [3.0] * 2)[1:]
    assert low < 1 < high


def test_stratified_against_every_pair_of_resamples() -> None:
    runs = [[0.0, 4.0], [10.0, 30.0]]
    both = [np.concatenate(pair) for pair in product(_every_resample(runs[0]), _every_resample(runs[1]))]
    low, high = _exact(mean(np.array(both)), 0.8)
    assert bootstrap(runs, confidence=0.8, resamples=20_000) == pytest.approx((11.0, low, high))
    assert bootstrap(np.array(runs), confidence=0.8, resamples=20_000) == pytest.approx((11.0, low, high))


def test_chunks_draw_from_the_same_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bootstrap(np.arange(20.0), resamples=4_000)
    monkeypatch.setattr(statistics, "_ELEMENTS_AT_ONCE", 100)
    assert bootstrap(np.arange(20.0), resamples=4_000) == pytest.approx(whole, rel=0.03)


def test_the_seed_decides() -> None:
    samples = np.arange(9.0) ** 2
    assert bootstrap(samples, seed=3) == bootstrap(samples, seed=3)
    assert bootstrap(samples, seed=3) != bootstrap(samples, seed=4)


@pytest.mark.parametrize("samples", [[5.0], [[5.0]], [[5.0], [1.0, 9.0]]], ids=["one", "one run", "one of two runs"])
def test_a_single_sample_has_no_bounds(samples: list[float]) -> None:
    interval = bootstrap(samples)
    assert interval.value == 5.0
    assert np.isnan(interval.low) and np.isnan(interval.high)
    assert interval.as_json() == {"value": 5.0, "low": None, "high": None}


@settings(max_examples=50, deadline=None)
@given(
    samples=st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=8),
    shift=st.floats(-100, 100),
    scale=st.floats(0.01, 100),
)
def test_the_mean_lies_within_its_interval_and_moves_with_the_samples(
    samples: list[float], shift: float, scale: float
) -> None:
    values = np.array(samples)
    interval = bootstrap(values, resamples=200)
    assert interval.low - 1e-6 <= interval.value + 1e-6 and min(samples) - 1e-6 <= interval.low
    assert interval.high <= max(samples) + 1e-6
    moved = bootstrap(values * scale + shift, resamples=200)
    np.testing.assert_allclose(moved, np.array(interval) * scale + shift, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ([2, 3], [0, 1], 1.0),
        ([0, 1], [2, 3], 0.0),
        ([1, 1], [1, 1], 0.5),
        ([1, 3], [2, 2, 0], 4 / 6),  # 1 beats 0; 3 beats all three
        ([1, 2], [1, 3], (0.5 + 0 + 1 + 0) / 4),
    ],
)
def test_probability_of_improvement_by_hand(x: list[float], y: list[float], expected: float) -> None:
    interval = probability_of_improvement(x, y, resamples=500)
    assert interval.value == pytest.approx(expected)
    assert interval.low <= interval.value <= interval.high
    assert probability_of_improvement(y, x, resamples=500).value == pytest.approx(1 - expected)


def test_probability_of_improvement_against_every_resample() -> None:
    x, y = [1.0, 4.0, 5.0], [2.0, 4.0, 3.0]
    every = [
        np.mean([(a > b) + 0.5 * (a == b) for a, b in product(of_x, of_y)])
        for of_x, of_y in product(_every_resample(x), _every_resample(y))
    ]
    assert probability_of_improvement(x, y, 0.8, 20_000)[1:] == pytest.approx(_exact(np.array(every), 0.8))


def test_one_run_on_either_side_has_no_bounds() -> None:
    assert np.isnan(probability_of_improvement([1, 2], [0])[1:]).all()


def test_pairs_leave_out_what_both_have_in_common() -> None:
    worlds = np.random.default_rng(0).normal(size=30) * 100
    assert paired(worlds + 2, worlds) == pytest.approx((2, 2, 2))
    with pytest.raises(ConfigError, match="not 3 and 2"):
        paired([1, 2, 3], [1, 2])


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(0, 100, 0.0, 0.0370), (100, 100, 0.9630, 1.0), (5, 10, 0.2366, 0.7634), (1, 10, 0.0179, 0.4042)],
)
def test_rates_have_wilsons_interval(successes: int, n: int, low: float, high: float) -> None:
    """The table: Brown, Cai and DasGupta's formula by hand with z = 1.96."""
    interval = rate((np.arange(n) < successes)[:, None])[0]
    assert interval == pytest.approx((successes / n, low, high), abs=1e-4)


def test_what_is_no_sample_is_refused() -> None:
    for broken in ([], [np.nan, 1.0], [np.inf], [[1.0, 2.0], []], np.zeros((2, 2, 2))):
        with pytest.raises(ConfigError):
            bootstrap(broken)
    for broken in (np.zeros((0, 3)), np.zeros(3), np.array([[np.nan]])):
        with pytest.raises(ConfigError):
            bootstrap_means(broken)
    with pytest.raises(ConfigError, match=r"the first at \[1\]"):
        probability_of_improvement([1.0, np.nan], [1.0])
    with pytest.raises(ConfigError, match="no successes"):
        rate(np.zeros((0, 2), bool))
    with pytest.raises(ConfigError, match="bool"):
        rate(np.zeros((3, 2)))


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="reduce the last axis"):
        bootstrap(TINY, lambda samples: np.asarray(samples.mean()))
    with pytest.raises(ConfigError, match="confidence is 95"):
        bootstrap(TINY, confidence=95)
    with pytest.raises(ConfigError, match="resamples is 0"):
        bootstrap(TINY, resamples=0)
