"""The data for the benchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np

import bayespatch
from bayespatch.model import Data
from bayespatch.validation import check_data

N_VALUES = 3  # of every simulated feature
N_SOURCES = 10  # parents that a simulated case is pieced together from
NOISE = 0.3  # share of values that are not copied


def simulated_arrays(n_cases: int, n_parents: int, n_features: int, seed: int = 0) -> dict[str, Any]:
    """Patchworks: each value of a case is copied from one of its 10 parents, or is noise. Arguments of `sample`.

    With a single parent per case, the number of neighbors would depend on the number of features (10 at P=4, 2 at
    P=48), so costs could not be compared.
    """
    rng = np.random.default_rng(seed)
    x_parents = rng.integers(0, N_VALUES, (n_parents, n_features))
    y_parents = rng.integers(0, 2, n_parents)
    sources = rng.integers(0, n_parents, (n_cases, N_SOURCES))
    source = np.take_along_axis(sources, rng.integers(0, N_SOURCES, (n_cases, n_features)), axis=1)
    noise = rng.integers(0, N_VALUES, (n_cases, n_features))
    x = np.where(rng.random((n_cases, n_features)) < NOISE, noise, x_parents[source, np.arange(n_features)])
    y = np.where(rng.random(n_cases) < NOISE, rng.integers(0, 2, n_cases), y_parents[sources[:, 0]])
    return dict(x=x, y=y, x_parents=x_parents, y_parents=y_parents, n_values=np.full(n_features, N_VALUES), n_classes=2)


def simulated(n_cases: int, n_parents: int, n_features: int) -> Data:
    """The same as `Data`, for an engine."""
    return check_data(**simulated_arrays(n_cases, n_parents, n_features))


def heart(n_cases: int | None = None, n_parents: int | None = None) -> dict[str, Any]:
    """The bundled heart data, complete rows, in the paper's bins: arguments of `sample`.

    Without sizes, every row is a case and a parent of all other cases. With sizes, parents and cases are disjoint
    random rows.
    """
    X, y = bayespatch.datasets.load_heart(discretize="paper")
    complete = ~X.isna().any(axis=1)
    X, outcomes = X[complete], y[complete].to_numpy()
    codes = X.apply(lambda column: column.cat.codes).to_numpy(float)
    same: dict[str, Any] = dict(n_values=[len(X[name].cat.categories) for name in X.columns], n_classes=2)
    if n_parents is None:
        return dict(x=codes, y=outcomes, x_parents=codes, y_parents=outcomes, exclude_self=True, **same)
    order = np.random.default_rng(0).permutation(len(codes))
    parents, rest = order[:n_parents], order[n_parents:]
    cases = rest if n_cases is None else rest[:n_cases]
    return dict(x=codes[cases], y=outcomes[cases], x_parents=codes[parents], y_parents=outcomes[parents], **same)
