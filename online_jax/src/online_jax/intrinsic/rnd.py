"""Random network distillation: what a predictor cannot tell yet of a random network's output is new.

Burda, Edwards, Storkey & Klimov 2018, *Exploration by Random Network Distillation*.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from online_jax import moments
from online_jax.config import TrainConfig
from online_jax.intrinsic.base import Experience, Ingredients, IntrinsicReward, Streams, Transitions
from online_jax.networks import embedding


def rnd(given: Ingredients) -> IntrinsicReward:
    """bonus_t = c · mean (f̂(s_{t+1}) − f(s_{t+1}))², with f fixed at random and f̂ learning to agree with it.

    Two streams (`streams`). The bonus of a step that ended its episode is 0, and such steps are not learnt from, as in
    the peer. `learned` holds target and predictor, both of which a checkpoint therefore saves.
    """
    config = given.config.rnd
    network = embedding(given.encoder(config.width), (config.width, config.width), config.outputs)
    normaliser = given.normaliser(config.normalise_obs)
    optimiser = given.optimiser(config.learning_rate)

    def init(key: jax.Array, obs: Any) -> tuple[Any, Any]:
        k_target, k_predictor = jax.random.split(key)
        predictor = network.init(k_predictor)
        learned = {
            "target": network.init(k_target),
            "predictor": predictor,
            "opt_state": optimiser.init(predictor),
            "obs_moments": normaliser.init(),
            "return_moments": moments.nothing_seen(jnp.zeros(())),
        }
        num_envs = jax.tree.leaves(obs)[0].shape[0]
        return learned, jnp.zeros(num_envs)  # discounted sum of each environment's past bonuses

    def error(predictor: Any, learned: Any, obs: Any, channels: Any = None) -> jax.Array:
        """[B]"""

        def output(params: Any) -> jax.Array:
            layer, shown = normaliser.apply(learned["obs_moments"], params["encoder"], obs, channels)
            return network.apply({**params, "encoder": layer}, shown, channels)

        return ((output(predictor) - jax.lax.stop_gradient(output(learned["target"]))) ** 2).mean(-1)

    def reward(learned: Any, memory: Any, experience: Experience) -> tuple[Any, Any, jax.Array]:
        learned = {**learned, "obs_moments": normaliser.observe(learned["obs_moments"], experience.obs)}
        errors = experience.encoded(lambda obs: error(learned["predictor"], learned, obs))[1:]
        bonus = jnp.where(experience.ended, 0.0, errors)
        if config.normalise_reward:
            seen, memory, bonus = _normalised(learned["return_moments"], memory, bonus, config.gamma)
            learned = {**learned, "return_moments": seen}
        return learned, memory, config.reward * bonus

    def update(learned: Any, batch: Transitions, channels: Any) -> tuple[Any, dict[str, jax.Array]]:
        def loss(predictor: Any) -> jax.Array:
            errors = error(predictor, learned, batch.next_obs, channels)
            return config.loss * jnp.where(batch.ended, 0.0, errors).mean()

        value, gradient = jax.value_and_grad(loss)(learned["predictor"])
        step, opt_state = optimiser.update(gradient, learned["opt_state"])
        predictor = optax.apply_updates(learned["predictor"], step)
        return {**learned, "predictor": predictor, "opt_state": opt_state}, {"rnd/loss": value}

    return IntrinsicReward(init, reward, update, config.epochs, streams(given.config))


def streams(config: TrainConfig) -> Streams:
    """The game's reward, which ends with the episode, and the bonus, which does not (section 2.3)."""
    return Streams(
        mix=((1.0, 0.0), (0.0, 1.0)),
        gamma=(config.ppo.gamma, config.rnd.gamma),
        episodic=(True, config.rnd.episodic),
        weight=(1.0, config.rnd.advantage),
    )


def _normalised(
    seen: moments.Moments, running: jax.Array, bonus: jax.Array, gamma: float
) -> tuple[moments.Moments, jax.Array, jax.Array]:
    """`bonus` [T, N] over the deviation of the discounted sums of past bonuses (section 2.4); the sums go on in
    `running` [N], over the ends of episodes too."""

    def add(running: jax.Array, bonus: jax.Array) -> tuple[jax.Array, jax.Array]:
        running = gamma * running + bonus
        return running, running

    running, sums = jax.lax.scan(add, running, bonus)
    seen = moments.merge(seen, moments.of_batch(sums.reshape(-1)))
    return seen, running, bonus / jnp.maximum(moments.deviation(seen), 1e-8)
