"""Craftax and Craftax-Classic in JAX: environments, resets, and observations without the one-hot.

Needs the extra `craftax` of this distribution. Start at `make`.
"""

from env_core.craftax.make import ENVIRONMENTS, RESETS, Environment, make
from env_core.craftax.observe import decode, observer
from env_core.craftax.wrappers import EnvState, EpisodeStatistics, Timestep

__all__ = [
    "ENVIRONMENTS",
    "RESETS",
    "EnvState",
    "Environment",
    "EpisodeStatistics",
    "Timestep",
    "decode",
    "make",
    "observer",
]
