"""Craftax and Craftax-Classic in JAX: environments, resets, observations without the one-hot, and frames.

Needs the extra `craftax` of this distribution. Start at `make`.
"""

from env_core.craftax.make import ENVIRONMENTS, RESETS, Environment, make
from env_core.craftax.observe import decode, observer
from env_core.craftax.pixels import painter
from env_core.craftax.textures import prepare_textures, textures_ready
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
    "painter",
    "prepare_textures",
    "textures_ready",
]
