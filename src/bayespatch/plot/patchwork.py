"""The answer about a case as a figure: groups of similar patients, points of the findings, the closest patients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from bayespatch.explain import Explanation, words
from bayespatch.plot.canvas import Inks, axes_of, finished, inks, wrapped
from bayespatch.types import JSONMapping

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Sizes in inches
_WIDTH, _MIDDLE = 10.0, 6.0  # width of the figure; where its right part begins
_LINE, _GAP = 0.165, 0.09  # height of a line of text, distance between rows
_LETTER = 0.074  # width of a letter
_BAR = 0.9  # length of the longest bar


def patchwork(explanation: Explanation | JSONMapping, ax: Axes | None = None) -> Figure:
    """Draw the answer about a case: the probability, groups of similar patients, findings, and closest patients.

    The bars of the groups show their weights. The bars of the findings show by how many percentage points each finding
    raises or lowers the answer, from all patients to this one. In the table, bold values are the same as the case's, or
    close. Colors follow matplotlib's style: ``with matplotlib.style.context("dark_background")`` draws a dark figure.

    Parameters
    ----------
    explanation : Explanation or dict
        The case, or the result of its `to_dict`.
    ax : Axes, optional
        Where to draw; by default in a new figure, sized to its content.

    Returns
    -------
    Figure
    """
    why: JSONMapping = explanation if isinstance(explanation, Mapping) else explanation.to_dict()
    if words.is_survival(why):
        raise ValueError("this is the explanation of a survival model; use plot.survival")
    notes = _wrapped_all(_notes(why), _WIDTH)
    groups, steps, table = _group_rows(why), _step_rows(why), _closest_rows(why)
    top = 0.5 + _height(notes) + 0.1
    reasons = (words.votes(why), words.opinions(why)) if why["case"]["known"]["n"] else (words.nothing_known(why),)
    foot = _wrapped_all([text for text in reasons if text], _WIDTH)
    middle = top + 0.28 + max(_height([row.text for row in groups]), _height([row.text for row in steps]), _LINE)
    below = middle + 0.06 + _height(foot) + 0.12
    height = below + (0.28 + sum(_table_height(row) for row in table) if table else 0.0)
    ax = axes_of(ax, _WIDTH + 0.4, height + 0.2)
    ax.set(xlim=(-0.1, _WIDTH + 0.1), ylim=(height, 0))
    ax.axis("off")
    pen = _Pen(ax, inks())
    pen.write(0, 0.13, words.headline(why), size=13, weight="bold", color=pen.inks.accent)
    base = words.base_rate(why)
    pen.write(0, 0.36, f"{words.title(why)}{f'. {base}' if base else ''}. {words.verdict(why)}.", color=pen.inks.quiet)
    y = 0.5
    for text in notes:
        y = pen.row(0, y, text, weight="bold", color=pen.inks.warning)
    if why["case"]["known"]["n"]:
        _draw_groups(pen, groups, top)
    _draw_steps(pen, steps, top, words.raises(why))
    y = middle + 0.06
    for text in foot:
        y = pen.row(0, y, text)
    _draw_closest(pen, table, below)
    return finished(ax)


class _GroupRow(NamedTuple):
    text: str
    share: float


class _StepRow(NamedTuple):
    text: str
    points: float | None  # None for the first and last rows, which show a total
    shown: str
    most: float


class _Cell(NamedTuple):
    text: str
    bold: bool


class _Pen(NamedTuple):
    """Writes and draws on axes in inches, with y pointing down."""

    ax: Axes
    inks: Inks

    def write(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 8.5,
        color: str | None = None,
        weight: str = "normal",
        ha: Literal["left", "right"] = "left",
        linespacing: float = 1.2,
    ) -> None:
        color = color or self.inks.ink
        self.ax.text(x, y, text, size=size, color=color, weight=weight, ha=ha, va="center", linespacing=linespacing)

    def row(self, x: float, y: float, text: str, *, color: str | None = None, weight: str = "normal") -> float:
        """Write lines of text below `y`, and return the y where they end."""
        end = y + _height([text])
        self.write(x, (y + end) / 2, text, color=color, weight=weight, linespacing=1.15)
        return end

    def bar(self, x: float, y: float, length: float, color: str) -> None:
        from matplotlib.patches import Rectangle

        self.ax.add_patch(Rectangle((x, y - 0.05), length, 0.1, facecolor=color, edgecolor="none"))


def _wrapped_all(texts: Sequence[str], width: float) -> list[str]:
    return [wrapped(text, int(width / _LETTER), 99) for text in texts]


def _height(texts: Sequence[str]) -> float:
    return sum(_LINE * (1 + text.count("\n")) + _GAP for text in texts)


def _notes(why: JSONMapping) -> list[str]:
    alerts = [] if why["precedent"]["adequate"] else [words.precedent(why)]
    failed = [check.text for check in words.checks(why) if not check.passed and check.text != words.NO_PRECEDENT]
    return [f"! {text}" for text in (*alerts, *failed, *words.warnings(why))]


def _group_rows(why: JSONMapping) -> list[_GroupRow]:
    if not why["case"]["known"]["n"]:
        return []
    letters = int((_MIDDLE - _BAR - 0.8) / _LETTER)
    return [
        _GroupRow(wrapped(": ".join(words.group(why, part)), letters, 99), part["vote_share"]) for part in why["groups"]
    ]


def _step_rows(why: JSONMapping) -> list[_StepRow]:
    steps = words.steps(why)
    if not steps:
        return []
    most = max(abs(step.points) for step in steps) or 1.0
    first, last = words.ends(why)
    letters = int((_WIDTH - _MIDDLE - 2 * _BAR - 0.6) / _LETTER)
    rows = [
        _StepRow(
            wrapped(step.text, letters, 99),
            step.points,
            words.step_points(why, step.points),
            most,
        )
        for step in steps
    ]
    return [_StepRow("all patients", None, first, most), *rows, _StepRow("this patient", None, last, most)]


def _closest_rows(why: JSONMapping) -> list[list[_Cell]]:
    """The rows of a table: its header, the case, and each of the closest patients."""
    features = words.compared(why)
    if not why["neighbors"] or not features:
        return []
    letters = _letters(len(features))
    head = ["patient, weight", "outcome", *(words.called(feature) for feature in features)]
    own = ["this patient", "", *(feature["value"] for feature in features)]
    rows = [[_Cell(wrapped(text, letters, 99), False) for text in head]]
    rows.append([_Cell(wrapped(text, letters, 99), True) for text in own])
    for part in why["neighbors"]:
        patches = [part["features"][feature["name"]] for feature in features]
        patient = [f"#{part['id']}, {words.percent(part['vote_share'])}", words.outcome(why, part["outcome"])]
        cells = [_Cell(wrapped(text, letters, 99), False) for text in patient]
        rows.append([*cells, *(_Cell(wrapped(patch["value"], letters, 99), patch["agrees"]) for patch in patches)])
    return rows


def _letters(n_features: int) -> int:
    return int(_WIDTH / (n_features + 2) / _LETTER) - 1


def _table_height(row: Sequence[_Cell]) -> float:
    return max(_height([cell.text]) for cell in row)


def _draw_groups(pen: _Pen, rows: Sequence[_GroupRow], y: float) -> None:
    pen.write(0, y + 0.1, "Similar patients in groups (bar: weight of the group)", weight="bold", size=9)
    y += 0.28
    if not rows:
        pen.row(0, y, "No past patient contributes to this prediction.")
    for row in rows:
        end = y + _height([row.text])
        middle = (y + end) / 2
        pen.bar(0, middle, _BAR, pen.inks.faint)
        pen.bar(0, middle, _BAR * row.share, pen.inks.accent)
        pen.write(_BAR + 0.4, middle, words.percent(row.share), ha="right")
        y = pen.row(_BAR + 0.5, y, row.text)


def _draw_steps(pen: _Pen, rows: Sequence[_StepRow], y: float, title: str) -> None:
    if not rows:
        return
    pen.write(_MIDDLE, y + 0.1, title, weight="bold", size=9)
    y += 0.28
    center = _WIDTH - _BAR - 0.5
    for row in rows:
        weight = "bold" if row.points is None else "normal"
        end = y + _height([row.text])
        middle = (y + end) / 2
        if row.points is not None:
            length = _BAR * row.points / row.most
            pen.bar(center, middle, length, pen.inks.accent if length > 0 else pen.inks.pale)
            pen.ax.plot([center, center], [y, end], color=pen.inks.ink, linewidth=0.7)
        pen.write(_WIDTH, middle, row.shown, ha="right", weight=weight)
        y = pen.row(_MIDDLE, y, row.text, weight=weight)


def _draw_closest(pen: _Pen, rows: Sequence[Sequence[_Cell]], y: float) -> None:
    if not rows:
        return
    pen.write(0, y + 0.1, "The closest patients (bold: same value, or close)", weight="bold", size=9)
    y += 0.28
    column = _WIDTH / len(rows[0])
    for k, row in enumerate(rows):
        height = _table_height(row)
        pen.ax.plot([0, _WIDTH], [y, y], color=pen.inks.pale, linewidth=0.5)
        for j, cell in enumerate(row):
            color = pen.inks.quiet if k == 0 or (k > 1 and j > 1 and not cell.bold) else pen.inks.ink
            weight = "bold" if cell.bold else "normal"
            pen.write(column * j, y + height / 2, cell.text, color=color, weight=weight, size=8, linespacing=1.15)
        y += height
