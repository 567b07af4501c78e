"""Plays whole episodes with a policy: each in a world of its own, as many at once as there are slots.

    worlds = env.begin(world_keys(seed, 0, 64))
    player = Player(env, policy, num_slots=32)
    for played in player.play(params, worlds, greedy=[False, True]): ...

A job is one episode: world j % P, and policy j // P of those asked for. Slots take the jobs in their order; one whose
episode ends takes the next. Every job is played to its end, so that long and short episodes count alike: the first so
many episodes that end anywhere would be the short ones.

What happens in an episode follows from its world's key and the policy alone, whichever slot plays it and whatever the
others do: two policies meet the same worlds and the same dice.

Axes: J jobs, P worlds, C policies, N slots, T steps, A achievements, K reward streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from env_core.craftax.make import Environment
from env_core.craftax.wrappers import EnvState, choose
from online_jax.policies import Policy, act

STEPS = 64
"""Steps of all slots between two looks of the host."""

_WORLDS, _DICE = 0x776F726C, 0x64696365  # set apart from all keys that are folded with small numbers


class Slots(NamedTuple):
    """Who plays what; leaves [N, ...]."""

    env_state: EnvState
    obs: Any
    is_first: jax.Array
    memory: Any
    job: jax.Array
    """int32; J or more: nothing is left for this slot, and what it does is dropped"""
    given: jax.Array
    """int32 []: jobs handed out so far"""


class Results(NamedTuple):
    """What is known of each job; leaves [J, ...], zero until it has ended."""

    finished: jax.Array
    """bool"""
    returns: jax.Array
    """float32, the game's own rewards, undiscounted"""
    lengths: jax.Array
    """int32"""
    deepest_floor: jax.Array
    """int32"""
    achievements: jax.Array
    """bool [J, A], of the last state, before any reset"""
    terminated: jax.Array
    """bool; else a limit of steps ended it"""


class Trace(NamedTuple):
    """Steps as they were played; leaves [T, N, ...]."""

    job: jax.Array
    """int32; J or more: of no episode"""
    action: jax.Array
    reward: jax.Array
    values: jax.Array
    """float32 [T, N, K], of the observation before the action"""


class Played(NamedTuple):
    """How far all jobs are."""

    results: Results
    trace: Trace | None


def world_keys(seed: int, first: int, count: int) -> jax.Array:
    """uint32 [count, 2]: the worlds number `first`, … of an evaluation's seed, the same however many there are."""
    root = jax.random.fold_in(jax.random.PRNGKey(seed), _WORLDS)
    return jax.vmap(partial(jax.random.fold_in, root))(jnp.arange(first, first + count))


