"""What a long-running program shows: a live bar on a terminal, plain lines in a log file, nothing when quiet."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

RATE_WINDOW = 30.0  # seconds over which the speed is averaged


class Progress:
    """Shows how far a program is.

        with Progress(total=1_000_000) as progress:
            progress.message("ppo on Craftax-Symbolic-v1")
            with progress.status("compiling"): ...
            progress.update(step, {"return": 3.2})

    `total` and `step` are environment steps, or whatever `unit` says; `start` is the step that a resumed run begins at.
    Output goes to `stream` (default stderr): a bar if that is a terminal and rich is installed, else one line per
    `interval` seconds.
    """

    def __init__(
        self,
        total: int,
        start: int = 0,
        quiet: bool = False,
        interval: float = 10.0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        unit: str = "steps",
    ):
        self.total = total
        self._unit = unit
        self._clock = clock
        self._pace = Pace(start, clock())
        self._display = _display(stream or sys.stderr, quiet, interval, clock)

    def message(self, text: str) -> None:
        """One line that stays."""
        self._display.message(text)

    @contextmanager
    def status(self, text: str) -> Iterator[None]:
        """Says what takes so long while the body runs, and afterwards how long it took. The speed that `update` shows
        leaves this time out."""
        began = self._clock()
        self._display.begin(text)
        try:
            yield
        finally:
            elapsed = self._clock() - began
            self._display.end(f"{text} ({duration(elapsed)})")
            self._pace.skip(elapsed)

    def restart(self, step: int) -> None:
        """Measures the speed from `step` and from now on, as when a resumed run has found where it stands."""
        self._pace = Pace(step, self._clock())

    def update(self, step: int, values: Mapping[str, float]) -> None:
        """Shows `step`, the speed, the time left and `values` (name → number; NaN is left out)."""
        rate = self._pace.at(step, self._clock())
        texts = [f"{min(step / max(self.total, 1), 1):4.0%}", f"{compact(step)}/{compact(self.total)} {self._unit}"]
        if rate > 0:
            texts += [f"{compact(rate)} {self._unit}/s", f"{duration(max(self.total - step, 0) / rate)} left"]
        texts += [f"{name} {value:.2f}" for name, value in values.items() if value == value]
        self._display.update(step, self.total, texts)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._display.close()


class Pace:
    """Steps per second over the last `RATE_WINDOW` seconds."""

    def __init__(self, step: int, now: float):
        self._marks = deque([(now, step)])

    def at(self, step: int, now: float) -> float:
        """The speed up to now, or 0.0 where none can be told yet."""
        self._marks.append((now, step))
        while len(self._marks) > 2 and self._marks[1][0] <= now - RATE_WINDOW:
            self._marks.popleft()
        began, first = self._marks[0]
        return (step - first) / (now - began) if now > began else 0.0

    def skip(self, seconds: float) -> None:
        """Takes out time that was spent on something other than steps."""
        self._marks = deque((mark + seconds, step) for mark, step in self._marks)


class _Display:
    """Shows nothing; others show something at each of these."""

    def message(self, text: str) -> None: ...
    def begin(self, text: str) -> None: ...
    def end(self, text: str) -> None: ...
    def update(self, step: int, total: int, texts: list[str]) -> None: ...
    def close(self) -> None: ...


class _Lines(_Display):
    """Plain lines: the first update, then one per interval, and the last."""

    def __init__(self, stream: TextIO, interval: float, clock: Callable[[], float]):
        self._stream, self._interval, self._clock = stream, interval, clock
        self._due = clock()
        self._held = ""

    def message(self, text: str) -> None:
        self._release()
        self._print(text)

    def begin(self, text: str) -> None:
        self.message(f"{text} …")

    def end(self, text: str) -> None:
        self.message(text)

    def update(self, step: int, total: int, texts: list[str]) -> None:
        self._held = "  ".join(texts)
        if self._clock() >= self._due:
            self._due = self._clock() + self._interval
            self._release()

    def close(self) -> None:
        self._release()

    def _release(self) -> None:
        if self._held:
            self._print(self._held)
        self._held = ""

    def _print(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


class _Bar(_Display):
    """A bar at the foot of a terminal, or a spinner while something takes long; messages scroll above it."""

    def __init__(self, stream: TextIO):
        from rich import console, progress

        self._console = console.Console(file=stream, highlight=False)
        percent_and_steps = progress.TextColumn("{task.fields[counted]}")
        facts = progress.TextColumn("[dim]{task.fields[facts]}")
        bar = progress.BarColumn(bar_width=24)
        self._live = progress.Progress(percent_and_steps, bar, facts, console=self._console)
        self._task: Any = None
        self._spinner: Any = None

    def message(self, text: str) -> None:
        self._console.print(text, markup=False)

    def begin(self, text: str) -> None:
        from rich import progress

        self._live.stop()
        self._spinner = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}", markup=False),
            progress.TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._spinner.add_task(text)
        self._spinner.start()

    def end(self, text: str) -> None:
        self._spinner.stop()
        self.message(text)
        if self._task is not None:
            self._live.start()

    def update(self, step: int, total: int, texts: list[str]) -> None:
        if self._task is None:
            self._task = self._live.add_task("", total=total, counted="", facts="")
            self._live.start()
        counted, facts = "  ".join(texts[:2]), "  ".join(texts[2:])
        self._live.update(self._task, completed=step, counted=counted, facts=facts)

    def close(self) -> None:
        self._live.stop()


def _display(stream: TextIO, quiet: bool, interval: float, clock: Callable[[], float]) -> _Display:
    if quiet:
        return _Display()
    if stream.isatty():
        try:
            return _Bar(stream)
        except ImportError:  # rich is an extra; lines say the same
            pass
    return _Lines(stream, interval, clock)


def compact(number: float) -> str:
    """1234567 → 1.23M, with three digits."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}" if number < 999.5 * size else f"{number / size:.0f}{letter}"
    return f"{number:.0f}" if number >= 10 else f"{number:.3g}"


def duration(seconds: float) -> str:
    """3723 → 1h02m; 62 → 1m02s; 2.3 → 2.3s."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"
