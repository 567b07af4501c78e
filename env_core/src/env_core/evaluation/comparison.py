"""Groups of training runs side by side: one metric's curves, final scores, and how likely one group is to beat another.

Everything is read from the runs' metrics.jsonl. Bands and intervals are taken of one number for each run, so that they
tell how another run of its kind would do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from env_core.errors import ConfigError, RunError, nearest
from env_core.evaluation import statistics
from env_core.evaluation.statistics import RESAMPLES, Interval
from env_core.run.metrics import FILE_NAME, read_metrics

Floats = NDArray[np.float64]

POINTS = 100  # of a curve, at most
SEEDS = "seeds"
"""The folder in a run directory of several seeds trained at once: seeds/<seed>/metrics.jsonl."""

_COUNT = "episode/count"


class Group(NamedTuple):
    """Runs that differ in nothing but their seed, under one name."""

    name: str
    runs: Sequence[Path]
    """Run directories. One with several seeds counts as that many runs."""


class Curve(NamedTuple):
    """One metric of one run, L lines that have it."""

    name: str
    steps: Floats
    """[L], environment steps, rising."""
    values: Floats
    """[L]"""
    weights: Floats
    """[L], how many episodes a value is the mean of; 1 where the metric is no mean over episodes."""


@dataclass(frozen=True, eq=False)
class GroupCurves:
    """R runs of a group on P points; nan where a run has not begun or has ended."""

    name: str
    runs: tuple[str, ...]
    curves: Floats
    """[R, P]"""
    mean: Floats
    """[P], nan unless all runs have a value."""
    low: Floats
    """[P], lower bound of the mean's 95 % interval over runs; nan with one run."""
    high: Floats
    """[P]"""
    finals: Floats
    """[R], each run's final score."""
    last_steps: Floats
    """[R], where each run ends."""
    final: Interval
    """Mean final score."""
    final_iqm: Interval
    """Interquartile mean of the final scores."""


@dataclass(frozen=True, eq=False)
class Comparison:
    metric: str
    last: float
    """The share of a run's steps, at its end, that its final score is the mean of."""
    steps: Floats
    """[P], environment steps of the points."""
    groups: tuple[GroupCurves, ...]
    improvement: Mapping[tuple[str, str], Interval]
    """(a, b) -> probability that a run of a ends with a higher score than one of b, for all a ≠ b."""

    def as_json(self) -> dict[str, Any]:
        """All of it as plain JSON; null where there is no number."""
        return {
            "metric": self.metric,
            "last": self.last,
            "steps": _numbers(self.steps),
            "groups": {
                group.name: {
                    "runs": [
                        {"run": run, "final": float(final), "last_step": int(step)}
                        for run, final, step in zip(group.runs, group.finals, group.last_steps, strict=True)
                    ],
                    "final": group.final.as_json(),
                    "final_iqm": group.final_iqm.as_json(),
                    "curve": {name: _numbers(getattr(group, name)) for name in ("mean", "low", "high")},
                    "curves": [_numbers(curve) for curve in group.curves],
                }
                for group in self.groups
            },
            "improvement": [
                {"of": one, "over": other, **interval.as_json()} for (one, other), interval in self.improvement.items()
            ],
        }


