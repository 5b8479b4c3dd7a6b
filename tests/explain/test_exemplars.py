"""Grouping of voters: exactness on small problems, against brute force."""

from itertools import combinations

import numpy as np
import pytest

from bayespatch.explain.exemplars import distances, exemplars_of


def made(n=60, seed=0, n_classes=2):
    """Voters in four tight bunches, two of each class, with uneven votes."""
    rng = np.random.default_rng(seed)
    bunch = rng.integers(0, 4, n)
    centers = rng.integers(0, 3, (4, 8))
    x = np.where(rng.random((n, 8)) < 0.1, rng.integers(0, 3, (n, 8)), centers[bunch]).astype(float)
    shares = rng.dirichlet(np.ones(n)) * 0.9
    return shares, x, bunch % n_classes, bunch


def test_bunches_are_found_and_everything_is_accounted_for():
    shares, x, y, bunch = made()
    found = exemplars_of(shares, x, y, np.zeros(8), np.ones(8), most=4, enough=0.0)
    assert len(found.exemplars) == 4
    assert found.shares.sum() + found.left == pytest.approx(0.9)
    assert found.left < 0.05
    assert found.differing < found.usual / 2
    for exemplar, members, share in zip(found.exemplars, found.members, found.shares, strict=True):
        assert exemplar in members
        assert set(y[members]) == {y[exemplar]}
        assert shares[members].sum() == pytest.approx(share)
        assert (bunch[members] == bunch[exemplar]).mean() > 0.9
    assert list(found.shares) == sorted(found.shares, reverse=True)


def test_it_is_as_good_as_the_best_of_all_choices():
    """Greedy and exchanges against all sets of three among 14 voters of one class."""
    for seed in range(5):
        shares, x, _, _ = made(14, seed)
        y = np.zeros(14, dtype=int)
        found = exemplars_of(shares, x, y, np.zeros(8), np.ones(8), most=3, enough=0.0)
        apart = distances(x, np.zeros(8), np.ones(8))
        votes = shares / shares.sum()
        limit = 1.5 * votes @ apart @ votes / (1 - (votes**2).sum())
        cost = {k: votes @ np.minimum(apart[:, list(k)], limit).min(axis=1) for k in combinations(range(14), 3)}
        mine = votes @ np.minimum(apart[:, found.exemplars], limit).min(axis=1)
        assert mine <= 1.1 * min(cost.values())


def test_the_order_of_the_parents_does_not_matter():
    shares, x, y, _ = made()
    found = exemplars_of(shares, x, y, np.zeros(8), np.ones(8))
    order = np.random.default_rng(1).permutation(60)
    again = exemplars_of(shares[order], x[order], y[order], np.zeros(8), np.ones(8))
    np.testing.assert_array_equal(x[order[again.exemplars]], x[found.exemplars])  # of equals, the first of the table


def test_of_equal_past_cases_the_first_is_shown_whoever_has_more_votes():
    x = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    y = np.array([1, 0, 0, 0, 0])
    for shares in ([0.2, 0.1, 0.1, 0.2, 0.3], [0.2, 0.2, 0.3, 0.1, 0.1]):
        found = exemplars_of(np.array(shares), x, y, np.zeros(2), np.ones(2), enough=0.0)
        assert set(found.exemplars) == {0, 1, 2}


def test_missing_values_and_windows():
    x = np.array([[1.0, np.nan], [1.4, np.nan], [3.0, 0.0]])
    apart = distances(x, np.array([0.5, 0.0]), np.array([2.0, 1.0]))
    assert apart[0, 1] == 0.0
    assert apart[0, 2] == 1.0


def test_nobody_and_one():
    nobody = exemplars_of(np.zeros(3), np.zeros((3, 2)), np.zeros(3, int), np.zeros(2), np.ones(2))
    assert len(nobody.exemplars) == 0
    assert nobody.left == 0.0
    one = exemplars_of(np.array([0.0, 0.7, 0.0]), np.eye(3), np.arange(3), np.zeros(3), np.ones(3))
    assert one.exemplars.tolist() == [1]
    assert one.shares.tolist() == [0.7]


def test_unlike_voters_are_left_out():
    """Twenty copies of one past case, and one that shares nothing with them."""
    x = np.zeros((21, 6))
    x[20] = np.arange(1, 7)
    shares = np.full(21, 0.045)
    found = exemplars_of(shares, x, np.zeros(21, int), np.zeros(6), np.ones(6), most=1)
    assert 20 not in found.members[0]
    assert found.left == pytest.approx(0.045)


def test_no_more_exemplars_than_it_takes():
    shares, x, y, _ = made()
    numbers = [len(exemplars_of(shares, x, y, np.zeros(8), np.ones(8), enough=e).exemplars) for e in (0.9, 0.45, 0.0)]
    assert numbers[0] < numbers[1] < numbers[2] == 8
