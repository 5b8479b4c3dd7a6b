"""The CUDA engine where there is no GPU; its kernels run in tests/statistical/test_cuda_simulated.py."""

import numpy as np
import pytest
from bayespatch_cuda import engine as cuda_engine
from bayespatch_cuda import launch as cuda_launch
from bayespatch_cuda import layout as cuda_layout

from bayespatch.model import Hyperparameters, Model
from bayespatch.sampling.sampler import sample
from tests.problems import random_data


def test_without_a_gpu_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(cuda_layout.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="pass engine='cpu'"):
        cuda_engine.CudaEngine(random_data(0, 3, 4, 2), Model("I", "exact", Hyperparameters()))
    with pytest.raises(RuntimeError, match="NVIDIA GPU"):
        sample([[0]], [0], [[0]], [0], n_values=[2], n_classes=2, engine="cuda", draws=1, warmup=0)


def test_words_of_flags():
    flags = np.random.default_rng(0).random((5, 70)) < 0.5
    words = cuda_layout.words_of(flags)
    assert words.shape == (3, 5)
    for j in range(70):
        np.testing.assert_array_equal((words[j // 32] >> np.uint32(j % 32)) & 1, flags[:, j])


def test_grids_and_powers_of_two():
    assert cuda_launch.grid_over(3) == (1, 3)
    assert cuda_launch.grid_over(1000, 128) == (8, 128)
    assert [cuda_launch.power_of_two(n) for n in (1, 2, 3, 9)] == [1, 2, 4, 16]
    assert cuda_launch.power_of_two(1000, 256) == 256


def test_kernels_are_launched_the_ordinary_way_where_numba_cuda_is_built_otherwise(monkeypatch):
    launched = []

    class Kernel:
        def specialize(self, *args):
            return self

        def __getitem__(self, where):
            return lambda *args: launched.append((where, args))

    monkeypatch.setattr(cuda_launch, "DESCRIBES", False)
    launcher, kernel = cuda_launch.Launcher(), Kernel()
    for value in (1, 2):
        launcher(kernel, (4, 32), "stream", value, "array")
    assert launched == [((4, 32, "stream"), (1, "array")), ((4, 32, "stream"), (2, "array"))]
