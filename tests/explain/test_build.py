"""What an explanation is made of, against the predictions it must agree with."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

from bayespatch.explain import CaseTexts, ExplanationOptions, explain_cases
from bayespatch.fitted import OpinionOnCases
from bayespatch.leave_one_out import LeaveOneOutVotes
from bayespatch.pool import Pool
from bayespatch.predict import Neighborhood, predict_cases
from tests.explain.fitted import BAD, explained, fitted, table

NEW, _ = table(20, seed=9)


def test_it_says_what_the_estimator_says():
    clf = fitted()
    row = NEW.iloc[[0]]
    why = clf.explain(row, error=clf.error)  # as exactly as predictions are made
    np.testing.assert_allclose(list(why.probabilities.values()), clf.predict_proba(row)[0])
    np.testing.assert_allclose(list(why.votes.values()), clf.predict_votes(row)[0])
    np.testing.assert_allclose(np.array(list(why.intervals.values())), clf.predict_interval(row)[0], atol=1e-7)
    near: Neighborhood = clf.neighbors(row, top=5)
    assert [neighbor.index for neighbor in why.neighbors] == near.rows[0].tolist()
    np.testing.assert_allclose([neighbor.influence for neighbor in why.neighbors], near.influence[0])
    np.testing.assert_allclose([feature.importance for feature in why.features], clf.feature_importances_)


def test_it_is_told_in_the_users_own_words():
    X, y = table()
    clf, why = fitted(), explained()
    assert why.id == "patient-0"
    assert why.target == "illness"
    assert list(why.probabilities) == ["well", "sick <i>"]
    assert why.values["pain"] in ("none", "severe & lasting")
    for neighbor in why.neighbors:
        past = X.iloc[neighbor.index]
        assert neighbor.id == X.index[neighbor.index]
        assert neighbor.outcome == {0: "well", 1: "sick <i>"}[y.iloc[neighbor.index]]
        assert float(neighbor.features["age"].value) == past["age"]  # the age itself and not its bin
        assert neighbor.features[BAD].value == past[BAD]
        assert neighbor.features["pulse"].value == ("missing" if np.isnan(past["pulse"]) else f"{past['pulse']:.0f}")
    differ = np.abs(clf.schema_.encode(NEW.iloc[[0]]).x[0] - clf.x_[why.neighbors[0].index])
    agree = differ <= clf.schema_.windows
    assert [patch.agrees for patch in why.neighbors[0].features.values()] == agree.tolist()


@pytest.mark.parametrize("model", ["I", "II", "III"])
def test_votes_come_from_the_shares(model):
    """With all parents named, the shares of those of a class and the base rates' are the votes for it."""
    why = fitted(model=model).explain(NEW.iloc[0], top=60)
    for name, vote in why.votes.items():
        mine = sum(neighbor.vote_share for neighbor in why.neighbors if neighbor.outcome == name)
        assert mine + why.base_rates / 2 == pytest.approx(vote, abs=1e-5)


def test_many_at_once_are_the_same_as_one_by_one():
    clf = fitted()
    many = clf.explain_all(NEW.iloc[:3])
    assert many[2].to_dict() == clf.explain(NEW.iloc[2], error=clf.error).to_dict()


def test_a_known_outcome_counts_for_the_neighbors_and_not_for_the_prediction():
    clf = fitted()
    hidden, known = clf.explain(NEW.iloc[0]), clf.explain(NEW.iloc[0], y=1)
    assert known.outcome == "sick <i>"
    assert hidden.outcome is None
    assert known.probabilities == hidden.probabilities
    assert known.precedent == hidden.precedent
    told = [clf.explain(NEW.iloc[0], y=y, top=60) for y in (0, 1)]
    of = [sum(n.probability for n in why.neighbors if n.outcome == "sick <i>") for why in told]
    assert of[1] > of[0]


def test_a_past_case_does_not_vote_on_itself():
    clf = fitted()
    for known in (True, False):
        why = clf.explain_past(5, known=known, top=60)
        assert why.id == "patient-5"
        assert 5 not in [neighbor.index for neighbor in why.neighbors]
        assert (why.outcome is not None) == known
    X = table()[0]
    named, nameless = clf.explain(X.iloc[5], top=60), clf.explain(X.iloc[5].to_dict(), top=60)
    for why in (named, nameless):
        assert [guard.kind for guard in why.guards if guard.kind == "itself"] == ["itself"]
        assert 5 not in [neighbor.index for neighbor in why.neighbors]
        assert not any(5 in group.rows for group in why.groups)
    allowed = clf.explain(X.iloc[5], top=60, exclude_self=False)
    assert 5 in [neighbor.index for neighbor in allowed.neighbors]
    assert "itself" not in [guard.kind for guard in allowed.guards]
    twin = clf.explain(X.iloc[5].rename("somebody else"), top=60)
    assert 5 in [neighbor.index for neighbor in twin.neighbors]
    after = clf.what_if(X.iloc[5], {"pulse": 77}).after
    assert not any(5 in group.rows for group in after.groups)


