"""The patchwork of a case: the case, the past cases that speak on it, and the values that they have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayespatch.explain import Explanation, Neighbor, words
from bayespatch.plot.canvas import BLUE, INK, ORANGE, PAPER, QUIET, SKY, VERMILLION, axes_of, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW, _NAME, _BAR, _CELL = 1.0, 2.3, 1.1, 2.2  # heights and widths, in units of a row
_ALERT = 1.5  # height of the warning, where there is one
_ID, _OUTCOME, _PROBABILITY, _INFLUENCE, _HEAD = 0.4, 1.5, 2.6, 3.35, 4.0  # above the values: where lines stand
_INCH = 0.27  # of a row
_LETTERS = 19  # in a cell


def patchwork(explanation: Explanation, ax: Axes | None = None) -> Axes:
    """Draw the patchwork of a case, as the paper does: its top neighbors, and their agreeing values that matter.

    A blue patch with a bold value and a full mark: the past case has the case's value there, and it matters. A pale one
    with an open mark: the same value, which hardly matters. No patch: another value. Beside the features stands their
    importance, above the past cases what became of them and how strongly they speak.

    Parameters
    ----------
    explanation : Explanation
        The case.
    ax : Axes, optional
        Where to draw; by default a new figure, as high as the number of features needs.

    Returns
    -------
    Axes
    """
    why = explanation
    shown = why.shown
    top = 0.0 if why.precedent.adequate else _ALERT
    width = _NAME + _BAR + _CELL * (1 + max(len(shown), 3))  # the title and the legend need some room
    height = top + _HEAD + _ROW * len(why.features) + 1.8
    ax = axes_of(ax, 0.74 * width, _INCH * (height + 1.6))
    ax.set(xlim=(0, width), ylim=(height, 0))
    ax.axis("off")
    ax.set_title(_title(why), loc="left", fontsize=10.5, weight="bold", color=INK, pad=8)
    if not why.precedent.adequate:
        box = {"facecolor": "white", "edgecolor": VERMILLION, "linewidth": 2, "boxstyle": "square,pad=0.4"}
        said = f"⚠ {words.NO_PRECEDENT}: this case is unlike the past ones; do not rely on the prediction"
        ax.text(0.1, 0.6, said, fontsize=9, weight="bold", color=INK, va="center", bbox=box)
    _draw_case(ax, why, top)
    for k, neighbor in enumerate(shown):
        _draw_neighbor(ax, why, neighbor, _NAME + _BAR + _CELL * (1 + k), top)
    if not shown:
        ax.text(_NAME + _BAR + _CELL + 0.2, top + _HEAD + 0.5, words.reliance(why), fontsize=9, color=INK, va="center")
    _draw_legend(ax, height - 0.7)
    return ax


def _title(why: Explanation) -> str:
    if why.interval is None:
        p = words.percent(why.probabilities[why.predicted])
        said, within = f"{words.answer(why)} {p}", words.interval(why.intervals[why.predicted])
    else:
        said, within = words.answer(why), "{:.4g} to {:.4g}".format(*why.interval)
    known = f"   (known outcome: {why.outcome})" if why.outcome is not None else ""
    return f"{words.title(why)}   {said}, {why.level:.0%} interval {within}{known}"


def _draw_case(ax: Axes, why: Explanation, top: float) -> None:
    """Names and importances of the features, and the values of the case."""
    x = _NAME + _BAR
    labels = {"outcome": _OUTCOME, "P(neighbor)": _PROBABILITY, "influence": _INFLUENCE}
    for label, line in labels.items():
        ax.text(x + _CELL - 0.15, top + line, label, fontsize=7.5, color=QUIET, ha="right", va="center")
    ax.text(x + 0.1, top + _ID, "the case", fontsize=9, weight="bold", color=INK, va="center")
    ax.text(_NAME, top + _HEAD - 0.25, "importance", fontsize=6.5, color=QUIET, va="center")
    for j, feature in enumerate(why.features):
        y = top + _HEAD + _ROW * j
        ax.text(_NAME - 0.15, y + 0.5, shortened(feature.name, 20), fontsize=8.5, color=INK, ha="right", va="center")
        for length, color in ((1.0, "#dddddd"), (feature.importance, ORANGE)):
            ax.add_patch(_bar(_NAME, y + 0.28, 0.7 * _BAR * length, 0.44, facecolor=color, edgecolor="none"))
        ax.add_patch(_bar(x + 0.04, y + 0.06, _CELL - 0.08, 0.88, facecolor=PAPER, edgecolor=INK, linewidth=0.6))
        ax.text(x + 0.14, y + 0.5, shortened(feature.value, _LETTERS), fontsize=8, color=INK, va="center")


def _draw_neighbor(ax: Axes, why: Explanation, neighbor: Neighbor, x: float, top: float) -> None:
    """One past case: who it is, what became of it, and its values."""
    stance, color = ("✗", VERMILLION) if neighbor.dissents else ("✓", BLUE)
    ax.text(x + 0.1, top + _ID, f"#{shortened(neighbor.id, 14)}", fontsize=9, weight="bold", color=INK, va="center")
    outcome = f"{stance} {_two_lines(neighbor.outcome)}"
    ax.text(x + 0.1, top + _OUTCOME, outcome, fontsize=7.5, color=color, va="center", linespacing=1.15)
    probability = words.percent(neighbor.probability)
    ax.text(x + 0.1, top + _PROBABILITY, probability, fontsize=8, color=INK, va="center")
    length = 0.55 * _CELL * neighbor.influence / max(other.influence for other in why.shown)
    ax.add_patch(_bar(x + 0.1, top + _INFLUENCE - 0.2, length, 0.4, facecolor=color, edgecolor="none"))
    influence = f"{neighbor.influence:.2f}"
    ax.text(x + 0.2 + length, top + _INFLUENCE, influence, fontsize=7.5, color=INK, va="center")
    for j, feature in enumerate(why.features):
        y = top + _HEAD + _ROW * j
        patch = neighbor.features[feature.name]
        state = words.state(patch)
        if state != "differs":
            face, edge = (BLUE, BLUE) if state == "marked" else ("white", SKY)
            ax.add_patch(_bar(x + 0.04, y + 0.06, _CELL - 0.08, 0.88, facecolor=face, edgecolor=edge))
        text = f"{words.MARKS[state]} {shortened(patch.value, _LETTERS - 2)}"
        ink = "white" if state == "marked" else INK if state == "agrees" else QUIET
        weight = "bold" if state == "marked" else "normal"
        ax.text(x + 0.14, y + 0.5, text, fontsize=7.5, color=ink, weight=weight, va="center")


def _draw_legend(ax: Axes, y: float) -> None:
    words_of = [f"{words.MARKS[state]} {meaning}" for state, meaning in words.LEGEND.items()]
    line = "     ".join(words_of)
    ax.text(0, y, f"{line}\n✓ speaks for the prediction     ✗ speaks against it", fontsize=7.5, color=INK, va="center")


def _two_lines(text: str) -> str:
    """A long text on two lines."""
    if len(text) <= _LETTERS - 2:
        return text
    room = text[: _LETTERS - 2]
    first = room[: max(room.rfind(" "), room.rfind("-")) + 1] or room
    return f"{first}\n    {shortened(text[len(first) :], _LETTERS - 2)}"


def _bar(x: float, y: float, width: float, height: float, **style: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), width, height, **style)
