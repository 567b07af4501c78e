"""Environment steps per second of an evaluation, after compilation.

    hatch run online:python online_jax/benchmarks/bench_evaluate.py [--env-name Craftax-Classic-Symbolic-v1]

Counted are the steps of episodes that are reported, not those that slots idle away at the end; timed is everything from
the worlds to the last result. The policy has learnt nothing. CPU-seconds tell the speed of one core whatever else the
machine does.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import jax

from env_core.run import Progress
from online_jax import assemble
from online_jax.config import NetworkConfig, TrainConfig
from online_jax.measure import Measurer, Plan, num_slots

POLICIES = {"sampled": False, "greedy": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env-name", default="Craftax-Classic-Symbolic-v1")
    parser.add_argument("--episodes", type=int, default=128)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    config = TrainConfig(env_name=args.env_name, network=NetworkConfig(width=args.width, first_layer="gather"))
    env = assemble.make_environment(config)
    policy = assemble.policy(config, env)
    params = policy.init(jax.random.PRNGKey(0))
    plan = Plan(args.episodes, POLICIES, 0, num_slots(2 * args.episodes))
    rates = []
    with Progress(0, quiet=True) as progress:
        measurer = Measurer(policy, env, plan, progress)
        for number in range(1 + args.rounds):  # the first compiles
            wall, cpu = time.perf_counter(), time.process_time()
            episodes = measurer.play(params, {}).episodes
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            steps = sum(int(one.lengths.sum()) for one in episodes.values())
            rates.append((steps / wall, steps / cpu))
            what = "compiles" if number == 0 else f"{steps / wall:,.0f} steps/s, {steps / cpu:,.0f} per CPU-second"
            print(f"{args.env_name}, {args.episodes} episodes of each policy, {steps:,} steps: {what}", flush=True)
    walls, cpus = zip(*rates[1:], strict=True)
    print(f"median {median(walls):,.0f} steps/s, {median(cpus):,.0f} per CPU-second (one core)")


if __name__ == "__main__":
    main()