def compare(
    groups: Sequence[Group],
    metric: str = "episode/return",
    last: float = 0.1,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Compares groups of runs in one metric, higher being better.

    Lines of metrics are brought onto a common grid: means within its bins, straight lines over empty ones. A final
    score is the mean over the last `last` of a run's own steps. Means of metrics about episodes weigh each line by the
    episodes that it is about, so that they are means over episodes.

    Raises `ConfigError` for no or empty groups, a name or run that occurs twice and `last` outside (0, 1]; `RunError`
    where a run has no metrics, not this one, or no value of it.
    """
    _check(groups, last)
    read = {group.name: _curves(group, metric) for group in groups}
    edges = _edges([curve for curves in read.values() for curve in curves])
    compared = tuple(_group(name, curves, edges, last, resamples, seed) for name, curves in read.items())
    improvement = {
        (one.name, other.name): statistics.probability_of_improvement(
            one.finals, other.finals, resamples=resamples, seed=seed
        )
        for one in compared
        for other in compared
        if one is not other
    }
    return Comparison(metric, last, (edges[1:] + edges[:-1]) / 2, compared, improvement)


def metric_files(run: Path) -> dict[str, Path]:
    """The metrics files of a run directory by the name of the run: its own, or that of each seed trained in it."""
    seeds = sorted((run / SEEDS).glob(f"*/{FILE_NAME}"), key=lambda path: (len(path.parent.name), path.parent.name))
    name = run.absolute().name
    return {f"{name}/{path.parent.name}": path for path in seeds} if seeds else {name: run / FILE_NAME}


def binned(curve: Curve, edges: Floats) -> Floats:
    """A curve on the P bins between P + 1 edges: weighted means of what is in each, (edge, next edge].

    Bins without a line lie on a straight line between their neighbours; before the first line and after the last: nan.
    """
    place = np.clip(np.searchsorted(edges, curve.steps) - 1, 0, len(edges) - 2)
    weight = np.bincount(place, curve.weights, len(edges) - 1)
    total = np.bincount(place, curve.weights * curve.values, len(edges) - 1)
    filled = np.flatnonzero(weight)
    every = np.arange(len(edges) - 1)
    return np.interp(every, filled, total[filled] / weight[filled], left=np.nan, right=np.nan)


def final_score(curve: Curve, last: float) -> float:
    """The weighted mean over the lines within the last share of the run's steps; at least its last line."""
    within = curve.steps > (1 - last) * curve.steps[-1]
    return float(np.average(curve.values[within], weights=curve.weights[within]))


def _group(name: str, curves: Sequence[Curve], edges: Floats, last: float, resamples: int, seed: int) -> GroupCurves:
    table = np.stack([binned(curve, edges) for curve in curves])
    known = ~np.isnan(table).any(0)
    band = np.full((3, table.shape[1]), np.nan)
    if known.any():
        means = statistics.bootstrap_means(table[:, known], resamples=resamples, seed=seed)
        band[:, known] = means.value, means.low, means.high
    finals = np.array([final_score(curve, last) for curve in curves])
    return GroupCurves(
        name=name,
        runs=tuple(curve.name for curve in curves),
        curves=table,
        mean=band[0],
        low=band[1],
        high=band[2],
        finals=finals,
        last_steps=np.array([curve.steps[-1] for curve in curves]),
        final=statistics.bootstrap(finals, resamples=resamples, seed=seed),
        final_iqm=statistics.bootstrap(finals, statistics.interquartile_mean, resamples=resamples, seed=seed),
    )


def _edges(curves: Sequence[Curve]) -> Floats:
    """Bins from 0 to the last step of any run, no more than the run with the fewest lines can fill."""
    points = min(POINTS, *(len(curve.steps) for curve in curves))
    return np.linspace(0.0, max(curve.steps[-1] for curve in curves), points + 1)


def _curves(group: Group, metric: str) -> list[Curve]:
    files = [item for run in group.runs for item in metric_files(Path(run)).items()]
    return [_read(name, path, metric) for name, path in files]


def _read(name: str, path: Path, metric: str) -> Curve:
    lines = list(read_metrics(path))
    if not any(metric in line for line in lines):
        known = {key for line in lines for key in line} - {"step", "time"}
        raise RunError(f"{path} has no metric {metric!r}. {nearest(metric, known)}")
    points = [point for line in lines if (point := _point(line, metric))]
    if not points:
        raise RunError(f"In {path} every {metric!r} is null. Let the run train until an episode has ended.")
    return Curve(name, *np.array(points, float).T)


def _point(line: Mapping[str, Any], metric: str) -> tuple[float, float, float] | None:
    """Step, value and weight of a line; None where it has no value."""
    value = line.get(metric)
    of_episodes = metric.startswith(("episode/", "achievement/")) and metric != _COUNT
    weight = line.get(_COUNT, 1) if of_episodes else 1
    return None if value is None or not weight else (line["step"], value, weight)


def _numbers(values: Floats) -> list[float | None]:
    return [None if math.isnan(value) else float(value) for value in values]


def _check(groups: Sequence[Group], last: float) -> None:
    if not groups:
        raise ConfigError("There is nothing to compare. Expected at least one group of runs.")
    names = [group.name for group in groups]
    runs = [Path(run).resolve() for group in groups for run in group.runs]
    if len(set(names)) < len(names):
        raise ConfigError(f"Two groups are named {_repeated(names)!r}. Give each a name of its own.")
    if len(set(runs)) < len(runs):
        raise ConfigError(f"{_repeated(runs)} is given twice. A run counts once, in one group.")
    for group in groups:
        if not group.runs:
            raise ConfigError(f"The group {group.name!r} has no runs. Expected at least one run directory.")
    if not 0 < last <= 1:
        raise ConfigError(f"last is {last}. Expected a share of a run's steps, above 0 and at most 1, such as 0.1.")


def _repeated(values: Sequence[Any]) -> Any:
    return next(value for place, value in enumerate(values) if value in values[:place])
