"""From episodes to what they say: numbers with their intervals, as plain JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from env_core.evaluation import statistics
from env_core.evaluation.episodes import Episodes
from env_core.evaluation.statistics import CONFIDENCE, RESAMPLES

Summary = Mapping[str, Any]
"""What `summarise` returns."""


def summarise(
    episodes: Episodes, resamples: int = RESAMPLES, seed: int = 0, floors: int | None = None
) -> dict[str, Any]:
    """What E episodes say, as plain JSON. Every number that was measured is {"value", "low", "high"}.

    return_mean, return_iqm, length, achievements (how many), deepest_floor: means and an interquartile mean
    return_percent: the mean return as a percentage of `max_return`
    terminated: share of episodes that ended by themselves, not by a limit of steps
    floor_reached: share of episodes that reached each floor, from 1 to `floors` (None: the deepest that any reached)
    achievement_rate: share of episodes that unlocked each achievement
    num_episodes, return_min, return_max, env_name, max_return, confidence, provenance: plain

    Shares have Wilson's interval, the others a bootstrap interval of `resamples` resamples. With one episode, low and
    high are null but for shares.
    """
    columns = {
        "return_mean": episodes.returns,
        "return_percent": episodes.returns * np.float64(100 / episodes.max_return),
        "length": episodes.lengths,
        "achievements": episodes.achievements.sum(1),
        "deepest_floor": episodes.deepest_floor,
    }
    means = statistics.bootstrap_means(np.stack(list(columns.values()), 1), CONFIDENCE, resamples, seed)
    iqm = statistics.bootstrap(episodes.returns, statistics.interquartile_mean, CONFIDENCE, resamples, seed)
    below = np.arange(1, 1 + (int(episodes.deepest_floor.max()) if floors is None else floors))
    return {
        "env_name": episodes.env_name,
        "num_episodes": len(episodes),
        "confidence": CONFIDENCE,
        "max_return": float(episodes.max_return),
        "return_min": float(episodes.returns.min()),
        "return_max": float(episodes.returns.max()),
        **{name: means[place].as_json() for place, name in enumerate(columns)},
        "return_iqm": iqm.as_json(),
        "terminated": statistics.rate(episodes.terminated[:, None])[0].as_json(),
        "floor_reached": _rates([str(floor) for floor in below], episodes.deepest_floor[:, None] >= below),
        "achievement_rate": _rates(episodes.achievement_names, episodes.achievements),
        "provenance": dict(episodes.provenance),
    }


def differences(conditions: Mapping[str, Episodes], resamples: int = RESAMPLES, seed: int = 0) -> list[dict[str, Any]]:
    """For each two conditions that played the same worlds: the mean difference of their returns, world by world.

    A list of {"of", "minus", "pairs", "return"}: `pairs` is in how many worlds both played, `return` the interval. Two
    conditions that share no world, or of which one played a world twice, are left out: nothing pairs their episodes.
    """
    found = []
    for (one, x), (other, y) in combinations(conditions.items(), 2):
        both, in_x, in_y = np.intersect1d(x.seeds, y.seeds, return_indices=True)
        unique = all(len(np.unique(episodes.seeds)) == len(episodes) for episodes in (x, y))
        if unique and len(both):
            interval = statistics.paired(x.returns[in_x], y.returns[in_y], resamples=resamples, seed=seed)
            found.append({"of": one, "minus": other, "pairs": len(both), "return": interval.as_json()})
    return found


def ranked_achievements(summaries: Mapping[str, Summary]) -> dict[str, float]:
    """All achievements with the highest rate that any condition has, highest first, equal ones in the game's order."""
    best: dict[str, float] = {}
    for summary in summaries.values():
        for name, rate in summary["achievement_rate"].items():
            best[name] = max(best.get(name, 0.0), rate["value"])
    return dict(sorted(best.items(), key=lambda item: -item[1]))


def _rates(names: Sequence[str], reached: NDArray[np.bool_]) -> dict[str, dict[str, float | None]]:
    """Names [K], bool [E, K] -> the rate of each."""
    if not names:
        return {}
    rates = statistics.rate(reached)
    return {name: rates[place].as_json() for place, name in enumerate(names)}
