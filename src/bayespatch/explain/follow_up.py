"""Outcomes of similar patients, as text and as the points of a curve, for all renderings.

Most functions take a summary from `FollowUp.summaries`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from bayespatch.explain.words import interval, percent, sentence
from bayespatch.language import count, decimal, gettext, stored_text
from bayespatch.types import JSONMapping

WIDTH, HEIGHT = 320.0, 120.0  # size of a survival curve
MOST_LEVELS = 3  # most levels of a category named in a table cell


def title(name: str, summary: JSONMapping) -> str:
    """Display name of a column: ``days (time to death)``."""
    called = str(summary["label"] or name)
    if "event" not in summary or summary["event"] == name:
        return called
    return gettext("{column} (time to {event})", column=called, event=summary["event"])


def number(value: float) -> str:
    """A number with three significant digits.

    >>> number(1814.0), number(4.256)
    ('1814', '4.26')
    """
    return decimal(f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}")


def with_unit(text: str, summary: JSONMapping) -> str:
    """``6 days``."""
    return f"{text} {summary['unit']}".rstrip()


def basis(summary: JSONMapping) -> str:
    """The number of past patients in a summary, in words."""
    return gettext(
        "{n} past patients, weighted by similarity (effective number {effective})",
        n=count(summary["n"]),
        effective=decimal(f"{summary['effective']:.0f}"),
    )


def median(summary: JSONMapping, most: bool = True) -> str:
    """``median 6 days (90% interval 5 to 8)``."""
    ends = summary["median"]
    if ends["value"] is None:
        if ends["low"] is None:
            return gettext("median not reached")
        return gettext("median not reached (above {low})", low=number(ends["low"]))
    high = gettext("not reached") if ends["high"] is None else number(ends["high"])
    figures = {
        "median": with_unit(number(ends["value"]), summary),
        "low": number(ends["low"]) if ends["low"] is not None else "0",
        "high": high,
    }
    if most:
        return gettext("median {median} ({level} interval {low} to {high})", level=percent(summary["level"]), **figures)
    return gettext("median {median} ({low} to {high})", **figures)


def sentences(summary: JSONMapping) -> Iterator[str]:
    """A summary as sentences, shown next to tables and curves."""
    if summary["suppressed"]:
        yield gettext("Not shown: {reason}.", reason=stored_text(summary["suppressed"]))
        return
    if summary["kind"] == "number":
        low, high = map(number, summary["quartiles"])
        figures = {"median": median(summary), "low": low, "high": high}
        yield sentence(gettext("{median}; interquartile range {low} to {high}.", **figures))
        everybody = with_unit(number(summary["population"]["median"]), summary)
        yield gettext("All past patients: median {median}.", median=everybody)
    if summary["kind"] == "time":
        yield f"{sentence(median(summary))}."
    yield f"{basis(summary)}."


def brief(summary: JSONMapping | None, label: str | None = None) -> str:
    """A summary for a table cell; for a category with the level `label`, only the share of that level."""
    if summary is None:
        return ""
    if summary["suppressed"]:
        return gettext("not shown: too few")
    if summary["kind"] == "number":
        return median(summary, most=False)
    if summary["kind"] == "time":
        marks = summary["landmarks"]
        if not marks:
            reached = summary["median"]["value"] is not None
            return median(summary, most=False) if reached else gettext("not shown: too few")
        one = marks[(len(marks) - 1) // 2]
        when = with_unit(number(one["time"]), summary)
        return gettext(
            "{share} event-free at {time} ({ends})",
            share=percent(one["survival"]),
            time=when,
            ends=interval((one["low"], one["high"])),
        )
    shares = [one for one in summary["shares"] if one["value"] == label] or summary["shares"][:MOST_LEVELS]
    return ", ".join(
        f"{one['value']} {percent(one['share'])} ({interval((one['low'], one['high']))})" for one in shares
    )


def treatment_columns(summary: JSONMapping) -> list[str]:
    """Names of the follow-up columns shown for each treatment."""
    return next((list(one["follow_up"]) for one in summary["treatments"] if one["follow_up"]), [])


def treatment_cells(row: JSONMapping, columns: Sequence[str], label: str | None) -> list[str]:
    """Cells of one treatment: who received it, the outcome, and each of the columns."""
    received = f"{percent(row['share'])} ({interval((row['low'], row['high']))})"
    if row["suppressed"]:
        reason = gettext("not shown: {reason}", reason=stored_text(row["suppressed"]))
        return [received, reason, *[""] * len(columns)]
    cells = [brief(row["outcome"], label), *(brief(row["follow_up"].get(name)) for name in columns)]
    return [received, *cells]


def curve_points(summary: JSONMapping) -> dict[str, str]:
    """Points of a survival curve in a box of `WIDTH` x `HEIGHT`: "survival", "population" and "band"."""
    curve = summary["curve"]
    end = curve["times"][-1] or 1.0

    def steps(values: Sequence[float]) -> list[tuple[float, float]]:
        at = [(WIDTH * t / end, HEIGHT * (1.0 - p)) for t, p in zip(curve["times"], values, strict=True)]
        corners = at[:1]
        for (_, before), (x, y) in pairwise(at):
            corners += [(x, before), (x, y)]
        return corners

    def text(points: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)

    return {
        "survival": text(steps(curve["survival"])),
        "population": text(steps(curve["population"])),
        "band": text([*steps(curve["low"]), *reversed(steps(curve["high"]))]),
    }


def as_text(summaries: Mapping[str, JSONMapping], label: str | None) -> Iterator[str]:
    """All summaries, for a terminal."""
    yield "What happened to similar patients:"
    for name, summary in summaries.items():
        yield f"  {title(name, summary)}: {' '.join(sentences(summary))}"
        if summary["suppressed"]:
            continue
        if summary["kind"] == "category":
            for one in summary["shares"]:
                ends = interval((one["low"], one["high"]))
                yield f"    {percent(one['share'])} {one['value']} ({ends}); {percent(one['population'])} of all"
        for one in summary.get("landmarks", ()):
            when, ends = with_unit(number(one["time"]), summary), interval((one["low"], one["high"]))
            yield f"    at {when} {percent(one['survival'])} event-free ({ends}); at risk {one['at_risk']:.0f}"
        if summary["kind"] == "treatment":
            yield f"    {summary['note']}"
            columns = treatment_columns(summary)
            for row in summary["treatments"]:
                received, *cells = treatment_cells(row, columns, label)
                names = [title(column, summaries[column]) for column in columns]
                texts = [cells[0], *(f"{name} {cell}" for name, cell in zip(names, cells[1:], strict=True) if cell)]
                yield f"    {row['treatment']}: given to {received}; {'; '.join(text for text in texts if text)}"
