"""Cross-validated comparison of a patchwork with standard methods on the same folds."""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from bayespatch import metrics
from bayespatch.duplicates import RepeatedRowsWarning, duplicates_text, group_labels
from bayespatch.encode.table import DataFrame
from bayespatch.explain import OutOfRangeWarning
from bayespatch.predict import UnseenValueWarning
from bayespatch.sampling.diagnostics import MixingWarning
from bayespatch.source.columns import repeated_rows
from bayespatch.types import AnyArray
from bayespatch.validation import check_count

Tell = Callable[[int, int, str], object]  # (fits done, total fits, the method being fitted)

# Measure -> whether higher is better: for classes, then for numbers.
MORE_IS_BETTER = {
    "AUC": True,
    "average precision": True,
    "log loss": False,
    "Brier": False,
    "accuracy": True,
    "net benefit": True,
    "R2": True,
    "MAE": False,
    "RMSE": False,
}
N_TREES = 100  # trees of a random forest
INNER_FOLDS = 5  # folds of the cross-validation that tunes a method


_UNKNOWN = 1e-6  # smallest probability of a class: bounds the loss for a class that a fold lacks


class Standing(NamedTuple):
    """Results of one method: each measure in each fold, and the seconds for fits and predictions.

    None for a single opinion, which comes from the fit of both.
    """

    method: str
    scores: dict[str, list[float]]
    seconds: float | None

    def mean(self, measure: str) -> float:
        """The mean over the folds that have the measure."""
        return float(np.nanmean(self.scores[measure]))

    def deviation(self, measure: str) -> float:
        """The standard deviation over the folds."""
        return float(np.nanstd(self.scores[measure], ddof=1))

    def summary(self) -> dict[str, dict[str, float]]:
        """Mean and standard deviation of each measure, ready for JSON."""
        return {name: {"mean": self.mean(name), "sd": self.deviation(name)} for name in self.scores}


Setting: TypeAlias = float | str


class Rival(NamedTuple):
    """A standard method, and the settings from which cross-validation within each fold chooses."""

    estimator: BaseEstimator
    grid: dict[str, list[Setting]]


def compare(
    X: object,
    y: object,
    patchwork: object,
    *,
    folds: int = 5,
    seed: int = 0,
    groups: object = None,
    threshold: float | None = None,
    tell: Tell | None = None,
) -> list[Standing]:
    """Cross-validate a patchwork, logistic regression, nearest neighbors, a random forest and the base rate.

    The other methods are tuned in each fold, by cross-validation within its training cases. Average precision and net
    benefit refer to the rarer class, or are means over more than two classes.

    Parameters
    ----------
    X : pandas data frame
        The features.
    y : sequence
        Outcomes: classes, or numbers if the estimator is a regressor.
    patchwork : PatchworkClassifier or PatchworkRegressor
        An unfitted estimator.
    folds : int
        Number of folds; they are the same for every method and stratified by class.
    seed : int
        For the folds and for methods with random numbers.
    groups : sequence of length n, optional
        Rows with the same value, such as a patient's visits, are always in the same fold. Without it, rows that repeat
        each other more often than chance explains are kept together, with a `RepeatedRowsWarning`.
    threshold : float, optional
        The probability at which a class is flagged, for the net benefit; None: the class's share of the cases.
    tell : function, optional
        Called with the progress.

    Returns
    -------
    list of Standing
        The patchwork first, followed by each of its opinions alone, if it has a second opinion.
    """
    folds, regression = check_count("folds", folds, at_least=2), is_regressor(patchwork)
    if threshold is not None and not 0.0 < threshold < 1.0:
        raise ValueError(f"threshold={threshold!r} is not a probability; pass a number between 0 and 1")
    outcomes = np.asarray(y)
    if outcomes.dtype.names or (outcomes.ndim == 2 and outcomes.shape[1] > 1):
        raise ValueError(
            "compare supports one class or number in each row, but not times to an event; use the score of "
            "PatchworkSurvival on held-out rows instead"
        )
    if groups is None and (repeats := repeated_rows(X)):
        text = duplicates_text(repeats, len(outcomes))
        warnings.warn(
            f"{text}; they are kept in the same fold. Name the column of patients with --group (groups=... in Python), "
            f"or remove repeats",
            RepeatedRowsWarning,
            stacklevel=2,
        )
        groups = group_labels(repeats, len(outcomes))
    members = None if groups is None else _group_codes(groups, len(outcomes), folds)
    # If a class has fewer cases than folds, some training folds lack it; this affects all methods equally.
    classes, counts = (None, [len(outcomes)]) if regression else np.unique(outcomes, return_counts=True)
    if folds > max(counts):
        raise ValueError(
            f"folds={folds} is more than the {max(counts)} cases of the most common outcome; pass fewer folds"
        )
    rivals = _number_methods(seed) if regression else _class_methods(seed)
    methods = {"patchwork": Rival(patchwork, {}), **rivals}
    parts = _splits(outcomes, members, folds, seed, regression)
    table = Table(X, outcomes, members, classes, None if regression else _thresholds(counts, threshold))
    standings = []
    for place, (name, method) in enumerate(methods.items()):
        scores: list[dict[str, dict[str, float]]] = []
        begun = time.perf_counter()
        for number, (train, test) in enumerate(parts):
            if tell is not None:
                tell(place * folds + number, len(methods) * folds, name)
            scores.append(_fold(method, table, train, test, seed))
        seconds = time.perf_counter() - begun
        for part, first in scores[0].items():
            by_measure = {measure: [fold[part][measure] for fold in scores] for measure in first}
            standings.append(Standing(f"{name}{part}", by_measure, None if part else seconds))
    if tell is not None:
        tell(len(methods) * folds, len(methods) * folds, "done")
    return standings


