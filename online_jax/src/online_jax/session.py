"""A training run in progress: state, programs, recorder and logs, brought to life and put to rest together."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import jax

from env_core.errors import RunError
from env_core.run import Progress, Run
from online_jax import calibrate, checkpoint, record
from online_jax.checkpoint import Checkpoint
from online_jax.config import TrainConfig
from online_jax.learner import Learner, Update
from online_jax.metrics import EpisodeTotals, episode_metrics
from online_jax.presets import PRESETS, make_environment
from online_jax.record import NoRecorder, Recorder, StoreRecorder


@contextmanager
def enough_memory() -> Iterator[None]:
    """Turns the device's refusal of memory, wherever it comes to light, into a `RunError` that says what to do."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error) and "Out of memory" not in str(error):
            raise
        raise RunError(
            f"The device has too little memory for this run: {str(error).splitlines()[0][:200]} "
            "Lower --num-envs, --num-steps or --network.width. What was saved before is intact."
        ) from None


class Session:
    """Starts at the run's newest checkpoint, or at the beginning. Use it as a context manager."""

    def __init__(self, preset: str, settings: TrainConfig, run: Run, progress: Progress) -> None:
        self._settings, self._run, self._progress = settings, run, progress
        saved = checkpoint.latest(run.checkpoints)
        with progress.status("starting JAX and measuring this device"):
            choices = saved[1].choices if saved else calibrate.choose(settings, make_environment(settings).layout)
        self._choices = choices
        self._variant = PRESETS[preset](replace(settings, network=replace(settings.network, **choices)))
        cached = "first time only; cached in " + str(jax.config.values["jax_compilation_cache_dir"])
        self._learner = Learner(self._variant, lambda what: progress.status(f"{what} ({cached})"))
        self._state: Any = checkpoint.restore(saved[0], self._learner.abstract_state()) if saved else None
        if self._state is None:
            self._state = self._learner.init(settings.seed)
        self._update = saved[1].update if saved else 0
        dropped = run.truncate_metrics(self.step)
        self._recorder = self._open_recorder(saved[1].recorder if saved else None)
        if run.record["resumed"]:
            progress.message(f"Continuing at step {self.step:,} ({dropped} later lines of metrics are written again)")
        progress.restart(self.step)
        self._log = Log(run, progress, self._variant.env.achievement_names, self._learner)
        self._last_save = time.monotonic()
        self._saved_update = self._update if saved else -1

    @property
    def step(self) -> int:
        """Environment steps done."""
        return self._update * self._settings.steps_per_update

    @property
    def finished(self) -> bool:
        return self._update >= self._settings.num_updates

    def update(self) -> None:
        """One update: act, learn, record, log; and a checkpoint when it is time."""
        policy_step = self.step
        done = self._learner.update(self._state)
        self._state = done.state
        if self._update % self._settings.record_every == 0:
            self._recorder.take(done.kept, policy_step, contiguous=self._settings.record_every == 1)
        self._update += 1
        self._log.add(self.step, done, due=self._update % self._settings.log_every == 0)
        if self._save_is_due():
            self.save()

    def stop(self) -> None:
        """Makes everything durable."""
        self._log.end_interval()
        if self._saved_update != self._update:
            self.save()

    def save(self) -> None:
        """A checkpoint, after everything that it counts on has been recorded and logged."""
        self._log.end_interval()
        position = self._recorder.flush()
        about = Checkpoint(
            step=self.step,
            update=self._update,
            config_sha256=self._run.record["config_sha256"],
            choices=self._choices,
            recorder=position,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        checkpoint.save(self._run.checkpoints, self._state, about, self._settings.checkpoint.keep)
        self._last_save, self._saved_update = time.monotonic(), self._update

    def _save_is_due(self) -> bool:
        when = self._settings.checkpoint
        by_clock = when.minutes > 0 and time.monotonic() - self._last_save >= 60 * when.minutes
        return by_clock or (when.updates > 0 and self._update % when.updates == 0)

    def _open_recorder(self, position: dict[str, Any] | None) -> Recorder:
        settings = self._settings
        if not settings.recorded_envs:
            return NoRecorder()
        return StoreRecorder(
            self._run.path / "trajectories",
            record.header(settings, self._variant, self._run.record),
            settings.recorded_envs,
            settings.record_shard_mb * 2**20,
            position,
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._recorder.close()


class Log:
    """Writes a line of metrics per interval, one update late, so that reading them does not hold up the device."""

    def __init__(self, run: Run, progress: Progress, achievement_names: tuple[str, ...], learner: Learner) -> None:
        self._run, self._progress, self._names, self._learner = run, progress, achievement_names, learner
        self._episodes: list[EpisodeTotals] = []
        self._latest: tuple[int, dict[str, Any]]
        self._pending: tuple[int, dict[str, Any], list[EpisodeTotals]] | None = None
        self._mark: tuple[float, int, float] | None = None

    def add(self, step: int, update: Update, due: bool) -> None:
        """Takes an update; `due` ends an interval."""
        self._episodes.append(update.episodes)
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

    def _write(self) -> None:
        """Writes the line that waits, if any."""
        if self._pending is None:
            return
        step, losses, episodes = jax.device_get(self._pending)
        self._pending = None
        values = {**episode_metrics(episodes, self._names), **{k: float(v) for k, v in losses.items()}}
        self._run.log(step, {**values, **self._timing(step)})
        self._progress.update(
            step,
            {"return": values["episode/return"], "achievements": values["episode/achievements"]},
        )

    def _timing(self, step: int) -> dict[str, float]:
        """Speed since the last line; null in the first, which compiles."""
        now, compiled = time.monotonic(), self._learner.compile_seconds
        before, self._mark = self._mark, (now, step, compiled)
        if before is None:
            return {"time/sps": float("nan"), "time/compile_seconds": compiled}
        running = now - before[0] - (compiled - before[2])
        return {"time/sps": (step - before[1]) / running, "time/compile_seconds": compiled - before[2]}
