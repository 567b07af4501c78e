"""A preset here against the peer's script, side by side on this machine: steps per second and CPU-seconds, as ratios.

    git clone https://github.com/MichaelTMatthews/Craftax_Baselines peer
    python -m venv peer-env && peer-env/bin/pip install -r peer/requirements.txt
    hatch run online:python online_jax/benchmarks/bench_peer.py ppo --checkout peer --peer-python peer-env/bin/python

Both run 128 environments x 64 steps, 4 epochs x 8 minibatches and width 512 with their own defaults (the peer with
optimistic resets, ratio 16), in processes that take turns round by round. Compilation is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rounds import Side, report, take_turns

HERE = Path(__file__).parent
SCRIPTS = {
    "ppo": ["--script", "ppo"],
    "ppo-rnn": ["--script", "ppo_rnn"],
    "ppo-rnd": ["--script", "ppo_rnd", "--set", "use_rnd=1"],
    "ppo-icm": ["--script", "ppo", "--set", "train_icm=1"],
    "ppo-e3b": ["--script", "ppo", "--set", "train_icm=1", "use_e3b=1", "icm_reward_coeff=0"],
    "ppo-pixel": ["--script", "ppo", "--set", "gae_lambda=0.95"],
}
"""Preset -> the peer's script with what its command line would say."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", nargs="?", default="ppo", choices=SCRIPTS)
    parser.add_argument("--checkout", type=Path, required=True, help="the peer's repository")
    parser.add_argument("--peer-python", required=True, help="a Python with the peer's requirements")
    parser.add_argument("--env-name", help="default: Craftax-Symbolic-v1, or Craftax-Pixels-v1")
    parser.add_argument("--num-envs", default="128")
    parser.add_argument("--num-steps", default="64")
    parser.add_argument("--updates", default="5", help="updates per round")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    env_name = given.env_name or ("Craftax-Pixels-v1" if given.preset == "ppo-pixel" else "Craftax-Symbolic-v1")
    sizes = ["--env-name", env_name, "--num-envs", given.num_envs, "--num-steps", given.num_steps]
    sizes += ["--updates", given.updates]
    ours = Side("ours", [sys.executable, str(HERE / "ours.py"), "--preset", given.preset, *sizes], os.environ)
    peer = peer_side(given.preset, given.checkout, given.peer_python, sizes)
    take_turns(ours, peer, given.rounds)
    result = report(ours, peer, int(given.num_envs) * int(given.num_steps))
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    ours.close()
    peer.close()


def peer_side(preset: str, checkout: Path, python: str, sizes: Sequence[str]) -> Side:
    """The peer's script for a preset, in a process of its own."""
    command = [python, str(HERE / "peer.py"), "--checkout", str(checkout.absolute()), *SCRIPTS[preset], *sizes]
    return Side("peer", command, os.environ)


if __name__ == "__main__":
    main()
