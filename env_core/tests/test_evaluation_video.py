"""The true return is a discounted sum of each step's reward, and what is written are videos that others can read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from env_core.errors import ConfigError, WriteError
from env_core.evaluation import Film, write_video
from env_core.evaluation.board import Board
from env_core.evaluation.video import returns_to_go


def _film(num_steps: int = 6, height: int = 24, width: int = 20, **changed: Any) -> Film:
    frames = np.zeros((num_steps, height, width, 3), np.uint8)
    frames[:] = np.linspace(0, 250, num_steps).astype(np.uint8)[:, None, None, None]
    fields: dict[str, Any] = {
        "frames": frames,
        "values": np.linspace(1, 2, num_steps),
        "rewards": np.arange(num_steps) % 2,
        "gamma": 0.9,
        "title": "Craftax",
    }
    return Film(**(fields | changed))


@pytest.mark.parametrize(
    ("rewards", "gamma", "final_value", "expected"),
    [
        ([1, 0, 0], 0.5, 0, [1, 0, 0]),
        ([0, 0, 1], 0.5, 0, [0.25, 0.5, 1]),
        ([1, 2, 4], 0.5, 0, [3, 4, 4]),  # of the rewards summed up, 1, 3, 7, it would be 4.25, 6.5, 7
        ([1, 2, 4], 1.0, 0, [7, 6, 4]),
        ([1, 2, 4], 0.0, 9, [1, 2, 4]),
        ([0, 0], 0.5, 8, [2, 4]),
        ([1, -1], 0.5, 8, [2.5, 3]),
        ([], 0.9, 1, []),
    ],
)
def test_returns_to_go_by_hand(rewards: list[float], gamma: float, final_value: float, expected: list[float]) -> None:
    np.testing.assert_allclose(returns_to_go(rewards, gamma, final_value), expected)


@given(
    rewards=st.lists(st.floats(-10, 10), min_size=1, max_size=30),
    gamma=st.floats(0, 1),
    final_value=st.floats(-10, 10),
)
def test_returns_to_go_are_the_sum_of_their_definition(rewards: list[float], gamma: float, final_value: float) -> None:
    every = [*rewards, final_value]
    expected = [sum(gamma**k * later for k, later in enumerate(every[t:])) for t in range(len(rewards))]
    np.testing.assert_allclose(returns_to_go(rewards, gamma, final_value), expected, atol=1e-9)


def test_a_film_bootstraps_only_with_a_final_value() -> None:
    np.testing.assert_allclose(_film(2, rewards=[0, 1]).returns_to_go, [0.9, 1])
    np.testing.assert_allclose(_film(2, rewards=[0, 1], final_value=10.0).returns_to_go, [9.0, 10])


def test_the_game_is_enlarged_by_a_whole_factor_and_nothing_else() -> None:
    random = np.random.default_rng(0)
    film = _film(frames=random.integers(0, 256, (6, 24, 20, 3), np.uint8))
    board = Board(film)
    pixels = np.asarray(board.picture(3))
    assert pixels.shape == (board.size[1], board.size[0], 3)
    factor = 20  # the largest for which 24 rows stay within 500
    game = pixels[40 : 40 + 24 * factor, 16 : 16 + 20 * factor]
    np.testing.assert_array_equal(game, film.frames[3].repeat(factor, 0).repeat(factor, 1))


@pytest.mark.parametrize(("height", "width"), [(33, 21), (501, 7), (1, 1)])
def test_sizes_are_even_whatever_the_frames_are(height: int, width: int) -> None:
    """33 x 21 becomes 495 x 315; what is taller than 500 stays as it is; what is tiny is no larger than 500."""
    board = Board(_film(1, height, width))
    assert [length % 2 for length in board.size] == [0, 0]
    assert board.picture(0).size == board.size


def test_the_past_is_strong_and_the_future_faint() -> None:
    """A line that stays at one height: the ink left of the cursor is darker than that right of it."""
    board = Board(_film(50, values=np.full(50, 5.0), rewards=np.zeros(50)))
    chart = board._chart
    begin, middle, late, end = (int(chart.columns[t]) for t in (2, 20, 30, 47))
    first, last = (np.asarray(board.picture(t).convert("L"), float) for t in (10, 40))
    top, left = 40 + 52, board._chart_left
    rows = slice(top + int(chart.value_rows[0]) - 1, top + int(chart.value_rows[0]) + 2)
    past, future = (picture[rows, left + middle : left + late].mean() for picture in (last, first))
    assert past + 50 < future < 254
    assert begin < middle < late < end


def _decoded(path: Path, size: tuple[int, int]) -> np.ndarray:
    """All frames of a video, [T, H, W, 3]."""
    command = [
        imageio_ffmpeg.get_ffmpeg_exe(),
        "-v",
        "error",
        "-i",
        str(path),
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-",
    ]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, size[1], size[0], 3)


def test_an_mp4_holds_every_frame_in_the_form_that_browsers_want(tmp_path: Path) -> None:
    film = _film(7, 25, 21)
    path = tmp_path / "new folder" / "episode.mp4"
    write_video(path, film, fps=5)
    assert [file.name for file in path.parent.iterdir()] == ["episode.mp4"]
    board = Board(film)
    decoded = _decoded(path, board.size)
    assert len(decoded) == 7
    for t in (0, 3, 6):
        assert np.abs(decoded[t, 60:400, 30:300].astype(int) - int(film.frames[t, 0, 0, 0])).max() < 12
    told = subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path)], capture_output=True, text=True).stderr
    assert re.search(r"Video: h264 .*yuv420p.* 5 fps", told), told
    content = path.read_bytes()
    assert content.index(b"moov") < content.index(b"mdat"), "the index comes first"


def test_a_gif_holds_every_frame(tmp_path: Path) -> None:
    film = _film(5)
    write_video(tmp_path / "episode.gif", film, fps=20)
    with Image.open(tmp_path / "episode.gif") as gif:
        assert gif.n_frames == 5
        for t in range(5):
            gif.seek(t)
            assert gif.info["duration"] == 50
            assert abs(gif.convert("L").getpixel((100, 100)) - int(film.frames[t, 0, 0, 0])) < 12


def test_one_step_is_a_video_too(tmp_path: Path) -> None:
    write_video(tmp_path / "episode.gif", _film(1))
    with Image.open(tmp_path / "episode.gif") as gif:
        assert gif.n_frames == 1


def test_a_long_title_is_cut() -> None:
    size = Board(_film(title="very long " * 100)).size
    assert size == Board(_film()).size


def test_a_failed_video_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "episode.mp4").write_bytes(b"old")
    broken = tmp_path / "ffmpeg"
    broken.write_text("#!/bin/sh\necho it is full >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(broken))
    with pytest.raises(WriteError, match="it is full"):
        write_video(tmp_path / "episode.mp4", _film())
    assert (tmp_path / "episode.mp4").read_bytes() == b"old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["episode.mp4", "ffmpeg"]


@pytest.mark.parametrize(
    ("name", "package"), [("a.mp4", "imageio_ffmpeg"), ("a.mp4", "PIL"), ("a.gif", "PIL"), ("a.gif", "matplotlib")]
)
def test_what_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=f"{package}.*extra `video`"):
        write_video(tmp_path / name, _film())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"frames": np.zeros((0, 4, 4, 3), np.uint8)}, "none empty"),
        ({"frames": np.zeros((6, 4, 4, 3), np.float32)}, "float32"),
        ({"frames": np.zeros((6, 4, 4), np.uint8)}, r"\[T, H, W, 3\]"),
        ({"values": [1.0]}, r"values have shape \[1\]. Expected \[6\]"),
        ({"rewards": [np.nan] * 6}, "rewards hold nan"),
        ({"gamma": 99}, "gamma is 99"),
        ({"final_value": float("inf")}, "final_value is inf"),
    ],
)
def test_a_film_that_cannot_be_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _film(**changed)


@pytest.mark.parametrize(("name", "fps"), [("a.avi", 10), ("a", 10), ("a.mp4", 0), ("a.gif", 51)])
def test_a_video_that_cannot_be_is_refused(tmp_path: Path, name: str, fps: float) -> None:
    with pytest.raises(ConfigError):
        write_video(tmp_path / name, _film(), fps)
