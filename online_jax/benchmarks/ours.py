"""This project's side of a benchmark: the compiled loop as `online:train` runs it (see `rounds.py`)."""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import rounds

from online_jax.config import NetworkConfig, TrainConfig, replaced
from online_jax.presets import PRESETS
from online_jax.train import use_compilation_cache


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="ppo")
    parser.add_argument("--env-name", help="default: the preset's")
    parser.add_argument("--num-envs", type=int, default=128)
    parser.add_argument("--num-steps", type=int, default=64)
    parser.add_argument("--updates", type=int, default=5, help="updates per round")
    parser.add_argument("--reset", default="pool")
    parser.add_argument("--first-layer", default="auto")
    parser.add_argument("--narrow", default="auto")
    parser.add_argument("--record-envs", type=int, default=0, help="0: no recording; -1: every environment")
    given = parser.parse_args()
    use_compilation_cache()
    overrides = PRESETS[given.preset] | ({"env_name": given.env_name} if given.env_name else {})
    settings = TrainConfig(
        num_envs=given.num_envs,
        num_steps=given.num_steps,
        total_steps=10**9,
        record=given.record_envs != 0,
        record_envs=given.record_envs or 1,
        network=NetworkConfig(first_layer=given.first_layer, narrow=given.narrow),
    )
    settings = replaced(settings, {"env.reset": given.reset, **overrides})
    with tempfile.TemporaryDirectory() as folder:
        rounds.serve(*side(settings, given.updates, Path(folder)))


def side(settings: TrainConfig, updates: int, folder: Path) -> Any:
    import jax

    from online_jax import assemble, calibrate, record
    from online_jax.learner import Learner

    choices = calibrate.choose(settings, assemble.make_environment(settings).layout)
    variant = assemble.variant(replace(settings, network=replace(settings.network, **choices)))
    learner = Learner(variant, lambda what: nullcontext())
    recorder: record.Recorder = record.NoRecorder()
    if settings.recorded_envs:
        about = {"git_revision": None, "config_sha256": "", "created_at": ""}
        header = record.header(settings, variant, about, settings.seed)
        recorder = record.StoreRecorder(folder / "store", header, settings.recorded_envs, 96 * 2**20)
    state = learner.init(0)

    def play(seed: int) -> dict[str, list[float]]:  # goes on where the last round stopped
        nonlocal state
        result: dict[str, list[float]] = {"wall": [], "cpu": []}
        for _ in range(updates):
            wall, cpu = time.perf_counter(), time.process_time()
            done = learner.update(state)
            state = done.state
            recorder.take(done.kept, 0, contiguous=True)
            jax.block_until_ready(done)
            result["wall"].append(time.perf_counter() - wall)
            result["cpu"].append(time.process_time() - cpu)
        result["resident_mb"] = [resident_mb()]
        return result

    compiled = -1.0
    while compiled != learner.compile_seconds:  # warm-up: until a whole round compiles nothing
        compiled = learner.compile_seconds
        play(0)
    return {**choices, "compile_seconds": round(learner.compile_seconds, 1)}, play


def resident_mb() -> float:
    """Resident memory of this process that is not a mapped file."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return round(int(fields["RssAnon"].split()[0]) / 1024, 1)


if __name__ == "__main__":
    main()
