"""A report: the summaries side by side as a table, and a folder that holds it with the numbers and a picture."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from env_core.errors import ConfigError
from env_core.evaluation import pictures
from env_core.evaluation.episodes import Episodes
from env_core.evaluation.statistics import CONFIDENCE, RESAMPLES
from env_core.evaluation.summary import Summary, differences, ranked_achievements, summarise
from env_core.evaluation.tables import aligned, with_interval
from env_core.publish import make_folder, publish, write_json

JSON_NAME = "evaluation.json"
TEXT_NAME = "evaluation.txt"
PICTURE_NAME = "evaluation.png"

# The rows of the table: (key in a summary, what it is called, digits).
_ROWS = (
    ("return_mean", "return", 2),
    ("return_iqm", "return, interquartile mean", 2),
    ("return_percent", "return, % of the maximum", 2),
    ("length", "length (steps)", 1),
    ("achievements", "achievements", 2),
    ("deepest_floor", "deepest floor", 2),
)
_EXPLANATION = (
    f"Brackets: {100 * CONFIDENCE:g} % intervals over episodes (percentile bootstrap; Wilson's for shares). They say\n"
    "nothing of how another training run would do: for that, compare runs.\n"
)


def table(summaries: Mapping[str, Summary], paired: Sequence[Mapping[str, Any]] = ()) -> str:
    """Summaries side by side, a column for each condition, as text with a newline at its end.

    Achievements come by their highest rate; those that nobody unlocked share one line. Raises `ConfigError` for none.
    """
    if not summaries:
        raise ConfigError("There are no summaries to tabulate. Expected one for each condition.")
    columns = list(summaries.values())
    floors = sorted({floor for one in columns for floor in one["floor_reached"]}, key=int)
    ranked = ranked_achievements(summaries)
    unlocked = [name for name, rate in ranked.items() if rate > 0]
    gap = [""] * (1 + len(columns))
    rows = [["", *summaries], ["episodes", *(str(one["num_episodes"]) for one in columns)]]
    rows += [[title, *(with_interval(one[key], digits) for one in columns)] for key, title, digits in _ROWS]
    rows.append(["terminated, not truncated, %", *(with_interval(one["terminated"], 1, 100) for one in columns)])
    rows += _percentages("floor_reached", "reached floor {}, %", floors, columns)
    rows += [gap, *_percentages("achievement_rate", "{}, %", unlocked, columns), gap]
    never = [name for name in ranked if name not in unlocked]
    return (
        aligned(rows)
        + (_wrapped(f"Never unlocked ({len(never)}): {', '.join(never)}") if never else "")
        + "".join(_sentence(one) for one in paired)
        + _EXPLANATION
    )


def write_report(
    folder: Path, conditions: Mapping[str, Episodes], resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Any]:
    """Writes what an evaluation says into a folder, and returns what evaluation.json holds:
    {"conditions": {name: summary}, "differences": [...]}.

    conditions: the episodes by name, such as "sampled" and "greedy", of one environment. Files appear whole or not at
    all; the picture, which needs the extra `plots`, comes last. What an older report left of other conditions stays.

    Raises `ConfigError` for no conditions, several environments, a name that cannot be part of a file's name, and
    without matplotlib (all other files are there then); `WriteError`.
    """
    _check(conditions)
    deepest = max(int(episodes.deepest_floor.max()) for episodes in conditions.values())
    summaries = {name: summarise(episodes, resamples, seed, deepest) for name, episodes in conditions.items()}
    found = differences(conditions, resamples, seed)
    report = {"conditions": summaries, "differences": found}
    make_folder(folder)
    for name, episodes in conditions.items():
        episodes.save(folder / f"episodes-{name}.npz")
    write_json(folder / JSON_NAME, report, replace=True)
    text = table(summaries, found).encode()
    publish(folder / TEXT_NAME, lambda file: file.write(text))
    pictures.draw_evaluation(folder / PICTURE_NAME, conditions, summaries)
    return report


def _percentages(part: str, title: str, names: Sequence[str], summaries: Sequence[Summary]) -> list[list[str]]:
    return [
        [title.format(name.replace("_", " ")), *(with_interval(one[part].get(name), 1, 100) for one in summaries)]
        for name in names
    ]


def _sentence(difference: Mapping[str, Any]) -> str:
    return (
        f"Return of {difference['of']} minus {difference['minus']}, in the same {difference['pairs']} worlds: "
        f"{with_interval(difference['return'])}\n"
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 110, subsequent_indent="    ", break_on_hyphens=False) + "\n"


def _check(conditions: Mapping[str, Episodes]) -> None:
    if not conditions:
        raise ConfigError("There are no episodes to report. Expected at least one condition, such as 'sampled'.")
    for name in conditions:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
            raise ConfigError(
                f"The condition {name!r} becomes part of a file's name. Expected letters, digits, dots, dashes, pluses "
                "and underscores, beginning with a letter or digit."
            )
    games = {(episodes.env_name, episodes.achievement_names, episodes.max_return) for episodes in conditions.values()}
    if len(games) > 1:
        names = ", ".join(sorted({episodes.env_name for episodes in conditions.values()}))
        raise ConfigError(f"One report is about one environment, not several or several versions of one ({names}).")
