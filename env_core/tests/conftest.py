"""What the tests of the environment share: compiled programs, kept on disk between runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from env_core.workspace import cache_directory

if TYPE_CHECKING:
    from env_core.craftax import Environment

# By environment variable, because tests of numpy code must not load JAX to set it.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_directory("jax")))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "1")

FULL, CLASSIC = "Craftax-Symbolic-v1", "Craftax-Classic-Symbolic-v1"


@dataclass(frozen=True)
class Setup:
    """An environment with the game's own observation beside ours; the functions take states with leaves [N, ...]."""

    env: Environment
    get_obs: Any
    """The game's float observation [N, size]."""
    observe: Any
    num_envs: int
    max_timesteps: int


def _setup(name: str, num_envs: int, **settings: int) -> Setup:
    import jax
    from craftax.craftax_env import make_craftax_env_from_name

    from env_core.craftax import make, observer

    env = make(name, **settings)
    game = make_craftax_env_from_name(name, auto_reset=False)
    get_obs, observe = jax.jit(jax.vmap(game.get_obs)), jax.jit(jax.vmap(observer(env.layout)))
    return Setup(env, get_obs, observe, num_envs, settings["max_timesteps"])


@pytest.fixture(scope="session")
def classic() -> Setup:
    return _setup(CLASSIC, num_envs=16, pool_size=8, max_timesteps=25)


@pytest.fixture(scope="session")
def full() -> Setup:
    """Eighteen environments: two for each floor."""
    return _setup(FULL, num_envs=18, pool_size=8, max_timesteps=25)
