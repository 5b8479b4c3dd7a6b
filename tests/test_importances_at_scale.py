"""Mode and Laplace approximation of a large table, against the density that chains sample."""

import numpy as np
import pytest

from bayespatch.importances import LeaveOneOut
from bayespatch.importances_at_scale import LeaveOneOutBatches
from bayespatch.model import Data, Model


def past(n=400, seed=0, missing=0.1, nested=()):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.integers(0, 4, n), rng.integers(0, 203, n), rng.integers(0, 203, n)]).astype(float)
    y = ((x[:, 0] > 1) ^ (rng.random(n) < 0.2)).astype(np.int64)
    x[rng.random(x.shape) < missing] = np.nan
    windows, values = np.array([0, 20.5, 20.5]), np.array([4.0, 4.9, 4.9])
    return Data(x, y, x, y, values, 2, windows, np.arange(n), nested)


NESTED = ((), (8.5, 44.5), (8.5,))


@pytest.mark.parametrize("nested", [(), NESTED])
@pytest.mark.parametrize("class_weight", [None, (1.0, 2.5)])
def test_the_gradient_is_that_of_the_scores(nested, class_weight):
    data = past(nested=nested)
    weight = None if class_weight is None else np.array(class_weight)
    density = LeaveOneOutBatches(data, Model(), np.array([0.4, 0.6]), weight)
    rng = np.random.default_rng(1)
    position = rng.normal(-0.5, 0.5, 4 + density.effects.n_splits)
    assert density.effects.n_splits == sum(map(len, nested))
    rows = np.arange(0, 400, 7)
    _, gradient = density.scores(position, rows)
    for k, step in enumerate(1e-5 * np.eye(len(position))):
        slope = (density.scores(position + step, rows)[0] - density.scores(position - step, rows)[0]) / 2e-5
        np.testing.assert_allclose(gradient[:, k], slope, atol=1e-7)
    value, by_prior = density._prior(position)
    for k, step in enumerate(1e-5 * np.eye(len(position))):
        assert by_prior[k] == pytest.approx((density._prior(position + step)[0] - value) / 1e-5, abs=1e-4)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_both_ways_to_learn_agree_where_they_overlap(missing):
    """The same mode and the same covariance as the density that chains sample, which holds all pairs in memory."""
    data, base = past(missing=missing), np.array([0.45, 0.55])
    exact = LeaveOneOut(data, Model(), base)
    shape = exact.shape()
    batches = LeaveOneOutBatches(data, Model(), base)
    found = batches.learn(seed=0)
    np.testing.assert_allclose(found.mode, shape.mode, atol=0.01)
    covariance = shape.factor @ shape.factor.T
    np.testing.assert_allclose(found.factor @ found.factor.T, covariance, atol=0.01)
    assert found.log_density == pytest.approx(shape.log_density, abs=0.01)


def test_mini_batches_find_the_mode_of_all_cases(monkeypatch):
    """Of 3,000 cases 100 at a time; the mode moves by less than half of a posterior standard deviation."""
    data, base = past(3000), np.array([0.45, 0.55])
    full = LeaveOneOutBatches(data, Model(), base).learn(seed=0)
    monkeypatch.setattr("bayespatch.importances_at_scale.MOST_BATCH", 100)
    monkeypatch.setattr("bayespatch.importances_at_scale.MOST_AT_ONCE", 100)
    small = LeaveOneOutBatches(data, Model(), base).learn(seed=1)
    spread = np.sqrt(np.diag(full.factor @ full.factor.T))
    assert np.all(np.abs(small.mode - full.mode) < 0.5 * spread)


