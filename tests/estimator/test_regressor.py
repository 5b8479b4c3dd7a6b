"""PatchworkRegressor: scikit-learn's rules, distributions that hold what they promise, what a prediction depends on."""

import pickle
import warnings
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayespatch import Hyperparameters, PatchworkRegressor
from bayespatch.datasets import load_heart

pytestmark = pytest.mark.filterwarnings("ignore::bayespatch.sampling.diagnostics.MixingWarning")

HYPER = Hyperparameters(alpha=0.03)  # tuning is tested by itself
SHORT = dict(chains=1, draws=10, warmup=10, hyper=HYPER, error=0.1)


def problem(n, seed=0):
    """Numbers, texts and missing values; the outcome is a step and a slope, and standard normal noise."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "dose": rng.uniform(0, 10, n),
            "site": rng.choice(["a", "b", "c"], n),
            "noise": rng.normal(size=n),
            "stage": rng.integers(0, 3, n),
        }
    )
    y = 3.0 * (table["site"] == "b") + 0.5 * table["dose"] + rng.normal(size=n)
    return table.mask(rng.random(table.shape) < 0.02), y.to_numpy()


X, Y = problem(80)
PAST, OUTCOMES = problem(250)  # to learn something from
NEW, TRUTH = problem(400, seed=1)


def quietly(task):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return task()


def fit(table=X, y=Y, **settings):
    return quietly(lambda: PatchworkRegressor(**{**SHORT, "random_state": 0, **settings}).fit(table, y))


LONGER = dict(chains=2, draws=30, warmup=30, error=0.05)


@pytest.fixture(scope="module")
def fitted():
    return fit(PAST, OUTCOMES, **LONGER)


# scikit-learn's rules


@parametrize_with_checks(
    [PatchworkRegressor(chains=1, draws=5, warmup=5, error=0.1, hyper=HYPER)],
    # Copies vote on each other unless they are one group, and bins count rows; see test_sample_weight.
    expected_failed_checks=lambda _: {"check_sample_weight_equivalence_on_dense_data": "bins count rows"},
)
def test_every_check_of_scikit_learn(estimator, check):
    """The rules are about arguments, shapes and types: short chains show as much as long ones."""
    check(estimator)


def test_tags_parameters_and_tools():
    tags = fit(X[:20], Y[:20]).__sklearn_tags__()
    assert tags.estimator_type == "regressor"
    assert tags.input_tags.allow_nan
    assert tags.input_tags.string
    copy = clone(PatchworkRegressor(hyper=Hyperparameters(alpha=0.3), n_outcome_bins=3))
    assert copy.n_outcome_bins == 3
    assert not hasattr(copy, "posterior_")
    tiny = PatchworkRegressor(**{**SHORT, "draws": 5}, random_state=0)
    search = quietly(lambda: GridSearchCV(tiny, {"n_outcome_bins": [2, 5]}, cv=2).fit(X[:60], Y[:60]))
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    with pytest.raises(NotFittedError):
        PatchworkRegressor().predict(X)


def test_series_columns_and_whole_numbers():
    whole = np.round(Y).astype(int)
    expected = fit(y=whole, draws=5).predict(NEW[:5])
    np.testing.assert_array_equal(fit(y=pd.Series(whole, index=X.index + 7), draws=5).predict(NEW[:5]), expected)
    with pytest.warns(Warning, match="column-vector"):
        column = PatchworkRegressor(**{**SHORT, "draws": 5}, random_state=0).fit(X, whole[:, None])
    np.testing.assert_array_equal(column.predict(NEW[:5]), expected)


# What it predicts


def test_it_learns_what_is_there_to_learn(fitted):
    """The noise alone leaves 1 - 1/5.1 of the variance to be explained: about 0.8; a constant explains nothing."""
    assert fitted.score(NEW, TRUTH) > 0.6
    assert fitted.feature_importances_.shape == (4,)


def test_intervals_hold_as_many_outcomes_as_they_say(fitted):
    # The dressing is learned from 250 cases, the share is counted among 400: four standard errors of both.
    quantiles = fitted.predict_quantiles(NEW, [0.25, 0.1, 0.05, 0.75, 0.9, 0.95]).T
    for level, low, high in zip((0.5, 0.8, 0.9), quantiles[:3], quantiles[3:], strict=True):
        error = np.sqrt(level * (1 - level) * (1 / len(OUTCOMES) + 1 / len(TRUTH)))
        assert abs(((low <= TRUTH) & (high >= TRUTH)).mean() - level) < 4 * error
    # And they are worth something: the outcomes themselves spread over 5.1 variances of the noise.
    assert np.mean(high - low) < 0.8 * np.subtract(*np.quantile(TRUTH, [0.95, 0.05]))


def test_quantiles_intervals_and_means_belong_together(fitted):
    levels = [0.9, 0.05, 0.5, 0.95]
    quantiles = fitted.predict_quantiles(NEW[:10], levels)
    assert quantiles.shape == (10, 4)
    assert np.all(np.diff(quantiles[:, np.argsort(levels)], axis=1) > 0)
    np.testing.assert_allclose(fitted.predict_interval(NEW[:10]), quantiles[:, [1, 3]], rtol=1e-9)
    means = fitted.predict(NEW[:10])
    assert np.all((quantiles[:, 1] < means) & (means < quantiles[:, 3]))
    # The mean is the integral of the quantiles: by 99 of them, to a hundredth of the spread of the outcomes.
    fine = fitted.predict_quantiles(NEW[:10], np.arange(1, 100) / 100).mean(axis=1)
    np.testing.assert_allclose(fine, means, atol=0.02 * TRUTH.std())


def test_another_unit_gives_the_same_prediction_in_that_unit():
    one, other = fit(), fit(y=1000.0 + 50.0 * Y)  # the same classes, the same chains; the search for the dressing ends
    expected = 1000.0 + 50.0 * one.predict(NEW[:100])  # where a change does not matter
    np.testing.assert_allclose(other.predict(NEW[:100]), expected, atol=0.02 * expected.std())


def test_hyperparameters_and_coding_are_tuned():
    model = fit(hyper="auto", draws=5)
    assert model.tuning_.hyper == model.hyper_
    assert np.isfinite(model.predict(NEW[:5])).all()


def test_outcomes_of_all_kinds():
    constant = fit(y=np.full(80, 3.5))
    np.testing.assert_allclose(constant.predict(NEW[:5]), 3.5)
    np.testing.assert_allclose(constant.predict_interval(NEW[:5]), 3.5)
    mostly_zero = np.maximum(Y - 6.0, 0.0)
    assert len(fit(y=mostly_zero, n_outcome_bins=3).edges_) == 2
    counts = np.random.default_rng(0).poisson(np.exp(Y / 4))
    low, high = fit(y=counts).predict_interval(NEW[:50]).T
    assert np.isfinite(low).all()
    assert (high > low).all()


def test_neighbors_with_a_known_outcome_have_outcomes_like_it(fitted):
    def means(near):
        return (near.probability * OUTCOMES[near.rows]).sum(axis=1) / near.probability.sum(axis=1)

    hidden = means(fitted.neighbors(NEW[:40], top=250))
    low, high = (means(fitted.neighbors(NEW[:40], y=np.full(40, y), top=250)) for y in (OUTCOMES.min(), OUTCOMES.max()))
    assert (low < hidden).mean() > 0.85
    assert (high > hidden).mean() > 0.85
    with pytest.raises(ValueError, match="1 outcomes for 2 rows"):
        fitted.neighbors(NEW[:2], y=[1.0])


# What a prediction may depend on


def test_alone_in_a_batch_in_another_order_with_other_threads(fitted, monkeypatch):
    table = NEW[:60]
    whole, intervals = fitted.predict(table), fitted.predict_interval(table)
    order = np.random.default_rng(1).permutation(60)
    np.testing.assert_array_equal(fitted.predict(table.iloc[order]), whole[order])
    for i in (0, 13, 59):
        np.testing.assert_array_equal(fitted.predict(table.iloc[[i]]), whole[[i]])
        np.testing.assert_array_equal(fitted.predict_interval(table.iloc[[i]]), intervals[[i]])
    again = pickle.loads(pickle.dumps(fitted)).set_params(n_jobs=3)
    np.testing.assert_array_equal(again.predict(table), whole)
    monkeypatch.setattr("bayespatch.predict.sampled.BATCH", 7)
    np.testing.assert_array_equal(fitted.predict(table), whole)
    again = fit(PAST, OUTCOMES, **LONGER, n_jobs=1)  # leave-one-out in batches, too
    np.testing.assert_array_equal(again.predict(table), whole)


def test_transductive_and_supervised_bins():
    table, _ = load_heart()
    rate = table.pop("thalach").to_numpy(float)
    medoids = {"parents": "medoids", "n_parents": 30}
    for settings in (
        {"transductive": True},
        {"bins": "supervised"},
        {"supervised": False, "importances": "joint"},
        medoids,
    ):
        model = fit(table[:120], rate[:120], chains=1, draws=10, warmup=10, **settings)
        assert np.isfinite(quietly(lambda model=model: model.predict(table[120:140]))).all()


# What is refused


@pytest.mark.parametrize(
    "wrong",
    [
        {"importances": "x"},
        {"second_opinion": "x"},
        {"error": 0},
        {"n_outcome_bins": 1},
        {"n_outcome_bins": 2.5},
        {"model": "IV"},
        {"hyper": "paper"},
        {"draws": 0},
        {"bins": "x"},
    ],
    ids=str,
)
def test_wrong_parameters_are_refused_before_the_work(wrong, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("sampling began")

    monkeypatch.setattr(import_module("bayespatch.sampling.sampler"), "run_chains", never)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PatchworkRegressor(**wrong).fit(X, Y)


def test_outcomes_and_levels_that_are_none_are_refused(fitted):
    for value, complaint in ((np.nan, "y has 1 missing outcome"), (np.inf, "y contains")):
        with pytest.raises(ValueError, match=complaint):
            fit(y=np.where(np.arange(80) == 3, value, Y))
    with pytest.raises(ValueError, match="y has texts, such as 'much'; pass numbers"):
        fit(y=np.array(["much"] * 80))
    for levels in (0.5, [], [0.5, 1.0], [0.0], ["half"], [np.nan], [[0.5]]):
        with pytest.raises(ValueError, match="levels="):
            fitted.predict_quantiles(NEW[:2], levels)
    for level in (0, 1, -0.5, "most"):
        with pytest.raises(ValueError, match="level="):
            fitted.predict_interval(NEW[:2], level)


def test_a_warm_start_begins_where_the_last_fit_ended():
    model = fit(X[:60], Y[:60], warm_start=True, votes="sampled")
    assert model._beginning(model.schema_, np.arange(80)).q_tilde.shape[2:] == (80, 4)
    assert len(quietly(lambda: model.fit(X, Y)).outcomes_) == 80
