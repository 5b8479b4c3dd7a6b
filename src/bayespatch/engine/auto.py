"""Which engine to take: a GPU, where there is one and the problem is large enough to pay."""

from __future__ import annotations

LARGE = (
    10**7
)  # cases x parents x features: a sweep takes one core a tenth of a second, a GPU hardly longer than the least


def gpu_is_present() -> bool:
    """Whether the CUDA engine could run here."""
    try:
        from numba import cuda

        return bool(cuda.is_available())
    except Exception:  # no numba-cuda, no driver, or one that does not fit the other: then there is no GPU for us
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
    from bayespatch.engine.cuda import fits

    return "cuda" if fits(n_cases, n_parents, n_features) else "cpu"
