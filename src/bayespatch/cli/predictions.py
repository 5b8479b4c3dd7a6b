"""Predictions as plain data, and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bayespatch.cli.terminal import visible
from bayespatch.decisions import Decision, undecided
from bayespatch.source.cells import is_formula


def predictions(
    model: Any,
    X: Any,
    *,
    intervals: bool = False,
    votes: bool = False,
    level: float = 0.9,
    abstain: bool = False,
    decision: Decision | None = None,
) -> list[dict[str, Any]]:
    """A record for each row, ready for JSON; its keys are those of an explanation's "prediction".

    Where the model abstains, the record has all its keys and nothing but None behind them. With a decision, "called"
    has the name of its class where that is called, and otherwise is empty; "undecided" says whether the interval of its
    probability includes the threshold.
    """
    from bayespatch.estimator.explaining import QUANTILE

    ids = [{"id": str(name)} if X.index.name is not None else {"row": int(name)} for name in X.index]
    found: list[dict[str, Any]]
    if hasattr(model, "predict_survival_function"):
        for name, wanted in {"--votes": votes, "--abstain": abstain}.items():
            if wanted:
                raise ValueError(f"{name} is for classes, but this model predicts times; remove it")
        found = _times(model, X, level if intervals else None)
        return [{**who, **one} for who, one in zip(ids, found, strict=True)]
    if not hasattr(model, "classes_"):
        for name, wanted in {"--votes": votes, "--abstain": abstain}.items():
            if wanted:
                raise ValueError(f"{name} is for classes, but this model predicts a number; remove it")
        numbers = model.predict_all(X, level if intervals else None)
        found = [{"predicted": float(value)} for value in numbers.means]
        if intervals:
            found = [{**one, "interval": pair} for one, pair in zip(found, numbers.intervals.tolist(), strict=True)]
        return [{**who, **one} for who, one in zip(ids, found, strict=True)]
    names = [str(label) for label in model.classes_]
    seen = model.predict_all(X, level if intervals or decision is not None else None)
    labels = dict(zip(names, model.class_names_, strict=True)) if tuple(names) != model.class_names_ else {}
    found = [
        {
            "class": names[row.argmax()],
            **({"label": labels[names[row.argmax()]]} if labels else {}),
            "probabilities": dict(zip(names, row.tolist(), strict=True)),
        }
        for row in seen.probabilities
    ]
    more: dict[str, Any] = {}
    if intervals:
        more["intervals"] = seen.intervals.tolist()
    if votes:
        more["votes"] = seen.votes.tolist()
    if decision is not None:
        is_called = decision.called(seen.probabilities[:, model.class_names_.index(decision.label)])
        open_ = undecided(seen.probabilities, seen.intervals, model.class_names_, decision)
        for one, called, is_open in zip(found, is_called.tolist(), open_.tolist(), strict=True):
            one |= {"called": decision.label if called else "", "undecided": is_open}
    for i, one in enumerate(found):
        one |= {name: dict(zip(names, rows[i], strict=True)) for name, rows in more.items()}
    if abstain:
        refused = ~(seen.percentiles > QUANTILE)
        found = [_empty(one) if without else one for one, without in zip(found, refused.tolist(), strict=True)]
    return [{**who, **one} for who, one in zip(ids, found, strict=True)]


def _times(model: Any, X: Any, level: float | None) -> list[dict[str, Any]]:
    """Risk, median time and the probability to be event-free at round times, of each row."""
    from bayespatch.follow_up import round_times  # slow to import

    at = round_times(float(model.unique_times_[-1]))
    names = [f"{time:g}" for time in at]
    curves = model.predict_survival_function(X)
    found: list[dict[str, Any]] = []
    for risk, median, curve in zip(model.predict(X).tolist(), model.predict_median(X).tolist(), curves, strict=True):
        free = dict(zip(names, curve(at).tolist(), strict=True))
        found.append({"risk": risk, "median": None if math.isnan(median) else median, "event_free": free})
    if level is not None:
        for one, ends in zip(found, model.predict_survival_interval(X, at, level).tolist(), strict=True):
            one["intervals"] = dict(zip(names, ends, strict=True))
    return found


def _empty(value: Any) -> Any:
    """The same, with None for every text and number."""
    if isinstance(value, dict):
        return {name: _empty(part) for name, part in value.items()}
    return [_empty(part) for part in value] if isinstance(value, list) else None


def as_csv(found: Sequence[dict[str, Any]], named: str | None = None, raw: bool = False) -> str:
    """The records as lines; a column of identifiers keeps its name.

    Texts that a spreadsheet would take for a formula begin with an apostrophe, and characters that cannot be seen are
    escapes, unless the `raw` texts are asked for.

    >>> print(as_csv([{"row": 0, "class": "yes", "probabilities": {"no": 0.25, "yes": 0.75}}]), end="")
    row,predicted,probability_no,probability_yes
    0,yes,0.25,0.75
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rows = [dict(flat(one)) for one in found]
    cell: Callable[[str], str] = str if raw else _cell
    writer.writerow([cell(named if named and name == "id" else name) for name in rows[0]])
    for row in rows:
        values = [f"{value:.6g}" if isinstance(value, float) else value for value in row.values()]
        writer.writerow([cell(value) if isinstance(value, str) else value for value in values])
    return text.getvalue()


def _cell(text: str) -> str:
    """A text that is one for a spreadsheet, too.

    >>> _cell("=HYPERLINK(1)"), _cell("-5"), _cell("a-b")
    ("'=HYPERLINK(1)", '-5', 'a-b')
    """
    seen = visible(text).replace("\n", r"\n")
    return f"'{seen}" if is_formula(text) else seen


def flat(one: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """A record as the cells of a line: names and values."""
    for name, value in one.items():
        if name == "class":
            yield "predicted", value
        elif name == "interval":
            yield from zip(("low", "high"), value, strict=True)
        elif name == "intervals":
            for label, (low, high) in value.items():
                yield f"low_{label}", low
                yield f"high_{label}", high
        elif name == "event_free":
            yield from ((f"event_free_at_{time}", share) for time, share in value.items())
        elif name in ("probabilities", "votes"):
            word = "probability" if name == "probabilities" else name
            yield from ((f"{word}_{label}", share) for label, share in value.items())
        else:
            yield name, value
