import numpy as np
import pytest
from scipy.special import log_expit

from bayespatch import model as bp
from bayespatch.engine.paper import PaperEngine, PaperState
from bayespatch.model import KINDS, LIKELIHOODS, Model
from tests.montecarlo import check_against_exact
from tests.problems import PROBLEMS


def log_likelihood(data, model, latent):
    return bp.log_likelihood_features(data, model, latent).sum(1) + bp.log_likelihood_labels(data, model, latent)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("kind", KINDS)
def test_ratios_of_z_and_w_are_those_of_the_model(kind, likelihood, name):
    data, hyper = PROBLEMS[name]()
    model = Model(kind, likelihood, hyper)
    engine = PaperEngine(data, model)
    for chain in range(3):
        state = engine.start(seed=5, chain=chain)
        for b in range(state.z.shape[1]):
            state.z[:, b] = False
            off = engine.latent(state)
            kappa = engine._kappa_if_on(state, slice(None), b)
            counts = engine._count(state)
            ratio = engine._log_ratio(counts, slice(None), b, kappa, state.w[:, b].astype(float))
            on = off._replace(z=off.z.copy())
            on.z[:, b] = True
            expected = log_likelihood(data, model, on) - log_likelihood(data, model, off)
            np.testing.assert_allclose(ratio, expected, atol=1e-10)
            # letting b vote leaves the running sums as a fresh count has them
            engine._add(counts, slice(None), b, kappa, state.w[:, b].astype(float))
            state.z[:, b] = True
            fresh = engine._count(state)
            for name_ in ("agree", "total", "own", "all", "n_on"):
                np.testing.assert_allclose(getattr(counts, name_), getattr(fresh, name_), atol=1e-12)


def test_density_of_q_is_that_of_the_model():
    # where every parent is a neighbor of every case, the model's sums and the paper's are the same
    data, hyper = PROBLEMS["many_values"]()
    model = Model("I", "exact", hyper)
    engine = PaperEngine(data, model)
    state = engine.start(seed=0, chain=0)
    state.z[:] = True
    n_on = state.w.sum(axis=0).astype(float)
    differences = []
    for logit_q in (np.array([-2.0, 0.3, 1.0]), np.array([1.0, -0.5, 3.0])):
        state.logit_q = logit_q
        latent = engine.latent(state)
        log_jacobian = (log_expit(logit_q) + log_expit(-logit_q)).sum()
        expected = bp.log_prior_q(model, latent) + bp.log_prior_w(model, latent) + log_jacobian
        differences.append(engine._log_density_logit_q(logit_q, n_on).sum() - expected)
    assert differences[0] == pytest.approx(differences[1], abs=1e-10)  # a constant apart


def test_means_are_those_of_the_exact_posterior():
    """All models, likelihoods and problems, at length: tests/statistical/test_exact.py."""
    data, hyper = PROBLEMS["binary"]()
    check_against_exact(PaperEngine, data, Model("I", "exact", hyper), n_draws=1000, seed=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_fixes_the_draws(kind):
    data, hyper = PROBLEMS["exclude_self"]()
    engine = PaperEngine(data, Model(kind, "exact", hyper))
    states = [engine.start(seed, chain) for seed, chain in ((7, 0), (7, 0), (7, 1))]
    for _ in range(20):
        for state in states:
            engine.sweep(state)
        engine.observe(states[1])  # looking at a chain does not change it
    first, second, third = (engine.observe(state) for state in states)
    for name in first._fields:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert not np.array_equal(first.q, third.q)


@pytest.mark.parametrize("kind", KINDS)
def test_observation_and_running_sums(kind):
    data, hyper = PROBLEMS["exclude_self"]()
    model = Model(kind, "exact", hyper)
    engine = PaperEngine(data, model)
    state = engine.start(seed=1, chain=0)
    z_sum, w_sum = np.zeros((3, 3), np.float32), np.zeros((3, 3, 2), np.float32)
    expected = np.zeros((3, 3, 2))
    for _ in range(30):
        engine.sweep(state, adapt=True)
        latent, observation = engine.latent(state), engine.observe(state)
        assert observation.log_joint == bp.log_joint(data, model, latent)
        np.testing.assert_array_equal(observation.n_neighbors, latent.z.sum(axis=1))
        np.testing.assert_array_equal(observation.votes, bp.class_votes(data, model, latent))
        assert observation.q_tilde.shape == (3, 2)
        assert not latent.z.diagonal().any()
        engine.add_neighbors(state, z_sum, w_sum)
        expected += latent.z[:, :, None] & latent.w
    np.testing.assert_array_equal(w_sum, expected)
    assert z_sum.sum() > 0


def test_only_adaptation_changes_the_step():
    data, hyper = PROBLEMS["binary"]()
    engine = PaperEngine(data, Model("I", "exact", hyper))
    state = engine.start(seed=1, chain=0)
    engine.sweep(state)
    np.testing.assert_array_equal(state.log_step, 0)
    engine.sweep(state, adapt=True)
    assert np.all(state.log_step != 0)


def test_new_data_around_an_old_state():
    # a state holds nothing of the data it was swept under: only its latent variables count
    data, hyper = PROBLEMS["binary"]()
    model = Model("III", "exact", hyper)
    old, new = PaperEngine(data, model), PaperEngine(data._replace(x=1 - data.x), model)
    state = old.start(3, 0)
    for _ in range(5):
        old.sweep(state)
    latent = old.latent(state)
    again = PaperState(3, 0, 5, state.logit_q.copy(), latent.z, latent.w, latent.kappa, np.zeros(2))
    for _ in range(5):
        new.sweep(state)
        new.sweep(again)
    np.testing.assert_array_equal(state.z, again.z)
    np.testing.assert_array_equal(state.w, again.w)
    np.testing.assert_array_equal(state.logit_q, again.logit_q)
