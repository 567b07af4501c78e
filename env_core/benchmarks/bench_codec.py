"""Is the packed form exact over every floor, and how fast is it?

    python env_core/benchmarks/bench_codec.py [--observations 1000000] [--environment Craftax-Symbolic-v1]

Exactness: environments are put on all floors in turn and play at random; of every state played, and of the same state
with a crowd of mobs at the screen's edges, the game's own observation must equal, bit for bit, what our observer's
codes decode to (numpy and JAX), and numpy must pack the game's observation to the same codes. Any difference ends the
program with status 1. Speed: numpy's encode and decode of the last observations, on one core.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import count

import jax
import jax.numpy as jnp
import numpy as np
from craftax.craftax_env import make_craftax_env_from_name

from env_core import observation
from env_core.craftax import Environment, decode, make, observer
from env_core.craftax.scenes import crowded, put_on_floor
from env_core.observation import CRAFTAX, EMPTY_MOB, Layout, Packed, environment_layouts

CHUNK = 16  # steps in one jitted call
CHUNKS_PER_WORLD = 20
FLOORS = 9


def chunk(env: Environment, num_envs: int):
    """The jitted function: key, state, worlds -> state, (observation, packed, decoded) of every state and its crowd."""
    game = make_craftax_env_from_name(env.name, auto_reset=False)
    observe = jax.vmap(observer(env.layout))
    crowd = jax.vmap(crowded(env.layout))

    def get_obs(inner):
        # As in a program of its own: XLA merges the game's divisions with those that made the state.
        return jax.vmap(game.get_obs)(jax.lax.optimization_barrier(inner))

    def seen(inner):
        packed = observe(inner)
        return get_obs(inner), packed, decode(packed, env.layout)

    def step(carry, key: jax.Array):
        state, worlds = carry
        key_action, key_step, key_crowd = jax.random.split(key, 3)
        action = jax.random.randint(key_action, (num_envs,), 0, env.num_actions)
        state, timestep = env.step(key_step, state, worlds, action)
        crowds = crowd(jax.random.split(key_crowd, num_envs), state.inner)
        carried = get_obs(state.inner), timestep.obs, decode(timestep.obs, env.layout)
        return (state, worlds), jax.tree.map(lambda *parts: jnp.concatenate(parts), carried, seen(crowds))

    def run(key: jax.Array, state, worlds):
        (state, _), all_seen = jax.lax.scan(step, (state, worlds), jax.random.split(key, CHUNK))
        return state, all_seen

    return jax.jit(run, donate_argnums=1)


def compare(obs: np.ndarray, packed: Packed, decoded: np.ndarray, layout: Layout) -> None:
    """Raises `SystemExit` with the first place where two ways to the same observation part."""
    words = obs.view(np.uint32)
    for way, ours in (("decode in JAX", decoded), ("decode in numpy", observation.decode(packed, layout))):
        if not np.array_equal(words, ours.view(np.uint32)):
            at = np.argwhere(words != ours.view(np.uint32))[0]
            raise SystemExit(f"{way} differs at {at.tolist()}: {obs[tuple(at)]!r} became {ours[tuple(at)]!r}")
    for name, ours, again in zip(Packed._fields, packed, observation.encode(obs, layout), strict=True):
        if not np.array_equal(ours.view(np.uint8), again.view(np.uint8)):
            raise SystemExit(f"numpy packs another {name} than the observer")


def observed(env: Environment, num_envs: int) -> Iterator[tuple[np.ndarray, Packed, np.ndarray]]:
    """Without end: the observations of a chunk of play and of its crowds, ours packed, and ours decoded in JAX."""
    floors = jnp.arange(num_envs) % FLOORS
    place = jax.jit(jax.vmap(put_on_floor)) if env.layout is CRAFTAX else lambda inner, _: inner
    run = chunk(env, num_envs)
    for number in count():
        key_reset, key_worlds, key_run = jax.random.split(jax.random.fold_in(jax.random.PRNGKey(0), number), 3)
        if number % CHUNKS_PER_WORLD == 0:
            state, _ = env.reset(key_reset, num_envs)
            worlds = env.worlds(key_worlds)
        state = state._replace(inner=place(state.inner, floors))
        state, seen = run(key_run, state, worlds)
        obs, *packed, decoded = (np.asarray(leaf).reshape(-1, leaf.shape[-1]) for leaf in jax.tree.leaves(seen))
        yield obs, Packed(*packed), decoded


def exactness(env: Environment, observations: int, num_envs: int) -> np.ndarray:
    """Compares that many observations; returns the last ones."""
    compared, mobs, per_floor = 0, 0, np.zeros(FLOORS, int)
    start = time.perf_counter()
    for obs, packed, decoded in observed(env, num_envs):
        compare(obs, packed, decoded, env.layout)
        compared += len(obs)
        mobs += int((packed.mob != EMPTY_MOB).sum())
        if env.layout is CRAFTAX:
            floor = np.rint(10 * packed.scalar[:, CRAFTAX.scalar_names.index("floor")])
            per_floor += np.bincount(floor.astype(int), minlength=FLOORS)
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{compared:,} compared")
        if compared >= observations:
            break
    floors_seen = f", per floor {per_floor.tolist()}" if env.layout is CRAFTAX else ""
    print(f"{env.name}: {compared:,} observations equal bit for bit, {mobs / compared:.2f} mobs each{floors_seen}")
    print(f"  in {time.perf_counter() - start:.0f} s")
    return obs


def speed(obs: np.ndarray, layout: Layout) -> None:
    out, packed = np.empty_like(obs), observation.encode(obs, layout)
    bits = observation.encode_bits(obs, layout.map_size)
    jobs = {
        "encode": lambda: observation.encode(obs, layout),
        "decode": lambda: observation.decode(packed, layout, out),
        "encode_bits": lambda: observation.encode_bits(obs, layout.map_size),
        "decode_bits": lambda: observation.decode_bits(bits, layout.map_size, out),
    }
    for name, job in jobs.items():
        cpu = []
        for _ in range(7):
            start = time.process_time()
            job()
            cpu.append(time.process_time() - start)
        median, best = (len(obs) / t for t in (sorted(cpu)[3], min(cpu)))
        print(f"  {name:12s} {median:9,.0f} observations per CPU-second (best of 7: {best:,.0f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", nargs="*", default=environment_layouts, choices=environment_layouts)
    parser.add_argument("--observations", type=int, default=1_000_000)
    parser.add_argument("--num-envs", type=int, default=126, help="a multiple of 9 puts as many on each floor")
    args = parser.parse_args()
    for name in args.environment:
        env = make(name, pool_size=FLOORS)
        speed(exactness(env, args.observations, args.num_envs), env.layout)


if __name__ == "__main__":
    main()
