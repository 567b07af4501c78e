"""A training run in progress: state, programs, recorders and logs, brought to life and put to rest together."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax

from env_core.craftax.textures import prepare_textures
from env_core.observation import Layout, Pixels, environment_layouts, pixel_layouts
from env_core.run import Progress, Run
from online_jax import assemble, calibrate, checkpoint, cluster, devices, loading, record
from online_jax.checkpoint import Checkpoint
from online_jax.cluster import Follower
from online_jax.config import TrainConfig
from online_jax.floors import FOLDER, FloorLog
from online_jax.learner import Learner
from online_jax.log import Log, seed_folder
from online_jax.record import NoRecorder, Recorder, StoreRecorder


def layout_of(env_name: str) -> Layout | Pixels:
    """What an environment's observations look like, known without the game."""
    return environment_layouts[env_name] if env_name in environment_layouts else pixel_layouts[env_name]


def _latest(run: Run | Follower) -> tuple[Path, Checkpoint] | None:
    """The newest checkpoint that the main process sees: on a shared disk, others may see it later."""

    def name() -> str | None:
        newest = checkpoint.latest(run.checkpoints)
        return newest and newest[0].name

    chosen = cluster.from_main(name)
    return chosen and (run.checkpoints / chosen, checkpoint.describe(run.checkpoints / chosen))


class Session:
    """Starts at the run's newest checkpoint, or at the beginning. Use it as a context manager."""

    def __init__(self, settings: TrainConfig, run: Run | Follower, progress: Progress) -> None:
        self._settings, self._run, self._progress = settings, run, progress
        saved = _latest(run)
        with progress.status("starting JAX and measuring this device"):
            self._choices = cluster.from_main(
                lambda: saved[1].choices if saved else calibrate.choose(settings, layout_of(settings.env_name))
            )
        chosen = replace(settings, network=replace(settings.network, **self._choices))
        if isinstance(layout_of(settings.env_name), Pixels):
            prepare_textures(settings.env_name, status=progress.status)
        self._variant = assemble.variant(chosen)
        cached = "first time only; cached in " + str(jax.config.values["jax_compilation_cache_dir"])
        self._learner = Learner(
            self._variant,
            lambda what: progress.status(f"{what} ({cached})"),
            devices.place(settings.num_envs, settings.devices),
            settings.num_seeds,
        )
        self._state: Any = self._restored(saved[0]) if saved else self._fresh()
        self._update = saved[1].update if saved else 0
        self._log = Log(run, progress, self._variant.env.achievement_names, self._learner, settings.seeds)
        dropped = self._log.truncate(self.step)
        positions: list[Any] = saved[1].recorders if saved else [None] * settings.num_seeds
        self._recorders = [self._open_recorder(index, position) for index, position in enumerate(positions)]
        if settings.dump_new_floors and cluster.is_main():
            self._log.floors = [
                FloorLog(self._folder(index) / FOLDER, self._variant.env.symbolic)
                for index in range(settings.num_seeds)
            ]
        if run.record["resumed"]:
            progress.message(f"Continuing at step {self.step:,} ({dropped} later lines of metrics are written again)")
        progress.restart(self.step)
        self._last_save = time.monotonic()
        self._saved_update = self._update if saved else -1

    @property
    def step(self) -> int:
        """Environment steps done, by each seed."""
        return self._update * self._settings.steps_per_update

    def agreed(self, stop: bool) -> bool:
        """Whether any process of the run was asked to stop; each asks before each update."""
        return cluster.any_of(stop)[0]

    @property
    def finished(self) -> bool:
        return self._update >= self._settings.num_updates

    def update(self) -> None:
        """One update: act, learn, record, log; and a checkpoint when it is time."""
        policy_step = self.step
        done = self._learner.update(self._state)
        self._state = done.state
        if self._update % self._settings.record_every == 0:
            for index, recorder in enumerate(self._recorders):
                kept = done.kept if len(self._recorders) == 1 else jax.tree.map(lambda x, i=index: x[i], done.kept)
                recorder.take(kept, policy_step, contiguous=self._settings.record_every == 1)
        self._update += 1
        self._log.add(self.step, done, policy_step, due=self._update % self._settings.log_every == 0)
        if cluster.any_of(self._save_is_due())[0]:
            self.save()

    def stop(self) -> None:
        """Makes everything durable."""
        self._log.end_interval()
        if self._saved_update != self._update:
            self.save()

    def save(self) -> None:
        """A checkpoint, after everything that it counts on has been recorded and logged."""
        self._log.end_interval()
        about = Checkpoint(
            step=self.step,
            update=self._update,
            config_sha256=self._run.record["config_sha256"],
            choices=self._choices,
            recorders=[recorder.flush() for recorder in self._recorders],
            score=self._log.score(),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        checkpoint.save(self._run.checkpoints, self._state, about, self._settings.checkpoint.keep)
        self._last_save, self._saved_update = time.monotonic(), self._update

    def _fresh(self) -> Any:
        state = self._learner.init(self._settings.seed)
        if not self._settings.init_from:
            return state
        params = loading.params_for(self._settings.init_from, self._variant.policy)
        return self._learner.tuned(state, params)

    def _restored(self, path: Path) -> Any:
        return checkpoint.restore(path, self._learner.abstract_state())

    def _save_is_due(self) -> bool:
        when = self._settings.checkpoint
        by_clock = when.minutes > 0 and time.monotonic() - self._last_save >= 60 * when.minutes
        return by_clock or (when.updates > 0 and self._update % when.updates == 0)

    def _folder(self, index: int) -> Path:
        return seed_folder(self._run.path, self._settings.seeds, index)

    def _open_recorder(self, index: int, position: dict[str, Any] | None) -> Recorder:
        settings = self._settings
        if not settings.recorded_envs or not cluster.is_main():
            return NoRecorder()
        self._folder(index).mkdir(parents=True, exist_ok=True)
        return StoreRecorder(
            self._folder(index) / "trajectories",
            record.header(settings, self._variant, self._run.record, settings.seeds[index]),
            settings.recorded_envs,
            settings.record_shard_mb * 2**20,
            position,
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        for recorder in self._recorders:
            recorder.close()
        self._log.close()
