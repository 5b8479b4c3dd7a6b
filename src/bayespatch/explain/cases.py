"""What explanations are made from: a fitted model, and the cases to explain in the user's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespatch.calibrate import Calibration
from bayespatch.encode import Schema
from bayespatch.feature_importance import FeatureImportance
from bayespatch.fitted import Fitted, FittedNumbers
from bayespatch.subgroups import Subgroups


@dataclass(frozen=True, eq=False)
class TrainingCases:
    """The past cases of a fitted model, seen from some of its parents.

    Attributes
    ----------
    fitted : Fitted
    parents : int array of shape (S,)
        Rows of the parents whose details are known.
    """

    fitted: Fitted
    parents: NDArray[np.int64]

    @property
    def schema(self) -> Schema:
        """How columns are coded."""
        return self.fitted.schema

    @property
    def x(self) -> NDArray[np.float64]:
        """Codes, (n, P)."""
        return self.fitted.x

    @property
    def values(self) -> NDArray[np.float64]:
        """`EncodedTable.values`, (n, P)."""
        return self.fitted.values

    @property
    def y(self) -> NDArray[np.int64]:
        """Classes, (n,)."""
        return self.fitted.y

    @property
    def outcomes(self) -> Sequence[str]:
        """Outcomes as text, n of them."""
        return self.fitted.outcome_texts

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return self.fitted.class_names

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many of the cases each class has, (M,)."""
        return np.bincount(self.fitted.y[self.fitted.cases], minlength=self.fitted.n_classes)

    @property
    def target(self) -> str:
        """Name of the outcome."""
        return self.fitted.target

    @property
    def calibration(self) -> Calibration:
        """Maps votes to probabilities."""
        return self.fitted.calibration

    @property
    def rows(self) -> NDArray[np.int64]:
        """Past cases that were predicted by all others, (R,)."""
        return self.fitted.loo.rows

    @property
    def votes(self) -> NDArray[np.float64]:
        """The others' votes on them, (R, M)."""
        return self.fitted.loo.votes

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """Their leave-one-out probabilities, (R, M)."""
        return self.fitted.loo_probabilities

    @property
    def ranges(self) -> NDArray[np.float64]:
        """Smallest and largest number of each column, (P, 2)."""
        return self.fitted.ranges

    @property
    def subgroups(self) -> Subgroups:
        """Subgroups of the past cases."""
        return self.fitted.subgroups

    @property
    def accuracy(self) -> float:
        """Leave-one-out accuracy."""
        return self.fitted.loo_accuracy

    @property
    def importance(self) -> FeatureImportance:
        """Importance of the features for predictions."""
        return self.fitted.importance

    @property
    def about(self) -> dict[str, Any]:
        """The model in four words, for the foot of a page."""
        return {
            "model": self.fitted.posterior.model.kind,
            "past_cases": len(self.fitted.cases),
            "parents": len(self.fitted.parents),
            "converged": self.fitted.posterior.diagnostics().converged,
        }

    @property
    def read_number(self) -> Callable[[NDArray[np.float32], float], NDArray[np.float64]] | None:
        """For numeric outcomes: from shares of the votes of all parents, (n, S), to mean and interval, (n, 3)."""
        return self.fitted.read_number if isinstance(self.fitted, FittedNumbers) else None

    def percentiles(self, x: NDArray[np.float64], familiarity: NDArray[np.float64]) -> NDArray[np.float64]:
        """Share of past cases that are no more familiar."""
        return self.fitted.percentiles(x, familiarity)

    def named(self, row: int) -> str:
        """Name of a row of the training table."""
        return self.fitted.named(row)

    def may_be_shown(self, row: int) -> bool:
        """Whether a row of the training table may be shown."""
        return bool(np.isin(row, self.parents))

    def texts_of(self, row: int) -> dict[str, str]:
        """Values of a row of the training table as texts."""
        return self.fitted.texts_of(row)


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

    def rows_in(self, fitted: Fitted) -> NDArray[np.int64]:
        """Row of the training table that each case is, (n,); -1 for a new case."""
        rows = [fitted.row_with(values, self.named(row)) for row, values in enumerate(self.values)]
        return np.array(rows, dtype=np.int64)
