"""The pool of two opinions."""

import json

import numpy as np
import pytest
from scipy.special import expit, log_softmax, logit, ndtri, softmax

from bayespatch.pool import Pool, disagreement


def opinions(n=400, noise=(0.3, 1.5), seed=0):
    """Two opinions on two classes: the true log odds with more or less noise; and what came."""
    rng = np.random.default_rng(seed)
    eta = rng.normal(0, 1.5, n)
    found = [expit(eta + rng.normal(0, sd, n)) for sd in noise]
    y = (rng.random(n) < expit(eta)).astype(int)
    return [np.stack([1 - p, p], axis=1) for p in found], y


def test_the_better_opinion_gets_the_larger_weight():
    (good, poor), y = opinions()
    pool, mirrored = Pool.learn(good, poor, y), Pool.learn(poor, good, y)
    assert pool.weight > 0.7
    assert pool.weight == pytest.approx(1 - mirrored.weight)
    assert pool.log_loss[2] < pool.log_loss[1]
    assert pool.log_loss[0] == pytest.approx(-np.log(good[np.arange(400), y]).mean())


def test_few_cases_leave_the_weight_near_one_half():
    (good, poor), y = opinions(6)
    few = Pool.learn(good, poor, y)
    assert abs(few.weight - 0.5) < 0.25
    (good, poor), y = opinions(4000)
    many = Pool.learn(good, poor, y)
    assert many.weight_sd < few.weight_sd / 3


def test_equal_opinions_leave_the_prior():
    (good, _), y = opinions(50)
    pool = Pool.learn(good, good, y)
    assert pool.weight == pytest.approx(0.5)
    assert pool.weight_sd == pytest.approx(np.sqrt(1 / 12), abs=1e-3)  # uniform


def test_the_weight_follows_the_evidence():
    """300 cases on which one opinion is far better: the prior hardly holds the weight back."""
    (good, poor), y = opinions(300, (0.0, 3.0))
    assert Pool.learn(good, poor, y).weight > 0.9


def test_several_classes_are_sharpened():
    """Two calibrated opinions on six classes, each of which knows half: their mean is too cautious."""
    rng = np.random.default_rng(0)
    parts = rng.normal(0, 1.5, (2, 4000, 6))
    truth = softmax(parts.sum(axis=0), axis=1)
    y = (rng.random((4000, 1)) > truth.cumsum(axis=1)).sum(axis=1)
    draws = rng.normal(0, 1.5, (200, 1, 6))
    each = [softmax(part + draws, axis=2).mean(axis=0) for part in parts]
    pool = Pool.learn(each[0][:2000], each[1][:2000], y[:2000])
    assert pool.sharpness > 1.2
    assert pool.weight == pytest.approx(0.5, abs=0.1)
    new = slice(2000, None)
    pooled, mean = pool.combine(each[0][new], each[1][new]), Pool(pool.weight).combine(each[0][new], each[1][new])
    np.testing.assert_allclose(pooled.sum(axis=1), 1.0)
    losses = [-np.log(p[np.arange(2000), y[new]]).mean() for p in (pooled, mean)]
    assert losses[0] < losses[1] - 0.03


def test_where_nothing_is_known_the_pool_says_the_base_rate():
    rng = np.random.default_rng(1)
    y = rng.choice(3, 300, p=[0.6, 0.3, 0.1])
    known = np.eye(3)[y] * 0.5 + 0.5 / 3  # too cautious
    pool = Pool.learn(known, known, y)
    assert pool.sharpness > 1.3
    base = np.bincount(y) / 300
    np.testing.assert_allclose(pool.combine(base, base), base, atol=1e-12)


