"""The peer's side of a benchmark: an unmodified checkout of Craftax_Baselines (see `rounds.py`).

Run by a Python that has the peer's requirements. Its own defaults hold, except for the flags below; its logging hook is
used as a clock, which its training calls once per update.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import sys
import time
from pathlib import Path
from typing import Any

import rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkout", type=Path, required=True)
    parser.add_argument("--script", default="ppo")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=NUMBER", help="settings of its command line")
    parser.add_argument("--env-name", default="Craftax-Symbolic-v1")
    parser.add_argument("--num-envs", type=int, default=128)
    parser.add_argument("--num-steps", type=int, default=64)
    parser.add_argument(
        "--updates", type=int, default=5, help="updates per round, besides the first, which is left out"
    )
    given = parser.parse_args()
    rounds.serve(*side(given))


def side(given: argparse.Namespace) -> Any:
    import jax

    sys.path.insert(0, str(given.checkout))
    module: Any = importlib.import_module(given.script)
    config = {name.upper(): value for name, value in defaults(given.checkout / f"{given.script}.py").items()}
    config |= {
        "ENV_NAME": given.env_name,
        "NUM_ENVS": given.num_envs,
        "NUM_STEPS": given.num_steps,
        "TOTAL_TIMESTEPS": (given.updates + 1) * given.num_envs * given.num_steps,
        "DEBUG": True,
        "USE_WANDB": True,
        "NUM_REPEATS": 1,
        "SEED": 0,
    }
    config |= {name.upper(): float(value) for name, value in (one.split("=") for one in given.set)}
    marks: list[tuple[float, float]] = []
    returns: list[float] = []

    def clock(step: Any, log: Any, config: Any) -> None:
        marks.append((time.perf_counter(), time.process_time()))
        returns.append(float(log["episode_return"]))

    module.batch_log = clock
    began = time.perf_counter()
    train = jax.jit(module.make_train(config)).lower(jax.random.PRNGKey(0)).compile()
    about = {"compile_seconds": round(time.perf_counter() - began, 1)}

    def play(seed: int) -> dict[str, list[float]]:
        marks.clear()
        returns.clear()
        jax.block_until_ready(train(jax.random.PRNGKey(seed))["runner_state"][0].params)
        jax.effects_barrier()
        return {
            "wall": [b[0] - a[0] for a, b in itertools.pairwise(marks)],
            "cpu": [b[1] - a[1] for a, b in itertools.pairwise(marks)],
            "returns": list(returns),
        }

    return about, play


def defaults(script: Path) -> dict[str, Any]:
    """The defaults of the script's own command line, which it only reads when it is the main program."""
    kept: dict[str, Any] = {}

    class ParsedError(Exception):
        pass

    def intercept(self: argparse.ArgumentParser, args: Any = None, namespace: Any = None) -> Any:
        kept.update({action.dest: action.default for action in self._actions if action.dest != "help"})
        raise ParsedError

    original = argparse.ArgumentParser.parse_known_args
    argparse.ArgumentParser.parse_known_args = intercept  # type: ignore[method-assign,assignment]
    try:
        exec(compile(script.read_text(), str(script), "exec"), {"__name__": "__main__"})
    except ParsedError:
        pass
    finally:
        argparse.ArgumentParser.parse_known_args = original  # type: ignore[method-assign]
    return kept


if __name__ == "__main__":
    main()
