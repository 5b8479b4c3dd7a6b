"""What is sampled given the importances, against exact sums: the sweep given q, and votes given q-tilde.

Averages are held against the truth within four of their own Monte Carlo standard errors (`tests.montecarlo`); what
exceeds them is looked at again in chains four times as long.
"""

import zlib

import numpy as np
import pytest

from bayespatch.engine.cpu import CpuEngine
from bayespatch.model import KINDS, LIKELIHOODS, Model
from bayespatch.predict import predict_cases
from bayespatch.predict.sampled import N_BATCHES
from tests.enumeration import enumerate_posterior, enumerate_votes
from tests.montecarlo import TOLERANCE, batch_means
from tests.problems import PROBLEMS, GivenDraws, unsupervised

GIVEN = ["binary", "many_values", "exclude_self", "windows", "missing", "hidden_label"]
VOTED = ["binary", "many_values", "windows", "missing", "hidden_label", "crowd", "one_parent"]


def seed_of(*names):
    return zlib.crc32("-".join(map(str, names)).encode())


def chains_given(data, model, q, n_draws, seed):
    """Draws (chains, draws, ...) of z, z*w and q-tilde given q."""
    engine = CpuEngine(data, model)
    kept = {"z": [], "zw": []}
    for chain in range(4):
        state = engine.start(seed, chain)
        for _ in range(200):
            engine.sweep_given_q(state, q)
        z, zw = [], []
        for _ in range(n_draws):
            engine.sweep_given_q(state, q)
            latent = engine.latent(state)
            z.append(latent.z)
            zw.append(latent.z[:, :, None] & latent.w)
        np.testing.assert_allclose(engine.latent(state).q, q)  # it stays as it was given
        kept["z"].append(z)
        kept["zw"].append(zw)
    return {name: np.asarray(draws, dtype=np.float64) for name, draws in kept.items()}


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_sweep_given_q_has_the_exact_conditional_posterior(kind, likelihood, name):
    data, hyper = PROBLEMS[name]()
    model = Model(kind, likelihood, hyper)
    q = np.linspace(0.25, 0.8, data.x.shape[1])
    exact = enumerate_posterior(data, model, q)
    wrong = None
    for length, seed in ((2000, seed_of(kind, likelihood, name)), (8000, seed_of(kind, likelihood, name, "again"))):
        draws = chains_given(data, model, q, length, seed)
        off = set()
        for what, truth in (("z", exact.z), ("zw", exact.zw)):
            estimate = batch_means(draws[what])
            far = np.abs(estimate.mean - truth) > TOLERANCE * estimate.error + 1e-12
            off |= {(what, index) for index in np.ndindex(truth.shape) if far[index]}
        wrong = off if wrong is None else wrong & off
        if not wrong:
            return
    raise AssertionError(f"twice off: {sorted(wrong)}")


def fixed(data, model, q_tilde, n_draws, seed):
    """A posterior that knows q-tilde: every draw is the same."""
    q = q_tilde.mean(axis=0)
    return GivenDraws(
        log_weights=None,
        compares_missing=None,
        model=model,
        seed=seed,
        q=np.broadcast_to(q, (4, n_draws, len(q))),
        q_tilde=np.broadcast_to(q_tilde.astype(np.float32), (4, n_draws, *q_tilde.shape)),
        n_chains=4,
        n_draws=n_draws,
    )


