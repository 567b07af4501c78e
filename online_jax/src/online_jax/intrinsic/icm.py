"""Intrinsic curiosity: what a model of the consequences of actions cannot foresee is worth seeing.

Pathak, Agrawal, Efros & Darrell 2017, *Curiosity-driven Exploration by Self-supervised Prediction*.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from online_jax.intrinsic.base import Experience, Ingredients, IntrinsicReward, Transitions, alone
from online_jax.networks import MLP, Encoder, embedding


def encoder(given: Ingredients) -> Encoder:
    """φ: observation → latent [B, latent], which the inverse model alone teaches what to keep."""
    config = given.config.icm
    return embedding(given.encoder(config.width), (config.width, config.width), config.latent)


def icm(given: Ingredients) -> IntrinsicReward:
    """bonus_t = c · mean (g(φ(s_t), a_t) − φ(s_{t+1}))²; 0 where the episode ended with the step.

    The inverse model predicts a_t from φ(s_t) and φ(s_{t+1}) (eqs. 2, 3); the forward model g predicts φ(s_{t+1}), and
    its loss does not reach φ (eqs. 4, 5). Steps that ended an episode count as 0 in both losses.
    """
    config = given.config.icm
    phi = encoder(given)
    forward, inverse = (MLP((config.width,) * 3, outputs) for outputs in (config.latent, given.num_actions))
    optimiser = given.optimiser(config.learning_rate)

    def init(key: jax.Array, obs: Any) -> tuple[Any, Any]:
        k_phi, k_forward, k_inverse = jax.random.split(key, 3)
        latent, action = jnp.zeros((1, config.latent)), jnp.zeros((1, given.num_actions))
        params = {
            "phi": phi.init(k_phi),
            "forward": forward.init(k_forward, jnp.concatenate([latent, action], -1)),
            "inverse": inverse.init(k_inverse, jnp.concatenate([latent, latent], -1)),
        }
        # An optimiser each, so that one model's large gradient does not scale down another's.
        opt_states = {name: optimiser.init(part) for name, part in params.items()}
        return {"params": params, "opt_states": opt_states}, ()

    def surprise(params: Any, latent: jax.Array, action: jax.Array, following: jax.Array) -> jax.Array:
        """The forward model's squared error [...], mean over the latent."""
        known = jnp.concatenate([latent, jax.nn.one_hot(action, given.num_actions)], -1)
        foreseen: Any = forward.apply(params["forward"], known)
        return ((foreseen - following) ** 2).mean(-1)

    def reward(learned: Any, memory: Any, experience: Experience) -> tuple[Any, Any, jax.Array]:
        params = learned["params"]
        latent = experience.encoded(lambda obs: phi.apply(params["phi"], obs))
        errors = surprise(params, latent[:-1], experience.action, latent[1:])
        return learned, memory, config.reward * jnp.where(experience.ended, 0.0, errors)

    def loss(params: Any, batch: Transitions, channels: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
        both = jax.tree.map(lambda *obs: jnp.concatenate(obs), batch.obs, batch.next_obs)
        latent, following = jnp.split(phi.apply(params["phi"], both, channels), 2)
        logits: Any = inverse.apply(params["inverse"], jnp.concatenate([latent, following], -1))
        mistaken = optax.softmax_cross_entropy_with_integer_labels(logits, batch.action)
        fixed = jax.lax.stop_gradient((latent, following))
        errors = surprise(params, fixed[0], batch.action, fixed[1])
        inverse_loss, forward_loss = (jnp.where(batch.ended, 0.0, x).mean() for x in (mistaken, errors))
        return config.inverse_loss * inverse_loss + config.forward_loss * forward_loss, {
            "icm/inverse_loss": inverse_loss,
            "icm/forward_loss": forward_loss,
        }

    def update(learned: Any, batch: Transitions, channels: Any) -> tuple[Any, dict[str, jax.Array]]:
        gradients, losses = jax.grad(loss, has_aux=True)(learned["params"], batch, channels)
        params, opt_states = {}, {}
        for name, part in learned["params"].items():
            step, opt_states[name] = optimiser.update(gradients[name], learned["opt_states"][name])
            params[name] = optax.apply_updates(part, step)
        return {"params": params, "opt_states": opt_states}, losses

    return IntrinsicReward(init, reward, update, config.epochs, alone(given.config))
