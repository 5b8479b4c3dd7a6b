"""The data, the neighbors and the importances on the GPU: memory layout, size and transfer.

Agreement between cases and parents does not change, so it is computed once and stored as bits: word (j // 32) of pair
(i, b). w is stored in the same way, and the entries of a case are sorted by parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from bayespatch_cuda.compiling import inlined
from bayespatch_cuda.launch import power_of_two

if TYPE_CHECKING:
    from numba.cuda.cudadrv.devicearray import DeviceNDArray
    from numba.cuda.cudadrv.driver import Stream

GROUP = 32  # largest number of threads that update a case together: a warp
MOST_FEATURES = 400  # the largest number that fits into 48 KB of shared memory in any model
BIT = np.uint32(1)


class DeviceData(NamedTuple):
    """The data on the GPU. Word v of W has the features 32 v .. 32 v + 31."""

    same: DeviceNDArray  # (W, N, S) uint32: features in which case and parent agree
    votes: DeviceNDArray  # (W, S) uint32: features in which the parent has a value to vote for
    observed: DeviceNDArray  # (W, N) uint32: features in which the case has a value
    y: DeviceNDArray  # (N,) int32
    own_parent: DeviceNDArray  # (N,) int32
    y_parents: DeviceNDArray  # (S,) int32
    c2: DeviceNDArray  # (P,) float64
    mu: DeviceNDArray  # (2, M) float64: mu and mu0


class DeviceNeighbors(NamedTuple):
    """z, w and kappa of all cases: n[i] entries of a capacity C, sorted by parent."""

    n: DeviceNDArray  # (N,) int32
    parent: DeviceNDArray  # (N, C) int32
    bits: DeviceNDArray  # (N, C, W) uint32: w
    same: DeviceNDArray  # (N, C, W) uint32: features in which case and parent agree
    kappa: DeviceNDArray  # (N, C) float64, or (1, 1) if the model derives it from w
    tilt: DeviceNDArray  # (N, C) float64 in Model II, else (1, 1): result of `sums.find_tilt` for the current feature


class Importance(NamedTuple):
    """q-tilde on the GPU."""

    double: DeviceNDArray  # (4, S, P) float64, rows as in ``votes.py``: ON, OFF, VOTE_ON, VOTE_OFF
    chance: DeviceNDArray  # float32: a copy of VOTE_ON in the order of `chance_at`
    group: int


class ImportanceOfParts(NamedTuple):
    """q-tilde for G consecutive parts of the cases, of equal size: as `Importance`, for each part."""

    double: DeviceNDArray  # (G, 4, S, P) float64
    chance: DeviceNDArray  # (G, ...) float32
    group: int
    given: DeviceNDArray  # (G, S, P) float32: the source of the values


class UpdateArguments(NamedTuple):
    """The inputs and outputs of an update of the cases."""

    numbers: DeviceNDArray  # (N,) int64: case numbers in the whole data
    most: DeviceNDArray  # (1,) int32: length of the longest list, if it was too long


@inlined
def chance_at(b, j, n_features, group):
    """Index of parent b and feature j in `Importance.chance`, where the parents of a group are contiguous."""
    return (b // group * n_features + j) * group + b % group


@inlined
def bit(words, j):
    """Feature j of a row of words."""
    return (words[j >> 5] >> np.uint32(j & 31)) & BIT != 0


@inlined
def in_word(word, j):
    """Feature j of the word that contains it."""
    return (word >> np.uint32(j & 31)) & BIT != 0


@inlined
def ones(v):
    """The number of bits that are set in a word of 32 bits."""
    v = np.uint32(v - ((v >> np.uint32(1)) & np.uint32(0x55555555)))
    v = np.uint32((v & np.uint32(0x33333333)) + ((v >> np.uint32(2)) & np.uint32(0x33333333)))
    v = np.uint32((v + (v >> np.uint32(4))) & np.uint32(0x0F0F0F0F))
    return np.uint32(v * np.uint32(0x01010101)) >> np.uint32(24)


@inlined
def vote_weight(kind, entries, s, i):
    """k: the weight of the vote of entry s on case i."""
    if kind == 1:
        return 1.0
    if kind == 3:
        return entries.kappa[i, s]
    count = 0.0
    for word in range(entries.bits.shape[2]):
        count += ones(entries.bits[i, s, word])
    return count


def to_device(array: NDArray[np.generic]) -> DeviceNDArray:
    """A copy of an array on the GPU."""
    return cuda.to_device(np.ascontiguousarray(array))


def blank(shape: tuple[int, ...], dtype: DTypeLike) -> DeviceNDArray:
    """Uninitialized memory on the GPU."""
    return cuda.device_array(shape, dtype)


def from_device(array: DeviceNDArray, stream: Stream | Literal[0] = 0):
    """A copy of an array from the GPU, after the stream has finished."""
    host = array.copy_to_host(stream=stream)
    if stream:
        stream.synchronize()
    return host


def overwrite(device: DeviceNDArray, array: NDArray[np.generic]) -> None:
    """Copy an array into existing memory on the GPU."""
    device.copy_to_device(np.ascontiguousarray(array))


def require_gpu() -> None:
    """Raise an error if there is no GPU."""
    if not cuda.is_available():
        raise RuntimeError(
            "engine='cuda' needs an NVIDIA GPU and its driver, and found none; install the driver, or pass engine='cpu'"
        )


def bytes_needed(n_cases: int, n_parents: int, n_features: int) -> int:
    """GPU memory for the agreement of cases and parents, and for the likelihoods that a chain stores."""
    return 4 * n_cases * n_parents * -(-n_features // 32) + 2 * 8 * n_cases * n_features


def free_bytes() -> float:
    """Free memory of the GPU."""
    return float(cuda.current_context().get_memory_info()[0])


def fits(n_cases: int, n_parents: int, n_features: int) -> bool:
    """Whether a problem of this size fits on the GPU, with room for the chains."""
    return n_features <= MOST_FEATURES and bytes_needed(n_cases, n_parents, n_features) < 0.9 * free_bytes()


def check_fits(n_cases: int, n_parents: int, n_features: int) -> None:
    """Reject a problem that is too large for the GPU."""
    if n_features > MOST_FEATURES:
        raise ValueError(f"engine='cuda' takes at most {MOST_FEATURES} features, got {n_features}; pass engine='cpu'")
    if not fits(n_cases, n_parents, n_features):
        raise ValueError(
            f"{n_cases} cases x {n_parents} parents x {n_features} features need "
            f"{bytes_needed(n_cases, n_parents, n_features) / 1e9:.1f} GB on the GPU, which has "
            f"{free_bytes() / 1e9:.1f} GB free; pass fewer parents, or engine='cpu'"
        )


def group_size(n_parents: int, n_features: int) -> int:
    """Number of threads that update a case together: a power of two that leaves no idle threads."""
    return power_of_two(max(n_parents, n_features), GROUP)


def words_of(flags: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Rows of flags (n, P) as words (W, n): flag j in bit j % 32 of word j // 32."""
    n, n_features = flags.shape
    words = np.zeros((-(-n_features // 32), n), np.uint32)
    for j in range(n_features):
        words[j // 32] |= flags[:, j].astype(np.uint32) << np.uint32(j % 32)
    return words


@inlined
def agreement(values, word, b, i):
    """Bits for 32 features of case i and parent b, set if the values agree. NaN never agrees."""
    x, x_parents, windows = values
    bits = np.uint32(0)
    for j in range(32 * word, min(32 * word + 32, x.shape[0])):
        if abs(x[j, i] - x_parents[j, b]) <= windows[j]:
            bits |= np.uint32(BIT << np.uint32(j & 31))
    return bits


@cuda.jit
def find_agreement(values, table):
    """Compute `table.same` from x (P, N), x_parents (P, S) and windows (P,)."""
    b = cuda.grid(1)
    if b < table.same.shape[2]:
        for i in range(cuda.blockIdx.y, table.same.shape[1], cuda.gridDim.y):
            for word in range(table.same.shape[0]):
                table.same[word, i, b] = agreement(values, word, b, i)
