"""Elliptical episodic bonus: what differs, in the directions that actions can change, from all that this episode saw.

Henaff, Raileanu, Jiang & Rocktäschel 2022, *Exploration via Elliptical Episodic Bonuses*.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from online_jax.intrinsic.base import Experience, Ingredients, IntrinsicReward
from online_jax.intrinsic.icm import encoder, icm


def e3b(given: Ingredients) -> IntrinsicReward:
    """bonus_t = c · φ(s_{t+1})ᵀ C⁻¹ φ(s_{t+1}), with C = λ I + Σ φ φᵀ over the episode so far (algorithm 1).

    φ is the encoder that ICM's inverse model teaches: this wraps `icm` and replaces its reward. `memory` is C⁻¹
    [N, F, F] of each environment's episode. 0 where the episode ended with the step.
    """
    config = given.config.e3b
    base, phi = icm(given), encoder(given)
    nothing_seen = jnp.eye(phi.features) / config.ridge

    def init(key: jax.Array, obs: Any) -> tuple[Any, jax.Array]:
        learned, _ = base.init(key, obs)
        num_envs = jax.tree.leaves(obs)[0].shape[0]
        return learned, jnp.broadcast_to(nothing_seen, (num_envs, *nothing_seen.shape))

    def reward(learned: Any, memory: jax.Array, experience: Experience) -> tuple[Any, jax.Array, jax.Array]:
        latent = experience.encoded(lambda obs: phi.apply(learned["params"]["phi"], obs))

        def step(inverse: jax.Array, inputs: Any) -> tuple[jax.Array, jax.Array]:
            ended, following = inputs
            after, bonus = elliptical(inverse, following)
            return jnp.where(ended[:, None, None], nothing_seen, after), jnp.where(ended, 0.0, bonus)

        memory, bonus = jax.lax.scan(step, memory, (experience.ended, latent[1:]))
        return learned, memory, config.reward * bonus

    return base._replace(init=init, reward=reward)


def elliptical(inverse: jax.Array, latent: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(C + φφᵀ)⁻¹ [N, F, F] by Sherman & Morrison (1950), and φᵀ C⁻¹ φ [N], of C⁻¹ = `inverse` and φ = `latent`."""
    turned = (inverse * latent[:, None, :]).sum(-1)
    bonus = (turned * latent).sum(-1)
    return inverse - turned[:, :, None] * turned[:, None, :] / (1 + bonus)[:, None, None], bonus
