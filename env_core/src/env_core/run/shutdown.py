"""A clean stop: signals set a flag that the program's loop reads between two steps."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any

_STOPPING = b"\nStopping after this step; progress will be saved. Press Ctrl-C again to stop at once.\n"


class ShutdownSignal:
    """While entered, SIGTERM, SIGINT and SIGUSR1 (a cluster's warning before a time limit) ask for a clean stop.

        with ShutdownSignal() as shutdown:
            while not shutdown.requested: ...

    A second SIGINT raises `KeyboardInterrupt`. To be entered in the main thread, where Python handles signals.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)

    def __init__(self, announce: bool = True):
        self.announce = announce
        self.received: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        return self.received is not None

    def __enter__(self) -> ShutdownSignal:
        self._previous = {number: signal.signal(number, self._receive) for number in self.SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received is signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = signal.Signals(number)
        if self.announce:
            os.write(2, _STOPPING)  # unlike a stream's write, safe in a handler that interrupted one
