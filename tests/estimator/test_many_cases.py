"""Every past case votes, in closed form."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import bayespatch
from bayespatch import PatchworkClassifier, PatchworkRegressor
from bayespatch.casebase.without import without_case
from bayespatch.estimator.learning import ManyCasesWarning
from bayespatch.model import HIDDEN
from bayespatch.persistence.atomic import StorageError
from bayespatch.predict import ClosedForm, predict_cases
from bayespatch.retrieval import CaseIndex, vote

N = 700
SMALL = dict(chains=2, draws=24, warmup=5, random_state=0)


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "smoker": rng.choice(["yes", "no"], n),
            "stage": rng.choice(["I", "II", "III"], n),
            "age": rng.normal(60, 10, n).round(),
            "noise": rng.normal(size=n),
        }
    )
    X.loc[rng.random(n) < 0.1, "age"] = np.nan
    risk = (X.smoker == "yes") * 1.5 + (X.stage == "III") * 1.5 + (X.age.fillna(60) > 65) * 1.0 - 1.8
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-risk)), "sick", "well")
    return X, y, risk.to_numpy()


X, Y, RISK = table()


@pytest.fixture(scope="module")
def clf():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ManyCasesWarning)
        return PatchworkClassifier(**SMALL).fit(X, Y)


def weights_of_votes(clf):
    """Log weights of all comparisons in each draw, (D, K)."""
    weights = ClosedForm.of(clf.posterior_, clf.fitted_.past).log_weights
    return weights.reshape(-1, weights.shape[2])


def test_nobody_is_dropped(clf):
    assert len(clf.parents_) == len(clf.cases_) == N
    assert clf.posterior_.log_weights is not None
    assert clf.diagnostics_.converged
    assert "closed-form votes" in repr(clf.posterior_)


def test_votes_are_those_of_all_past_cases(clf):
    """`predict_votes` is the mean over draws of closed-form votes, 1 % of which are the base rates'."""
    x = clf.schema_.encode(X).x
    windows = [(c.window, *c.nested) for c in clf.schema_.columns]
    index = CaseIndex.build(x, clf.y_, 2, windows, clf.posterior_.compares_missing)
    weights = weights_of_votes(clf)
    new = x[:7] + 0.0
    shares = vote(index, index.ranges(new), weights).shares(np.array(clf.hyper_.mu))
    base = np.bincount(clf.y_) / N
    expected = 0.99 * shares.mean(axis=1) + 0.01 * base
    np.testing.assert_allclose(clf.predict_votes(X.iloc[:7]), expected, atol=1e-6)


def test_what_matters_is_found(clf):
    q = dict(zip(clf.schema_.names, clf.feature_importances_, strict=True))
    assert min(q["smoker"], q["stage"]) > q["noise"]


def test_new_cases_are_predicted_well():
    """Better than the base rates, and within 0.03 of the true probabilities' log loss."""
    new, y, risk = table(2000, seed=1)
    model = PatchworkClassifier(**SMALL).fit(X, Y)
    p = model.predict_proba(new)[:, 0]
    truth = 1 / (1 + np.exp(-risk))
    sick = y == "sick"

    def loss(q):
        return -np.mean(np.where(sick, np.log(q), np.log(1 - q)))

    assert loss(p) < loss(truth) + 0.03 < loss(np.full(2000, sick.mean()))


def test_predictions_do_not_depend_on_threads_or_on_the_other_rows(clf):
    whole = clf.predict_proba(X.iloc[:20])
    np.testing.assert_array_equal(clf.predict_proba(X.iloc[5:6]), whole[5:6])
    alone = PatchworkClassifier(**SMALL, n_jobs=1).fit(X, Y)
    np.testing.assert_array_equal(alone.predict_proba(X.iloc[:20]), whole)


def test_another_seed_says_the_same():
    one, two = (PatchworkClassifier(**{**SMALL, "random_state": seed, "draws": 50}).fit(X, Y) for seed in (1, 2))
    gap = np.abs(one.predict_proba(X) - two.predict_proba(X))
    assert gap.mean() < 0.01
    assert gap.max() < 0.05


def test_a_past_case_does_not_vote_on_itself(clf):
    why = clf.explain_past(3, known=False)
    assert 3 not in [neighbor.index for neighbor in why.neighbors]
    past = clf.fitted_.past
    alone = past._replace(x=past.x[3:4], y=np.array([HIDDEN]), own_parent=past.own_parent[3:4])
    assert why.votes["sick"] == pytest.approx(predict_cases(clf.posterior_, alone).mean_votes()[0, 0], abs=1e-6)
    # Leave-one-out votes use importances that were learned without the case.
    votes = clf.loo_.votes[clf.loo_.rows == 3]
    assert why.votes["sick"] == pytest.approx(votes[0, 0], abs=0.02)


def test_an_explanation_adds_up(clf):
    why = clf.explain(X.iloc[0])
    shares = [*(group.vote_share for group in why.groups), why.ungrouped.vote_share, why.base_rates]
    assert sum(shares) == pytest.approx(1.0, abs=1e-6)
    assert why.base_rates == pytest.approx(0.01, abs=1e-6)
    best = why.neighbors[0]
    assert best.vote_share == max(neighbor.vote_share for neighbor in why.neighbors)
    assert best.reliance is not None
    assert all(0 <= patch.matters <= 1 for patch in best.features.values())
    assert 0 < why.precedent.percentile <= 1


def test_an_outcome_that_is_known_counts(clf):
    without, known = clf.neighbors(X.iloc[:3]), clf.neighbors(X.iloc[:3], ["sick"] * 3, top=20)
    assert without.rows.shape == (3, 4)
    sick = (clf.y_[known.rows] == 0).mean()
    assert sick > (clf.y_[clf.neighbors(X.iloc[:3], top=20).rows] == 0).mean()


