"""The GPU as Numba's simulator has it, which has to be chosen before Numba is loaded. It knows no device memory here:
plain arrays take its place, so that the functions that update a case run compiled, and only the kernels
around them are simulated."""

import sys
import threading
import zlib

import numpy as np
import pytest
from bayespatch_cuda import importance as cuda_importance
from bayespatch_cuda import layout as cuda_layout
from bayespatch_cuda.engine import CudaEngine
from numba import config
from numba.cuda.simulator.kernelapi import FakeCUDAModule, FakeCUDAShared
from numba.np.numpy_support import as_dtype

from bayespatch.engine.cpu import CpuEngine
from bayespatch.engine.streams import subkey
from bayespatch.model import Hyperparameters, Model
from bayespatch.predict import predict_cases
from tests.cuda.update_at_hand import update
from tests.enumeration import enumerate_posterior
from tests.montecarlo import batch_means
from tests.problems import PROBLEMS, GivenDraws, random_data

assert config.ENABLE_CUDASIM, "run through tests.simulator"
sys.setswitchinterval(1e-5)  # the simulator waits for its threads by asking them again and again
allocating = threading.Lock()


def shared_array(self, shape, dtype):
    """As the simulator's, which now and then gives two threads that ask at the same moment an array each; not blank."""
    line = sys._getframe(1).f_lineno
    with allocating:
        if line not in self._allocations:
            self._allocations[line] = np.full(shape, -77, as_dtype(dtype).str.replace("u", "i")).view(as_dtype(dtype))
        return self._allocations[line]


def ballot(self, everyone, flag):
    """Which threads of a block say yes, as bits: the simulator knows no warps, and here a block is one."""
    thread = threading.current_thread()
    votes = thread._manager.block_state
    votes[thread.threadIdx.x, 0, 0] = flag
    thread.syncthreads()
    bits = sum(1 << lane for lane, yes in enumerate(votes[:, 0, 0]) if yes)
    thread.syncthreads()
    return bits


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    """Memory of the GPU is memory, and a block is a warp."""
    monkeypatch.setattr(FakeCUDAModule, "ballot_sync", ballot, raising=False)
    monkeypatch.setattr(FakeCUDAModule, "syncwarp", FakeCUDAModule.syncthreads, raising=False)
    monkeypatch.setattr(FakeCUDAShared, "array", shared_array)
    monkeypatch.setattr(cuda_layout, "to_device", lambda array: np.array(array, order="C"))
    monkeypatch.setattr(cuda_layout, "blank", lambda shape, dtype: np.zeros(shape, dtype))
    monkeypatch.setattr(cuda_layout, "from_device", lambda array, stream=0: np.array(array))
    monkeypatch.setattr(cuda_layout, "overwrite", lambda gpu, array: gpu.__setitem__(Ellipsis, array))
    monkeypatch.setattr(cuda_layout, "free_bytes", lambda: 1e9)


def equal(a, b):
    return (a.z == b.z).all() and (a.w == b.w)[a.z].all() and np.allclose(a.kappa[a.z], b.kappa[b.z], rtol=1e-9)


def check_updates(data, model, n_updates):
    """Draw for draw the neighbors that the definitions give with the same random numbers, and counted right."""
    gpu, cpu = CudaEngine(data, model), CpuEngine(data, model)
    there, n_found = gpu.start(1, 0), 0
    for k in range(n_updates):
        key = subkey(np.uint64(5), k)
        expected = update(data, model, gpu.latent(there), gpu.observe(there).q_tilde, key)
        gpu.update_cases(there, key)
        found = gpu.latent(there)
        assert equal(found, expected), f"update {k}"
        np.testing.assert_array_equal(there.weights.n_neighbors, found.z.sum(axis=0))
        np.testing.assert_array_equal(there.weights.n_on, (found.w & found.z[:, :, None]).sum(axis=0))
        n_found += found.z.sum()
    assert n_found > 0
    here = cpu.thaw(gpu.freeze(there), 1, 0)
    np.testing.assert_allclose(gpu.summarise(there)[0], cpu.summarise(here)[0], rtol=1e-12)
    np.testing.assert_allclose(gpu.summarise(there)[1], cpu.summarise(here)[1], rtol=1e-9)


def check_predictions(kind, n_features):
    """New cases under three draws of two chains: all that is told of them, in the shapes in which the CPU tells it.

    What a draw adds to it is held against the CPU's by itself; the draws are those of a prediction without detail.
    """
    data, rng = random_data(3, 3, 5, n_features, itself=True), np.random.default_rng(0)
    q, q_tilde = rng.random((2, 3, n_features)), rng.random((2, 3, 5, n_features))
    model = Model(kind, "exact", Hyperparameters(alpha=0.5, lam0=20.0))
    drawn = dict(q=q, q_tilde=q_tilde, log_weights=None, compares_missing=None)
    posterior = GivenDraws(model=model, seed=1, n_chains=2, n_draws=3, **drawn)
    here, there = (
        predict_cases(posterior, data, detail=True, engine=engine, max_passes=1) for engine in ("cpu", "cuda")
    )
    plain = predict_cases(posterior, data, engine="cuda", max_passes=1)
    np.testing.assert_array_equal(there.votes_by_batch, plain.votes_by_batch)
    assert there.votes_by_batch.shape == here.votes_by_batch.shape
    assert there.familiarity.shape == here.familiarity.shape
    np.testing.assert_array_equal(there.n_draws, here.n_draws)
    for name, array in there.neighbors._asdict().items():
        assert array.shape == getattr(here.neighbors, name).shape, name
        assert array.any(), name
        assert np.isfinite(array).all(), name


def check_means(kind, name, n_draws, monkeypatch):
    """Means over one chain are those of the exact posterior.

    Blocks of one thread and few draws, because the simulator is slow where threads wait for each other:
    `benchmarks/gpu.py` does the same at length on a GPU.
    """
    monkeypatch.setattr(cuda_layout, "GROUP", 1)
    monkeypatch.setattr(cuda_importance, "BLOCK", 1)
    data, hyper = PROBLEMS[name]()
    model = Model(kind, "exact", hyper)
    exact = enumerate_posterior(data, model)
    engine = CudaEngine(data, model)
    state = engine.start(zlib.crc32(name.encode()), 0)
    draws = {"z": [], "q": []}
    for sweep in range(10 + n_draws):
        engine.sweep(state, adapt=sweep < 10)
        if sweep >= 10:
            latent = engine.latent(state)
            draws["z"].append(latent.z)
            draws["q"].append(latent.q)
    for key, truth in (("z", exact.z), ("q", exact.q)):
        estimate = batch_means(np.asarray(draws[key], dtype=np.float64)[None])
        # Twenty batches: a spread with 19 degrees of freedom; five errors are exceeded once in 10^4.
        assert np.all(np.abs(estimate.mean - truth) <= 5.0 * estimate.error + 1e-12), (key, estimate, truth)
