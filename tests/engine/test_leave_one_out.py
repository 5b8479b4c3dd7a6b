"""Predictions by exactly one neighbor: the kernel beside the formula, written once more in NumPy."""

import numpy as np
import pytest
from scipy.special import log_softmax

from bayespatch.engine.cpu.leave_one_out import LEAST, Pairs, predict_each
from bayespatch.importances import LeaveOneOut, compared_pairs
from bayespatch.model import HIDDEN, Hyperparameters, Model
from tests.problems import random_data

HYPER = Hyperparameters(lam0=0.2, lam=1.5)


def labelled(seed=0, n=25, n_parents=30, n_features=5, n_classes=3, **kinds):
    data = random_data(seed, n, n_parents, n_features, n_classes, hidden=0.0, **kinds)
    assert (data.y != HIDDEN).all()
    return data


def formula(data, q, slope, base, heard):
    """log p(y_i | all others) as the docstrings have it, one pair after the other, in double precision."""
    v, lam0, lam = data.n_values, HYPER.lam0, HYPER.lam
    r_agree = (lam0 + lam) / (v * lam0 + lam) / (lam0 / (v * lam0))
    r_differ = lam0 / (v * lam0 + lam) / (lam0 / (v * lam0))
    log_p = np.empty(len(data.x))
    for i, x in enumerate(data.x):
        votes = np.zeros(data.n_classes)
        for b, parent in enumerate(data.x_parents):
            if b == data.own_parent[i]:
                continue
            apart = np.abs(x - parent)
            r = np.where(np.isnan(apart), 1.0, np.where(apart <= data.windows, r_agree, r_differ))
            votes[data.y_parents[b]] += heard[data.y_parents[b]] * np.prod(1.0 - q + q * r)
        share = (1.0 - LEAST) * votes / votes.sum() + LEAST * base
        log_p[i] = log_softmax(slope * np.log(share) + (1.0 - slope) * np.log(base))[data.y[i]]
    return log_p


@pytest.mark.parametrize("itself", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_predictions_are_those_of_the_formula(n_classes, missing, itself):
    data = labelled(1, n_classes=n_classes, missing=missing, itself=itself)
    rng = np.random.default_rng(2)
    base = rng.dirichlet(np.full(n_classes, 4.0))
    here = np.bincount(data.y_parents, minlength=n_classes) / len(data.y_parents)
    density = LeaveOneOut(data, Model(hyper=HYPER), base)
    np.testing.assert_allclose(density.pairs.heard, base / here)
    for _ in range(3):
        logits, slope = rng.normal(size=5), rng.uniform(0.5, 4.0)
        found, _, _ = density.predict(np.append(logits, np.log(slope)))
        expected = formula(data, density.importance(logits), slope, base, base / here)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)  # products of 5 factors in single precision


def test_who_agrees_is_told_apart_from_who_is_missing():
    data = labelled(3, missing=0.3)
    pairs = compared_pairs(data, np.full(3, 1 / 3))
    order = np.argsort(data.y_parents, kind="stable")
    apart = np.abs(data.x[:, None] - data.x_parents[order])
    expected = np.where(np.isnan(apart), 2, apart <= data.windows).transpose(0, 2, 1)
    np.testing.assert_array_equal(pairs.codes, expected)
    np.testing.assert_array_equal(pairs.has_unknown, np.isnan(apart).any(axis=(0, 1)))
    for m in range(3):
        assert (data.y_parents[order][pairs.start[m] : pairs.start[m + 1]] == m).all()


def test_without_a_gradient_the_prediction_is_the_same():
    data = labelled(4)
    density = LeaveOneOut(data, Model(hyper=HYPER), np.array([0.2, 0.5, 0.3]))
    position = np.array([0.3, -1.0, 2.0, 0.0, 0.5, 0.7])
    value, gradient = density(position)
    assert density(position, with_gradient=False)[0] == value
    assert gradient.shape == (6,)


def test_a_case_with_nobody_beside_it_has_the_base_rates():
    codes = np.zeros((1, 3, 1), np.uint8)
    own, start, base = np.array([0]), np.array([0, 0, 1]), np.array([0.7, 0.3])
    pairs = Pairs(codes, np.zeros(3, bool), np.array([1]), own, start, np.ones(2), base, np.ones(1))
    log_p, by_slope, pulls = np.empty(1), np.empty(1), np.empty((2, 1, 3))
    factors = np.full(3, 0.5, np.float32)
    predict_each(pairs, factors, factors, 3.0, log_p, pulls[0], pulls[1], by_slope)
    assert np.isfinite(pulls).all()
    # Those LEAST of the votes that the base rates have are all that is voted, in their proportion.
    assert log_p[0] == pytest.approx(np.log(0.3))
    assert by_slope[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("n_features", [30, 200])
def test_many_features_of_which_most_differ_are_compared_all_the_same(n_features):
    """All parents are unlike the case, some more than others: what counts is which of them."""
    rng = np.random.default_rng(0)
    data = labelled(5, n=12, n_parents=20, n_features=n_features, n_classes=2, missing=0.0)
    base = np.array([0.5, 0.5])
    density = LeaveOneOut(data, Model(hyper=HYPER), base)
    logits = rng.normal(1.0, 1.0, n_features)
    found, by_logit, _ = density.predict(np.append(logits, 0.0))
    for own, step in enumerate(1e-2 * np.eye(n_features)[:3]):
        up, down = (density.predict(np.append(logits + s, 0.0), with_gradient=False)[0] for s in (step, -step))
        np.testing.assert_allclose((up - down) / 2e-2, by_logit[:, own], atol=2e-3)
    here = np.bincount(data.y_parents, minlength=2) / 20
    expected = formula(data, density.importance(logits), 1.0, base, base / here)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
