"""The CUDA engine in Numba's simulator: each kernel, and at length."""

import pytest

from tests.simulator import check_in_simulator


@pytest.mark.parametrize("file", ["tests/engine/simulated_cuda.py", "tests/statistical/simulated_cuda.py"])
def test_in_the_simulator(file):
    check_in_simulator(file)
