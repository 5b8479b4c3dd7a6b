"""The pool of two opinions."""

import json

import numpy as np
import pytest
from scipy.special import expit, logit, ndtri

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
    assert abs(few.weight - 0.5) < 0.15
    (good, poor), y = opinions(4000)
    many = Pool.learn(good, poor, y)
    assert many.weight_sd < few.weight_sd / 3


def test_equal_opinions_leave_the_prior():
    (good, _), y = opinions(50)
    pool = Pool.learn(good, good, y)
    assert pool.weight == pytest.approx(0.5)
    assert pool.weight_sd == pytest.approx(0.5 / np.sqrt(7), abs=1e-4)  # of Beta(3, 3)


def test_case_weights_count_as_copies():
    (good, poor), y = opinions(60)
    counts = np.arange(60) % 3
    copies = np.repeat(np.arange(60), counts)
    weighted, copied = Pool.learn(good, poor, y, counts), Pool.learn(good[copies], poor[copies], y[copies])
    assert weighted.weight == pytest.approx(copied.weight)
    assert weighted.log_loss == pytest.approx(copied.log_loss)


def test_combined_probabilities_and_errors():
    (a, b), _ = opinions(10)
    pool = Pool(0.3)
    np.testing.assert_allclose(pool.combine(a, b).sum(axis=1), 1.0)
    np.testing.assert_allclose(pool.combine(a, b), 0.3 * a + 0.7 * b)
    assert pool.error(0.1) == pytest.approx(0.07)
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
    pool = Pool(0.4)
    found, p = pool.interval(a, ends[0], b, ends[1]), pool.combine(a, b)
    assert ((found[..., 0] <= p) & (p <= found[..., 1])).all()


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
    [None, {"weight": 0.5}, {"weight": 2.0, "weight_sd": 0.1, "log_loss": [1.0, 1.0, 1.0]},
     {"weight": 0.5, "weight_sd": 0.1, "log_loss": [1.0]}],
)  # fmt: skip
def test_what_is_no_pool_is_refused(data):
    with pytest.raises(ValueError, match="save the model again"):
        Pool.from_dict(data)
