"""Intervals of PatchworkRegressor over many training sets: they hold as many outcomes as they say."""

import warnings

import numpy as np
import pytest

from bayespatch import Hyperparameters, PatchworkRegressor

N_SETS, N_PAST, N_NEW = 24, 150, 100

NOISE = {
    "normal": lambda rng, where: rng.normal(size=len(where)),
    "skewed": lambda rng, where: rng.gamma(2.0, size=len(where)),
    "wider in some places": lambda rng, where: rng.normal(size=len(where)) * np.where(where > 0, 2.0, 0.5),
}


def covered(noise, level, seed):
    rng = np.random.default_rng(seed)
    n = N_PAST + N_NEW
    X = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 3, n)])
    y = 2.0 * X[:, 0] + 2.0 * (X[:, 3] == 1) + NOISE[noise](rng, X[:, 1])
    run = dict(chains=2, draws=50, warmup=50, random_state=seed)
    model = PatchworkRegressor(hyper=Hyperparameters(alpha=5 / N_PAST), **run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        low, high = model.fit(X[:N_PAST], y[:N_PAST]).predict_interval(X[N_PAST:], level).T
    return ((low <= y[N_PAST:]) & (y[N_PAST:] <= high)).mean()


@pytest.mark.parametrize("noise", NOISE)
def test_intervals_hold_as_many_outcomes_as_they_say(noise):
    """Within four standard errors of the mean over training sets."""
    shares = np.array([covered(noise, 0.9, seed) for seed in range(N_SETS)])
    error = shares.std(ddof=1) / np.sqrt(N_SETS)
    assert abs(shares.mean() - 0.9) < 4 * error