def test_who_has_somebody_as_a_neighbor(clf):
    rows, share = clf.has_as_neighbor(5)
    assert 5 not in rows
    best = int(rows[share.argmax()])
    ours = clf.schema_.encode(X).x
    agree = (ours[best, :2] == ours[5, :2]).mean()
    assert agree == 1.0
    assert clf.neighbor_totals().sum() == pytest.approx(0.99 * N, rel=1e-3)


def test_an_overview(clf):
    overview = clf.overview()
    assert len(overview.influential) == 10


def test_a_model_file_keeps_it(clf, tmp_path):
    clf.save(tmp_path / "m.bpatch")
    again = bayespatch.load(tmp_path / "m.bpatch")
    np.testing.assert_array_equal(again.predict_proba(X.iloc[:9]), clf.predict_proba(X.iloc[:9]))
    clf.save(tmp_path / "apart.bpatch", with_cases=False)
    apart = bayespatch.load(tmp_path / "apart.bpatch")
    assert apart.posterior_.q.shape[2] == 4
    with pytest.raises(StorageError, match="without its past cases"):
        _ = apart.feature_importances_


def test_a_model_file_whose_weights_do_not_fit_its_columns_is_refused(clf, tmp_path):
    from dataclasses import replace

    broken = PatchworkClassifier(**SMALL)
    weights = clf.posterior_.log_weights
    posterior = replace(clf.posterior_, log_weights=weights[:, :, 1:])
    broken.fitted_ = replace(clf.fitted_, posterior=posterior)
    with pytest.raises(StorageError, match="the weights do not match the comparisons"):
        broken.save(tmp_path / "m.bpatch")


def test_a_forgotten_case_votes_no_more(clf):
    x = clf.schema_.encode(X).x
    gone = without_case(clf, 4)
    assert len(gone.parents_) == N - 1
    weights = weights_of_votes(clf)
    rest = np.delete(np.arange(N), 4)
    windows = [(c.window, *c.nested) for c in clf.schema_.columns]
    index = CaseIndex.build(x[rest], clf.y_[rest], 2, windows, clf.posterior_.compares_missing)
    shares = vote(index, index.ranges(x[:3]), weights).shares(np.array(clf.hyper_.mu))
    expected = 0.99 * shares.mean(axis=1) + 0.01 * np.bincount(clf.y_) / N
    np.testing.assert_allclose(gone.predict_votes(X.iloc[:3]), expected, atol=1e-6)


def test_a_case_of_which_nothing_is_known_gets_the_base_rates(clf):
    nothing = pd.DataFrame([[None, None, np.nan, np.nan]], columns=X.columns)
    p = clf.predict_opinions(nothing)["precedents"][0]
    np.testing.assert_allclose(p, np.bincount(clf.y_) / N, atol=1e-6)


def test_numbers_vote_too():
    outcome = RISK + np.random.default_rng(3).normal(0, 0.3, N)
    model = PatchworkRegressor(**SMALL).fit(X, outcome)
    assert model.posterior_.log_weights is not None
    new, _, risk = table(200, seed=2)
    error = np.sqrt(np.mean((model.predict(new) - risk) ** 2))
    assert error < 0.6 * risk.std()
    why = model.explain(new.iloc[0])
    assert why.interval[0] < why.mean < why.interval[1]


def test_classes_can_be_weighted():
    model = PatchworkClassifier(**SMALL, class_weight={"sick": 3.0, "well": 1.0}).fit(X, Y)
    assert model.predict_proba(X)[:, 0].mean() > (Y == "sick").mean() + 0.1


def test_some_rows_may_vote_and_the_others_may_not():
    model = PatchworkClassifier(**SMALL, parents="balanced", n_parents=560).fit(X, Y)
    assert len(model.parents_) == 560
    counts = np.bincount(model.y_[model.parents_])
    assert model.predict_proba(X)[:, 0].mean() == pytest.approx((Y == "sick").mean(), abs=0.03)
    assert counts[0] == counts[1]


def test_models_without_a_closed_form_look_at_some_rows_and_say_so(monkeypatch):
    monkeypatch.setattr("bayespatch.estimator.learning.MOST_AUTO", 100)
    with pytest.warns(ManyCasesWarning, match="only 100 of the 700 past cases"):
        model = PatchworkClassifier(**SMALL, importances="joint").fit(X, Y)
    assert len(model.parents_) == 100


def test_those_who_truly_resemble_the_case_lead():
    """20 of 6,000 past cases were made like the case: each value is its own with a probability of 95 %."""
    rng = np.random.default_rng(0)
    n = 6000
    x = rng.integers(0, 4, (n, 12))
    case = np.full(12, 1)
    like = rng.choice(n, 20, replace=False)
    x[like] = np.where(rng.random((20, 12)) < 0.95, 1, x[like])
    score = (x[:, :5] == 1).sum(axis=1)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-(1.5 * score - 2.0))), "a", "b")
    model = PatchworkClassifier(**SMALL, categorical=[f"x{j}" for j in range(12)]).fit(x.astype(float), y)
    found = model.neighbors(case[None].astype(float), top=20).rows[0]
    assert set(found) == set(like)
    assert model.cases_.shape == (n,)


def test_the_past_cases_are_kept_once():
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(60, 3))
    fitted = PatchworkClassifier(draws=20, random_state=0).fit(X, (X[:, 0] > 0).astype(int)).fitted_
    for array in (fitted.values, fitted.past.x, fitted.past.x_parents):
        assert np.shares_memory(array, fitted.x)
