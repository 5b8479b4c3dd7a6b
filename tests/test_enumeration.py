"""The enumerated posterior is what all samplers are held against; here it is held against the model."""

import itertools

import numpy as np
import pytest
from scipy import integrate, special

from bayespatch import model as bp
from bayespatch.model import KINDS, LIKELIHOODS, Hyperparameters, Latent, Model
from tests.enumeration import enumerate_posterior, enumerate_settings, integrate_q
from tests.problems import PROBLEMS, make_data


@pytest.mark.parametrize("hyper", [Hyperparameters.paper(), Hyperparameters(gamma=0.7, sigma1=3, sigma2=1)])
@pytest.mark.parametrize(("n", "s"), [((0, 0), (0, 0)), ((2, 1), (2, 0)), ((3, 2), (1, 1)), ((5, 5), (5, 5))])
def test_integral_over_q(hyper, n, s):
    def rest(q):  # all but q^(gamma-1) (1-q)^(sigma1-1), the singular part, which quad takes as a weight
        shape = hyper.sigma2 * q / (1 - q)
        factors = [
            special.poch(shape, s_b) * special.poch(hyper.sigma2, n_b - s_b) / special.poch(shape + hyper.sigma2, n_b)
            for n_b, s_b in zip(n, s, strict=True)
        ]
        return np.prod(factors) / special.beta(hyper.gamma, hyper.sigma1)

    def quad(f):
        powers = (hyper.gamma - 1, hyper.sigma1 - 1)
        return integrate.quad(f, 0, 1, weight="alg", wvar=powers, epsabs=1e-12, epsrel=1e-12)[0]

    log_integral, mean = integrate_q(hyper, np.array(n), np.array(s))
    # both ends of the weight are exact, but q/(1-q) is not defined at 1 itself
    total = quad(lambda q: rest(min(q, 1 - 1e-15)))
    assert np.exp(log_integral) == pytest.approx(total, rel=1e-8)
    assert mean == pytest.approx(quad(lambda q: q * rest(min(q, 1 - 1e-15))) / total, rel=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_evidence_sums_to_one_over_all_data(kind):
    hyper = Hyperparameters(
        alpha=0.4, lam0=0.3, lam=1.5, mu0=0.2, mu=(1.0, 2.0), gamma=1.5, sigma2=2, tau=2, sigma3=0.6
    )
    total = 0.0
    for x0, x1, y0, y1 in itertools.product(range(3), range(3), range(2), range(2)):
        data = make_data([[x0], [x1]], [y0, y1], [[0], [2]], [1, 0], [3])
        total += np.exp(enumerate_posterior(data, Model(kind, "exact", hyper)).log_evidence)
    assert total == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("kind", ["I", "II"])
def test_weights_are_integrals_of_the_joint_probability(kind, likelihood):
    data, hyper = PROBLEMS["hidden_label"]()
    model = Model(kind, likelihood, hyper)
    settings = enumerate_settings(data, model)
    for k in np.random.default_rng(0).choice(len(settings.z), 15, replace=False):

        def joint(q, k=k):
            latent = Latent(np.array([q]), settings.z[k], settings.zw[k], np.ones(settings.z[k].shape))
            return np.exp(bp.log_joint(data, model, latent))

        # u^4 = q smooths the end at 0, where gamma < 1
        total = integrate.quad(lambda u, joint=joint: joint(u**4) * 4 * u**3, 0, 1, epsabs=0, epsrel=1e-9)[0]
        assert np.exp(settings.log_weight[k]) == pytest.approx(total, rel=1e-7)


def test_weights_of_model_iii_are_integrals_over_kappa_too():
    data, hyper = PROBLEMS["windows"]()
    data = data._replace(
        x=data.x[:1, :1], y=data.y[:1], x_parents=data.x_parents[:, :1], n_values=data.n_values[:1],
        windows=data.windows[:1], own_parent=data.own_parent[:1],
    )  # fmt: skip
    model = Model("III", "exact", hyper)
    settings = enumerate_settings(data, model)
    for k in np.flatnonzero(settings.z.sum(axis=(1, 2)) == 1):

        def joint(kappa, q, k=k):
            latent = Latent(np.array([q]), settings.z[k], settings.zw[k], np.full(settings.z[k].shape, kappa))
            return np.exp(bp.log_joint(data, model, latent))

        total = integrate.dblquad(joint, 0, 1, 0, 1, epsabs=0, epsrel=1e-6)[0]
        assert np.exp(settings.log_weight[k]) == pytest.approx(total, rel=1e-5)
