"""No bonus: learning from the environment's own reward alone."""

from __future__ import annotations

import jax.numpy as jnp

from online_jax.intrinsic.base import Ingredients, IntrinsicReward, alone


def none(given: Ingredients) -> IntrinsicReward:
    """The null object: rewards zero, learns nothing, costs nothing once compiled."""
    return IntrinsicReward(
        init=lambda key, obs: ((), ()),
        reward=lambda learned, memory, experience: (learned, memory, jnp.zeros(experience.ended.shape)),
        update=lambda learned, transitions, channels: (learned, {}),
        epochs=0,
        streams=alone(given.config),
        measure=lambda bonus: {},
    )
