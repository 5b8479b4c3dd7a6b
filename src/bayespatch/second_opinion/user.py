"""A second opinion passed by the user: any scikit-learn classifier, fitted to the user's table.

It is fitted to the raw table, and its prediction is shown as a number. Linear models on numbers can be stored, as
coefficients; nothing is pickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn import config_context
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import has_fit_parameter

from bayespatch.encode.table import DataFrame
from bayespatch.second_opinion.design import Array
from bayespatch.types import AnyArray, JSONMapping, JSONObject, TableLike

N_FOLDS = 5
STORABLE = (LogisticRegression, LogisticRegressionCV, LinearDiscriminantAnalysis)


def content_folds(values: Array, y: NDArray[np.int64], n_folds: int = N_FOLDS) -> NDArray[np.int64]:
    """The fold of each row, (n,): the rows of each class are sorted by their values and assigned to folds in turn.

    The order of the rows, the names of the classes and the scale of a column do not matter. A class with at least
    `n_folds` rows is in every fold.

    Examples
    --------
    >>> content_folds(np.array([[3.0], [1.0], [2.0], [4.0]]), np.array([0, 0, 1, 1]), 2)
    array([1, 0, 0, 1])
    """
    folds = np.empty(len(y), dtype=np.int64)
    for m in np.unique(y):
        own = np.flatnonzero(y == m)
        folds[own[np.lexsort(values[own].T)]] = np.arange(len(own)) % n_folds
    return folds


class Classifier(Protocol):
    """A scikit-learn classifier."""

    def fit(self, X: TableLike, y: AnyArray) -> Classifier:
        """Learn."""

    def predict_proba(self, X: TableLike) -> Array:
        """Probabilities, (n, M)."""


@dataclass(frozen=True, eq=False)
class UserOpinion:
    """A fitted classifier passed by the user.

    Attributes
    ----------
    model : fitted estimator
        A clone of the user's classifier.
    places : int array of shape (M,)
        Index of each class among the model's classes.
    loo : array of shape (n, M)
        Out-of-fold probabilities of the training rows (5 folds).

    Examples
    --------
    >>> X = np.array([[52.0], [61.0], [40.0], [45.0]] * 10)
    >>> y = np.array(["well", "sick", "well", "well"] * 10)
    >>> opinion = UserOpinion.learn(LogisticRegression(), X, y, np.unique(y), X)
    >>> opinion.predict_proba(X[:1]).shape, opinion.loo.shape
    ((1, 2), (40, 2))
    """

    model: Classifier
    places: NDArray[np.int64]
    loo: Array

    @classmethod
    def learn(
        cls,
        estimator: Classifier,
        X: TableLike,
        y: AnyArray,
        classes: AnyArray,
        values: Array,
        groups: NDArray[np.int64] | None = None,
        row_weight: Array | None = None,
    ) -> UserOpinion:
        """Clone the classifier and fit it.

        Parameters
        ----------
        estimator : unfitted classifier
            A classifier with `predict_proba`.
        X : table
            The user's table.
        y : array of shape (n,)
            Classes as passed by the user.
        classes : array of shape (M,)
            All classes, sorted.
        values : array of shape (n, P)
            The same table as numbers, for the folds: `EncodedTable.values`.
        groups : int array of shape (n,), optional
            Rows of the same group are in the same fold.
        row_weight : array of shape (n,), optional
            Weight of each row, passed to the classifier as ``sample_weight``.
        """
        check_user_opinion(estimator)
        codes = np.searchsorted(classes, y)
        folds = content_folds(values, codes) if groups is None else groups % N_FOLDS
        parts = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in np.unique(folds)]
        if len(parts) < 2:
            raise ValueError(f"second_opinion={estimator!r} needs at least two rows of some class; pass more rows")
        weights = _weight_arguments(estimator, row_weight)
        try:
            with config_context(enable_metadata_routing=False):  # the range of the weights is known
                model = clone(estimator).fit(X, y, **weights)
                loo = cross_val_predict(clone(estimator), X, y, cv=parts, params=weights, method="predict_proba")
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"second_opinion={estimator!r} could not be fitted on the table ({error}); pass a pipeline that turns "
                f"text to numbers and fills in missing values, or second_opinion='auto'"
            ) from error
        return cls(model, np.searchsorted(model.classes_, classes), _proper(loo))

    def predict_proba(self, X: TableLike) -> Array:
        """Probabilities, (n, M), of the rows of a table in the same format as the user's."""
        return _proper(np.asarray(self.model.predict_proba(X), dtype=np.float64)[:, self.places])

    def to_arrays(self) -> tuple[dict[str, AnyArray], JSONObject]:
        """The coefficients of a linear model; a ValueError for other models."""
        return LinearOpinion.of(self).to_arrays()


