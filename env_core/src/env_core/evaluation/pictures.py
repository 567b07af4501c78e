"""evaluation.png: returns, lengths, floors and achievements of each condition."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from env_core.evaluation.episodes import Episodes
from env_core.evaluation.figures import new_figure, plain, publish_figure
from env_core.evaluation.summary import Summary, ranked_achievements

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

BINS = 30  # at most; fewer for few episodes
ROWS_PER_COLUMN = 24  # of achievements, before they are parted into two columns, or three

_WIDTH, _TOP, _BAR, _GAP = 15.0, 3.7, 0.12, 0.1  # inches: of the picture, its upper panels, a bar, between rows
_INK = "0.35"  # of what is said beside the data


def draw_evaluation(path: Path, conditions: Mapping[str, Episodes], summaries: Mapping[str, Summary]) -> None:
    """Publishes the picture. Raises `ConfigError` without matplotlib, `WriteError`."""
    ranked = ranked_achievements(summaries)
    unlocked = [name for name, rate in ranked.items() if rate > 0]
    never = _never_unlocked([name for name in ranked if name not in unlocked])
    rows = math.ceil(len(unlocked) / max(1, min(3, math.ceil(len(unlocked) / ROWS_PER_COLUMN))))
    heights = [_TOP, 0.8 + rows * (_BAR * len(conditions) + _GAP), 0.25 + 0.17 * never.count("\n")]
    figure = new_figure(_WIDTH, sum(heights))
    top, middle, foot = figure.subfigures(3, 1, height_ratios=heights, squeeze=False)[:, 0]
    top.suptitle(_title(conditions), fontsize=13, fontweight="bold", x=0.01, ha="left")
    _draw_distributions(top, conditions, summaries)
    if unlocked:
        _draw_achievements(middle, summaries, [unlocked[at : at + rows] for at in range(0, len(unlocked), rows)])
    foot.text(0.01, 1.0, never, fontsize=9, va="top", color=_INK)
    publish_figure(path, figure)


def _title(conditions: Mapping[str, Episodes]) -> str:
    sizes = ", ".join(f"{len(episodes)} ({name})" for name, episodes in conditions.items())
    return f"{next(iter(conditions.values())).env_name}, episodes: {sizes}"


def _never_unlocked(names: Sequence[str]) -> str:
    if not names:
        return "\n"
    text = f"Never unlocked ({len(names)}): " + ", ".join(name.replace("_", "\N{NO-BREAK SPACE}") for name in names)
    return textwrap.fill(text, 200, break_on_hyphens=False) + "\n"


def _draw_distributions(
    figure: SubFigure, conditions: Mapping[str, Episodes], summaries: Mapping[str, Summary]
) -> None:
    returns, lengths, counts, floors = figure.subplots(1, 4)
    _draw_histogram(returns, "Return", [one.returns for one in conditions.values()])
    _draw_histogram(lengths, "Length (steps)", [one.lengths for one in conditions.values()])
    _draw_histogram(counts, "Achievements", [one.achievements.sum(1) for one in conditions.values()])
    _draw_floors(floors, summaries)
    returns.set_ylabel("share of episodes (dashed: mean)", fontsize=9)
    if len(conditions) > 1:
        _draw_legend(figure, list(conditions))


def _draw_legend(figure: SubFigure, names: Sequence[str]) -> None:
    """Beside the title: no panel has room for it whatever the data."""
    from matplotlib.patches import Patch

    patches = [Patch(color=f"C{number}", alpha=0.8, label=name) for number, name in enumerate(names)]
    figure.legend(handles=patches, loc="upper right", ncols=len(names), fontsize=9.5, frameon=False, borderaxespad=0.3)


def _draw_histogram(axis: Axes, title: str, samples: Sequence[NDArray[Any]]) -> None:
    """Shares of the episodes in common bins, and the mean of each condition as a dashed line."""
    for number, values in enumerate(samples):
        weights = np.full(len(values), 1 / len(values))
        style: dict[str, Any] = {"bins": _bins(samples), "weights": weights, "color": f"C{number}"}
        axis.hist(values, **style, histtype="stepfilled", alpha=0.18)
        axis.hist(values, **style, histtype="step", linewidth=1.4)
        axis.axvline(float(values.mean()), color=f"C{number}", linewidth=1.2, linestyle="--")
    plain(axis, title)


def _bins(samples: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Edges of bins that hold all samples. Whole numbers are in the middle of bins of a whole width."""
    values = np.concatenate(samples)
    number = min(BINS, math.ceil(2 * math.sqrt(min(map(len, samples)))))
    low, high = float(values.min()), float(values.max())
    if values.dtype.kind in "iu":
        width = max(1, math.ceil((high - low + 1) / number))
        return np.arange(low - 0.5, high + 0.5 + width, width)
    return np.linspace(low, high, number + 1) if high > low else np.array([low - 0.5, high + 0.5])


