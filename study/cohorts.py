"""The patients in the study: rows of tables, and their split into folds."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespatch.datasets import load_breast, load_heart, load_readmission
from bayespatch.encode import Schema
from bayespatch.validation import check_count

Frame = Any  # a pandas data frame from `datasets`
Column = Any  # a column of a data frame
READMISSION_SIZE = 500


@dataclass(frozen=True)
class Cohort:
    """Patients and their outcomes.

    Attributes
    ----------
    name, title : str
        Name for files and title for readers.
    X : DataFrame (n, P)
    y : int array (n,)
        1 if the condition is present.
    condition : str
        The meaning of 1.
    n_parents : int
        Number of parents in the paper.
    """

    name: str
    title: str
    X: Frame
    y: NDArray[np.int64]
    condition: str
    n_parents: int = 80

    def folds(self, n_folds: int, seed: int) -> list[Fold]:
        """Stratified folds, the same for all methods, so that differences are paired."""
        from sklearn.model_selection import StratifiedKFold

        split = StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(self.X, self.y)
        return [Fold(self, k, train, test, seed) for k, (train, test) in enumerate(split)]

    def only(self, features: list[str]) -> Cohort:
        """The same patients with only some of the features."""
        return Cohort(self.name, self.title, self.X[features], self.y, self.condition, self.n_parents)


@dataclass(frozen=True)
class Fold:
    """A split of a cohort, with the patients in the forms that methods need."""

    cohort: Cohort
    number: int
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    seed: int

    @property
    def X_train(self) -> Frame:
        """The training table."""
        return self.cohort.X.iloc[self.train]

    @property
    def X_test(self) -> Frame:
        """The table to predict."""
        return self.cohort.X.iloc[self.test]

    @property
    def y_train(self) -> NDArray[np.int64]:
        """Outcomes of the training patients."""
        return self.cohort.y[self.train]

    @property
    def y_test(self) -> NDArray[np.int64]:
        """Outcomes that a method must not see."""
        return self.cohort.y[self.test]

    @property
    def method_seed(self) -> int:
        """The seed for a method, different in each fold."""
        return 1000 * self.seed + self.number

    @cached_property
    def schema(self) -> Schema:
        """The coding of the columns, learned only from the training table."""
        return Schema.learn(self.X_train, self.y_train)

    @cached_property
    def codes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Codes of the training and test table; an unseen value has a unique code, and constant columns are 0."""
        both = (self.schema.encode(X).x for X in (self.X_train, self.X_test))
        return tuple(np.nan_to_num(x, nan=0.0).astype(np.int64) for x in both)  # type: ignore[return-value]

    @cached_property
    def numbers(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Both tables for numeric methods: one-hot categories, standardized numbers, missing values filled in."""
        transform = _numeric(self.X_train)
        return np.asarray(transform.fit_transform(self.X_train)), np.asarray(transform.transform(self.X_test))


def _numeric(X: Frame) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    amounts = [name for name in X.columns if X[name].dtype.kind in "iuf"]
    kinds = [name for name in X.columns if name not in amounts]
    return make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), amounts),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), kinds),
    )


def heart() -> Cohort:
    """The Cleveland data in the paper's bins: the 297 patients without missing values (the paper states 274).

    >>> len(heart().y)
    297
    """
    X, y = _complete(*load_heart(discretize="paper"))
    return Cohort("heart", "Heart disease", X, y.to_numpy().astype(np.int64), "heart disease")


def breast(seed: int) -> Cohort:
    """The Ljubljana data in the paper's bins: all 81 complete patients with recurrence and 81 of the 196 without.

    >>> int(breast(seed=0).y.sum()), len(breast(seed=0).y)
    (81, 162)
    """
    X, y = _complete(*load_breast(discretize="paper"))
    recurred = (y == "recurrence-events").to_numpy()
    rows = _balanced(recurred, int(recurred.sum()), np.random.default_rng(seed))
    return Cohort("breast", "Breast cancer", X.iloc[rows], recurred[rows].astype(np.int64), "recurrence")


def full_heart() -> Cohort:
    """All 303 patients of the Cleveland data, with the original values."""
    X, y = load_heart()
    return Cohort("heart-full", "Heart disease, all 303", X, y.to_numpy().astype(np.int64), "heart disease")


def full_breast() -> Cohort:
    """All 286 patients of the Ljubljana data, with the original values and class frequencies."""
    X, y = load_breast()
    recurred = (y == "recurrence-events").to_numpy().astype(np.int64)
    return Cohort("breast-full", "Breast cancer, all 286", X, recurred, "recurrence")


def readmission(path: str | os.PathLike[str], seed: int, size: int = READMISSION_SIZE) -> list[Cohort]:
    """Two disjoint samples of patients from the readmission table in the paper's bins.

    The paper's accuracies are the means of its sensitivities and specificities, so its samples must have been balanced,
    as these are. Only the first stay of each patient counts; patients with missing values are left out.
    """
    check_count("size", size, at_least=20)
    X, y = _complete(*load_readmission(path, discretize="paper"))
    first = ~X.index.get_level_values("patient_nbr").duplicated()
    X, readmitted = X[first].reset_index(drop=True), (y[first] == "readmitted").to_numpy()
    chosen = _balanced(readmitted, size, np.random.default_rng(seed))  # of each class: enough for two samples
    samples = []
    for number, rows in enumerate((chosen[0::2], chosen[1::2]), start=1):
        outcome = readmitted[rows].astype(np.int64)
        title = f"Readmission, sample {number}"
        samples.append(Cohort(f"readmission-{number}", title, X.iloc[rows], outcome, "readmission", n_parents=60))
    return samples


def _complete(X: Frame, y: Column) -> tuple[Frame, Column]:
    complete = X.notna().all(axis=1)
    return X[complete], y[complete]


def _balanced(positive: NDArray[np.bool_], n_each: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`n_each` rows of each class, class by class, in random order within a class."""
    classes = (np.flatnonzero(~positive), np.flatnonzero(positive))
    return np.concatenate([rng.permutation(rows)[:n_each] for rows in classes])
