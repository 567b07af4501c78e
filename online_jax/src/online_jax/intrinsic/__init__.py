"""Intrinsic rewards: a few pure functions each, in a file each. `none` is the null object, `base` the slot."""

from online_jax.intrinsic.base import Experience, Ingredients, IntrinsicReward, Streams, Transitions

__all__ = ["Experience", "Ingredients", "IntrinsicReward", "Streams", "Transitions"]
