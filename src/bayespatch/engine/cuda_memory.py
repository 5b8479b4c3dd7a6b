"""Memory of the card: arrays that go there and come back, how much a problem takes, and how much there is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from bayespatch.engine.cuda_launch import power_of_two

GROUP = 32  # threads that update a case together, at most: a warp
MOST_FEATURES = 400  # of a case, that 48 KB of shared memory hold in any model


def to_card(array: NDArray[Any]) -> Any:
    """A copy of an array on the card."""
    return cuda.to_device(np.ascontiguousarray(array))


def blank(shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    """Memory on the card, not initialised."""
    return cuda.device_array(shape, dtype)


def from_card(array: Any, stream: Any = 0) -> Any:
    """A copy of an array of the card, once the stream has done its work."""
    host = array.copy_to_host(stream=stream)
    if stream:
        stream.synchronize()
    return host


def overwrite(card: Any, array: NDArray[Any]) -> None:
    """Put an array into memory of the card."""
    card.copy_to_device(np.ascontiguousarray(array))


def require_card() -> None:
    """Refuse to go on without a GPU."""
    if not cuda.is_available():
        raise RuntimeError(
            "engine='cuda' needs an NVIDIA GPU with its driver, and none was found; pass engine='cpu', or install "
            "the driver and pip install 'bayespatch[cuda]'"
        )


def bytes_needed(n_cases: int, n_parents: int, n_features: int) -> int:
    """Memory of the card for the agreement of cases and parents, the largest table."""
    return 4 * n_cases * n_parents * -(-n_features // 32)


def free_bytes() -> float:
    """Memory of the card that nobody uses."""
    return float(cuda.current_context().get_memory_info()[0])


def fits(n_cases: int, n_parents: int, n_features: int) -> bool:
    """Whether a problem of this size can be put on the card, with room for the chains."""
    return n_features <= MOST_FEATURES and bytes_needed(n_cases, n_parents, n_features) < 0.9 * free_bytes()


def check_fits(n_cases: int, n_parents: int, n_features: int) -> None:
    """Refuse a problem that is too large for the card."""
    if n_features > MOST_FEATURES:
        raise ValueError(f"engine='cuda' takes at most {MOST_FEATURES} features, got {n_features}; pass engine='cpu'")
    if not fits(n_cases, n_parents, n_features):
        raise ValueError(
            f"{n_cases} cases x {n_parents} parents x {n_features} features need "
            f"{bytes_needed(n_cases, n_parents, n_features) / 1e9:.1f} GB on the GPU, which has "
            f"{free_bytes() / 1e9:.1f} GB free; pass fewer parents, or engine='cpu'"
        )


def group_size(n_parents: int, n_features: int) -> int:
    """How many threads update a case together: a power of two, no more than have something to do."""
    return power_of_two(max(n_parents, n_features), GROUP)
