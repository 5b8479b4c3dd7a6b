"""Scores of predicted probabilities, with intervals, curves and thresholds.

Scores come from scikit-learn; scores in the bootstrap are reimplemented for speed and tested against scikit-learn.
Probabilities are arrays of shape (n, M), and classes are codes 0..M-1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import binomtest, norm, rankdata
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    brier_score_loss,
    precision_recall_curve,
    roc_auc_score,
    roc_curve,
)
from sklearn.metrics import log_loss as sklearn_log_loss

CONFIDENCE = 0.95  # level of the intervals for rates and scores
LEAST = 1e-15  # smallest probability in the log loss
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

Probabilities = NDArray[np.float64]
Codes = NDArray[np.int64]


def weighted_quantiles(
    numbers: NDArray[np.float64], weights: NDArray[np.float64] | None, levels: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Weighted quantiles. Integer weights give the same result as ``np.quantile`` on repeated numbers.

    Examples
    --------
    >>> weighted_quantiles(np.array([1.0, 5.0, 2.0]), np.array([1.0, 1.0, 2.0]), np.array([0.25, 0.5, 1.0]))
    array([1.75, 2.  , 5.  ])
    """
    if weights is None:
        return np.quantile(numbers, levels)
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(weights[order])
    place = levels * max(ends[-1] - 1.0, 0.0)
    low, high = (
        numbers[order][np.minimum(np.searchsorted(ends, at, side="right"), len(numbers) - 1)]
        for at in (np.floor(place), np.floor(place) + 1.0)
    )
    return np.asarray(low + (place - np.floor(place)) * (high - low))


def accuracy(p: Probabilities, y: Codes) -> float:
    """Share of cases for which the most probable class is correct."""
    return float(accuracy_score(y, p.argmax(axis=1)))


def auc(p: Probabilities, y: Codes) -> float | None:
    """Area under the ROC curve; with more than two classes, the mean of the one-versus-rest areas.

    Examples
    --------
    >>> auc(np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]]), np.array([0, 1, 0]))
    1.0
    """
    return _mean_area(p, y, roc_auc_score)


def average_precision(p: NDArray[np.float64], hit: NDArray[np.bool_]) -> float | None:
    """Area under the precision-recall curve, as average precision; None if the class does not occur.

    An uninformative model scores the share of the class.

    Examples
    --------
    >>> round(average_precision(np.array([0.1, 0.6, 0.7, 0.9]), np.array([False, True, False, True])), 3)
    0.833
    """
    return float(average_precision_score(hit, p)) if hit.any() else None


def net_benefit(p: NDArray[np.float64], hit: NDArray[np.bool_], at: float) -> float:
    """Net benefit of flagging cases whose probability is at least `at` (Vickers and Elkin 2006).

    The number of hits minus the number of false alarms times at / (1 - at), divided by the number of cases. Flagging no
    case has net benefit 0.

    Examples
    --------
    >>> net_benefit(np.array([0.1, 0.6, 0.7, 0.9]), np.array([False, False, True, True]), 0.5)
    0.25
    """
    called = p >= at
    return float((hit[called].sum() - at / (1.0 - at) * (~hit[called]).sum()) / len(p))


def log_loss(p: Probabilities, y: Codes, least: float = LEAST) -> float:
    """Mean negative log probability of the observed class; probabilities are at least `least`.

    Examples
    --------
    >>> round(log_loss(np.array([[0.5, 0.5], [0.25, 0.75]]), np.array([0, 1])), 4)
    0.4904
    """
    return float(sklearn_log_loss(y, _possible(p, least), labels=np.arange(p.shape[1])))


def brier(p: Probabilities, y: Codes) -> float:
    """Brier score: half the mean squared distance between the probabilities and the outcomes.

    With two classes this is the usual score; with any number of classes it is between 0 and 1.

    Examples
    --------
    >>> round(brier(np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([0, 1])), 4)
    0.145
    """
    # Class by class, because scikit-learn warns if rounded probabilities of all classes do not add up to 1.
    return 0.5 * sum(float(brier_score_loss(y == m, p[:, m], pos_label=True)) for m in range(p.shape[1]))


