"""Simulation-based calibration (Talts et al., 2018): the truth is nowhere in particular among the draws.

Latent variables are drawn from the prior, data given them, and draws from the posterior of those data. If the sampler
is right, the rank of the true value among L independent posterior draws is uniform on 0..L. All of it is repeated, and
the ranks are held against the uniform distribution.
"""

import numpy as np
import pytest
from scipy import stats

from bayespatch import model as bp
from bayespatch.engine.cpu import CpuEngine
from bayespatch.model import KINDS, Hyperparameters, Model
from bayespatch.simulate import simulate

HYPER = Hyperparameters(
    alpha=0.4, lam0=0.3, lam=1.5, mu0=0.3, mu=(1.0, 2.0), gamma=1.5, sigma1=2.0, sigma2=2.0, tau=2.0, sigma3=1.5
)
N_CASES, N_PARENTS, N_VALUES = 6, 5, (2, 3, 5)
N_SIMULATIONS = 250
N_RANKED = 19  # draws to be ranked among: ranks 0..19, 20 bins
N_THIN = 15  # sweeps from one draw to the next, all but independent then
N_WARMUP = 100
N_BINS = 10  # of two ranks each: 25 simulations expected in each
P_VALUE = (
    1e-5  # per quantity: with 3 models x 5 quantities x 2 tests, a false alarm in 3,000 seeds. The seeds are fixed.
)


def ranks(kind: str) -> np.ndarray:
    """(simulations, quantities): the ranks of q, log_joint and the number of neighbors."""
    model = Model(kind, "exact", HYPER)
    rng = np.random.default_rng(2024)
    found = []
    for number in range(N_SIMULATIONS):
        made = simulate(rng, model, N_CASES, N_PARENTS, N_VALUES)
        engine = CpuEngine(made.data, model)
        state = engine.start(seed=number, chain=0)
        for _ in range(N_WARMUP):
            engine.sweep(state, adapt=True)
        drawn = []
        for _ in range(N_RANKED):
            for _ in range(N_THIN):
                engine.sweep(state)
            observed = engine.observe(state)
            drawn.append([*observed.q, observed.log_joint, observed.n_neighbors.sum()])
        truth = np.array([*made.latent.q, bp.log_joint(made.data, model, made.latent), made.latent.z.sum()])
        below, equal = (np.array(drawn) < truth).sum(axis=0), (np.array(drawn) == truth).sum(axis=0)
        found.append(below + rng.integers(0, equal + 1))  # among equals, anywhere
    return np.array(found)


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_are_uniform(kind):
    found = ranks(kind)
    names = [*(f"q[{j}]" for j in range(len(N_VALUES))), "log_joint", "number of neighbors"]
    for name, of_quantity in zip(names, found.T, strict=True):
        counts = np.bincount(of_quantity * N_BINS // (N_RANKED + 1), minlength=N_BINS)
        assert stats.chisquare(counts).pvalue > P_VALUE, (name, counts)
        # more sensitive to a shift: ranks spread evenly inside their bin are uniform on (0, 1)
        spread = (of_quantity + np.random.default_rng(0).random(N_SIMULATIONS)) / (N_RANKED + 1)
        assert stats.kstest(spread, "uniform").pvalue > P_VALUE, (name, counts)
