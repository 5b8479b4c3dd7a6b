"""The two engines, which share nothing but the model, agree on real data: part of the heart table."""

from typing import NamedTuple

import numpy as np
import pytest
from arviz_stats.base import array_stats

from bayespatch.datasets import load_heart
from bayespatch.engine.base import Engine
from bayespatch.engine.cpu import CpuEngine
from bayespatch.engine.paper import PaperEngine
from bayespatch.model import KINDS, Data, Hyperparameters, Model
from tests.problems import make_data

N_CASES, N_PARENTS = 20, 10
FEATURES = ["cp", "restecg", "exang", "oldpeak", "ca"]
# Votes that matter less than by default, and q not too far from one half: so that the paper's sampler, too, converges.
HYPER = Hyperparameters(alpha=0.3, lam0=0.5, lam=1.0, mu0=0.5, mu=1.0, gamma=5.0, sigma1=5.0, sigma2=5.0)
# Sweeps of each chain. One in 60 of the paper's is an effective draw of q; in Model II it visits every w by itself.
N_SWEEPS = {CpuEngine: dict.fromkeys(KINDS, 3000), PaperEngine: {"I": 4000, "II": 2500, "III": 3000}}
N_CHAINS = 4
MIN_ESS = 100  # of every q in either engine: what the standard errors need to be trusted
TOLERANCE = 4.0  # combined standard errors


class Estimate(NamedTuple):
    """A mean, its standard error sd / sqrt(ESS), and the effective number of draws."""

    mean: np.ndarray
    error: np.ndarray
    ess: np.ndarray


def heart() -> Data:
    """The first complete rows: cases first, then parents."""
    table, y = load_heart(discretize="paper")
    complete = np.flatnonzero(table.notna().all(axis=1))[: N_CASES + N_PARENTS]
    codes = np.column_stack([table[name].cat.codes for name in FEATURES])[complete]
    n_values = [len(table[name].cat.categories) for name in FEATURES]
    labels = y.to_numpy()[complete]
    return make_data(codes[:N_CASES], labels[:N_CASES], codes[N_CASES:], labels[N_CASES:], n_values)


def estimate(draws: np.ndarray) -> Estimate:
    """Of draws (chains, draws, quantities)."""
    ess = np.array([float(array_stats.ess(draws[:, :, k], method="mean")) for k in range(draws.shape[2])])
    return Estimate(draws.mean(axis=(0, 1)), draws.std(axis=(0, 1)) / np.sqrt(ess), ess)


def run(make_engine: type[Engine], data: Data, model: Model) -> dict[str, np.ndarray]:
    """q (chains, draws, P) and z (chains, draws, N S)."""
    n_sweeps = N_SWEEPS[make_engine][model.kind]
    engine = make_engine(data, model)
    draws: dict[str, list] = {"q": [], "z": []}
    for chain in range(N_CHAINS):
        state = engine.start(seed=1, chain=chain)
        for _ in range(n_sweeps // 5):
            engine.sweep(state, adapt=True)
        for kept in draws.values():
            kept.append([])
        for _ in range(n_sweeps):
            engine.sweep(state)
            latent = engine.latent(state)
            draws["q"][-1].append(latent.q)
            draws["z"][-1].append(latent.z.ravel())
    return {name: np.asarray(kept, dtype=float) for name, kept in draws.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_engines_agree_on_heart(kind):
    data, model = heart(), Model(kind, "exact", HYPER)
    runs = {make_engine: run(make_engine, data, model) for make_engine in N_SWEEPS}
    for make_engine, draws in runs.items():
        ess = estimate(draws["q"]).ess
        rhat = max(float(array_stats.rhat(draws["q"][:, :, j])) for j in range(len(FEATURES)))
        print(f"Model {kind}, {make_engine.__name__}: ESS of q {ess.min():.0f} to {ess.max():.0f}, R-hat {rhat:.4f}")
        assert ess.min() > MIN_ESS
        assert rhat < 1.05
    for name in ("q", "z"):
        cpu, paper = (estimate(runs[make_engine][name]) for make_engine in (CpuEngine, PaperEngine))
        scores = np.abs(cpu.mean - paper.mean) / np.hypot(cpu.error, paper.error)
        print(f"{name}: largest difference {np.abs(cpu.mean - paper.mean).max():.4f}, {scores.max():.2f} errors")
        # Of z there are 200: chance would put one of them beyond four errors with another seed in 1.3 % of all cases.
        assert scores.max() < TOLERANCE, (name, scores)
