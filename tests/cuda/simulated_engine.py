"""Tests of the CUDA engine in Numba's simulator: ``test_cuda`` runs this file in a process of its own. The same at more
length is in ``tests/statistical``."""

import numpy as np
import pytest
from bayespatch_cuda import importance as cuda_importance
from bayespatch_cuda import launch as cuda_launch
from bayespatch_cuda import layout as cuda_layout
from bayespatch_cuda.engine import CudaEngine
from bayespatch_cuda.sums import compare_nodes, find_tilt, log_of_silent, log_others

from bayespatch.engine.importance import N_MOVES
from bayespatch.engine.streams import SUM, subkey
from bayespatch.model import KINDS, Hyperparameters, Model
from tests.cuda.simulated_gpu import check_means, check_predictions, check_updates, simulated  # noqa: F401
from tests.engine.contract import GIVEN, a_thawed_chain_goes_on, statistics_are_those_of_the_model
from tests.problems import PROBLEMS, random_data


@pytest.mark.parametrize(  # all checks for all models are in ``tests/statistical``
    ("kind", "check"), [("I", a_thawed_chain_goes_on), ("II", statistics_are_those_of_the_model), ("III", GIVEN[0])]
)
def test_the_contract_is_kept(kind, check, monkeypatch):
    monkeypatch.setattr(cuda_layout, "GROUP", 1)
    monkeypatch.setattr(cuda_importance, "BLOCK", 1)
    check(CudaEngine, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_updates_are_those_of_the_definitions(kind):
    data, hyper = PROBLEMS["crowd"]()
    check_updates(data, Model(kind, "exact", hyper), 4)


@pytest.mark.parametrize("kind", KINDS)
def test_updates_with_more_parents_and_features_than_threads(kind, monkeypatch):
    monkeypatch.setattr(cuda_layout, "GROUP", 2)
    data = random_data(3, 3, 7, 3, itself=True)
    check_updates(data, Model(kind, "exact", Hyperparameters(alpha=0.5, lam0=0.2)), 20)


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_tell_all_of_the_neighbors(kind):
    check_predictions(kind, 2)


def test_blocks_of_any_size_draw_the_same(monkeypatch):
    monkeypatch.setattr(cuda_layout, "GROUP", 1)
    engine = CudaEngine(random_data(4, 9, 5, 3), Model("I", "exact", Hyperparameters(alpha=0.5)))
    states = []
    for block in (1, 2, 4):
        monkeypatch.setattr(cuda_importance, "BLOCK", block)
        states.append(engine.start(5, 0))
        engine.sweep(states[-1])
    for state in states[1:]:
        np.testing.assert_array_equal(state.weights.above[:, :, :6], states[0].weights.above[:, :, :6])
        np.testing.assert_allclose(state.weights.logits, states[0].weights.logits, rtol=1e-9)


@pytest.mark.parametrize("threads", [2, 3, 128])  # fewer than features, as many, all of them for several cases
def test_model_one_sums_over_all_cases_and_counts_as_it_goes(threads, monkeypatch):
    monkeypatch.setattr(cuda_layout, "GROUP", 1)
    monkeypatch.setattr(cuda_importance, "BLOCK", 2)
    monkeypatch.setattr(cuda_launch, "THREADS", threads)
    monkeypatch.setattr(cuda_launch, "MOST_BLOCKS", 2)
    data = random_data(4, 7, 5, 3)
    monkeypatch.setitem(N_MOVES, "I", 1)  # what is compared with what is gone after a second one
    engine = CudaEngine(data, Model("I", "exact", Hyperparameters(alpha=0.5, sigma2=1.0)))
    state = engine.start(5, 0)
    n_accepted = 0
    for turn in range(3):
        engine.sweep(state)
        counted = state.weights.n_neighbors.copy(), state.weights.n_on.copy()
        engine.count_neighbors(state)
        np.testing.assert_array_equal(counted[0], state.weights.n_neighbors)
        np.testing.assert_array_equal(counted[1], state.weights.n_on)
        move = state.move._replace(old=state.move.old.copy())
        engine.move_importance(state, np.uint64(turn), 0.0)
        n_accepted += move.moved.sum()
        nodes = engine.nodes_for(state.entries.parent.shape[1])
        for j in range(3):
            logs = [
                compare_nodes(1, engine.constants, engine.table, nodes, move, state.entries, 0, i, j) for i in range(7)
            ]
            np.testing.assert_allclose(move.log_ratio[j].sum(), sum(logs), atol=1e-12)
    assert n_accepted > 0


@pytest.mark.parametrize("threads", [2, 4, 128])
@pytest.mark.parametrize("kind", ["II", "III"])
def test_models_two_and_three_sum_over_all_cases_and_count_as_they_go(kind, threads, monkeypatch):
    monkeypatch.setattr(cuda_layout, "GROUP", 1)
    monkeypatch.setattr(cuda_importance, "BLOCK", 2)
    monkeypatch.setattr(cuda_launch, "THREADS", threads)
    monkeypatch.setattr(cuda_launch, "MOST_BLOCKS", 2)
    monkeypatch.setitem(N_MOVES, kind, 1)
    engine = CudaEngine(random_data(2, 5, 5, 3), Model(kind, "exact", Hyperparameters(alpha=0.5)))
    c, key = engine.constants, np.uint64(2)
    state = engine.start(4, 0)
    engine.update_cases(state, np.uint64(1))
    engine.count_neighbors(state)
    old, before = state.move.old.copy(), state.weights.n_on.copy()
    entries = state.entries._replace(bits=state.entries.bits.copy(), tilt=state.entries.tilt.copy())
    capacity = entries.parent.shape[1]
    engine.move_importance(state, key, 0.0)
    after = state.weights.n_on.copy()
    engine.count_neighbors(state)
    np.testing.assert_array_equal(after, state.weights.n_on)
    assert (after != before).any()
    for j in range(1 if kind == "II" else 3):  # in Model II, the w of feature 0 have changed what came after
        votes, rng, nodes = (np.zeros((2, 2, 3)), np.zeros((2, 2))), np.zeros(2, np.uint64), engine.nodes_for(capacity)
        new, log = state.move.new, 0.0
        for i in range(5):
            if kind == "II":
                find_tilt(c, engine.table, entries, *votes, i, j)
                log += log_of_silent(engine.table, new, entries, i, j) - log_of_silent(engine.table, old, entries, i, j)
                log += log_others(c, engine.table, nodes, new, entries, *votes, rng, subkey(key, SUM), i, j)
            log += compare_nodes(c.kind, c, engine.table, nodes, state.move._replace(old=old), entries, 0, i, j)
        np.testing.assert_allclose(state.move.log_ratio[j].sum(), log, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_means_are_those_of_the_exact_posterior(kind, monkeypatch):
    check_means(kind, "one_case" if kind == "I" else "one_parent", 40, monkeypatch)
