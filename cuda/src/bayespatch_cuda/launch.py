"""Fast launches of kernels with many array arguments.

At each launch, numba-cuda determines the types of all arguments and describes every array to the driver again. This
takes longer than most of our kernels run. Because types and named tuples of arrays never change here, they are
described once, and a launch converts only numbers and plain tuples, which are created for a single launch. If the
internals of numba-cuda differ, kernels are launched in the usual way.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import cuda

try:
    from cuda.core import LaunchConfig, launch
    from numba.cuda.dispatcher import _Kernel

    DESCRIBES = hasattr(_Kernel, "_prepare_args") and hasattr(_Kernel, "argument_types")
except ImportError:
    DESCRIBES = False

if TYPE_CHECKING:
    from cuda.core import Kernel
    from numba import types
    from numba.cuda.cudadrv.driver import Stream
    from numba.cuda.dispatcher import CUDADispatcher


REMEMBERED = 64  # largest number of cached named tuples


THREADS = 128  # threads of a block if they do not cooperate


MOST_BLOCKS = 2048  # if threads loop over many items; the same on every GPU, so that sums are also the same


NUMBERS = {"int64": int, "uint64": np.uint64, "float64": float}  # types that `launch` expects, 8 bytes each


WRAPPED = ctypes.c_int64, ctypes.c_double  # `launch` is faster with the unwrapped value


Grid = tuple[int | tuple[int, ...], int]  # blocks, threads of a block


class Prepared(NamedTuple):
    """The parts of a launch that do not depend on its arguments."""

    overload: _Kernel  # the compiled kernel
    numbers: list[type | None]  # how each argument that is a number is converted
    place: tuple[Stream, LaunchConfig, Kernel]


class Launcher:
    """Launches the kernels of a chain in its stream, and caches descriptions of kernels and arguments."""

    def __init__(self) -> None:
        self.ready: dict[CUDADispatcher, CUDADispatcher] = {}  # kernel -> specialized kernel
        self.prepared: dict[tuple[CUDADispatcher, Grid], Prepared] = {}
        self.described: dict[int, tuple[object, list[object]]] = {}  # id -> named tuple (kept alive), its arguments

    def __call__(self, kernel: CUDADispatcher, grid: Grid, stream: Stream, *args: object) -> None:
        """Run `kernel` on a grid (blocks, threads)."""
        if kernel not in self.ready:
            self.ready[kernel] = kernel.specialize(*args)
        if not DESCRIBES:
            self.ready[kernel][*grid, stream](*args)
            return
        cuda.current_context()  # the chain may have moved to another thread
        if (kernel, grid) not in self.prepared:
            self.prepared[kernel, grid] = self.prepare(kernel, grid, stream)
        overload, numbers, settings = self.prepared[kernel, grid]
        flat: list[object] = []
        for kind, number, value in zip(overload.argument_types, numbers, args, strict=True):
            if number:
                flat.append(number(value))
            else:
                flat += self.describe(overload, kind, value, settings[0])
        launch(*settings, *flat)

    def prepare(self, kernel: CUDADispatcher, grid: Grid, stream: Stream) -> Prepared:
        """The compiled kernel, which arguments are numbers, and the launch configuration."""
        configured = self.ready[kernel][*grid, stream]
        overload = next(iter(self.ready[kernel].overloads.values()))
        config = LaunchConfig(grid=configured.griddim, block=configured.blockdim)
        numbers = [NUMBERS.get(str(kind)) for kind in overload.argument_types]
        return Prepared(overload, numbers, (configured.stream, config, overload._codelibrary.get_cufunc().kernel))

    def describe(self, overload: _Kernel, kind: types.Type, value: object, stream: Stream) -> list[object]:
        """An argument in the form that the driver expects."""
        if id(value) in self.described:
            return self.described[id(value)][1]
        arguments: list[object] = []
        overload._prepare_args(kind, value, stream, [], arguments)
        flat = [one.value if isinstance(one, WRAPPED) else one for one in arguments]
        if hasattr(value, "_fields"):
            if len(self.described) >= REMEMBERED:
                self.described.clear()
            self.described[id(value)] = value, flat
        return flat


def grid_over(n: int, threads: int = THREADS) -> tuple[int, int]:
    """Blocks and threads for n items, one thread each."""
    threads = min(threads, n)
    return -(-n // threads), threads


def grid_of_pairs(n_cases: int, n_features: int) -> tuple[int, int]:
    """Blocks and threads for pairs of cases and features: a thread has a fixed feature, a block has several cases."""
    width = min(n_features, THREADS)
    together = min(n_cases, THREADS // width)
    return min(MOST_BLOCKS, -(-n_cases // together)), width * together


def power_of_two(at_least: int, at_most: int = 2**30) -> int:
    """The smallest power of two that is at least this large, within limits."""
    return min(at_most, 1 << max(0, at_least - 1).bit_length())
