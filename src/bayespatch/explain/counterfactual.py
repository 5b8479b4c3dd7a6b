"""The smallest change of a case that would change its prediction.

Only values that past cases have are tried. Changes of one feature come first; where none is enough, those that come
closest are combined with others, a few at a time (beam search). Among changes of as many features the smallest counts:
a number is moved over a share of the past cases, a category by one whole step. Changes that leave the case without
an adequate precedent are a last resort.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.encode import MISSING_NUMBER, Schema
from bayespatch.explain import words
from bayespatch.explain.what_if import WhatIf

N_NUMBERS = 15  # values of a number that are tried: quantiles of the past cases' own
BEAM = 6  # changes that are gone on with where one feature is not enough

Values = dict[int, float]  # column -> one of the past cases' own values (`EncodedTable.values`)
# Changes of a case -> probabilities, (n, M), and percentiles of familiarity, (n,)
Judge = Callable[[Sequence[Values]], tuple[NDArray[np.float64], NDArray[np.float64]]]


class Change(NamedTuple):
    """A change that was tried.

    Attributes
    ----------
    values : dict
        Column -> its new value, as in `EncodedTable.values`.
    size : float
        How large it is: the sum over the features.
    p : float
        Probability of the wanted class, or of the most probable other class.
    label : int
        That class.
    reached : bool
        Whether this class is now the most probable one.
    familiar : bool
        Whether the changed case has an adequate precedent.
    """

    values: Values
    size: float
    p: float
    label: int
    reached: bool
    familiar: bool


@dataclass(frozen=True)
class Counterfactual:
    """What would have to be different for another prediction. It says what the model would say, not what would happen.

    Attributes
    ----------
    found : bool
        Whether a change of the allowed features changes the prediction; otherwise `what_if` has the one that comes
        closest.
    what_if : WhatIf
        The case as it is, and as it would be.
    changeable : tuple of str
        The features that were allowed to change.
    n_tried : int
        How many changes were tried.
    """

    found: bool
    what_if: WhatIf
    changeable: tuple[str, ...]
    n_tried: int

    @property
    def changes(self) -> dict[str, tuple[str, str]]:
        """Values that differ, {feature: (before, after)}."""
        return self.what_if.changes

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: what `WhatIf` says, and whether the prediction changes."""
        return {
            "found": self.found,
            "changeable": list(self.changeable),
            "n_tried": self.n_tried,
            "raw": {
                feature.name: feature.raw for feature in self.what_if.after.features if feature.name in self.changes
            },
            **self.what_if.to_dict(),
            "sentences": self.sentences(),
        }

    def sentences(self) -> list[str]:
        """What would have to be different, in words."""
        before, after = self.what_if.before, self.what_if.after
        called = {feature.name: feature.called for feature in before.features}
        changed = ", ".join(f"{called[name]} {new} instead of {old}" for name, (old, new) in self.changes.items())
        moved = (
            f"{after.predicted} with {words.percent(after.probabilities[after.predicted])} instead of "
            f"{before.predicted} with {words.percent(before.probabilities[before.predicted])}"
        )
        if self.found:
            said = [f"The smallest change that changes the prediction: {changed}. It would be {moved}."]
        elif not self.changes:
            said = [f"No change of {', '.join(map(called.__getitem__, self.changeable))} brings it closer."]
        else:
            name = before.predicted
            said = [
                f"No change of {', '.join(map(called.__getitem__, self.changeable))} to values of past cases changes "
                f"the prediction. The closest: {changed}; {name} would have {words.percent(after.probabilities[name])} "
                f"instead of {words.percent(before.probabilities[name])}."
            ]
        said.append(f"The changed case: {words.precedent(after.to_dict())}")
        if after.neighbors:
            closest = after.neighbors[0]
            said.append(f"Its closest patient: #{closest.id}, {words.outcome(after.to_dict(), closest.outcome)}.")
        said.append("This is what the model would say of such a case, not what a treatment would do.")
        return said

    def to_text(self, width: int = 120) -> str:
        """The sentences, and the explanation of the changed case."""
        return "\n".join([*self.sentences(), "", self.what_if.after.to_text(width)])

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(text)}</p>" for text in self.sentences())


