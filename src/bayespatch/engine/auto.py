"""Which engine to take: a GPU, where there is one and the problem is large enough to pay."""

from __future__ import annotations

from importlib.util import find_spec

# Cases x parents x features: here a sweep takes one core a tenth of a second, and a GPU hardly longer than the least.
LARGE = 10**7


def gpu_is_present() -> bool:
    """Whether the CUDA engine could run here. Without numba-cuda nothing of it is loaded."""
    if find_spec("numba_cuda") is None:
        return False
    try:
        from numba import cuda

        return bool(cuda.is_available())
    except Exception:  # no driver, or one that does not fit numba-cuda: then there is no GPU for us
        return False


def fastest_engine(n_cases: int, n_parents: int, n_features: int) -> str:
    """The engine for a problem of this size, "cuda" or "cpu".

    Examples
    --------
    >>> fastest_engine(n_cases=300, n_parents=80, n_features=13)
    'cpu'
    """
    if n_cases * n_parents * n_features < LARGE or not gpu_is_present():
        return "cpu"
    from bayespatch.engine.cuda.layout import fits

    return "cuda" if fits(n_cases, n_parents, n_features) else "cpu"
