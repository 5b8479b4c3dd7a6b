"""Tiny problems whose posterior can be summed exactly, one for each thing that a sampler can get wrong."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

from bayespatch.model import HIDDEN, Data, Hyperparameters

Problem = tuple[Data, Hyperparameters]
NAN = np.nan


class GivenDraws(SimpleNamespace):
    """What predictions read of a posterior."""

    __hash__ = object.__hash__


def make_data(x, y, x_parents, y_parents, n_values, n_classes=2, windows=None, own_parent=None) -> Data:
    """Data from nested lists; windows of 0 and no case among the parents unless said otherwise."""
    x = np.asarray(x, dtype=np.float64)
    return Data(
        x=x,
        y=np.asarray(y, dtype=np.int64),
        x_parents=np.asarray(x_parents, dtype=np.float64),
        y_parents=np.asarray(y_parents, dtype=np.int64),
        n_values=np.asarray(n_values, dtype=np.float64),
        n_classes=n_classes,
        windows=np.zeros(x.shape[1]) if windows is None else np.asarray(windows, dtype=np.float64),
        own_parent=np.full(len(x), -1) if own_parent is None else np.asarray(own_parent, dtype=np.int64),
    )


def unsupervised(data: Data) -> Data:
    """The same problem with all labels hidden."""
    return data._replace(y=np.full_like(data.y, HIDDEN))


def random_data(seed, n_cases, n_parents, n_features, n_classes=2, missing=0.15, hidden=0.2, itself=False) -> Data:
    """Data of all sorts: codes and, in every third feature, numbers that agree within a window; values missing, labels
    hidden. `itself`: the first parents are the cases, where there are as many."""
    rng = np.random.default_rng(seed)
    n_values = rng.choice([2, 3, 5], n_features).astype(np.float64)
    in_window = np.arange(n_features) % 3 == 2
    windows = np.where(in_window, 0.7, 0.0)
    x_parents = rng.random((n_parents, n_features)) * n_values
    x = rng.random((n_cases, n_features)) * n_values
    x_parents, x = (np.where(in_window, values, np.floor(values)) for values in (x_parents, x))
    y_parents, y = rng.integers(0, n_classes, n_parents), rng.integers(0, n_classes, n_cases)
    own_parent = np.full(n_cases, -1)
    if itself:
        n = min(n_cases, n_parents)
        x[:n], y[:n], own_parent[:n] = x_parents[:n], y_parents[:n], np.arange(n)
    x[rng.random(x.shape) < missing] = NAN
    x_parents[rng.random(x_parents.shape) < missing] = NAN
    y[rng.random(n_cases) < hidden] = HIDDEN
    return make_data(x, y, x_parents, y_parents, n_values, n_classes, windows, own_parent)


def binary() -> Problem:
    data = make_data([[0, 1], [1, 1]], [0, 1], [[0, 1], [1, 0]], [0, 1], [2, 2])
    hyper = Hyperparameters(alpha=0.4, lam0=0.3, lam=1.5, mu0=0.3, mu=1.0, gamma=2, sigma1=1.5, sigma2=2, tau=2)
    return data, hyper


def many_values() -> Problem:
    """V_j of 2, 3 and 5, another weight of a vote for each class, and another prior of q for each feature."""
    data = make_data([[0, 2, 4], [1, 2, 3]], [0, 1], [[0, 2, 3], [1, 0, 4]], [0, 1], [2, 3, 5])
    hyper = Hyperparameters(
        alpha=0.3,
        lam0=0.2,
        lam=1.2,
        mu0=0.4,
        mu=(0.5, 2.5),
        gamma=(1.2, 0.7, 3.0),
        sigma1=(0.8, 1.5, 2.0),
        sigma2=3,
        tau=1.5,
        sigma3=0.7,
    )
    return data, hyper


def exclude_self() -> Problem:
    """Every case is a candidate parent of the others."""
    x, y = [[0, 1], [0, 2], [1, 1]], [0, 0, 1]
    data = make_data(x, y, x, y, [2, 3], own_parent=[0, 1, 2])
    hyper = Hyperparameters(alpha=0.35, lam0=0.25, lam=2, mu0=0.5, mu=1.5, gamma=1.5, sigma1=1, sigma2=1.5, sigma3=2)
    return data, hyper


def windows() -> Problem:
    """Continuous values that agree within a window; numbers of values that are not whole."""
    data = make_data(
        [[0.2, 5.0], [0.9, 3.1]], [1, 0], [[0.25, 4.2], [0.8, 3.0]], [1, 0], [3.7, 2.6], windows=[0.1, 1.0]
    )
    hyper = Hyperparameters(alpha=0.3, lam0=0.3, lam=1, mu0=0.2, mu=0.8, gamma=2.5, sigma1=2, sigma2=4, tau=3, sigma3=2)
    return data, hyper


def missing() -> Problem:
    """A value missing in a case, another in a parent, and a feature missing in both."""
    data = make_data([[0, NAN], [1, 1]], [0, 1], [[NAN, 1], [1, NAN]], [0, 1], [2, 3])
    hyper = Hyperparameters(alpha=0.4, lam0=0.15, lam=1.5, mu0=(0.6, 0.2), mu=(2.0, 0.7), gamma=1.5, sigma1=1, sigma2=2)
    return data, hyper


def hidden_label() -> Problem:
    """One label is known, another is not; three classes; P = 1."""
    data = make_data([[0], [1], [0]], [2, HIDDEN, 0], [[0], [1]], [2, 0], [3], n_classes=3)
    hyper = Hyperparameters(
        alpha=0.45, lam0=0.3, lam=2, mu0=(0.2, 0.5, 0.1), mu=(1.0, 3.0, 0.5), gamma=0.8, sigma1=1.2, sigma2=1
    )
    return data, hyper


def one_class() -> Problem:
    data = make_data([[0, 1], [1, 0]], [0, 0], [[0, 1], [1, 1]], [0, 0], [2, 2], n_classes=1)
    hyper = Hyperparameters(alpha=0.25, lam0=0.5, lam=2, mu0=0.5, mu=2, gamma=3, sigma1=2, sigma2=6, tau=0.8)
    return data, hyper


def one_parent() -> Problem:
    """S = 1, and two equal cases."""
    data = make_data([[0, 1], [0, 1], [1, 2]], [0, 0, 1], [[0, 1]], [0], [2, 3])
    hyper = Hyperparameters(alpha=0.4, lam0=0.4, lam=1, mu0=0.3, mu=1, gamma=1, sigma1=1, sigma2=2)
    return data, hyper


def one_case() -> Problem:
    """N = 1, three parents, two of them of the same class."""
    data = make_data([[0, 3]], [1], [[0, 3], [1, 3], [0, 0]], [1, 0, 1], [2, 5])
    hyper = Hyperparameters(alpha=0.3, lam0=0.1, lam=1, mu0=0.2, mu=1, gamma=0.7, sigma1=0.9, sigma2=5, tau=2, sigma3=3)
    return data, hyper


def equal_cases() -> Problem:
    """N = 5 cases that nothing tells apart, one parent: the spread of q shows whether they are independent."""
    data = make_data([[0]] * 5, [0] * 5, [[0]], [0], [2])
    hyper = Hyperparameters(alpha=0.5, lam0=1, lam=1, mu0=1, mu=1, gamma=0.5, sigma1=1.5, sigma2=1)
    return data, hyper


def small_shapes() -> Problem:
    """Shapes of Beta distributions below 1: most q and q-tilde are close to 0 or to 1."""
    data = make_data([[0, 1], [1, 2]], [0, 1], [[0, 1], [1, 0]], [0, 1], [2, 3])
    hyper = Hyperparameters(
        alpha=0.4, lam0=0.3, lam=1.5, mu0=0.3, mu=1, gamma=0.4, sigma1=0.5, sigma2=0.3, tau=0.6, sigma3=0.4
    )
    return data, hyper


def crowd() -> Problem:
    """Several neighbors at a time, and their votes weigh much: sums over w have many terms."""
    data = make_data([[0, 1], [1, 1]], [0, 1], [[0, 1], [1, 1], [0, 0]], [0, 1, 0], [2, 3])
    hyper = Hyperparameters(
        alpha=0.55, lam0=0.1, lam=2, mu0=0.1, mu=2, gamma=0.6, sigma1=0.7, sigma2=0.5, tau=0.4, sigma3=0.4
    )
    return data, hyper


def rare_influence() -> Problem:
    """Few kappa are large, and those that are matter much: most candidates for kappa are poor."""
    data = make_data([[0, 1], [0, 2]], [0, 1], [[0, 1], [1, 2]], [0, 1], [6, 8])
    hyper = Hyperparameters(
        alpha=0.25, lam0=0.05, lam=4, mu0=0.1, mu=2, gamma=2, sigma1=1, sigma2=2, tau=0.12, sigma3=1.5
    )
    return data, hyper


PROBLEMS: dict[str, Callable[[], Problem]] = {
    problem.__name__: problem
    for problem in (
        binary,
        many_values,
        exclude_self,
        windows,
        missing,
        hidden_label,
        one_class,
        one_parent,
        one_case,
        equal_cases,
        small_shapes,
        crowd,
        rare_influence,
    )
}


# Arguments of `sample`, for tests that do not ask whether it is right.
TO_SAMPLE = {
    "x": [[0, 1], [1, 2], [0, 0]],
    "y": [0, 1, 1],
    "x_parents": [[0, 1], [1, 0], [1, 1], [0, 2]],
    "y_parents": [0, 1, 1, 0],
    "n_values": [2, 3],
    "n_classes": 2,
}
