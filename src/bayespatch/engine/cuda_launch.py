"""Launching kernels that take many arrays, quickly.

numba-cuda finds out the types of all arguments and describes every array to the driver anew at each launch, which takes
longer than most of our kernels run. The types never change here, and neither do the tuples of arrays: they are described
once. Where numba-cuda is not built as expected, kernels are launched in the ordinary way.
"""

from __future__ import annotations

from typing import Any

try:
    from cuda.core import LaunchConfig, launch
    from numba.cuda.dispatcher import _Kernel

    DESCRIBES = hasattr(_Kernel, "_prepare_args")
except ImportError:
    DESCRIBES = False

REMEMBERED = 512  # tuples


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
