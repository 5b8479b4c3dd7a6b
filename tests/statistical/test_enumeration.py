"""The enumerated posterior against draws from the prior, weighted by what the model says of the data."""

import numpy as np
import pytest

from bayespatch import model as bp
from bayespatch.model import KINDS, Model
from bayespatch.simulate import draw_prior
from tests.enumeration import enumerate_posterior
from tests.problems import PROBLEMS


@pytest.mark.parametrize("name", ["missing", "exclude_self", "many_values"])
@pytest.mark.parametrize("kind", KINDS)
def test_posterior_is_the_weighted_prior(kind, name):
    """Importance sampling: draws from the prior, weighted by their likelihood under the model."""
    data, hyper = PROBLEMS[name]()
    model = Model(kind, "exact", hyper)
    exact = enumerate_posterior(data, model)
    n_parents, n_features = data.x_parents.shape
    rng = np.random.default_rng(1)
    z, zw, q, kappa, log_weight = [], [], [], [], []
    for _ in range(4000):
        latent, _ = draw_prior(rng, model, len(data.x), n_parents, n_features, data.own_parent)
        z.append(latent.z.ravel())
        zw.append((latent.z[:, :, None] & latent.w).ravel())
        q.append(latent.q)
        kappa.append(bp.influence(model, latent).ravel())
        log_weight.append(
            bp.log_likelihood_features(data, model, latent).sum() + bp.log_likelihood_labels(data, model, latent).sum()
        )
    weight = np.exp(log_weight)
    error = weight.std() / np.sqrt(len(weight))
    assert abs(weight.mean() - np.exp(exact.log_evidence)) < 4 * error
    share = weight / weight.sum()
    for values, truth in ((z, exact.z), (zw, exact.zw), (q, exact.q), (kappa, exact.kappa)):
        values = np.array(values, dtype=float)
        mean = share @ values
        error = np.sqrt(share**2 @ (values - mean) ** 2)
        assert np.all(np.abs(mean - truth.ravel()) <= 4.5 * error), (mean, truth.ravel(), error)
