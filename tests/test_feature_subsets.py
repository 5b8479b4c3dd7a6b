"""Votes whose draws compare a part of the features each."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayespatch
from bayespatch import PatchworkClassifier
from bayespatch.predict import predict_cases
from bayespatch.predict.closed import SUBSETS, ClosedForm, _ignored_features
from bayespatch.retrieval.sums import LEAST

QUICK = {"draws": 24, "random_state": 0, "n_jobs": 1}


def weak_signs(n=240, n_features=12, seed=0):
    """Many signs, each of which says a little."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (n, n_features))
    risk = (x - 0.5) @ np.full(n_features, 0.7)
    return pd.DataFrame(x.astype(str)).add_prefix("sign"), (rng.random(n) < 1 / (1 + np.exp(-risk))).astype(int)


def in_parts(clf, wanted=True):
    """The model with votes on parts of the features, or on all."""
    settings = clf.posterior_.settings._replace(feature_subsets=wanted)
    return replace(clf.posterior_, settings=settings)


@pytest.fixture(scope="module")
def clf():
    return PatchworkClassifier(**QUICK).fit(*weak_signs())


def test_every_feature_is_ignored_once_in_successive_draws():
    ignored = _ignored_features(3, 24, 7)
    assert np.all(ignored.reshape(3, -1, SUBSETS, 7).sum(axis=2) == 1)
    sizes = ignored.sum(axis=2)
    assert set(sizes.ravel()) == {1, 2}  # as equal as 7 features allow
    assert len({row.tobytes() for row in ignored.reshape(-1, 7)}) > 20
    np.testing.assert_array_equal(ignored, _ignored_features(3, 24, 7))
    assert _ignored_features(1, 5, 3).shape == (1, 5, 3)


@pytest.mark.parametrize("missing", [False, True])
def test_votes_are_those_of_the_features_that_each_draw_compares(clf, missing):
    """By the definition: a past case that agrees in the compared features has the product of their weights."""
    X, _ = weak_signs(20, seed=1)
    _, cases, _ = clf._new_cases(clf.fitted_, X)
    if missing:
        cases = cases._replace(x=np.where(np.arange(12) == 3, np.nan, cases.x))
    posterior = in_parts(clf)
    votes = predict_cases(posterior, cases).mean_votes()
    closed = ClosedForm.of(posterior, cases)
    ignored = _ignored_features(4, 24, 12).reshape(-1, 12)
    weights = posterior.log_weights.reshape(-1, 12) * np.where(ignored, 0.0, SUBSETS / (SUBSETS - 1))
    agree = cases.x[:, None, :] == cases.x_parents[None]
    power = np.exp(np.einsum("nbj,dj->ndb", agree.astype(float), weights))
    by_class = np.stack([power[:, :, cases.y_parents == m].sum(axis=2) for m in (0, 1)], axis=2) * closed.heard
    shares = (1 - LEAST) * by_class / by_class.sum(axis=2, keepdims=True) + LEAST * closed.base
    np.testing.assert_allclose(votes, shares.mean(axis=1), rtol=1e-5)


def test_the_better_leave_one_out_score_decides(clf):
    assert clf.posterior_.settings.feature_subsets
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (300, 4))
    parity = x.sum(axis=1) % 2  # says nothing unless all four features are compared
    odd = PatchworkClassifier(**QUICK, second_opinion=None).fit(pd.DataFrame(x.astype(str)), parity)
    assert not odd.posterior_.settings.feature_subsets
    new = pd.DataFrame(x[:50].astype(str))
    assert np.all(odd.predict(new) == parity[:50])


def test_the_choice_is_stored_and_explained(clf, tmp_path):
    X, _ = weak_signs(10, seed=2)
    clf.save(tmp_path / "m.bpatch")
    again = bayespatch.load(tmp_path / "m.bpatch")
    assert again.posterior_.settings.feature_subsets
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    why = clf.explain(X.iloc[0]).to_dict()
    parts = why["attribution"]
    assert 100 * parts["base"] + sum(f["points"] for f in parts["features"]) == pytest.approx(100 * parts["total"])
    shares = sum(group["vote_share"] for group in why["groups"]) + why["ungrouped"]["vote_share"] + why["base_rates"]
    assert shares == pytest.approx(1.0, abs=1e-6)


def test_answers_do_not_depend_on_the_seed(clf):
    """The parts are the same for every seed; only the draws of the importances differ."""
    X, _ = weak_signs(60, seed=3)
    other = PatchworkClassifier(**{**QUICK, "random_state": 1}).fit(*weak_signs())
    apart = np.abs(clf.predict_proba(X) - other.predict_proba(X)).max(axis=1)
    assert apart.mean() < 0.01
    assert apart.max() < 0.05


def test_importance_is_that_of_calibrated_votes(clf):
    """The log loss that importance divides is close to the leave-one-out log loss of the model."""
    found = clf.fitted_.importance
    assert found.loss == pytest.approx(clf.pool_.log_loss[2], abs=0.02)


def test_few_features_are_always_compared_together():
    X, y = weak_signs(100, n_features=SUBSETS - 1)
    assert not PatchworkClassifier(**QUICK).fit(X, y).posterior_.settings.feature_subsets
