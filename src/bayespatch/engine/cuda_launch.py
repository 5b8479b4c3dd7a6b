"""Launching kernels that take many arrays, quickly.

numba-cuda finds out the types of all arguments and describes every array to the driver anew at each launch, which
takes longer than most of our kernels run. Here neither types nor tuples of arrays ever change: they are described once.
Where numba-cuda is not built as expected, kernels are launched in the ordinary way.
"""

from __future__ import annotations

from typing import Any

try:
    from cuda.core import LaunchConfig, launch
    from numba.cuda.dispatcher import _Kernel

    DESCRIBES = hasattr(_Kernel, "_prepare_args") and hasattr(_Kernel, "argument_types")
except ImportError:
    DESCRIBES = False

REMEMBERED = 512  # tuples
THREADS = 128  # of a block, where they do not work together
MOST_BLOCKS = 2048  # where threads go over many items; on every card the same, and so are the sums


class Launcher:
    """Launches kernels, and remembers what they and their tuples of arrays look like."""

    def __init__(self) -> None:
        self.ready: dict[Any, Any] = {}  # kernel -> specialised kernel
        self.described: dict[tuple[int, Any], tuple[Any, list[Any]]] = {}  # tuple -> itself (kept alive), its arguments

    def __call__(self, kernel: Any, grid: Any, stream: Any, *args: Any) -> None:
        """Run `kernel` on a grid (blocks, threads)."""
        if kernel not in self.ready:
            self.ready[kernel] = kernel.specialize(*args)
        ready = self.ready[kernel]
        configured = ready[*grid, stream]
        if not DESCRIBES:
            configured(*args)
            return
        overload = next(iter(ready.overloads.values()))
        flat: list[Any] = []
        for kind, value in zip(overload.argument_types, args, strict=True):
            flat += self.describe(overload, kind, value, configured.stream)
        config = LaunchConfig(grid=configured.griddim, block=configured.blockdim)
        launch(configured.stream, config, overload._codelibrary.get_cufunc().kernel, *flat)

    def describe(self, overload: Any, kind: Any, value: Any, stream: Any) -> list[Any]:
        """An argument as the driver takes it."""
        name = id(value), kind
        if isinstance(value, tuple) and name in self.described:
            return self.described[name][1]
        flat: list[Any] = []
        overload._prepare_args(kind, value, stream, [], flat)
        if isinstance(value, tuple):
            if len(self.described) >= REMEMBERED:
                self.described.clear()
            self.described[name] = value, flat
        return flat


def grid_over(n: int, threads: int = THREADS) -> tuple[int, int]:
    """Blocks and threads for n items, one thread each."""
    threads = min(threads, n)
    return -(-n // threads), threads


def grid_of_pairs(n_cases: int, n_features: int) -> tuple[int, int]:
    """Blocks and threads for cases and features: a thread keeps a feature, and a block does a few cases at a time."""
    width = min(n_features, THREADS)
    together = min(n_cases, THREADS // width)
    return min(MOST_BLOCKS, -(-n_cases // together)), width * together


def power_of_two(at_least: int, at_most: int = 2**30) -> int:
    """The smallest power of two that is at least so large, within limits."""
    return min(at_most, 1 << max(0, at_least - 1).bit_length())
