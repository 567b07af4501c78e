"""Runs of the training program within the process of the tests: stopped as if killed, with programs compiled once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from online_jax import assemble, session
from online_jax.config import TrainConfig
from online_jax.learner import Learner
from online_jax.ppo import Variant
from online_jax.session import Session

_PROGRAMS: dict[tuple[int, int], dict[str, Any]] = {}
_assemble_variant = assemble.variant


@cache
def _variant(config: TrainConfig) -> Variant:
    return _assemble_variant(config)


def variant_once(config: TrainConfig) -> Variant:
    """One object for all settings that make the same variant."""
    return _variant(replace(config, seed=0, num_seeds=1, init_from="", log_every=1))


class SharingLearner(Learner):
    """Learners of one variant have one set of programs."""

    def __init__(self, variant: Variant, *arguments: Any) -> None:
        super().__init__(variant, *arguments)
        self.programs = _PROGRAMS.setdefault((id(variant), self._num_seeds), {})


def share_programs(patch: pytest.MonkeyPatch) -> None:
    """Among the runs that follow; not with those before, so that no test depends on which others ran."""
    _PROGRAMS.clear()
    patch.setattr(assemble, "variant", variant_once)
    patch.setattr(session, "Learner", SharingLearner)


class Killed(BaseException):
    """What no program expects."""


@contextmanager
def killed_before_update(number: int) -> Iterator[list[Session]]:
    """The run in this context dies when it has done `number` updates; the session is in the list then."""
    update = Session.update
    died: list[Session] = []

    def until_killed(session: Session) -> None:
        if session._update == number:
            died.append(session)
            raise Killed
        update(session)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Session, "update", until_killed)
        yield died
