"""The CUDA kernels in Numba's simulator: each kernel, and at length."""

import pytest

from tests.simulator import check_in_simulator

FILES = "tests/cuda/simulated_engine.py", "tests/statistical/simulated_cuda.py", "tests/cuda/simulated_votes.py"


@pytest.mark.parametrize("file", FILES)
def test_in_the_simulator(file):
    check_in_simulator(file)