def ranked_probability_score(p: Probabilities, y: Codes, order: Sequence[int] | None = None) -> float:
    """Ranked probability score for ordered classes: probability far from the observed class is penalized more.

    The mean squared difference between cumulative probabilities and outcomes over the M - 1 steps of the scale and over
    the cases (Epstein 1969). It is between 0 and 1; with two classes it equals the Brier score.

    Parameters
    ----------
    p : array of shape (n, M)
        Probabilities.
    y : int array of shape (n,)
        Classes.
    order : sequence of M ints, optional
        The classes from the first to the last; by default 0 to M - 1.

    Examples
    --------
    >>> near, far = np.array([[0.0, 1.0, 0.0]]), np.array([[0.0, 0.0, 1.0]])
    >>> ranked_probability_score(near, np.array([0])), ranked_probability_score(far, np.array([0]))
    (0.5, 1.0)
    """
    places = np.arange(p.shape[1]) if order is None else np.asarray(order)
    if sorted(places.tolist()) != list(range(p.shape[1])):
        raise ValueError(f"order={list(places)} does not have each of the classes 0 to {p.shape[1] - 1} once")
    came = (y[:, None] == places).astype(np.float64)
    gaps = (p[:, places].cumsum(axis=1) - came.cumsum(axis=1))[:, :-1]
    return float(np.mean(gaps**2))


def calibration_error(p: Probabilities, y: Codes, n_bins: int = 10) -> float:
    """Mean gap between predicted and observed frequency over bins with equal numbers of cases, and over classes."""
    classes = range(1, 2) if p.shape[1] == 2 else range(p.shape[1])
    curves = [calibration_curve(p[:, m], y == m, n_bins) for m in classes]
    return float(np.mean([abs(part.predicted - part.observed) for curve in curves for part in curve]))


SCORES: dict[str, Callable[[Probabilities, Codes], float | None]] = {
    "accuracy": accuracy,
    "AUC": auc,
    "log loss": log_loss,
    "Brier score": brier,
}


def bootstrap(
    p: Probabilities, y: Codes, rng: np.random.Generator, n_boot: int = 200
) -> dict[str, tuple[float, float] | None]:
    """Bootstrap intervals for all of `SCORES`, resampling cases."""
    samples = [rng.integers(0, len(y), len(y)) for _ in range(n_boot)]
    # Reimplemented with means over the cases and ranks: scikit-learn's functions give the same scores, but with this
    # many resamples their input checks take a second or more for any number of cases.
    rows = np.arange(len(y))
    per_case = {
        "accuracy": (p.argmax(axis=1) == y).astype(np.float64),
        "log loss": -np.log(_possible(p, LEAST)[rows, y]),
        "Brier score": 0.5 * ((p - (y[:, None] == np.arange(p.shape[1]))) ** 2).sum(axis=1),
    }
    values: dict[str, list[float]] = {
        name: [float(loss[rows].mean()) for rows in samples] for name, loss in per_case.items()
    }
    areas = (_mean_area(p[rows], y[rows], _area) for rows in samples)
    values["AUC"] = [area for area in areas if area is not None]
    tails = (1.0 - CONFIDENCE) / 2.0, (1.0 + CONFIDENCE) / 2.0
    return {
        name: (float(np.quantile(values[name], tails[0])), float(np.quantile(values[name], tails[1])))
        if values[name]
        else None
        for name in SCORES
    }


def _possible(p: Probabilities, least: float) -> Probabilities:
    """Probabilities clipped to at least `least`."""
    shares = np.maximum(p, least)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _mean_area(
    p: Probabilities, y: Codes, area: Callable[[NDArray[np.bool_], NDArray[np.float64]], float]
) -> float | None:
    classes = [m for m in range(p.shape[1]) if 0 < (y == m).sum() < len(y)]
    if p.shape[1] == 2:
        classes = classes[-1:]
    return float(np.mean([area(y == m, p[:, m]) for m in classes])) if classes else None


def _area(hit: NDArray[np.bool_], score: NDArray[np.float64]) -> float:
    """Area under the ROC curve: how often a hit has the higher score, with ties counted as half (Mann-Whitney)."""
    n, n_hit = len(hit), int(hit.sum())
    return (float(rankdata(score)[hit].sum()) - n_hit * (n_hit + 1) / 2.0) / (n_hit * (n - n_hit))


