"""What a run tells while it goes on: lines of metrics, the progress line, and how well episodes went."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from env_core.run import MetricsLog, Progress, Run
from online_jax.cluster import Follower
from online_jax.floors import FloorLog
from online_jax.learner import Learner, Update
from online_jax.metrics import EpisodeTotals, episode_metrics

SEEDS = "seeds"


def seed_folder(run: Path, seeds: Sequence[int], index: int) -> Path:
    """Where what belongs to one of a run's seeds goes: the run's own directory if there is only one."""
    return run if len(seeds) == 1 else run / SEEDS / str(seeds[index])


class Log:
    """Writes a line of metrics per interval, one update late, so that reading them does not hold up the device.

    With several seeds, metrics.jsonl has the mean over them (of episodes: over all of them together), and each seed a
    metrics.jsonl of its own.
    """

    def __init__(
        self,
        run: Run | Follower,
        progress: Progress,
        names: tuple[str, ...],
        learner: Learner,
        seeds: Sequence[int],
    ) -> None:
        self._run, self._progress, self._names, self._learner = run, progress, names, learner
        self._num_seeds = len(seeds)
        self._own: list[MetricsLog] = []
        if len(seeds) > 1 and isinstance(run, Run):
            for index in range(len(seeds)):
                folder = seed_folder(run.path, seeds, index)
                folder.mkdir(parents=True, exist_ok=True)
                self._own.append(MetricsLog(folder / "metrics.jsonl"))
        self.floors: list[FloorLog] = []
        self._episodes: list[EpisodeTotals] = []
        self._latest: tuple[int, dict[str, Any]]
        self._pending: tuple[int, dict[str, Any], list[EpisodeTotals]] | None = None
        self._reached: list[tuple[int, Any]] = []
        self._mark: tuple[float, int, float] | None = None
        self._returns = np.zeros(2)  # sum and number of the episodes since the last score

    def truncate(self, step: int) -> int:
        """Drops what was written after `step`; returns how many lines of the run's metrics."""
        for own in self._own:
            own.truncate(step)
        return self._run.truncate_metrics(step)

    def add(self, step: int, update: Update, policy_step: int, due: bool) -> None:
        """Takes an update; `due` ends an interval."""
        self._episodes.append(update.episodes)
        if self.floors:
            self._reached.append((policy_step, update.reached))
        self._latest = (step, update.losses)
        if due:
            self._write()
            self._pending, self._episodes = (*self._latest, self._episodes), []

    def end_interval(self) -> None:
        """Writes all that was taken, the last of it in a line of its own: a resumed run counts from here."""
        self._write()
        if self._episodes:
            self._pending, self._episodes = (*self._latest, self._episodes), []
            self._write()

    def score(self) -> float | None:
        """Mean return of the episodes since the last call, or None; of what has been written."""
        (total, count), self._returns = self._returns, np.zeros(2)
        return float(total / count) if count else None

    def close(self) -> None:
        for own in self._own:
            own.close()

    def _write(self) -> None:
        """Writes the line that waits, if any."""
        self._write_floors()
        if self._pending is None:
            return
        step, losses, episodes = jax.device_get(self._pending)
        self._pending = None
        by_seed = [self._of_seed(index, losses, episodes) for index in range(self._num_seeds)]
        everything = [part for one in by_seed for part in one[1]]
        values = {
            **episode_metrics(everything, self._names),
            **{name: float(np.mean(value)) for name, value in losses.items()},
        }
        timing = self._timing(step)
        self._run.log(step, {**values, **timing})
        for own, (of_seed, its_episodes) in zip(self._own, by_seed, strict=False):
            own.write(step, {**episode_metrics(its_episodes, self._names), **of_seed})
        self._returns += [sum(float(one.episode_return) for one in everything), values["episode/count"]]
        self._progress.update(
            step, {"return": values["episode/return"], "achievements": values["episode/achievements"]}
        )

    def _of_seed(self, index: int, losses: Any, episodes: list[Any]) -> tuple[dict[str, float], list[EpisodeTotals]]:
        if self._num_seeds == 1:
            return {name: float(value) for name, value in losses.items()}, episodes
        return (
            {name: float(value[index]) for name, value in losses.items()},
            [jax.tree.map(lambda x: x[index], one) for one in episodes],
        )

    def _write_floors(self) -> None:
        for policy_step, reached in jax.device_get(self._reached):
            for index, floors in enumerate(self.floors):
                of_seed = reached if self._num_seeds == 1 else jax.tree.map(lambda x, i=index: x[i], reached)
                floors.take(of_seed, policy_step, self._learner.variant.num_envs)
        self._reached = []

    def _timing(self, step: int) -> dict[str, float]:
        """Speed since the last line, of all seeds together; null in the first, which compiles."""
        now, compiled = time.monotonic(), self._learner.compile_seconds
        before, self._mark = self._mark, (now, step, compiled)
        if before is None:
            return {"time/sps": math.nan, "time/compile_seconds": compiled}
        running = now - before[0] - (compiled - before[2])
        steps = self._num_seeds * (step - before[1])
        return {"time/sps": steps / running, "time/compile_seconds": compiled - before[2]}
