"""The patchwork of a case: the case, the exemplars that stand for its voters, and what they have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bayespatch.explain import Explanation, words
from bayespatch.plot.canvas import BLUE, INK, ORANGE, PAPER, QUIET, SKY, VERMILLION, axes_of, finished, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAME, _BAR, _CELL = 2.9, 1.3, 2.3  # widths, in units of a row's height
_LINE = 0.62  # height of a line of small text
_INCH = 0.27  # of a unit
_LETTERS, _NAME_LETTERS = 19, 24  # in a line of a cell, of a name
_HEAD = 5.4  # height above the values: number, outcome in up to three lines, crowd, votes, reliance

Data = Mapping[str, Any]


def patchwork(explanation: Explanation | Data, ax: Axes | None = None) -> Figure:
    """Draw the patchwork of a case: its exemplars, and the values that they have in common with it.

    A filled patch with a bold value: it agrees with the case's, and is one of the few through which this past case
    counts most. A pale one: the same value (=), or a number that counts as close (≈). No patch: a different value.
    Beside the features stands their importance from 0 to 1, with a line from 5 to 95 % of its posterior; above the
    exemplars their votes, as a bar on which the whole width of a cell is 100 % of the votes.

    Parameters
    ----------
    explanation : Explanation or dict
        The case, or what its `to_dict` has returned.
    ax : Axes, optional
        Where to draw; by default a new figure, as large as it needs to be.

    Returns
    -------
    Figure
    """
    why: Data = explanation.to_dict() if isinstance(explanation, Explanation) else explanation
    shown = why["exemplars"]
    heights = [_height(feature, shown) for feature in why["features"]]
    width = _NAME + _BAR + _CELL * (1 + max(len(shown), 3))  # the title and the legend need some room
    notes = [*([] if why["precedent"]["adequate"] else [words.precedent(why)]), *why["case"]["warnings"]]
    alerts = [wrapped(f"⚠ {note}", int(9.5 * width), 3) for note in notes]
    top = sum(_LINE * (1 + text.count("\n")) + 0.5 for text in alerts)
    below = [wrapped(text, int(9.5 * width), 4) for text in (words.votes(why), words.vote_shares(why))]
    foot = sum(_LINE * (1 + text.count("\n")) + 0.2 for text in below) + 3.2
    height = top + _HEAD + sum(heights) + foot
    ax = axes_of(ax, 0.74 * width, _INCH * (height + 1.4))
    ax.set(xlim=(0, width), ylim=(height, 0))
    ax.axis("off")
    ax.set_title(
        f"{words.title(why)}   {words.headline(why)}",
        loc="left",
        fontsize=10.5,
        weight="bold",
        color=INK,
        pad=8,
        wrap=True,
    )
    y = 0.0
    for text in alerts:
        box = {"facecolor": "white", "edgecolor": VERMILLION, "linewidth": 1.2, "boxstyle": "square,pad=0.25"}
        ax.text(0.15, y, text, fontsize=8, color=INK, va="top", bbox=box)
        y += _LINE * (1 + text.count("\n")) + 0.5
    _draw_case(ax, why, top, heights)
    for k, part in enumerate(shown):
        _draw_exemplar(ax, why, part, _NAME + _BAR + _CELL * (1 + k), top, heights)
    if not shown:
        ax.text(_NAME + _BAR + _CELL + 0.2, top + _HEAD, words.reliance(why), fontsize=9, color=INK, va="center")
    y = top + _HEAD + sum(heights) + 0.5
    for text in below:
        ax.text(0, y, text, fontsize=8, color=INK, va="top", linespacing=1.2)
        y += _LINE * (1 + text.count("\n")) + 0.2
    _draw_legend(ax, y + 0.2, width)
    return finished(ax)


def _height(feature: Data, shown: Sequence[Data]) -> float:
    """Of a row: as many lines as its longest text needs."""
    cells = [feature["value"], *(part["features"][feature["name"]]["value"] for part in shown)]
    lines = [wrapped(words.called(feature), _NAME_LETTERS), *(wrapped(text, _LETTERS - 3) for text in cells)]
    return 0.4 + _LINE * (1 + max(text.count("\n") for text in lines))


def _draw_case(ax: Axes, why: Data, top: float, heights: Sequence[float]) -> None:
    """Names and importances of the features, and the values of the case."""
    x = _NAME + _BAR
    labels = {
        "": 0.4,
        "outcome": 1.4,
        "stands for": 3.0,
        "votes": 3.8,
        f"reliance, points of\n{_short(why['reliance_class'])}": 4.7,
    }
    for label, line in labels.items():
        ax.text(x + _CELL - 0.15, top + line, label, fontsize=7.5, color=QUIET, ha="right", va="center")
    ax.text(x + 0.1, top + 0.4, "the case", fontsize=9, weight="bold", color=INK, va="center")
    ax.text(_NAME, top + _HEAD - 0.3, "importance\n0                    1", fontsize=6.5, color=QUIET, va="center")
    y = top + _HEAD
    for feature, height in zip(why["features"], heights, strict=True):
        middle = y + height / 2
        name = wrapped(words.called(feature), _NAME_LETTERS)
        ax.text(_NAME - 0.15, middle, name, fontsize=8.5, color=INK, ha="right", va="center", linespacing=1.0)
        full = 0.85 * _BAR
        for length, color in ((1.0, "#dddddd"), (feature["importance"], ORANGE)):
            ax.add_patch(_box(_NAME, middle - 0.2, full * length, 0.4, facecolor=color, edgecolor="none"))
        low, high = feature["importance_interval"]
        ax.plot([_NAME + full * low, _NAME + full * high], [middle, middle], color=INK, linewidth=1)
        ax.add_patch(
            _box(x + 0.04, y + 0.05, _CELL - 0.08, height - 0.1, facecolor=PAPER, edgecolor=INK, linewidth=0.6)
        )
        text = wrapped(feature["value"], _LETTERS - 3)
        ax.text(x + 0.14, middle, text, fontsize=8, color=INK, va="center", linespacing=1.0)
        y += height


def _draw_exemplar(ax: Axes, why: Data, part: Data, x: float, top: float, heights: Sequence[float]) -> None:
    """One exemplar: who it is, its outcome, whom it stands for, and its values."""
    mark, color = ("✓", BLUE) if part["supports"] else ("✗", VERMILLION)
    ax.text(x + 0.1, top + 0.4, f"#{wrapped(part['id'], 14, 1)}", fontsize=9, weight="bold", color=INK, va="center")
    outcome = wrapped(f"{mark} {part['outcome']}", _LETTERS, 3)
    ax.text(x + 0.1, top + 0.95, outcome, fontsize=7.5, color=color, va="top", linespacing=1.1)
    ax.text(x + 0.1, top + 3.0, words.past_cases(part["stands_for"]), fontsize=7.5, color=INK, va="center")
    full = _CELL - 0.2
    for length, fill in ((1.0, "#dddddd"), (part["vote_share"], color)):
        ax.add_patch(_box(x + 0.1, top + 3.95, full * length, 0.22, facecolor=fill, edgecolor="none"))
    ax.text(x + 0.1, top + 3.65, words.percent(part["vote_share"]), fontsize=7.5, color=INK, va="center")
    ax.text(x + 0.1, top + 4.7, words.points(part["reliance"]), fontsize=7.5, color=INK, va="center")
    y = top + _HEAD
    for feature, height in zip(why["features"], heights, strict=True):
        patch = part["features"][feature["name"]]
        agrees, marked = patch["comparison"] in ("same", "close"), patch["marked"]
        if agrees:
            face, edge = (BLUE, BLUE) if marked else ("white", SKY)
            ax.add_patch(_box(x + 0.04, y + 0.05, _CELL - 0.08, height - 0.1, facecolor=face, edgecolor=edge))
        ink = "white" if marked else INK if agrees else QUIET
        weight = "bold" if marked else "normal"
        middle = y + height / 2
        ax.text(x + 0.12, middle, words.MARKS[patch["comparison"]], fontsize=7.5, color=ink, weight=weight, va="center")
        text = wrapped(patch["value"], _LETTERS - 3)
        ax.text(x + 0.36, middle, text, fontsize=7.5, color=ink, weight=weight, va="center", linespacing=1.0)
        y += height


def _draw_legend(ax: Axes, y: float, width: float) -> None:
    """What shading, bold and marks mean."""
    samples: list[tuple[dict[str, Any], str]] = [
        ({"facecolor": BLUE, "edgecolor": BLUE}, f"filled, bold: agrees; {words.STANDS_OUT}"),
        ({"facecolor": "white", "edgecolor": SKY}, f"= {words.LEGEND['same']}   ≈ {words.LEGEND['close']}"),
        ({"facecolor": "none", "edgecolor": "none"}, f"– {words.LEGEND['different']}   · {words.LEGEND['missing']}"),
    ]
    for k, (style, text) in enumerate(samples):
        ax.add_patch(_box(0.05, y + 0.8 * k, 0.5, 0.5, **style))
        ax.text(0.75, y + 0.8 * k + 0.25, text, fontsize=7.5, color=INK, va="center")
    said = "✓ supports the prediction   ✗ contradicts it\nbars: whole width is 100%; line: 5 to 95% of the posterior"
    ax.text(width, y + 0.8, said, fontsize=7.5, color=INK, va="center", ha="right")


def _short(text: str) -> str:
    return wrapped(text, 24, 1)


def _box(x: float, y: float, width: float, height: float, **style: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), width, height, **style)
