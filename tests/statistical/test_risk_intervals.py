"""Intervals of the probability over many training tables whose true probabilities are known."""

import warnings

import numpy as np
import pytest
from scipy.special import expit

from bayespatch import PatchworkClassifier

N_TABLES, N_PAST, N_NEW, N_SIMILAR = 8, 200, 600, 51


def risk(kind, x):
    """True probability of the second class."""
    if kind == "sum":
        return expit(x @ [0.9, -0.7, 0.5, 0.3, 0.0, 0.0])
    if kind == "interaction":
        return expit(1.2 * np.sign(x[:, 1] * x[:, 2]) + 0.5 * x[:, 0])
    rng = np.random.default_rng(2)
    centers, level = rng.normal(0, 1.2, (6, 6)), rng.normal(0, 1.5, 6)
    return expit(level[((x[:, None, :] - centers) ** 2).sum(axis=2).argmin(axis=1)])


def of_similar(predicted, true):
    """The mean true probability of the cases with the nearest predictions."""
    near = np.abs(predicted[:, None] - predicted).argsort(axis=1, kind="stable")[:, :N_SIMILAR]
    return true[near].mean(axis=1)


def coverage(kind):
    """Shares of true risks in 90 % intervals, of patients with such a prediction and of one patient; mean width."""
    found = []
    for seed in range(N_TABLES):
        rng = np.random.default_rng([seed, 5])
        x = rng.standard_normal((N_PAST + N_NEW, 6))
        p = risk(kind, x)
        y = rng.random(len(p)) < p
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = PatchworkClassifier(random_state=seed, bins="quantile").fit(x[:N_PAST], y[:N_PAST])
            predicted = clf.predict_all(x[N_PAST:], 0.9)
        low, high = predicted.intervals[:, 1].T
        targets = of_similar(predicted.probabilities[:, 1], p[N_PAST:]), p[N_PAST:]
        found.append([*(((low <= t) & (t <= high)).mean() for t in targets), (high - low).mean()])
    return np.mean(found, axis=0)


@pytest.mark.parametrize("kind", ["sum", "interaction", "groups"])
def test_intervals_hold_the_mean_risk_of_patients_with_such_predictions(kind):
    similar, _, width = coverage(kind)
    assert similar >= 0.9
    assert width < 0.6


def test_where_the_form_is_right_intervals_hold_the_risk_of_one_patient():
    """A sum, which the additive opinion can express. Neither much too narrow nor much too wide."""
    _, one, width = coverage("sum")
    assert 0.8 < one < 0.96
    assert 0.2 < width < 0.4
