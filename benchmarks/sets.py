"""The tables for comparisons of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification

from bayespatch import datasets

MISSING = 0.2  # share of the values of the multiclass table


class Table(NamedTuple):
    """A table whose columns are numbers or categories, and classes 0..M-1."""

    name: str
    X: pd.DataFrame
    y: np.ndarray


def table(name: str, X: pd.DataFrame, y: pd.Series | np.ndarray) -> Table:
    """A table in which everything except numbers is a category, with rows numbered from 0."""
    X = X.reset_index(drop=True)
    is_number = [pd.api.types.is_numeric_dtype(X[column]) and X[column].dtype != bool for column in X]
    kept = {c: X[c].astype(float) if number else X[c].astype("category")
            for c, number in zip(X, is_number, strict=True)}  # fmt: skip
    return Table(name, pd.DataFrame(kept), np.unique(np.asarray(y), return_inverse=True)[1])


def heart() -> Table:
    return table("heart", *datasets.load_heart())


def breast() -> Table:
    return table("breast", *datasets.load_breast())


def from_file(path: Path) -> Table:
    """A CSV file whose last column is the target; blank cells are missing."""
    found = pd.read_csv(path, keep_default_na=False, na_values=[""])
    if found.shape[1] < 2 or found.iloc[:, -1].isna().any():
        raise ValueError(f"{path}: pass a table with features and, last, a target without blanks")
    return table(path.stem, found.iloc[:, :-1], found.iloc[:, -1])


def multiclass() -> Table:
    """1,000 simulated cases of 4 classes, 30 features, a fifth of all values missing.

    scikit-learn's make_classification with 12 informative and 4 redundant columns among 30, two clusters per class; 10
    evenly spaced columns are cut at their quantiles into 2 to 5 categories.
    """
    shape = dict(n_samples=1000, n_features=30, n_informative=12, n_redundant=4, n_classes=4, n_clusters_per_class=2)
    values, y = make_classification(**shape, class_sep=1.5, random_state=0)
    X = pd.DataFrame(values).add_prefix("x")
    for k, name in enumerate(X.columns[::3]):
        X[name] = pd.qcut(X[name], 2 + k % 4, labels=list("abcde")[: 2 + k % 4])
    return table("multiclass", X.mask(np.random.default_rng(0).random(X.shape) < MISSING), y)
