"""The Bayesian Case Model's sampler against posteriors summed out exactly, and mistakes planted in it that must show.

Averages of four chains are held against the truth within four of their own Monte Carlo standard errors; what exceeds
them is looked at again in chains four times as long.
"""

import itertools
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import study.bcm as bcm
import study.bcm.kernel as kernel
from study.tests.bcm.enumerated_cases import enumerate_cases, sequence_probability, summaries
from tests.montecarlo import TOLERANCE, batch_means

X = np.array([[0, 1], [0, 0], [1, 2]])
N_VALUES = np.array([2, 3])
MODELS = {
    "plain": bcm.CaseModel(n_clusters=2, alpha=0.8, base=0.6, boost=3.0, relevance=0.4),
    "sparse": bcm.CaseModel(n_clusters=2, alpha=0.05, base=1.0, boost=10.0, relevance=0.8),
}


def chains(model, n_draws, seed, sweep):
    draws = []
    for chain in range(4):
        rng = np.random.default_rng([seed, chain])
        state = bcm.start(X, model, rng)
        for _ in range(200):
            state = sweep(state, X, N_VALUES, model, rng)
        kept = []
        for _ in range(n_draws):
            state = sweep(state, X, N_VALUES, model, rng)
            kept.append(summaries(*state))
        draws.append(kept)
    return np.array(draws)


def departures(exact, model, sweep=bcm.sweep, n_draws=3000):
    """Indices of the summaries that are off, twice."""
    wrong = np.arange(len(exact))
    for length, seed in ((n_draws, 1), (4 * n_draws, 2)):
        estimate = batch_means(chains(model, length, seed, sweep))
        off = np.abs(estimate.mean - exact) > TOLERANCE * estimate.error + 1e-12
        wrong = wrong[off[wrong]]
        if not wrong.size:
            break
    return wrong


@pytest.fixture(scope="module")
def exact():
    return {name: enumerate_cases(X, N_VALUES, model) for name, model in MODELS.items()}


@pytest.mark.parametrize("name", list(MODELS))
def test_the_sampler_has_the_exact_posterior(exact, name):
    assert departures(exact[name], MODELS[name]).tolist() == []


PLANTED = {
    "a feature's own count is not taken away": (
        "by_case[i, s] -= 1\n            counts[s, j, v] -= 1",
        "by_case[i, s] -= 1",
        kernel,
    ),
    "the mixture is forgotten": ("(share + by_case[i, t])", "(share + 1.0)", kernel),
    "alpha instead of alpha / S": ("model.alpha / model.n_clusters, uniforms", "model.alpha, uniforms", bcm),
    "the exchange forgets the totals": (
        "(pseudo[s, j, v] + counts[s, j, v] - 1.0) / (totals[s, j] - 1.0)",
        "(pseudo[s, j, v] + counts[s, j, v] - 1.0) / totals[s, j]",
        kernel,
    ),
    "the subspace's prior is left out": ("np.log(model.relevance) + on[", "np.log(0.5) + on[", bcm),
    "the peak is left out of the total": ("peak = total + model.base * model.boost", "peak = total * 1.0", bcm),
    "a subspace without its prototype's value": ("log_on[chosen, prototypes]", "log_on[chosen, 0 * prototypes]", bcm),
}


@pytest.mark.parametrize("bug", list(PLANTED))
def test_a_planted_mistake_is_found(exact, bug, monkeypatch):
    old, new, module = PLANTED[bug]
    source = Path(module.__file__).read_text(encoding="utf-8")
    assert source.count(old) == 1
    mutant = ModuleType(f"planted_{module.__name__.rpartition('.')[2]}")
    mutant.__file__ = module.__file__
    monkeypatch.setitem(sys.modules, mutant.__name__, mutant)
    text = source.replace(old, new).replace("cache=True, ", "")  # a mistake must not stay in Numba's cache
    exec(compile(text, module.__file__, "exec"), mutant.__dict__)
    if module is kernel:
        monkeypatch.setattr(kernel, "update_assignments", mutant.update_assignments)
    sweep = mutant.sweep if module is bcm else bcm.sweep
    assert departures(exact["plain"], MODELS["plain"], sweep).size > 0


@pytest.mark.parametrize("alpha", [0.05, 1.5])
def test_the_mixture_of_a_new_case_is_that_of_the_exact_posterior(alpha):
    rng = np.random.default_rng(0)
    model = bcm.CaseModel(n_clusters=3, alpha=alpha)
    outcomes = rng.dirichlet([5.0, 5.0], size=(3, 4))  # none so rare that no chain sees it
    fitted = bcm.FittedCases(model, bcm.start(X, model, rng), outcomes, np.zeros(1))
    case = np.array([0, 1, 1, 0])
    total, mixture, shares = 0.0, np.zeros(3), np.zeros((4, 3))
    for clusters in itertools.product(range(3), repeat=4):
        weight = sequence_probability(clusters, [alpha / 3] * 3) * np.prod(outcomes[clusters, range(4), case])
        counts = np.bincount(clusters, minlength=3)
        total += weight
        mixture += weight * (alpha / 3 + counts) / (alpha + 4)
        shares += weight * np.eye(3)[list(clusters)]
    # 400 copies of the case are independent chains: their spread gives the Monte Carlo error.
    found = fitted.shares(np.tile(case, (400, 1)), np.random.default_rng(1), n_sweeps=200)
    for draws, truth in zip(found, (mixture / total, shares / total), strict=True):
        error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
        assert (np.abs(draws.mean(axis=0) - truth) < TOLERANCE * error).all()
