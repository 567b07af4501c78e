"""The training program on the quick `scribble` game, as a process of its own to be signalled and killed.

With the environment variable SCRIBBLE_PAUSE (seconds) it waits after each update, to be hit before it has finished.
"""

import os
import time

from probes import scribble

from online_jax import assemble, train
from online_jax.session import Session


def pause_after_updates(seconds: float) -> None:
    update = Session.update

    def paused(session: Session) -> None:
        update(session)
        time.sleep(seconds)

    Session.update = paused


if __name__ == "__main__":
    assemble.make = scribble
    pause_after_updates(float(os.environ.get("SCRIBBLE_PAUSE", "0")))
    train.main()