def test_a_past_case_as_if_it_were_new_is_that_of_leave_one_out():
    """Both are leave-one-out; 60 draws of a share leave a Monte Carlo error of at most .5/sqrt(60), twice."""
    clf = fitted()
    rows = range(0, 60, 6)
    found = [list(clf.explain_past(row, known=False).votes.values())[1] for row in rows]
    assert np.abs(np.array(found) - clf.loo_.votes[list(rows), 1]).max() < 4 * np.sqrt(2) * 0.5 / np.sqrt(60)


@pytest.mark.parametrize("row", range(3))
def test_reliance_is_the_change_when_a_past_case_is_taken_away(row):
    clf = fitted()
    why = clf.explain(NEW.iloc[row])
    posterior, new, _ = clf._new_cases(clf.fitted_, NEW.iloc[[row]])
    for neighbor in why.neighbors:
        fewer = new._replace(
            x_parents=np.delete(new.x_parents, neighbor.index, axis=0),
            y_parents=np.delete(new.y_parents, neighbor.index),
        )
        votes = predict_cases(replace(posterior), fewer).mean_votes()
        without = clf.calibration_.apply(votes)[0, 1]
        assert neighbor.reliance == pytest.approx(why.probabilities["sick <i>"] - without, abs=1e-5)
        assert (neighbor.reliance > 0) == (neighbor.outcome == "sick <i>")
    sampled = fitted(votes="sampled").explain(NEW.iloc[row])
    assert [neighbor.reliance for neighbor in sampled.neighbors] == [None] * len(sampled.neighbors)


def test_a_second_opinion_is_pooled_and_shown():
    clf = fitted()
    posterior, new, encoded = clf._new_cases(clf.fitted_, NEW.iloc[:2])
    cases = CaseTexts(encoded.ids, clf.schema_.describe_rows(NEW.iloc[:2]), encoded.values, encoded.unseen)
    other = np.array([[0.9, 0.1], [0.2, 0.8]])
    second = OpinionOnCases(other, Pool(0.25), points=np.arange(8.0).reshape(2, 4))
    # The pool takes a quarter of the error away: the same votes are drawn where as much more is asked of them alone.
    alone = list(explain_cases(clf.fitted_, posterior, new, cases, ExplanationOptions(error=0.005 / 0.75)))
    both = list(explain_cases(clf.fitted_, posterior, new, cases, second=second))
    for k, (one, two) in enumerate(zip(alone, both, strict=True)):
        precedents, pooled = np.array(list(one.probabilities.values())), np.array(list(two.probabilities.values()))
        np.testing.assert_allclose(pooled, 0.75 * precedents + 0.25 * other[k])
        assert two.opinions.precedents == pytest.approx(one.probabilities)
        assert two.opinions.disagreement == pytest.approx(np.abs(precedents - other[k]).max())
        assert two.to_dict()["opinions"]["points"][1] == {"feature": "pain", "points": 4.0 * k + 1}
        for name, p in two.probabilities.items():
            low, high = two.intervals[name]
            assert low <= p + 1e-9
            assert p <= high + 1e-9
        assert two.votes == one.votes
        for a, b in zip(one.neighbors, two.neighbors, strict=True):
            assert b.reliance == pytest.approx(0.75 * a.reliance, abs=1e-9)
    unexplained = next(explain_cases(clf.fitted_, posterior, new, cases, second=second._replace(points=None)))
    assert unexplained.to_dict()["opinions"]["points"] is None


def test_percentiles_of_like_cases_are_uniform():
    rng = np.random.default_rng(0)
    fitted_ = fitted().fitted_

    def percentile():
        known, new = rng.normal(size=99), rng.normal(size=1)
        loo = LeaveOneOutVotes(np.arange(99), np.full((99, 2), 0.5), known)
        return replace(fitted_, loo=loo, cases=np.arange(99)).percentile(new)[0]

    draws = [percentile() for _ in range(400)]
    assert min(draws) >= 0.01
    assert max(draws) <= 1
    assert kstest(draws, "uniform").pvalue > 0.001


def test_a_single_chain_has_nothing_to_be_compared_with():
    assert explained(chains=1).stability.overlap is None
    assert 0 <= explained().stability.overlap <= 1
