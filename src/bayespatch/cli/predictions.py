"""Predictions as plain data, and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from bayespatch.cli.estimators import Estimator
from bayespatch.cli.terminal import visible
from bayespatch.decisions import DecisionThreshold, undecided
from bayespatch.source.cells import is_formula
from bayespatch.types import JSONObject, Parameters

if TYPE_CHECKING:
    from bayespatch.encode.table import DataFrame
    from bayespatch.estimator import PatchworkClassifier, PatchworkRegressor, PatchworkSurvival


def predictions(
    model: Estimator,
    X: DataFrame,
    *,
    intervals: bool = False,
    votes: bool = False,
    level: float = 0.9,
    abstain: bool = False,
    decision: DecisionThreshold | None = None,
    at: Sequence[float] = (),
) -> list[JSONObject]:
    """A JSON-ready record for each row, with the keys of an explanation's "prediction".

    If the model abstains, all values of the record are None. With a decision, "called" is the name of its class if that
    is flagged, otherwise empty; "undecided" states whether the interval of its probability includes the threshold.
    """
    from bayespatch.estimator import PatchworkClassifier, PatchworkSurvival

    if at and not isinstance(model, PatchworkSurvival):
        raise ValueError("--at applies to survival models; remove it")
    ids = [{"id": str(name)} if X.index.name is not None else {"row": int(name)} for name in X.index]
    records: list[JSONObject]
    if isinstance(model, PatchworkClassifier):
        records = _classes(model, X, intervals, votes, level, abstain, decision)
    else:
        kind = "times" if isinstance(model, PatchworkSurvival) else "a number"
        for name, wanted in {"--votes": votes, "--abstain": abstain}.items():
            if wanted:
                raise ValueError(f"{name} is for classes, but this model predicts {kind}; remove it")
        wanted_level = level if intervals else None
        if isinstance(model, PatchworkSurvival):
            records = _times(model, X, wanted_level, at)
        else:
            records = _numbers(model, X, wanted_level)
    return [{**identity, **one} for identity, one in zip(ids, records, strict=True)]


def _classes(
    model: PatchworkClassifier,
    X: DataFrame,
    intervals: bool,
    votes: bool,
    level: float,
    abstain: bool,
    decision: DecisionThreshold | None,
) -> list[JSONObject]:
    """Class and probabilities of each row, with intervals, votes and flags as requested."""
    from bayespatch.estimator.explaining import QUANTILE

    names = [str(label) for label in model.classes_]
    seen = model.predict_all(X, level if intervals or decision is not None else None)
    labels = dict(zip(names, model.class_names_, strict=True)) if tuple(names) != model.class_names_ else {}
    records: list[JSONObject] = [
        {
            "class": names[row.argmax()],
            **({"label": labels[names[row.argmax()]]} if labels else {}),
            "probabilities": dict(zip(names, row.tolist(), strict=True)),
        }
        for row in seen.probabilities
    ]
    more: Parameters = {}
    if intervals and seen.intervals is not None:
        more["intervals"] = seen.intervals.tolist()
    if votes:
        more["votes"] = seen.votes.tolist()
    if decision is not None and seen.intervals is not None:
        is_called = decision.called(seen.probabilities[:, model.class_names_.index(decision.label)])
        open_ = undecided(seen.probabilities, seen.intervals, model.class_names_, decision)
        for one, called, is_open in zip(records, is_called.tolist(), open_.tolist(), strict=True):
            one |= {"called": decision.label if called else "", "undecided": is_open}
    for i, one in enumerate(records):
        one |= {name: dict(zip(names, rows[i], strict=True)) for name, rows in more.items()}
    if abstain:
        refused = ~(seen.percentiles > QUANTILE)
        records = [_emptied(one) if without else one for one, without in zip(records, refused.tolist(), strict=True)]
    return records


def _numbers(model: PatchworkRegressor, X: DataFrame, level: float | None) -> list[JSONObject]:
    """The predicted mean of each row, with its interval if a level is given."""
    seen = model.predict_all(X, level)
    records: list[JSONObject] = [{"predicted": float(value)} for value in seen.means]
    if seen.intervals is not None:
        for one, ends in zip(records, seen.intervals.tolist(), strict=True):
            one["interval"] = ends
    return records


def _times(model: PatchworkSurvival, X: DataFrame, level: float | None, times: Sequence[float]) -> list[JSONObject]:
    """Risk, median time and the probability of being event-free at some times (by default, round ones), of each row."""
    from bayespatch.estimator.survival import read_at
    from bayespatch.follow_up import round_times  # slow to import

    at = read_at(sorted(set(times)), model.fitted_).tolist() if times else round_times(float(model.unique_times_[-1]))
    names = [f"{time:g}" for time in at]
    curves = model.predict_survival_function(X)
    records: list[JSONObject] = []
    for risk, median, curve in zip(model.predict(X).tolist(), model.predict_median(X).tolist(), curves, strict=True):
        free = dict(zip(names, curve(at).tolist(), strict=True))
        records.append({"risk": risk, "median": None if math.isnan(median) else median, "event_free": free})
    if level is not None:
        for one, ends in zip(records, model.predict_survival_interval(X, at, level).tolist(), strict=True):
            one["intervals"] = dict(zip(names, ends, strict=True))
    return records


def _emptied(one: JSONObject) -> JSONObject:
    """The same record, with every text and number replaced by None."""
    return {name: _empty(part) for name, part in one.items()}


def _empty(value: object) -> object:
    if isinstance(value, dict):
        return _emptied(value)
    return [_empty(part) for part in value] if isinstance(value, list) else None


def as_csv(records: Sequence[JSONObject], named: str | None = None, raw: bool = False) -> str:
    """The records as CSV rows; a column of identifiers keeps its name.

    Text that a spreadsheet would run as a formula is prefixed with an apostrophe, and invisible characters are escaped,
    unless `raw`.

    >>> print(as_csv([{"row": 0, "class": "yes", "probabilities": {"no": 0.25, "yes": 0.75}}]), end="")
    row,predicted,probability_no,probability_yes
    0,yes,0.25,0.75
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rows = [dict(flat(one)) for one in records]
    cell: Callable[[str], str] = str if raw else _cell
    writer.writerow([cell(named if named and name == "id" else name) for name in rows[0]])
    for row in rows:
        values = [f"{value:.6g}" if isinstance(value, float) else value for value in row.values()]
        writer.writerow([cell(value) if isinstance(value, str) else value for value in values])
    return text.getvalue()


def _cell(text: str) -> str:
    """Escape text that a spreadsheet would run as a formula.

    >>> _cell("=HYPERLINK(1)"), _cell("-5"), _cell("a-b")
    ("'=HYPERLINK(1)", '-5', 'a-b')
    """
    seen = visible(text).replace("\n", r"\n")
    return f"'{seen}" if is_formula(text) else seen


def flat(one: JSONObject) -> Iterator[tuple[str, object]]:
    """A record as the cells of a CSV row: names and values."""
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
