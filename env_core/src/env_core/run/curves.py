"""curves.png: the metrics of a run over environment steps, drawn from metrics.jsonl alone.

A run of several seeds has a metrics.jsonl of each, too: what they span is drawn as a band around their mean.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from env_core.errors import ConfigError, RunError
from env_core.publish import publish
from env_core.run import metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILE_NAME = "curves.png"
SEEDS = "seeds/*/" + metrics.FILE_NAME
COLUMNS = 4
LINES_PER_PANEL = 6


class Series(NamedTuple):
    """One metric: `steps` and `values`, float64 [lines that have it]."""

    name: str
    steps: NDArray[np.float64]
    values: NDArray[np.float64]
    band: NDArray[np.float64] | None = None
    """[2, lines]: the lowest and the highest of the seeds' smoothed values; None without several seeds that have it."""


class Panel(NamedTuple):
    title: str
    series: Sequence[Series]


# The panels, in their order: (what a metric's name looks like, title). A title of None is made from the name.
_PANELS = (
    (r"episode/return", "Return per episode"),
    (r"episode/length", "Episode length (steps)"),
    (r"episode/achievements", "Achievements per episode"),
    (r"episode/deepest_floor_max", "Deepest floor reached"),
    (r".*/(steps_per_second|sps)", "Environment steps per second"),
    (r".*/(\w+_)?loss", None),
    (r".*/entropy", "Policy entropy (nats)"),
    (r".*/(approximate_|approx_)?kl", "KL divergence of an update (nats)"),
    (r".*/clip_fraction", "Share of steps clipped"),
    (r".*/explained_variance", "Variance that the value explains"),
    (r".*/gradient_norm", "Gradient norm before clipping"),
    (r".*/learning_rate", "Learning rate"),
)
# The rest share a panel per prefix, with these titles; metrics that only a table needs are not drawn.
_GROUPS = {"achievement": "Achievement rates"}
_NOT_DRAWN = ("episode/count", "episode/deepest_floor", "time/compile_seconds")


def plot_curves(run_dir: Path | str) -> Path:
    """Draws `<run_dir>/curves.png` and returns its path. Needs the extra `plots`.

    The best-known metrics have panels of their own, with a band where there are several seeds; the others share one
    per prefix (`episode/…`). Raises `RunError` if there are no metrics, `ConfigError` if matplotlib is not installed.
    """
    folder = Path(run_dir)
    series = collect(list(metrics.read_metrics(folder / metrics.FILE_NAME)))
    if not series:
        raise RunError(f"{folder / metrics.FILE_NAME} holds no metrics yet. Draw the curves after the first update.")
    seeds = [collect(list(metrics.read_metrics(path))) for path in sorted(folder.glob(SEEDS))]
    title = folder.absolute().name
    if len(seeds) > 1:
        series = banded(series, seeds)
        title += f": mean of {len(seeds)} seeds; band: lowest to highest seed"
    figure = _draw(title, panels(series))
    target = folder / FILE_NAME
    publish(target, lambda file: figure.savefig(file, format="png", dpi=120))
    return target


def collect(lines: Sequence[Mapping[str, Any]]) -> list[Series]:
    """The metrics by name, in the order in which they first appear. A null is a gap."""
    names = dict.fromkeys(name for line in lines for name in line if name not in ("step", "time"))
    series = []
    for name in names:
        points = [(line["step"], line[name]) for line in lines if name in line]
        steps, values = np.array([(step, np.nan if value is None else value) for step, value in points], float).T
        if not np.isnan(values).all():
            series.append(Series(name, steps, values))
    return series


def banded(series: Sequence[Series], seeds: Sequence[Sequence[Series]]) -> list[Series]:
    """`series` with what the seeds' own ones span at each of its steps: nan where none of them has a value."""
    found = []
    for one in series:
        own = [other for seed in seeds for other in seed if other.name == one.name]
        if len(own) < 2:
            found.append(one)
            continue
        values = [dict(zip(other.steps, smoothed(other.values), strict=True)) for other in own]
        table = np.array([[of.get(step, np.nan) for step in one.steps] for of in values])
        found.append(one._replace(band=np.stack([np.fmin.reduce(table), np.fmax.reduce(table)])))
    return found


