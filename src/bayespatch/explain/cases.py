"""What explanations are made from, in the user's words: the past cases, the cases to explain, the second opinion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.calibrate import Calibration
from bayespatch.encode import Schema, describe_values
from bayespatch.explain import guards
from bayespatch.explain.subgroups import Subgroups
from bayespatch.metrics import accuracy
from bayespatch.pool import Pool


@dataclass(frozen=True, eq=False)
class TrainingCases:
    """What is known of the past cases, in the user's words.

    Attributes
    ----------
    schema : Schema
    x, values : arrays of shape (n, P)
        The training table as codes, and as `EncodedTable.values`.
    y : int array of shape (n,)
        Its classes.
    ids : sequence of n texts, or None
        What its rows are called; None: their numbers.
    outcomes : sequence of n texts
        Their outcomes.
    parents : int array of shape (S,)
        Which rows are parents.
    classes : tuple of M texts
        What the classes are called.
    counts : int array of shape (M,)
        How many past cases each has.
    target : str
        What the outcome is called.
    calibration : Calibration
    familiarity : array
        Of past cases, each predicted from the others.
    rows, votes, probabilities : arrays of shape (R,), (R, M) and (R, M)
        Past cases that were predicted from all others (leave-one-out), the votes on them, and their probabilities.
    about : dict
        The model.
    read_number : function, optional
        Where the outcome is a number: from shares of the votes of the parents, (n, S), and a level to mean, lower and
        upper end, (n, 3).
    """

    schema: Schema
    x: NDArray[np.float64]
    values: NDArray[np.float64]
    y: NDArray[np.int64]
    ids: Sequence[str] | None
    outcomes: Sequence[str]
    parents: NDArray[np.int64]
    classes: tuple[str, ...]
    counts: NDArray[np.int64]
    target: str
    calibration: Calibration
    familiarity: NDArray[np.float64]
    rows: NDArray[np.int64]
    votes: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    about: dict[str, Any]
    read_number: Callable[[NDArray[np.float32], float], NDArray[np.float64]] | None = None

    def percentile(self, familiarity: NDArray[np.float64]) -> NDArray[np.float64]:
        """Share of past cases no more familiar than each of these, the case itself counted among them.

        Under exchangeability a case has a percentile of at most u with probability at most u.
        """
        ordered = np.sort(self.familiarity)
        n_below = np.searchsorted(ordered, familiarity, side="right").astype(np.float64)
        return (1.0 + n_below) / (1.0 + len(ordered))

    def named(self, row: int) -> str:
        """What a row of the training table is called."""
        return str(row) if self.ids is None else self.ids[row]

    def may_be_shown(self, row: int) -> bool:
        """Whether a row of the training table may be named or shown: only the parents may."""
        return bool(np.isin(row, self.parents))

    @cached_property
    def ranges(self) -> NDArray[np.float64]:
        """Smallest and largest number of each column, (P, 2)."""
        return guards.ranges(self.schema, self.values)

    @cached_property
    def subgroups(self) -> Subgroups:
        """Subgroups of the past cases that were predicted from all others."""
        flagged = np.zeros(len(self.rows), dtype=np.bool_)
        x, values, y = self.x[self.rows], self.values[self.rows], self.y[self.rows]
        return Subgroups.learn(self.schema, x, values, self.probabilities, y, self.classes, flagged)

    @cached_property
    def accuracy(self) -> float:
        """Share of the past cases that were predicted rightly from all others."""
        return accuracy(self.probabilities, self.y[self.rows])

    def texts_of(self, row: int) -> dict[str, str]:
        """The values of a row of the training table as texts, {feature: text}; each row is put into words once."""
        if row not in self._texts:
            self._texts[row] = describe_values(self.schema, self.values[row])
        return self._texts[row]

    @cached_property
    def _texts(self) -> dict[int, dict[str, str]]:
        return {}

    def rows_of(self, cases: CaseTexts) -> NDArray[np.int64]:
        """Which row of the training table each case is itself, (n,); -1: none."""
        found = [self.is_past_case(values, cases.named(row)) for row, values in enumerate(cases.values)]
        return np.array(found, dtype=np.int64)

    def is_past_case(self, values: NDArray[np.float64], id: str | None) -> int:
        """The row of the training table that a case, (P,), is: all values are equal, and its name too; -1: none.

        A case without a name is taken for the one past case that has the same values; where several have, it may be
        anybody.
        """
        same = np.all((self.values == values) | (np.isnan(self.values) & np.isnan(values)), axis=1)
        rows = np.flatnonzero(same).tolist()
        if id is None:
            return rows[0] if len(rows) == 1 else -1
        return next((row for row in rows if self.named(row) == id), -1)


@dataclass(frozen=True, eq=False)
class CaseTexts:
    """Cases in the user's words.

    Attributes
    ----------
    ids : sequence of n texts, or None
        What they are called.
    texts : sequence of n dicts
        Their values, {feature: text}.
    values : array of shape (n, P)
        As `EncodedTable.values`.
    unseen : bool array of shape (n, P)
        Where no past case can have the value.
    outcomes : sequence of n texts, or None
        Their outcomes, where known.
    """

    ids: Sequence[str] | None
    texts: Sequence[dict[str, str]]
    values: NDArray[np.float64]
    unseen: NDArray[np.bool_]
    outcomes: Sequence[str] | None = None

    def named(self, row: int) -> str | None:
        """What a case is called."""
        return None if self.ids is None else self.ids[row]


class OpinionOnCases(NamedTuple):
    """An additive score on the same cases, to be pooled with the votes.

    Attributes
    ----------
    probabilities : array of shape (n, M)
        What it says of each case.
    pool : Pool
        How both opinions become one.
    interval : array of shape (n, M, 2), or None
        Of its probabilities; None where it has none.
    points : array of shape (n, P), or None
        Percentage points that each feature adds to the probability of the last class, from the base rate.
    number : function, optional
        Where the outcome is a number: from shares of the votes of the parents, (1, S), a level and the row of the case
        to the pooled mean, lower and upper end, (3,).
    base : array of shape (M,), or None
        Base rates of the classes, from which the points count.
    of_values : function, optional
        From `EncodedTable.values` of other cases, (k, P), to their probabilities, (k, M); None where it cannot say.
    """

    probabilities: NDArray[np.float64]
    pool: Pool
    interval: NDArray[np.float64] | None = None
    points: NDArray[np.float64] | None = None
    number: Callable[[NDArray[np.float32], float, int], NDArray[np.float64]] | None = None
    base: NDArray[np.float64] | None = None
    of_values: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None
