"""Logistic regression under normal priors."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from bayespatch.second_opinion.logistic import (
    CURVATURES,
    STRENGTHS,
    WEAKER,
    average,
    covariance_given_prior,
    fit_logistic,
    given_prior,
    kept_priors,
    leverages,
    log_probability,
    logits,
    moves_without,
    try_priors,
    with_intercept,
)


def problem(n=120, n_terms=4, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, n_terms))
    eta = np.concatenate([np.zeros((n, 1)), x @ rng.normal(0, 1, (n_terms, n_classes - 1))], axis=1)
    p = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
    y = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    is_curve = np.arange(n_terms) >= n_terms - 2
    return x, y, np.ones(n), is_curve


def differences(eta):
    """Of several sums only the differences mean something."""
    return eta if eta.shape[-1] == 1 else eta - eta.mean(axis=-1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_coefficients_are_scikit_learns(n_classes):
    x, y, weights, is_curve = problem(n_classes=n_classes)
    weights = weights + (y == 1)
    fit = fit_logistic(x, y, weights, is_curve, 0.5, 0.3)
    scale = np.where(is_curve, 0.3, 1.0)
    direct = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(x * scale, y, sample_weight=weights)
    found = logits(x, fit.intercept, fit.coef)
    expected = direct.decision_function(x * scale).reshape(len(y), -1)
    np.testing.assert_allclose(differences(found), differences(expected), atol=1e-4)  # lbfgs stops there


def test_without_curvature_its_terms_are_left_out():
    x, y, weights, is_curve = problem()
    fit = fit_logistic(x, y, weights, is_curve, 1.0, 0.0)
    assert not fit.coef[is_curve].any()
    covariance, _ = covariance_given_prior(x, fit, weights)
    assert not covariance[3:].any()
    assert (np.diag(covariance)[:3] > 0).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_left_out_move_as_in_a_fit_without_them(n_classes):
    x, y, weights, is_curve = problem(n_classes=n_classes)
    fit = fit_logistic(x, y, weights, is_curve, 1.0, 1.0)
    moves = moves_without(x, y, weights, fit)
    for i in range(0, len(y), 10):
        rest = np.arange(len(y)) != i
        without = fit_logistic(x[rest], y[rest], weights[rest], is_curve, 1.0, 1.0)
        exact = (logits(x[i : i + 1], without.intercept, without.coef) - logits(x[i : i + 1], fit.intercept, fit.coef))[
            0
        ]
        gap = differences(exact) - differences(moves[i])
        # The rest of one Newton step is of second order in the move.
        assert np.abs(gap).max() < 0.02 + 0.3 * np.abs(exact).max() ** 2


def test_evidence_is_the_marginal_likelihood():
    """Intercept and one coefficient, integrated over a grid. Laplace's error is of order 1/n."""
    x, y, weights, _ = problem(60, 1)
    no_curve = np.zeros(1, dtype=bool)
    found = try_priors(x, y, weights, no_curve).evidence
    assert np.isnan(found[1:]).all()
    at = np.linspace(-5, 5, 251)
    step = at[1] - at[0]
    eta = at[:, None, None] + at[None, :, None] * x[:, 0]
    log_p = np.where(y == 1, np.log(expit(eta)), np.log(expit(-eta))).sum(axis=2)
    tried = np.flatnonzero(~np.isnan(found[0]))
    exact = []
    for strength in np.array(STRENGTHS)[tried]:
        log_prior = -0.5 * at**2 / strength - 0.5 * np.log(strength)
        exact.append(np.log(np.exp(log_p + log_prior).sum() * step**2) - np.log(2 * np.pi))
    strong = np.array(STRENGTHS)[tried] >= 0.01  # the grid is too coarse for narrower priors
    np.testing.assert_allclose(found[0, tried][strong], np.array(exact)[strong], atol=0.1)


