"""More tests of the CUDA engine in the simulator: ``test_cuda_simulated`` runs this file in a process of its own."""

import numpy as np
import pytest
from bayespatch_cuda import engine as cuda_engine
from bayespatch_cuda import importance as cuda_importance
from bayespatch_cuda import layout as cuda_layout
from bayespatch_cuda import update as cuda_update
from bayespatch_cuda.engine import CudaEngine

from bayespatch import model as bp
from bayespatch.engine.cpu.summary import Tally
from bayespatch.model import KINDS, Hyperparameters, Model
from tests.cuda.simulated_gpu import check_means, check_predictions, check_updates, simulated  # noqa: F401
from tests.engine.contract import CHAINS, GIVEN
from tests.problems import PROBLEMS, random_data


@pytest.mark.parametrize("check", [*CHAINS, *GIVEN])
@pytest.mark.parametrize("kind", KINDS)
def test_the_contract_is_kept(kind, check, monkeypatch):
    monkeypatch.setattr(cuda_layout, "GROUP", 1)
    monkeypatch.setattr(cuda_importance, "BLOCK", 1)
    check(CudaEngine, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_updates_are_those_of_the_definitions(kind):
    data, hyper = PROBLEMS["crowd"]()
    check_updates(data, Model(kind, "exact", hyper), 20)


@pytest.mark.parametrize("kind", KINDS)
def test_updates_are_those_of_the_definitions_with_missing_values_windows_and_itself(kind, monkeypatch):
    monkeypatch.setattr(cuda_layout, "GROUP", 2)  # two groups, the second not full
    monkeypatch.setattr(cuda_engine, "MOST_AT_ONCE", 1)  # products in several parts
    data = random_data(3, 3, 5, 2, itself=True)
    check_updates(data, Model(kind, "paper", Hyperparameters(alpha=0.5, lam0=0.2, tau=1.3, sigma3=0.8)), 6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sweep_leaves_a_state_that_the_model_knows(kind, monkeypatch):
    data, hyper = PROBLEMS["crowd"]()
    model = Model(kind, "exact", hyper)
    engine = CudaEngine(data, model)
    state, again = engine.start(3, 1), engine.start(3, 1)
    state.spare = engine.blank_entries(1)  # too short: it has to grow
    for _ in range(6):
        engine.sweep(state, adapt=True)
        engine.sweep(again, adapt=True)
    seen, latent = engine.observe(state), engine.latent(state)
    np.testing.assert_allclose(seen.log_joint, bp.log_joint(data, model, latent), rtol=1e-9)
    np.testing.assert_array_equal(seen.n_neighbors, latent.z.sum(axis=1))
    np.testing.assert_allclose(seen.votes, bp.class_votes(data, model, latent), rtol=1e-12)
    np.testing.assert_array_equal(seen.q_tilde, engine.observe(again).q_tilde)  # the same seed, the same draws
    z, kappa, shares = (np.zeros(latent.z.shape, np.float32) for _ in range(3))
    w, explained = (np.zeros((*shape, 0), np.float32) for shape in (latent.z.shape, seen.n_neighbors.shape))
    Tally(data, engine.model).add(engine.neighbors(state), z, w, kappa, shares, explained)
    np.testing.assert_array_equal(z > 0, latent.z)
    np.testing.assert_allclose(kappa, bp.influence(model, latent), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_tell_all_of_the_neighbors_with_many_features(kind):
    check_predictions(kind, 70)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["one_case", "one_parent", "many_values"])
def test_means_are_those_of_the_exact_posterior(kind, name, monkeypatch):
    check_means(kind, name, 400, monkeypatch)


def too_eager(odds, bits):
    return kernels_as_they_are["turned_down"](np.float32(0.9 * odds), bits)


def all_equally_strong(kind, entries, s, i):
    return 1.0


def agreement_of_another(table, words, i, b):
    kernels_as_they_are["load_agreement"](table, words, i, max(b - 1, 0))


def one_candidate(c, rng, pair_key, r):
    return kernels_as_they_are["draw_kappa"](c, rng, pair_key, 0)


def missing_values_count(c, table, importance, case, change, i, b, j, kappa):
    seen = table._replace(observed=np.full_like(table.observed, 2**32 - 1))
    return kernels_as_they_are["factor_given_kappa"](c, seen, importance, case, change, i, b, j, kappa)


def features_without_agreement(kind, c, table, importance, case, change, i, b, j, k, u):
    deaf = change._replace(same=np.zeros_like(change.same))
    return kernels_as_they_are["is_on"](kind, c, table, importance, case, deaf, i, b, j, k, u)


def unscaled(c, pair, weight, pair_key):
    return kernels_as_they_are["choose_count"](c, pair._replace(scale=np.ones_like(pair.scale)), weight, pair_key)


def votes_of_the_class_stay(kind, c, table, case, change, i, b, k, lane, n_lanes):
    kernels_as_they_are["cast_votes"](kind, c, table, case, change, i, b, k, lane, n_lanes)
    if lane == 0 and k < 0:
        case.class_votes[table.y_parents[b]] -= k


PLANTED = {
    "turned_down": ("I", too_eager),
    "cast_votes": ("I", votes_of_the_class_stay),
    "load_agreement": ("I", agreement_of_another),
    "is_on": ("I", features_without_agreement),
    "vote_weight": ("II", all_equally_strong),
    "choose_count": ("II", unscaled),
    "draw_kappa": ("III", one_candidate),
    "factor_given_kappa": ("III", missing_values_count),
}
kernels_as_they_are = {name: getattr(cuda_update, name) for name in PLANTED}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name, monkeypatch):
    kind, wrong = PLANTED[name]
    monkeypatch.setattr(cuda_layout, "GROUP", 2)
    monkeypatch.setattr(cuda_update, name, wrong)
    data = random_data(4, 3, 6, 3, missing=0.4, itself=True)
    with pytest.raises(AssertionError):
        check_updates(data, Model(kind, "exact", Hyperparameters(alpha=0.4, lam0=0.2)), 40)
