"""`hatch run online:train`: the host's side of training. Read `train` for the story, `ppo.py` for the algorithm."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from env_core.errors import reported
from env_core.run import Progress, Run, ShutdownSignal, plot_curves
from env_core.workspace import cache_directory
from online_jax.command import PROGRAM, parse
from online_jax.config import Invocation, TrainConfig, to_json, validate

MAY_DIFFER = ("log_every", "checkpoint.minutes", "checkpoint.updates", "checkpoint.keep")
"""Settings that a resumed run may change, since they do not change what is learnt or recorded."""


def main(argv: Sequence[str] | None = None) -> None:
    with reported():
        preset, invocation = parse(sys.argv[1:] if argv is None else argv)
        settings = invocation.settings()
        validate(settings)
        signal = train(preset, settings, invocation)
    if signal is not None:
        raise SystemExit(128 + signal)  # stopped before its end, as a shell reports it


def train(preset: str, settings: TrainConfig, invocation: Invocation) -> int | None:
    """Trains to the end, or until a signal asks to stop, which is then returned."""
    with (
        open_run(preset, settings, invocation) as run,
        Progress(settings.num_updates * settings.steps_per_update, quiet=invocation.quiet) as progress,
        ShutdownSignal(announce=not invocation.quiet) as shutdown,
    ):
        progress.message(announcement(preset, settings, run.path))
        use_compilation_cache()
        # Loads JAX, which takes seconds: only now that the settings are known to be good.
        from online_jax.session import Session, enough_memory

        with enough_memory(), Session(preset, settings, run, progress) as session:
            while not session.finished and not shutdown.requested:
                session.update()
            session.stop()
        plot_curves(run.path)
        progress.message(farewell(run.path, session.step, session.finished))
        return None if session.finished else shutdown.received


def open_run(preset: str, settings: TrainConfig, invocation: Invocation) -> Run:
    config = {"preset": preset, **to_json(settings)}
    if invocation.resume is not None:
        return Run.resume(invocation.resume, config, MAY_DIFFER, wandb=invocation.wandb)
    return Run.create(invocation.run_dir, f"{preset}-{short_name(settings.env_name)}", config, wandb=invocation.wandb)


def short_name(env_name: str) -> str:
    """Craftax-Classic-Symbolic-v1 → craftax-classic-symbolic"""
    return env_name.lower().removesuffix("-v1")


def announcement(preset: str, settings: TrainConfig, path: Path) -> str:
    steps = settings.num_updates * settings.steps_per_update
    rounded = "" if steps == settings.total_steps else f" ({settings.total_steps:,} rounded up to whole updates)"
    recorded = settings.recorded_envs
    recording = f"recording {recorded} of {settings.num_envs} environments" if recorded else "not recording"
    return (
        f"{preset} on {settings.env_name}: {steps:,} steps{rounded} in {settings.num_updates:,} updates of "
        f"{settings.num_envs} x {settings.num_steps}, seed {settings.seed}, {recording} → {shown(path)}"
    )


def farewell(path: Path, step: int, finished: bool) -> str:
    if not finished:
        return f"Stopped at step {step:,}. Continue with: {PROGRAM} --resume {shown(path)}"
    trajectories = path / "trajectories"
    following = f"hatch run trajectories info {shown(trajectories)}" if trajectories.exists() else f"{PROGRAM} --help"
    return f"Done: {step:,} steps. Curves: {shown(path / 'curves.png')}. Next: {following}"


def shown(path: Path) -> str:
    """Relative to where the user stands, if that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)


def use_compilation_cache() -> None:
    """Keeps compiled programs in the user's cache folder, unless JAX was told another place. Before JAX is loaded."""
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_directory("jax")))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")


if __name__ == "__main__":
    main()
