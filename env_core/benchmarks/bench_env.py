"""Steps per second of the environment alone (random actions), under each way to reset.

    python env_core/benchmarks/bench_env.py [--environment Craftax-Symbolic-v1] [--num-envs 128] [--rollouts 5]

A rollout is 64 steps in one jitted scan with a donated state, as a learner runs it; a pool of worlds is made anew for
each, and counted. The median of the rollouts after the first is reported, with the CPU-seconds per 1,000 steps.
"""

from __future__ import annotations

import argparse
import statistics
import time

import jax

from env_core.craftax import ENVIRONMENTS, RESETS, Environment, make
from env_core.craftax.wrappers import EnvState


def rollout(env: Environment, num_steps: int):
    """The jitted function key, state -> state, (episodes ended, mean of what the policy would see)."""

    def run(key: jax.Array, state: EnvState):
        key_worlds, key_steps = jax.random.split(key)
        worlds = env.worlds(key_worlds)

        def step(state: EnvState, key: jax.Array):
            key_action, key_step = jax.random.split(key)
            action = jax.random.randint(key_action, state.statistics.length.shape, 0, env.num_actions)
            state, timestep = env.step(key_step, state, worlds, action)
            used = sum(
                part.mean() for part in jax.tree.leaves(timestep.obs)
            )  # so that nothing of the observation is left out
            return state, ((timestep.terminated | timestep.truncated).sum(), used)

        state, (ended, used) = jax.lax.scan(step, state, jax.random.split(key_steps, num_steps))
        return state, (ended.sum(), used.mean())

    return jax.jit(run, donate_argnums=1)


def measure(env: Environment, num_envs: int, num_steps: int, rollouts: int) -> str:
    key = jax.random.PRNGKey(0)
    state, _ = env.reset(key, num_envs)
    start = time.perf_counter()
    run = rollout(env, num_steps).lower(key, state).compile()
    compiled = time.perf_counter() - start
    walls, cpus, episodes = [], [], 0
    for key_rollout in jax.random.split(key, rollouts + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        state, result = run(key_rollout, state)
        episodes += int(jax.block_until_ready(result)[0])
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    steps = num_envs * num_steps
    rate = steps / statistics.median(walls[1:])
    cost = 1000 * statistics.median(cpus[1:]) / steps
    return f"{rate:10,.0f} steps/s  {cost:7.3f} CPU-s/1k steps  compiled in {compiled:5.1f} s  {episodes} episodes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", nargs="*", default=ENVIRONMENTS, choices=ENVIRONMENTS)
    parser.add_argument("--reset", nargs="*", default=RESETS, choices=RESETS)
    parser.add_argument("--num-envs", type=int, default=128)
    parser.add_argument("--num-steps", type=int, default=64)
    parser.add_argument("--rollouts", type=int, default=5)
    args = parser.parse_args()
    print(f"{jax.devices()[0].device_kind}, {args.num_envs} environments, {args.num_steps} steps per rollout")
    for name in args.environment:
        for reset in args.reset:
            result = measure(make(name, reset), args.num_envs, args.num_steps, args.rollouts)
            print(f"{name:28s} {reset:10s} {result}", flush=True)


if __name__ == "__main__":
    main()
