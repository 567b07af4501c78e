"""Does it learn? Craftax-Classic, 128 x 64, 25 annealed updates (204,800 steps): mean return of the last 5 updates.

    hatch run online:python online_jax/benchmarks/bench_learning.py --seeds 5

Prints one line per seed and the mean with its standard error. The controls must fail: `--control sign` climbs the
policy loss instead of descending it (the advantage with its sign flipped), `--control zero-rate` learns at rate 0.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from online_jax.config import NetworkConfig, TrainConfig
from online_jax.train import use_compilation_cache

UPDATES, LAST = 25, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env-name", default="Craftax-Classic-Symbolic-v1")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--reset", default="pool")
    parser.add_argument("--control", choices=["none", "sign", "zero-rate"], default="none")
    given = parser.parse_args()
    use_compilation_cache()
    settings = TrainConfig(env_name=given.env_name, record=False, network=NetworkConfig(first_layer="gather"))
    settings = replace(
        settings, total_steps=UPDATES * settings.steps_per_update, env=replace(settings.env, reset=given.reset)
    )
    returns = []
    learner = _learner(settings, given.control)
    for seed in range(given.seeds):
        curve = _curve(learner, seed)
        returns.append(statistics.fmean(curve[-LAST:]))
        line = {"seed": seed, "last_updates": round(returns[-1], 3), "curve": [round(x, 2) for x in curve]}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    error = statistics.stdev(returns) / math.sqrt(len(returns)) if len(returns) > 1 else math.nan
    sys.stdout.write(f"{given.control}: {statistics.fmean(returns):.3f} ± {error:.3f} over {len(returns)} seeds\n")


def _learner(settings: TrainConfig, control: str) -> Any:
    from online_jax.learner import Learner
    from online_jax.presets import ppo

    rate = 0.0 if control == "zero-rate" else settings.ppo.learning_rate
    variant = ppo(replace(settings, ppo=replace(settings.ppo, learning_rate=rate)))
    if control == "sign":
        variant = variant._replace(streams=variant.streams._replace(weight=(-1.0,)))
    return Learner(variant, lambda what: nullcontext())


def _curve(learner: Any, seed: int) -> list[float]:
    """Mean return of the episodes that ended in each update."""
    state, curve = learner.init(seed), []
    for _ in range(UPDATES):
        done = learner.update(state)
        state = done.state
        curve.append(float(done.episodes.episode_return) / max(1, int(done.episodes.num_episodes)))
    return curve


if __name__ == "__main__":
    main()
