"""The parts of the update of a case on a GPU; the whole of it is held against the CPU's in ``simulated_cuda``."""

import numpy as np
import pytest
from bayespatch_cuda.layout import bit, ones
from bayespatch_cuda.update import cast_votes, refresh_labels
from bayespatch_cuda.weigh import CEILING, accepted, largest_odds, turned_down

from bayespatch.engine.votes import AGREES, DIFFERS, VOTE_OFF, VOTE_ON, pick
from bayespatch.model import KINDS, Latent, label_votes
from tests.cuda.gpu_layout import GROUP, B, begun, chances, w_of


def test_ones_counts_bits():
    for v in [0, 1, 2**31, 2**32 - 1, *np.random.default_rng(0).integers(0, 2**32, 200)]:
        assert ones(np.uint32(v)) == int(v).bit_count()


@pytest.mark.parametrize("kind", KINDS)
def test_a_neighbor_that_comes_and_goes_leaves_no_trace(kind):
    at, case, _, change = begun(kind)
    before = [np.array(part) for part in case]
    for k in (0.75, -0.75):
        for lane in range(3):  # three threads share the features
            cast_votes(at.c.kind, at.c, at.table, case, change, 0, B, k, lane, 3)
        refresh_labels(at.c.kind, at.c, at.table, case, 0, 0, 1)
    for was, now in zip(before, case, strict=True):
        np.testing.assert_allclose(now, was, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_several_threads_begin_a_case_as_one_does(kind):
    for one, three in zip(begun(kind)[1], begun(kind, n_lanes=3)[1], strict=True):
        np.testing.assert_array_equal(one, three)


def test_votes_for_classes_are_those_of_the_model():
    at, case, _, _ = begun("I")
    z = np.zeros((2, 5), bool)
    z[0, :3] = True
    w = np.zeros((2, 5, 5), bool)
    w[0, :3] = w_of(at.entries, 0, 5)
    expected = label_votes(at.data, at.model, Latent(np.full(5, 0.5), z, w, np.zeros((2, 5))))[0]
    np.testing.assert_array_equal(case.class_votes, expected)


@pytest.mark.parametrize("n_features", [5, 40, 64])
@pytest.mark.parametrize("part", [1, 2, 8])
def test_odds_are_the_product_however_it_is_split(part, n_features):
    at, case, own, _ = begun("I", n_features=n_features)
    chance, start = chances(at)
    same = [bit(own.same, j) for j in range(n_features)]
    ratio = 1.0 + np.where(same, case.gain[:, AGREES], case.gain[:, DIFFERS]).astype(float)
    expected = at.c.prior_odds * 1.5 * np.prod(at.new[VOTE_OFF, B] + at.new[VOTE_ON, B] * ratio)
    found = largest_odds(at.c, chance, own, case, np.float32(1.5), start, GROUP, part)
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("n_features", [60, 61])
@pytest.mark.parametrize(("n_up", "n_down"), [(30, 30), (30, 29), (29, 30), (60, 0), (3, 57), (0, 0)])
@pytest.mark.parametrize("up_first", [True, False])
def test_a_product_that_leaves_the_range_of_single_precision_comes_back_as_it_was(n_features, n_up, n_down, up_first):
    at, case, own, _ = begun("I", n_features=n_features)
    chance, start = chances(at)
    chance[:] = 1.0
    powers = [*[20] * n_up, *[-20] * n_down] if up_first else [*[-20] * n_down, *[20] * n_up]
    factors = 2.0 ** np.array([*powers, *[0] * (n_features - len(powers))])
    case.gain[:] = factors[:, None] - 1.0
    expected = at.c.prior_odds * 1.5 * 2.0 ** min(20 * (n_up - n_down), 1000)
    found = largest_odds(at.c, chance, own, case, np.float32(1.5), start, GROUP, 2)
    assert found == pytest.approx(min(expected, float(CEILING)), rel=1e-6, abs=1e-45)


def test_indices_are_picked_in_proportion_to_their_weights():
    weight = np.array([0.5, 0.0, 2.0, 1.5])
    assert [pick(weight, 4, u) for u in (0.0, 0.49, 0.51, 2.4, 2.6, 3.99, 4.0)] == [0, 0, 2, 2, 3, 3, 3]


def test_nobody_is_turned_down_whom_all_bits_would_accept():
    rng = np.random.default_rng(0)
    for odds in 10.0 ** rng.uniform(-9, 9, 300):
        limit = odds / (1 + odds)
        for u in (limit * (1 - 1e-9), limit * rng.random(), 0.0):
            bits = np.uint64(int(u * 2**53)) << np.uint64(11)
            assert not turned_down(np.float32(odds), bits)
            assert accepted(odds, bits)
        if limit < 0.5:
            bits = np.uint64(int((limit * 1.001 + 2**-23) * 2**53)) << np.uint64(11)
            assert turned_down(np.float32(odds), bits)
            assert not accepted(odds, bits)