@pytest.mark.parametrize("class_weight", [None, np.array([0.5, 4.0])])
def test_the_curvature_of_large_tables_is_close_to_the_exact_one(monkeypatch, class_weight):
    """Draws with either covariance are efficient, and the standard deviations are close in every direction."""
    density = LeaveOneOutBatches(past(1000, nested=NESTED), Model(), np.array([0.45, 0.55]), class_weight)
    small = density.learn(seed=0)
    with monkeypatch.context() as patch:
        patch.setattr("bayespatch.importances_at_scale.MOST_AT_ONCE", 100)
        patch.setattr("bayespatch.importances_at_scale.LEAST_CURVED", 500)  # of 1,000
        patch.setattr("bayespatch.importances_at_scale.PAIRS_OF_PRODUCTS", 0)
        half = density._shape(small.mode, np.random.default_rng(0))
        patch.setattr("bayespatch.importances_at_scale.LEAST_CURVED", 1000)
        large = density._shape(small.mode, np.random.default_rng(0))
    for found in (large, half):
        ratios = np.linalg.svd(np.linalg.solve(small.factor, found.factor))[1]
        assert 0.75 < ratios.min() < ratios.max() < 1.6
        assert found.log_density == pytest.approx(small.log_density, rel=0.1)
    assert np.mean([density.efficiency(large, seed) for seed in range(3)]) > 0.4


def test_draws_have_the_covariance_that_was_found():
    data = past(nested=NESTED)
    density = LeaveOneOutBatches(data, Model(), np.array([0.45, 0.55]))
    found = density.learn(seed=0)
    q, weights, steps = density.draw(found, chains=4, draws=2000, seed=0)
    assert q.shape == (4, 2000, 3)
    assert weights.shape == (
        4,
        2000,
        3 + 3 + 3,
    )  # a column, further windows, and one comparison for missing values each
    assert steps.shape == (4, 2000, 5)  # q, log slope, log density
    covariance = found.factor @ found.factor.T
    error = covariance[-1, -1] * np.sqrt(2.0 / 8000)
    assert steps[:, :, 3].var() == pytest.approx(covariance[-1, -1], abs=4 * error)
    # At every draw the windows of a feature share its effect, log odds of agreement in full.
    agree = (4.9 * 2.1) / (0.49 + 2.0)
    differ = 0.49 / (0.49 + 2.0)
    factor = (1 - q[:, :, 1] + q[:, :, 1] * agree) / (1 - q[:, :, 1] + q[:, :, 1] * differ)
    of_second = np.flatnonzero((density.index.columns == 1) & ~np.isnan(density.index.reach))
    np.testing.assert_allclose(weights[:, :, of_second].sum(axis=2), np.log(factor), rtol=1e-9)


def test_the_same_seed_gives_the_same_whatever_the_threads():
    data = past()
    one, two = (
        LeaveOneOutBatches(data, Model(), np.array([0.45, 0.55]), n_threads=n).learn(seed=3).mode for n in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("groups", [None, np.arange(400) // 2])
def test_the_mode_without_some_rows_is_that_of_a_table_without_them(groups):
    """To a fifth of a posterior standard deviation; the mode of all rows is farther away."""
    data, base, rows = past()._replace(groups=groups), np.array([0.45, 0.55]), np.arange(0, 100)
    rest = np.arange(100, 400)
    table = data._replace(x=data.x[rest], y=data.y[rest], x_parents=data.x[rest], y_parents=data.y[rest],
                          own_parent=np.arange(300), groups=None if groups is None else groups[rest])  # fmt: skip
    density = LeaveOneOutBatches(data, Model(), base)
    found = density.learn(seed=0)
    without = density.without(found, rows)
    alone = LeaveOneOutBatches(table, Model(), base).learn(seed=0)

    def distance(mode):
        return np.abs(np.linalg.solve(alone.factor, mode - alone.mode)).max()

    assert distance(without.mode) < 0.2 < distance(found.mode)
    np.testing.assert_array_equal(without.factor, found.factor)


def test_the_search_from_what_part_of_the_table_taught_ends_at_the_same_mode():
    data, base = past(), np.array([0.45, 0.55])
    some = past(200)
    near = LeaveOneOutBatches(some, Model(), base).learn(seed=0)
    found = [LeaveOneOutBatches(data, Model(), base).learn(seed=0, near=start).mode for start in (None, near)]
    np.testing.assert_allclose(*found, atol=0.01)
