"""The parts of the update of a case on a GPU; the whole of it is held against the CPU's in ``simulated_cuda``."""

import numpy as np
import pytest

from bayespatch.engine.cuda_case import (
    Case,
    Importance,
    Own,
    begin_case,
    cast_votes,
    largest_odds,
    ones,
    refresh_labels,
    take_ratios,
    turned_down,
)
from bayespatch.engine.votes import AGREES, DIFFERS, VOTE_OFF, VOTE_ON
from bayespatch.model import KINDS, Latent, label_votes
from tests.engine.card_at_hand import hand, w_of


def begun(kind, seed=0, n_features=5):
    at = hand(kind, seed, n_features=n_features)
    exact = np.float64 if kind == "III" else np.float32
    shape = (2, n_features)
    case = Case(
        np.zeros(shape, exact), np.zeros(shape, np.float32), np.zeros(2), np.zeros(2, np.float32),
        np.zeros(1, np.uint32), np.zeros(1, np.uint32),
    )  # fmt: skip
    own = Own(np.array([1, 2], np.uint64), np.zeros(shape, np.float32), at.table.same[:, 0, 4].copy(), np.zeros(1))
    begin_case(at.c.kind, at.c, at.table, at.entries, case, 0)
    take_ratios(case, own)
    return at, case, own


def test_ones_counts_bits():
    for v in [0, 1, 2**31, 2**32 - 1, *np.random.default_rng(0).integers(0, 2**32, 200)]:
        assert ones(np.uint32(v)) == int(v).bit_count()


@pytest.mark.parametrize("kind", KINDS)
def test_a_neighbor_that_comes_and_goes_leaves_no_trace(kind):
    at, case, _ = begun(kind)
    before = [np.array(part) for part in case[:4]]
    case.bits[0] = 0b10110
    case.same[0] = at.table.same[0, 0, 4]
    for k in (0.75, -0.75):
        for first in range(3):  # three threads share the features
            cast_votes(at.c.kind, at.c, at.table, case, 0, 4, k, first, 3)
        case.class_votes[at.table.y_parents[4]] += k
        refresh_labels(at.c.kind, at.c, at.table, case, 0, 0, 1)
    for was, now in zip(before, case[:4], strict=True):
        np.testing.assert_allclose(now, was, rtol=1e-6, atol=1e-6)


def test_votes_for_classes_are_those_of_the_model():
    at, case, _ = begun("I")
    z = np.zeros((2, 5), bool)
    z[0, :3] = True
    w = np.zeros((2, 5, 5), bool)
    w[0, :3] = w_of(at.entries, 0, 5)
    expected = label_votes(at.data, at.model, Latent(np.full(5, 0.5), z, w, np.zeros((2, 5))))[0]
    np.testing.assert_array_equal(case.class_votes, expected)


@pytest.mark.parametrize("chunk", [1, 2, 5, 30])
def test_odds_are_the_product_however_it_is_split(chunk):
    at, case, own = begun("I")
    importance = Importance(at.new, at.new.astype(np.float32))
    same = [(int(own.same[0]) >> j) & 1 for j in range(5)]
    ratio = np.where(same, case.ratio[AGREES], case.ratio[DIFFERS]).astype(float)
    expected = at.c.prior_odds * 1.5 * np.prod(at.new[VOTE_OFF, 4] + at.new[VOTE_ON, 4] * ratio)
    assert largest_odds(1, at.c, importance, own, np.float32(1.5), 4, chunk) == pytest.approx(expected, rel=1e-5)


def test_nobody_is_turned_down_whom_all_bits_would_accept():
    rng = np.random.default_rng(0)
    for odds in 10.0 ** rng.uniform(-9, 9, 300):
        limit = odds / (1 + odds)
        for u in (limit * (1 - 1e-9), limit * rng.random(), 0.0):
            assert not turned_down(odds, np.uint64(int(u * 2**53)) << np.uint64(11))
        if limit < 0.5:
            assert turned_down(odds, np.uint64(int((limit * 1.001 + 2**-23) * 2**53)) << np.uint64(11))
