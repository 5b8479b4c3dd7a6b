"""The paper's baseline classifiers: each is a function from a fold to the probabilities of its test cases."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from study.bcm import CaseModel, fit_cases
from study.cohorts import Fold

Floats = NDArray[np.float64]
Method = Callable[[Fold], Floats]

N_NEIGHBORS = (30, 20, 10, 5, 1)
N_TREES = (5, 10, 100)
N_BOOSTED = (100, 50, 10, 5)
RIDGE = 1e-3  # added to the diagonal of the discriminant's covariance, because one-hot columns are collinear


class WeightedDiscriminant(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A linear discriminant that supports case weights for AdaBoost, unlike scikit-learn's.

    It has two classes, weighted means and a common weighted covariance with a small ridge.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> WeightedDiscriminant().fit(X, y).predict([[0.5], [4.5]])
    array([0, 1])
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> WeightedDiscriminant:
        """Learn the means, the covariance and the separating plane."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
        weights = np.full(len(y), 1.0 / len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        self.classes_ = np.unique(y)
        if len(self.classes_) > 2:
            raise ValueError(f"y has {len(self.classes_)} classes; this discriminant separates two")
        members = [y == label for label in self.classes_]
        shares = np.array([weights[rows].sum() for rows in members]) / weights.sum()
        if len(members) < 2 or shares.min() <= 0.0:  # boosting has given one class no weight: nothing to separate
            self.coef_, self.intercept_ = np.zeros(X.shape[1]), float(np.argmax(shares)) - 0.5
            return self
        means = np.array([np.average(X[rows], axis=0, weights=weights[rows]) for rows in members])
        centered = X - means[(y == self.classes_[1]).astype(int)]
        covariance = (centered * weights[:, None]).T @ centered / weights.sum()
        covariance[np.diag_indices_from(covariance)] += RIDGE
        self.coef_ = np.linalg.solve(covariance, means[1] - means[0])
        self.intercept_ = float(np.log(shares[1] / shares[0]) - self.coef_ @ means.mean(axis=0))
        return self

    def decision_function(self, X: Any) -> Floats:
        """Log odds of the second class."""
        return np.asarray(np.asarray(X, dtype=np.float64) @ self.coef_ + self.intercept_)

    def predict(self, X: Any) -> Any:
        """The class on each case's side of the plane."""
        return self.classes_[np.minimum((self.decision_function(X) > 0.0).astype(int), len(self.classes_) - 1)]


def usual_classifiers(n_neighbors: tuple[int, ...] = N_NEIGHBORS) -> dict[str, Method]:
    """The classifiers of ``tab:comparison1`` except BCM, in the same order, by their names in `paper`.

    >>> list(usual_classifiers())[:3]
    ['logistic regression', 'KNN (30)', 'KNN (20)']
    """
    methods: dict[str, Method] = {"logistic regression": partial(classify, LogisticRegression(max_iter=2000))}
    for k in n_neighbors:
        methods[f"KNN ({k})"] = partial(nearest, k)
    for n in N_TREES:
        methods[f"random forest ({n})"] = partial(classify, RandomForestClassifier(n))
    methods["decision tree"] = partial(classify, DecisionTreeClassifier())
    methods["SVM"] = partial(classify, support_vectors())
    for n in N_BOOSTED:
        methods[f"AdaBoost ({n}, trees)"] = partial(classify, AdaBoostClassifier(n_estimators=n))
    for n in N_BOOSTED:
        weak = AdaBoostClassifier(WeightedDiscriminant(), n_estimators=n)
        methods[f"AdaBoost ({n}, discriminants)"] = partial(classify, weak)
    return methods


def support_vectors() -> Any:
    """A linear support vector machine (the default of Matlab, as in the paper) with margins mapped to probabilities."""
    return CalibratedClassifierCV(SVC(kernel="linear"), method="sigmoid", cv=5, ensemble=False)


def classify(estimator: Any, fold: Fold) -> Floats:
    """A scikit-learn classifier on one-hot categories and standardized numbers."""
    train, test = fold.numbers
    return _positive(_seeded(estimator, fold.method_seed).fit(train, fold.y_train), test)


def nearest(k: int, fold: Fold, by_distance: bool = False, weights: Floats | None = None) -> Floats:
    """K nearest neighbors by the number of features that differ (Hamming).

    Parameters
    ----------
    k : int
        Number of neighbors that vote.
    fold : Fold
        Training and test cases.
    by_distance : bool
        Whether votes are weighted by the inverse distance.
    weights : array of shape (P,), optional
        Weight of each feature in the distance.
    """
    train, test = fold.codes
    weights = np.ones(train.shape[1]) if weights is None else weights
    within = _distances(train, train, weights)
    knn = KNeighborsClassifier(
        min(k, len(train)), metric="precomputed", weights="distance" if by_distance else "uniform"
    )
    return _positive(knn.fit(within, fold.y_train), _distances(test, train, weights))


def case_model(model: CaseModel, n_sweeps: int, fold: Fold) -> dict[str, Floats]:
    """BCM's mixtures as features of a logistic regression and an SVM: name of the classifier -> probabilities."""
    train, test = fold.codes
    rng = np.random.default_rng([fold.method_seed, model.n_clusters])
    sizes = np.maximum(train.max(axis=0) + 1, 2)
    fitted = fit_cases(train, sizes, model, rng, n_sweeps)
    features, new = fitted.mixtures(train, rng), fitted.mixtures(test, rng)
    classifiers = {"logistic regression": LogisticRegression(max_iter=2000), "SVM": support_vectors()}
    return {name: _positive(classifier.fit(features, fold.y_train), new) for name, classifier in classifiers.items()}


def _distances(cases: NDArray[np.int64], others: NDArray[np.int64], weights: Floats) -> Floats:
    return (cases[:, None, :] != others) @ weights


def _positive(fitted: Any, X: Any) -> Floats:
    """The probability of class 1."""
    return np.asarray(fitted.predict_proba(X)[:, list(fitted.classes_).index(1)])


def _seeded(estimator: Any, seed: int) -> Any:
    """An unfitted copy, with this seed if the estimator accepts one."""
    from sklearn.base import clone

    fresh = clone(estimator)
    return fresh.set_params(random_state=seed) if "random_state" in fresh.get_params() else fresh
