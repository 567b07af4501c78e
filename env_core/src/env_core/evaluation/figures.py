"""An empty figure of matplotlib without a display, and its publication."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from env_core.errors import ConfigError
from env_core.publish import publish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches. Raises `ConfigError` if matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        raise ConfigError(
            "Pictures need matplotlib. Install craftax-env-core with its extra `plots`; the numbers need none."
        ) from None
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06))
    FigureCanvasAgg(figure)  # needs no display
    return figure


def publish_figure(path: Path, figure: Figure, dpi: int = 110) -> None:
    """Publishes a figure as PNG. Raises `WriteError`."""
    publish(path, lambda file: figure.savefig(file, format="png", dpi=dpi, facecolor="white"))


def plain(axis: Axes, title: str) -> None:
    """The looks that all panels share: a title to the left, a faint grid, no box."""
    axis.set_title(title, fontsize=11, loc="left")
    axis.tick_params(labelsize=8.5)
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