@dataclass(frozen=True, eq=False)
class LinearOpinion:
    """A stored second opinion passed by the user: a linear model on numbers.

    Attributes
    ----------
    intercept, coef : arrays of shape (K,) and (P, K)
        For two classes, K = 1 and the sum is the log odds; otherwise there is one sum per class.
    loo : array of shape (n, M)
        Out-of-fold probabilities of the training rows.
    names : tuple of P strings, or None
        The columns, if the table had names.
    """

    intercept: Array
    coef: Array
    loo: Array
    names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, opinion: UserOpinion) -> LinearOpinion:
        """The same opinion as coefficients; a ValueError if it cannot be stored."""
        center, scale = 0.0, 1.0
        model: BaseEstimator = opinion.model
        if isinstance(model, Pipeline) and len(model) == 2 and type(model[0]) is StandardScaler:
            center = 0.0 if model[0].mean_ is None else model[0].mean_
            scale = 1.0 if model[0].scale_ is None else model[0].scale_
            model = model[1]
        if type(model) not in STORABLE:
            known = ", ".join(kind.__name__ for kind in STORABLE)
            raise ValueError(
                f"a model with second_opinion={opinion.model!r} cannot be stored: only {known}, alone or after a "
                f"StandardScaler, can be stored without pickle; pass one of these, or second_opinion='auto'"
            )
        coef = model.coef_ / scale
        intercept = model.intercept_ - coef @ np.broadcast_to(np.asarray(center, dtype=np.float64), coef.shape[1])
        if len(coef) > 1:
            coef, intercept = coef[opinion.places], intercept[opinion.places]
        names = getattr(opinion.model, "feature_names_in_", None)
        return cls(intercept, coef.T.copy(), opinion.loo, None if names is None else tuple(map(str, names)))

    def predict_proba(self, X: TableLike) -> Array:
        """Probabilities of the rows of a numeric table, (n, M); a data frame's columns are matched by name."""
        if self.names is not None and hasattr(X, "columns"):
            X = cast("DataFrame", X)[list(self.names)]
        x = np.asarray(X, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != len(self.coef):
            raise ValueError(f"the table has shape {x.shape}; the second opinion expects {len(self.coef)} columns")
        if not np.isfinite(x).all():
            raise ValueError("the second opinion is a linear model and cannot handle missing values; fill them in")
        eta = x @ self.coef + self.intercept
        p = np.concatenate([expit(-eta), expit(eta)], axis=1) if eta.shape[1] == 1 else softmax(eta, axis=1)
        return _proper(p)

    def to_arrays(self) -> tuple[dict[str, AnyArray], JSONObject]:
        """Arrays and JSON-ready data; `from_arrays` restores the opinion from them."""
        names = None if self.names is None else list(self.names)
        return {"intercept": self.intercept, "coef": self.coef, "loo": self.loo}, {"names": names}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], plain: JSONMapping) -> LinearOpinion:
        """The opinion from the result of `to_arrays`; anything else raises a ValueError."""
        if set(arrays) != {"intercept", "coef", "loo"} or set(plain) != {"names"}:
            raise ValueError("this is not a stored second opinion; save the model again")
        names = None if plain["names"] is None else tuple(plain["names"])
        opinion = cls(names=names, **{name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()})
        n_sums, n_classes = len(opinion.intercept), opinion.loo.shape[-1]
        if (
            opinion.coef.ndim != 2
            or opinion.coef.shape[1] != n_sums
            or n_sums != (1 if n_classes == 2 else n_classes)
            or (names is not None and len(names) != len(opinion.coef))
            or not all(np.isfinite(array).all() for array in (opinion.intercept, opinion.coef, opinion.loo))
        ):
            raise ValueError("the arrays of the stored second opinion are inconsistent; save the model again")
        return opinion


def _weight_arguments(estimator: Classifier, row_weight: Array | None) -> dict[str, Array]:
    """The weights as arguments of the classifier's `fit`; a pipeline passes them to its last step."""
    if row_weight is None:
        return {}
    name, last = estimator.steps[-1] if isinstance(estimator, Pipeline) else ("", estimator)
    if not has_fit_parameter(last, "sample_weight"):
        raise ValueError(
            f"second_opinion={estimator!r} does not support sample_weight; pass second_opinion="
            f"'auto', or a classifier whose fit method accepts sample_weight"
        )
    return {f"{name}__sample_weight" if name else "sample_weight": row_weight}


def check_user_opinion(estimator: object) -> None:
    """Reject anything except an unfitted classifier with `predict_proba`."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit") or not is_classifier(estimator):
        raise ValueError(
            f"second_opinion={estimator!r} is not a classifier; pass 'auto', None, or an unfitted scikit-learn "
            f"classifier such as LogisticRegression()"
        )
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"second_opinion={estimator!r} has no predict_proba; wrap it: CalibratedClassifierCV({estimator!r})"
        )


def _proper(p: Array) -> Array:
    """Probabilities above 0 that add up to 1; some models, such as those that count, predict exactly 0."""
    bounded = np.maximum(np.asarray(p, dtype=np.float64), 1e-6)
    return np.asarray(bounded / bounded.sum(axis=1, keepdims=True))
