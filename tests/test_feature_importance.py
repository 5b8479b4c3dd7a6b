"""Importance of features for predictions."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bayespatch import PatchworkClassifier, PatchworkRegressor
from bayespatch.datasets import load_heart
from bayespatch.estimator.learning import ConstantColumnWarning
from bayespatch.feature_importance import LEVEL, drawn_orders
from bayespatch.feature_importance import _Predictor as Predictor

QUICK = {"draws": 100, "random_state": 0, "n_jobs": 1}


def table(n=240, seed=0):
    """Two informative columns, of which one is there twice, one of noise; both classes are about as frequent."""
    rng = np.random.default_rng(seed)
    stage, smoker = rng.integers(0, 3, n), rng.integers(0, 2, n)
    risk = 1.2 * (stage - 1) + 1.0 * (smoker - 0.5)
    X = pd.DataFrame({"stage": stage, "smoker": np.where(smoker, "yes", "no"), "noise": rng.integers(0, 3, n)})
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-risk)), "sick", "well")


@pytest.fixture(scope="module")
def clf():
    return PatchworkClassifier(**QUICK).fit(*table())


def test_gains_add_up_to_the_share_of_the_log_loss_that_all_features_remove(clf):
    found = clf.fitted_.importance
    assert found.gains.sum() == pytest.approx(1 - found.loss / found.loss_without, rel=1e-6)
    rates = np.bincount(clf.y_) / len(clf.y_)
    entropy = -(rates * np.log(rates)).sum()
    # A case that is left out is missing from the base rates as well, which costs a little.
    assert entropy < found.loss_without < entropy + 0.02


def test_what_matters_is_on_top(clf):
    found = clf.fitted_.importance
    stage, smoker, noise = found.gains
    assert stage > smoker > abs(noise)
    assert found.intervals[0, 0] > 0
    assert found.intervals[2, 0] == 0
    assert clf.feature_importances_.min() >= 0
    assert found.certain[0]
    assert not found.certain[2]


def test_the_average_over_all_orders_is_the_shapley_value(clf):
    """Three features have six orders, all of which are taken: the definition in 2^3 subsets gives the same."""
    (orders,) = drawn_orders(3, np.random.default_rng(0))
    rows = np.arange(len(clf.y_))
    predictor = Predictor.of(clf.fitted_._pooled_model(), rows, 1)
    _, (gains,) = predictor.gains(rows, [orders])
    subsets = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    value = dict(zip(subsets, predictor._log_probabilities(rows, np.array(subsets, float)).mean(axis=0), strict=True))
    for j in range(3):
        expected = 0.0
        for subset in subsets:
            if not subset[j]:
                more = tuple(1 if k == j else known for k, known in enumerate(subset))
                expected += {0: 1 / 3, 1: 1 / 6, 2: 1 / 3}[sum(subset)] * (value[more] - value[subset])
        assert gains[:, j].mean() == pytest.approx(expected, abs=1e-9)


def test_a_feature_that_is_not_known_is_as_good_as_missing(clf):
    """Votes without a feature are those on a case whose value is missing, where missing values are not compared."""
    fitted = clf.fitted_
    rows = np.arange(40)
    predictor = Predictor.of(fitted._pooled_model(), rows, 1)
    past = fitted.past
    x = past.x.copy()
    x[:, 1] = np.nan
    hidden = predictor.model._replace(past=past._replace(x=x))
    both = Predictor.of(hidden, rows, 1)._votes(rows, np.ones((1, 3)))
    np.testing.assert_allclose(predictor._votes(rows, np.array([[1.0, 0.0, 1.0]])), both, atol=1e-6)


def test_a_column_that_is_there_twice_shares_its_importance(clf):
    X, y = table()
    twice = PatchworkClassifier(**QUICK).fit(X.assign(again=X["stage"]), y).fitted_.importance
    alone = clf.fitted_.importance
    assert twice.gains[0] == pytest.approx(twice.gains[3], rel=0.35)
    assert twice.gains[0] + twice.gains[3] == pytest.approx(alone.gains[0], rel=0.25)


def test_no_case_is_judged_by_what_was_learned_from_it():
    """With random outcomes, features that were fitted to them must not seem to predict them."""
    rng = np.random.default_rng(4)
    X, y = pd.DataFrame(rng.integers(0, 3, (80, 8))), rng.integers(0, 2, 80)
    found = PatchworkClassifier(**QUICK).fit(X, y).fitted_.importance
    assert found.gains.sum() < 0.02
    assert (found.intervals[:, 0] > 0).sum() <= 1


def test_importances_of_a_number():
    X, _ = table()
    rng = np.random.default_rng(0)
    number = X["stage"] + 0.5 * (X["smoker"] == "yes") + 0.3 * rng.normal(size=len(X))
    found = PatchworkRegressor(**QUICK).fit(X, number).fitted_.importance
    assert found.gains[0] > found.gains[1] > abs(found.gains[2])


@pytest.mark.parametrize("how", [{"votes": "sampled"}, {"importances": "joint"}, {"model": "II"}])
def test_importances_where_votes_are_sampled(how):
    clf = PatchworkClassifier(**{**QUICK, "draws": 30, "warmup": 30, "chains": 2}, **how).fit(*table(120))
    found = clf.fitted_.importance
    assert found.gains[0] > abs(found.gains[2])
    assert np.isfinite(found.intervals).all()


def test_a_second_opinion_of_the_users_own():
    from sklearn.linear_model import LogisticRegression

    X, y = table()
    X = X.assign(smoker=X["smoker"] == "yes").astype(float)
    found = PatchworkClassifier(second_opinion=LogisticRegression(), **QUICK).fit(X, y).fitted_.importance
    assert found.gains[0] > abs(found.gains[2])


def test_three_classes():
    X, _ = table()
    y = np.where(X["stage"] == 0, "a", np.where(X["smoker"] == "yes", "b", "c"))
    found = PatchworkClassifier(**QUICK).fit(X, y).fitted_.importance
    assert min(found.gains[:2]) > 0.2 > abs(found.gains[2])


def test_heart_with_noise_and_constant_columns():
    """Twenty columns of noise and three of one value beside the thirteen: none among the ten most important."""
    X, y = load_heart()
    rng = np.random.default_rng(0)
    for k in range(20):
        X[f"noise{k}"] = rng.normal(size=len(X)) if k % 2 else rng.integers(0, 3, len(X)).astype(str)
    for k in range(3):
        X[f"constant{k}"] = 1.0 if k else "a"
    with pytest.warns(ConstantColumnWarning, match="'constant0', 'constant1', 'constant2'"):
        clf = PatchworkClassifier(**QUICK).fit(X, y)
    names = np.array(clf.schema_.names)
    most = names[np.argsort(-clf.feature_importances_)][:10]
    assert not [name for name in most if name.startswith(("noise", "constant"))]
    assert (clf.feature_importances_[-3:] == 0).all()
    of_noise = clf.fitted_.importance.intervals[13:33]
    assert (of_noise[:, 0] == 0).mean() >= 0.9


# Columns that tell nothing


def one_differs(n=60):
    X, y = table(n)
    return X.assign(same="a", odd=[1.0] + [0.0] * (n - 1)), y


def test_columns_that_tell_nothing_are_named_and_not_compared():
    X, y = one_differs()
    with pytest.warns(ConstantColumnWarning, match="columns 'same', 'odd'.*Drop these columns"):
        clf = PatchworkClassifier(**QUICK).fit(X, y)
    assert clf.schema_.not_compared == ("same", "odd")
    assert not [feature.name for feature in clf.overview().features if not feature.compared and feature.importance]
    np.testing.assert_array_equal(clf.feature_importances_[3:], 0)
    assert clf.posterior_.q.shape[2] == 5


def test_a_new_case_may_have_another_value_in_them():
    X, y = one_differs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantColumnWarning)
        clf = PatchworkClassifier(**QUICK).fit(X, y)
    usual, other = X.iloc[[5]], X.iloc[[5]].assign(same="b", odd=7.0)
    np.testing.assert_array_equal(clf.predict_proba(usual), clf.predict_proba(other))
    assert clf.explain(other).values["same"] == "b"


@pytest.mark.parametrize("how", [{}, {"votes": "sampled"}, {"importances": "joint", "second_opinion": None}])
def test_a_table_of_nothing_but_constant_columns_gives_base_rates(how):
    y = ["sick"] * 10 + ["well"] * 30
    settings = {**QUICK, "draws": 20, "warmup": 20}
    with pytest.warns(ConstantColumnWarning):
        clf = PatchworkClassifier(**settings, **how).fit(pd.DataFrame({"a": [1.0] * 40, "b": ["x"] * 40}), y)
    assert clf.predict_proba(pd.DataFrame({"a": [1.0], "b": ["y"]}))[0] == pytest.approx([0.25, 0.75], abs=0.03)
    np.testing.assert_array_equal(clf.feature_importances_, 0)


def test_missing_values_tell_something_beside_a_single_value():
    X, y = table()
    X["gap"] = [1.0 if label == "sick" else None for label in y]
    clf = PatchworkClassifier(missing="category", **QUICK).fit(X, y)
    assert clf.schema_.not_compared == ()
    assert LEVEL == 0.95
