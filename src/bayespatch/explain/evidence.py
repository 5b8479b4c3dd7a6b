"""What counts: how much each value of a past case says that it is a neighbor, beyond what is usual.

Through feature j alone, past case b is a neighbor of a case with a probability proportional to

    f_bj = q_bj (c1 + lam [agree]) / (c2 + lam) + (1 - q_bj) c1 / c2,

the likelihood of the case's value with b as its only neighbor, q_bj the posterior mean of the importance of that
feature of b. Its weight is log f_bj less the mean of log f over all past cases: agreeing in something that nearly all
have in common, or that hardly matters, has a weight near 0; what few others share and what matters has a high one.

What a value is worth to the prediction also depends on who shares it: where past cases of both outcomes do, it decides
nothing. The values that stand out are those of high weight in features that are worth most to this prediction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayespatch.encode import MISSING_NUMBER, Column
from bayespatch.encode.column import bin_text, number_text
from bayespatch.encode.ranks import rank_codes
from bayespatch.explain.parts import Comparison
from bayespatch.model import Data, Model, feature_constants

HALF = 0.5  # of its positive weight: the fewest agreeing values that carry it stand out,
MOST_MARKED = 1 / 3  # but no more of the agreeing values than this


def agreement(x: NDArray[np.float64], cases: Data) -> NDArray[np.bool_]:
    """In which features each parent agrees with one case, (S, P); a missing value (NaN) agrees with nothing."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(cases.x_parents - x) <= cases.windows)


def log_factors(
    x: NDArray[np.float64], agrees: NDArray[np.bool_], cases: Data, model: Model, importance: NDArray[np.float64]
) -> NDArray[np.float64]:
    """log f of each value of each parent for one case, (S, P).

    Parameters
    ----------
    x : array of shape (P,)
        The case.
    agrees : bool array of shape (S, P)
        As `agreement` has it.
    cases : Data
        For the parents.
    model : Model
    importance : array of shape (S, P)
        Posterior means of q-tilde.
    """
    c1, c2 = (np.broadcast_to(constant, x.shape) for constant in feature_constants(cases, model))
    lam = float(model.hyper.lam)
    without = c1 / c2
    f = importance * (c1 + lam * agrees) / (c2 + lam) + (1.0 - importance) * without
    f = np.where(np.isnan(cases.x_parents) | np.isnan(x), without, f)
    return np.asarray(np.log(f))


def effects(model: Model, n_values: NDArray[np.float64], importance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log odds ratio of being the neighbor between a past case that agrees in a feature and one that differs, (P,)."""
    hyper = model.hyper
    first = n_values * hyper.lam0
    agree = 1.0 - importance + importance * n_values * (hyper.lam0 + hyper.lam) / (first + hyper.lam)
    differ = 1.0 - importance + importance * first / (first + hyper.lam)
    return np.asarray(np.log(agree / differ))


def weights(log_f: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weight of each value of each parent, (S, P): `log_factors` beyond what is usual."""
    return np.asarray(log_f - log_f.mean(axis=0))


def votes_without_values(
    log_f: NDArray[np.float64],
    shares: NDArray[np.float64],
    y_parents: NDArray[np.int64],
    votes: NDArray[np.float64],
    n_neighbors: float,
) -> NDArray[np.float64]:
    """What the votes would be if one value of the case were not known, each feature in turn, (P, M): an approximation.

    Each parent's votes are divided by what the value contributes to its being a neighbor. Where a case has several
    neighbors at a time, they explain a value together and each in part: the contribution is f to the power of one over
    their number. `benchmarks/explanations.py` compares this with predictions without the value.

    Parameters
    ----------
    log_f : array of shape (S, P)
        From `log_factors`.
    shares : array of shape (S,)
        Share of each parent in all votes.
    y_parents : int array of shape (S,)
    votes : array of shape (M,)
        For each class; what is not cast by the parents are the base rates', which stay.
    n_neighbors : float
        How many neighbors the case has on average.
    """
    classes = np.eye(len(votes))[y_parents]
    total = float(shares.sum())
    without = shares[:, None] * np.exp(-(log_f - log_f.min(axis=0)) / max(1.0, n_neighbors))
    without *= total / np.maximum(without.sum(axis=0), 1e-300)
    return np.asarray(np.maximum(votes - shares @ classes, 0.0) + without.T @ classes)


def mark(weight: NDArray[np.float64], worth: NDArray[np.float64], agrees: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of the values of one past case stand out, (P,).

    A value counts by its weight, where that is positive, times what its feature is worth to the prediction. Marked are
    the fewest agreeing values that together carry half of this, and at most a third of those that agree (one, where
    fewer than three do).

    Parameters
    ----------
    weight : array of shape (P,)
        Of the values of this past case, from `weights`.
    worth : array of shape (P,)
        By how much the probability would change without the case's value.
    agrees : bool array of shape (P,)

    Examples
    --------
    >>> mark(np.array([2.0, 0.1, 0.2, -1.0]), np.full(4, -0.1), np.array([True, True, True, False]))
    array([ True, False, False, False])
    """
    counts = np.where(agrees, np.maximum(weight, 0.0), 0.0) * np.abs(worth)
    marked = np.zeros(len(weight), dtype=np.bool_)
    total = float(counts.sum())
    if total <= 0.0:
        return marked
    order = np.argsort(-counts, kind="stable")
    enough = int(np.searchsorted(np.cumsum(counts[order]), HALF * total)) + 1
    marked[order[: min(enough, max(1, int(MOST_MARKED * agrees.sum())))]] = True
    return marked & (counts > 0.0)


def comparison(agrees: bool, own: str, other: str, missing: str = "missing") -> Comparison:
    """How two values stand to each other, by their texts and whether the model takes them for alike.

    Examples
    --------
    >>> comparison(True, "58", "58"), comparison(True, "58", "61"), comparison(False, "missing", "missing")
    ('same', 'close', 'missing')
    """
    if own == other == missing:
        return "missing"
    if not agrees:
        return "different"
    return "same" if own == other else "close"


def close_range(column: Column, code: float, number: float) -> str | None:
    """Which numbers count as close to a case's; None where only equal values agree, or where it has none.

    Parameters
    ----------
    column : Column
    code, number : float
        The case's code, and its number itself.

    Examples
    --------
    >>> close_range(Column("age", "binned", "number", edges=(45.0, 55.0)), 1.0, 50.0)
    '45-55'
    >>> close_range(Column("age", "windowed", "number", window=5.0, low=30.0, high=80.0), 50.0, 50.0)
    '45 to 55'
    """
    if column.is_coded or not np.isfinite(number) or number <= MISSING_NUMBER:
        return None
    if column.kind == "binned":
        return bin_text(column.edges, int(code))
    if column.kind == "windowed":
        low, high = number - column.window, number + column.window
    else:
        knots = np.array([column.low, *column.knots, column.high])
        near = knots[np.abs(rank_codes(column.knots, knots) - code) <= column.window]
        inside = min(max(number, column.low), column.high)
        low, high = min([*near.tolist(), inside]), max([*near.tolist(), inside])
    return f"{number_text(float(f'{low:.6g}'))} to {number_text(float(f'{high:.6g}'))}"
