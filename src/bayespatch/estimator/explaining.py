"""The methods of an estimator that say why."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from bayespatch.calibrate import Calibration
from bayespatch.check import check_count, check_flag
from bayespatch.diagnostics import Diagnostics
from bayespatch.encode import EncodedTable, Schema, changed_row, describe_values, read_row
from bayespatch.estimator.overview import look_over
from bayespatch.estimator.snapshot import read_at_once
from bayespatch.explain import Explanation, Past, WhatIf, explain_cases
from bayespatch.explain.build import Told
from bayespatch.explain.overview import Overview
from bayespatch.model import HIDDEN, Data
from bayespatch.posterior import Posterior
from bayespatch.predict import Prediction, Review, without_parent

QUANTILE = 0.05  # of the past cases' familiarity, below which there is no adequate precedent


class Explaining(ABC):
    """Gives an estimator its methods `explain`, `explain_all`, `explain_past` and `what_if`."""

    schema_: Schema
    posterior_: Posterior
    parents_: NDArray[np.int64]
    cases_: NDArray[np.int64]
    x_: NDArray[np.float64]
    y_: NDArray[np.int64]
    values_: NDArray[np.float64]
    ids_: tuple[str, ...] | None
    review_: Review
    calibration_: Calibration
    class_names_: tuple[str, ...]
    target_: str

    @property
    @abstractmethod
    def diagnostics_(self) -> Diagnostics:
        """Whether the chains have mixed."""

    @read_at_once
    def explain(
        self, row: Any, y: Any = None, top: int = 4, *, level: float = 0.9, quantile: float = QUANTILE
    ) -> Explanation:
        """The patchwork of one case: which past cases speak on it, through what, and how far to trust the prediction.

        Parameters
        ----------
        row : dict, Series, sequence of values, or table with one row
            The case; a dict or a Series by the names of the features. Values may be given by their labels.
        y : optional
            Its outcome, where it is known: then it counts in finding the neighbors (type III of the paper).
        top : int
            How many neighbors to name; beside them the strongest dissenting ones, half as many.
        level : float
            Of the credible intervals.
        quantile : float
            A case that resembles the past less than all but this share of the past cases has no adequate precedent.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> from bayespatch import PatchworkClassifier
        >>> X = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5
        >>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit(X, ["sick", "sick", "well", "well"] * 5)
        >>> print(clf.explain(["no", 43]).predicted)
        well
        """
        check_is_fitted(self)
        table = read_row(row, self.schema_)
        return next(self._explanations(table, None if y is None else [y], top, level, quantile))

    @read_at_once
    def explain_all(
        self, X: Any, y: ArrayLike | None = None, top: int = 4, *, level: float = 0.9, quantile: float = QUANTILE
    ) -> list[Explanation]:
        """`explain` for many cases at once, each looked at once.

        Parameters
        ----------
        X : data frame, array or list of rows
            The cases.
        y : sequence, optional
            Their outcomes, where they are known.
        top, level, quantile
            As in `explain`.

        Returns
        -------
        list of Explanation

        Examples
        --------
        >>> from bayespatch import PatchworkClassifier
        >>> X, y = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5, ["sick", "sick", "well", "well"] * 5
        >>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit(X, y)
        >>> [why.predicted for why in clf.explain_all([["yes", 60], ["no", 41]])]
        ['sick', 'well']
        """
        return list(self._explanations(X, y, top, level, quantile))

    @read_at_once
    def explain_past(
        self, row: int, known: bool = True, top: int = 4, *, level: float = 0.9, quantile: float = QUANTILE
    ) -> Explanation:
        """`explain` for a case of the training table, on which all others speak but not itself.

        Parameters
        ----------
        row : int
            Its row, from 0.
        known : bool
            Whether its outcome counts in finding the neighbors (type III of the paper).
        top, level, quantile
            As in `explain`.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> from bayespatch import PatchworkClassifier
        >>> X, y = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5, ["sick", "sick", "well", "well"] * 5
        >>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit(X, y)
        >>> why = clf.explain_past(0)
        >>> why.outcome, 0 in [neighbor.index for neighbor in why.neighbors]
        ('sick', False)
        """
        check_is_fitted(self)
        row = check_count("row", row, at_least=0)
        if row >= len(self.x_):
            raise ValueError(f"row={row} is not in the training table; pass a number from 0 to {len(self.x_) - 1}")
        if not self.may_be_shown(row):
            raise ValueError(
                f"row={row} is not among the parents, and only these may be shown; pass one of parents_, or fit with "
                f"this row among the parents"
            )
        wishes = self._wishes(top, level, quantile)
        posterior, past = self.posterior_, self._past()
        own = np.flatnonzero(self.parents_ == row)
        parents = self.parents_
        if own.size:
            posterior, past = without_parent(posterior, past, int(own[0]))
            parents = np.delete(parents, own)
        codes = self.y_[[row]] if check_flag("known", known) else np.array([HIDDEN])
        case = past._replace(x=self.x_[[row]], y=codes, own_parent=np.array([-1]))
        values = [describe_values(self.schema_, self.values_[row])]
        told_past = self._told_past(parents)
        unseen = np.zeros((1, self.x_.shape[1]), dtype=np.bool_)
        told = Told([told_past.named(row)], values, unseen, [told_past.outcomes[row]])
        return next(explain_cases(posterior, case, told, told_past, **wishes))

    def may_be_shown(self, row: int) -> bool:
        """Whether a row of the training table may appear in anything that is shown: only the parents may.

        This is the one rule; explanations, reports and pictures of past cases all obey it.

        Examples
        --------
        >>> from bayespatch import PatchworkClassifier
        >>> X, y = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5, ["sick", "sick", "well", "well"] * 5
        >>> clf = PatchworkClassifier(parents=[0, 1, 2, 3], draws=50, warmup=50, random_state=0).fit(X, y)
        >>> clf.may_be_shown(3), clf.may_be_shown(4)
        (True, False)
        """
        check_is_fitted(self)
        return bool(np.isin(row, self.parents_))

    @read_at_once
    def what_if(
        self, row: Any, changes: Mapping[str, Any], top: int = 4, *, level: float = 0.9, quantile: float = QUANTILE
    ) -> WhatIf:
        """What the model would say if some values of a case were others.

        Parameters
        ----------
        row
            The case, as in `explain`.
        changes : dict
            The other values, by feature.
        top, level, quantile
            As in `explain`.

        Returns
        -------
        WhatIf
            Both explanations, and what changed between them.

        Examples
        --------
        >>> from bayespatch import PatchworkClassifier
        >>> X = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5
        >>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit(X, ["sick", "sick", "well", "well"] * 5)
        >>> clf.what_if(["no", 43], {"x0": "yes"}).changes
        {'x0': ('no', 'yes')}
        """
        check_is_fitted(self)
        table = read_row(row, self.schema_)
        other = changed_row(table, changes, self.schema_)
        before, after = (next(self._explanations(t, None, top, level, quantile)) for t in (table, other))
        return WhatIf(before, after)

    @read_at_once
    def overview(self, *, quantile: float = QUANTILE) -> Overview:
        """The model as a whole: what matters, which past cases speak most, how good predictions are, and for whom.

        Each past case is judged by the others, as if it were new; other methods' rankings of the features stand beside
        the model's own. It takes some seconds.

        Parameters
        ----------
        quantile : float
            As in `explain`.

        Returns
        -------
        Overview

        Examples
        --------
        >>> from bayespatch import PatchworkClassifier
        >>> X, y = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5, ["sick", "sick", "well", "well"] * 5
        >>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit(X, y)
        >>> sorted(clf.overview().performance.scores)
        ['AUC', 'Brier score', 'accuracy', 'log loss']
        """
        check_is_fitted(self)
        return look_over(self, self._told_past(self.parents_), _check_share("quantile", quantile))

    @read_at_once
    def report(self, path: str | PathLike[str]) -> None:
        """Write a page about the model: data, settings, how good it is and for whom, intended use and limits.

        Parameters
        ----------
        path : path
            Of the HTML file, which needs nothing else: no network, no scripts.

        Examples
        --------
        >>> from bayespatch import PatchworkClassifier
        >>> X, y = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5, ["sick", "sick", "well", "well"] * 5
        >>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit(X, y)
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     clf.report(os.path.join(folder, "model.html"))
        ...     os.listdir(folder)
        ['model.html']
        """
        from bayespatch.report import model_report

        model_report(self, path)

    def _explanations(
        self, X: Any, y: ArrayLike | None, top: int, level: float, quantile: float
    ) -> Iterator[Explanation]:
        wishes = self._wishes(top, level, quantile)
        posterior, new, encoded = self._cases_of(X, y)
        outcomes = None if y is None else self._outcomes_of(new.y, y)
        told = Told(encoded.ids, self.schema_.describe_rows(X), encoded.unseen, outcomes)
        return explain_cases(posterior, new, told, self._told_past(self.parents_), **wishes)

    def _wishes(self, top: int, level: float, quantile: float) -> dict[str, Any]:
        """How cases are to be explained, checked: what `explain_cases` takes by name."""
        check_count("top", top, at_least=1)
        _check_share("level", level)
        _check_share("quantile", quantile)
        wishes = {"top": top, "level": level, "quantile": quantile}
        return {**wishes, "n_threads": self._n_threads(), "engine": self._predicting()}

    def _told_past(self, parents: NDArray[np.int64]) -> Past:
        """The past in the user's words."""
        # How usual a case is, is said beside those that the model has learned from; parents may have been chosen for
        # being unlike the rest, and only where none but parents was reviewed is it they that count.
        learned = np.isin(self.review_.rows, self.cases_)
        return Past(
            schema=self.schema_,
            values=self.values_,
            ids=self.ids_,
            outcomes=self._outcomes(),
            parents=parents,
            classes=self.class_names_,
            target=self.target_,
            calibration=self.calibration_,
            familiarity=self.review_.familiarity[learned if learned.any() else slice(None)],
            about={
                "model": self.posterior_.model.kind,
                "past_cases": len(self.cases_),
                "parents": len(self.parents_),
                "converged": self.diagnostics_.converged,
            },
        )

    def _outcomes(self) -> Sequence[str]:
        """What became of each row of the training table."""
        return self._outcomes_of(self.y_, None)

    def _outcomes_of(self, codes: NDArray[np.int64], y: Any) -> Sequence[str]:
        """Known outcomes in the user's words: their codes, and what the user has given."""
        return [self.class_names_[code] for code in codes.tolist()]

    def _percentiles(self, parts: Sequence[Prediction]) -> NDArray[np.float64]:
        """How usual cases are among the past."""
        past = self._told_past(self.parents_)
        return past.percentile(np.concatenate([part.familiarity for part in parts]))

    # What the estimator has to bring

    @abstractmethod
    def _cases_of(self, X: Any, y: ArrayLike | None = None) -> tuple[Posterior, Data, EncodedTable]:
        """Rows of a table as cases beside the parents, and the posterior to judge them by."""

    @abstractmethod
    def _past(self) -> Data:
        """The cases that the model has learned from, and their parents."""

    @abstractmethod
    def _n_threads(self) -> int:
        """How many threads may be used."""

    @abstractmethod
    def _predicting(self) -> str:
        """The engine for new cases."""


def check_abstain(abstain: bool | float) -> float | None:
    """The share of past cases at which a model refuses; None: it never does."""
    if isinstance(abstain, bool | np.bool_):
        return QUANTILE if abstain else None
    return _check_share("abstain", abstain)


def _check_share(name: str, value: object) -> float:
    if isinstance(value, bool | str) or not isinstance(value, int | float | np.number) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name}={value!r} is not a share; pass a number between 0 and 1")
    return float(value)