class Table(NamedTuple):
    """Features and outcomes; `classes` and `thresholds` (one for each class) are None for numbers."""

    X: DataFrame
    y: AnyArray
    groups: NDArray[np.int64] | None
    classes: AnyArray | None
    thresholds: dict[int, float] | None


def _group_codes(groups: object, n: int, folds: int) -> NDArray[np.int64]:
    names, codes = np.unique(np.asarray(groups).astype(str), return_inverse=True)
    if len(codes) != n:
        raise ValueError(f"groups has length {len(codes)}, but there are {n} rows; pass one group for each row")
    if len(names) < folds:
        raise ValueError(f"folds={folds} is more than the {len(names)} groups; pass fewer folds")
    return np.asarray(codes, dtype=np.int64)


def _thresholds(counts: ArrayLike, threshold: float | None) -> dict[int, float]:
    """Code of each class that is flagged -> its threshold; of two classes, only the rarer one is flagged."""
    shares = np.asarray(counts) / np.sum(counts)
    called = range(len(shares)) if len(shares) != 2 else [int(len(shares) - 1 - np.argmin(shares[::-1]))]
    return {m: float(shares[m]) if threshold is None else threshold for m in called}


def _splits(
    y: AnyArray, groups: NDArray[np.int64] | None, folds: int, seed: int, regression: bool
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Training rows and test rows of each fold."""
    if groups is None:
        splitter = (KFold if regression else StratifiedKFold)(folds, shuffle=True, random_state=seed)
    else:
        splitter = (GroupKFold if regression else StratifiedGroupKFold)(folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")
        return list(splitter.split(np.zeros(len(y)), y, groups))


def _fold(
    method: Rival, table: Table, train: NDArray[np.int64], test: NDArray[np.int64], seed: int
) -> dict[str, dict[str, float]]:
    """The measures of one fold, for the prediction of the method ("") and for each of its opinions."""
    X, y, classes = table.X, table.y, table.classes
    with warnings.catch_warnings():
        # Rare and extreme values may occur only in the test fold, and predictions converge before all importances do.
        warnings.simplefilter("ignore", UnseenValueWarning)
        warnings.simplefilter("ignore", OutOfRangeWarning)
        warnings.simplefilter("ignore", MixingWarning)
        fitted = _fitted(method, table, train, seed)
        if classes is None:
            return {"": _number_measures(fitted.predict(X.iloc[test]), y[test])}
        if getattr(fitted, "pool_", None) is None:
            return {"": _class_measures(fitted, fitted.predict_proba(X.iloc[test]), y[test], table)}
        opinions = fitted.predict_opinions(X.iloc[test])
        parts = {"": "pool", ": precedents alone": "precedents", ": second opinion alone": "additive"}
        return {part: _class_measures(fitted, opinions[name], y[test], table) for part, name in parts.items()}


def _fitted(method: Rival, table: Table, train: NDArray[np.int64], seed: int) -> BaseEstimator:
    """Tune and fit the method on some rows, with their groups if it supports groups."""
    X, y = table.X.iloc[train], table.y[train]
    groups = None if table.groups is None else table.groups[train]
    estimator = clone(method.estimator)
    if not method.grid:
        takes_groups = groups is not None and "groups" in inspect.signature(estimator.fit).parameters
        return estimator.fit(X, y, groups=groups) if takes_groups else estimator.fit(X, y)
    most = len(y) if groups is None else len(np.unique(groups))
    if table.classes is not None:
        most = min(most, int(np.unique(y, return_counts=True)[1].max()))
    n_inner = min(INNER_FOLDS, most)
    if n_inner < 2:
        return estimator.fit(X, y)
    parts = _splits(y, groups, n_inner, seed, table.classes is None)
    smallest = min(len(inner) for inner, _ in parts)
    grid = {
        name: [
            value for value in values if isinstance(value, str) or not name.endswith("n_neighbors") or value <= smallest
        ]
        or [smallest]
        for name, values in method.grid.items()
    }
    score = "neg_mean_squared_error" if table.classes is None else _log_score
    return GridSearchCV(estimator, grid, cv=parts, scoring=score, error_score="raise").fit(X, y)


def _log_score(fitted: BaseEstimator, X: DataFrame, y: AnyArray) -> float:
    """Mean log probability of the outcomes; a class that was not learned has the smallest allowed probability."""
    p = np.maximum(fitted.predict_proba(X), _UNKNOWN)
    known = np.isin(y, fitted.classes_)
    place = np.searchsorted(fitted.classes_, y[known])
    scores = np.full(len(y), np.log(_UNKNOWN))
    scores[known] = np.log(p[known, place])
    return float(scores.mean())


def _class_measures(fitted: BaseEstimator, predicted: AnyArray, y: AnyArray, table: Table) -> dict[str, float]:
    classes, thresholds = table.classes, table.thresholds
    assert classes is not None
    assert thresholds is not None
    probabilities = np.full((len(y), len(classes)), _UNKNOWN)
    probabilities[:, np.searchsorted(classes, fitted.classes_)] = np.maximum(predicted, _UNKNOWN)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    codes = np.searchsorted(classes, y)
    auc = metrics.auc(probabilities, codes)
    precisions = [metrics.average_precision(probabilities[:, m], codes == m) for m in thresholds]
    known = [precision for precision in precisions if precision is not None]
    benefits = [metrics.net_benefit(probabilities[:, m], codes == m, at) for m, at in thresholds.items()]
    return {
        "AUC": float("nan") if auc is None else auc,
        "average precision": float(np.mean(known)) if known else float("nan"),
        "log loss": metrics.log_loss(probabilities, codes),
        "Brier": metrics.brier(probabilities, codes),
        "accuracy": metrics.accuracy(probabilities, codes),
        "net benefit": float(np.mean(benefits)),
    }


def _number_measures(predicted: AnyArray, y: AnyArray) -> dict[str, float]:
    return {
        "R2": float(r2_score(y, predicted)),
        "MAE": float(mean_absolute_error(y, predicted)),
        "RMSE": float(root_mean_squared_error(y, predicted)),
    }


_NEIGHBORS: dict[str, list[Setting]] = {"n_neighbors": [5, 15, 30, 60], "weights": ["uniform", "distance"]}
_FOREST: dict[str, list[Setting]] = {"min_samples_leaf": [1, 5, 15]}


def _class_methods(seed: int) -> dict[str, Rival]:
    return {
        "logistic regression": _rival(LogisticRegression(max_iter=2000), C=[0.001, 0.01, 0.1, 1.0, 10.0, 100.0]),
        "nearest neighbors": _rival(KNeighborsClassifier(), **_NEIGHBORS),
        "random forest": _rival(RandomForestClassifier(N_TREES, random_state=seed), **_FOREST),
        "base rates": _rival(DummyClassifier(strategy="prior")),
    }


def _number_methods(seed: int) -> dict[str, Rival]:
    return {
        "linear regression": _rival(Ridge(), alpha=[0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]),
        "nearest neighbors": _rival(KNeighborsRegressor(), **_NEIGHBORS),
        "random forest": _rival(RandomForestRegressor(N_TREES, random_state=seed), **_FOREST),
        "the mean": _rival(DummyRegressor()),
    }


def _rival(estimator: BaseEstimator, **grid: list[Setting]) -> Rival:
    """A method with the preprocessing that it needs, and the settings to try."""
    return Rival(
        Pipeline([("columns", _numbers()), ("method", estimator)]), {f"method__{name}": grid[name] for name in grid}
    )


def _numbers() -> ColumnTransformer:
    """Preprocessing for standard methods: numbers are imputed and scaled, all other columns one-hot encoded."""
    scaled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    return make_column_transformer(
        (scaled, make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    )
