"""What recording costs: the same training with every environment recorded and with none, in turns; and its memory.

hatch run online:python online_jax/benchmarks/bench_recording.py
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from rounds import Side, report, take_turns

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env-name", default="Craftax-Classic-Symbolic-v1")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--updates", default="5", help="updates per round")
    given = parser.parse_args()
    command = [sys.executable, str(HERE / "ours.py"), "--env-name", given.env_name, "--updates", given.updates]
    everything = Side("recording everything", [*command, "--record-envs", "-1"], os.environ)
    nothing = Side("recording nothing", [*command, "--record-envs", "0"], os.environ)
    take_turns(everything, nothing, given.rounds)
    result = report(everything, nothing, 128 * 64)
    result["resident_mb"] = {
        side.name: [one["resident_mb"][0] for one in side.rounds] for side in (everything, nothing)
    }
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    everything.close()
    nothing.close()


if __name__ == "__main__":
    main()
