"""What a sample of scores says, and how surely: bootstrap intervals and what they are taken of.

The aggregates and the stratified percentile bootstrap are those of Agarwal et al. 2021, "Deep Reinforcement Learning at
the Edge of the Statistical Precipice" (https://arxiv.org/abs/2108.13264). An interval of one sample has no bounds: they
are nan, not the sample itself. With five runs or fewer, read bounds as rough: a bootstrap of n samples knows nothing
beyond them and comes out too narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from env_core.errors import ConfigError

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
"""float64 [..., n] -> float64 [...]: reduces the last axis, whatever stands before it."""

CONFIDENCE = 0.95
RESAMPLES = 10_000

_ELEMENTS_AT_ONCE = 2**21  # 16 MiB of float64: resamples are drawn in chunks of about this size


class Interval(NamedTuple):
    """An estimate and the bounds of its confidence interval; nan bounds where there are none."""

    value: float
    low: float
    high: float

    def as_json(self) -> dict[str, float | None]:
        """The three by name; null for nan, which JSON cannot hold."""
        return {name: None if np.isnan(number) else float(number) for name, number in self._asdict().items()}


@dataclass(frozen=True, eq=False)
class Intervals:
    """An interval for each of K quantities: three arrays, float64 [K]. `intervals[k]` is the one of quantity k."""

    value: Floats
    low: Floats
    high: Floats

    def __getitem__(self, index: int) -> Interval:
        return Interval(*(float(array[index]) for array in (self.value, self.low, self.high)))


def mean(samples: Floats) -> Floats:
    """The mean over the last axis."""
    return np.asarray(samples.mean(-1))


def interquartile_mean(samples: Floats) -> Floats:
    """The mean of the middle half over the last axis: the ⌊n/4⌋ lowest and as many highest are left out.

    Less swayed by outliers than the mean, less wasteful than the median. Of fewer than four samples it is the mean.
    """
    cut = samples.shape[-1] // 4
    return np.asarray(np.sort(samples, axis=-1)[..., cut : samples.shape[-1] - cut].mean(-1))


def bootstrap(
    samples: ArrayLike | Sequence[ArrayLike],
    statistic: Statistic = mean,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """The percentile bootstrap interval of a statistic.

    samples: [n], or a sequence of such, of any lengths (the runs). Of several runs each is resampled by itself and the
    statistic is taken of all together, so that the interval speaks of these runs; to speak of runs not yet made, give
    one number for each run.

    The bounds are nan if any run has one sample only. Raises `ConfigError` for no samples, nan and infinity, and for a
    statistic that does not reduce the last axis.
    """
    strata = _strata(samples)
    _check(confidence, resamples)
    value = float(statistic(np.concatenate(strata)))
    if min(map(len, strata)) < 2:
        return Interval(value, np.nan, np.nan)
    random = np.random.default_rng(seed)
    drawn = []
    for count in _chunks(resamples, sum(map(len, strata))):
        again = [stratum[random.integers(0, len(stratum), (count, len(stratum)))] for stratum in strata]
        drawn.append(np.asarray(statistic(np.concatenate(again, axis=-1))))
        if drawn[-1].shape != (count,):
            raise ConfigError(
                f"The statistic turned resamples of shape {(count, sum(map(len, strata)))} into {drawn[-1].shape}. "
                f"Expected {(count,)}: let it reduce the last axis only, as `mean` does."
            )
    return _interval(value, drawn, confidence)


def bootstrap_means(
    columns: ArrayLike, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = 0
) -> Intervals:
    """The intervals of the means of K quantities, [n, K], each row one sample of all of them.

    All share their resamples, which makes this much faster than K calls of `bootstrap`. Raises as that does.
    """
    table = np.asarray(columns, np.float64)
    if table.ndim != 2:
        raise ConfigError(f"Expected samples of shape [n, K], a row for each sample, not {list(table.shape)}.")
    _checked(table, "samples")
    _check(confidence, resamples)
    value = table.mean(0)
    if len(table) < 2:
        nothing = np.full_like(value, np.nan)
        return Intervals(value, nothing, nothing)
    random = np.random.default_rng(seed)
    size = max(table.shape)
    drawn = [_counts(random, count, len(table)) @ table / len(table) for count in _chunks(resamples, size)]
    return Intervals(value, *_bounds(np.concatenate(drawn), confidence))


def probability_of_improvement(
    x: ArrayLike,
    y: ArrayLike,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """P(X > Y), ties counted half: how likely a score drawn from x, [n], beats one drawn from y, [m].

    The Mann-Whitney statistic U / (n m), with x and y resampled independently (Agarwal et al. 2021, section 4.3). 0.5
    says nothing. The bounds are nan if either has one sample only. Raises `ConfigError` as `bootstrap` does.
    """
    x, y = _samples(x, "x"), _samples(y, "y")
    _check(confidence, resamples)
    wins = (np.sign(x[:, None] - y[None, :]) + 1) / 2
    if min(len(x), len(y)) < 2:
        return Interval(float(wins.mean()), np.nan, np.nan)
    random = np.random.default_rng(seed)
    drawn = []
    for count in _chunks(resamples, max(len(x), len(y))):
        of_x, of_y = _counts(random, count, len(x)), _counts(random, count, len(y))
        drawn.append(((of_x @ wins) * of_y).sum(-1) / wins.size)
    return _interval(float(wins.mean()), drawn, confidence)


def paired(
    x: ArrayLike,
    y: ArrayLike,
    statistic: Statistic = mean,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """The interval of x - y, both [n], where x[i] and y[i] belong together (one seed under two conditions).

    Pairs are resampled as wholes: what the two have in common, such as a hard world, drops out. Raises `ConfigError`
    for different lengths and as `bootstrap` does.
    """
    x, y = _samples(x, "x"), _samples(y, "y")
    if len(x) != len(y):
        raise ConfigError(f"Pairs need as many samples of x as of y, not {len(x)} and {len(y)}. Leave out the rest.")
    return bootstrap(x - y, statistic, confidence, resamples, seed)


def rate(successes: ArrayLike, confidence: float = CONFIDENCE) -> Intervals:
    """The share of true values in each column, bool [n, K], with Wilson's score interval.

    Not a bootstrap: that would call a rate of 0 out of 100 certain. Wilson's interval, (0, 0.037), holds what it
    promises also there and for few samples (Brown, Cai and DasGupta 2001, https://doi.org/10.1214/ss/1009213286).

    Raises `ConfigError` for no samples.
    """
    table = np.asarray(successes)
    if table.ndim != 2 or table.dtype != np.bool_:
        raise ConfigError(f"Expected successes as bool [n, K], not {table.dtype} {list(table.shape)}.")
    _checked(table, "successes")
    _check(confidence, RESAMPLES)
    n, p = len(table), table.mean(0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    # Rounding must not put a rate outside its interval.
    return Intervals(p, np.clip(middle - half, 0.0, p), np.clip(middle + half, p, 1.0))


def _counts(random: np.random.Generator, resamples: int, n: int) -> Floats:
    """How often each of n samples occurs in each resample, [resamples, n]: means become matrix products."""
    drawn = random.integers(0, n, (resamples, n)) + n * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * n).reshape(resamples, n).astype(np.float64)


def _interval(value: float, drawn: list[Floats], confidence: float) -> Interval:
    low, high = _bounds(np.concatenate(drawn), confidence)
    return Interval(value, float(low), float(high))


def _bounds(drawn: Floats, confidence: float) -> Floats:
    """The percentiles that leave out as much on either side: [R, ...] -> [2, ...]."""
    tail = 50 * (1 - confidence)
    return np.asarray(np.percentile(drawn, [tail, 100 - tail], axis=0))


def _chunks(resamples: int, size: int) -> Iterator[int]:
    at_once = max(1, _ELEMENTS_AT_ONCE // size)
    for start in range(0, resamples, at_once):
        yield min(at_once, resamples - start)


def _strata(samples: ArrayLike | Sequence[ArrayLike]) -> list[Floats]:
    """Samples as a list of runs; one of plain numbers is one run."""
    listed = list(samples) if isinstance(samples, Sequence | np.ndarray) else [samples]
    if all(np.ndim(one) == 0 for one in listed):
        return [_samples(np.asarray(listed), "samples")]
    return [_samples(one, f"samples of run {number}") for number, one in enumerate(listed)]


def _samples(samples: ArrayLike, what: str) -> Floats:
    array = np.asarray(samples, np.float64)
    if array.ndim != 1:
        raise ConfigError(f"Expected {what} as a list of numbers, [n], not an array of shape {list(array.shape)}.")
    return _checked(array, what)


def _checked(array: Floats, what: str) -> Floats:
    if array.size == 0:
        raise ConfigError(f"There are no {what} (shape {list(array.shape)}). Expected at least one.")
    broken = ~np.isfinite(array)
    if broken.any():
        first = tuple(int(index) for index in np.argwhere(broken)[0])
        raise ConfigError(
            f"{int(broken.sum())} of {array.size} {what} are nan or infinite, the first at {list(first)}. "
            "Leave out what has no score, and say how many those were."
        )
    return array


def _check(confidence: float, resamples: int) -> None:
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence is {confidence}. Expected a number between 0 and 1, such as {CONFIDENCE}.")
    if resamples < 1:
        raise ConfigError(f"resamples is {resamples}. Expected 1 or more, such as {RESAMPLES}.")
