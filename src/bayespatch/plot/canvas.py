"""Parts shared by all figures: sizes, colors, and text without markup."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# M. Okabe, K. Ito: Color universal design (2008)
BLUE, ORANGE, VERMILLION, SKY, GREEN, PURPLE = "#0072B2", "#E69F00", "#D55E00", "#56B4E9", "#009E73", "#CC79A7"
INK, QUIET = "#1a1a1a", "#6b6b6b"
SERIES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
MARKERS = ("o", "^", "s", "D", "v", "P")


class Inks(NamedTuple):
    """Colors of text and bars on a light or a dark figure."""

    ink: str
    quiet: str
    pale: str
    faint: str
    accent: str
    warning: str


def inks() -> Inks:
    """Colors that are readable on the background of matplotlib's current style."""
    from matplotlib import rcParams
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(rcParams["figure.facecolor"])
    if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5:
        return Inks("#e6e9ec", "#a4adb5", "#6f7a83", "#2b3339", SKY, ORANGE)
    return Inks(INK, QUIET, "#b4bcc3", "#e4e8ec", BLUE, VERMILLION)


def new_figure(width: float, height: float) -> Figure:
    """A figure of this size in inches that a notebook displays."""
    from bayespatch.plot.figure import NotebookFigure

    return NotebookFigure(figsize=(width, height), layout="constrained")


def axes_of(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes given, or new ones in a figure of this size in inches."""
    if ax is not None:
        return ax
    return new_figure(width, height).add_subplot()


def finished(*axes: Axes) -> Figure:
    """The figure of the axes, with markup turned off in all text, so that ``$`` does not start a formula."""
    from matplotlib.text import Text

    for ax in axes:
        for text in ax.findobj(Text):
            text.set_parse_math(False)
        for axis in (ax.xaxis, ax.yaxis):
            for label in axis.get_ticklabels():
                label.set_parse_math(False)
    figure = axes[0].get_figure(root=True)
    assert figure is not None
    return figure


def plain_frame(ax: Axes) -> None:
    """Remove the top and right borders of a plot."""
    ax.spines[["top", "right"]].set_visible(False)


def wrapped(text: str, length: int, most: int = 3) -> str:
    """Wrap text between words into at most `most` lines; the last line is shortened if necessary."""
    return "\n".join(wrap(text, length, max_lines=most, placeholder="…") or [""])
