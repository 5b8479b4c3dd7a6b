"""What all pictures share: matplotlib where it is installed, colors, shortened texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# M. Okabe, K. Ito: Color universal design (2008)
BLUE, ORANGE, VERMILLION, SKY, GREEN, PURPLE = "#0072B2", "#E69F00", "#D55E00", "#56B4E9", "#009E73", "#CC79A7"
INK, QUIET, PAPER = "#1a1a1a", "#6b6b6b", "#eef3f7"
SERIES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
MARKERS = ("o", "^", "s", "D", "v", "P")


def pyplot() -> Any:
    """matplotlib.pyplot, or a word on how to get it."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError('pictures need matplotlib: pip install "bayespatch[plot]"') from error
    return pyplot


def axes_of(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes given, or new ones in a figure of this size in inches."""
    if ax is not None:
        return ax
    _, new = pyplot().subplots(figsize=(width, height), layout="constrained")
    found: Axes = new
    return found


def plain_frame(ax: Axes) -> None:
    """No more lines around a picture than it needs."""
    ax.spines[["top", "right"]].set_visible(False)


def shortened(text: str, length: int) -> str:
    """At most so many letters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
