"""One picture of a video: the game on the left; on the right numbers, and lines over time with a cursor.

matplotlib draws the lines twice and no more: strong, for what was, and faint, for what is to come. A picture is put
together from the two at its cursor, which takes milliseconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from env_core.evaluation.figures import new_figure, plain

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

    from env_core.evaluation.video import Film

Pixels = NDArray[np.uint8]

TALLEST = 500  # pixels: frames are enlarged by the largest whole factor that stays below

_MARGIN, _TITLE, _NUMBERS, _CHART = 16, 40, 52, 660  # pixels: heights of title and numbers, width of the lines
_SHORTEST = 380
_DPI = 100
_VALUE, _RETURN = "#1f77b4", "#e8710a"
_GAIN, _LOSS, _INK, _PALE = "#2ca02c", "#d62728", "#222222", "#777777"
_FAINT = 0.22  # how much of a line's ink is left where the future is


class _Chart(NamedTuple):
    """Both drawings, uint8 [h, w, 3], and where in them step t is: columns [T], rows of the two lines [T]."""

    strong: Pixels
    faint: Pixels
    columns: NDArray[np.int64]
    value_rows: NDArray[np.int64]
    return_rows: NDArray[np.int64]
    top: int
    bottom: int


class Board:
    """Puts the pictures of a film together. `size` is (width, height) in pixels, both even."""

    def __init__(self, film: Film):
        self._film = film
        self._returns = film.returns_to_go
        self._total = np.cumsum(film.rewards)
        height, width = film.frames.shape[1:3]
        self._factor = max(1, TALLEST // height)
        inner = max(self._factor * height, _SHORTEST)
        self._chart_left = _MARGIN + self._factor * width + _MARGIN
        self._chart = _draw_chart(film, self._returns, _CHART, inner - _NUMBERS)
        self.size = _even(self._chart_left + _CHART + _MARGIN), _even(_TITLE + inner + _MARGIN)
        self._small, self._bold = _font("DejaVuSans.ttf", 14), _font("DejaVuSans-Bold.ttf", 15)
        self._empty = self._with_title()

    def __len__(self) -> int:
        return len(self._film)

    def picture(self, t: int) -> Image:
        """What is seen at step t, RGB."""
        from PIL.Image import fromarray
        from PIL.ImageDraw import Draw

        pixels = self._empty.copy()
        frame = self._film.frames[t].repeat(self._factor, 0).repeat(self._factor, 1)
        pixels[_TITLE : _TITLE + len(frame), _MARGIN : _MARGIN + frame.shape[1]] = frame
        top, left, chart = _TITLE + _NUMBERS, self._chart_left, self._chart
        cursor = chart.columns[t]
        area = pixels[top : top + len(chart.strong), left : left + chart.strong.shape[1]]
        area[:, : cursor + 1] = chart.strong[:, : cursor + 1]
        area[:, cursor + 1 :] = chart.faint[:, cursor + 1 :]
        picture = fromarray(pixels)
        draw = Draw(picture)
        draw.line([(left + cursor, top + chart.top), (left + cursor, top + chart.bottom)], fill=_PALE)
        for row, color in ((chart.return_rows[t], _RETURN), (chart.value_rows[t], _VALUE)):
            _dot(draw, left + cursor, top + row, color)
        self._write_numbers(draw, t)
        return picture

    def _write_numbers(self, draw: ImageDraw, t: int) -> None:
        film, left = self._film, self._chart_left
        so_far = f"step {t} of {len(film) - 1}     reward {film.rewards[t]:+.2f}     so far {self._total[t]:.2f}"
        draw.text((left + 8, _TITLE), so_far, _INK, self._small)
        after = "" if film.final_value is None else ", bootstrapped"
        for column, color, text in (
            (8, _VALUE, f"value V(s)  {film.values[t]:.2f}"),
            (210, _RETURN, f"true return-to-go  {self._returns[t]:.2f}   (γ = {film.gamma:g}{after})"),
        ):
            _dot(draw, left + column + 5, _TITLE + 35, color)
            draw.text((left + column + 16, _TITLE + 26), text, color, self._small)

    def _with_title(self) -> Pixels:
        from PIL.Image import new
        from PIL.ImageDraw import Draw

        picture = new("RGB", self.size, "white")
        title, room = self._film.title, self.size[0] - 2 * _MARGIN
        while self._bold.getlength(title) > room:
            title = title[:-2].rstrip() + "…"
        Draw(picture).text((_MARGIN, 11), title, _INK, self._bold)
        return np.array(picture)


def _draw_chart(film: Film, returns: NDArray[np.float64], width: int, height: int) -> _Chart:
    """The lines of value and return over time, and under them each step's reward; drawn strong and faint."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = new_figure(width / _DPI, height / _DPI)
    figure.dpi = _DPI
    canvas = FigureCanvasAgg(figure)
    lines, rewards = figure.subplots(2, 1, sharex=True, height_ratios=[3.4, 1.0])
    drawn = _plot(lines, rewards, film, returns)
    strong = _shot(canvas)
    figure.set_layout_engine("none")  # what is laid out stays
    for artist in drawn:
        artist.set_alpha(_FAINT)
    faint = _shot(canvas)
    bottom = len(strong)  # matplotlib counts from below
    places = [lines.transData.transform(np.stack([np.arange(len(film)), line], 1)) for line in (film.values, returns)]
    return _Chart(
        strong=strong,
        faint=faint,
        columns=np.rint(places[0][:, 0]).astype(int),
        value_rows=bottom - np.rint(places[0][:, 1]).astype(int),
        return_rows=bottom - np.rint(places[1][:, 1]).astype(int),
        top=bottom - int(lines.bbox.y1),
        bottom=bottom - int(rewards.bbox.y0),
    )


def _shot(canvas: Any) -> Pixels:
    canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3]


def _plot(lines: Axes, rewards: Axes, film: Film, returns: NDArray[np.float64]) -> list[Artist]:
    """Draws both panels and returns what becomes faint."""
    from matplotlib.ticker import MaxNLocator

    steps = np.arange(len(film))
    marker = "o" if len(film) == 1 else None
    colors = [_GAIN if reward > 0 else _LOSS for reward in film.rewards]
    for axis, title in ((lines, "expected, and what then came"), (rewards, "reward of each step")):
        plain(axis, title)
        axis.title.set_fontsize(9.5)
        axis.axhline(0, color="0.6", linewidth=0.8)
    rewards.set_xlabel("step", fontsize=9)
    rewards.xaxis.set_major_locator(MaxNLocator(integer=True))
    lines.set_xlim(-0.01 * len(film), max(1.0, len(film) - 1) + 0.01 * len(film))
    return [
        *lines.plot(steps, returns, color=_RETURN, linewidth=1.8, marker=marker),
        *lines.plot(steps, film.values, color=_VALUE, linewidth=1.8, marker=marker),
        rewards.vlines(steps, 0, film.rewards, color=colors, linewidth=1.6),
    ]


def _dot(draw: ImageDraw, x: int, y: int, color: str, radius: int = 5) -> None:
    draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=color, outline="white")


def _font(name: str, size: int) -> FreeTypeFont:
    """A font that comes with matplotlib, so that pictures look the same everywhere."""
    import matplotlib
    from PIL.ImageFont import truetype

    return truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name), size)


def _even(length: int) -> int:
    return length + length % 2  # H.264 in 4:2:0 has no odd sizes
