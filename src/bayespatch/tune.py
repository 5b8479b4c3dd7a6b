"""Hyperparameters learned from the training data alone.

Which features tell something about the outcome, how continuous columns are best compared, and how many neighbors a case
should have: settings are compared by the **leave-one-out log score**, the mean log probability that the calibrated
votes of all other past cases give to the true class of a past case.

1. *Relevance.* A stand-in for the model that needs no sampling: every past case b votes on case i with weight
   ``exp(sum_j theta_j [x_ij agrees with x_bj])``. theta >= 0 is found by gradient ascent of its leave-one-out log
   score, shrunk towards a common value. Its score also chooses among the ways of coding the table.
2. *Priors.* A feature on which agreement should weigh ``exp(theta_j)`` times disagreement has that effect in the model
   if its importance is q_j with ``(1 - q + q R_agree) / (1 - q + q R_differ) = exp(theta_j)``, where R is the factor of
   a first neighbor's vote. The prior of q_j gets this mean, and the firmness of `FIRMNESS` observations: the sampler
   starts from what predicts and moves on from there.
3. *Trials.* With every importance at its prior mean, the model itself votes on the past cases under a few settings: a
   quick look at all, a longer one at the best (the same random numbers in all).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bayespatch.calibrate import Calibration
from bayespatch.model import Data, Hyperparameters, Model
from bayespatch.predict import review_cases

SETTINGS = ({"neighbors": 1.0}, {"neighbors": 2.0}, {"neighbors": 4.0}, {"neighbors": 2.0, "lam0": 0.5})
BASE = Hyperparameters(lam0=0.1, sigma2=50.0)
FIRMNESS = 2000.0  # observations that the prior of a feature's importance is worth
SHRINKAGE = 0.3  # standard deviation of theta_j around their mean
N_DRAWS_FIRST, N_DRAWS_LAST, N_LAST = 40, 200, 2  # votes in the first look and in the last, and settings in the last
MAX_REVIEWED = 1000  # cases in a trial
MAX_COMPARED = 2**24  # numbers that the stand-in compares: cases x parents x features
_LEAST = 0.01  # of the stand-in's votes goes to the frequencies of the classes; also the least distance of q from 0, 1


class Trial(NamedTuple):
    """One setting that was tried.

    Attributes
    ----------
    coding : str
        How columns of numbers were compared.
    judge : {"stand-in", "first look", "last look"}
        Who gave the score; scores of one judge can be compared.
    neighbors : float
        Expected number of neighbors of a case; 0 for the stand-in, in which all vote.
    lam0 : float
        Base rate of the values; 0 for the stand-in.
    score : float
        Leave-one-out log score; the higher the better.
    """

    coding: str
    judge: str
    neighbors: float
    lam0: float
    score: float


@dataclass(frozen=True)
class Tuning:
    """What was tried and what was chosen.

    Attributes
    ----------
    coding : str
        The chosen coding.
    hyper : Hyperparameters
        The chosen constants.
    trials : tuple of Trial
        Everything that was tried, in order.
    """

    coding: str
    hyper: Hyperparameters
    trials: tuple[Trial, ...]

    def to_frame(self) -> Any:
        """The trials as a pandas data frame."""
        import pandas as pd

        return pd.DataFrame(self.trials, columns=list(Trial._fields))


class _Fixed(NamedTuple):
    """Importances that are not drawn but given, in the shape of a posterior."""

    model: Model
    q: NDArray[np.float64]
    q_tilde: NDArray[np.float64]
    seed: int
    n_chains: int
    n_draws: int


def tune(
    codings: Mapping[str, Data],
    model: Model,
    *,
    by_outcome: bool = True,
    settings: Sequence[Mapping[str, float]] = SETTINGS,
    seed: int = 0,
    n_threads: int = 1,
    report: Any = None,
) -> Tuning:
    """Choose a coding and hyperparameters by the leave-one-out log score.

    Parameters
    ----------
    codings : dict of Data
        The past cases and parents under each way of coding the table, by name, with their labels.
    model : Model
        The kind and the likelihood; of its constants mu is kept.
    by_outcome : bool
        False: the features' importance is not learned from the outcome, all have the same prior.
    settings : sequence of dict
        What to try: "neighbors", and constants of `Hyperparameters`.
    seed, n_threads : int
        As elsewhere; the result does not depend on the threads.
    report : callable, optional
        Told how many of `n_steps` steps are done.

    Returns
    -------
    Tuning

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.integers(3, size=(60, 2)).astype(float)
    >>> past = Data(x, (x[:, 0] > 0).astype(int), x, (x[:, 0] > 0).astype(int), np.array([3.0, 3.0]), 2,
    ...             np.zeros(2), np.arange(60))
    >>> tuning = tune({"codes": past}, Model())
    >>> [trial.judge for trial in tuning.trials]
    ['stand-in', 'first look', 'first look', 'first look', 'first look', 'last look', 'last look']
    >>> len(tuning.hyper.gamma)  # a prior for each feature
    2
    """
    tell = report or (lambda done: None)
    rng = np.random.default_rng(seed)
    trials: list[Trial] = []
    found = {}
    for name, data in codings.items():
        found[name], score = learn_relevance(data, rng)
        trials.append(Trial(name, "stand-in", 0.0, 0.0, score))
        tell(len(trials))
    coding = max(trials, key=lambda trial: trial.score).coding
    data, theta = codings[coding], found[coding] if by_outcome else None

    def judged(judge: str, hyper: Hyperparameters, n_draws: int) -> Trial:
        score = score_of(data, replace(model, hyper=hyper), seed, n_draws, n_threads)
        trials.append(Trial(coding, judge, float(hyper.alpha * len(data.x_parents)), float(hyper.lam0), score))
        tell(len(trials))
        return trials[-1]

    candidates = [constants(data, theta, model.hyper, **setting) for setting in settings]
    first = [judged("first look", hyper, N_DRAWS_FIRST) for hyper in candidates]
    order = sorted(range(len(first)), key=lambda k: -first[k].score)[:N_LAST]
    last = [judged("last look", candidates[k], N_DRAWS_LAST) for k in order]
    best = max(range(len(last)), key=lambda k: last[k].score)
    return Tuning(coding, candidates[order[best]], tuple(trials))


def n_steps(n_codings: int, settings: Sequence[Mapping[str, float]] = SETTINGS) -> int:
    """How many steps `tune` reports."""
    return n_codings + len(settings) + min(N_LAST, len(settings))


# The stand-in


def learn_relevance(data: Data, rng: np.random.Generator) -> tuple[NDArray[np.float64], float]:
    """theta (P,), and the leave-one-out log score of the votes under it."""
    cases, parents = _compared(data, rng)
    n_features = data.x.shape[1]
    agree = _agreement(data, cases, parents).reshape(-1, n_features)
    y, y_parents = data.y[cases], data.y_parents[parents]
    allowed = data.own_parent[cases][:, None] != parents
    same = (y[:, None] == y_parents).astype(np.float32)
    asking, asked, here = (
        np.bincount(classes, minlength=data.n_classes) / len(classes) for classes in (data.y, data.y_parents, y_parents)
    )
    # A class that has more of the parents than of the cases (balanced parents) would be heard too often.
    as_often = np.maximum(asking, _LEAST) / np.maximum(asked, _LEAST)
    heard = np.log(as_often)[y_parents].astype(np.float32)
    frequency = _LEAST * (here * as_often / (here * as_often).sum())[y]

    def votes(theta: NDArray[np.float64]) -> NDArray[np.float32]:
        log = (agree @ theta.astype(np.float32)).reshape(same.shape) + heard
        log = np.where(allowed, log, -np.inf)
        weight = np.exp(log - log.max(axis=1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def loss(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        share = votes(theta)
        right = (share * same).sum(axis=1)
        p = (1.0 - _LEAST) * right + frequency
        slope = (1.0 - _LEAST) * share * (same - right[:, None]) / p[:, None]
        apart = theta - theta.mean()
        value = 0.5 * (apart**2).sum() / SHRINKAGE**2 - np.log(p).sum()
        return float(value), apart / SHRINKAGE**2 - (agree.T @ slope.ravel()).astype(np.float64)

    start = np.ones(n_features)
    theta = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, 6.0)] * n_features).x
    p = (1.0 - _LEAST) * (votes(theta) * same).sum(axis=1) + frequency
    return theta, float(np.log(p).mean())


def _compared(data: Data, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which cases and which parents: all, or so many, at random, that memory stays within bounds."""
    n_cases, n_parents, n_features = len(data.x), len(data.x_parents), data.x.shape[1]
    most = max(16, int(np.sqrt(MAX_COMPARED / n_features)))
    if n_cases * n_parents * n_features <= MAX_COMPARED:
        return np.arange(n_cases), np.arange(n_parents)
    parents = rng.choice(n_parents, min(n_parents, most), replace=False)
    cases = rng.choice(n_cases, min(n_cases, max(16, MAX_COMPARED // (len(parents) * n_features))), replace=False)
    return np.sort(cases), np.sort(parents)


def _agreement(data: Data, cases: NDArray[np.int64], parents: NDArray[np.int64]) -> NDArray[np.float32]:
    """(n, S, P): 1 where values agree, 0 where not; where one is missing, how often others agree."""
    x, x_parents = data.x[cases], data.x_parents[parents]
    agree = np.empty((len(cases), len(parents), x.shape[1]), dtype=np.float32)
    for j in range(x.shape[1]):
        apart = np.abs(x[:, j, None] - x_parents[:, j])
        unknown = np.isnan(apart)
        agree[:, :, j] = apart <= data.windows[j]
        if unknown.any():
            agree[unknown, j] = agree[~unknown, j].mean() if not unknown.all() else 0.0
    return agree


# The model


def constants(
    data: Data,
    theta: NDArray[np.float64] | None,
    given: Hyperparameters = BASE,
    neighbors: float = 2.0,
    **changes: float,
) -> Hyperparameters:
    """Hyperparameters with so many expected neighbors, and priors of the importances that follow theta."""
    alpha = min(0.5, neighbors / len(data.x_parents))
    hyper = replace(BASE, alpha=alpha, mu=given.mu, **changes)
    if theta is None:
        return hyper
    base = data.n_values * hyper.lam0
    r_agree = data.n_values * (hyper.lam0 + hyper.lam) / (base + hyper.lam)
    r_differ = base / (base + hyper.lam)
    odds = np.exp(theta)
    q = np.clip((odds - 1.0) / (r_agree - 1.0 - odds * (r_differ - 1.0)), _LEAST, 1.0 - _LEAST)
    q = np.where(data.n_values > 1, q, 0.5)  # a constant column: nothing to compare
    return replace(hyper, gamma=tuple((FIRMNESS * q).tolist()), sigma1=tuple((FIRMNESS * (1.0 - q)).tolist()))


def score_of(data: Data, model: Model, seed: int, n_draws: int, n_threads: int) -> float:
    """The leave-one-out log score of the model with every importance at its prior mean, votes calibrated."""
    n_parents, n_features = data.x_parents.shape
    gamma, sigma1 = model.hyper.q_prior(n_features)
    q = gamma / (gamma + sigma1)
    shape = (1, n_draws, n_features)
    fixed = _Fixed(
        model, np.broadcast_to(q, shape), np.broadcast_to(q, (1, n_draws, n_parents, n_features)), seed, 1, n_draws
    )
    review = review_cases(fixed, data, most=MAX_REVIEWED, n_draws=n_draws, n_threads=n_threads)
    y = data.y[review.rows]
    p = Calibration.learn(review.votes, y).apply(review.votes)
    return float(np.log(p[np.arange(len(y)), y]).mean())
