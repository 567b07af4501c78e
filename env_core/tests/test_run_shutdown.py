"""A signal asks for a clean stop; a second Ctrl-C does not wait. Real processes, real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from env_core.run import ShutdownSignal

LOOP = """
import sys, time
from env_core.run import ShutdownSignal
with ShutdownSignal() as shutdown:
    sys.stdout.write("ready\\n"); sys.stdout.flush()
    while not shutdown.requested:
        time.sleep(0.01)
    sys.stdout.write(shutdown.received.name + "\\n"); sys.stdout.flush()
    if len(sys.argv) > 1:
        time.sleep(60)
"""


def _start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", LOOP, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", ShutdownSignal.SIGNALS)
def test_each_signal_stops_the_loop_cleanly(number: signal.Signals) -> None:
    process = _start()
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, f"{number.name}\n")
    assert "progress will be saved" in err


def test_a_second_interrupt_stops_at_once() -> None:
    process = _start("linger")
    assert process.stdout is not None
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "SIGINT\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in err


def test_afterwards_the_signals_mean_what_they_did() -> None:
    before = [signal.getsignal(number) for number in ShutdownSignal.SIGNALS]
    with ShutdownSignal(announce=False) as shutdown:
        assert not shutdown.requested
        os.kill(os.getpid(), signal.SIGUSR1)
        assert shutdown.received is signal.SIGUSR1
    assert [signal.getsignal(number) for number in ShutdownSignal.SIGNALS] == before
