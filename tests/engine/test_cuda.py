"""The CUDA engine: in Numba's simulator, and where there is no GPU."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bayespatch.engine import cuda
from bayespatch.model import Hyperparameters, Model
from bayespatch.sample import sample
from tests.problems import random_data

ROOT = Path(__file__).parents[2]


def test_in_the_simulator():
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/engine/simulated_cuda.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def test_without_a_gpu_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(cuda.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="pass engine='cpu'"):
        cuda.CudaEngine(random_data(0, 3, 4, 2), Model("I", "exact", Hyperparameters()))
    with pytest.raises(RuntimeError, match="NVIDIA GPU"):
        sample([[0]], [0], [[0]], [0], n_values=[2], n_classes=2, engine="cuda", draws=1, warmup=0)


def test_a_problem_too_large_for_the_card_is_refused_before_the_work(monkeypatch):
    monkeypatch.setattr(cuda, "require_card", lambda: None)
    monkeypatch.setattr(cuda, "free_bytes", lambda: 100.0)
    with pytest.raises(ValueError, match="fewer parents"):
        cuda.CudaEngine(random_data(0, 30, 40, 2), Model("I", "exact", Hyperparameters()))


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_groups_fit_into_shared_memory(kind):
    for n_features in (1, 19, 64, 100, 300, 1000):
        group = cuda.group_size(kind, n_features)
        assert 1 <= group <= cuda.GROUP
        assert group * n_features * cuda.BYTES_PER_FEATURE[kind] <= cuda.SHARED_BYTES
    assert cuda.group_size(kind, 19) == cuda.GROUP
    with pytest.raises(ValueError, match="features"):
        cuda.group_size(kind, 10_000)


def test_words_of_flags():
    flags = np.random.default_rng(0).random((5, 70)) < 0.5
    words = cuda.words_of(flags)
    assert words.shape == (3, 5)
    for j in range(70):
        np.testing.assert_array_equal((words[j // 32] >> np.uint32(j % 32)) & 1, flags[:, j])


def test_grids_and_powers_of_two():
    assert cuda.grid_over(3) == (1, 3)
    assert cuda.grid_over(1000, 128) == (8, 128)
    assert [cuda.power_of_two(n) for n in (1, 2, 3, 9)] == [1, 2, 4, 16]
    assert cuda.power_of_two(1000, 256) == 256
