"""Runs on one device and on four, in a process that is made to have four; `test_devices.py` compares what they left.

Called with an empty folder. Leaves in it the runs `<what>-<devices>`, those of `plain` continued from a checkpoint in
the middle with the other number of devices (`plain-1-on-4`, `plain-4-on-1`), and plan.json: what each device does.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from small_runs import SMALL, devices_of_cpu

os.environ["XLA_FLAGS"] = devices_of_cpu(4)

import jax
import numpy as np
from probes import scribble, silent, small_config, variant_on

from online_jax import assemble, checkpoint, devices, train
from online_jax.learner import Learner

SHAPE = ["--num-envs", "8", "--total-steps", "512"]
"""Eight updates of 8 x 8 steps; checkpoints after three, six and eight."""
CURIOUS = ["--bonus", "rnd", "--rnd.width", "8", "--rnd.outputs", "8", "--network.memory", "gru", "--num-seeds", "2"]
RUNS = {"plain": ["--record-envs", "3"], "curious": CURIOUS}
COLLECTIVE = re.compile(r"= (.*?) (?:all-gather|all-reduce|collective-permute|all-to-all|reduce-scatter)(?:-start)?\(")
BYTES = {"pred": 1, "u8": 1, "u16": 2, "u32": 4, "s32": 4, "f32": 4}


def main(folder: Path) -> None:
    assemble.make = scribble
    for name, arguments in RUNS.items():
        for count in ("1", "4"):
            run = folder / f"{name}-{count}"
            train.main([*SMALL, *SHAPE, *arguments, "--devices", count, "--run-dir", str(run)])
    for before, after in (("1", "4"), ("4", "1")):
        run = folder / f"plain-{before}-on-{after}"
        shutil.copytree(folder / f"plain-{before}", run)
        shutil.rmtree(checkpoint.latest(run / "checkpoints")[0])
        train.main(["--resume", str(run), "--devices", after, "--quiet"])
    (folder / "plan.json").write_text(json.dumps({count: plan(count) for count in (1, 4)}))


def plan(count: int) -> dict[str, Any]:
    """What one of `count` devices does per update with 64 environments: floating-point operations of each program, and
    the bytes of each exchange with the others, of all of them and of those within the steps of a rollout."""
    config = small_config(num_envs=64, num_steps=16, record_envs=4)
    variant = variant_on(scribble("Craftax-Classic-Symbolic-v1", reset="pool"), config)
    learner = Learner(variant, silent, devices.place(64, count))
    learner.update(learner.init(0))
    learning = next(name for name in learner.programs if name.startswith("learning"))
    programs = {"collect": learner.programs["the environment and the policy"], "learn": learner.programs[learning]}
    return {
        name: {
            "flops": program.cost_analysis()["flops"],
            "exchanged": exchanged(program.as_text(), ""),
            "within_steps": exchanged(program.as_text(), "while/body"),
        }
        for name, program in programs.items()
    }


def exchanged(program: str, where: str) -> list[int]:
    """Bytes of the result of each collective operation whose line says `where`."""
    found = (COLLECTIVE.search(line) for line in program.splitlines() if where in line)
    shapes = (re.findall(r"(\w+)\[([\d,]*)\]", one[1]) for one in found if one)
    return [
        sum(BYTES[kind] * int(np.prod([int(size) for size in sizes.split(",") if size])) for kind, sizes in shape)
        for shape in shapes
    ]


if __name__ == "__main__":
    assert jax.device_count() == 4
    main(Path(sys.argv[1]))
