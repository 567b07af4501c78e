"""`hatch run online:train`: the host's side of training. Read `train` for the story, `ppo.py` for the algorithm."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from signal import SIGTERM
from typing import TYPE_CHECKING

from env_core.errors import reported
from env_core.run import Progress, Run, ShutdownSignal, plot_curves
from env_core.workspace import cache_directory
from online_jax.command import PROGRAM, parse
from online_jax.config import Invocation, TrainConfig, to_json, validate

if TYPE_CHECKING:
    from online_jax.cluster import Follower

MAY_DIFFER = ("devices", "log_every", "checkpoint.minutes", "checkpoint.updates", "checkpoint.keep")
"""Settings that a resumed run may change, since they do not change what is learnt or recorded (`devices`: but for
rounding)."""


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
    use_compilation_cache()
    with (
        open_run(preset, settings, invocation) as run,
        Progress(settings.num_updates * settings.steps_per_update, quiet=quiet(run, invocation)) as progress,
        ShutdownSignal(announce=not quiet(run, invocation)) as shutdown,
    ):
        progress.message(announcement(preset, settings, run.path))
        # Loads JAX, which takes seconds: only now that the settings are known to be good.
        from online_jax import cluster
        from online_jax.devices import enough_memory
        from online_jax.session import Session

        remedy = "Lower --num-envs, --num-steps or --network.width. What was saved before is intact."
        with enough_memory(remedy), Session(settings, run, progress) as session:
            while not session.finished and not session.agreed(shutdown.requested):
                session.update()
            session.stop()
        if isinstance(run, Run):
            plot_curves(run.path)
        progress.message(farewell(run.path, session.step, session.finished))
        cluster.wait_for_all("end")  # else those that are done would end the one that still writes
        return None if session.finished else shutdown.received or SIGTERM


def open_run(preset: str, settings: TrainConfig, invocation: Invocation) -> Run | Follower:
    config = {"preset": preset, **to_json(settings)}

    def open_here() -> Run:
        if invocation.resume is not None:
            return Run.resume(invocation.resume, config, MAY_DIFFER, wandb=invocation.wandb)
        name = f"{preset}-{short_name(settings.env_name)}"
        return Run.create(invocation.run_dir, name, config, wandb=invocation.wandb)

    if num_processes() == 1:
        return open_here()
    from online_jax import cluster

    cluster.join()
    return cluster.shared(open_here)


def quiet(run: Run | Follower, invocation: Invocation) -> bool:
    """Of several processes, the main one alone tells how the run goes."""
    return invocation.quiet or not isinstance(run, Run)


def num_processes() -> int:
    """Processes that train together, as SLURM or the user says (`cluster.join`)."""
    return int(os.environ.get("JAX_NUM_PROCESSES") or os.environ.get("SLURM_STEP_NUM_TASKS") or 1)


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
