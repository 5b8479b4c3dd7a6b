"""Tuning: the gradient, what it finds on data where the truth is known, and what it must not depend on."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from bayespatch import tune as tuning
from bayespatch.model import Data, Hyperparameters, Model
from bayespatch.tune import constants, learn_relevance, n_steps, score_of, tune


def past(seed=0, n=150, p=5, noise=0.1, n_classes=2):
    """The outcome is told by the first feature, up to noise; the others tell nothing."""
    rng = np.random.default_rng(seed)
    x = rng.integers(3, size=(n, p)).astype(float)
    y = np.where(rng.random(n) < noise, rng.integers(n_classes, size=n), x[:, 0].astype(int) % n_classes)
    return Data(x, y, x, y, np.full(p, 3.0), n_classes, np.zeros(p), np.arange(n))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_feature_that_tells_is_found(n_classes):
    theta, score = learn_relevance(past(n_classes=n_classes), np.random.default_rng(0))
    assert theta[0] > theta[1:].max() + 0.5
    assert -np.log(n_classes) < score < 0


def test_the_gradient_is_that_of_the_loss(monkeypatch):
    seen = {}

    def watch(loss, start, **_):
        seen["error"] = check_grad(lambda t: loss(t)[0], lambda t: loss(t)[1], np.array([0.5, 0.2, 1.0, 0.1, 0.7]))
        return type("Found", (), {"x": start})

    monkeypatch.setattr(tuning, "minimize", watch)
    monkeypatch.setattr(np, "float32", np.float64)  # differences of single precision would say nothing
    learn_relevance(past(n=40), np.random.default_rng(0))
    assert seen["error"] < 1e-4


def test_the_prior_of_the_importance_does_what_theta_says():
    data, theta = past(), np.array([0.0, 0.3, 1.0, 2.0, 9.0])
    hyper = constants(data, theta, neighbors=3.0)
    gamma, sigma1 = hyper.q_prior(5)
    q = gamma / (gamma + sigma1)
    v, lam0, lam = 3.0, hyper.lam0, hyper.lam
    agree = 1 - q + q * v * (lam0 + lam) / (v * lam0 + lam)
    differ = 1 - q + q * v * lam0 / (v * lam0 + lam)
    np.testing.assert_allclose((agree / differ)[1:4], np.exp(theta[1:4]), rtol=1e-6)
    assert q[0] == pytest.approx(0.01)  # kept inside (0, 1)
    assert q[4] == pytest.approx(0.99)
    assert hyper.alpha == pytest.approx(3.0 / 150)


def test_few_parents_and_constant_columns():
    data = past(n=4)
    assert constants(data, None, neighbors=4.0).alpha == 0.5
    hyper = constants(data._replace(n_values=np.array([1.0, 3, 3, 3, 3])), np.ones(5))
    assert np.isfinite(hyper.gamma).all()


def test_a_better_coding_is_chosen_and_everything_tried_is_told():
    good = past()
    rng = np.random.default_rng(1)
    bad = good._replace(x=rng.permutation(good.x), x_parents=rng.permutation(good.x_parents))
    told = []
    found = tune({"bad": bad, "good": good}, Model(), report=told.append)
    assert found.coding == "good"
    assert told == list(range(1, n_steps(2) + 1))
    assert len(found.trials) == n_steps(2)
    last = [trial for trial in found.trials if trial.judge == "last look"]
    best = max(last, key=lambda trial: trial.score)
    assert found.hyper.alpha == pytest.approx(best.neighbors / 150)
    assert found.to_frame().shape == (n_steps(2), 5)


def test_the_result_depends_on_the_seed_alone():
    data = past(n=80)
    assert tune({"": data}, Model(), seed=3) == tune({"": data}, Model(), seed=3, n_threads=2)


def test_weights_of_classes_are_kept_and_importance_can_be_left_alone():
    given = Hyperparameters(mu=(1.0, 3.0))
    found = tune({"": past(n=60)}, Model(hyper=given), by_outcome=False)
    assert found.hyper.mu == (1.0, 3.0)
    assert found.hyper.gamma == tuning.BASE.gamma


def test_the_score_is_worse_where_there_is_nothing_to_learn():
    data = past(noise=0.0)
    shuffled = data._replace(y=np.random.default_rng(5).permutation(data.y))
    shuffled = shuffled._replace(y_parents=shuffled.y)
    theta, _ = learn_relevance(data, np.random.default_rng(0))
    model = Model(hyper=constants(data, theta))
    assert score_of(data, model, 0, 40, 1) > score_of(shuffled, model, 0, 40, 1) + 0.2


def test_missing_values_are_neutral():
    data = past()
    x = data.x.copy()
    x[::3, 1] = np.nan
    theta, score = learn_relevance(data._replace(x=x, x_parents=x), np.random.default_rng(0))
    assert np.isfinite(theta).all()
    assert np.isfinite(score)


def test_large_tables_are_compared_in_part(monkeypatch):
    monkeypatch.setattr(tuning, "MAX_COMPARED", 50 * 50 * 5)
    data = past(n=400)
    cases, parents = tuning._compared(data, np.random.default_rng(0))
    assert len(cases) * len(parents) * 5 <= 50 * 50 * 5
    theta, _ = learn_relevance(data, np.random.default_rng(0))
    assert theta[0] == theta.max()


def test_balanced_parents_are_heard_as_often_as_their_class_comes():
    """Features that tell nothing, half of the parents of a class that few cases have: as good as chance."""
    rng = np.random.default_rng(0)
    x = rng.integers(2, size=(400, 2)).astype(float)
    y, y_parents = (np.arange(360) % 10 == 0).astype(int), (np.arange(40) % 2).astype(int)
    data = Data(x[:360], y, x[360:], y_parents, np.array([2.0, 2.0]), 2, np.zeros(2), np.full(360, -1))
    _, score = learn_relevance(data, rng)
    chance = 0.1 * np.log(0.1) + 0.9 * np.log(0.9)
    assert abs(score - chance) < 0.02  # two coefficients gain about 2 / 2N = 0.003; heard equally, it is log(1/2)