def candidates(schema: Schema, j: int, own: float, values: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Other values of a feature that past cases, (n,), have, and how large a change each is.

    Examples
    --------
    >>> schema = Schema.learn([[1.0], [2.5], [4.0], [8.0]] * 5)
    >>> candidates(schema, 0, 2.5, np.array([1.0, 2.5, 4.0, 8.0] * 5))
    [(1.0, 0.25), (4.0, 0.25), (8.0, 0.5)]
    """
    column = schema.columns[j]
    known = values[np.isfinite(values) & (values > MISSING_NUMBER)]
    distinct = np.unique(known)
    if column.is_coded:
        distinct = distinct[distinct < len(column.values)]
    elif len(distinct) > N_NUMBERS:
        ordered = np.sort(known)
        distinct = np.unique(ordered[np.linspace(0, len(ordered) - 1, N_NUMBERS).round().astype(np.int64)])
    found = []
    for value in distinct.tolist():
        if value == own:
            continue
        if not np.isfinite(own) or own <= MISSING_NUMBER or column.kind == "categorical":
            size = 1.0
        elif column.kind == "ordinal":
            size = abs(value - own) / max(1, len(column.values) - 1)
        else:
            low, high = min(value, own), max(value, own)
            size = float(np.mean((known > low) & (known < high)) + np.mean(known == value))
        found.append((value, size))
    return found


def smallest_change(
    schema: Schema,
    own: NDArray[np.float64],
    values: NDArray[np.float64],
    changeable: Sequence[int],
    judge: Judge,
    *,
    predicted: int,
    wanted: int | None,
    most: int,
    quantile: float,
) -> tuple[list[Change], int]:
    """Changes that change the prediction, the smallest first, or else the one that comes closest; and how many tried.

    Parameters
    ----------
    schema : Schema
    own : array of shape (P,)
        The case, as `EncodedTable.values`.
    values : array of shape (n, P)
        Past cases, whose values may be taken.
    changeable : columns
    judge : function
        What the model says of changed cases.
    predicted : int
        The class that is predicted now.
    wanted : int, optional
        The class to reach; None: any other.
    most : int
        Features that may change at the same time.
    quantile : float
        Of the familiarity at which a precedent is adequate.
    """
    single = {j: candidates(schema, j, float(own[j]), values[:, j]) for j in changeable}
    sizes = {(j, value): size for j, found in single.items() for value, size in found}
    beam: list[Values] = [{}]
    seen: set[tuple[tuple[int, float], ...]] = set()
    closest: list[Change] = []
    for _ in range(min(most, len(changeable))):
        tried: list[Values] = []
        for start in beam:
            for (j, value), _size in sizes.items():
                new = {**start, j: value}
                key = tuple(sorted(new.items()))
                if j not in start and key not in seen:
                    seen.add(key)
                    tried.append(new)
        if not tried:
            break
        probabilities, percentiles = judge(tried)
        level = []
        for change, p, familiar in zip(tried, probabilities, percentiles > quantile, strict=True):
            others = np.delete(np.arange(len(p)), predicted)
            label = int(others[p[others].argmax()]) if wanted is None else wanted
            size = sum(sizes[part] for part in change.items())
            level.append(Change(change, size, float(p[label]), label, int(p.argmax()) == label, bool(familiar)))
        reached = [change for change in level if change.reached]
        if reached:
            return sorted(reached, key=lambda change: (not change.familiar, change.size, -change.p)), len(seen)
        level.sort(key=lambda change: -change.p)
        closest = sorted([*closest, *level[:1]], key=lambda change: -change.p)
        beam = [change.values for change in level[:BEAM]]
    return closest[:1], len(seen)
