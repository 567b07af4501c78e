"""What is shown: by a clock in the test's hand, on a stream that is a terminal or is not."""

from __future__ import annotations

import io
import re
import sys

import pytest

from env_core.run.progress import Pace, Progress, compact, duration


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_file_gets_a_line_per_interval_and_the_last_one() -> None:
    clock, stream = Clock(), io.StringIO()
    with Progress(1_000_000, interval=10, stream=stream, clock=clock) as progress:
        progress.message("ppo on Craftax")
        for step in (50_000, 100_000, 150_000, 200_000, 250_000):
            clock.now += 4
            progress.update(step, {"return": step / 100_000, "length": float("nan")})
    assert stream.getvalue().splitlines() == [
        "ppo on Craftax",
        "  5%  50k/1M steps  12.5k steps/s  1m16s left  return 0.50",
        " 20%  200k/1M steps  12.5k steps/s  1m04s left  return 2.00",
        " 25%  250k/1M steps  12.5k steps/s  1m00s left  return 2.50",
    ]


def test_a_status_says_how_long_it_took_and_does_not_count_as_slowness() -> None:
    clock, stream = Clock(), io.StringIO()
    with Progress(1000, stream=stream, clock=clock) as progress:
        with progress.status("compiling"):
            clock.now += 62
        clock.now += 1
        progress.update(100, {})
    assert stream.getvalue().splitlines() == [
        "compiling …",
        "compiling (1m02s)",
        " 10%  100/1k steps  100 steps/s  9.0s left",
    ]


def test_a_resumed_run_does_not_count_the_steps_before_it() -> None:
    clock, stream = Clock(), io.StringIO()
    with Progress(10_000, start=9_000, stream=stream, clock=clock) as progress:
        clock.now += 10
        progress.update(9_500, {})
    assert "50 steps/s  10s left" in stream.getvalue()


def test_a_start_that_is_found_late_counts_from_then_on() -> None:
    clock, stream = Clock(), io.StringIO()
    with Progress(10_000, stream=stream, clock=clock) as progress:
        clock.now += 100
        progress.restart(9_000)
        clock.now += 10
        progress.update(9_500, {})
    assert "50 steps/s  10s left" in stream.getvalue()


def test_quiet_shows_nothing() -> None:
    stream = Terminal()
    with Progress(10, quiet=True, stream=stream) as progress, progress.status("compiling"):
        progress.message("hello")
        progress.update(5, {})
    assert stream.getvalue() == ""


def test_a_terminal_gets_a_bar_and_the_messages_stay() -> None:
    stream = Terminal()
    with Progress(1_000, stream=stream) as progress:
        with progress.status("compiling [first time only]"):
            pass
        progress.update(500, {"return": 1.5})
        with progress.status("saving"):
            progress.message("checkpoint at 500")
        progress.update(1_000, {"return": 2.5})
    shown = stream.getvalue()
    for text in ("checkpoint at 500", "100%", "1k/1k steps", "return 2.50"):
        assert text in shown
    assert re.search(r"compiling \[first time only\] \(\d+\.\ds\)", shown)


def test_without_rich_a_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    stream = Terminal()
    with Progress(100, stream=stream) as progress:
        progress.update(100, {"return": 1.0})
    assert stream.getvalue().endswith("return 1.00\n")
    assert "\x1b" not in stream.getvalue()


def test_the_pace_forgets_what_is_long_ago() -> None:
    pace = Pace(0, 0.0)
    assert pace.at(0, 0.0) == 0.0
    for second in range(1, 101):
        slow = min(second, 50) * 10 + max(second - 50, 0) * 1000
        rate = pace.at(slow, float(second))
    assert rate == pytest.approx(1000)


def test_numbers_and_times_are_short() -> None:
    assert [compact(number) for number in (0, 3.5, 42, 999, 1000, 12_345, 999_600, 1_000_000, 1.5e9)] == [
        "0", "3.5", "42", "999", "1k", "12.3k", "1000k", "1M", "1.5B",
    ]  # fmt: skip
    assert [duration(seconds) for seconds in (0.04, 9.94, 10, 59.6, 62, 3599, 3723, 100_000)] == [
        "0.0s", "9.9s", "10s", "1m00s", "1m02s", "59m59s", "1h02m", "27h46m",
    ]  # fmt: skip


def test_other_things_than_steps_are_counted() -> None:
    clock, stream = Clock(), io.StringIO()
    with Progress(128, stream=stream, clock=clock, unit="episodes") as progress:
        clock.now += 4
        progress.update(32, {"return": 4.5})
    assert stream.getvalue() == " 25%  32/128 episodes  8 episodes/s  12s left  return 4.50\n"
