"""The sampler of smooth densities: moments that are known, each kind of move by itself, and what it is started from."""

import numpy as np
import pytest
from scipy.special import digamma, gammaincinv, polygamma

from bayespatch.sampling import metropolis
from bayespatch.sampling.metropolis import Chain, find_shape
from tests.montecarlo import batch_means

COVARIANCE = np.array([[1.0, 0.9, 0.0], [0.9, 2.0, -0.6], [0.0, -0.6, 0.5]])
PRECISION = np.linalg.inv(COVARIANCE)
MEAN = np.array([3.0, -1.0, 0.2])
SHAPES = np.array([0.7, 4.0])  # of Gamma distributions: their logarithms are skewed to the left, the first one much


def normal(x, with_gradient=True):
    pull = PRECISION @ (x - MEAN)
    return -0.5 * float((x - MEAN) @ pull), -pull


def log_gamma(x, with_gradient=True):
    """x_k is the logarithm of a Gamma(SHAPES_k, 1) number."""
    with np.errstate(over="ignore"):
        return float((SHAPES * x - np.exp(x)).sum()), SHAPES - np.exp(x)


def draws_of(density, n_dimensions, n_draws=4000, n_chains=4):
    shape = find_shape(density, np.zeros(n_dimensions))
    chains = [Chain(density, shape, np.random.default_rng([5, k])) for k in range(n_chains)]
    for chain in chains:
        chain.advance(200, adapt=True)
    return np.stack([chain.advance(n_draws)[0] for chain in chains])


@pytest.fixture(params=["both", "local", "independent"])
def moves(request, monkeypatch):
    """Both kinds of move, or one of them alone: each leaves the density as it is."""
    if request.param == "local":
        monkeypatch.setattr(metropolis, "N_INDEPENDENT", 0)
    if request.param == "independent":
        monkeypatch.setattr(Chain, "_move_locally", lambda chain: 1.0)
    return request.param


def assert_means(values, truth):
    """Means over (chains, draws, ...) within four and a half standard errors, which the batches of the chains tell."""
    found = batch_means(values)
    off = np.abs(found.mean - truth) / found.error
    assert (off < 4.5).all(), off
    assert (found.error < 0.1).all()  # and these are small enough to say something


def test_a_correlated_normal(moves):
    x = draws_of(normal, 3)
    assert_means(x, MEAN)
    apart = x - MEAN
    assert_means(apart[..., :, None] * apart[..., None, :], COVARIANCE)


def test_a_skewed_density(moves):
    x = draws_of(log_gamma, 2)
    assert_means(x, digamma(SHAPES))
    assert_means((x - digamma(SHAPES)) ** 2 / polygamma(1, SHAPES), np.ones(2))
    for share in (0.05, 0.5, 0.95):  # the tails, too
        assert_means(x < np.log(gammaincinv(SHAPES, share)), np.full(2, share))


def test_a_shape_that_does_not_fit_costs_draws_and_not_the_truth():
    """Half as wide in one direction, twice in another, and off the mode."""
    shape = find_shape(normal, np.zeros(3))
    wrong = shape._replace(mode=shape.mode + 0.5, factor=shape.factor * [0.5, 1.0, 2.0])
    chains = [Chain(normal, wrong, np.random.default_rng([6, k])) for k in range(4)]
    for chain in chains:
        chain.advance(200, adapt=True)
    x = np.stack([chain.advance(6000)[0] for chain in chains])
    assert_means(x, MEAN)
    assert_means((x - MEAN) ** 2, np.diag(COVARIANCE))


def test_a_density_that_ends_somewhere():
    """A half normal: beyond 0 there is nothing, and no gradient either."""

    def half(x, with_gradient=True):
        return (-0.5 * float(x @ x), -x) if x[0] > 0 else (-np.inf, np.full(1, np.nan))

    shape = metropolis.Shape(np.array([0.5]), 0.0, np.eye(1))
    chains = [Chain(half, shape, np.random.default_rng([7, k])) for k in range(4)]
    for chain in chains:
        chain.advance(200, adapt=True)
    x = np.stack([chain.advance(4000)[0] for chain in chains])
    assert (x > 0).all()
    assert_means(x, np.sqrt(2 / np.pi))


def test_the_shape_of_a_normal_is_its_covariance():
    shape = find_shape(normal, np.zeros(3))
    np.testing.assert_allclose(shape.mode, MEAN, atol=1e-4)
    np.testing.assert_allclose(shape.factor @ shape.factor.T, COVARIANCE, rtol=1e-6, atol=1e-12)
    assert shape.log_density == pytest.approx(0.0, abs=1e-6)


def test_a_flat_direction_is_not_taken_to_be_endless():
    shape = find_shape(lambda x, with_gradient=True: (-0.5 * x[0] ** 2, np.array([-x[0], 0.0])), np.ones(2))
    np.testing.assert_allclose(np.diag(shape.factor @ shape.factor.T), [1.0, 1 / metropolis._LEAST_CURVATURE])


def test_only_warm_up_changes_the_size_of_steps_and_brings_it_where_it_should_be():
    shape = find_shape(normal, np.zeros(3))
    chain = Chain(normal, shape, np.random.default_rng(0))
    chain.log_step = np.log(30.0)  # much too large
    chain.advance(500, adapt=True)
    size = chain.log_step
    chances = []
    for _ in range(500):
        chain.advance(1)
        chances.append(chain._move_locally())
    assert chain.log_step == size
    assert np.mean(chances) == pytest.approx(metropolis.TARGET_ACCEPTANCE, abs=0.1)


def test_steps_can_be_taken_in_portions():
    shape = find_shape(log_gamma, np.zeros(2))
    one, other = (Chain(log_gamma, shape, np.random.default_rng(3)) for _ in range(2))
    positions, values = one.advance(30)
    parts = [other.advance(n) for n in (1, 9, 20)]
    np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), positions)
    np.testing.assert_allclose(values, [log_gamma(x)[0] for x in positions])


def test_the_gradient_that_is_used_is_that_of_the_place():
    """After an independent move the old gradient says nothing any more."""
    chain = Chain(normal, find_shape(normal, np.zeros(3)), np.random.default_rng(1))
    for _ in range(20):
        chain._propose_independently()
        chain._move_locally()
        assert not chain.stale
        value, gradient = normal(chain._position(chain.z))
        np.testing.assert_allclose(chain.gradient, gradient)
        assert chain.value == pytest.approx(value)
        assert chain.at_t == pytest.approx(chain._log_t(chain.z))
