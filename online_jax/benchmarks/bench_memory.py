"""Bytes of a rollout per environment step, from the shapes of the compiled program; nothing is run.

hatch run online:python online_jax/benchmarks/bench_memory.py --num-envs 1024
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import Any

from online_jax.config import NetworkConfig, TrainConfig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env-name", default="Craftax-Symbolic-v1")
    parser.add_argument("--num-envs", type=int, default=128)
    parser.add_argument("--num-steps", type=int, default=64)
    parser.add_argument("--record-envs", type=int, default=-1)
    given = parser.parse_args()
    settings = TrainConfig(
        env_name=given.env_name,
        num_envs=given.num_envs,
        num_steps=given.num_steps,
        record_envs=given.record_envs,
        network=NetworkConfig(first_layer="gather"),
    )
    sys.stdout.write(json.dumps(sizes(settings), indent=1) + "\n")


def sizes(settings: TrainConfig) -> dict[str, float]:
    import jax

    from online_jax import ppo
    from online_jax.presets import ppo as preset

    variant = preset(settings)
    state = jax.eval_shape(partial(ppo.init, variant), jax.random.PRNGKey(0))
    _, rollout, kept = jax.eval_shape(
        partial(ppo.collect, variant), state.params, state.learned, state.actor, jax.random.PRNGKey(0)
    )

    def per_step(tree: Any) -> float:
        return round(sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree)) / settings.steps_per_update, 1)

    layout = variant.env.layout
    return {
        "observations": per_step(rollout.steps.obs),
        "terminal observations": per_step(kept.endings.obs),
        "everything else of the rollout": per_step(rollout.steps._replace(obs=())),
        "one-hot observation instead": 4.0 * layout.size,
        "environment state (per environment)": per_step(state.actor.env_state) * settings.num_steps,
    }


if __name__ == "__main__":
    main()