def rate_interval(count: int, n: int) -> tuple[float, float]:
    """Wilson's interval for a rate; 0 to 1 without cases.

    Examples
    --------
    >>> low, high = rate_interval(5, 10)
    >>> round(low, 2), round(high, 2)
    (0.24, 0.76)
    """
    if n == 0:
        return 0.0, 1.0
    ends = binomtest(count, n).proportion_ci(CONFIDENCE, method="wilson")
    return float(ends.low), float(ends.high)


@dataclass(frozen=True)
class CalibrationBin:
    """Cases with similar predicted probabilities: the mean probability and the observed frequency."""

    n: int
    predicted: float
    observed: float
    low: float  # Wilson's interval for `observed`
    high: float


def calibration_curve(p: NDArray[np.float64], hit: NDArray[np.bool_], n_bins: int) -> tuple[CalibrationBin, ...]:
    """Calibration in bins of about equal size, from cases ordered by predicted probability.

    Examples
    --------
    >>> calibration_curve(np.array([.1, .1, .9, .9]), np.array([False, False, True, True]), 2)[1].observed
    1.0
    """
    order = np.argsort(p, kind="stable")
    bins = []
    for rows in np.array_split(order, min(n_bins, len(p))):
        n, count = len(rows), int(hit[rows].sum())
        bins.append(CalibrationBin(n, float(p[rows].mean()), count / n, *rate_interval(count, n)))
    return tuple(bins)


@dataclass(frozen=True)
class Balance:
    """Expected and observed number of cases in a class; `z` is their difference in standard deviations."""

    expected: float
    observed: int
    z: float | None


def balance(p: NDArray[np.float64], hit: NDArray[np.bool_]) -> Balance:
    """Calibration-in-the-large: the sum of the predicted probabilities and the number of cases in the class.

    Examples
    --------
    >>> balance(np.array([0.5, 0.5, 0.5, 0.5]), np.array([True, True, True, True]))
    Balance(expected=2.0, observed=4, z=2.0)
    """
    expected, observed = float(p.sum()), int(hit.sum())
    spread = math.sqrt(float((p * (1.0 - p)).sum()))
    return Balance(expected, observed, (observed - expected) / spread if spread else None)


@dataclass(frozen=True)
class CalibrationLine:
    """Logistic recalibration: intercept and slope, each with a 95% interval (low, estimate, high).

    Attributes
    ----------
    intercept : tuple
        Calibration-in-the-large with the slope fixed at 1: above 0 if the predicted log odds are too low, below 0 if
        they are too high.
    slope : tuple
        The slope with a free intercept: 1 if the spread of the probabilities is right, below 1 if they are too extreme.
    """

    intercept: tuple[float, float, float]
    slope: tuple[float, float, float]


def calibration_line(p: NDArray[np.float64], hit: NDArray[np.bool_]) -> CalibrationLine | None:
    """Intercept and slope of a logistic regression of the outcomes on the predicted log odds (Cox 1958).

    None if all or no cases are in the class, or if the predicted odds separate the classes perfectly.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.05, 0.95, 5000)
    >>> line = calibration_line(p, rng.random(5000) < p)
    >>> line.slope[0] < 1.0 < line.slope[2], line.intercept[0] < 0.0 < line.intercept[2]
    (True, True)
    """
    if not 0 < hit.sum() < len(hit):
        return None
    odds = logit(np.clip(p, LEAST, 1.0 - LEAST))
    ones = np.ones((len(p), 1))
    intercept = _logistic(ones, odds, hit)
    line = None if np.ptp(odds) == 0.0 else _logistic(np.column_stack([ones, odds]), np.zeros(len(p)), hit)
    return None if intercept is None or line is None else CalibrationLine(intercept, line)


