"""What is summed of the draws, against the model's own functions."""

import numpy as np
import pytest

from bayespatch import model as bp
from bayespatch.engine.cpu import CpuEngine
from bayespatch.model import KINDS, LIKELIHOODS, Hyperparameters, Model
from tests.problems import random_data

HYPER = Hyperparameters(alpha=0.4, lam0=2.0, lam=1.3, mu0=0.3, mu=(1.0, 2.5), gamma=1.5, sigma1=1.2, sigma2=2)
N, S, P = 12, 9, 5


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_those_of_the_model(kind, likelihood):
    data, model = random_data(1, N, S, P), Model(kind, likelihood, HYPER)
    engine = CpuEngine(data, model)
    state = engine.start(1, 0)
    shapes = {"z": (N, S), "w": (N, S, P), "kappa": (N, S), "share": (N, S), "explained": (N, P)}
    found = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    expected = {name: np.zeros(shape) for name, shape in shapes.items()}
    for _ in range(3):
        engine.sweep(state)
        latent = engine.latent(state)
        engine.add_statistics(state, *(found[name] for name in ("z", "w", "kappa", "share", "explained")))
        kappa = bp.influence(model, latent)
        cast = HYPER.mu_per_class(2)[data.y_parents] * kappa
        expected["z"] += latent.z
        expected["w"] += latent.z[:, :, None] & latent.w
        expected["kappa"] += kappa
        expected["share"] += cast / (HYPER.mu0_per_class(2).sum() + cast.sum(axis=1, keepdims=True))
        expected["explained"] += np.exp(bp.log_likelihood_features(data, model, latent))
    assert found["w"].any()
    for name, array in found.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, err_msg=name)


def test_without_room_for_features_z_alone_is_summed():
    data, model = random_data(1, N, S, P), Model("I", "exact", HYPER)
    engine = CpuEngine(data, model)
    state = engine.start(1, 0)
    engine.sweep(state)
    z, kappa, share = np.zeros((3, N, S), np.float32)
    engine.add_statistics(state, z, np.zeros((N, S, 0), np.float32), kappa, share, np.zeros((N, 0), np.float32))
    np.testing.assert_array_equal(z, engine.latent(state).z)
