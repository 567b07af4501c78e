"""comparison.json, comparison.txt and comparison.png: what a comparison of groups of runs says."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from env_core.evaluation.comparison import Comparison, GroupCurves
from env_core.evaluation.figures import new_figure, plain, publish_figure
from env_core.evaluation.tables import aligned, with_interval
from env_core.publish import make_folder, publish, write_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

JSON_NAME = "comparison.json"
TEXT_NAME = "comparison.txt"
PICTURE_NAME = "comparison.png"

_SAME_LENGTH = 0.02  # runs that end within this share of each other's steps are called equally long
_INK = "0.35"


def write_comparison(folder: Path, comparison: Comparison) -> None:
    """Writes comparison.json, comparison.txt and comparison.png into a folder, each whole or not at all.

    The picture comes last. Raises `ConfigError` without matplotlib (the other files are there then); `WriteError`.
    """
    make_folder(folder)
    write_json(folder / JSON_NAME, comparison.as_json(), replace=True)
    text = comparison_table(comparison).encode()
    publish(folder / TEXT_NAME, lambda file: file.write(text))
    draw_comparison(folder / PICTURE_NAME, comparison)


def comparison_table(comparison: Comparison) -> str:
    """Final scores, and who beats whom, as text with a newline at its end."""
    groups = comparison.groups
    rows = [["", "runs", "final score", "interquartile mean", "lowest", "highest"]]
    rows += [
        [
            group.name,
            str(len(group.runs)),
            with_interval(group.final.as_json()),
            with_interval(group.final_iqm.as_json()),
            f"{group.finals.min():.2f}",
            f"{group.finals.max():.2f}",
        ]
        for group in groups
    ]
    text = f"{comparison.metric}, mean over the last {100 * comparison.last:g} % of each run's steps\n\n{aligned(rows)}"
    if len(groups) > 1:
        text += f"\nProbability that a run of the row ends higher than one of the column\n\n{_improvements(comparison)}"
    return text + "\n" + "".join(textwrap.fill(note, 110) + "\n" for note in notes(comparison))


def notes(comparison: Comparison) -> list[str]:
    """What a reader of the numbers has to know about them, one sentence or two each."""
    found = ["Brackets: 95 % percentile bootstrap intervals over runs; rough for five runs or fewer."]
    alone = [group.name for group in comparison.groups if len(group.runs) == 1]
    if alone:
        found.append(f"One run only, and so neither band nor interval: {', '.join(alone)}.")
    ends = np.concatenate([group.last_steps for group in comparison.groups])
    if ends.min() < (1 - _SAME_LENGTH) * ends.max():
        found.append(
            f"The runs end at different steps, from {ends.min():,.0f} to {ends.max():,.0f}: final scores are not after "
            "equal training. The curve of a group ends with its shortest run."
        )
    return found


def draw_comparison(path: Path, comparison: Comparison) -> None:
    """Publishes the picture: curves with bands, and final scores with intervals. Raises `ConfigError`, `WriteError`."""
    figure = new_figure(13.0, 5.2)
    curves, finals = figure.subplots(1, 2, width_ratios=[2.3, 1.0])
    for number, group in enumerate(comparison.groups):
        _draw_curves(curves, comparison, group, f"C{number}")
        _draw_final(finals, group, number)
    plain(curves, f"{comparison.metric}: mean over runs, with 95 % bands")
    plain(finals, f"Final score (last {100 * comparison.last:g} % of the steps)")
    _label(curves, finals, comparison)
    figure.supxlabel("\n".join(notes(comparison)[1:]), fontsize=9, color=_INK, x=0.01, ha="left")
    publish_figure(path, figure)


def _improvements(comparison: Comparison) -> str:
    names = [group.name for group in comparison.groups]
    cells = {pair: with_interval(interval.as_json()) for pair, interval in comparison.improvement.items()}
    return aligned([["", *names], *([row, *(cells.get((row, column), "") for column in names)] for row in names)])


def _draw_curves(axis: Axes, comparison: Comparison, group: GroupCurves, color: str) -> None:
    several = len(group.runs) > 1
    for curve in group.curves if several else ():
        axis.plot(comparison.steps, curve, color=color, linewidth=0.7, alpha=0.25)
    axis.fill_between(comparison.steps, group.low, group.high, color=color, alpha=0.2, linewidth=0)
    label = f"{group.name} ({len(group.runs)} run{'s' * several})"
    marker = "o" if len(comparison.steps) == 1 else None
    axis.plot(comparison.steps, group.mean, color=color, linewidth=2, label=label, marker=marker)


def _draw_final(axis: Axes, group: GroupCurves, row: int) -> None:
    """Each run as a ring, the mean as a bar's dot, the interval as the bar."""
    color, (value, low, high) = f"C{row}", group.final
    axis.plot([low, high], [row, row], color=color, linewidth=7, alpha=0.3, solid_capstyle="butt")
    axis.plot(group.finals, np.full(len(group.finals), row), "o", color=color, markersize=5, mfc="none", alpha=0.7)
    axis.plot(value, row, "o", color=color, markersize=8)


def _label(curves: Axes, finals: Axes, comparison: Comparison) -> None:
    from matplotlib.ticker import EngFormatter

    curves.xaxis.set_major_formatter(EngFormatter(sep=""))
    curves.set_xlabel("environment steps", fontsize=9)
    curves.margins(x=0.01)
    curves.legend(fontsize=9, framealpha=0.75, edgecolor="none")
    names = [textwrap.fill(group.name, 18) for group in comparison.groups]
    finals.set_yticks(range(len(names)), names)
    finals.set_ylim(len(names) - 0.5, -0.5)
    finals.set_xlabel(comparison.metric, fontsize=9)
    finals.grid(axis="y", visible=False)
