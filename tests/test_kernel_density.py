"""Kernels on the neighbors' outcomes: what they add up to, and that a dressing that is known is found."""

import numpy as np
import pytest
from scipy.stats import norm

from bayespatch import kernel_density as module
from bayespatch.calibrate import Calibration
from bayespatch.kernel_density import KernelDensity, OutcomeGroups, calibrated_weights, class_weights, vote_weights


def votes(n, n_parents=30, seed=0):
    """Weights of a few neighbors each, and outcomes of the parents."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(n_parents, 0.2), size=n), np.sort(rng.normal(5.0, 2.0, n_parents))


def drawn(dressing, weights, outcomes, rng):
    """Outcomes drawn from the distribution that the dressing says."""
    chosen = (rng.random(len(weights))[:, None] > weights.cumsum(axis=1)).sum(axis=1)
    mean = (weights * outcomes).sum(axis=1)
    middle = dressing.center + dressing.slope * (mean - dressing.center) + dressing.spread * (outcomes[chosen] - mean)
    return middle + dressing.bandwidth * rng.normal(size=len(weights))


def test_one_neighbor_is_one_kernel():
    dressing = KernelDensity(center=1.0, slope=2.0, spread=0.7, bandwidth=0.5)
    weights, outcomes = np.eye(3), np.array([0.0, 1.0, 4.0])
    expected = 1.0 + 2.0 * (outcomes - 1.0)
    np.testing.assert_allclose(dressing.mean(weights, outcomes), expected)
    levels = [0.05, 0.5, 0.8]
    np.testing.assert_allclose(
        dressing.quantiles(weights, outcomes, levels), norm.ppf(levels, expected[:, None], 0.5), rtol=1e-9
    )


def test_mean_quantiles_and_probabilities_are_of_one_distribution():
    weights, outcomes = votes(4)
    dressing = KernelDensity(center=5.0, slope=1.4, spread=0.8, bandwidth=0.6)
    many = np.repeat(weights, 200_000, axis=0)
    y = drawn(dressing, many, outcomes, np.random.default_rng(1)).reshape(4, -1)
    error = y.std(axis=1) / np.sqrt(y.shape[1])
    assert np.all(np.abs(y.mean(axis=1) - dressing.mean(weights, outcomes)) < 4 * error)
    levels = np.array([0.05, 0.3, 0.5, 0.95])
    quantiles = dressing.quantiles(weights, outcomes, levels)
    for k, level in enumerate(levels):
        np.testing.assert_allclose(dressing.below(weights, outcomes, quantiles[:, k]), level, atol=1e-9)
        share = (y < quantiles[:, k, None]).mean(axis=1)
        assert np.all(np.abs(share - level) < 4 * np.sqrt(level * (1 - level) / y.shape[1]))


def test_a_known_dressing_is_found():
    true = KernelDensity(center=5.0, slope=1.8, spread=0.6, bandwidth=0.9)
    found = []
    for seed in range(8):
        weights, outcomes = votes(800, seed=2)
        y = drawn(true, weights, outcomes - outcomes.mean() + 5.0, np.random.default_rng(seed))
        learned = KernelDensity.learn(weights, outcomes - outcomes.mean() + 5.0, y)
        assert learned.center == pytest.approx(5.0)
        found.append([learned.slope, learned.spread, learned.bandwidth])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(8)
    # Four standard errors; the bandwidth also smooths over a step of 0.05 deviations, less than 0.1 % of it.
    assert np.all(np.abs(mean - [1.8, 0.6, 0.9]) < 4 * error)


@pytest.mark.parametrize("unit", [1e-100, 1.0, 1e100])
def test_the_unit_does_not_matter(unit):
    weights, outcomes = votes(100)
    y = outcomes[weights.argmax(axis=1)]
    one, other = KernelDensity.learn(weights, outcomes, y), KernelDensity.learn(weights, outcomes * unit, y * unit)
    assert other.slope == pytest.approx(one.slope, rel=0.02)
    assert other.bandwidth == pytest.approx(one.bandwidth * unit, rel=0.05)


def test_ties_do_not_make_kernels_of_no_width():
    weights, outcomes = votes(300)
    zeros = np.maximum(outcomes - 5.0, 0.0)  # half of them 0
    learned = KernelDensity.learn(weights, zeros, zeros[weights.argmax(axis=1)])
    assert learned.bandwidth > 0.01 * zeros.mean()
    constant = KernelDensity.learn(weights, np.full(30, 3.0), np.full(300, 3.0))
    np.testing.assert_allclose(constant.quantiles(weights[:2], np.full(30, 3.0), [0.01, 0.99]), 3.0, rtol=1e-9)


def test_a_stray_outcome_does_not_widen_the_kernels_of_all():
    weights, outcomes = votes(400)
    y = drawn(KernelDensity(5.0, 1.0, 1.0, 0.5), weights, outcomes, np.random.default_rng(0))
    before = KernelDensity.learn(weights, outcomes, y)
    y[7] = 1e4
    after = KernelDensity.learn(weights, outcomes, y)
    assert after.bandwidth < 1.1 * before.bandwidth


def test_weights_are_shares_and_the_base_rate():
    share = np.array([[0.0, 0.5, 0.2], [0.0, 0.0, 0.0]], dtype=np.float32)
    np.testing.assert_allclose(vote_weights(share, np.array([-1, -1])), [[0.1, 0.6, 0.3], [1 / 3] * 3], atol=1e-7)
    np.testing.assert_allclose(vote_weights(share, np.array([0, 2])), [[0, 0.65, 0.35], [0.5, 0.5, 0]], atol=1e-7)
    np.testing.assert_allclose(vote_weights(np.zeros((1, 1), np.float32), np.array([0])), [[1.0]])


def test_calibrated_weights_have_the_calibrated_probabilities():
    weights, outcomes = votes(20)
    classes = np.searchsorted([4.0, 6.0], outcomes, side="right")
    calibration = Calibration(1.7, (0.5, 0.3, 0.2))
    new = calibrated_weights(weights, classes, calibration)
    expected = calibration.apply(class_weights(weights, classes, 3))
    np.testing.assert_allclose(class_weights(new, classes, 3), expected, rtol=1e-9)
    first = classes == 0
    np.testing.assert_allclose(new[:, first] / new[:, first].sum(axis=1, keepdims=True),
                               weights[:, first] / weights[:, first].sum(axis=1, keepdims=True))  # fmt: skip
    without = calibrated_weights(weights, classes, Calibration.none(4))  # a class of nobody
    np.testing.assert_allclose(without, weights, rtol=1e-6)


def test_groups_lie_within_classes(monkeypatch):
    monkeypatch.setattr(module, "N_GROUPS", 4)
    outcomes = np.array([3.0, 1.0, 2.0, 9.0, 8.0, 7.0, 5.0, 4.0])
    groups = OutcomeGroups.of(outcomes, (outcomes > 3.5).astype(int))
    assert groups.starts.tolist() == [0, 2, 3, 4, 6]
    np.testing.assert_allclose(groups.outcomes, [1.5, 3.0, 4.0, 6.0, 8.5])
    assert groups.classes.tolist() == [0, 0, 1, 1, 1]
    np.testing.assert_allclose(groups.sums(np.arange(8.0)[None]), [[3, 0, 7, 11, 7]])
    monkeypatch.setattr(module, "N_GROUPS", 99)
    np.testing.assert_allclose(OutcomeGroups.of(outcomes, np.zeros(8, int)).outcomes, np.sort(outcomes))
