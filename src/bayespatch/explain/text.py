"""An explanation for a terminal: marks instead of colors, columns that fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import shorten, wrap
from typing import Any

from bayespatch.explain import words

_NARROWEST = 60
_OWN, _CELL, _LEAST = 18, 24, 12  # the widest value of the case, the widest and the narrowest cell of an exemplar
_LABELS = 10  # "stands for"
_NAME = 28  # the widest name of a feature
_COLUMNS = (
    "importance: of the feature for all cases, with its 90% interval; expl.: probability of the case's value given its "
    "neighbors; stands for: past cases in the exemplar's crowd; votes: their share of all votes; worth and reliance: "
    "points that the value (about) and the crowd add to the probability of"
)

Data = Mapping[str, Any]


def as_text(why: Data, width: int) -> str:
    """The whole explanation; exemplars that do not fit into the width go below the others."""
    if width < _NARROWEST:
        raise ValueError(f"width={width} is too narrow for a table; pass at least {_NARROWEST}")
    lines = [words.title(why), *wrap(words.headline(why), width), *wrap(words.prediction(why), width)]
    if not why["precedent"]["adequate"]:
        lines += ["", *_boxed(wrap(words.precedent(why), width - 4))]
    for warning in why["case"]["warnings"]:
        lines += wrap(f"! {warning}", width, subsequent_indent="  ")
    for text in (words.opinions(why), words.strongest_points(why)):
        lines += ["", *wrap(text, width)] if text else []
    lines += ["", *_classes(why, width), "", *wrap(words.votes(why), width)]
    lines += ["", *wrap("Exemplars: past cases that stand for those who vote, the most votes first", width)]
    shown = why["exemplars"]
    lines += ["", *_exemplars(why, shown, width)] if shown else ["  none"]
    notes = [words.vote_shares(why), words.what_counts(why), *words.caveats(why)]
    return "\n".join([*lines, "", *(line for note in notes for line in wrap(note, width, subsequent_indent="  "))])


def _exemplars(why: Data, shown: Sequence[Data], width: int) -> list[str]:
    """All exemplars beside the case, in as many tables as they need, and what the marks mean."""
    features = why["features"]
    own = min(_OWN, max([4, *(len(feature["value"]) for feature in features)]))
    name = min(width - own - 42, _NAME, max([_LABELS, *(len(words.called(feature)) for feature in features)]))
    room = width - name - own - 30
    longest = max([_LEAST, *(len(patch["value"]) + 3 for part in shown for patch in part["features"].values())])
    cell = max(_LEAST, min(room // min(4, len(shown)) - 1, longest, _CELL))
    per_row = max(1, room // (cell + 1))
    lines = []
    for first in range(0, len(shown), per_row):
        lines += [*_table(why, shown[first : first + per_row], name, own, cell), ""]
    for mark, meaning in words.legend().items():
        lines += wrap(f"{mark} {meaning}", width, initial_indent="  ", subsequent_indent="    ")
    return [*lines, *wrap(f"{_COLUMNS} {why['reliance_class']}", width, initial_indent="  ", subsequent_indent="  ")]


def _classes(why: Data, width: int) -> list[str]:
    """One line per class: probability, interval, votes, and, where there is room, who casts them."""
    said = why["prediction"]
    longest = min(width - 42, max(map(len, said["probabilities"])))
    lines = [f"  {'':<{longest}}  probability  {said['level']:.0%} interval  votes"]
    by_whom = [" = exemplars + others + base rates"]
    for name, p in said["probabilities"].items():
        by = why["tally"][name]
        lines.append(
            f"  {_cut(name, longest):<{longest}}  {words.percent(p):>11}  {words.interval(said['intervals'][name]):>12}"
            f"  {words.percent(said['votes'][name]):>5}"
        )
        by_whom.append(
            f" = {words.percent(by['exemplars']):>9} + {words.percent(by['others']):>6} + "
            f"{words.percent(by['base_rates']):>10}"
        )
    if len(lines[0]) + len(by_whom[0]) > width:
        return lines
    return [line + more for line, more in zip(lines, by_whom, strict=True)]


def _table(why: Data, exemplars: Sequence[Data], name: int, own: int, cell: int) -> list[str]:
    """Exemplars side by side: who they are, and feature by feature what they have in common with the case."""

    def line(label: str, cells: Sequence[str], value: str = "", numbers: Sequence[str] = ("", "", "")) -> str:
        left = (
            f"  {_cut(label, name):<{name}}  {_cut(value, own):<{own}} {numbers[0]:>13} {numbers[1]:>5} {numbers[2]:>5}"
        )
        return f"{left} {' '.join(f'{_cut(text, cell):<{cell}}' for text in cells)}".rstrip()

    outcomes = [wrap(part["outcome"], cell) or [""] for part in exemplars]
    lines = [line("", [f"#{part['id']}" for part in exemplars])]
    for k in range(max(map(len, outcomes))):
        lines.append(line("" if k else "outcome", [part[k] if k < len(part) else "" for part in outcomes]))
    lines += [
        line("", [words.stance(part) for part in exemplars]),
        line("stands for", [str(part["stands_for"]) for part in exemplars]),
        line("votes", [words.percent(part["vote_share"]) for part in exemplars]),
        line("reliance", [words.points(part["reliance"]) for part in exemplars]),
        line("feature", [], "case", ("importance", "expl.", "worth")),
    ]
    for feature in why["features"]:
        patches = [part["features"][feature["name"]] for part in exemplars]
        cells = [f"{words.marks(patch):<2} {patch['value']}" for patch in patches]
        low, high = feature["importance_interval"]
        numbers = (
            f"{feature['importance']:.2f} {low:.2f}-{high:.2f}".replace("0.", "."),
            words.percent(feature["explained"]),
            words.points(feature["worth"]),
        )
        lines.append(line(words.called(feature), cells, feature["value"], numbers))
    return lines


def _cut(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    return f"{text[: width - 1]}…" if " " not in text[:width] else shorten(text, width, placeholder="…")


def _boxed(lines: list[str]) -> list[str]:
    longest = max(map(len, lines))
    edge = f"+{'-' * (longest + 2)}+"
    return [edge, *(f"| {line:<{longest}} |" for line in lines), edge]
