"""The CUDA engine in Numba's simulator, at length."""

from tests.simulator import check_in_simulator


def test_in_the_simulator():
    check_in_simulator("tests/statistical/simulated_cuda.py")
