"""An explanation for a terminal: marks instead of colors, columns that fit."""

from __future__ import annotations

from collections.abc import Sequence

from bayespatch.explain import words
from bayespatch.explain.parts import Findings, Neighbor

_NARROWEST = 60
_OWN, _CELL, _LEAST = 18, 24, 12  # the widest value of the case, the widest and the narrowest cell of a neighbor
_SIDE_BY_SIDE = 4  # neighbors, where they fit
_LABELS = 9  # "influence"
_COLUMNS = (
    "import.: importance of the feature for all cases; expl.: probability of the case's value given the past; "
    "votes: share of all votes; reliance: points that the probability would lose without this past case"
)


def as_text(why: Findings, width: int) -> str:
    """The whole explanation; neighbors that do not fit into the width go below the others."""
    if width < _NARROWEST:
        raise ValueError(f"width={width} is too narrow for a table; pass at least {_NARROWEST}")
    lines = [words.title(why), *_wrapped(words.prediction(why), width)]
    if not why.precedent.adequate:
        lines += ["", *_boxed(_wrapped(words.precedent(why), width - 4))]
    lines += ["", *_classes(why), "", "The past cases that speak on it, the most influential first"]
    shown = why.shown
    if not shown:
        lines.append("  none")
    own = min(_OWN, max([4, *(len(feature.value) for feature in why.features)]))
    name = max([_LABELS, *(len(feature.name) for feature in why.features)])
    room = width - name - own - 18
    longest = max([_LEAST, *(len(text) + 2 for neighbor in shown for text in _texts(neighbor))])
    cell = max(_LEAST, min(room // max(1, min(_SIDE_BY_SIDE, len(shown))) - 1, longest, _CELL))
    per_row = max(1, room // (cell + 1))
    for first in range(0, len(shown), per_row):
        lines += ["", *_table(why, shown[first : first + per_row], name, own, cell)]
    lines += ["", *(f"  {words.MARKS[state]} {meaning}" for state, meaning in words.LEGEND.items())]
    lines += [f"  {line}" for line in _wrapped(_COLUMNS, width - 2)]
    notes = [words.vote_shares(why), words.reliance(why), words.stability(why)]
    if why.precedent.adequate:
        notes.insert(0, words.precedent(why))
    notes += [note] if (note := words.unseen(why)) else []
    return "\n".join([*lines, "", *(line for note in notes for line in _wrapped(note, width))])


def _classes(why: Findings) -> list[str]:
    """One line per class: probability, interval, votes."""
    longest = max(map(len, why.probabilities))
    head = f"  {'':<{longest}}  probability  {why.level:.0%} interval   votes"
    rows = [
        f"  {name:<{longest}}  {words.percent(p):>11}  {words.interval(why.intervals[name]):>12}"
        f"  {words.percent(why.votes[name]):>6}"
        for name, p in why.probabilities.items()
    ]
    return [head, *rows]


def _table(why: Findings, neighbors: Sequence[Neighbor], name: int, own: int, cell: int) -> list[str]:
    """The neighbors side by side: who they are, and feature by feature what they have in common with the case."""

    def line(label: str, cells: Sequence[str], value: str = "", importance: str = "", explained: str = "") -> str:
        left = f"  {label:<{name}}  {_cut(value, own):<{own}} {importance:>7} {explained:>5}"
        return f"{left} {' '.join(f'{_cut(text, cell):<{cell}}' for text in cells)}".rstrip()

    outcomes = [_wrapped(n.outcome, cell) for n in neighbors]
    lines = [line("", [f"#{n.id}" for n in neighbors])]
    for k in range(max(map(len, outcomes))):
        lines.append(line("" if k else "outcome", [part[k] if k < len(part) else "" for part in outcomes]))
    lines += [
        line("speaks", [words.stance(n) for n in neighbors]),
        line("neighbor", [words.percent(n.probability) for n in neighbors]),
        line("influence", [f"{n.influence:.2f}" for n in neighbors]),
        line("votes", [words.percent(n.vote_share) for n in neighbors]),
        line("reliance", [words.points(n.reliance) for n in neighbors]),
        line("feature", [], "case", "import.", "expl."),
    ]
    for feature in why.features:
        patches = [n.features[feature.name] for n in neighbors]
        cells = [f"{words.MARKS[words.state(patch)]} {patch.value}" for patch in patches]
        numbers = f"{feature.importance:.2f}", words.percent(feature.explained)
        lines.append(line(feature.name, cells, feature.value, *numbers))
    return lines


def _texts(neighbor: Neighbor) -> list[str]:
    return [patch.value for patch in neighbor.features.values()]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _wrapped(text: str, width: int) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return [*lines, line]


def _boxed(lines: list[str]) -> list[str]:
    longest = max(map(len, lines))
    edge = f"+{'-' * (longest + 2)}+"
    return [edge, *(f"| {line:<{longest}} |" for line in lines), edge]
