"""The usual alternatives to a patchwork, tuned as usual.

Every model gets the raw table (numbers with NaN, pandas categories) and one thread. Settings are
chosen by the log loss of a stratified 5-fold cross-validation within the training data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

Make = Callable[[pd.DataFrame, int], Any]  # the training table, a seed -> an estimator

MOST_CATEGORIES = 250  # of a column, in histogram gradient boosting; the rarest are taken together


def numbers_and_categories(X: pd.DataFrame) -> tuple[list[str], list[str]]:
    numbers = [name for name in X if pd.api.types.is_numeric_dtype(X[name])]
    return numbers, [name for name in X if name not in numbers]


def scaled(X: pd.DataFrame) -> Any:
    """Scale numbers, replace missing ones with the median, with an indicator; encode categories one-hot."""
    numbers, categories = numbers_and_categories(X)
    filled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    return make_column_transformer((filled, numbers), (OneHotEncoder(handle_unknown="ignore"), categories))


def tuned(estimator: Any, grid: dict[str, list[Any]], seed: int) -> GridSearchCV:
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return GridSearchCV(estimator, grid, scoring="neg_log_loss", cv=folds)


def logistic_regression(X: pd.DataFrame, seed: int) -> Any:
    model = make_pipeline(scaled(X), LogisticRegression(max_iter=5000))
    return tuned(model, {"logisticregression__C": np.logspace(-3, 2, 11).tolist()}, seed)


def forest(X: pd.DataFrame, seed: int) -> Any:
    return make_pipeline(scaled(X), RandomForestClassifier(500, random_state=seed))


def boosting(X: pd.DataFrame, seed: int) -> Any:
    numbers, categories = numbers_and_categories(X)
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=MOST_CATEGORIES)
    columns = make_column_transformer((codes, categories), ("passthrough", numbers))
    is_category = [True] * len(categories) + [False] * len(numbers)
    model = HistGradientBoostingClassifier(categorical_features=is_category, random_state=seed)
    return make_pipeline(columns, model)


RIVALS: dict[str, Make] = {
    "logistic regression": logistic_regression,
    "random forest": forest,
    "gradient boosting": boosting,
}
