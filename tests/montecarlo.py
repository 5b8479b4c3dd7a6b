"""Holding averages over Markov chains against the truth: Monte Carlo standard errors and comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.engine.base import Engine
from bayespatch.model import Data, Model, influence
from tests.enumeration import Exact, enumerate_posterior

N_BATCHES = 20  # of each chain
TOLERANCE = 4.0  # Monte Carlo standard errors
MakeEngine = Callable[[Data, Model], Engine]


class Estimate(NamedTuple):
    """An average over chains and its Monte Carlo standard error."""

    mean: NDArray[np.float64]
    error: NDArray[np.float64]


def batch_means(draws: NDArray[np.float64]) -> Estimate:
    """The mean of draws (chains, draws, ...) and its standard error, from the spread of the means of long batches.

    The batches of independent chains are pooled, so that chains which disagree show in the error.
    """
    n_chains, n_draws = draws.shape[:2]
    length = n_draws // N_BATCHES
    batches = draws[:, : length * N_BATCHES].reshape(n_chains * N_BATCHES, length, *draws.shape[2:]).mean(axis=1)
    return Estimate(batches.mean(axis=0), batches.std(axis=0, ddof=1) / np.sqrt(len(batches)))


def run_chains(engine: Engine, n_draws: int, seed: int, n_chains: int = 4) -> dict[str, NDArray[np.float64]]:
    """Draws (chains, draws, ...) of z, z*w, q and kappa, after a warm-up of a tenth as many sweeps (at least 300)."""
    draws: dict[str, list[list[NDArray[np.float64]]]] = {"z": [], "zw": [], "q": [], "kappa": []}
    for chain in range(n_chains):
        state = engine.start(seed, chain)
        for _ in range(max(300, n_draws // 10)):
            engine.sweep(state, adapt=True)
        for kept in draws.values():
            kept.append([])
        for _ in range(n_draws):
            engine.sweep(state)
            latent = engine.latent(state)
            draws["z"][-1].append(latent.z)
            draws["zw"][-1].append(latent.z[:, :, None] & latent.w)
            draws["q"][-1].append(latent.q)
            draws["kappa"][-1].append(influence(engine.model, latent))
    return {name: np.asarray(kept, dtype=np.float64) for name, kept in draws.items()}


def departures(exact: Exact, draws: dict[str, NDArray[np.float64]]) -> dict[tuple[str, tuple[int, ...]], str]:
    """What the chains get wrong by more than the tolerance: name and index of a quantity -> a line that says by how
    much."""
    wrong = {}
    for name, truth in (("z", exact.z), ("zw", exact.zw), ("q", exact.q), ("kappa", exact.kappa)):
        estimate = batch_means(draws[name])
        for index in np.ndindex(truth.shape):
            mean, error = estimate.mean[index], estimate.error[index]
            off = abs(mean - truth[index])
            # A quantity that never changes has no spread; it is then right only if it is the truth (z_ii = 0).
            if off > TOLERANCE * error + 1e-12:
                wrong[name, index] = f"{name}{list(index)}: {mean:.4f} ± {error:.4f}, exactly {truth[index]:.4f}"
    return wrong


def check_against_exact(make_engine: MakeEngine, data: Data, model: Model, n_draws: int, seed: int) -> None:
    """Fail where an engine's means of z, z*w, q and kappa are not those of the exact posterior.

    Among thousands of comparisons a few exceed four standard errors by chance. So a quantity that does is looked at
    again in new chains, four times as long: chance does not strike it twice, an error does, and more clearly.
    """
    exact = enumerate_posterior(data, model)
    engine = make_engine(data, model)
    wrong = departures(exact, run_chains(engine, n_draws, seed))
    if wrong:
        again = departures(exact, run_chains(engine, 4 * n_draws, seed + 1))
        confirmed = [f"first {wrong[key]}; again {again[key]}" for key in wrong if key in again]
        assert not confirmed, f"Model {model.kind}, {model.likelihood} likelihood:\n" + "\n".join(confirmed)
