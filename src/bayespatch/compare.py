"""Beside the usual methods: how well a patchwork predicts a table, cross-validated, all methods on the same folds."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from bayespatch import metrics
from bayespatch.predict import UnseenValueWarning
from bayespatch.sampling.diagnostics import MixingWarning
from bayespatch.validation import check_count

Tell = Callable[[int, int, str], object]  # (fits done, fits in all, the method that is fitted)

# What is measured of classes, and of numbers.
MORE_IS_BETTER = {
    "AUC": True,
    "log loss": False,
    "Brier": False,
    "accuracy": True,
    "R2": True,
    "MAE": False,
    "RMSE": False,
}


_UNKNOWN = 1e-6  # the least probability of a class: nobody is punished without bound for one that a fold lacks


class Standing(NamedTuple):
    """How one method fared: each measure in each fold, and the seconds that its fits and predictions took.

    None for an opinion alone: it comes out of the fit of both.
    """

    method: str
    scores: dict[str, list[float]]
    seconds: float | None

    def mean(self, measure: str) -> float:
        """The mean over the folds, of those that have it."""
        return float(np.nanmean(self.scores[measure]))

    def deviation(self, measure: str) -> float:
        """The standard deviation over the folds."""
        return float(np.nanstd(self.scores[measure], ddof=1))

    def summary(self) -> dict[str, dict[str, float]]:
        """Mean and standard deviation of each measure, ready for JSON."""
        return {name: {"mean": self.mean(name), "sd": self.deviation(name)} for name in self.scores}


def compare(
    X: Any,
    y: Any,
    patchwork: Any,
    *,
    regression: bool = False,
    folds: int = 5,
    seed: int = 0,
    tell: Tell | None = None,
) -> list[Standing]:
    """Cross-validate a patchwork beside logistic regression, nearest neighbors, a random forest and the base rate.

    Parameters
    ----------
    X : pandas data frame
        The features.
    y : sequence
        Outcomes: classes, or numbers where `regression` is True.
    patchwork : PatchworkClassifier or PatchworkRegressor
        Not fitted.
    regression : bool
        Whether outcomes are numbers.
    folds : int
        The same for every method; in each the classes have the shares that they have in the table.
    seed : int
        Of the folds and of the methods that draw.
    tell : function, optional
        Called with how far it is.

    Returns
    -------
    list of Standing
        The patchwork first; one with a second opinion is followed by what each of its opinions says alone.
    """
    folds = check_count("folds", folds, at_least=2)
    outcomes = np.asarray(y)
    # Of classes with fewer cases than folds some folds learn nothing; all methods are then wrong about them alike.
    classes, counts = (None, [len(outcomes)]) if regression else np.unique(outcomes, return_counts=True)
    if folds > max(counts):
        raise ValueError(f"folds={folds} is more than the {max(counts)} cases of the commonest outcome; pass fewer")
    rivals = _number_methods(seed) if regression else _class_methods(seed)
    methods = {"patchwork": patchwork} | {name: make_pipeline(_numbers(), rival) for name, rival in rivals.items()}
    splitter = (KFold if regression else StratifiedKFold)(folds, shuffle=True, random_state=seed)
    parts = list(splitter.split(X, outcomes))
    measures = _number_measures if regression else _class_measures
    found = []
    for place, (name, method) in enumerate(methods.items()):
        scores: list[dict[str, dict[str, float]]] = []
        begun = time.perf_counter()
        for number, (train, test) in enumerate(parts):
            if tell is not None:
                tell(place * folds + number, len(methods) * folds, name)
            scores.append(_fold(method, X, outcomes, train, test, measures, classes))
        seconds = time.perf_counter() - begun
        for part, first in scores[0].items():
            table = {measure: [fold[part][measure] for fold in scores] for measure in first}
            found.append(Standing(f"{name}{part}", table, None if part else seconds))
    if tell is not None:
        tell(len(methods) * folds, len(methods) * folds, "done")
    return found


def _fold(
    method: Any,
    X: Any,
    y: NDArray[Any],
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    measures: Callable[[Any, Any, NDArray[Any], Any], dict[str, float]],
    classes: NDArray[Any] | None,
) -> dict[str, dict[str, float]]:
    """The measures of one fold: of what the method predicts, "", and of the opinions that it is made of."""
    with warnings.catch_warnings():
        # A rare value may lie in the test fold alone; and predictions settle before all importances have.
        warnings.simplefilter("ignore", UnseenValueWarning)
        warnings.simplefilter("ignore", MixingWarning)
        warnings.filterwarnings("ignore", "The least populated class")
        fitted = clone(method).fit(X.iloc[train], y[train])
        if classes is None or getattr(fitted, "pool_", None) is None:
            predicted = fitted.predict(X.iloc[test]) if classes is None else fitted.predict_proba(X.iloc[test])
            return {"": measures(fitted, predicted, y[test], classes)}
        said = fitted.predict_opinions(X.iloc[test])
        parts = {"": "pool", ": precedents alone": "precedents", ": second opinion alone": "additive"}
        return {part: measures(fitted, said[name], y[test], classes) for part, name in parts.items()}


def _class_measures(fitted: Any, predicted: NDArray[Any], y: NDArray[Any], classes: NDArray[Any]) -> dict[str, float]:
    probabilities = np.full((len(y), len(classes)), _UNKNOWN)
    probabilities[:, np.searchsorted(classes, fitted.classes_)] = np.maximum(predicted, _UNKNOWN)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    codes = np.searchsorted(classes, y)
    auc = metrics.auc(probabilities, codes)
    return {
        "AUC": float("nan") if auc is None else auc,
        "log loss": metrics.log_loss(probabilities, codes),
        "Brier": metrics.brier(probabilities, codes),
        "accuracy": metrics.accuracy(probabilities, codes),
    }


def _number_measures(fitted: object, predicted: NDArray[Any], y: NDArray[Any], classes: object) -> dict[str, float]:
    return {
        "R2": float(r2_score(y, predicted)),
        "MAE": float(mean_absolute_error(y, predicted)),
        "RMSE": float(root_mean_squared_error(y, predicted)),
    }


def _class_methods(seed: int) -> dict[str, Any]:
    return {
        "logistic regression": LogisticRegression(max_iter=2000),
        "nearest neighbors (15)": KNeighborsClassifier(15),
        "random forest": RandomForestClassifier(100, random_state=seed),
        "base rates": DummyClassifier(strategy="prior"),
    }


def _number_methods(seed: int) -> dict[str, Any]:
    return {
        "linear regression": Ridge(),
        "nearest neighbors (15)": KNeighborsRegressor(15),
        "random forest": RandomForestRegressor(100, random_state=seed),
        "the mean": DummyRegressor(),
    }


def _numbers() -> Any:
    """Columns as the usual methods need them: numbers filled in and scaled, everything else one-hot."""
    scaled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    return make_column_transformer(
        (scaled, make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    )
