"""The slot that an exploration bonus fills, and how the bonus joins the game's own reward.

Axes: T steps of a rollout, N environments, B transitions of a minibatch, K reward streams.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from online_jax.config import TrainConfig


class Streams(NamedTuple):
    """K streams of reward, each with a value of its own. `mix` [K][2] weighs (extrinsic, intrinsic) into streams."""

    mix: tuple[tuple[float, float], ...] = ((1.0, 1.0),)
    gamma: tuple[float, ...] = (0.99,)
    """discount per step"""
    episodic: tuple[bool, ...] = (True,)
    """whether the stream's return ends with the episode"""
    weight: tuple[float, ...] = (1.0,)
    """of each stream's advantage in the policy's"""


class Transitions(NamedTuple):
    """What a bonus learns from; leaves [B, ...]."""

    obs: Any
    action: jax.Array
    next_obs: Any
    """What followed. Where `ended`, that is the first observation of the next episode."""
    ended: jax.Array
    """bool: the episode ended with this step, however it did"""


class Experience(NamedTuple):
    """A rollout as a bonus sees it; leaves [T, N, ...]."""

    obs: Any
    action: jax.Array
    ended: jax.Array
    last_obs: Any
    """[N, ...]: after the last step"""

    def transitions(self) -> Transitions:
        """All T * N steps, by time, then environment."""
        next_obs = jax.tree.map(lambda x, last: jnp.concatenate([x[1:], last[None]]), self.obs, self.last_obs)
        steps = Transitions(self.obs, self.action, next_obs, self.ended)
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), steps)

    def encoded(self, encode: Callable[[Any], jax.Array]) -> jax.Array:
        """`encode` of every observation, [T + 1, N, F]: what followed step t is at t + 1.

        One time step after the other, so that no more than N observations are ever decoded at once.
        """
        return jnp.concatenate([jax.lax.map(encode, self.obs), encode(self.last_obs)[None]])


class IntrinsicReward(NamedTuple):
    """An exploration bonus as pure functions; `none` is the null object.

    `learned` is what the bonus learns (networks, optimisers, statistics), `memory` what belongs to the episodes under
    way, leaves [N, ...]. Parameters of a first layer on packed observations live under `…["encoder"]["map"]`, which is
    how `narrowing.py` finds them; `channels` says which of the map's channels they hold at the moment (None: all).
    """

    init: Callable[..., Any]
    """(key, obs [N, ...]) -> (learned, memory)"""
    reward: Callable[..., Any]
    """(learned, memory, Experience) -> (learned, memory, bonus float32 [T, N]); once per rollout"""
    update: Callable[..., Any]
    """(learned, Transitions, channels) -> (learned, metrics); one gradient step on one minibatch"""
    epochs: int
    """Passes of `update` over each rollout, after the policy has learnt from it"""
    streams: Streams
    measure: Callable[[jax.Array], dict[str, jax.Array]] = lambda bonus: {
        "intrinsic/reward": bonus.mean(),
        "intrinsic/reward_std": bonus.std(),
    }
    """bonus [T, N] -> metrics"""


class Ingredients(NamedTuple):
    """What a bonus is made of; a file's function `Ingredients -> IntrinsicReward` is all that it must offer."""

    config: TrainConfig
    encoder: Callable[[int], Any]
    """width -> `networks.Encoder` of this environment's observations: one layer of `width` units (relu)"""
    normaliser: Callable[[bool], Any]
    """whether observations are normalised -> `normalising.Normaliser` of them"""
    num_actions: int

    def optimiser(self, learning_rate: float) -> optax.GradientTransformation:
        """Adam with the policy's epsilon and limit of the gradient's norm."""
        ppo = self.config.ppo
        return optax.chain(optax.clip_by_global_norm(ppo.max_grad_norm), optax.adam(learning_rate, eps=ppo.adam_eps))


def alone(config: TrainConfig) -> Streams:
    """One stream: the game's reward plus the bonus."""
    return Streams(gamma=(config.ppo.gamma,))
