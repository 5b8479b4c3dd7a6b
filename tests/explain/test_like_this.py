import numpy as np
import pytest

from bayespatch.explain.like_this import FEWEST, WIDEST, like_this
from tests.explain.fitted import explained, fitted


def test_it_counts_past_cases_with_such_votes():
    rng = np.random.default_rng(0)
    votes = rng.random(500)
    hit = rng.random(500) < votes
    for at in (0.0, 0.31, 0.9):
        found = like_this(at, votes, hit, "ill")
        near = (votes >= found.low - 1e-12) & (votes <= found.high + 1e-12)
        assert found.n == near.sum()
        assert found.n >= FEWEST or found.high - found.low == pytest.approx(min(1, at + WIDEST) - max(0, at - WIDEST))
        assert found.n_class == hit[near].sum()
        assert 0 <= found.low <= at <= found.high <= 1


def test_only_past_cases_with_similar_votes_are_counted():
    found = like_this(0.5, np.array([0.1, 0.44, 0.59, 0.61]), np.array([True, True, False, True]), "ill")
    assert (found.n, found.n_class) == (2, 1)
    assert like_this(0.5, np.array([0.1, 0.9]), np.array([True, False]), "ill") is None
    assert like_this(0.5, np.empty(0), np.empty(0, bool), "ill") is None


def test_it_is_that_of_the_leave_one_out_votes():
    clf, why = fitted(), explained()
    m = list(why.votes).index(why.predicted)
    votes, hit = clf.loo_.votes[:, m], clf.y_[clf.loo_.rows] == m
    assert why.like_this == like_this(why.votes[why.predicted], votes, hit, why.predicted)