def test_weight_and_sharpness_are_posterior_means():
    """Against a fine grid over all weights and sharpnesses."""
    rng = np.random.default_rng(3)
    eta = rng.normal(0, 1.5, (80, 3))
    y = (eta + rng.gumbel(size=eta.shape)).argmax(axis=1)
    good, poor = (softmax(eta + rng.normal(0, sd, eta.shape), axis=1) for sd in (0.3, 1.0))
    pool = Pool.learn(good, poor, y)
    base, rows = np.bincount(y) / 80, np.arange(80)
    at, log_t = (np.arange(200) + 0.5) / 200, np.linspace(-0.8, 0.8, 161)
    scores = np.array([
        [log_softmax(np.log(base) + t * np.log((a * good + (1 - a) * poor) / base), axis=1)[rows, y].sum()
         for t in np.exp(log_t)] for a in at
    ])  # fmt: skip
    mass = softmax(scores - 0.5 * (log_t / 0.2) ** 2)
    assert pool.weight == pytest.approx(mass.sum(axis=1) @ at, abs=0.005)
    assert np.log(pool.sharpness) == pytest.approx(mass.sum(axis=0) @ log_t, abs=0.005)


def test_two_classes_are_not_sharpened():
    (good, poor), y = opinions()
    assert Pool.learn(good, poor, y).sharpness == 1.0


def test_densities_are_not_sharpened():
    rng = np.random.default_rng(0)
    pool = Pool.learn_densities(rng.random(50), rng.random(50))
    assert pool.sharpness == 1.0
    np.testing.assert_allclose(pool.combine([3.0], [5.0]), [5.0 - 2.0 * pool.weight])


def test_case_weights_count_as_copies():
    (good, poor), y = opinions(60)
    counts = np.arange(60) % 3
    copies = np.repeat(np.arange(60), counts)
    weighted, copied = Pool.learn(good, poor, y, counts), Pool.learn(good[copies], poor[copies], y[copies])
    assert weighted.weight == pytest.approx(copied.weight)
    assert weighted.log_loss == pytest.approx(copied.log_loss)


def test_combined_probabilities():
    (a, b), _ = opinions(10)
    pool = Pool(0.3)
    np.testing.assert_allclose(pool.combine(a, b).sum(axis=1), 1.0)
    np.testing.assert_allclose(pool.combine(a, b), 0.3 * a + 0.7 * b)
    assert disagreement(a, b) == pytest.approx(np.abs(a - b).max(axis=1))


def test_an_opinion_that_never_said_zero_survives_one_that_did():
    pool = Pool.learn(np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]]), np.array([1]))
    assert 0 < pool.weight < 0.5
    assert np.isfinite(pool.log_loss).all()


def test_the_interval_has_the_mixtures_quantiles():
    """Against 200,000 draws of the mixture; a quantile of these has an error of about .003."""
    rng = np.random.default_rng(0)
    p = np.array([[0.3, 0.7], [0.6, 0.4]])
    q = np.array([[0.5, 0.5], [0.62, 0.38]])
    sd = 0.4
    z = ndtri(0.95)
    ends = [expit(logit(r)[..., None] + np.array([-z, z]) * s) for r, s in ((p, sd), (q, 2 * sd))]
    found = Pool(0.3).interval(p, ends[0], q, ends[1], 0.9)
    assert found.shape == (2, 2, 2)
    first = rng.random(200_000) < 0.3
    for i in range(2):
        for m in range(2):
            normal = rng.standard_normal(200_000)
            draws = expit(np.where(first, logit(p[i, m]) + sd * normal, logit(q[i, m]) + 2 * sd * normal))
            np.testing.assert_allclose(found[i, m], np.quantile(draws, [0.05, 0.95]), atol=0.01)


def test_the_interval_holds_the_probability_and_is_the_opinions_own_at_the_ends_of_the_weight():
    (a, b), _ = opinions(50)
    ends = [np.stack([p**1.5, np.sqrt(p)], axis=2) for p in (a, b)]
    for weight, own in ((0.0, ends[1]), (1.0, ends[0])):
        np.testing.assert_allclose(Pool(weight).interval(a, ends[0], b, ends[1]), own, atol=1e-9)
    for pool in (Pool(0.4), Pool(0.4, sharpness=1.3, base=(0.6, 0.4))):
        found, p = pool.interval(a, ends[0], b, ends[1]), pool.combine(a, b)
        assert ((found[..., 0] <= p) & (p <= found[..., 1])).all()


