"""Methods that explain an estimator's predictions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayespatch.encode import EncodedTable, changed_row, changed_rows, describe_values, read_row
from bayespatch.estimator.base import F, Patchwork
from bayespatch.explain import (
    CaseTexts,
    Counterfactual,
    Explanation,
    ExplanationOptions,
    WhatIf,
    explain_cases,
)
from bayespatch.explain.overview import Overview
from bayespatch.explain.smallest_change import candidates, smallest_change
from bayespatch.explain.summarize import EstimatorInfo, summarize
from bayespatch.fitted import Fitted, FittedClasses
from bayespatch.model import HIDDEN
from bayespatch.second_opinion import UserOpinion
from bayespatch.types import JSONMapping, JSONObject, TableLike
from bayespatch.validation import check_count, check_flag, remedy

# A class, by value or by label, or a number
Label: TypeAlias = str | float | bool | np.generic

ERROR = 0.005  # target Monte Carlo standard error when a single case is explained
_MOST_TRIED, _LEAST_TRIED = 5000, 300  # limits on the number of changes to a case tried in order of size
_PAIRED = 1_500_000  # total number of comparisons between these changes and past cases
QUANTILE = 0.05  # quantile of the past cases' familiarity up to which there is no adequate precedent


class Explaining(Patchwork[F]):
    """Adds the methods `explain`, `explain_all`, `explain_past`, `what_if` and `counterfactual` to an estimator."""

    def explain(
        self,
        row: TableLike,
        y: Label | None = None,
        top: int = 5,
        *,
        level: float = 0.9,
        quantile: float = QUANTILE,
        exclude_self: bool = True,
        error: float = ERROR,
    ) -> Explanation:
        """Explain one case: which past cases vote, which features matter, and how far to trust the prediction.

        Parameters
        ----------
        row : dict, Series, sequence of values, or table with one row
            The case; a dict or a Series has the feature names as keys. Values can be passed as their labels.
        y : optional
            The outcome, if known; it is then used to find the neighbors (type III of the paper).
        top : int
            Number of closest past cases to show.
        level : float
            Probability of the credible intervals.
        quantile : float
            A case has no adequate precedent if at most this share of past cases is as unusual.
        exclude_self : bool
            Whether a case that is itself a past case (with the same values, and the same name if it has one) is
            prevented from voting on itself; the explanation then says so.
        error : float
            Target Monte Carlo standard error of the probability.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> print(clf.explain(["no", 43]).predicted)
        well
        """
        fitted = self._fitted()
        table = read_row(row, fitted.schema)
        options = self._options(top, level, quantile, error)
        known = None if y is None else np.asarray([y])
        return next(self._explanations(fitted, table, known, options, check_flag("exclude_self", exclude_self)))

    def explain_all(
        self,
        X: TableLike,
        y: ArrayLike | None = None,
        top: int = 5,
        *,
        level: float = 0.9,
        quantile: float = QUANTILE,
        exclude_self: bool = True,
        error: float | None = None,
    ) -> list[Explanation]:
        """`explain` for many cases at once.

        Parameters
        ----------
        X : data frame, array or list of rows
            The cases.
        y : sequence, optional
            Their outcomes, if known.
        top, level, quantile, exclude_self
            As in `explain`.
        error : float, optional
            As in `explain`; None means the same error as in `predict_proba`.

        Returns
        -------
        list of Explanation

        Examples
        --------
        >>> [why.predicted for why in clf.explain_all([["yes", 60], ["no", 41]])]
        ['sick', 'well']
        """
        options = self._options(top, level, quantile, error)
        return list(self._explanations(self._fitted(), X, y, options, check_flag("exclude_self", exclude_self)))

    def explain_past(
        self,
        row: int,
        known: bool = True,
        top: int = 5,
        *,
        level: float = 0.9,
        quantile: float = QUANTILE,
        error: float = ERROR,
    ) -> Explanation:
        """Explain a case of the training table, based on the votes of all the other cases.

        Parameters
        ----------
        row : int
            Its row number, starting at 0.
        known : bool
            Whether the search for neighbors uses its outcome (type III of the paper).
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
        fitted = self._fitted()
        row = check_count("row", row, at_least=0)
        n_rows = len(fitted.x) if fitted.elsewhere is None else fitted.n_past_cases
        if row >= n_rows:
            raise ValueError(f"row={row} is not in the training table; pass a number from 0 to {n_rows - 1}")
        if not fitted.may_be_shown(row):
            raise ValueError(
                f"row={row} may not be shown: it is not a parent, or was not selected with shown=; pass another row, "
                f"or fit again with other parents= or shown="
            )
        options = self._options(top, level, quantile, error)
        same = np.array([row])
        past = fitted.past_cases(same)
        codes = past.y if check_flag("known", known) else np.array([HIDDEN])
        texts = CaseTexts(
            ids=[str(row)] if past.ids is None else past.ids,
            texts=[describe_values(fitted.schema, past.values[0])],
            values=past.values,
            unseen=np.zeros(past.x.shape, dtype=np.bool_),
            outcomes=[fitted.outcome_texts[row]]
            if fitted.elsewhere is None
            else fitted.describe_outcomes(past.y, None),
        )
        if fitted.elsewhere is None:
            second = fitted.second_opinion_of_past(same)
        elif isinstance(fitted.opinion, UserOpinion):
            raise ValueError(
                "the past cases are not in this process, but the model passed as second_opinion= needs them; use "
                "explain(row)"
            )
        else:
            second = fitted.second_opinion(None, past.values, level)
        return next(
            explain_cases(
                fitted,
                fitted.posterior,
                fitted.new_cases(past.x, codes),
                texts,
                options,
                same=same,
                second=second,
            )
        )

    def may_be_shown(self, row: int) -> bool:
        """Whether a row of the training table may be shown: only parents may, and only those selected with `shown`.

        All explanations, reports and figures follow this rule.

        Examples
        --------
        >>> from bayespatch import PatchworkClassifier
        >>> X, y = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5, ["sick", "sick", "well", "well"] * 5
        >>> clf = PatchworkClassifier(parents=[0, 1, 2, 3], draws=50, warmup=50, random_state=0).fit(X, y)
        >>> clf.may_be_shown(3), clf.may_be_shown(4)
        (True, False)
        """
        return self._fitted().may_be_shown(row)

    def what_if(
        self,
        row: TableLike,
        changes: JSONMapping,
        top: int = 5,
        *,
        level: float = 0.9,
        quantile: float = QUANTILE,
        error: float = ERROR,
    ) -> WhatIf:
        """Predict a case with some values changed, and compare the predictions.

        Parameters
        ----------
        row
            The case, as in `explain`.
        changes : dict
            The new values, by feature.
        top, level, quantile, error
            As in `explain`.

        Returns
        -------
        WhatIf
            Both explanations, and the differences between them.

        Examples
        --------
        >>> clf.what_if(["no", 43], {"x0": "yes"}).changes
        {'x0': ('no', 'yes')}
        """
        fitted = self._fitted()
        table = read_row(row, fitted.schema)
        other = changed_row(table, changes, fitted.schema)
        options = self._options(top, level, quantile, error)
        # A changed past case is still the same case, so it votes in neither explanation.
        same = _case_texts(fitted, table, fitted.schema.encode(table)).rows_in(fitted)
        before, after = (next(self._explanations(fitted, t, None, options, same=same)) for t in (table, other))
        return WhatIf(before, after)

    def counterfactual(
        self,
        row: TableLike,
        change: Sequence[str] | None = None,
        *,
        to: object = None,
        most: int = 3,
        top: int = 5,
        level: float = 0.9,
        quantile: float = QUANTILE,
        error: float = ERROR,
        exclude_self: bool = True,
    ) -> Counterfactual:
        """Find the smallest change to some features that changes the prediction, using only values of past cases.

        Changes are tried in order of size (`explain.smallest_change`); the result states whether it is proven to be the
        smallest.

        Parameters
        ----------
        row
            The case, as in `explain`.
        change : sequence of str, optional
            The features that may change; all by default.
        to : optional
            The class to reach, or its label; by default any class other than the predicted one.
        most : int
            Largest number of features that may change at the same time.
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
        fitted = self._fitted()
        if not isinstance(fitted, FittedClasses):
            raise ValueError("a counterfactual needs a classifier, but this model predicts a number; use what_if")
        changeable = _changeable(fitted, change)
        most = check_count("most", most, at_least=1)
        table = read_row(row, fitted.schema)
        options = self._options(top, level, quantile, error)
        encoded = fitted.schema.encode(table)
        same = np.full(1, -1)
        if exclude_self:
            same = _case_texts(fitted, table, encoded).rows_in(fitted)
        before = next(self._explanations(fitted, table, None, options, same=same))
        predicted = fitted.class_names.index(before.predicted)
        wanted = None if to is None else _class_called(fitted, to)
        if wanted == predicted:
            raise ValueError(f"to={to!r} is already the predicted class; pass another class, or omit it")
        columns = fitted.schema.columns

        def changed(values: Mapping[int, float]) -> JSONObject:
            return {columns[j].name: columns[j].raw_value(value) for j, value in values.items()}

        def judge(changes: Sequence[Mapping[int, float]]) -> NDArray[np.float64]:
            rows = changed_rows(table, [changed(values) for values in changes], fitted.schema)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the explanations below warn about the case itself
                posterior, new, coded = self._new_cases(fitted, rows)
                new = new._replace(own_parent=np.full(len(changes), fitted.place_of(int(same[0]))))
                parts = list(self._batches(fitted, posterior, new, detail=False))
            return fitted.pooled(rows, coded.values, np.concatenate([part.mean_votes() for part in parts]))

        # Suggest only values of past cases that may be shown.
        past, own = fitted.values[fitted.may_show], encoded.values[0]
        smallest = smallest_change(
            {j: candidates(fitted.schema, j, float(own[j]), past[:, j]) for j in changeable},
            judge,
            predicted=predicted,
            wanted=wanted,
            most=most,
            budget=_budget(fitted),
        )
        after = before
        if smallest.values:
            other = changed_row(table, changed(smallest.values), fitted.schema)
            after = next(self._explanations(fitted, other, None, options, same=same))
        reached = smallest.reached and after.predicted != before.predicted
        names = tuple(columns[j].name for j in changeable)
        extent = smallest.n_tried, smallest.size, smallest.proven, smallest.tried_up_to
        return Counterfactual(reached, WhatIf(before, after), names, *extent)

    def overview(self, *, quantile: float = QUANTILE) -> Overview:
        """Summarize the model: important features, influential past cases, and performance overall and by subgroup.

        Each past case is predicted from all the others (leave-one-out). Rankings of the features by other methods are
        included for comparison. This takes a few seconds.

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
        fitted, default = self._fitted(), type(self)().get_params(deep=False)
        parameters = {name: repr(value) for name, value in self.get_params(deep=False).items()}
        changed = {name: text for name, text in parameters.items() if text != repr(default[name])}
        about = EstimatorInfo(type(self).__name__, changed, self.hyper)
        return summarize(fitted, about, _check_share("quantile", quantile), self._n_threads())

    def report(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write a page about the model: data, settings, performance by subgroup, intended use and limits.

        Parameters
        ----------
        path : path
            The HTML file. It is self-contained and needs no network connection.
        overwrite : bool
            Whether to replace an existing file.

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
        fitted: Fitted,
        X: TableLike,
        y: ArrayLike | None,
        options: ExplanationOptions,
        exclude_self: bool = True,
        same: NDArray[np.int64] | None = None,
    ) -> Iterator[Explanation]:
        posterior, new, encoded = self._new_cases(fitted, X, y)
        texts = _case_texts(fitted, X, encoded, None if y is None else fitted.describe_outcomes(new.y, y))
        if same is None and exclude_self:
            same = texts.rows_in(fitted)
        second = fitted.second_opinion(X, encoded.values, options.level)
        return explain_cases(fitted, posterior, new, texts, options, same=same, second=second)

    def _options(self, top: int, level: float, quantile: float, error: float | None) -> ExplanationOptions:
        """The validated options of explanations."""
        return ExplanationOptions(
            check_count("top", top, at_least=1),
            _check_share("level", level),
            _check_share("quantile", quantile),
            _check_share("error", self.error if error is None else error),
            self._n_threads(),
            self._predicting(),
        )

    def loo_probabilities(self) -> NDArray[np.float64]:
        """Probabilities of the classes of past cases, each predicted from all the others (leave-one-out).

        Returns
        -------
        array of shape (R, M)
            For the rows `loo_.rows`.

        Examples
        --------
        >>> clf.loo_probabilities().shape
        (20, 2)
        """
        return self._fitted().loo_probabilities

    def loo_opinions(self) -> dict[str, NDArray[np.float64]] | None:
        """Leave-one-out probabilities of each opinion alone and of the pool; None without a second opinion.

        Returns
        -------
        dict of arrays of shape (R, M), or None
            "precedents", "additive" and "pool", for the rows `loo_.rows`.

        Examples
        --------
        >>> sorted(clf.loo_opinions())
        ['additive', 'pool', 'precedents']
        """
        return self._fitted().loo_opinions()

    def has_as_neighbor(self, parent: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The past cases of which a parent is a neighbor, as rows of the training table, with their probabilities.

        With closed-form votes, these are the past cases most similar to the parent, and the probability is its share of
        the votes on them.

        Parameters
        ----------
        parent : int
            Position in `parents_`.

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
        return self._fitted().has_as_neighbor(parent, self._n_threads())

    def neighbor_totals(self) -> NDArray[np.float64]:
        """Average number of past cases of which each parent is a neighbor.

        Returns
        -------
        array of shape (S,)
            With closed-form votes, this is an estimate from a sample of the past cases.

        Examples
        --------
        >>> clf.neighbor_totals().shape
        (20,)
        """
        return self._fitted().neighbor_totals(self._n_threads())


def _case_texts(
    fitted: Fitted, X: TableLike, encoded: EncodedTable, outcomes: Sequence[str] | None = None
) -> CaseTexts:
    """Cases in the user's terms."""
    return CaseTexts(encoded.ids, fitted.schema.describe_rows(X), encoded.values, encoded.unseen, outcomes)


def _budget(fitted: Fitted) -> int:
    """Number of changes to a case to try in order of size."""
    if not fitted.votes_are_closed:
        return _LEAST_TRIED
    return int(np.clip(_PAIRED // fitted.n_voting, _LEAST_TRIED, _MOST_TRIED))


def _changeable(fitted: Fitted, change: Sequence[str] | None) -> list[int]:
    """The columns that may change, given by name or by label."""
    names = list(fitted.schema.names)
    if change is None:
        return list(range(len(names)))
    if isinstance(change, str) or not len(change):
        raise ValueError(f"change={change!r} is not a list of features; pass names, such as change=[{names[0]!r}]")
    called = {column.called: j for j, column in enumerate(fitted.schema.columns)}
    unknown = [name for name in change if name not in names and name not in called]
    if unknown:
        meant = remedy(unknown[0], [*names, *called], f"the features are {', '.join(map(repr, names))}")
        raise ValueError(f"change: there is no feature {unknown[0]!r}; {meant}")
    return sorted({names.index(name) if name in names else called[name] for name in change})


def _class_called(fitted: FittedClasses, label: object) -> int:
    """The index of a class, given by value or by label."""
    classes = [str(value) for value in fitted.classes.tolist()]
    if str(label) in fitted.class_names:
        return fitted.class_names.index(str(label))
    if str(label) in classes:
        return classes.index(str(label))
    raise ValueError(f"to={label!r} is not a class; the classes are {', '.join(map(repr, fitted.class_names))}")


def check_abstain(abstain: bool | float) -> float | None:
    """The share of past cases up to which a model abstains; None if it never does."""
    if isinstance(abstain, bool | np.bool_):
        return QUANTILE if abstain else None
    return _check_share("abstain", abstain)


def _check_share(name: str, value: object) -> float:
    if isinstance(value, bool | str) or not isinstance(value, int | float | np.number) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name}={value!r} is not a share; pass a number between 0 and 1")
    return float(value)
