"""The exploration bonuses once more, for `plain_ppo`: dense layers, loops, and matrices inverted by numpy."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from plain_networks import Adam, first_of, layers_of, log_probs_of, relu, through

from env_core.observation import Layout
from online_jax.config import TrainConfig


class Stream(NamedTuple):
    of_game: float
    of_bonus: float
    gamma: float
    ends_with_episode: bool


class NoBonus:
    """Also what the others have in common: they learn in minibatches from the rollout that they last saw."""

    epochs = 0

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.streams = [Stream(1.0, 1.0, config.ppo.gamma, True)]
        self.weights: tuple[float, ...] = (1.0,)
        self.params: Any = ()

    def reward(self, obs: np.ndarray, last: np.ndarray, action: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """[T, N]; obs [T, N, size], last [N, size]."""
        self.keep(obs, last, action, ended)
        return np.zeros(ended.shape, np.float32)

    def keep(self, obs: np.ndarray, last: np.ndarray, action: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Returns what followed each step, [T, N, size]."""
        following = np.concatenate([obs[1:], last[None]])
        columns = {"obs": obs, "next": following, "action": action, "ended": ended}
        self.rows = {name: column.reshape(-1, *column.shape[2:]) for name, column in columns.items()}
        return following

    def learn(self, key: jax.Array) -> None:
        count = len(self.rows["action"])
        size = count // self.config.ppo.minibatches
        for one in jax.random.split(key, self.epochs):
            order = np.asarray(jax.random.permutation(one, count))
            for start in range(0, count, size):
                self.descend({name: column[order[start : start + size]] for name, column in self.rows.items()})

    def descend(self, rows: dict[str, np.ndarray]) -> None:
        raise NotImplementedError


def layers(params: Any, layout: Layout) -> Any:
    """First layer and head of an `embedding`."""
    return [first_of(params["encoder"], layout), *layers_of(params["head"]["params"])]


class RND(NoBonus):
    def __init__(self, config: TrainConfig, learned: Any, layout: Layout) -> None:
        super().__init__(config)
        own = config.rnd
        self.epochs = own.epochs
        self.streams = [Stream(1.0, 0.0, config.ppo.gamma, True), Stream(0.0, 1.0, own.gamma, False)]
        self.weights = (1.0, own.advantage)
        self.target, self.params = layers(learned["target"], layout), self.of(learned, layout)
        self.adam = Adam(self.params, config.ppo)
        self.gradient = jax.jit(jax.grad(self.loss))

    @staticmethod
    def of(learned: Any, layout: Layout) -> Any:
        return layers(learned["predictor"], layout)

    def error(self, predictor: Any, obs: Any) -> jax.Array:
        return ((through(predictor, obs, relu) - through(self.target, obs, relu)) ** 2).mean(-1)

    def reward(self, obs: np.ndarray, last: np.ndarray, action: np.ndarray, ended: np.ndarray) -> np.ndarray:
        following = self.keep(obs, last, action, ended)
        return np.asarray(self.error(self.params, following)) * ~ended * self.config.rnd.reward

    def loss(self, predictor: Any, rows: Any) -> jax.Array:
        return self.config.rnd.loss * (self.error(predictor, rows["next"]) * ~rows["ended"]).mean()

    def descend(self, rows: dict[str, np.ndarray]) -> None:
        gradient = self.gradient(self.params, rows)
        self.params = self.adam.descend(self.params, gradient, self.config.rnd.learning_rate)


class ICM(NoBonus):
    def __init__(self, config: TrainConfig, learned: Any, layout: Layout) -> None:
        super().__init__(config)
        self.epochs = config.icm.epochs
        self.params = self.of(learned, layout)
        self.adams = {name: Adam(part, config.ppo) for name, part in self.params.items()}
        self.gradient = jax.jit(jax.grad(self.loss))

    @staticmethod
    def of(learned: Any, layout: Layout) -> Any:
        params = learned["params"]
        return {
            "phi": layers(params["phi"], layout),
            "forward": layers_of(params["forward"]["params"]),
            "inverse": layers_of(params["inverse"]["params"]),
        }

    def surprise(self, forward: Any, latent: Any, action: Any, following: Any) -> jax.Array:
        actions = self.params["inverse"][-1][1].shape[0]
        chosen = (action[..., None] == jnp.arange(actions)).astype(jnp.float32)
        foreseen = through(forward, jnp.concatenate([latent, chosen], -1), relu)
        return ((foreseen - following) ** 2).mean(-1)

    def reward(self, obs: np.ndarray, last: np.ndarray, action: np.ndarray, ended: np.ndarray) -> np.ndarray:
        following = through(self.params["phi"], self.keep(obs, last, action, ended), relu)
        latent = through(self.params["phi"], obs, relu)
        return np.asarray(self.surprise(self.params["forward"], latent, action, following)) * ~ended

    def loss(self, params: Any, rows: Any) -> jax.Array:
        latent, following = (through(params["phi"], rows[name], relu) for name in ("obs", "next"))
        log_probs = log_probs_of(through(params["inverse"], jnp.concatenate([latent, following], -1), relu))
        mistaken = -log_probs[jnp.arange(len(log_probs)), rows["action"]]
        fixed, fixed_following = (through(self.fixed(params["phi"]), rows[name], relu) for name in ("obs", "next"))
        foreseen = self.surprise(params["forward"], fixed, rows["action"], fixed_following)
        return ((mistaken + foreseen) * ~rows["ended"]).mean()

    @staticmethod
    def fixed(params: Any) -> Any:
        return jax.tree.map(jax.lax.stop_gradient, params)

    def descend(self, rows: dict[str, np.ndarray]) -> None:
        gradient = self.gradient(self.params, rows)
        rate = self.config.icm.learning_rate
        self.params = {name: self.adams[name].descend(part, gradient[name], rate) for name, part in self.params.items()}


class E3B(ICM):
    def __init__(self, config: TrainConfig, learned: Any, layout: Layout) -> None:
        super().__init__(config, learned, layout)
        self.nothing = config.e3b.ridge * np.eye(config.icm.latent)
        self.covariance = np.stack([self.nothing] * config.num_envs)

    def reward(self, obs: np.ndarray, last: np.ndarray, action: np.ndarray, ended: np.ndarray) -> np.ndarray:
        latent = np.asarray(through(self.params["phi"], self.keep(obs, last, action, ended), relu))
        bonus = np.zeros(ended.shape, np.float32)
        for t, n in np.ndindex(*ended.shape):
            seen = latent[t, n]
            if ended[t, n]:
                self.covariance[n] = self.nothing
                continue
            bonus[t, n] = seen @ np.linalg.inv(self.covariance[n]) @ seen
            self.covariance[n] += np.outer(seen, seen)
        return self.config.e3b.reward * bonus
