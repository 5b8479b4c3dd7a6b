"""Calibration: where it is anchored, what it leaves alone, a map that is known, and how exactly it is known."""

import numpy as np
import pytest
from scipy.special import betaincinv

from bayespatch.calibrate import LOG_SLOPE_MEAN, LOG_SLOPE_SD, Calibration, effective_number


def test_without_calibration_votes_are_probabilities():
    votes = np.random.default_rng(0).dirichlet([1, 2, 3], size=(4, 5))
    np.testing.assert_allclose(Calibration.none(3).apply(votes), votes)


@pytest.mark.parametrize("slope", [0.2, 1.0, 3.3, 40.0])
@pytest.mark.parametrize("base", [(0.5, 0.5), (0.97, 0.03), (0.2, 0.5, 0.3)])
def test_votes_that_equal_the_base_rates_are_read_as_the_base_rates(base, slope):
    np.testing.assert_allclose(Calibration(slope, base).apply(base), base, rtol=1e-12)


@pytest.mark.parametrize("slope", [0.2, 1.0, 3.3])
def test_votes_that_equal_the_anchor_are_read_as_the_base_rates(slope):
    calibration = Calibration(slope, (0.2, 0.5, 0.3), anchor=(0.1, 0.7, 0.2))
    np.testing.assert_allclose(calibration.apply((0.1, 0.7, 0.2)), (0.2, 0.5, 0.3), rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_votes_beyond_the_base_rates_count_as_the_slope_says(n_classes):
    """Log odds against the base rates are multiplied by the slope, whatever the base rates."""
    rng = np.random.default_rng(1)
    base = rng.dirichlet(np.full(n_classes, 2.0))
    votes = rng.dirichlet(np.full(n_classes, 2.0), size=7)
    p = Calibration(2.5, tuple(base)).apply(votes)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)

    def beyond(shares):
        relative = np.log(shares) - np.log(base)
        return relative[:, 1:] - relative[:, :1]

    np.testing.assert_allclose(beyond(p), 2.5 * beyond(votes), rtol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_known_map_is_found(n_classes):
    rng = np.random.default_rng(1)
    votes = rng.dirichlet(np.full(n_classes, 5.0), size=20_000)
    true = Calibration(2.5, *(((0.7, 0.3), (0.6, 0.4)) if n_classes == 2 else ((0.5, 0.3, 0.2), (0.4, 0.2, 0.4))))
    p = true.apply(votes)
    y = (rng.random(len(p))[:, None] > p.cumsum(axis=1)).sum(axis=1)
    found = Calibration.learn(votes, y, true.base, anchor=true.anchor)
    # The curvature of the log likelihood gives a standard error of at most 0.06 for 20,000 cases; four of them.
    assert found.slope == pytest.approx(true.slope, abs=0.24)
    assert found.base == pytest.approx(true.base)
    assert found.anchor == pytest.approx(true.anchor)


def test_votes_that_say_nothing_leave_the_base_rates_and_the_prior_of_the_slope():
    y = np.repeat([0, 1], [300, 100])
    found = Calibration.learn(np.full((400, 2), [0.75, 0.25]), y, [0.75, 0.25])
    np.testing.assert_allclose(found.apply([0.75, 0.25]), [0.75, 0.25])
    assert np.log(found.slope) == pytest.approx(LOG_SLOPE_MEAN, abs=1e-3)


def test_the_prior_gives_way_to_many_cases_and_not_to_few():
    """Votes that mislead: with a few of them the slope stays within what the prior allows."""
    votes, y = np.array([[0.6, 0.4], [0.4, 0.6]]), np.array([1, 0])
    few = Calibration.learn(votes, y, [0.5, 0.5])
    many = Calibration.learn(np.tile(votes, (500, 1)), np.tile(y, 500), [0.5, 0.5])
    assert few.slope > np.exp(LOG_SLOPE_MEAN - LOG_SLOPE_SD)
    assert many.slope < 0.3


def test_weights_count_cases_several_times():
    rng = np.random.default_rng(2)
    votes = rng.dirichlet([3, 3], size=60)
    y = rng.integers(2, size=60)
    weights = rng.integers(1, 4, size=60)
    repeated = Calibration.learn(votes.repeat(weights, axis=0), y.repeat(weights), [0.5, 0.5])
    weighted = Calibration.learn(votes, y, [0.5, 0.5], weights)
    assert weighted.slope == pytest.approx(repeated.slope, rel=1e-3)


def test_one_class_votes_of_zero_and_a_class_without_cases():
    assert Calibration.learn(np.ones((5, 1)), np.zeros(5, int), [1.0]).apply([1.0]) == 1.0
    p = Calibration(2.0, (0.5, 0.5)).apply([0.0, 1.0])
    assert np.isfinite(p).all()
    assert p[0] < 1e-6
    rare = Calibration.learn(np.full((5, 2), 0.5), np.zeros(5, int), [1.0, 0.0])
    assert sum(rare.base) == pytest.approx(1.0)
    assert np.isfinite(rare.apply([[0.5, 0.5], [0.0, 1.0]])).all()


# How exactly a probability is known


@pytest.mark.parametrize(
    ("calibration", "shape"),
    [
        (Calibration.none(2), (30.0, 20.0)),
        (Calibration(3.0, (0.7, 0.3)), (30.0, 20.0)),
        (Calibration(2.0, (0.5, 0.3, 0.2)), (30.0, 10.0, 20.0)),
    ],
)
def test_the_error_is_the_spread_of_the_probability_over_repetitions(calibration, shape):
    """4,000 repetitions of 20 batches: the mean squared error that is told beside the variance that is found.

    The variance of 4,000 repetitions is known to 2.2 % (one standard error); the error is that of first order.
    """
    rng = np.random.default_rng(3)
    batches = rng.dirichlet(shape, size=(4000, 20))
    p = calibration.apply(batches.mean(axis=1))
    told = np.sqrt((calibration.error(batches) ** 2).mean())
    assert told == pytest.approx(p.std(axis=0).max(), rel=0.06)


def test_the_error_falls_with_the_root_of_the_number_of_batches_and_is_unknown_from_one():
    rng = np.random.default_rng(4)
    calibration = Calibration(2.0, (0.6, 0.4))
    few, many = (calibration.error(rng.dirichlet([5.0, 5.0], size=(500, n))).mean() for n in (10, 90))
    assert few / many == pytest.approx(3.0, rel=0.1)
    assert np.isinf(calibration.error(rng.dirichlet([5.0, 5.0], size=(2, 1)))).all()
    same = np.tile([[0.6, 0.4]], (2, 8, 1))
    np.testing.assert_allclose(calibration.error(same), 0.0, atol=1e-12)
    assert calibration.error(np.empty((0, 8, 2))).shape == (0,)


def test_a_rare_class_must_be_as_exact_on_its_own_scale():
    """As large as the error for an even chance, and in proportion to 1 / sqrt(p (1 - p)) elsewhere."""
    rng = np.random.default_rng(5)
    for share in (0.5, 0.05):
        batches = rng.dirichlet([400 * share, 400 * (1 - share)], size=(50, 20))
        plain, scaled = Calibration.none(2).error(batches), Calibration.none(2).scaled_error(batches)
        p = batches.mean(axis=1)[:, 0]
        np.testing.assert_allclose(scaled, plain / (2 * np.sqrt(p * (1 - p))), rtol=1e-9)
        assert scaled.mean() == pytest.approx(0.5 / np.sqrt(400 * 20), rel=0.1)  # the same for every share
        assert (plain <= scaled + 1e-12).all()
    assert np.isinf(Calibration.none(2).scaled_error(batches[:, :1])).all()


# What few voters leave open


def test_intervals_narrow_with_the_number_of_voters_and_hold_the_probability():
    rng = np.random.default_rng(3)
    for base in ((0.6, 0.4), (0.5, 0.3, 0.2)):
        n_classes = len(base)
        calibration = Calibration(2.0, base)
        votes = rng.dirichlet(np.ones(n_classes), size=20)
        p = calibration.apply(votes)
        width = []
        for n_voters in (2, 10, 200):
            found = calibration.interval(votes, np.full(20, n_voters), 0.9)
            assert found.shape == (20, n_classes, 2)
            assert (found[..., 0] <= p + 1e-9).all()
            assert (p <= found[..., 1] + 1e-9).all()
            width.append((found[..., 1] - found[..., 0]).mean())
        assert width[0] > width[1] > width[2]


def test_unequal_votes_count_as_fewer_voters():
    """Shares 1/2, 1/4 and 1/4 are worth 8/3 equal voters (Kish); a past case without a share is none."""
    shares, voters = np.array([[0.5, 0.25, 0.25, 0.0]]), 8 / 3
    found = Calibration.none(2).interval(np.array([[0.4, 0.6]]), effective_number(shares), 0.9)[0, 1]
    np.testing.assert_allclose(found, betaincinv(0.6 * voters + 0.5, 0.4 * voters + 0.5, [0.05, 0.95]))


def test_unanimous_votes_are_within_their_interval():
    found = Calibration.none(2).interval(np.array([[1.0, 0.0]]), np.array([4.0]), 0.9)[0]
    assert found[0, 1] == pytest.approx(1.0, abs=1e-9)
    assert found[1, 0] == pytest.approx(0.0, abs=1e-9)


def test_intervals_hold_the_share_of_a_class_as_often_as_they_say():
    """Cases of which 10 voters are a sample: Jeffreys' interval covers a share near its level, over many shares."""
    rng = np.random.default_rng(4)
    truth = rng.random(20_000)
    counts = rng.binomial(10, truth)
    votes = np.column_stack([1 - counts / 10, counts / 10])
    found = Calibration.none(2).interval(votes, np.full(len(truth), 10.0), 0.9)[:, 1]
    covered = ((found[:, 0] <= truth) & (truth <= found[:, 1])).mean()
    # Under uniform shares Jeffreys' intervals for n = 10 cover 89 to 92 %; the Monte Carlo error is 0.2 points.
    assert 0.88 < covered < 0.93


def test_errors_are_learned_from_chains_and_batches():
    """Votes on 400 cases with known noise, of chains and of batches; the slope has the error by which it varies."""
    rng = np.random.default_rng(0)
    exact = rng.uniform(0.25, 0.75, 400)
    y = (rng.random(400) < Calibration(3.0, (0.5, 0.5)).apply(np.stack([1 - exact, exact], axis=1))[:, 1]).astype(int)

    def learned(of_chains, of_batches):
        noisy = (
            exact[:, None, None] + of_chains * rng.normal(size=(400, 4, 1)) + of_batches * rng.normal(size=(400, 4, 3))
        )
        noisy = noisy.clip(0.01, 0.99)
        return Calibration.learn(np.stack([1 - noisy, noisy], axis=-1), y, [0.5, 0.5])

    # Batches alone: chains tell the same; of 400 cases x 3 degrees of freedom the ratio is known to 2 %.
    assert learned(0.0, 0.04).inflation == pytest.approx(1.0, abs=0.06)
    # As much of the chains: their variance is 1 + 1/3 of it, that of batches 9/11 + 1.
    both = (0.04**2 + 0.04**2 / 3) / 4, (0.04**2 * 9 / 11 + 0.04**2) / 12
    assert learned(0.04, 0.04).inflation == pytest.approx((both[0] / both[1]) ** 0.5, rel=0.08)
    found = [learned(0.0, 0.1) for _ in range(40)]
    spread = np.std([np.log(each.slope) for each in found], ddof=1)
    # A standard deviation from 40 fits is known to 11 %, the mean of the stated ones better: within three of these.
    assert np.mean([each.slope_error for each in found]) == pytest.approx(spread, rel=0.35)
    assert Calibration.learn(np.stack([1 - exact, exact], axis=1), y, [0.5, 0.5]).slope_error == 0.0


def test_the_error_of_the_slope_is_part_of_the_stated_error():
    batches = np.array([[[0.5, 0.5], [0.54, 0.46]] * 5])
    plain, noisy = Calibration(2.0, (0.5, 0.5)), Calibration(2.0, (0.5, 0.5), (), 0.05, 1.5)
    up, down = (Calibration(2.0 * np.exp(step), (0.5, 0.5)).apply([0.52, 0.48])[0] for step in (1e-4, -1e-4))
    expected = np.hypot(1.5 * plain.error(batches), 0.05 * (up - down) / 2e-4)
    np.testing.assert_allclose(noisy.error(batches), expected, rtol=1e-6)
