"""One side of a benchmark: a process that measures a round whenever it is told to, so that two sides take turns.

Protocol, line by line: it prints {"ready": …} when everything is compiled; for every line on stdin, which is a
seed, it runs one round of updates and prints {"wall": [...], "cpu": [...]}, seconds per update; at the end of stdin
it stops.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

Round = Mapping[str, list[float]]


def serve(about: Mapping[str, Any], play: Callable[[int], Round]) -> None:
    """Runs the protocol in this process."""
    _say({"ready": about})
    for line in sys.stdin:
        _say(play(int(line)))


def _say(message: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class Side:
    """The other end: starts such a process and asks for rounds."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(environment)
        )
        self.about = self._hear()["ready"]
        self.rounds: list[Round] = []

    def play(self, seed: int) -> Round:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seed}\n")
        self._process.stdin.flush()
        self.rounds.append(self._hear())
        return self.rounds[-1]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def medians(self, what: str) -> list[float]:
        """Median seconds per update of each round."""
        return [median(one[what]) for one in self.rounds]

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit(f"{self.name} stopped with status {self._process.wait()}")


def take_turns(first: Side, second: Side, rounds: int) -> None:
    """Alternates, so that a machine whose speed drifts slows both."""
    for number in range(rounds):
        for side in (first, second):
            seconds = median(side.play(number)["wall"])
            sys.stderr.write(f"round {number + 1}/{rounds} {side.name}: {seconds:.3f} s per update\n")


def report(first: Side, second: Side, steps: int) -> dict[str, Any]:
    """Steps per second, CPU-seconds per 1,000 steps and the ratios, each the median over rounds."""
    result: dict[str, Any] = {}
    for side in (first, second):
        result[side.name] = {
            **side.about,
            "steps_per_second": round(steps / median(side.medians("wall"))),
            "cpu_seconds_per_1000_steps": round(1000 * median(side.medians("cpu")) / steps, 3),
        }
    for what in ("wall", "cpu"):
        ratios = [b / a for a, b in zip(first.medians(what), second.medians(what), strict=True)]
        result[f"{what}_ratio"] = {
            "median": round(median(ratios), 2),
            "min": round(min(ratios), 2),
            "max": round(max(ratios), 2),
        }
    return result
