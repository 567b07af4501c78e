"""Pictures of the game, drawn by craftax's own pixel renderer."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from env_core.errors import ConfigError, nearest

_logger = logging.getLogger(__name__)

_PACKAGES = {
    "Craftax-Symbolic-v1": "craftax.craftax",
    "Craftax-Classic-Symbolic-v1": "craftax.craftax_classic",
}


def frame(env_name: str) -> Callable[[Any], Array]:
    """The jitted function from one game state to its picture, uint8 [H, W, 3], 16 pixels to a tile.

    Craftax keeps its scaled textures in a file inside its own package. Where that is missing, the first call makes it,
    which takes minutes; a warning is logged before.

    Raises `ConfigError` for an unknown environment.
    """
    if env_name not in _PACKAGES:
        raise ConfigError(f"unknown environment {env_name!r}. {nearest(env_name, _PACKAGES)}")
    constants = import_module(f"{_PACKAGES[env_name]}.constants")
    renderer = import_module(f"{_PACKAGES[env_name]}.renderer")
    cache = Path(constants.TEXTURE_CACHE_FILE)
    if not cache.exists():
        _logger.warning("scaling the textures of %s, once for this installation (some minutes): %s", env_name, cache)
    with contextlib.redirect_stdout(sys.stderr):  # craftax prints, and stdout may be somebody's data
        draw = renderer.make_craftax_pixel_renderer(constants.BLOCK_PIXEL_SIZE_IMG)
    return jax.jit(lambda state: jnp.clip(draw(state), 0, 255).astype(jnp.uint8))
