"""The models that are compared: ours, and what people would use instead, tuned as people would.

Every model gets the raw table (numbers with NaN, pandas categories) and one thread. What is tuned is tuned by the log
loss of a stratified 5-fold cross-validation within the training data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import AdaBoostClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.naive_bayes import CategoricalNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from bayespatch import PatchworkClassifier
from bayespatch.encode import Schema

Make = Callable[[pd.DataFrame, int], Any]  # the training table, a seed -> an estimator
OURS, KNN = "patchwork", "KNN"
MOST_CATEGORIES = 250  # of a column, in histogram gradient boosting; the rarest are taken together


class Codes(TransformerMixin, BaseEstimator):
    """The codes of our own schema: quartiles of numbers, categories, missing as a value, values not seen before."""

    def fit(self, X: pd.DataFrame, y: Any = None) -> Codes:
        """Learn the schema."""
        self.schema_ = Schema.learn(X)
        return self

    def transform(self, X: pd.DataFrame) -> np.ndarray:
        """Rows of codes."""
        return self.schema_.encode(X).x


class CodedNB(CategoricalNB):
    """Naive Bayes on codes that leaves room for values that were not seen."""

    def fit(self, X: np.ndarray, y: Any, sample_weight: Any = None) -> CodedNB:
        """Count."""
        self.min_categories = X.max(axis=0).astype(int) + 3  # a missing value and another one may be new
        return super().fit(X, y, sample_weight)


def numbers_and_categories(X: pd.DataFrame) -> tuple[list[str], list[str]]:
    numbers = [name for name in X if pd.api.types.is_numeric_dtype(X[name])]
    return numbers, [name for name in X if name not in numbers]


def scaled(X: pd.DataFrame) -> Any:
    """Numbers scaled, medians for missing ones and a mark for it; categories one-hot, missing is one."""
    numbers, categories = numbers_and_categories(X)
    filled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    return make_column_transformer((filled, numbers), (OneHotEncoder(handle_unknown="ignore"), categories))


def tuned(estimator: Any, grid: dict[str, list[Any]], seed: int) -> GridSearchCV:
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return GridSearchCV(estimator, grid, scoring="neg_log_loss", cv=folds)


def ours(X: pd.DataFrame, seed: int, **parameters: Any) -> Any:
    return PatchworkClassifier(random_state=seed, n_jobs=1, **parameters)


def paper(X: pd.DataFrame, seed: int, **parameters: Any) -> Any:
    """The paper's preset; where 80 parents are more than half of the cases, half."""
    n_parents = None if parameters.get("parents") == "all" else min(80, len(X) // 2)
    return PatchworkClassifier.paper(n_parents=n_parents, random_state=seed, n_jobs=1, **parameters)


def logistic_regression(X: pd.DataFrame, seed: int) -> Any:
    model = make_pipeline(scaled(X), LogisticRegression(max_iter=5000))
    return tuned(model, {"logisticregression__C": np.logspace(-3, 2, 11).tolist()}, seed)


def nearest_neighbors(X: pd.DataFrame, seed: int) -> Any:
    model = make_pipeline(Codes(), KNeighborsClassifier(metric="hamming", algorithm="brute"))
    ks = [k for k in (3, 5, 7, 10, 15, 20, 30, 40, 60, 80, 120) if k < 0.7 * len(X)]
    return tuned(model, {"kneighborsclassifier__n_neighbors": ks}, seed)


def naive_bayes(X: pd.DataFrame, seed: int) -> Any:
    return make_pipeline(Codes(), CodedNB())


def tree(X: pd.DataFrame, seed: int) -> Any:
    model = make_pipeline(scaled(X), DecisionTreeClassifier(random_state=seed))
    grid = {"max_depth": [1, 2, 3, 4, 6, 8, None], "min_samples_leaf": [1, 5, 20]}
    return tuned(model, {f"decisiontreeclassifier__{name}": values for name, values in grid.items()}, seed)


def forest(X: pd.DataFrame, seed: int) -> Any:
    return make_pipeline(scaled(X), RandomForestClassifier(500, random_state=seed))


def adaboost(X: pd.DataFrame, seed: int) -> Any:
    return make_pipeline(scaled(X), AdaBoostClassifier(random_state=seed))


def support_vectors(X: pd.DataFrame, seed: int) -> Any:
    """Radial kernel; probabilities by a logistic curve on cross-validated margins (Platt)."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return make_pipeline(scaled(X), CalibratedClassifierCV(SVC(), cv=folds, ensemble=False))


def boosting(X: pd.DataFrame, seed: int) -> Any:
    numbers, categories = numbers_and_categories(X)
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=MOST_CATEGORIES)
    columns = make_column_transformer((codes, categories), ("passthrough", numbers))
    is_category = [True] * len(categories) + [False] * len(numbers)
    model = HistGradientBoostingClassifier(categorical_features=is_category, random_state=seed)
    return make_pipeline(columns, model)


def ebm(X: pd.DataFrame, seed: int) -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier

    kinds = ["continuous" if pd.api.types.is_numeric_dtype(X[name]) else "nominal" for name in X]
    model = ExplainableBoostingClassifier(feature_types=kinds, random_state=seed, n_jobs=1)
    return make_pipeline(FunctionTransformer(texts), model)


def texts(X: pd.DataFrame) -> pd.DataFrame:
    """Categories as texts, missing ones as None."""
    return X.apply(lambda c: c if c.dtype == float else c.astype(object).where(c.isna(), c.astype(str)))


def has_ebm() -> bool:
    return find_spec("interpret") is not None


MODELS: dict[str, Make] = {
    OURS: ours,
    "logistic regression": logistic_regression,
    KNN: nearest_neighbors,
    "naive Bayes": naive_bayes,
    "decision tree": tree,
    "random forest": forest,
    "AdaBoost": adaboost,
    "SVM": support_vectors,
    "gradient boosting": boosting,
    "EBM": ebm,
}

# From the paper to the defaults, one step at a time.
# With alpha = .5 half of the parents are neighbors of a case and a sweep takes a hundred times as long: shorter chains.
SLOW = dict(chains=2, draws=50, warmup=50)
ABLATION: dict[str, Make] = {
    "paper": partial(paper, likelihood="paper", **SLOW),
    "+ exact likelihood": partial(paper, likelihood="exact", **SLOW),
    "+ all parents": partial(paper, parents="all", **SLOW),
    "+ tuned": partial(ours, hyper="auto", calibrate=False),
    "+ calibrated (the defaults)": ours,
}
