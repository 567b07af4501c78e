"""How fast are observations told in words, and how long are the texts?

    python env_core/benchmarks/bench_text.py [--environment Craftax-Symbolic-v1] [--observations 32768]

A random policy plays (Craftax: an equal share of environments put on each floor); the observations of all steps, in the
order in which a rollout holds them, are described in each form, in batches of each size, on one core.
"""

from __future__ import annotations

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

from env_core.craftax import ENVIRONMENTS, Environment, make
from env_core.craftax.scenes import put_on_floor
from env_core.observation import CRAFTAX, Packed, environment_layouts
from env_core.observation.text import FORMS, describe

NUM_ENVS = 126  # 14 on each of 9 floors
FLOORS = 9
BATCHES = (1, 128, 8192)
ROUNDS = 7


def played(env: Environment, observations: int) -> Packed:
    """At least that many observations [B, ...] of random play, step by step."""
    key_reset, key_worlds, key = jax.random.split(jax.random.PRNGKey(0), 3)
    state, _ = env.reset(key_reset, NUM_ENVS)
    if env.layout is CRAFTAX:
        inner = jax.jit(jax.vmap(put_on_floor))(state.inner, jnp.arange(NUM_ENVS) % FLOORS)
        state = state._replace(inner=inner)
    worlds = env.worlds(key_worlds)
    steps: list[Packed] = []
    while len(steps) * NUM_ENVS < observations:
        key, key_action, key_step = jax.random.split(key, 3)
        action = jax.random.randint(key_action, (NUM_ENVS,), 0, env.num_actions)
        state, timestep = env.step(key_step, state, worlds, action)
        steps.append(Packed(*map(np.asarray, timestep.obs)))
    return Packed(*(np.concatenate(part) for part in zip(*steps, strict=True)))


def rate(packed: Packed, env: Environment, form: str, batch: int) -> float:
    """Median over rounds of observations per CPU-second, described `batch` at a time."""
    count = min(len(packed.tile), 512 * batch)
    batches = [Packed(*(part[i : i + batch] for part in packed)) for i in range(0, count, batch)]
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for some in batches:
            describe(some, env.layout, form)
        seconds.append(time.process_time() - start)
    return count / sorted(seconds)[ROUNDS // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [name for name in ENVIRONMENTS if name in environment_layouts]
    parser.add_argument("--environment", nargs="*", default=known, choices=known)
    parser.add_argument("--observations", type=int, default=32768)
    args = parser.parse_args()
    for name in args.environment:
        env = make(name, pool_size=FLOORS)
        packed = played(env, args.observations)
        print(f"{name}: {len(packed.tile):,} observations of random play")
        for form in FORMS:
            texts = describe(packed, env.layout, form)
            length = f"{np.mean([len(text) for text in texts]):.0f} characters"
            rates = ", ".join(f"{rate(packed, env, form, batch):,.0f} in batches of {batch}" for batch in BATCHES)
            print(f"  {form:12s} {length}; observations per CPU-second: {rates}")


if __name__ == "__main__":
    main()