def test_priors_share_the_average_by_their_evidence():
    evidence = np.full((len(CURVATURES), len(STRENGTHS)), np.nan)
    evidence[0, 3], evidence[1, 4], evidence[2, 5] = -100.0, -100.0 - np.log(2), -120.0
    found = kept_priors(evidence)
    assert found == [(pytest.approx(2 / 3), STRENGTHS[3], CURVATURES[0]), (pytest.approx(1 / 3), STRENGTHS[4], 0.3)]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_priors_are_scored_by_fits_without_each_row(n_classes):
    x, y, weights, _ = problem(60, 2, n_classes)
    no_curve = np.zeros(2, dtype=bool)
    tried = try_priors(x, y, weights, no_curve)
    assert tried.loo.shape == (len(CURVATURES), len(STRENGTHS + WEAKER))
    for at in np.flatnonzero(~np.isnan(tried.loo[0]))[::3]:
        exact = 0.0
        for i in range(60):
            rest = np.arange(60) != i
            fit = fit_logistic(x[rest], y[rest], weights[rest], no_curve, (STRENGTHS + WEAKER)[at], 0.0)
            exact += log_probability(logits(x[i : i + 1], fit.intercept, fit.coef), y[i : i + 1])[0]
        assert tried.loo[0, at] == pytest.approx(exact, abs=0.3)


def test_weaker_priors_are_tried_while_leave_one_out_improves():
    x = np.concatenate([np.linspace(-2, -0.1, 30), np.linspace(0.1, 2, 30)])[:, None]
    y = (x[:, 0] > 0).astype(int)
    separable = try_priors(x, y, np.ones(60), np.zeros(1, dtype=bool))
    assert np.nanargmax(separable.loo[0]) >= len(STRENGTHS)
    x, y, weights, _ = problem(60, 1)
    assert np.isnan(try_priors(x, y, weights, np.zeros(1, dtype=bool)).loo[0, -1])


