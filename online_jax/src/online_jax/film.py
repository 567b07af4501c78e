"""Episodes that were played, played again to be drawn: same world, same dice, same actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from env_core.craftax.make import Environment
from env_core.evaluation import Film
from online_jax.measure import Steps
from online_jax.play import step_keys

AT_ONCE = 50
"""Frames drawn in one program."""

Paint = Callable[[Any], jax.Array]
"""One game state -> its picture, uint8 [H, W, 3]; `env_core.craftax.render.frame` makes one."""


class Projector:
    """Draws episodes of one environment, compiled once."""

    def __init__(self, env: Environment, paint: Paint) -> None:
        self._env = env
        self._play: Callable[..., Any] = jax.jit(lambda state, actions: _play(env, paint, state, actions))

    def frames(self, steps: Steps, count: int) -> NDArray[np.uint8]:
        """What was seen before each of the first `count` actions: uint8 [count, H, W, 3]."""
        state, _ = self._env.begin(jnp.asarray(steps.world_key)[None])
        frames, rewards = [], []
        for at in range(0, count, AT_ONCE):
            actions = steps.action[at : at + AT_ONCE]
            state, drawn, reward = self._play(state, np.pad(actions, (0, AT_ONCE - len(actions))))
            frames.append(np.asarray(drawn))
            rewards.append(np.asarray(reward))
        again = np.concatenate(rewards)[:count]
        assert np.allclose(again, steps.reward[:count], atol=1e-4), "the game went another way when played again"
        return np.concatenate(frames)[:count]


def film(projector: Projector, steps: Steps, limit: int, gamma: float, title: str) -> Film:
    """An episode, or its first `limit` steps, with the first stream's values beside it.

    An episode that is cut or was truncated did not end in what the policy feared or hoped for: its film stops one step
    early, and its return goes on with the value of the state after that.
    """
    whole = len(steps.action)
    count = whole if steps.terminated and whole <= limit else max(1, min(whole - 1, limit))
    values = steps.values[:, 0]
    final = None if count == whole else float(values[count])
    return Film(projector.frames(steps, count), values[:count], steps.reward[:count], gamma, title, final)


def _play(env: Environment, paint: Paint, state: Any, actions: jax.Array) -> Any:
    """State of one environment, actions [T] -> the state after them, pictures before them [T, H, W, 3], rewards [T]."""

    def step(state: Any, action: jax.Array) -> Any:
        picture = paint(jax.tree.map(lambda x: x[0], state.inner))
        _, for_game = jax.vmap(step_keys)(state.statistics.world_key, state.statistics.length)
        outcome = env.play(for_game, state, action[None])
        return state._replace(inner=outcome.inner, statistics=outcome.episode), (picture, outcome.reward[0])

    state, (pictures, rewards) = jax.lax.scan(step, state, actions)
    return state, pictures, rewards
