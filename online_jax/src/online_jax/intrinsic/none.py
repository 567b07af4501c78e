"""No bonus: learning from the environment's own reward alone."""

from __future__ import annotations

import jax.numpy as jnp

from online_jax.intrinsic.base import IntrinsicReward


def none() -> IntrinsicReward:
    """The null object: rewards zero, learns nothing, costs nothing once compiled."""
    return IntrinsicReward(
        init=lambda key, obs: ((), ()),
        reward=lambda learned, memory, experience: (memory, jnp.zeros(experience.terminated.shape)),
        update=lambda learned, rollout, key: (learned, {}),
    )
