r"""Does it learn, and as well as the peer? Craftax-Classic, 128 x 64, 25 annealed updates (204,800 steps) a seed.

    hatch run online:python online_jax/benchmarks/bench_learning.py ppo --seeds 5
    hatch run online:python online_jax/benchmarks/bench_learning.py ppo-rnn --seeds 3 \
        --checkout peer --peer-python peer-env/bin/python

One line per run with its curve; then the mean over seeds, with its standard error, of the mean return of the last 5
updates. With a checkout of the peer (see `bench_peer.py`) its script takes turns, same seeds, its own defaults.

The controls must fail: `--control sign` climbs the policy loss instead of descending it (the advantage with its sign
flipped), `--control zero-rate` learns at rate 0.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from bench_peer import SCRIPTS, peer_side
from rounds import Round

from online_jax.config import TrainConfig, replaced
from online_jax.presets import PRESETS
from online_jax.train import use_compilation_cache

LAST = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", nargs="?", default="ppo", choices=SCRIPTS)
    parser.add_argument("--env-name", default="Craftax-Classic-Symbolic-v1")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=25)
    parser.add_argument("--reset", default="pool")
    parser.add_argument("--control", choices=["none", "sign", "zero-rate"], default="none")
    parser.add_argument("--checkout", type=Path, help="the peer's repository")
    parser.add_argument("--peer-python", help="a Python with the peer's requirements")
    given = parser.parse_args()
    use_compilation_cache()
    settings = replaced(
        TrainConfig(record=False),
        {
            **PRESETS[given.preset],
            "env_name": given.env_name,
            "env.reset": given.reset,
            "network.first_layer": "gather",
            "total_steps": given.updates * TrainConfig().steps_per_update,
        },
    )
    sides: dict[str, Callable[[int], Round]] = {"here": _here(settings, given.updates, given.control)}
    if given.checkout:
        sizes = ["--env-name", given.env_name, "--updates", str(given.updates - 1)]  # it runs one more than it times
        peer = peer_side(given.preset, given.checkout, given.peer_python, sizes)
        sides["peer"] = peer.play
    returns: dict[str, list[float]] = {name: [] for name in sides}
    cpu: dict[str, list[float]] = {name: [] for name in sides}
    for seed in range(given.seeds):
        for name, play in sides.items():
            run = play(seed)
            returns[name].append(statistics.fmean(run["returns"][-LAST:]))
            cpu[name].append(1000 * statistics.median(run["cpu"]) / settings.steps_per_update)
            line = {"side": name, "seed": seed, "last_updates": round(returns[name][-1], 3)}
            line |= {"cpu_seconds_per_1000_steps": round(cpu[name][-1], 3)}
            line |= {"curve": [round(x, 2) for x in run["returns"]]}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
    for name in sides:
        error = statistics.stdev(returns[name]) / math.sqrt(given.seeds) if given.seeds > 1 else math.nan
        sys.stdout.write(
            f"{given.preset} {name}, control {given.control}: {statistics.fmean(returns[name]):.3f} ± {error:.3f}"
            f" over {given.seeds} seeds, {statistics.median(cpu[name]):.3f} CPU-s per 1,000 steps\n"
        )
    if given.checkout:
        peer.close()


def _here(settings: TrainConfig, updates: int, control: str) -> Callable[[int], Round]:
    from online_jax import assemble
    from online_jax.learner import Learner

    rate = 0.0 if control == "zero-rate" else settings.ppo.learning_rate
    variant = assemble.variant(replace(settings, ppo=replace(settings.ppo, learning_rate=rate)))
    if control == "sign":
        weight = tuple(-one for one in variant.streams.weight)
        variant = variant._replace(streams=variant.streams._replace(weight=weight))
    learner = Learner(variant, lambda what: nullcontext())

    def play(seed: int) -> Round:
        """Per update: CPU-seconds, and the mean return of the episodes that ended in it."""
        state = learner.init(seed)
        run: dict[str, list[float]] = {"cpu": [], "returns": []}
        for _ in range(updates):
            began = time.process_time()
            done = learner.update(state)
            state = done.state
            ended = done.episodes
            run["returns"].append(float(ended.episode_return) / max(1, int(ended.num_episodes)))
            run["cpu"].append(time.process_time() - began)
        return run

    return play


if __name__ == "__main__":
    main()
