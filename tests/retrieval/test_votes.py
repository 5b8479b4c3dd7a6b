"""Votes in closed form, against the sum written out pair by pair in double precision."""

import math

import numpy as np
import pytest

from bayespatch.retrieval import CaseIndex, LeftOut, leave_one_out, vote, vote_shares
from bayespatch.retrieval.kernels import BLOCK, NEGLIGIBLE

N_QUERIES = 5


class Problem:
    """Past cases with categories, windows (some nested) and missing values; draws of weights."""

    def __init__(self, seed, n_past, n_features, n_classes, n_draws=4, strength=0.5, groups=False, own=False):
        rng = np.random.default_rng(seed)
        self.x = rng.integers(0, 5, (n_past, n_features)).astype(float)
        is_number = rng.random(n_features) < 0.4
        self.x[:, is_number] = rng.normal(size=(n_past, is_number.sum())).round(2)
        self.x[rng.random(self.x.shape) < 0.1] = np.nan
        self.windows = [(0.3, 0.1, 0.8)[: rng.integers(1, 4)] if number else (0.0,) for number in is_number]
        self.y = rng.integers(0, n_classes, n_past)
        self.own = np.exp(2.0 * np.random.default_rng(seed).normal(size=n_past)) if own else None
        self.index = CaseIndex.build(self.x, self.y, n_classes, self.windows, weights=self.own)
        self.rows = rng.choice(n_past, min(N_QUERIES, n_past), replace=False)
        self.rows[0] = -1  # somebody new
        self.new = self.x[np.maximum(self.rows, 0)].copy()
        self.new[0] = np.where(rng.random(n_features) < 0.2, np.nan, self.new[0])
        self.weights = rng.uniform(0.0, strength, (n_draws, len(self.index.columns)))
        self.weights *= np.where(np.isnan(self.index.reach), -1.0, 1.0)  # being unknown may count less than differing
        self.heard = rng.uniform(0.5, 2.0, n_classes)
        self.base = rng.dirichlet(np.full(n_classes, 5.0))
        self.groups = rng.integers(0, max(2, n_past // 3), n_past) if groups else None
        self.left_out = LeftOut.members(self.index, self.rows, self.groups)

    def log_weights(self):
        """Of all past cases in all draws, (n, N, D), rows of the original table; -inf where left out."""
        found = np.zeros((len(self.new), len(self.x), len(self.weights)))
        k = 0
        for j, windows in enumerate(self.windows):
            apart = np.abs(self.new[:, None, j] - self.x[None, :, j])
            for window in windows:
                with np.errstate(invalid="ignore"):
                    found += (apart <= window)[:, :, None] * self.weights[:, k]
                k += 1
            if np.isnan(self.x[:, j]).any():
                unknown = np.isnan(self.x[None, :, j]) & ~np.isnan(self.new[:, None, j])
                found += unknown[:, :, None] * self.weights[:, k]
                k += 1
        assert k == len(self.index.columns)
        if self.own is not None:
            found += np.log(self.own)[None, :, None]
        for i, row in enumerate(self.rows):
            if row >= 0:
                mine = [row] if self.groups is None else self.groups == self.groups[row]
                found[i, mine] = -np.inf
        return found

    def shares(self):
        """Share of every past case in the votes of each draw, (n, N, D)."""
        logs = self.log_weights()
        weights = np.exp(logs - logs.max(axis=1, keepdims=True)) * self.heard[self.y][None, :, None]
        return weights / weights.sum(axis=1, keepdims=True)

    def by_class(self):
        return np.einsum("nbd,bm->ndm", self.shares(), np.eye(self.index.n_classes)[self.y])


PROBLEMS = {
    "one feature": dict(n_past=40, n_features=1, n_classes=2),
    "small": dict(n_past=30, n_features=7, n_classes=3),
    "groups": dict(n_past=200, n_features=9, n_classes=2, groups=True),
    "several blocks": dict(n_past=3 * BLOCK + 17, n_features=12, n_classes=2),
    "twelve classes": dict(n_past=500, n_features=19, n_classes=12),
    "seventy features": dict(n_past=300, n_features=70, n_classes=4),
    "beyond single precision": dict(n_past=300, n_features=70, n_classes=3, strength=3.0),
    "strong": dict(n_past=2500, n_features=14, n_classes=2, strength=3.0),
    "one feature, weights": dict(n_past=40, n_features=1, n_classes=2, own=True),
    "weights": dict(n_past=2 * BLOCK + 17, n_features=12, n_classes=3, own=True),
    "weights and groups": dict(n_past=2500, n_features=14, n_classes=2, strength=3.0, groups=True, own=True),
    "weights beyond single precision": dict(n_past=300, n_features=70, n_classes=3, strength=3.0, own=True),
}


@pytest.fixture(params=[(name, seed) for name in PROBLEMS for seed in (0, 1)], ids=lambda p: f"{p[0]}-{p[1]}")
def problem(request):
    name, seed = request.param
    return Problem(seed, **PROBLEMS[name])


def test_votes_are_those_of_enumeration(problem):
    p = problem
    ranges = p.index.ranges(p.new)
    found = vote(p.index, ranges, p.weights, left_out=p.left_out)
    np.testing.assert_allclose(found.shares(p.heard), p.by_class(), atol=1e-5)
    shares = vote_shares(p.index, ranges, p.weights, found, p.heard, left_out=p.left_out)[:, 0]
    np.testing.assert_allclose(shares, p.shares().mean(axis=2)[:, p.index.rows], atol=1e-5)
    for i, (first, last) in enumerate(zip(p.left_out.edges[:-1], p.left_out.edges[1:], strict=True)):
        assert np.all(shares[i, p.left_out.positions[first:last]] == 0.0)


def test_shares_by_chain_are_those_of_its_draws(problem):
    p = problem
    ranges = p.index.ranges(p.new)
    found = vote(p.index, ranges, p.weights, left_out=p.left_out)
    shares = vote_shares(p.index, ranges, p.weights, found, p.heard, left_out=p.left_out, n_chains=2)
    expected = p.shares()[:, p.index.rows].reshape(len(p.new), -1, 2, 2).mean(axis=3)
    np.testing.assert_allclose(shares, np.moveaxis(expected, 2, 1), atol=1e-5)


def test_totals_are_absolute(problem):
    """The log of the total weight, relative to all comparisons holding: what familiarity is made of."""
    p = problem
    logs = p.log_weights() - np.maximum(p.weights, 0.0).sum(axis=1)
    top = logs.max(axis=1)
    expected = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
    found = vote(p.index, p.index.ranges(p.new), p.weights, left_out=p.left_out)
    np.testing.assert_allclose(found.log_total(), expected, atol=2e-5)


@pytest.mark.parametrize("n_parts", [1, 2, 5])
def test_parts_add_up_to_the_whole(problem, n_parts):
    p = problem
    whole = vote(p.index, p.index.ranges(p.new), p.weights)
    missing = p.index.compares_missing
    rows = np.array_split(np.arange(len(p.y)), n_parts)
    own = [None if p.own is None else p.own[r] for r in rows]
    parts = [
        CaseIndex.build(p.x[r], p.y[r], p.index.n_classes, p.windows, missing, weights)
        for r, weights in zip(rows, own, strict=True)
    ]
    sums = [vote(part, part.ranges(p.new), p.weights) for part in parts]
    total = sums[0]
    for more in sums[1:]:
        total = total + more
    np.testing.assert_allclose(total.shares(p.heard), whole.shares(p.heard), atol=1e-5)
    np.testing.assert_allclose(total.log_total(), whole.log_total(), atol=2e-5)
    shares = vote_shares(p.index, p.index.ranges(p.new), p.weights, whole, p.heard)[:, 0]
    places = p.index.positions()
    for part, r in zip(parts, rows, strict=True):
        mine = vote_shares(part, part.ranges(p.new), p.weights, total, p.heard)[:, 0]
        np.testing.assert_allclose(mine, shares[:, places[r[part.rows]]], atol=1e-5)


def test_threads_do_not_matter(problem):
    p = problem
    one, two = (vote(p.index, p.index.ranges(p.new), p.weights, n_threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one.sums, two.sums)


def test_leave_one_out_scores_and_their_gradient(problem):
    p = problem
    rows = np.maximum(p.rows, 0)
    out = LeftOut.members(p.index, rows, p.groups)
    ranges, y = p.index.ranges(p.x[rows]), p.y[rows]

    def score(weights, log_slope=0.4):
        return leave_one_out(p.index, ranges, y, out, weights, slope=math.exp(log_slope), heard=p.heard, base=p.base)

    found = score(p.weights[0])
    p.rows, p.new = rows, p.x[rows]
    share = 0.99 * p.by_class()[:, 0] + 0.01 * p.base
    logs = math.exp(0.4) * np.log(share) + (1 - math.exp(0.4)) * np.log(p.base)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found.log_p, logs[np.arange(len(y)), y], atol=1e-9)
    step = 1e-5
    for k in np.linspace(0, len(p.weights[0]) - 1, 6).astype(int):
        moved = step * np.eye(len(p.weights[0]))[k]
        slope = (score(p.weights[0] + moved).log_p - score(p.weights[0] - moved).log_p) / (2 * step)
        np.testing.assert_allclose(found.by_comparison[:, k], slope, atol=1e-7)
    slope = (score(p.weights[0], 0.4 + step).log_p - score(p.weights[0], 0.4 - step).log_p) / (2 * step)
    np.testing.assert_allclose(found.by_log_slope, slope, atol=1e-7)


def test_past_cases_that_cannot_matter_are_skipped():
    """Beside one that agrees in everything, those that agree in nothing have less than a negligible weight."""
    n = 5000
    x = np.zeros((n, 12))
    x[1:] = 1.0
    index = CaseIndex.build(x, np.arange(n) % 2, 2, [(0.0,)] * 12)
    weights = np.full((3, 12), 3.0)
    ranges = index.ranges(x[:1])
    found = vote(index, ranges, weights)
    assert (n - 1) * math.exp(-36.0) < NEGLIGIBLE
    np.testing.assert_array_equal(found.sums[0, 1], 0.0)
    shares = vote_shares(index, ranges, weights, found, np.ones(2))
    assert np.count_nonzero(shares) == 1


def test_a_past_case_that_matters_in_one_draw_is_not_skipped():
    """The first leads by far in one draw; the second, which never comes near that, leads in the other."""
    x = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    index = CaseIndex.build(x, np.array([0, 1]), 2, [(0.0,)] * 3)
    weights = np.array([[50.0, 0.0, 0.0], [0.0, 20.0, 30.0]])
    assert math.log(2 / NEGLIGIBLE) < 30.0
    found = vote(index, index.ranges(np.ones((1, 3))), weights)
    np.testing.assert_allclose(found.shares(np.ones(2)), [np.eye(2)], atol=1e-8)


def test_nobody_votes_where_all_are_left_out():
    x = np.zeros((3, 2))
    index = CaseIndex.build(x, np.array([0, 1, 1]), 2, [(0.0,)] * 2)
    groups = np.zeros(3, np.int64)
    out = LeftOut.members(index, np.array([0]), groups)
    found = vote(index, index.ranges(x[:1]), np.ones((2, 2)), left_out=out)
    np.testing.assert_array_equal(found.shares(np.ones(2)), 0.5)
    assert np.all(np.isneginf(found.log_total()))
    scores = leave_one_out(
        index,
        index.ranges(x[:1]),
        np.array([1]),
        out,
        np.ones(2),
        slope=2.0,
        heard=np.ones(2),
        base=np.array([0.25, 0.75]),
    )
    assert scores.log_p[0] == pytest.approx(math.log(0.75))
    assert not scores.by_comparison.any()


def test_further_cases_can_be_left_out():
    p = Problem(3, n_past=60, n_features=5, n_classes=2)
    excluded = np.random.default_rng(0).random((len(p.new), 60)) < 0.3
    found = vote(
        p.index, p.index.ranges(p.new), p.weights, left_out=p.left_out.and_these(p.index.positions(), excluded)
    )
    logs = np.where(excluded[:, :, None], -np.inf, p.log_weights())
    weights = np.exp(logs) * p.heard[p.y][None, :, None]
    expected = np.einsum("nbd,bm->ndm", weights / weights.sum(axis=1, keepdims=True), np.eye(2)[p.y])
    np.testing.assert_allclose(found.shares(p.heard), expected, atol=1e-5)


def test_an_integer_weight_is_as_many_equal_past_cases():
    p = Problem(5, n_past=80, n_features=6, n_classes=3)
    times = np.random.default_rng(1).integers(1, 5, 80)
    weighted = CaseIndex.build(p.x, p.y, 3, p.windows, weights=times)
    rows = np.repeat(np.arange(80), times)
    repeated = CaseIndex.build(p.x[rows], p.y[rows], 3, p.windows)
    one, many = (vote(index, index.ranges(p.new), p.weights) for index in (weighted, repeated))
    np.testing.assert_allclose(one.sums, many.sums, rtol=1e-5)
    assert weighted.total_weight == len(rows)
    np.testing.assert_array_equal(weighted.weight_by_class, np.bincount(p.y[rows]))


def test_a_gpu_refuses_weights():
    p = Problem(0, n_past=40, n_features=1, n_classes=2, own=True)
    with pytest.raises(ValueError, match="engine='cuda' does not support sample_weight; pass engine='cpu'"):
        vote(p.index, p.index.ranges(p.new), p.weights, engine="cuda")
    vote(p.index, p.index.ranges(p.new), p.weights, engine="auto")


def test_further_cases_count_once_beside_weights():
    p = Problem(6, n_past=50, n_features=4, n_classes=2, own=True)
    more = p.index.with_cases(p.x[:3], p.y[:3])
    rows = np.append(np.arange(50), [0, 1, 2])
    whole = CaseIndex.build(p.x[rows], p.y[rows], 2, p.windows, weights=np.append(p.own, np.ones(3)))
    np.testing.assert_array_equal(more.weights, whole.weights)
    np.testing.assert_array_equal(more.rows, whole.rows)


@pytest.mark.parametrize("n_levels", [200, 300, 70_000])
def test_codes_of_any_number_of_values(n_levels):
    """One, two or four bytes a value."""
    rng = np.random.default_rng(0)
    x = rng.permutation(n_levels).astype(float)[:, None]
    index = CaseIndex.build(x, np.zeros(n_levels, np.int64), 1, [(2.5,)])
    assert index.codes.itemsize == {200: 1, 300: 2, 70_000: 4}[n_levels]
    ranges = index.ranges(np.array([[100.0]]))
    found = vote(index, ranges, np.full((1, 1), 1.0))
    near = 5 + (n_levels - 5) * math.exp(-1.0)
    assert found.sums[0, 0, 0] == pytest.approx(near, rel=1e-6)


def test_agreement_is_by_distance_whatever_rounding_does():
    """0.3 and 0.4 differ by more than 0.1 in floating point, although 0.3 + 0.1 is 0.4."""
    assert abs(0.4 - 0.3) > 0.1 >= 0.4 - 0.3 - 1e-9
    assert 0.3 + 0.1 == 0.4
    values = np.round(np.arange(0, 2, 0.1), 1)
    index = CaseIndex.build(values[:, None], np.zeros(len(values), np.int64), 1, [(0.1,)])
    ranges = index.ranges(values[:, None])
    for i, value in enumerate(values):
        codes = np.arange(1, len(values) + 1)
        agrees = (codes >= ranges.low[i, 0]) & (codes <= ranges.high[i, 0])
        np.testing.assert_array_equal(agrees, np.abs(values - value) <= 0.1)


def test_memory_of_a_million_past_cases():
    """One byte a value, and where each case stands."""
    x = np.random.default_rng(0).integers(0, 5, (100_000, 20)).astype(float)
    index = CaseIndex.build(x, np.zeros(100_000, np.int64), 1, [(0.0,)] * 20)
    assert 10 * (index.codes.nbytes + index.rows.nbytes) < 30e6
