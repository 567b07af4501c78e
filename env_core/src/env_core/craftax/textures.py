"""Craftax's own textures, scaled once to the size that is asked for, and kept in the user's cache folder.

Craftax's renderer keeps all its sizes in one pickle inside its package, which takes minutes to make and must not be
read by two processes while one writes it. Here one size is made in seconds, by craftax's own function, and published
as one `.npz` file that appears whole or not at all; the package is left as it was installed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from env_core.errors import ConfigError, nearest
from env_core.observation.layout import CLASSIC, CRAFTAX, Layout, game_layouts, pixel_layouts
from env_core.publish import publish
from env_core.run.progress import Progress
from env_core.workspace import cache_directory

PICTURE = 16
"""Pixels to a tile in a picture for people: the size in which the textures were painted."""

PACKAGES: Mapping[Layout, str] = {CRAFTAX: "craftax.craftax", CLASSIC: "craftax.craftax_classic"}

Textures = Mapping[str, NDArray[Any]]
"""By craftax's names; [..., p, p, 3 or 4] with p pixels to a tile, or a whole map of tiles."""

Status = Callable[[str], AbstractContextManager[None]]
"""Says what takes so long while its body runs: `env_core.run.progress.Progress.status`, say."""


def textures_ready(env_name: str, tile_pixels: int | None = None) -> bool:
    """Whether the textures of an environment's game are there in this size (default: that of its observations).

    Raises `ConfigError` for an unknown environment.
    """
    return _kept(*_named(env_name, tile_pixels)).exists()


def prepare_textures(env_name: str, tile_pixels: int | None = None, status: Status | None = None) -> None:
    """Makes the textures of an environment's game in this size (default: that of its observations), if need be.

    Takes some seconds once per user and size, and says so through `status` (default: lines on stderr); silent where
    they are ready. Safe to be run by several processes at once, and to be killed. Raises `ConfigError` for an unknown
    environment, `WriteError` where the cache folder cannot be written.
    """
    game, pixels = _named(env_name, tile_pixels)
    load_textures(game, pixels, status)


def load_textures(game: Layout, tile_pixels: int, status: Status | None = None) -> Textures:
    """The textures of a game, made first where they are missing or damaged. Raises `WriteError`."""
    path = _kept(game, tile_pixels)
    if path.exists() and (textures := _read(path)) is not None:
        return textures
    show = status or Progress(total=0).status
    with show(f"scaling the textures of {game.name} to {tile_pixels} pixels, once for this user (seconds)"):
        made = import_module(f"{PACKAGES[game]}.constants").load_all_textures_given_size(tile_pixels)
        textures = {name: np.asarray(texture) for name, texture in made.items()}
        publish(path, lambda file: np.savez_compressed(file, allow_pickle=False, **textures))
    return textures


def observed_tile(game: Layout) -> int:
    """Pixels to a tile in the observations of the game's pixel environment."""
    widths = {game_layouts[name]: pixels.width for name, pixels in pixel_layouts.items()}
    return widths[game] // game.cols


def layout_of(env_name: str) -> Layout:
    """The game of an environment. Raises `ConfigError` for an unknown one."""
    if env_name not in game_layouts:
        raise ConfigError(f"unknown environment {env_name!r}. {nearest(env_name, game_layouts)}")
    return game_layouts[env_name]


def _named(env_name: str, tile_pixels: int | None) -> tuple[Layout, int]:
    game = layout_of(env_name)
    return game, tile_pixels or observed_tile(game)


def _read(path: Path) -> Textures | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except Exception:  # a damaged archive fails in many ways, and in whichever it does, it can be made again
        return None


def _kept(game: Layout, tile_pixels: int) -> Path:
    return cache_directory("textures") / f"{_digest(PACKAGES[game])}-{tile_pixels}.npz"


@cache
def _digest(package: str) -> str:
    """Of all that the textures are made from, so that another craftax finds other files."""
    folder = Path(str(import_module(package).__path__[0]))
    sources = [folder / "constants.py", *sorted((folder / "assets").glob("*.png"))]
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + source.read_bytes())
    return f"{package.rpartition('.')[2]}-{digest.hexdigest()[:16]}"
