"""Tests of the CUDA engine in Numba's simulator, which has to be chosen before Numba is loaded: ``test_cuda`` runs this
file in a process of its own. The simulator knows no device memory here: plain arrays take its place, so that the
functions of ``cuda_case`` and its like run compiled, and only the kernels around them are simulated."""

import sys
import zlib

import numpy as np
import pytest
from numba import config

from bayespatch import model as bp
from bayespatch.engine import cuda as engine_room
from bayespatch.engine import cuda_importance
from bayespatch.engine.cpu import CpuEngine, subkey
from bayespatch.engine.cuda import CudaEngine
from bayespatch.model import KINDS, Hyperparameters, Model
from tests.enumeration import enumerate_posterior
from tests.montecarlo import batch_means
from tests.problems import PROBLEMS, random_data

assert config.ENABLE_CUDASIM, "run through test_cuda.py"
sys.setswitchinterval(1e-5)  # the simulator waits for its threads by asking them again and again


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    """Memory of the card is memory."""
    monkeypatch.setattr(engine_room, "to_card", lambda array: np.array(array, order="C"))
    monkeypatch.setattr(engine_room, "blank", lambda shape, dtype: np.zeros(shape, dtype))
    monkeypatch.setattr(engine_room, "from_card", lambda array, stream=0: np.array(array))
    monkeypatch.setattr(engine_room, "overwrite", lambda card, array: card.__setitem__(Ellipsis, array))
    monkeypatch.setattr(engine_room, "free_bytes", lambda: 1e9)


def equal(a, b):
    return (a.z == b.z).all() and (a.w == b.w)[a.z].all() and np.allclose(a.kappa[a.z], b.kappa[b.z], rtol=1e-9)


def check_updates(data, model, n_updates):
    """The same random numbers, and all but the same odds: the same neighbors as on the CPU, draw for draw."""
    card, cpu = CudaEngine(data, model), CpuEngine(data, model)
    there, here = card.start(1, 0), cpu.start(1, 0)
    for k in range(n_updates):
        key = subkey(np.uint64(5), k)
        card.update_cases(there, key)
        cpu.update_cases(here, key)
        assert equal(card.latent(there), cpu.latent(here)), f"update {k}"
    np.testing.assert_allclose(card.summarise(there)[0], cpu.summarise(here)[0], rtol=1e-12)
    np.testing.assert_allclose(card.summarise(there)[1], cpu.summarise(here)[1], rtol=1e-9)
    return card, there


@pytest.mark.parametrize("kind", KINDS)
def test_updates_are_those_of_the_cpu(kind):
    data, hyper = PROBLEMS["crowd"]()
    card, state = check_updates(data, Model(kind, "exact", hyper), 20)
    assert card.latent(state).z.any()


@pytest.mark.parametrize("kind", KINDS)
def test_updates_are_those_of_the_cpu_with_missing_values_windows_and_itself(kind, monkeypatch):
    monkeypatch.setattr(engine_room, "GROUP", 2)  # two groups, the second not full
    monkeypatch.setattr(engine_room, "DIGITS", 1.0)  # products in several parts
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
    engine.add_neighbors(state, z, None)
    engine.add_influence(state, kappa, shares)
    np.testing.assert_array_equal(z > 0, latent.z)
    np.testing.assert_allclose(kappa, bp.influence(model, latent), rtol=1e-6)


def test_importance_can_be_set():
    data, hyper = PROBLEMS["crowd"]()
    engine = CudaEngine(data, Model("I", "exact", hyper))
    state = engine.start(0, 0)
    q_tilde = np.random.default_rng(0).random((3, 2))
    engine.set_importance(state, np.array([0.25, 0.5]), q_tilde)
    np.testing.assert_allclose(engine.observe(state).q_tilde, q_tilde, rtol=1e-12)
    np.testing.assert_allclose(state.importance.double[0], q_tilde, rtol=1e-12)


@pytest.mark.parametrize(("kind", "name"), [("I", "one_case"), ("II", "one_parent"), ("III", "one_parent")])
def test_means_are_those_of_the_exact_posterior(kind, name, monkeypatch):
    """Blocks of one thread and few draws, because the simulator is slow where threads wait for each other:
    `benchmarks/gpu.py` does the same at length on a card."""
    monkeypatch.setattr(engine_room, "GROUP", 1)
    monkeypatch.setattr(cuda_importance, "BLOCK", 1)
    data, hyper = PROBLEMS[name]()
    model = Model(kind, "exact", hyper)
    exact = enumerate_posterior(data, model)
    engine = CudaEngine(data, model)
    state = engine.start(zlib.crc32(name.encode()), 0)
    draws = {"z": [], "q": []}
    for sweep in range(10 + 80):
        engine.sweep(state, adapt=sweep < 10)
        if sweep >= 10:
            latent = engine.latent(state)
            draws["z"].append(latent.z)
            draws["q"].append(latent.q)
    for key, truth in (("z", exact.z), ("q", exact.q)):
        estimate = batch_means(np.asarray(draws[key], dtype=np.float64)[None])
        # Twenty batches of four draws: a spread with 19 degrees of freedom; five errors are exceeded once in 10^4.
        assert np.all(np.abs(estimate.mean - truth) <= 5.0 * estimate.error + 1e-12), (key, estimate, truth)
