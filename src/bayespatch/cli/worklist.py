"""Predictions for a worklist: one line a case, those that need attention first."""

from __future__ import annotations

from typing import Any

UNDECIDED = 0.65  # a largest probability below this is undecided
_VALUES = ("range", "unseen", "usual")  # warnings about single values


def worklist_of(model: Any, X: Any, level: float) -> list[dict[str, Any]]:
    """A record for each row, ready for JSON, in the order in which they deserve attention."""
    if not hasattr(model, "classes_"):
        raise ValueError("--worklist is for classes, and this model predicts a number; use --intervals")
    raw = dict(zip(model.class_names_, (str(value) for value in model.classes_.tolist()), strict=True))
    named = X.index.name is not None
    found = []
    for name, why in zip(X.index, model.explain_all(X, top=1, level=level), strict=True):
        line = _line(why.to_dict(), raw)
        found.append({**({"id": str(name)} if named else {"row": int(name)}), **line})
    return sorted(found, key=lambda line: (-len(line["reasons"]), line["probability"]))


def _line(why: dict[str, Any], raw: dict[str, str]) -> dict[str, Any]:
    """What a worklist says about one case."""
    said, both = why["prediction"], why["opinions"]
    name = said["class"]
    low, high = said["intervals"][name]
    closest = why["neighbors"][0] if why["neighbors"] else None
    return {
        "class": raw[name],
        "label": name,
        "probability": said["probabilities"][name],
        "interval": [low, high],
        "opinions": None if both is None else {how: both[how][name] for how in ("precedents", "additive")},
        "closest": None
        if closest is None
        else {"id": closest["id"], "outcome": closest["outcome"], "vote_share": closest["vote_share"]},
        "precedent": why["precedent"]["percentile"],
        "reasons": _reasons(why),
        "warnings": list(why["case"]["warnings"]),
    }


def _reasons(why: dict[str, Any]) -> list[str]:
    """Why a case deserves attention, the weightiest first."""
    from bayespatch.explain.words import DIFFER, percent

    said, both = why["prediction"], why["opinions"]
    found = []
    if not why["precedent"]["adequate"]:
        found.append("no adequate precedent")
    if both is not None and both["disagreement"] >= DIFFER:
        found.append(f"opinions differ by {100 * both['disagreement']:.0f} points")
    if any(kind in _VALUES for kind in why["case"]["warning_kinds"]):
        found.append("values to check")
    if said["probabilities"][said["class"]] < UNDECIDED:
        found.append(f"undecided, {percent(said['probabilities'][said['class']])}")
    return found


def flat_line(line: dict[str, Any]) -> dict[str, Any]:
    """A record as the cells of a line of CSV."""
    both, closest = line["opinions"] or {}, line["closest"] or {}
    who: dict[str, Any] = {name: line[name] for name in ("id", "row") if name in line}
    return {
        **who,
        "predicted": line["class"],
        "label": line["label"],
        "probability": line["probability"],
        "low": line["interval"][0],
        "high": line["interval"][1],
        "by_past_cases": both.get("precedents"),
        "by_risk_factors": both.get("additive"),
        "closest": closest.get("id"),
        "outcome_of_closest": closest.get("outcome"),
        "votes_of_closest": closest.get("vote_share"),
        "attention": "; ".join(line["reasons"]),
        "warnings": " ".join(line["warnings"]),
    }
