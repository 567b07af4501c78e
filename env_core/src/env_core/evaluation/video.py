"""A played episode as a video: the game, and beside it what the policy expected against what then came.

`.mp4` (H.264, plays in every browser) or `.gif`, by the suffix. Needs the extra `video`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from env_core.errors import ConfigError, WriteError
from env_core.evaluation.board import Board
from env_core.publish import make_folder, publish

if TYPE_CHECKING:
    from PIL.Image import Image

Floats = NDArray[np.float64]

GIF_FASTEST = 50  # pictures per second; players slow down a GIF that asks for more
_PALETTE_FRAMES = 8


@dataclass(frozen=True, eq=False)
class Film:
    """T steps of one episode. Row t: the frame, the value of its state, and the reward of the action taken on it.

    Raises `ConfigError` for arrays that do not fit together or hold what cannot be.
    """

    frames: NDArray[np.uint8]
    """[T, H, W, 3]"""
    values: NDArray[Any]
    """[T], V(s_t), discounted by `gamma`."""
    rewards: NDArray[Any]
    """[T], r_t, each step's own (not summed up)."""
    gamma: float
    title: str = ""
    final_value: float | None = None
    """V of the state after the last step, where the episode was truncated or cut; None: it terminated."""

    def __post_init__(self) -> None:
        shape = np.shape(self.frames)
        if len(shape) != 4 or shape[-1] != 3 or 0 in shape or self.frames.dtype != np.uint8:
            raise ConfigError(f"frames are {self.frames.dtype} {list(shape)}. Expected uint8 [T, H, W, 3], none empty.")
        for name in ("values", "rewards"):
            array = np.asarray(getattr(self, name), np.float64)
            if array.shape != shape[:1]:
                raise ConfigError(f"{name} have shape {list(array.shape)}. Expected [{shape[0]}], one for each frame.")
            if not np.isfinite(array).all():
                raise ConfigError(f"{name} hold nan or infinity. Expected a number for each frame.")
            object.__setattr__(self, name, array)
        if not 0 <= self.gamma <= 1:
            raise ConfigError(f"gamma is {self.gamma}. Expected the discount that the values were learnt with, 0 to 1.")
        if self.final_value is not None and not np.isfinite(self.final_value):
            raise ConfigError(f"final_value is {self.final_value}. Expected a number, or None after a termination.")

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def returns_to_go(self) -> Floats:
        """[T], what `values` should have been."""
        return returns_to_go(self.rewards, self.gamma, self.final_value or 0.0)


def returns_to_go(rewards: ArrayLike, gamma: float, final_value: float = 0.0) -> Floats:
    """G_t = r_t + γ r_{t+1} + γ² r_{t+2} + … + γ^(T-t) · final_value, for rewards [T]: float64 [T].

    Of each step's own reward: the discounted sum of what follows, never of rewards already summed up.
    """
    each = np.asarray(rewards, np.float64)
    found = np.empty_like(each)
    following = final_value
    for t in range(len(each) - 1, -1, -1):
        following = found[t] = each[t] + gamma * following
    return found


def write_video(path: Path, episode: Film, fps: float = 10) -> None:
    """Publishes an episode as a video of `fps` frames a second, whole or not at all.

    Tiny frames are enlarged by whole factors. Raises `ConfigError` for a suffix that is neither .mp4 nor .gif, for fps
    that cannot be, and if something is not installed; `WriteError`.
    """
    suffix = path.suffix.lower()
    if suffix not in (".mp4", ".gif"):
        raise ConfigError(f"{path.name} ends in {path.suffix!r}. Expected .mp4 or .gif.")
    if not 0 < fps <= (GIF_FASTEST if suffix == ".gif" else 1000):
        raise ConfigError(f"fps is {fps}. Expected more than 0, and for a .gif at most {GIF_FASTEST}.")
    for package in ["matplotlib", "PIL"] + ["imageio_ffmpeg"] * (suffix == ".mp4"):
        _require(package)
    board = Board(episode)
    make_folder(path.parent)
    publish(path, lambda file: (_write_mp4 if suffix == ".mp4" else _write_gif)(file, board, fps))


def _require(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise ConfigError(
            f"Videos need {package}, which is not installed. Install craftax-env-core with its extra `video`."
        ) from None


def _ffmpeg() -> str:
    """The program that imageio-ffmpeg brings along, or the one that IMAGEIO_FFMPEG_EXE names."""
    try:
        return str(_require("imageio_ffmpeg").get_ffmpeg_exe())
    except RuntimeError as error:
        raise ConfigError(f"There is no ffmpeg: {error} Name one in IMAGEIO_FFMPEG_EXE, or write a .gif.") from error


def _write_mp4(file: BinaryIO, board: Board, fps: float) -> None:
    """H.264 in 4:2:0, which browsers want, with its index first, so that it plays while it loads."""
    width, height = board.size
    given = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    wanted = ["-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-preset", "fast"]
    command = [_ffmpeg(), "-y", "-v", "error", *given, *wanted, "-movflags", "+faststart"]
    with TemporaryFile() as complaints:
        with (
            suppress(BrokenPipeError),  # it gave up: its complaint says why
            Popen([*command, "-f", "mp4", file.name], stdin=PIPE, stdout=DEVNULL, stderr=complaints) as encoder,
        ):
            assert encoder.stdin is not None
            for t in range(len(board)):
                encoder.stdin.write(board.picture(t).tobytes())
        if encoder.returncode:
            complaints.seek(0)
            raise WriteError(
                f"ffmpeg could not write the video: {complaints.read().decode(errors='replace').strip()[-500:]} "
                "Nothing was published; make room, or write a .gif."
            )


def _write_gif(file: BinaryIO, board: Board, fps: float) -> None:
    """All pictures in one palette, so that each only holds what changed."""
    from PIL.Image import Dither

    palette = _palette(board)
    pictures = (board.picture(t).quantize(palette=palette, dither=Dither.NONE) for t in range(len(board)))
    next(pictures).save(
        file, format="GIF", save_all=True, append_images=pictures, duration=round(1000 / fps), loop=0, optimize=False
    )


def _palette(board: Board) -> Image:
    """256 colours for all pictures, found in some of them."""
    from PIL.Image import Quantize, fromarray

    some = np.unique(np.linspace(0, len(board) - 1, _PALETTE_FRAMES).astype(int))
    pictures = np.concatenate([np.asarray(board.picture(int(t))) for t in some])
    return fromarray(pictures).quantize(256, Quantize.FASTOCTREE)