def test_the_covariance_holds_what_is_open_between_priors():
    x, y, weights, is_curve = problem()
    each = [
        given_prior(x, y, weights, fit_logistic(x, y, weights, is_curve, strength, 1.0)) for strength in (0.01, 1.0)
    ]
    both = average([(0.5, part) for part in each])
    gap = np.concatenate([each[0].intercept - each[1].intercept, each[0].coef[:, 0] - each[1].coef[:, 0]])
    expected = (each[0].covariance + each[1].covariance) / 2 + np.outer(gap, gap) / 4
    np.testing.assert_allclose(both.covariance, expected, atol=1e-12)
    np.testing.assert_allclose(both.moved, (each[0].moved + each[1].moved) / 2, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_leverages_are_quadratic_forms(n_classes):
    x, y, weights, is_curve = problem(n_classes=n_classes)
    fit = fit_logistic(x, y, weights, is_curve, 1.0, 1.0)
    covariance, log_det = covariance_given_prior(x, fit, weights)
    assert log_det == pytest.approx(np.linalg.slogdet(covariance)[1])
    found = leverages(with_intercept(x), covariance)
    n_sums = found.shape[1]
    spread = np.kron(np.eye(n_sums), with_intercept(x)[5])
    np.testing.assert_allclose(found[5], spread @ covariance @ spread.T, rtol=1e-9)


def test_where_classes_are_separated_the_secant_is_narrower():
    x = np.linspace(-2, 2, 40)[:, None]
    y = (x[:, 0] > 0).astype(int)
    fit = fit_logistic(x, y, np.ones(40), np.zeros(1, dtype=bool), 10.0, 0.0)
    tangent, secant = (covariance_given_prior(x, fit, np.ones(40), secant)[0] for secant in (False, True))
    assert secant[1, 1] < 0.5 * tangent[1, 1]


def test_the_fit_of_ordered_classes_is_the_most_probable_one():
    x, y, weights, is_curve = problem(n_classes=4)
    places = np.array([-1.5, -0.5, 0.5, 1.5]) / np.sqrt(5)
    fit = fit_logistic(x, y, weights, is_curve, 0.5, 0.3, places=places)
    beta = fit.coef @ places
    np.testing.assert_allclose(fit.coef, np.outer(beta, places))

    def loss(point):
        eta = point[:4] + np.outer(x @ point[4:], places)
        prior = (point[4:] ** 2 * fit.precision[1:]).sum() + fit.precision[0] * (point[:4] ** 2).sum()
        return 0.5 * prior - log_probability(eta, y).sum()

    best = np.concatenate([fit.intercept, beta])
    gradient = approx_fprime(best, loss, 1e-6)
    assert np.abs(gradient).max() < 1e-3
    steps, h = np.eye(len(best)), 1e-3
    hessian = np.array([
        [(loss(best + h * (a + b)) - loss(best + h * (a - b)) - loss(best - h * (a - b)) + loss(best - h * (a + b)))
         / (4 * h**2) for b in steps] for a in steps
    ])  # fmt: skip
    covariance, log_det = covariance_given_prior(x, fit, weights)
    assert log_det == pytest.approx(-np.linalg.slogdet(hessian)[1], abs=0.02)
    spread = np.kron(places, np.eye(5)[1])  # of the sums along the order, to the first term
    assert spread @ covariance @ spread == pytest.approx(np.linalg.inv(hessian)[4, 4], rel=0.01)


def test_rows_left_out_of_ordered_classes_move_as_in_a_fit_without_them():
    x, y, weights, is_curve = problem(n_classes=3)
    places = np.array([-1.0, 0.0, 1.0]) / np.sqrt(2)
    fit = fit_logistic(x, y, weights, is_curve, 1.0, 1.0, places=places)
    moves = moves_without(x, y, weights, fit)
    for i in range(0, len(y), 10):
        rest, own = np.arange(len(y)) != i, x[i : i + 1]
        without = fit_logistic(x[rest], y[rest], weights[rest], is_curve, 1.0, 1.0, places=places)
        exact = (logits(own, without.intercept, without.coef) - logits(own, fit.intercept, fit.coef))[0]
        gap = differences(exact) - differences(moves[i])
        assert np.abs(gap).max() < 0.02 + 0.3 * np.abs(exact).max() ** 2


@pytest.mark.parametrize("judge", ["evidence", "loo"])
def test_a_row_has_no_say_in_the_priors_under_which_it_is_left_out(judge):
    """The shares of the priors, for each row, are those that the other rows say: as in a search without the row."""
    x, y, weights, _ = problem(40, 6)
    no_curve = np.zeros(6, dtype=bool)
    tried = try_priors(x, y, weights, no_curve)
    own = tried.without_each(getattr(tried, judge))[:, 0]

    def shares(scores):
        return {(strength, curvature): share for share, strength, curvature in kept_priors(scores)}

    def averaged(of_priors, i):
        left_out = {prior: tried.left_out[prior][0][i, 0] for prior in of_priors if prior in tried.left_out}
        total = sum(of_priors[prior] for prior in left_out)
        return sum(of_priors[prior] / total * eta for prior, eta in left_out.items())

    rest = [np.arange(40) != i for i in range(40)]
    without = [getattr(try_priors(x[r], y[r], weights[r], no_curve), judge) for r in rest]
    exact = np.array([averaged(shares(scores), i) for i, scores in enumerate(without)])
    naive = np.array([averaged(shares(getattr(tried, judge)), i) for i in range(40)])
    # Shares that know the row err in the direction of its outcome.
    toward = np.where(y == 1, 1.0, -1.0)
    assert (toward * (naive - exact)).mean() > 0.01
    assert abs((toward * (own - exact)).mean()) < 0.25 * (toward * (naive - exact)).mean()
    assert np.abs(own - exact).mean() < 0.5 * np.abs(naive - exact).mean()
