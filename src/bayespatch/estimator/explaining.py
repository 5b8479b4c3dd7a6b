"""The methods of an estimator that say why."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from bayespatch.calibrate import Calibration
from bayespatch.encode import EncodedTable, changed_row, changed_rows, describe_values, read_row
from bayespatch.estimator.snapshot import read_at_once
from bayespatch.explain import (
    CaseTexts,
    Counterfactual,
    Explanation,
    OpinionOnCases,
    TrainingCases,
    WhatIf,
    explain_cases,
    smallest_change,
)
from bayespatch.explain.fitted_model import FittedModel
from bayespatch.explain.overview import Overview
from bayespatch.explain.summarize import summarize
from bayespatch.model import HIDDEN, Data
from bayespatch.predict import Detail, Prediction, predict_batches, predict_cases
from bayespatch.sampling.posterior import Posterior
from bayespatch.second_opinion import AdditiveScore
from bayespatch.validation import check_count, check_flag

ERROR = 0.005  # Monte Carlo standard error of the probability of a single case that is explained
_LOOKED_AT = 5  # changes that are looked at closely, where the search is undecided between two classes
_N_TOTALED = 300  # past cases on whom votes are counted, where all vote in closed form
QUANTILE = 0.05  # of the past cases' familiarity, below which there is no adequate precedent

# Posterior -> what the past cases were made of, and the past cases in the user's words
_training_cases_of: WeakKeyDictionary[Posterior, tuple[tuple[Any, ...], TrainingCases]] = WeakKeyDictionary()


class Explaining(FittedModel, ABC):
    """Gives an estimator its methods `explain`, `explain_all`, `explain_past` and `what_if`."""

    values_: NDArray[np.float64]
    calibration_: Calibration
    target_: str
    error: float
    classes_: NDArray[Any]  # of a classifier
    opinion_: Any  # AdditiveScore, AdditiveMean, or a classifier of the user's own

    @read_at_once
    def explain(
        self,
        row: Any,
        y: Any = None,
        top: int = 4,
        *,
        level: float = 0.9,
        quantile: float = QUANTILE,
        exclude_self: bool = True,
        reliance: bool = True,
        error: float = ERROR,
    ) -> Explanation:
        """The patchwork of one case: which past cases vote on it, through what, and how far to trust the prediction.

        Parameters
        ----------
        row : dict, Series, sequence of values, or table with one row
            The case; a dict or a Series by the names of the features. Values may be given by their labels.
        y : optional
            Its outcome, where it is known: then it counts in finding the neighbors (type III of the paper).
        top : int
            How many single neighbors to name; beside them the strongest contradicting ones, half as many.
        level : float
            Of the credible intervals.
        quantile : float
            A case that is less familiar than all but this share of the past cases has no adequate precedent.
        exclude_self : bool
            Whether a case that is a past case (all values equal, and its name where it has one) is left out of its own
            neighbors; the explanation says so.
        reliance : bool
            Whether to find out what would be predicted without each neighbor and crowd; False takes half the time.
        error : float
            Monte Carlo standard error of the probability that is good enough.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> print(clf.explain(["no", 43]).predicted)
        well
        """
        check_is_fitted(self)
        table = read_row(row, self.schema_)
        wishes = self._wishes(top, level, quantile, error)
        wishes["reliance"] = check_flag("reliance", reliance)
        return next(
            self._explanations(table, None if y is None else [y], wishes, check_flag("exclude_self", exclude_self))
        )

    @read_at_once
    def explain_all(
        self,
        X: Any,
        y: ArrayLike | None = None,
        top: int = 4,
        *,
        level: float = 0.9,
        quantile: float = QUANTILE,
        exclude_self: bool = True,
        reliance: bool = True,
        error: float | None = None,
    ) -> list[Explanation]:
        """`explain` for many cases at once.

        Parameters
        ----------
        X : data frame, array or list of rows
            The cases.
        y : sequence, optional
            Their outcomes, where they are known.
        top, level, quantile, exclude_self
            As in `explain`.
        reliance : bool
            Whether to find out what would be predicted without each neighbor and crowd; False takes a tenth of the
            time.
        error : float, optional
            As in `explain`; None: as exactly as `predict_proba` is asked to be.

        Returns
        -------
        list of Explanation

        Examples
        --------
        >>> [why.predicted for why in clf.explain_all([["yes", 60], ["no", 41]])]
        ['sick', 'well']
        """
        wishes = self._wishes(top, level, quantile, error)
        wishes["reliance"] = check_flag("reliance", reliance)
        return list(self._explanations(X, y, wishes, check_flag("exclude_self", exclude_self)))

    @read_at_once
    def explain_past(
        self,
        row: int,
        known: bool = True,
        top: int = 4,
        *,
        level: float = 0.9,
        quantile: float = QUANTILE,
        error: float = ERROR,
    ) -> Explanation:
        """`explain` for a case of the training table, on which all others vote but not itself.

        Parameters
        ----------
        row : int
            Its row, from 0.
        known : bool
            Whether its outcome counts in finding the neighbors (type III of the paper).
        top, level, quantile, error
            As in `explain`.

        Returns
        -------
        Explanation

        Examples
        --------
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
        wishes = self._wishes(top, level, quantile, error)
        past = self._training_cases(self.parents_)
        codes = self.y_[[row]] if check_flag("known", known) else np.array([HIDDEN])
        case = self._past()._replace(x=self.x_[[row]], y=codes, own_parent=np.array([-1]))
        words = CaseTexts(
            ids=[past.named(row)],
            texts=[describe_values(self.schema_, self.values_[row])],
            values=self.values_[[row]],
            unseen=np.zeros((1, self.x_.shape[1]), dtype=np.bool_),
            outcomes=[past.outcomes[row]],
        )
        second = self._second_opinion_of_past(np.array([row]))
        return next(explain_cases(self.posterior_, case, words, past, same=np.array([row]), second=second, **wishes))

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
        return self._training_cases(self.parents_).may_be_shown(row)

    @read_at_once
    def what_if(
        self,
        row: Any,
        changes: Mapping[str, Any],
        top: int = 4,
        *,
        level: float = 0.9,
        quantile: float = QUANTILE,
        error: float = ERROR,
    ) -> WhatIf:
        """What the model would say if some values of a case were others.

        Parameters
        ----------
        row
            The case, as in `explain`.
        changes : dict
            The other values, by feature.
        top, level, quantile, error
            As in `explain`.

        Returns
        -------
        WhatIf
            Both explanations, and what changed between them.

        Examples
        --------
        >>> clf.what_if(["no", 43], {"x0": "yes"}).changes
        {'x0': ('no', 'yes')}
        """
        check_is_fitted(self)
        table = read_row(row, self.schema_)
        other = changed_row(table, changes, self.schema_)
        wishes = self._wishes(top, level, quantile, error)
        # A past case that is changed is still itself: it votes in neither explanation.
        same = self._training_cases(self.parents_).rows_of(self._case_texts(table, self.schema_.encode(table), None))
        before, after = (next(self._explanations(t, None, wishes, same=same)) for t in (table, other))
        return WhatIf(before, after)

    @read_at_once
    def counterfactual(
        self,
        row: Any,
        change: Sequence[str] | None = None,
        *,
        to: Any = None,
        most: int = 3,
        top: int = 4,
        level: float = 0.9,
        quantile: float = QUANTILE,
        error: float = ERROR,
        exclude_self: bool = True,
    ) -> Counterfactual:
        """The smallest change of some features that would change the prediction, to values that past cases have.

        Parameters
        ----------
        row
            The case, as in `explain`.
        change : sequence of str, optional
            The features that may change; all by default.
        to : optional
            The class to reach, or its label; by default any other than the predicted one.
        most : int
            How many features may change at the same time.
        top, level, quantile, error, exclude_self
            As in `explain`.

        Returns
        -------
        Counterfactual

        Examples
        --------
        >>> found = clf.counterfactual(["no", 43])
        >>> found.found, found.what_if.after.predicted
        (True, 'sick')
        """
        check_is_fitted(self)
        if not hasattr(self, "classes_"):
            raise ValueError("a counterfactual needs classes, and this model predicts a number; use what_if")
        changeable = self._changeable(change)
        most = check_count("most", most, at_least=1)
        table = read_row(row, self.schema_)
        wishes = self._wishes(top, level, quantile, error)
        encoded = self.schema_.encode(table)
        same = np.full(1, -1)
        if exclude_self:
            same = self._training_cases(self.parents_).rows_of(self._case_texts(table, encoded, None))
        before = next(self._explanations(table, None, wishes, same=same))
        predicted = self.class_names_.index(before.predicted)
        wanted = None if to is None else self._class_called(to)
        if wanted == predicted:
            raise ValueError(f"to={to!r} is what is predicted already; pass another class, or leave it out")
        columns = self.schema_.columns

        def changed(values: Mapping[int, float]) -> dict[str, Any]:
            return {columns[j].name: columns[j].raw_value(value) for j, value in values.items()}

        def judge(changes: Sequence[Mapping[int, float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            rows = changed_rows(table, [changed(values) for values in changes], self.schema_)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the case itself it is said below
                parts = list(self._predictions(rows))
            votes = np.concatenate([part.mean_votes() for part in parts])
            return self._pooled(rows, votes), self._percentiles(parts)

        # Only parents may be shown, and so only their values may be offered.
        found, n_tried = smallest_change(
            self.schema_,
            encoded.values[0],
            self.values_[self.parents_],
            changeable,
            judge,
            predicted=predicted,
            wanted=wanted,
            most=most,
            quantile=quantile,
        )
        after, reached = before, False
        for one in found[:_LOOKED_AT]:
            other = changed_row(table, changed(one.values), self.schema_)
            after = next(self._explanations(other, None, wishes, same=same))
            # Close to even, the coarser probabilities of the search may have been wrong.
            reached = after.predicted != before.predicted and (
                wanted is None or after.predicted == self.class_names_[wanted]
            )
            if reached:
                break
        names = tuple(columns[j].name for j in changeable)
        return Counterfactual(reached, WhatIf(before, after), names, n_tried)

    def _changeable(self, change: Sequence[str] | None) -> list[int]:
        """The columns that may change, by name or by what they are called."""
        names = list(self.schema_.names)
        if change is None:
            return list(range(len(names)))
        if isinstance(change, str) or not len(change):
            raise ValueError(f"change={change!r} is no list of features; pass names, such as change=[{names[0]!r}]")
        called = {column.called: j for j, column in enumerate(self.schema_.columns)}
        unknown = [name for name in change if name not in names and name not in called]
        if unknown:
            raise ValueError(
                f"change: there is no feature {unknown[0]!r}; the features are {', '.join(map(repr, names))}"
            )
        return sorted({names.index(name) if name in names else called[name] for name in change})

    def _class_called(self, label: Any) -> int:
        """A class by its value or by its label."""
        classes = [str(value) for value in self.classes_.tolist()]
        if str(label) in self.class_names_:
            return self.class_names_.index(str(label))
        if str(label) in classes:
            return classes.index(str(label))
        raise ValueError(f"to={label!r} is not a class; the classes are {', '.join(map(repr, self.class_names_))}")

    @read_at_once
    def overview(self, *, quantile: float = QUANTILE) -> Overview:
        """The model as a whole: what matters, which past cases vote most, how good predictions are, and for whom.

        Each past case is predicted from the others (leave-one-out); other methods' rankings of the features stand
        beside the model's own. It takes some seconds.

        Parameters
        ----------
        quantile : float
            As in `explain`.

        Returns
        -------
        Overview

        Examples
        --------
        >>> sorted(clf.overview().performance.scores)
        ['AUC', 'Brier score', 'accuracy', 'log loss']
        """
        check_is_fitted(self)
        return summarize(self, self._training_cases(self.parents_), _check_share("quantile", quantile))

    @read_at_once
    def report(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write a page about the model: data, settings, how good it is and for whom, intended use and limits.

        Parameters
        ----------
        path : path
            Of the HTML file, which needs nothing else: no network, and nothing from elsewhere.
        overwrite : bool
            Whether a file that is there is replaced.

        Examples
        --------
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     clf.report(os.path.join(folder, "model.html"))
        ...     os.listdir(folder)
        ['model.html']
        """
        from bayespatch.report import model_report

        model_report(self, path, overwrite=overwrite)

    def _explanations(
        self,
        X: Any,
        y: ArrayLike | None,
        wishes: dict[str, Any],
        exclude_self: bool = True,
        same: NDArray[np.int64] | None = None,
    ) -> Iterator[Explanation]:
        posterior, new, encoded = self._cases_of(X, y)
        words = self._case_texts(X, encoded, None if y is None else self._outcomes_of(new.y, y))
        past = self._training_cases(self.parents_)
        if same is None and exclude_self:
            same = past.rows_of(words)
        return explain_cases(
            posterior, new, words, past, same=same, second=self._second_opinion(X, wishes["level"]), **wishes
        )

    def _case_texts(self, X: Any, encoded: EncodedTable, outcomes: Sequence[str] | None) -> CaseTexts:
        """Cases in the user's words."""
        return CaseTexts(encoded.ids, self.schema_.describe_rows(X), encoded.values, encoded.unseen, outcomes)

    def _second_opinion(self, X: Any, level: float) -> OpinionOnCases | None:
        """The second opinion on new cases, where the estimator has one."""
        if self.pool_ is None:
            return None
        if not isinstance(self.opinion_, AdditiveScore):
            return OpinionOnCases(self.opinion_.predict_proba(X), self.pool_)
        probabilities, intervals, points = self.opinion_.explained(self.schema_.encode(X).values, level)
        return OpinionOnCases(
            probabilities,
            self.pool_,
            intervals,
            points[:, :, -1],
            base=self.opinion_.base,
            of_values=self.opinion_.predict_proba,
        )

    def _second_opinion_of_past(self, rows: NDArray[np.int64]) -> OpinionOnCases | None:
        """The second opinion on rows of the training table, each as if it had not been learned from."""
        if self.pool_ is None:
            return None
        # Its probabilities without the row are kept; interval and points are those of a model that knows it.
        return OpinionOnCases(self.opinion_.loo[rows], self.pool_)

    def _wishes(self, top: int, level: float, quantile: float, error: float | None) -> dict[str, Any]:
        """How cases are to be explained, checked: what `explain_cases` takes by name."""
        check_count("top", top, at_least=1)
        _check_share("level", level)
        _check_share("quantile", quantile)
        wishes = {"top": top, "level": level, "quantile": quantile}
        wishes["error"] = _check_share("error", self.error if error is None else error)
        return {**wishes, "n_threads": self._n_threads(), "engine": self._predicting()}

    def _training_cases(self, parents: NDArray[np.int64]) -> TrainingCases:
        """The past cases in the user's words, made once for each fitted model: what is learned from them is kept."""
        made_of = (
            *(self.schema_, self.x_, self.values_, self.y_, self.ids_, self.cases_, self.parents_, parents),
            *(self.loo_, self.calibration_, self.pool_, self.opinion_, self.class_names_, self.target_),
        )
        before, past = _training_cases_of.get(self.posterior_, ((), None))
        if past is None or len(before) != len(made_of) or any(a is not b for a, b in zip(before, made_of, strict=True)):
            past = self._new_training_cases(parents)
            _training_cases_of[self.posterior_] = made_of, past
        return past

    def _new_training_cases(self, parents: NDArray[np.int64]) -> TrainingCases:
        # How usual a case is, is judged by the cases that the model has learned from: parents may have been chosen for
        # being unlike the rest, and count only where there is nobody else.
        learned = np.isin(self.loo_.rows, self.cases_)
        return TrainingCases(
            schema=self.schema_,
            x=self.x_,
            values=self.values_,
            y=self.y_,
            ids=self.ids_,
            outcomes=self._outcomes(),
            parents=parents,
            classes=self.class_names_,
            counts=np.bincount(self.y_[self.cases_], minlength=len(self.class_names_)),
            target=self.target_,
            calibration=self.calibration_,
            familiarity=self.loo_.familiarity[learned if learned.any() else slice(None)],
            rows=self.loo_.rows,
            votes=self.loo_.votes,
            probabilities=self.loo_probabilities(),
            about={
                "model": self.posterior_.model.kind,
                "past_cases": len(self.cases_),
                "parents": len(self.parents_),
                "converged": self.diagnostics_.converged,
            },
        )

    def loo_probabilities(self) -> NDArray[np.float64]:
        """Probabilities of the classes of past cases, each predicted from all others (leave-one-out).

        Returns
        -------
        array of shape (R, M)
            Of the rows `loo_.rows`.

        Examples
        --------
        >>> clf.loo_probabilities().shape
        (20, 2)
        """
        opinions = self.loo_opinions()
        return opinions["pool"] if opinions is not None else self.calibration_.apply(self.loo_.votes)

    def loo_opinions(self) -> dict[str, NDArray[np.float64]] | None:
        """Leave-one-out probabilities of each opinion alone and of the pool; None where there is no second opinion.

        Returns
        -------
        dict of arrays of shape (R, M), or None
            "precedents", "additive" and "pool", of the rows `loo_.rows`.

        Examples
        --------
        >>> sorted(clf.loo_opinions())
        ['additive', 'pool', 'precedents']
        """
        if self.pool_ is None:
            return None
        precedents, additive = self.calibration_.apply(self.loo_.votes), self.opinion_.loo[self.loo_.rows]
        return {"precedents": precedents, "additive": additive, "pool": self.pool_.combine(additive, precedents)}

    def has_as_neighbor(self, parent: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Past cases, as rows of the training table, and the probability that a parent is their neighbor.

        Where every past case votes in closed form, these are the past cases most like the parent, and the probability
        is its share of the votes on them.

        Parameters
        ----------
        parent : int
            Its place in `parents_`.

        Returns
        -------
        rows : int array
        probability : array

        Examples
        --------
        >>> rows, probability = clf.has_as_neighbor(0)
        >>> len(rows) == len(probability)
        True
        """
        posterior = self.posterior_
        if posterior.log_weights is None:
            return self.cases_, posterior.z_mean[:, parent].astype(np.float64)
        past, place = self._past(), np.flatnonzero(self.cases_ == self.parents_[parent])
        own = past._replace(
            x=past.x_parents[[parent]], y=np.array([HIDDEN]), own_parent=np.array([parent], dtype=np.int64)
        )
        near = predict_cases(posterior, own, detail="shares", n_threads=self._n_threads()).neighbors
        assert near is not None
        order = np.argsort(-near.share[0], kind="stable")[:_N_TOTALED]
        rows = np.setdiff1d(self.parents_[order], self.cases_[place])
        cases = np.flatnonzero(np.isin(self.cases_, rows))
        some = past._replace(x=past.x[cases], y=np.full(len(cases), HIDDEN), own_parent=past.own_parent[cases])
        parts = predict_batches(posterior, some, detail="shares", n_threads=self._n_threads())
        shares = [part.neighbors.share[:, parent] for part in parts if part.neighbors is not None]
        return self.cases_[cases], np.concatenate([np.empty(0), *shares])

    def neighbor_totals(self) -> NDArray[np.float64]:
        """Of how many past cases each parent is a neighbor, on average.

        Returns
        -------
        array of shape (S,)
            Where every past case votes in closed form, an estimate from some of the past cases.

        Examples
        --------
        >>> clf.neighbor_totals().shape
        (20,)
        """
        posterior = self.posterior_
        if posterior.log_weights is None:
            return posterior.z_mean.sum(axis=0, dtype=np.float64)
        past = self._past()
        some = np.linspace(0, len(past.x) - 1, min(len(past.x), _N_TOTALED)).round().astype(np.int64)
        cases = past._replace(x=past.x[some], y=np.full(len(some), HIDDEN), own_parent=past.own_parent[some])
        total = np.zeros(len(past.x_parents))
        for part in predict_batches(posterior, cases, detail="shares", n_threads=self._n_threads()):
            assert part.neighbors is not None
            total += part.neighbors.share.sum(axis=0, dtype=np.float64)
        return total * (len(past.x) / len(some))

    def _outcomes(self) -> Sequence[str]:
        """The outcome of each row of the training table."""
        return self._outcomes_of(self.y_, None)

    def _outcomes_of(self, codes: NDArray[np.int64], y: Any) -> Sequence[str]:
        """Known outcomes in the user's words: their codes, and what the user has given."""
        return [self.class_names_[code] for code in codes.tolist()]

    def _percentiles(self, parts: Sequence[Prediction]) -> NDArray[np.float64]:
        """How usual cases are among the past cases."""
        past = self._training_cases(self.parents_)
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
    def _predictions(self, X: Any, y: ArrayLike | None = None, detail: Detail = False) -> Iterator[Prediction]:
        """Predictions of the rows, batch by batch."""

    def _pooled(self, X: Any, votes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of the rows, (n, M), from the votes on them and the second opinion; of classes alone."""
        raise NotImplementedError  # counterfactual, which alone asks for it, refuses a regressor before

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