def step_keys(world_key: jax.Array, length: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The keys of one step, after `length` steps in the world of `world_key`: the policy's and the game's."""
    key = jax.random.fold_in(jax.random.fold_in(world_key, _DICE), length)
    for_policy, for_game = jax.random.split(key)
    return for_policy, for_game


class Player:
    """The compiled programs for one environment and policy. `traced` hands over every step, too; `status` says what
    takes so long while a body runs."""

    def __init__(
        self,
        env: Environment,
        policy: Policy,
        num_slots: int,
        traced: bool = False,
        status: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self._start = jax.jit(partial(start, policy, num_slots))
        self._program = jax.jit(partial(advance, env, policy, STEPS, traced), donate_argnames=("slots", "results"))
        self._compiled: Callable[..., Any] | None = None
        self._num_achievements = len(env.achievement_names)
        self._status = status

    def play(self, params: Any, worlds: tuple[EnvState, Any], greedy: Sequence[bool]) -> Iterator[Played]:
        """Plays each world with each policy; yields after every `STEPS` steps until all jobs have ended.

        worlds: what `Environment.begin` gave. greedy: of each policy, whether it takes the likeliest action or draws.
        Calls after the first must have as many of both. What was yielded is donated to the next steps: read it before
        asking for more.
        """
        asked = jnp.asarray(greedy, bool)
        num_jobs = len(asked) * len(worlds[0].statistics.length)
        slots, results = self._start(worlds), no_results(num_jobs, self._num_achievements)
        if self._compiled is None:
            with self._status("compiling the environment and the policy"):
                lowered = self._program.lower(params, worlds, asked, slots=slots, results=results)
                self._compiled = lowered.compile()
        finished = False
        while not finished:
            slots, results, trace = self._compiled(params, worlds, asked, slots=slots, results=results)
            finished = bool(np.asarray(results.finished).all())
            assert finished or (np.asarray(slots.job) < num_jobs).any(), "no slot plays what has not been played"
            yield Played(results, trace)


def no_results(num_jobs: int, num_achievements: int) -> Results:
    """Before the first step."""
    whole, yes = jnp.zeros(num_jobs, jnp.int32), jnp.zeros(num_jobs, bool)
    achievements = jnp.zeros((num_jobs, num_achievements), bool)
    return jax.tree.map(jnp.copy, Results(yes, whole.astype(jnp.float32), whole, whole, achievements, yes))


def start(policy: Policy, num_slots: int, worlds: tuple[EnvState, Any]) -> Slots:
    """The first jobs in the first slots."""
    num_worlds = len(worlds[0].statistics.length)
    job = jnp.arange(num_slots, dtype=jnp.int32)
    env_state, obs = _taken(worlds, job % num_worlds)
    memory = policy.initial_memory(num_slots)
    return Slots(env_state, obs, jnp.ones(num_slots, bool), memory, job, jnp.int32(num_slots))


def advance(
    env: Environment,
    policy: Policy,
    num_steps: int,
    traced: bool,
    params: Any,
    worlds: tuple[EnvState, Any],
    greedy: jax.Array,
    *,
    slots: Slots,
    results: Results,
) -> tuple[Slots, Results, Trace | None]:
    """`num_steps` steps of all slots; the trace is None unless asked for."""
    num_worlds = len(worlds[0].statistics.length)

    def step(carry: tuple[Slots, Results], _: None) -> tuple[tuple[Slots, Results], Trace | None]:
        slots, results = carry
        statistics = slots.env_state.statistics
        for_policy, for_game = jax.vmap(step_keys)(statistics.world_key, statistics.length)
        memory, output = act(policy, params, slots.memory, slots.obs, slots.is_first)
        drawn = jax.vmap(jax.random.categorical)(for_policy, output.logits)
        action = jnp.where(greedy[slots.job // num_worlds], output.logits.argmax(-1), drawn).astype(jnp.int32)
        outcome = env.play(for_game, slots.env_state, action)
        trace = Trace(slots.job, action, outcome.reward, output.values) if traced else None
        results = _noted(results, slots.job, outcome)
        now = EnvState(outcome.inner, outcome.episode, slots.env_state.used)
        after = slots._replace(env_state=now, obs=outcome.obs, memory=memory)
        return (_continued(after, outcome.terminated | outcome.truncated, worlds), results), trace

    (slots, results), trace = jax.lax.scan(step, (slots, results), None, num_steps)
    return slots, results, trace


def _noted(results: Results, job: jax.Array, outcome: Any) -> Results:
    """With the episodes that this step ended."""
    ended = outcome.terminated | outcome.truncated
    place = jnp.where(ended, job, len(results.finished))  # past the end: dropped, as the jobs that are none
    episode = outcome.episode
    values = Results(
        ended,
        episode.episode_return,
        episode.length,
        episode.deepest_floor,
        outcome.achievements,
        outcome.terminated,
    )
    return jax.tree.map(lambda known, new: known.at[place].set(new, mode="drop"), results, values)


def _continued(slots: Slots, ended: jax.Array, worlds: tuple[EnvState, Any]) -> Slots:
    """Slots whose episode `ended` bool [N] take the next jobs; those without one play on in some world, for nothing."""
    num_worlds = len(worlds[0].statistics.length)
    upcoming = slots.given + jnp.cumsum(ended, dtype=jnp.int32) - 1

    def taken() -> Any:
        fresh = _taken(worlds, upcoming % num_worlds)
        return choose(ended, _per_slot(*fresh), _per_slot(slots.env_state, slots.obs))

    (inner, statistics), obs = jax.lax.cond(ended.any(), taken, lambda: _per_slot(slots.env_state, slots.obs))
    return slots._replace(
        env_state=EnvState(inner, statistics, slots.env_state.used),
        obs=obs,
        is_first=ended,
        job=jnp.where(ended, upcoming, slots.job),
        given=slots.given + ended.sum(dtype=jnp.int32),
    )


def _taken(worlds: tuple[EnvState, Any], which: jax.Array) -> tuple[EnvState, Any]:
    """The worlds number `which` int32 [N]."""
    env_state, obs = worlds
    inner, statistics, obs = jax.tree.map(lambda x: x[which], (env_state.inner, env_state.statistics, obs))
    return EnvState(inner, statistics, env_state.used), obs


def _per_slot(env_state: EnvState, obs: Any) -> Any:
    """What has an axis [N]."""
    return (env_state.inner, env_state.statistics), obs
