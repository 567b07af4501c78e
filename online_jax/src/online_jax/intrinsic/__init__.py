"""Intrinsic rewards: a triple of pure functions each, in a file each. `none` is the null object."""

from online_jax.intrinsic.base import Experience, IntrinsicReward
from online_jax.intrinsic.none import none

__all__ = ["Experience", "IntrinsicReward", "none"]
