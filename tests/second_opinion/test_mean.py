"""The additive mean."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from bayespatch.second_opinion import AdditiveMean
from bayespatch.second_opinion import mean as module
from tests.second_opinion.tables import clinic, coded


def problem(n=300, missing="category", share=0.05, seed=0):
    rows, _, p = clinic(n, missing=share, seed=seed)
    truth = 100 + 10 * np.log(p[:, 1] / p[:, 0])
    outcomes = truth + np.random.default_rng(seed + 1).normal(0, 5, n)
    schema, values = coded(rows, missing)
    return schema, values, outcomes, truth


@pytest.fixture(scope="module")
def learned():
    schema, values, outcomes, truth = problem()
    return AdditiveMean.learn(schema, values, outcomes), schema, values, outcomes, truth


def test_it_is_a_ridge_regression(learned):
    score, _, values, outcomes, _ = learned
    x, curves = score.design.matrix(values).x, score.design.is_curve
    fit = module._Ridge.of(x.T @ x, x, outcomes - outcomes.mean(), curves, 0.1, 0.3)
    scale = np.where(curves, 0.3, 1.0)
    direct = Ridge(alpha=10.0).fit(x * scale, outcomes)
    np.testing.assert_allclose(x @ fit.coef + outcomes.mean(), direct.predict(x * scale), atol=1e-8)


def test_leave_one_out_is_exact(learned):
    score, _, values, outcomes, _ = learned
    x, curves = score.design.matrix(values).x, score.design.is_curve
    fit = module._Ridge.of(x.T @ x, x, outcomes - outcomes.mean(), curves, 0.1, 1.0)
    for i in (0, 7, 100):
        rest = np.arange(len(outcomes)) != i
        exact = Ridge(alpha=10.0).fit(x[rest], outcomes[rest]).predict(x[i : i + 1])[0]
        assert outcomes.mean() + x[i] @ fit.coef + fit.moved[i] == pytest.approx(exact, abs=1e-8)


def test_evidence_compares_priors_as_the_marginal_likelihood_does(learned):
    """Against the multivariate t of the outcomes, by its own covariance."""
    score, _, values, outcomes, _ = learned
    x, gap = score.design.matrix(values).x, outcomes - outcomes.mean()
    found, exact = [], []
    for strength in (0.01, 1.0):
        found.append(module._Ridge.of(x.T @ x, x, gap, score.design.is_curve, strength, 1.0).evidence)
        covariance = np.eye(len(gap)) + strength * x @ x.T
        squares = gap @ np.linalg.solve(covariance, gap)
        exact.append(-0.5 * np.linalg.slogdet(covariance)[1] - 0.5 * (len(gap) - 1) * np.log(squares))
    assert found[1] - found[0] == pytest.approx(exact[1] - exact[0])


def test_it_finds_the_mean(learned):
    score, _, values, _, truth = learned
    error = np.sqrt(np.mean((score.predict(values) - truth)[~np.isnan(values).any(axis=1)] ** 2))
    # About 17 coefficients of 300 cases with noise 5 leave 5 sqrt(17 / 300) = 1.2 open; the outcomes' own spread is 20.
    assert error < 2.5
    assert 4.5 < score.noise < 7.5


def test_points_add_up_in_the_outcomes_unit(learned):
    score, _, values, _, _ = learned
    rows = np.stack([np.random.default_rng(1).choice(column, 1000) for column in values.T], axis=1)
    points = score.points(rows)
    np.testing.assert_allclose(score.base + points.sum(axis=1), score.predict(rows), atol=1e-9)


@pytest.mark.parametrize("missing", ["category", "ignore"])
def test_a_row_of_which_nothing_is_known_gets_the_mean(missing):
    schema, values, outcomes, _ = problem(missing=missing, share=0.2)
    score = AdditiveMean.learn(schema, values, outcomes)
    nothing = schema.encode([[None] * 4]).values
    assert score.predict(nothing)[0] == pytest.approx(outcomes.mean())


def test_quantiles_hold_as_many_outcomes_as_they_say():
    schema, values, outcomes, _ = problem(600, share=0.0)
    half = np.arange(600) < 300
    score = AdditiveMean.learn(schema, values[half], outcomes[half])
    low, high = score.predict_quantiles(values[~half], [0.05, 0.95]).T
    held = np.mean((low <= outcomes[~half]) & (outcomes[~half] <= high))
    assert abs(held - 0.9) < 0.06  # three standard errors of 300 cases, sqrt(.9 * .1 / 300) = .017, and of the fit
    assert (score.predict_sd(values) > 0).all()


def test_the_scale_of_the_outcome_and_the_order_of_rows_do_not_matter():
    schema, values, outcomes, _ = problem()
    p = AdditiveMean.learn(schema, values, outcomes).predict(values)
    order = np.random.default_rng(0).permutation(len(outcomes))
    shuffled = AdditiveMean.learn(schema, values[order], 1000 * outcomes[order]).predict(values)
    np.testing.assert_allclose(shuffled, 1000 * p, rtol=1e-9)


def test_densities_are_normal(learned):
    score = learned[0]
    grid = np.linspace(-300, 500, 8001)
    assert np.trapezoid(score.density(np.full(8001, 100.0), grid), grid) == pytest.approx(1.0)


@pytest.mark.parametrize("outcomes", [np.full(4, 3.0), np.array([1.0, 2.0, 3.0, 4.0])])
def test_where_there_is_nothing_to_learn(outcomes):
    schema, values = coded([["a"]] * 4)
    score = AdditiveMean.learn(schema, values, outcomes)
    np.testing.assert_allclose(score.predict(values), outcomes.mean())


def test_stored_and_restored(learned):
    score, _, values, _, _ = learned
    arrays, plain = score.to_arrays()
    restored = AdditiveMean.from_arrays(arrays, plain)
    np.testing.assert_array_equal(restored.predict(values), score.predict(values))
    np.testing.assert_array_equal(restored.predict_sd(values), score.predict_sd(values))
    with pytest.raises(ValueError, match="coef of the stored"):
        AdditiveMean.from_arrays({**arrays, "coef": arrays["coef"][1:]}, plain)
    with pytest.raises(ValueError, match="not a stored additive mean"):
        AdditiveMean.from_arrays({}, plain)
