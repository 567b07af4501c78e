"""How fast training is here, part by part: what `bench.py` asks for each number of environments."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import jax

from online_jax import assemble, calibrate, devices, record
from online_jax.config import TrainConfig
from online_jax.learner import Learner, Status
from online_jax.session import layout_of

PARTS = ("environment", "policy", "update", "recording")
PROVENANCE = {"git_revision": None, "config_sha256": "0" * 64, "created_at": ""}
"""Of a store that nobody keeps."""


@dataclass(frozen=True)
class Measured:
    """Of one number of environments. Times are medians over updates, but those of the whole loop are means."""

    num_envs: int
    num_steps: int
    devices: int
    compile_seconds: float
    """of all programs of training; seconds less where they came from the cache"""
    steps_per_second: float
    """of the whole loop, recording included"""
    environment_steps_per_second: float
    """of the environment alone, with random actions: the limit"""
    seconds: dict[str, float]
    """per update, by part"""
    update_seconds: float
    """per update, of the whole loop"""
    cpu_seconds_per_1000_steps: float
    """of the whole loop; on a GPU, the host's part"""
    peak_memory_mb: float
    memory_of: str
    """`device`: the fullest one's own count; `process`: resident memory, where the device does not count"""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(settings: TrainConfig, updates: int, folder: Path, status: Status) -> Measured:
    """Measures training with `settings` over `updates` updates, after two that warm up; `folder` is used and removed.

    What cannot be timed by itself is a difference: the policy's time is that of a rollout less that of the environment
    alone; recording (and what else the host does) that of the whole loop less that of rollout and update. A difference
    that noise makes negative counts as 0.
    """
    reset_peak()
    choices = calibrate.choose(settings, layout_of(settings.env_name))
    variant = assemble.variant(replace(settings, network=replace(settings.network, **choices)))
    placement = devices.place(settings.num_envs, settings.devices)
    learner = Learner(variant, status, placement, settings.num_seeds)
    state = learner.init(settings.seed)
    for _ in range(2):
        state = learner.update(state).state
    with status("timing acting and learning"):
        state, acting, learning = _halves(learner, state, updates)
    recorders = _recorders(settings, variant, folder)
    with status("timing the whole loop"):
        state, whole, cpu = _whole(learner, state, recorders, updates)
    shutil.rmtree(folder, ignore_errors=True)
    memory, of = peak_memory_mb()
    del state
    limit = environment_seconds(learner, settings, updates, status)
    steps = settings.num_seeds * settings.steps_per_update
    return Measured(
        num_envs=settings.num_envs,
        num_steps=settings.num_steps,
        devices=placement.num_devices,
        compile_seconds=learner.compile_seconds,
        steps_per_second=steps / whole,
        environment_steps_per_second=steps / limit,
        seconds={
            "environment": limit,
            "policy": max(0.0, acting - limit),
            "update": learning,
            "recording": max(0.0, whole - acting - learning),
        },
        update_seconds=whole,
        cpu_seconds_per_1000_steps=1000 * cpu / steps,
        peak_memory_mb=memory,
        memory_of=of,
    )


def _halves(learner: Learner, state: Any, updates: int) -> tuple[Any, float, float]:
    """The state after `updates` updates, and the median seconds of each half."""
    acting, learning = [], []
    for _ in range(updates):
        began = time.perf_counter()
        acted = jax.block_until_ready(learner.collect(state))
        between = time.perf_counter()
        state = jax.block_until_ready(learner.learn(acted))[0]
        acting.append(between - began)
        learning.append(time.perf_counter() - between)
    return state, median(acting), median(learning)


def _whole(learner: Learner, state: Any, recorders: list[record.Recorder], updates: int) -> tuple[Any, float, float]:
    """The state after `updates` updates as a run does them, and the wall and CPU seconds of one, until all of it is on
    disk."""
    wall, cpu = time.perf_counter(), time.process_time()
    for number in range(updates):
        done = learner.update(state)
        state = done.state
        for index, recorder in enumerate(recorders):
            kept = done.kept if len(recorders) == 1 else jax.tree.map(lambda x, i=index: x[i], done.kept)
            recorder.take(kept, number, contiguous=True)
    jax.block_until_ready(state)
    for recorder in recorders:
        recorder.flush()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    for recorder in recorders:
        recorder.close()
    return state, wall / updates, cpu / updates


def _recorders(settings: TrainConfig, variant: Any, folder: Path) -> list[record.Recorder]:
    if not settings.recorded_envs:
        return [record.NoRecorder()]
    header = record.header(settings, variant, PROVENANCE, settings.seed)
    return [
        record.StoreRecorder(folder / str(seed), header, settings.recorded_envs, settings.record_shard_mb * 2**20)
        for seed in settings.seeds
    ]


def environment_seconds(learner: Learner, settings: TrainConfig, updates: int, status: Status) -> float:
    """Median seconds that a rollout takes with random actions and no policy."""
    env = learner.variant.env

    def rollout(env_state: Any, key: jax.Array) -> Any:
        k_worlds, k_steps = jax.random.split(key)
        worlds = env.worlds(k_worlds)

        def step(env_state: Any, key: jax.Array) -> Any:
            k_act, k_env = jax.random.split(key)
            action = jax.random.randint(k_act, (settings.num_envs,), 0, env.num_actions)
            env_state, timestep = env.step(k_env, env_state, worlds, action)
            return env_state, (timestep.obs, timestep.reward)  # kept, as training keeps them: else never computed

        return jax.lax.scan(step, env_state, jax.random.split(k_steps, settings.num_steps))

    seeds = settings.num_seeds
    state = learner.init(settings.seed).actor.env_state
    keys = jax.random.split(jax.random.PRNGKey(settings.seed), updates + 1)
    places = jax.tree.map(lambda x: x.sharding, state)
    run = jax.jit(jax.vmap(rollout) if seeds > 1 else rollout, donate_argnums=0, out_shardings=(places, None))
    times = []
    with status("timing the environment alone"):
        for key in keys:
            given = learner.everywhere(jax.random.split(key, seeds) if seeds > 1 else key)
            began = time.perf_counter()
            state, _ = jax.block_until_ready(run(state, given))
            times.append(time.perf_counter() - began)
    return median(times[1:])  # the first one compiles


def reset_peak() -> None:
    """Lets the peak of resident memory begin anew, where the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_mb() -> tuple[float, str]:
    """The most memory that was in use, and whose: devices count theirs since the program's start."""
    counted = [stats["peak_bytes_in_use"] for device in jax.local_devices() if (stats := device.memory_stats())]
    if counted:
        return max(counted) / 2**20, "device"
    try:
        fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) / 2**10, "process"
    except OSError:
        return float("nan"), "process"