def panels(series: Sequence[Series]) -> list[Panel]:
    """Sorts the metrics into panels: those of the table first, then one for each prefix that is left."""
    left = {one.name: one for one in series if one.name not in _NOT_DRAWN}
    sorted_: list[Panel] = []
    for pattern, title in _PANELS:
        for name in [name for name in left if re.fullmatch(pattern, name)]:
            several = title is None or sum(bool(re.fullmatch(pattern, one.name)) for one in series) > 1
            sorted_.append(Panel(_readable(name) if several else str(title), [left.pop(name)]))
    prefixes: dict[str, list[Series]] = {}
    for one in left.values():
        prefixes.setdefault(one.name.rpartition("/")[0], []).append(one)
    return sorted_ + [_group(prefix, group) for prefix, group in prefixes.items()]


def _group(prefix: str, group: Sequence[Series]) -> Panel:
    """Of many metrics, those that ended highest: a panel with 67 lines shows nothing."""
    title = _GROUPS.get(prefix, f"Other metrics ({prefix.replace('_', ' ')})" if prefix else "Other metrics")
    if len(group) == 1:
        return Panel(_readable(group[0].name), group)
    highest = sorted(group, key=lambda one: -float(np.nan_to_num(one.values[-1], nan=-np.inf)))[:LINES_PER_PANEL]
    return Panel(title if len(group) == len(highest) else f"{title}: highest {len(highest)} of {len(group)}", highest)


def _readable(name: str) -> str:
    """`ppo/value_loss` → Value loss (ppo)."""
    prefix, _, last = name.rpartition("/")
    title = last.replace("_", " ").capitalize()
    return f"{title} ({prefix})" if prefix else title


def _draw(title: str, contents: Sequence[Panel]) -> Figure:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError(
            "Curves need matplotlib. Install craftax-env-core with its extra `plots`; metrics.jsonl holds the numbers."
        ) from None
    columns = min(COLUMNS, len(contents))
    rows = math.ceil(len(contents) / columns)
    figure = Figure(figsize=(4.4 * columns, 2.9 * rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)  # needs no display
    figure.suptitle(title, fontsize=13, fontweight="bold")
    axes = np.atleast_1d(figure.subplots(rows, columns, squeeze=False).ravel())
    for axis, panel in zip(axes, contents, strict=False):
        _draw_panel(axis, panel)
    for axis in axes[len(contents) :]:
        axis.set_axis_off()
    for axis in axes[max(len(contents) - columns, 0) : len(contents)]:
        axis.set_xlabel("environment steps", fontsize=9)
    return figure


def _draw_panel(axis: Axes, panel: Panel) -> None:
    from matplotlib.ticker import EngFormatter

    for number, series in enumerate(panel.series):
        color = f"C{number}"
        smooth = smoothed(series.values)
        if series.band is not None and len(panel.series) == 1:  # bands of many lines hide one another
            axis.fill_between(series.steps, *series.band, color=color, alpha=0.2, linewidth=0)
        axis.plot(series.steps, series.values, color=color, linewidth=0.8, alpha=0.3)
        axis.plot(series.steps, smooth, color=color, linewidth=1.8, label=series.name.rpartition("/")[2])
        if len(series.values) < 3:
            axis.plot(series.steps, series.values, "o", color=color, markersize=4)
    axis.set_title(panel.title, fontsize=10.5, loc="left")
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.yaxis.set_major_formatter(EngFormatter(sep="") if _large(panel) else axis.yaxis.get_major_formatter())
    axis.tick_params(labelsize=8.5)
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.01)
    if len(panel.series) > 1:
        axis.legend(fontsize=7.5, framealpha=0.75, edgecolor="none")


def _large(panel: Panel) -> bool:
    return any(float(np.nanmax(np.abs(one.values))) >= 10_000 for one in panel.series)


def smoothed(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean over the nearest twentieth of the line (at least the point itself), gaps left out; same length."""
    half = len(values) // 40
    known = ~np.isnan(values)
    total = np.concatenate([np.zeros(1), np.cumsum(np.where(known, values, 0.0))])
    count = np.concatenate([np.zeros(1), np.cumsum(known)])
    begin = np.maximum(np.arange(len(values)) - half, 0)
    end = np.minimum(np.arange(len(values)) + half + 1, len(values))
    with np.errstate(invalid="ignore"):
        return np.asarray((total[end] - total[begin]) / (count[end] - count[begin]))