def check_votes(data, model, q_tilde, name, excluded=None):
    """Votes, probabilities, shares and features of `predict_cases`, held against sums over all z and w."""
    allowed = data if excluded is None else None
    wrong = None
    for n_draws, seed in ((2000, seed_of(name)), (8000, seed_of(name, "again"))):
        posterior = fixed(data, model, q_tilde, n_draws, seed % 2**31)
        seen = predict_cases(posterior, data, detail=True, error=1e-9, max_passes=1, excluded=excluded)
        assert (seen.n_draws == 4 * n_draws).all()
        off = set()
        for i in range(len(data.x)):
            truth = enumerate_votes(
                allowed or without(data, excluded[i]), model, q_tilde if allowed else q_tilde[~excluded[i]], i
            )
            votes = seen.votes_by_batch[i]
            error = votes.std(axis=0, ddof=1) / np.sqrt(len(votes))
            far = np.abs(votes.mean(axis=0) - truth.votes) > TOLERANCE * error + 1e-5
            off |= {("votes", i, m) for m in np.flatnonzero(far)}
            if allowed is None:
                continue
            # The neighbors' own statistics vary from chain to chain: four chains give a rough error, so six of it.
            by_chain = seen.neighbors.share_by_chain[i].astype(np.float64)
            error = by_chain.std(axis=0, ddof=1) / 2.0
            far = np.abs(by_chain.mean(axis=0) - truth.share) > 8.0 * error + 2e-3
            off |= {("share", i, b) for b in np.flatnonzero(far)}
            for what, found, exact in (
                ("z", seen.neighbors.probability[i], truth.z),
                ("zw", seen.neighbors.features[i], truth.zw),
            ):
                far = np.abs(found - exact) > 0.02
                off |= {(what, i, *index) for index in np.argwhere(far).tolist()}
        wrong = off if wrong is None else wrong & off
        if not wrong:
            return
    raise AssertionError(f"twice off: {sorted(map(str, wrong))}")


def without(data, excluded):
    """The same data without some of the parents."""
    kept = np.flatnonzero(~excluded)
    place = np.full(len(excluded) + 1, -1)
    place[kept] = np.arange(len(kept))
    return data._replace(
        x_parents=data.x_parents[kept], y_parents=data.y_parents[kept], own_parent=place[data.own_parent]
    )


@pytest.mark.parametrize("supervised", [True, False], ids=["known", "hidden"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("name", VOTED)
def test_votes_given_q_tilde_are_exact(name, likelihood, supervised):
    data, hyper = PROBLEMS[name]()
    data = data if supervised else unsupervised(data)
    rng = np.random.default_rng(seed_of(name))
    q_tilde = rng.uniform(0.1, 0.95, data.x_parents.shape)
    check_votes(data, Model("I", likelihood, hyper), q_tilde, f"{name}-{likelihood}-{supervised}")


def test_votes_without_excluded_parents_are_exact():
    data, hyper = PROBLEMS["many_values"]()
    rng = np.random.default_rng(0)
    q_tilde = rng.uniform(0.1, 0.95, data.x_parents.shape)
    excluded = np.zeros((len(data.x), len(data.x_parents)), dtype=bool)
    excluded[np.arange(len(data.x)), np.arange(len(data.x)) % len(data.x_parents)] = True
    check_votes(unsupervised(data), Model("I", "exact", hyper), q_tilde, "excluded", excluded)


def test_a_case_is_not_among_its_own_voters():
    data, hyper = PROBLEMS["exclude_self"]()
    assert (data.own_parent >= 0).any()
    q_tilde = np.random.default_rng(0).uniform(0.1, 0.95, data.x_parents.shape)
    check_votes(unsupervised(data), Model("I", "exact", hyper), q_tilde, "own")


def test_the_stated_error_is_the_spread_over_seeds():
    """Predictions with other seeds differ as much as the stated error says: z of rms 1, from 200 seeds within .15."""
    data, hyper = PROBLEMS["crowd"]()
    data = unsupervised(data)
    model = Model("I", "exact", hyper)
    q_tilde = np.random.default_rng(1).uniform(0.1, 0.95, data.x_parents.shape)
    seen = [
        predict_cases(fixed(data, model, q_tilde, 100, seed), data, error=1e-9, max_passes=1) for seed in range(200)
    ]
    means = np.array([part.mean_votes()[:, 0] for part in seen])
    errors = np.array([part.votes_by_batch[:, :, 0].std(axis=1, ddof=1) / np.sqrt(N_BATCHES) for part in seen])
    ratio = means.std(axis=0, ddof=1) / np.sqrt((errors**2).mean(axis=0))
    # Standard error of a standard deviation from 200 seeds: 5 %. Batches of five draws miss a little autocorrelation.
    assert (ratio < 1.15 + 4 * 0.05).all()
    assert (ratio > 0.85 - 4 * 0.05).all()
