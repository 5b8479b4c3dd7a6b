"""What counts: weights by hand, and how few values stand out."""

import numpy as np
import pytest

from bayespatch.encode import Column, Schema
from bayespatch.explain.evidence import (
    agreement,
    close_range,
    comparison,
    log_factors,
    mark,
    votes_without_values,
    weights,
)
from bayespatch.model import Hyperparameters, Model
from tests.explain.fitted import explained, fitted, table


def test_a_weight_is_the_log_of_the_likelihood_ratio():
    """One neighbor, one feature: q (lam0 + lam) / (V lam0 + lam) + (1 - q) / V where they agree."""
    clf = fitted(votes="sampled")
    past = clf.fitted_.past
    x, importance = clf.x_[0], clf.posterior_.q_tilde.mean(axis=(0, 1), dtype=float)
    agrees = agreement(x, past)
    found = weights(log_factors(x, agrees, past, clf.posterior_.model, importance))
    hyper, j = clf.hyper_, 1
    v = past.n_values[j]
    top = hyper.lam0 + hyper.lam * agrees[:, j]
    f = importance[:, j] * top / (v * hyper.lam0 + hyper.lam) + (1 - importance[:, j]) / v
    np.testing.assert_allclose(found[:, j], np.log(f) - np.log(f).mean())


def test_what_is_missing_counts_nothing():
    clf = fitted(missing="ignore")
    past, x = clf.fitted_.past, clf.x_[0].copy()
    x[3] = np.nan
    importance = np.full((60, 4), 0.5)
    found = weights(log_factors(x, agreement(x, past), past, Model("I", "exact", Hyperparameters()), importance))
    np.testing.assert_allclose(found[:, 3], 0.0, atol=1e-12)


def test_at_most_a_third_of_what_agrees_stands_out():
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 13, 34):
        for _ in range(50):
            weight, worth, agrees = rng.normal(size=n), rng.normal(size=n), rng.random(n) < 0.7
            marked = mark(weight, worth, agrees)
            counts = weight * np.abs(worth)
            assert not np.any(marked & ~agrees)
            assert np.all(weight[marked] > 0)
            assert marked.sum() <= max(1, agrees.sum() // 3)
            rest = agrees & ~marked & (weight > 0)
            assert not marked.any() or not rest.any() or counts[marked].min() >= counts[rest].max()
    assert not mark(np.zeros(3), np.ones(3), np.ones(3, bool)).any()
    assert not mark(np.ones(3), np.zeros(3), np.ones(3, bool)).any()


def test_votes_without_a_value_are_those_of_a_posterior_without_its_likelihood():
    """With one neighbor at a time the shares are proportional to the product of f: leaving one factor out is exact."""
    rng = np.random.default_rng(0)
    log_f, y = rng.normal(size=(30, 5)), rng.integers(0, 3, 30)
    shares = np.exp(log_f.sum(axis=1))
    shares *= 0.8 / shares.sum()
    base = np.array([0.1, 0.06, 0.04])
    votes = base + np.bincount(y, weights=shares)
    found = votes_without_values(log_f, shares, y, votes, 1.0)
    for j in range(5):
        rest = np.exp(np.delete(log_f, j, axis=1).sum(axis=1))
        np.testing.assert_allclose(found[j], base + np.bincount(y, weights=0.8 * rest / rest.sum()))
    np.testing.assert_allclose(votes_without_values(np.zeros((30, 5)), shares, y, votes, 1.0), np.tile(votes, (5, 1)))


def test_what_a_value_is_worth_is_about_what_leaving_it_out_changes():
    """Against predictions with the value missing; 60 votes leave errors of up to .5/sqrt(60) on either side."""
    clf, told, found = fitted(missing="ignore"), [], []
    X, _ = table(20, seed=9)
    for row in range(0, 20, 3):
        why = clf.explain(X.iloc[row])
        for feature in ("age", "pain"):
            other = clf.explain({**X.iloc[row].to_dict(), feature: None})
            told.append(next(part.worth for part in why.features if part.name == feature))
            found.append(why.probabilities["sick <i>"] - other.probabilities["sick <i>"])
    assert np.corrcoef(told, found)[0, 1] > 0.6


def test_values_are_compared_in_words():
    assert comparison(True, "58", "61") == "close"
    assert comparison(False, "58", "61") == "different"
    assert comparison(True, "missing", "missing") == "missing"
    assert comparison(False, "missing", "61") == "different"
    X, _ = table()
    for part in explained().exemplars:
        patch = part.features["age"]
        own = float(explained().values["age"])
        expected = "different" if not patch.agrees else "same" if own == float(patch.value) else "close"
        assert patch.comparison == expected
    both = fitted().explain({**X.iloc[0].to_dict(), "pulse": None})
    missing = [part.features["pulse"] for part in (*both.exemplars, *both.neighbors)]
    assert all((patch.comparison == "missing") == (patch.value == "missing") for patch in missing)
    assert not any(patch.marked for patch in missing)


def test_what_counts_as_close_is_stated():
    numbers = np.arange(100.0)
    ranked = Schema.learn(numbers[:, None], windows="10%").columns[0]
    low, high = map(float, close_range(ranked, float(ranked.encode(_column(50.0), True)[0][0]), 50.0).split(" to "))
    assert 38 <= low < 50 < high <= 62
    for value in (low, high):
        assert abs(ranked.encode(_column(value), True)[0] - ranked.encode(_column(50.0), True)[0]) <= ranked.window
    assert close_range(Column("a", "categorical", "text", values=("x",)), 0.0, 0.0) is None
    assert close_range(ranked, np.nan, np.nan) is None


def _column(value):
    from bayespatch.encode.table import PlainColumn

    return PlainColumn("x0", "number", np.array([value]), [])


@pytest.mark.parametrize("row", range(3))
def test_few_values_stand_out(row):
    cells = [patch for part in explained(row).exemplars for patch in part.features.values() if patch.agrees]
    for part in explained(row).exemplars:
        agree = [patch for patch in part.features.values() if patch.agrees]
        assert sum(patch.marked for patch in agree) <= max(1, len(agree) // 3)
    assert any(patch.marked for patch in cells)
