"""The choice of a coding for numbers, and of constants for the size of a table, using only the training data.

Codings of a table are compared by their *evidence*: the log integral, over the importances, of the shrinkage prior
times the leave-one-out predictive likelihood (`importances`), in a Laplace approximation at the mode. No random numbers
are involved, so the choice does not depend on a seed.

The other constants are fixed. The expected number of neighbors of a case is `N_NEIGHBORS`. Leave-one-out scores are not
used for this choice, because with importances learned from the same table they favor too few neighbors for new cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.encode.table import DataFrame
from bayespatch.importances import LeaveOneOut
from bayespatch.model import LARGEST, SMALLEST_VOTE, Data, Hyperparameters, Model
from bayespatch.sampling.metropolis import Shape

N_NEIGHBORS = 4.0  # expected number for a case
BASE_VOTES = 0.2  # total for all classes, compared with 1 per neighbor
BASE = Hyperparameters(lam0=0.1, sigma2=50.0)
_LEAST_RATE = 1e-6  # base rate of a class without cases


class Trial(NamedTuple):
    """A coding that was tried.

    Attributes
    ----------
    coding : str
        How numeric columns were compared.
    evidence : float
        Log evidence per past case, without prior odds; higher is better.
    """

    coding: str
    evidence: float


@dataclass(frozen=True)
class Tuning:
    """The settings that were tried, and the chosen ones.

    Attributes
    ----------
    coding : str
        The chosen coding.
    hyper : Hyperparameters
        The chosen constants.
    trials : tuple of Trial
        All trials, in order.
    """

    coding: str
    hyper: Hyperparameters
    trials: tuple[Trial, ...]

    def to_frame(self) -> DataFrame:
        """The trials as a pandas data frame."""
        import pandas as pd

        return pd.DataFrame(self.trials, columns=list(Trial._fields))


def base_rates(
    y: NDArray[np.int64],
    n_classes: int,
    class_weight: NDArray[np.float64] | None = None,
    counts: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Frequencies of the classes, (M,), with class weights if any; if y is a sample, pass the `counts` of the classes.

    Examples
    --------
    >>> base_rates(np.array([0, 0, 0, 1]), 2)
    array([0.75, 0.25])
    >>> base_rates(np.array([0, 0, 0, 1]), 2, np.array([1.0, 3.0]))
    array([0.5, 0.5])
    """
    counts = np.bincount(y, minlength=n_classes) if counts is None else counts
    weighted = counts * (1.0 if class_weight is None else class_weight)
    rates = np.maximum(weighted / weighted.sum(), _LEAST_RATE)
    return rates / rates.sum()


def constants(data: Data, base: NDArray[np.float64]) -> Hyperparameters:
    """The constants for this number of parents and these base rates.

    Base votes are proportional to the base rates. If a class has a larger share of the parents than of the cases
    (balanced parents, class weights), its votes count less, so that the votes of random parents match the base rates.

    Examples
    --------
    >>> past = Data(np.zeros((4, 1)), np.array([0, 0, 0, 1]), np.zeros((2, 1)), np.array([0, 1]), np.ones(1), 2,
    ...             np.zeros(1), np.full(4, -1))
    >>> hyper = constants(past, np.array([0.75, 0.25]))
    >>> hyper.mu0, hyper.mu  # parents are balanced, cases are not
    ((0.15, 0.05), (1.5, 0.5))
    """
    counts = data.weight_by_class()
    n_parents = float(counts.sum())
    frequencies = np.maximum(counts / n_parents, 0.5 / n_parents)
    return replace(
        BASE,
        alpha=min(0.5, N_NEIGHBORS / n_parents),
        mu0=_allowed(BASE_VOTES * base),
        mu=_allowed(base / frequencies),
    )


def _allowed(votes: NDArray[np.float64]) -> tuple[float, ...]:
    """Votes clipped to the range of `Hyperparameters`, because class weights may make some of them too small."""
    return tuple(np.clip(votes, SMALLEST_VOTE, LARGEST).round(12).tolist())


def tune(
    codings: Mapping[str, Data],
    model: Model,
    base: NDArray[np.float64],
    class_weight: NDArray[np.float64] | None = None,
    report: Callable[[int], object] = lambda done: None,
    log_prior: Mapping[str, float] | None = None,
    n_threads: int = 1,
) -> tuple[Tuning, LeaveOneOut, Shape]:
    """Choose a coding by its evidence.

    Parameters
    ----------
    codings : dict of Data
        The labeled past cases and parents in each coding of the table, by name.
    model : Model
        The kind and the likelihood.
    base : array of shape (M,)
        Base rates of the classes.
    class_weight : array of shape (M,), optional
        Weight of the cases of each class.
    report : callable
        Called with the number of finished codings.
    log_prior : dict of floats, optional
        Log prior odds of codings; 0 by default.
    given : Hyperparameters, optional
        The constants; by default those of `constants`.
    n_threads : int
        Number of codings tried in parallel; it does not affect the result.

    Returns
    -------
    Tuning
        The chosen settings.
    LeaveOneOut, Shape
        The density of the importances with the chosen coding, and its shape.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.integers(3, size=(60, 2)).astype(float)
    >>> y = (x[:, 0] > 0).astype(int)
    >>> past = Data(x, y, x, y, np.array([3.0, 3.0]), 2, np.zeros(2), np.arange(60))
    >>> noise = past._replace(x=x[::-1], x_parents=x[::-1])
    >>> tuning, _, _ = tune({"as it is": past, "mixed up": noise}, Model(), np.array([0.4, 0.6]))
    >>> tuning.coding
    'as it is'
    """
    trials, by_coding, odds = [], {}, {}

    def tried(data: Data) -> tuple[Hyperparameters, LeaveOneOut, Shape]:
        hyper = constants(data, base)
        density = LeaveOneOut(data, replace(model, hyper=hyper), base, class_weight)
        return hyper, density, density.shape()

    with ThreadPoolExecutor(max(1, min(n_threads, len(codings)))) as pool:
        for name, (hyper, density, shape) in zip(codings, pool.map(tried, codings.values()), strict=True):
            _, log_determinant = np.linalg.slogdet(shape.factor)
            evidence = shape.log_density + log_determinant + 0.5 * len(shape.mode) * np.log(2.0 * np.pi)
            trials.append(Trial(name, float(evidence) / len(density.pairs.y)))
            by_coding[name] = hyper, density, shape
            odds[name] = float(evidence) + (log_prior or {}).get(name, 0.0)
            report(len(trials))
    best = max(odds, key=lambda name: odds[name])
    hyper, density, shape = by_coding[best]
    return Tuning(best, hyper, tuple(trials)), density, shape
