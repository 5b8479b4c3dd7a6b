"""Comparison of two versions of a patient: changed values, and their effect through each opinion."""

from __future__ import annotations

from collections.abc import Mapping

from bayespatch.dictionary import Dictionary, Value
from bayespatch.explain import words
from bayespatch.types import JSONMapping, JSONObject


def compare(
    dictionary: Dictionary,
    before: Mapping[str, Value],
    after: Mapping[str, Value],
    first: JSONMapping,
    now: JSONMapping,
) -> JSONObject:
    """The differences between two versions of a patient and between their explanations (`Explanation.to_dict`).

    Returns
    -------
    dict
        "values": label, before and after of each value that differs; "answers": the headlines; "classes": probability
        of each class before and after, and the shift; "opinions": the same for each opinion, for the class that all
        shifts refer to, with the points by which it changed the answer; "closest": the closest patients that are
        unchanged, removed and added; "warnings": the new warnings; "precedent": before and after.
    """
    name = words.focus(now)
    one, other = first["prediction"]["probabilities"], now["prediction"]["probabilities"]
    return {
        "class": name,
        "values": [
            {"label": entry.label or column, "before": entry.text(before[column]), "after": entry.text(after[column])}
            for column, entry in dictionary.entries.items()
            if before[column] != after[column]
        ],
        "answers": [words.headline(first), words.headline(now)],
        "classes": [
            {"name": label, "before": one[label], "after": p, "shift": p - one[label]} for label, p in other.items()
        ],
        "opinions": _opinions(first["opinions"], now["opinions"], name),
        "closest": _closest(first["neighbors"], now["neighbors"]),
        "warnings": [text for text in now["case"]["warnings"] if text not in first["case"]["warnings"]],
        "precedent": [first["precedent"], now["precedent"]],
        "error": now["prediction"]["error"],
    }


def _opinions(before: JSONMapping | None, after: JSONMapping | None, name: str) -> list[JSONObject]:
    """Each opinion before and after. The pool is a weighted mean, so the points add up to the shift of the answer."""
    if before is None or after is None:
        return []
    parts = (("precedents", 1.0 - after["weight"]), ("additive", after["weight"]))
    return [
        {
            "name": key,
            "before": before[key][name],
            "after": after[key][name],
            "shift": after[key][name] - before[key][name],
            "moved": share * (after[key][name] - before[key][name]),
        }
        for key, share in parts
    ]


def _closest(before: list[JSONObject], after: list[JSONObject]) -> dict[str, list[str]]:
    one, other = [part["id"] for part in before], [part["id"] for part in after]
    return {
        "unchanged": [id for id in one if id in other],
        "removed": [id for id in one if id not in other],
        "added": [id for id in other if id not in one],
    }
