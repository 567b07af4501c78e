"""metrics.jsonl: one JSON object per line, `step` (environment steps), `time` (seconds since 1970) and metrics."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, SupportsFloat

from env_core.errors import RunError
from env_core.publish import publish

FILE_NAME = "metrics.jsonl"


class MetricsLog:
    """Appends to a metrics file, one whole line per write, so that a killed process leaves at most one broken line,
    the last. Opening the file cuts such a line off."""

    def __init__(self, path: Path):
        self.path = path
        path.touch()
        _cut_broken_end(path)
        self._file: BinaryIO = path.open("ab", buffering=0)

    def write(self, step: int, metrics: Mapping[str, SupportsFloat]) -> dict[str, Any]:
        """Appends one line and returns what it holds. Numbers that JSON cannot hold (NaN, infinity) become null."""
        line: dict[str, Any] = {"step": int(step), "time": round(time.time(), 3)}
        line |= {name: _number(value) for name, value in metrics.items()}
        self._file.write(json.dumps(line, allow_nan=False).encode() + b"\n")
        return line

    def truncate(self, step: int) -> int:
        """Drops every line after `step`, in one atomic replacement, and returns how many were dropped. A run that
        continues from a checkpoint writes those steps again."""
        lines = list(read_metrics(self.path))
        kept = [line for line in lines if line["step"] <= step]
        if len(kept) == len(lines):
            return 0
        self._file.close()
        publish(self.path, lambda file: file.writelines(json.dumps(line).encode() + b"\n" for line in kept))
        self._file = self.path.open("ab", buffering=0)
        return len(lines) - len(kept)

    def close(self) -> None:
        self._file.close()


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a metrics file, which may be growing: a broken last line is left out.

    Raises `RunError` for a broken line elsewhere and for a file that is not there.
    """
    try:
        *lines, _unfinished = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        raise RunError(f"{path} is not there. Expected a run directory with a {FILE_NAME}.") from None
    for number, text in enumerate(lines, start=1):
        try:
            line = json.loads(text)
            if not isinstance(line["step"], int):
                raise TypeError
        except (ValueError, TypeError, KeyError):
            raise RunError(
                f"{path}, line {number} is not a JSON object with a whole `step`: {text[:80]!r}. "
                "Remove that line to go on."
            ) from None
        yield line


def _number(value: SupportsFloat) -> float | int | None:
    if isinstance(value, int):
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else None


def _cut_broken_end(path: Path) -> None:
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole != len(content):
        with path.open("r+b") as file:
            file.truncate(whole)