def _logistic(
    x: NDArray[np.float64], offset: NDArray[np.float64], hit: NDArray[np.bool_]
) -> tuple[float, float, float] | None:
    """The last coefficient of a logistic regression with its interval, by Newton's method; None if it diverges."""
    beta = np.zeros(x.shape[1])
    for _ in range(50):
        mean = expit(offset + x @ beta)
        information = (x * (mean * (1.0 - mean))[:, None]).T @ x
        try:
            step = np.linalg.solve(information, x.T @ (hit - mean))
        except np.linalg.LinAlgError:
            return None
        beta += np.clip(step, -5.0, 5.0)
        if np.abs(step).max() < 1e-8:
            reach = float(norm.ppf((1.0 + CONFIDENCE) / 2.0) * np.sqrt(np.linalg.inv(information)[-1, -1]))
            return float(beta[-1]) - reach, float(beta[-1]), float(beta[-1]) + reach
    return None


@dataclass(frozen=True)
class Threshold:
    """Performance of flagging cases with a probability of at least `at`.

    Attributes
    ----------
    at : float
    called : float
        Share of flagged cases.
    sensitivity, specificity, ppv, npv : float or None
        Share of cases in the class that are flagged; share of cases outside the class that are not flagged; share of
        flagged cases that are in the class; share of other cases that are outside the class. None if undefined.
    net_benefit, net_benefit_all : float or None
        Net benefit of this threshold and of flagging all cases; see `net_benefit`.
    """

    at: float
    called: float
    sensitivity: float | None
    specificity: float | None
    ppv: float | None
    npv: float | None
    net_benefit: float
    net_benefit_all: float


def threshold_table(
    p: NDArray[np.float64], hit: NDArray[np.bool_], thresholds: tuple[float, ...] = THRESHOLDS
) -> tuple[Threshold, ...]:
    """Sensitivity, specificity, predictive values and net benefit at thresholds.

    Examples
    --------
    >>> row = threshold_table(np.array([0.1, 0.6, 0.7, 0.9]), np.array([False, False, True, True]), (0.5,))[0]
    >>> row.sensitivity, row.specificity, round(row.ppv, 3), row.npv, row.net_benefit, row.net_benefit_all
    (1.0, 0.5, 0.667, 1.0, 0.25, 0.0)
    """
    rows = []
    n, n_hit = len(p), int(hit.sum())
    for at in thresholds:
        called = p >= at
        true, n_called = int((called & hit).sum()), int(called.sum())
        rows.append(
            Threshold(
                at=at,
                called=n_called / n,
                sensitivity=_ratio(true, n_hit),
                specificity=_ratio(int((~called & ~hit).sum()), n - n_hit),
                ppv=_ratio(true, n_called),
                npv=_ratio(int((~called & ~hit).sum()), n - n_called),
                net_benefit=net_benefit(p, hit, at),
                net_benefit_all=net_benefit(np.ones(n), hit, at),
            )
        )
    return tuple(rows)


def roc_points(p: NDArray[np.float64], hit: NDArray[np.bool_]) -> tuple[tuple[float, float], ...]:
    """The ROC curve, (1 - specificity, sensitivity) at each threshold; empty if all cases or no cases are hits.

    Examples
    --------
    >>> roc_points(np.array([0.1, 0.6, 0.7, 0.9]), np.array([False, False, True, True]))
    ((0.0, 0.0), (0.0, 0.5), (0.0, 1.0), (1.0, 1.0))
    """
    if not 0 < hit.sum() < len(hit):
        return ()
    false_alarms, hits, _ = roc_curve(hit, p)
    return tuple(zip(false_alarms.tolist(), hits.tolist(), strict=True))


def precision_recall_points(p: NDArray[np.float64], hit: NDArray[np.bool_]) -> tuple[tuple[float, float], ...]:
    """Corners of the precision-recall curve, (recall, precision); empty if the class does not occur.

    The curve is a step function whose area is the average precision: a recall between two thresholds has the precision
    of the lower threshold, at which it is reached.

    Examples
    --------
    >>> precision_recall_points(np.array([0.1, 0.6, 0.7, 0.9]), np.array([False, True, False, True]))
    ((0.0, 1.0), (0.5, 1.0), (0.5, 0.6666666666666666), (1.0, 0.6666666666666666))
    """
    if not hit.any():
        return ()
    precision, recall, _ = precision_recall_curve(hit, p)
    steps = zip(recall[1:], recall[:-1], precision[:-1], strict=True)
    corners = [[(float(last), float(share)), (float(now), float(share))] for last, now, share in steps if now > last]
    return tuple(corner for pair in corners[::-1] for corner in pair)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
