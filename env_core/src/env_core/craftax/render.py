"""Pictures of the game for people: 16 pixels to a tile, the size in which its textures were painted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import Array

from env_core.craftax.pixels import painter
from env_core.craftax.textures import PICTURE, Status, layout_of


def frame(env_name: str, status: Status | None = None) -> Callable[[Any], Array]:
    """The jitted function from one game state to its picture, uint8 [H, W, 3], for any environment of the game.

    The first call makes the textures, which takes seconds and is shown by `status` (default: lines on stderr).

    Raises `ConfigError` for an unknown environment, `WriteError` where the textures cannot be kept.
    """
    return jax.jit(painter(layout_of(env_name), PICTURE, status))