def test_the_interval_holds_the_probability_where_an_opinion_with_little_weight_moves_it():
    a, b = np.array([[0.2, 0.8]]), np.array([[0.9, 0.1]])
    ends = [np.stack([p - 0.01, p + 0.01], axis=2) for p in (a, b)]
    pool = Pool(0.97)
    found, p = pool.interval(a, ends[0], b, ends[1]), pool.combine(a, b)
    assert p[0, 0] > 0.22 > ends[0][0, 0, 1]
    assert found[0, 0, 1] == pytest.approx(p[0, 0])


def test_the_interval_is_sharpened_as_the_probabilities_are():
    """Class by class, the log odds against the others move away from those of the base rate."""
    base, p = np.array([0.2, 0.3, 0.5]), np.array([[0.1, 0.3, 0.6], [0.5, 0.2, 0.3]])
    ends = expit(logit(p)[..., None] + np.array([-1.5, 1.5]))
    found = Pool(0.4, sharpness=1.3, base=tuple(base)).interval(p, ends, p, ends)
    start = logit(base)[:, None]
    np.testing.assert_allclose(found, expit(start + 1.3 * (logit(ends) - start)), atol=1e-6)


def test_an_opinion_without_intervals_is_as_wide_as_the_precedents():
    p, q = np.array([[0.2, 0.8]]), np.array([[0.4, 0.6]])
    ends = expit(logit(q)[..., None] + np.array([-0.5, 0.5]))
    same = expit(logit(p)[..., None] + np.array([-0.5, 0.5]))
    np.testing.assert_allclose(Pool(0.3).interval(p, None, q, ends), Pool(0.3).interval(p, same, q, ends), atol=1e-9)


def test_certain_opinions_have_an_interval():
    sure = np.array([[1.0, 0.0]])
    ends = np.array([[[1.0, 1.0], [0.0, 0.0]]])
    found = Pool(0.5).interval(sure, ends, sure, ends)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[0, 0], 1.0, atol=1e-9)


def test_stored_and_restored():
    (a, b), y = opinions(50)
    pool = Pool.learn(a, b, y)
    assert Pool.from_dict(json.loads(json.dumps(pool.to_dict()))) == pool


@pytest.mark.parametrize(
    "data",
    [None, {"weight": 0.5},
     {"weight": 2.0, "weight_sd": 0.1, "log_loss": [1.0, 1.0, 1.0], "sharpness": 1.0, "base": []},
     {"weight": 0.5, "weight_sd": 0.1, "log_loss": [1.0], "sharpness": 1.0, "base": []},
     {"weight": 0.5, "weight_sd": 0.1, "log_loss": [1.0, 1.0, 1.0]},
     {"weight": 0.5, "weight_sd": 0.1, "log_loss": [1.0, 1.0, 1.0], "sharpness": 1.2, "base": []},
     {"weight": 0.5, "weight_sd": 0.1, "log_loss": [1.0, 1.0, 1.0], "sharpness": -1.0, "base": [0.5, 0.5]},
     {"weight": 0.5, "weight_sd": 0.1, "log_loss": [1.0, 1.0, 1.0], "sharpness": float("nan"), "base": [0.5, 0.5]},
     {"weight": 0.5, "weight_sd": 0.1, "log_loss": [1.0, 1.0, 1.0], "sharpness": 1.2, "base": [0.0, 1.0]},
     {"weight": 0.5, "weight_sd": 0.1, "log_loss": [1.0, 1.0, 1.0], "sharpness": 1.2, "base": ["a", 0.5]}],
)  # fmt: skip
def test_what_is_no_pool_is_refused(data):
    with pytest.raises(ValueError, match="save the model again"):
        Pool.from_dict(data)
