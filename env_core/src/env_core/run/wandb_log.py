"""Metrics to Weights & Biases, when asked for. Its import takes seconds, so it happens only then."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from env_core.errors import ConfigError

_log = logging.getLogger(__name__)


class WandbLog:
    """One wandb run, which a resumed run directory continues."""

    def __init__(self, session: Any):
        self._session = session

    def log(self, line: Mapping[str, Any]) -> None:
        """`line` is one of metrics.jsonl: its `step` becomes wandb's."""
        values = {name: value for name, value in line.items() if name not in ("step", "time") and value is not None}
        self._session.log(values, step=line["step"])

    def finish(self) -> None:
        self._session.finish()


def start(path: Path, record: Mapping[str, Any], asked: bool) -> WandbLog | None:
    """None unless wandb was `asked` for or `WANDB_API_KEY` is set. Without a key the run is kept offline, in `path`.

    Raises `ConfigError` if it was asked for and is not installed.
    """
    if not asked and not os.environ.get("WANDB_API_KEY"):
        return None
    try:
        import wandb
    except ImportError:
        message = "wandb is not installed. Install the extra `wandb` of craftax-env-core, or do without --wandb."
        if asked:
            raise ConfigError(message) from None
        _log.warning("WANDB_API_KEY is set, but %s", message)
        return None
    mode: Literal["offline"] | None = None  # wandb's own default: what WANDB_MODE says, else online
    if "WANDB_MODE" not in os.environ and not _has_key(wandb):
        _log.warning(
            "wandb has no API key: logging offline. Upload later with `wandb sync %s/wandb/offline-run-*`.", path
        )
        mode = "offline"
    session = wandb.init(
        project=os.environ.get("WANDB_PROJECT", "craftax"),
        id=record["run_id"],
        name=path.name,
        config=record["config"],
        dir=path,
        mode=mode,
        resume="allow",
        settings=wandb.Settings(console="off"),  # leaves the terminal to the progress display
    )
    return WandbLog(session)


def _has_key(wandb: Any) -> bool:
    return bool(os.environ.get("WANDB_API_KEY") or wandb.login(prompt=False))  # the latter: a key of `wandb login`
