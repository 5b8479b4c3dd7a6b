"""Predictions for a worklist: one line per case, sorted by risk relative to the base rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from bayespatch.cli.estimators import Estimator
from bayespatch.decisions import DecisionThreshold, undecided
from bayespatch.types import JSONObject

if TYPE_CHECKING:
    from bayespatch.encode.table import DataFrame
    from bayespatch.estimator import PatchworkClassifier

CHUNK = 64  # cases predicted at a time


def worklist_of(
    model: Estimator,
    X: DataFrame,
    level: float,
    decision: DecisionThreshold | None = None,
    tell: Callable[[int, int, str], object] = lambda done, total, what: None,
) -> list[JSONObject]:
    """A JSON-ready record for each row, sorted by risk relative to the base rate, highest first.

    The risk refers to the class of the decision, or to the last of two classes. With more classes and no decision, it
    refers to the class whose probability is the largest multiple of its base rate.
    """
    from bayespatch.estimator import PatchworkClassifier

    if not isinstance(model, PatchworkClassifier):
        raise ValueError("--worklist is for classes, which this model does not predict; use --intervals")
    lines: list[JSONObject] = []
    for first in range(0, len(X), CHUNK):
        tell(first, len(X), "cases")
        lines += _lines(model, X.iloc[first : first + CHUNK], level, decision)
    tell(len(X), len(X), "cases")
    return sorted(lines, key=lambda line: -line["risk"]["ratio"])


def _lines(
    model: PatchworkClassifier, X: DataFrame, level: float, decision: DecisionThreshold | None
) -> Iterator[JSONObject]:
    """Worklist lines for a chunk of cases."""
    from bayespatch.explain.guards import guard_values

    fitted, named = model.fitted_, X.index.name is not None
    names = list(fitted.class_names)
    sizes = fitted.class_sizes()[1]
    base = sizes / sizes.sum()
    seen, encoded, texts = model.predict_all(X, level), fitted.schema.encode(X), fitted.schema.describe_rows(X)
    p, ends = seen.probabilities, seen.intervals
    assert ends is not None
    assert seen.closest is not None
    assert seen.closest_share is not None
    closest = fitted.past_cases(seen.closest)
    had = fitted.describe_outcomes(closest.y, None)
    open_ = undecided(p, ends, names, decision)
    place = names.index(decision.label) if decision is not None else 1 if len(names) == 2 else None
    for i, name in enumerate(X.index):
        best = int(p[i].argmax())
        at_risk = int((p[i] / base).argmax()) if place is None else place
        warned = guard_values(fitted.schema, encoded.values[i], texts[i], encoded.unseen[i], fitted.ranges)
        opinions = None if seen.opinions is None else {how: float(each[i, best]) for how, each in seen.opinions.items()}
        percentile = None if np.isnan(seen.percentiles[i]) else float(seen.percentiles[i])
        apart = 0.0
        if seen.opinions is not None:
            apart = float(np.abs(seen.opinions["precedents"][i] - seen.opinions["additive"][i]).max())
        yield {
            **({"id": str(name)} if named else {"row": int(name)}),
            "class": str(fitted.classes.tolist()[best]),
            "label": names[best],
            "probability": float(p[i, best]),
            "interval": ends[i, best].tolist(),
            "risk": {
                "label": names[at_risk],
                "probability": float(p[i, at_risk]),
                "interval": ends[i, at_risk].tolist(),
                "base": float(base[at_risk]),
                "ratio": float(p[i, at_risk] / base[at_risk]),
                "called": None if decision is None else bool(decision.called(p[i, at_risk])),
            },
            "undecided": bool(open_[i]),
            "opinions": opinions,
            "closest": {
                "id": str(seen.closest[i]) if closest.ids is None else closest.ids[i],
                "outcome": had[i],
                "vote_share": float(seen.closest_share[i]),
            },
            "precedent": percentile,
            "reasons": _reasons(percentile, apart, bool(warned), bool(open_[i])),
            "warnings": [guard.text for guard in warned],
        }


def _reasons(percentile: float | None, apart: float, is_warned: bool, is_undecided: bool) -> list[str]:
    """Reasons why a case deserves attention, most important first."""
    from bayespatch.estimator.explaining import QUANTILE
    from bayespatch.explain.words import DIFFER

    reasons = []
    if percentile is None or percentile <= QUANTILE:
        reasons.append("no adequate precedent")
    if apart >= DIFFER:
        reasons.append(f"opinions differ by {100 * apart:.0f} points")
    if is_warned:
        reasons.append("values to check")
    if is_undecided:
        reasons.append("undecided")
    return reasons


def flat_line(line: JSONObject) -> JSONObject:
    """A record as the cells of a CSV row."""
    both, risk, closest = line["opinions"] or {}, line["risk"], line["closest"]
    who: JSONObject = {name: line[name] for name in ("id", "row") if name in line}
    called = {} if risk["called"] is None else {"called": "yes" if risk["called"] else "no"}
    return {
        **who,
        "predicted": line["class"],
        "label": line["label"],
        "probability": line["probability"],
        "low": line["interval"][0],
        "high": line["interval"][1],
        "risk_of": risk["label"],
        "risk": risk["probability"],
        "times_base_rate": risk["ratio"],
        **called,
        "by_past_cases": both.get("precedents"),
        "by_risk_factors": both.get("additive"),
        "closest": closest["id"],
        "outcome_of_closest": closest["outcome"],
        "votes_of_closest": closest["vote_share"],
        "attention": "; ".join(line["reasons"]),
        "warnings": " ".join(line["warnings"]),
    }