def _draw_floors(axis: Axes, summaries: Mapping[str, Summary]) -> None:
    """How many episodes got to each floor below the surface."""
    floors = sorted({int(floor) for summary in summaries.values() for floor in summary["floor_reached"]})
    plain(axis, "Reached floor")
    axis.set_ylim(0, 1.02)
    if not floors:
        axis.text(0.5, 0.5, "nobody left the surface", transform=axis.transAxes, ha="center", color=_INK)
        axis.set_xticks([])
    for number, summary in enumerate(summaries.values()):
        cells = [summary["floor_reached"].get(str(floor)) for floor in floors]
        places = np.array(floors) + _offset(number, len(summaries))
        known = [place for place, cell in enumerate(cells) if cell]
        values, errors = _errors([cells[place] for place in known])
        axis.bar(places[known], values, 0.8 / len(summaries), color=f"C{number}", alpha=0.8)
        axis.errorbar(places[known], values, errors, fmt="none", ecolor=_INK, elinewidth=1)
    axis.set_xticks(floors)
    axis.grid(axis="x", visible=False)


def _draw_achievements(figure: SubFigure, summaries: Mapping[str, Summary], columns: Sequence[Sequence[str]]) -> None:
    """Horizontal bars, the highest rate on top, each with its interval."""
    panels = figure.subplots(1, len(columns), squeeze=False)[0]
    for place, (axis, names) in enumerate(zip(panels, columns, strict=True)):
        _draw_bars(axis, summaries, names)
        axis.set_ylim(len(columns[0]) - 0.4, -0.6)  # the same for all, so that bars are of one width
        plain(axis, "Achievement rates, with 95 % intervals" if place == 0 else "")
        axis.grid(axis="y", visible=False)
        axis.tick_params(axis="y", length=0)


def _draw_bars(axis: Axes, summaries: Mapping[str, Summary], names: Sequence[str]) -> None:
    for number, summary in enumerate(summaries.values()):
        places = np.arange(len(names)) + _offset(number, len(summaries))
        values, errors = _errors([summary["achievement_rate"][name] for name in names])
        axis.barh(places, values, 0.8 / len(summaries), color=f"C{number}", alpha=0.8)
        axis.errorbar(values, places, xerr=errors, fmt="none", ecolor=_INK, elinewidth=1)
    axis.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    axis.set_xlim(0, 1.02)
    axis.xaxis.set_major_formatter("{x:.0%}")


def _offset(number: int, of: int) -> float:
    """Where the bar of a condition is within its row of height 1: the first on top, or to the left."""
    return 0.8 * ((number + 0.5) / of - 0.5)


def _errors(cells: Sequence[Mapping[str, float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rates [n] and how far their bounds are from them, [2, n]."""
    value, low, high = (np.array([cell[name] for cell in cells], float) for name in ("value", "low", "high"))
    return value, np.stack([value - low, high - value])
