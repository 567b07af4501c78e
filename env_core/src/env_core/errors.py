"""Every error that this workspace raises on purpose, in one tree.

    WorkspaceError
    ├── ConfigError            a setting is unknown, malformed or contradicts another
    ├── WriteError             writing a file failed (a full disk, say); what was published before is intact
    ├── RunError               a run directory cannot be used as asked
    │   ├── RunExistsError     it is there already
    │   ├── RunLockedError     another process is writing to it
    │   └── ResumeError        it cannot be continued: nothing saved, or a different configuration
    ├── ObservationError       an observation is not one of the layout it claims
    │   └── LayoutError        the installed game shows other things than this layout describes
    └── TrajectoryError        a trajectory batch, shard or store is not as it must be
        ├── SchemaError        a field is missing, misshapen or contradicts another
        ├── VersionError       written by a newer schema, or needs a feature that this reader lacks
        ├── CorruptShardError  a shard's bytes are not those that were written
        └── StoreError         a store cannot be opened, created or appended to

A message says what was wrong, where, what was expected and what to do. A bug of ours is an `AssertionError`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class WorkspaceError(Exception):
    """Base of the tree. Command-line programs print its message and exit with status 2."""


class ConfigError(WorkspaceError):
    pass


class WriteError(WorkspaceError):
    pass


class RunError(WorkspaceError):
    pass


class RunExistsError(RunError):
    pass


class RunLockedError(RunError):
    pass


class ResumeError(RunError):
    pass


class ObservationError(WorkspaceError):
    pass


class LayoutError(ObservationError):
    pass


class TrajectoryError(WorkspaceError):
    pass


class SchemaError(TrajectoryError):
    pass


class VersionError(TrajectoryError):
    pass


class CorruptShardError(TrajectoryError):
    pass


class StoreError(TrajectoryError):
    pass


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence for an unknown `name`: the closest known one if any is close, and all that are known."""
    known = sorted(known)
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return (f"Did you mean {close[0]!r}? " if close else "") + "Known: " + ", ".join(known) + "."


@contextmanager
def reported() -> Iterator[None]:
    """Turns a `WorkspaceError` into one message on stderr and exit status 2, for command-line programs."""
    try:
        yield
    except WorkspaceError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
