"""Explanations against the truth: known parents and features, and precedent."""

import warnings

import numpy as np
import pytest
from scipy.stats import binom

from bayespatch import Hyperparameters, PatchworkClassifier
from bayespatch.datasets import load_heart

KINDS = ("I", "II", "III")


def fit(X, y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PatchworkClassifier(**{"chains": 2, "draws": 150, "warmup": 150, "random_state": 0, **settings}).fit(
            X, y
        )


# Cases made from given parents through given features

N_PARENTS, N_CASES, N_NEW, N_FEATURES, N_VALUES, N_TRUE = 12, 240, 100, 14, 4, 9


def patched(rng, parents, through, n):
    """n cases, each with the values of one parent in the features of that parent, and chance in the others."""
    made = rng.integers(0, N_VALUES, (n, N_FEATURES))
    of = rng.integers(0, N_PARENTS, n)
    return np.where(through[of], parents[of], made), of


@pytest.fixture(scope="module", params=KINDS)
def truth(request):
    rng = np.random.default_rng(5)
    parents = rng.integers(0, N_VALUES, (N_PARENTS, N_FEATURES))
    through = np.argsort(rng.random((N_PARENTS, N_FEATURES)), axis=1) < N_TRUE
    cases, of = patched(rng, parents, through, N_CASES)
    X = np.concatenate([parents, cases])
    classes = rng.permutation(np.arange(N_PARENTS) % 2)
    y = np.concatenate([classes, classes[of]])
    hyper = Hyperparameters(alpha=1.5 / N_PARENTS, lam0=0.1, lam=1.0, sigma2=1.0)
    # Cases come from parents as the model says, so its joint posterior finds them; by default outcomes alone would say
    # which features matter.
    joint = dict(importances="joint", second_opinion=None)
    clf = fit(X, y, model=request.param, parents=np.arange(N_PARENTS), hyper=hyper, max_levels=N_VALUES, **joint)
    new, new_of = patched(rng, parents, through, N_NEW)
    return clf, new, new_of, through


def ranked_first(clf, rows, of):
    """In how many cases the given parent is the most influential one, and which of its agreeing features matter."""
    found = clf.explain_all(rows, top=N_PARENTS)
    first = [bool(why.neighbors) and why.neighbors[0].index == parent for why, parent in zip(found, of, strict=True)]
    marks = []
    for why, parent in zip(found, of, strict=True):
        mine = [neighbor for neighbor in why.neighbors if neighbor.index == parent]
        patches = mine[0].features.values() if mine else ()
        marks.append([patch.agrees and patch.matters >= 0.5 for patch in patches] or [False] * N_FEATURES)
    return np.mean(first), np.array(marks)


def test_true_parents_rank_first_and_true_features_matter(truth):
    clf, new, of, through = truth
    first, marks = ranked_first(clf, new, of)
    true = through[of]
    print(f"Model {clf.model}: first {first:.2f}, marked {marks[true].mean():.2f}, others {marks[~true].mean():.2f}")
    assert first >= 0.9
    assert (marks[true]).mean() >= 0.9
    whole = (marks | ~true).mean(axis=1) >= 0.9
    assert whole.mean() >= 0.9  # nearly all true features of a case, in nearly all cases
    assert marks[~true].mean() < 0.5 / N_VALUES  # of the values that agree by chance, less than half


def test_on_permuted_data_they_do_not(truth):
    """Values permuted among the cases, column by column: nobody comes from anybody."""
    clf, new, of, through = truth
    rng = np.random.default_rng(1)
    first, marks = ranked_first(clf, rng.permuted(new, axis=0), of)
    print(f"Model {clf.model}, permuted: first {first:.2f}, marked {marks[through[of]].mean():.2f}")
    assert first * N_NEW <= binom.ppf(0.9999, N_NEW, 1.5 / N_PARENTS)  # chance, and a little for common values
    assert marks[through[of]].mean() < 0.5


# Precedent


@pytest.fixture(scope="module")
def heart():
    X, y = load_heart()
    order = np.random.default_rng(3).permutation(len(X))
    X, y = X.iloc[order], y.iloc[order]
    return fit(X[:200], y[:200]), X[200:]


def flagged(clf, X, quantile=0.05):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = clf.explain_all(X, top=1, quantile=quantile)
        return np.mean([not why.precedent.adequate for why in found])


def test_held_out_patients_are_flagged_at_about_the_stated_rate(heart):
    """Binomial limits at one in ten thousand on either side; the rate itself is known to one past case in 200."""
    clf, new = heart
    for quantile in (0.05, 0.2, 0.5):
        n = len(new)
        rate = flagged(clf, new, quantile)
        print(f"held out, stated {quantile}: {rate:.3f}")
        low, high = binom.ppf([0.0001, 0.9999], n, [quantile - 0.01, quantile + 0.01])
        assert low <= rate * n <= high


def test_patients_whose_values_stand_in_other_columns_are_flagged(heart):
    """Codes are shuffled across the columns of each patient: every value is one of its column, but none belongs."""
    clf, new = heart
    rng = np.random.default_rng(0)
    codes = rng.permuted(clf.schema_.encode(new).x, axis=1)
    codes = np.minimum(codes, clf.schema_.n_values - 1)
    rate, usual = flagged_codes(clf, codes), flagged(clf, new)
    print(f"shuffled across columns: {rate:.2f}, as they are: {usual:.2f}")
    assert rate > 0.5
    assert rate > 5 * usual


def flagged_codes(clf, codes, quantile=0.05):
    from bayespatch.model import HIDDEN
    from bayespatch.predict import predict_cases

    new = clf.fitted_.past._replace(x=codes, y=np.full(len(codes), HIDDEN), own_parent=np.full(len(codes), -1))
    return np.mean(clf._percentiles([predict_cases(clf.posterior_, new)]) <= quantile)


def test_simulated_cases_from_elsewhere_are_flagged(truth):
    """Uniformly random values have no parent; those of the past have nine values in common with one."""
    clf, new, _, _ = truth
    elsewhere = np.random.default_rng(2).integers(0, N_VALUES, new.shape)
    rates = flagged(clf, elsewhere), flagged(clf, new)
    print(f"Model {clf.model}: elsewhere {rates[0]:.2f}, alike {rates[1]:.2f}")
    assert rates[0] > 0.9
    assert rates[1] * N_NEW <= binom.ppf(0.9999, N_NEW, 0.06)
