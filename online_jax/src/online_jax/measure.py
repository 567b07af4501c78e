"""The host's side of an evaluation: plays the episodes batch by batch and hands over what they were.

With films asked for, the steps of the first episodes are kept, and played again to be drawn (`film.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from env_core.craftax.make import Environment
from env_core.evaluation import Episodes
from env_core.run import Progress
from online_jax.loading import Trained
from online_jax.play import Player, Trace, world_keys
from online_jax.policies import Policy
from online_jax.record import as_seed

WORLDS = 256
"""Worlds held at once, at most; one of Craftax takes 0.3 MB."""
SLOTS = 64
"""Episodes played at once on a CPU, at most, unless asked otherwise: more of them gain little there."""


@dataclass(frozen=True)
class Plan:
    """What is to be played."""

    episodes: int
    policies: Mapping[str, bool]
    """name -> whether it takes the likeliest action or draws"""
    seed: int
    """of the worlds"""
    num_slots: int
    filmed: int = 0
    """of how many worlds, the first ones, the steps are kept"""

    @property
    def num_worlds(self) -> int:
        """Worlds of a batch: as many in each, so that one program plays them all; the last may have spare ones."""
        return math.ceil(self.episodes / math.ceil(self.episodes / WORLDS))


class Steps(NamedTuple):
    """What was done in one episode, to play it again; T steps."""

    world_key: NDArray[np.uint32]
    """[2]"""
    action: NDArray[np.int32]
    """[T]"""
    reward: NDArray[np.float32]
    """[T]"""
    values: NDArray[np.float32]
    """[T, K], of the observation before each action"""
    terminated: bool


class Measured(NamedTuple):
    episodes: dict[str, Episodes]
    """by policy"""
    steps: dict[str, list[Steps]]
    """by policy, of the filmed worlds"""


class Measurer:
    """Plays a plan with any parameters of one policy, compiled once."""

    def __init__(self, policy: Policy, env: Environment, plan: Plan, progress: Progress) -> None:
        self._env, self._plan, self._progress = env, plan, progress
        self._player = Player(env, policy, plan.num_slots, traced=plan.filmed > 0, status=progress.status)
        self._before = 0  # episodes of earlier calls

    def play(self, params: Any, provenance: Mapping[str, Any]) -> Measured:
        """Plays all episodes; `provenance` goes into each policy's `Episodes`, with the policy's name."""
        plan = self._plan
        batches = [
            self._batch(params, first, min(plan.num_worlds, plan.episodes - first))
            for first in range(0, plan.episodes, plan.num_worlds)
        ]
        self._before += plan.episodes * len(plan.policies)
        measured = Measured({}, {})
        for number, name in enumerate(plan.policies):
            results = jax.tree.map(lambda *parts: np.concatenate(parts), *(of[number][0] for of in batches))
            keys = np.concatenate([of[number][1] for of in batches])
            measured.episodes[name] = self._episodes(results, keys, {**provenance, "policy": name})
            measured.steps[name] = [steps for of in batches for steps in of[number][2]]
        return measured

    def _batch(self, params: Any, first: int, count: int) -> list[tuple[Any, Any, list[Steps]]]:
        """Of each policy: results [count], world keys [count] and the steps of the filmed worlds."""
        plan, size = self._plan, self._plan.num_worlds
        keys = world_keys(plan.seed, first, size)
        filmed = min(max(plan.filmed - first, 0), count)
        kept: dict[int, list[Trace]] = {job: [] for job in jobs_of(range(filmed), size, len(plan.policies))}
        with self._progress.status("making worlds"):
            worlds = self._env.begin(keys)
        for played in self._player.play(params, worlds, list(plan.policies.values())):
            results: Any = jax.device_get(played.results)
            self._show(results, first)
            if kept:
                keep(kept, jax.device_get(played.trace))
        found = []
        for number in range(len(plan.policies)):
            jobs = np.array(jobs_of(range(count), size, 1)) + number * size
            steps = [
                _joined(np.asarray(keys)[job % size], kept[job], bool(results.terminated[job]))
                for job in jobs[:filmed].tolist()
            ]
            found.append((jax.tree.map(lambda part, jobs=jobs: part[jobs], results), np.asarray(keys)[:count], steps))
        return found

    def _show(self, results: Any, first: int) -> None:
        done = int(results.finished.sum())
        values = {"return": float(results.returns[results.finished].mean())} if done else {}
        done += self._before + first * len(self._plan.policies)
        self._progress.update(min(done, self._progress.total), values)

    def _episodes(self, results: Any, keys: NDArray[np.uint32], provenance: Mapping[str, Any]) -> Episodes:
        return Episodes(
            env_name=self._env.name,
            returns=results.returns,
            lengths=results.lengths,
            deepest_floor=results.deepest_floor,
            achievements=results.achievements,
            terminated=results.terminated,
            seeds=as_seed(keys),
            achievement_names=self._env.achievement_names,
            max_return=self._env.max_return,
            provenance=provenance,
        )


def num_slots(episodes: int) -> int:
    """Episodes to play at once, of so many in all.

    On a CPU a quarter of them: when none is left to begin, slots idle, until the longest has ended.
    """
    return max(1, min(SLOTS, episodes // 4) if jax.default_backend() == "cpu" else min(2 * WORLDS, episodes))


def limited(trained: Trained, max_steps: int, make: Any) -> Environment:
    """The environment that a policy was trained in, with another limit of steps if `max_steps` is not 0."""
    if not max_steps:
        return trained.env
    settings = trained.settings
    return make(replace(settings, env=replace(settings.env, max_timesteps=max_steps)))


def jobs_of(worlds: Sequence[int], num_worlds: int, num_policies: int) -> list[int]:
    """The jobs in these worlds, by policy."""
    return [policy * num_worlds + world for policy in range(num_policies) for world in worlds]


def keep(kept: dict[int, list[Trace]], trace: Trace) -> None:
    """Adds to each job of `kept` its steps in a trace [T, N, ...]; a job has one slot, so that they are in order."""
    for job in set(np.unique(trace.job).tolist()) & kept.keys():
        kept[job].append(jax.tree.map(lambda part, job=job: part[trace.job == job], trace))


def _joined(world_key: NDArray[np.uint32], pieces: list[Trace], terminated: bool) -> Steps:
    whole: Any = jax.tree.map(lambda *parts: np.concatenate(parts), *pieces)
    return Steps(world_key, whole.action, whole.reward, whole.values, terminated)
