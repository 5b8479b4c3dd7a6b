"""Votes of all past cases on an NVIDIA GPU, as in `bayespatch.retrieval.votes`.

A block of threads handles one case and a range of the past cases, one tile at a time:

1. each thread compares one past case with the case and stores the table rows in shared memory;
2. the threads are distributed over draws (votes) or comparisons (leave-one-out) and over the past cases of the tile,
   and add up weights. Threads for adjacent draws read adjacent table entries.

The host adds the sums of these ranges in a fixed order, so results are reproducible. No past case is skipped, not even
if its weight is negligible.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from weakref import finalize

import numpy as np
from numba import cuda, float32, float64, int32
from numpy.typing import NDArray

from bayespatch.retrieval.index import CaseIndex, Ranges
from bayespatch.retrieval.sums import Array, Layout, LeaveOneOutSums, LeftOut, VoteSums
from bayespatch_cuda import layout as gpu
from bayespatch_cuda.compiling import inlined
from bayespatch_cuda.launch import power_of_two

if TYPE_CHECKING:
    from numba.cuda.cudadrv.devicearray import DeviceNDArray

THREADS = 128  # threads of a block, a power of two; also the largest number of past cases in a tile
TILE_ROWS = 4096  # table rows in shared memory; tiles are smaller if a case has more than 32 keys
N_BLOCKS = 2048  # enough to keep a large GPU busy
LEAST_TILES = 8  # smallest number of tiles in a range of past cases
MOST_BITS, LEAST_BITS = 10, 4  # of a key
TABLE_BYTES = 2**24  # keys are shorter if the table would be larger, so that it stays in the L2 cache of the GPU
BITS_LEFT_OUT = 8  # of a key in leave-one-out, where the table has one draw
BATCH_BYTES = 2**29  # limit on sums or shares on the GPU at a time


class DevicePast(NamedTuple):
    """Past cases on the GPU."""

    codes: DeviceNDArray  # (P, N)
    start: DeviceNDArray  # (M + 1,)


class DeviceCases(NamedTuple):
    """The cases of a batch, and the past cases that may not vote on them."""

    low: DeviceNDArray  # (n, K)
    high: DeviceNDArray
    left_out: DeviceNDArray
    edges: DeviceNDArray  # (n + 1,)


class DeviceVotes(NamedTuple):
    """The inputs and outputs of the kernels."""

    table: DeviceNDArray  # (T, D), (D, T) or (T,)
    scale: DeviceNDArray  # (n, M, D) for shares, else (1, 1, 1)
    sums: DeviceNDArray  # (stretches, n, M, D), (stretches, n, M, K + 1), or shares (n, N)


@inlined
def is_left_out(cases, i, b):
    """Whether past case b may not vote on case i, by binary search."""
    first = cases.edges[i]
    last = end = cases.edges[i + 1]
    while first < last:
        middle = (first + last) // 2
        if cases.left_out[middle] < b:
            first = middle + 1
        else:
            last = middle
    return first < end and cases.left_out[first] == b


@inlined
def table_row(past, layout, cases, i, c, b):
    """The table row of key c of past case b, compared with case i."""
    row = layout.offset[c]
    for k in range(layout.bits[c], layout.bits[c + 1]):
        code = past.codes[layout.columns[k], b]
        if code >= cases.low[i, k] and code <= cases.high[i, k]:
            row += 1 << (k - layout.bits[c])
    return row


@inlined
def stretch_edge(start, m, part, n_parts):
    """The start of stretch `part` of the past cases of class m."""
    return start[m] + (start[m + 1] - start[m]) * part // n_parts


@inlined
def class_of(start, b):
    """The class of past case b."""
    m = 0
    while start[m + 1] <= b:
        m += 1
    return m


@inlined
def key_of_comparison(layout, k):
    """The key that has comparison k."""
    c = 0
    while layout.bits[c + 1] <= k:
        c += 1
    return c


@cuda.jit
def add_votes(past, layout, cases, lanes, votes):
    """votes.sums[part, i, m, d]: total weight of a stretch of the past cases of class m on case i in draw d."""
    rows = cuda.shared.array(TILE_ROWS, int32)
    partial = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x
    part = cuda.blockIdx.y
    d = cuda.blockIdx.z * lanes + t % lanes
    group = t // lanes
    n_groups = cuda.blockDim.x // lanes
    n_keys = layout.offset.shape[0]
    n_draws = votes.table.shape[1]
    tile = TILE_ROWS // n_keys
    if tile > cuda.blockDim.x:
        tile = cuda.blockDim.x
    for m in range(past.start.shape[0] - 1):
        begin = stretch_edge(past.start, m, part, cuda.gridDim.y)
        end = stretch_edge(past.start, m, part + 1, cuda.gridDim.y)
        total = 0.0
        for first in range(begin, end, tile):
            n = tile if first + tile < end else end - first
            if t < n:
                for c in range(n_keys):
                    rows[c * tile + t] = table_row(past, layout, cases, i, c, first + t)
                if is_left_out(cases, i, first + t):
                    rows[t] = -1
            cuda.syncthreads()
            if d < n_draws:
                tile_total = float32(0.0)
                for b in range(group, n, n_groups):
                    if rows[b] >= 0:
                        weight = votes.table[rows[b], d]
                        for c in range(1, n_keys):
                            weight *= votes.table[rows[c * tile + b], d]
                        tile_total += weight
                total += float64(tile_total)
            cuda.syncthreads()
        partial[t] = total
        cuda.syncthreads()
        if group == 0 and d < n_draws:
            for other in range(1, n_groups):
                total += partial[other * lanes + t]
            votes.sums[part, i, m, d] = total
        cuda.syncthreads()


@cuda.jit
def find_shares(past, layout, cases, votes):
    """votes.sums[i, c, b] = sum_d scale[i, m, d] weight[b, d] over part c of the draws; the table is (D, T).

    One thread handles one past case. All threads process the draws in step, so the gathers of a draw stay in cache.
    """
    rows = cuda.shared.array(TILE_ROWS, int32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x
    n_keys = layout.offset.shape[0]
    n_parts, n_past = votes.sums.shape[1], votes.sums.shape[2]
    size = votes.table.shape[0] // n_parts
    tile = TILE_ROWS // n_keys
    if tile > cuda.blockDim.x:
        tile = cuda.blockDim.x
    for first in range(cuda.blockIdx.y * tile, n_past, cuda.gridDim.y * tile):
        b = first + t
        if t < tile and b < n_past:
            left_out = is_left_out(cases, i, b)
            m = class_of(past.start, b)
            for c in range(n_keys):
                rows[c * tile + t] = table_row(past, layout, cases, i, c, b)
            for part in range(n_parts):
                total = float32(0.0)
                if not left_out:
                    for d in range(part * size, (part + 1) * size):
                        weight = votes.table[d, rows[t]]
                        for c in range(1, n_keys):
                            weight *= votes.table[d, rows[c * tile + t]]
                        total += weight * votes.scale[i, m, d]
                votes.sums[i, part, b] = total


@cuda.jit
def add_left_out(past, layout, cases, lanes, votes):
    """votes.sums[part, i, m, k]: total weight of the past cases of class m that pass comparison k; k = K: of all.

    The sums are over one stretch of the past cases, in one draw.
    """
    rows = cuda.shared.array(TILE_ROWS, int32)
    weights = cuda.shared.array(THREADS, float64)
    partial = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x
    part = cuda.blockIdx.y
    k = cuda.blockIdx.z * lanes + t % lanes
    group = t // lanes
    n_groups = cuda.blockDim.x // lanes
    n_keys = layout.offset.shape[0]
    n_comparisons = layout.columns.shape[0]
    tile = TILE_ROWS // n_keys
    if tile > cuda.blockDim.x:
        tile = cuda.blockDim.x
    key = key_of_comparison(layout, k) if k < n_comparisons else 0
    offset = layout.offset[key]
    bit = k - layout.bits[key] if k < n_comparisons else 0
    for m in range(past.start.shape[0] - 1):
        begin = stretch_edge(past.start, m, part, cuda.gridDim.y)
        end = stretch_edge(past.start, m, part + 1, cuda.gridDim.y)
        total = 0.0
        for first in range(begin, end, tile):
            n = tile if first + tile < end else end - first
            if t < n:
                weight = 1.0
                for c in range(n_keys):
                    row = table_row(past, layout, cases, i, c, first + t)
                    rows[c * tile + t] = row
                    weight *= votes.table[row]
                weights[t] = 0.0 if is_left_out(cases, i, first + t) else weight
            cuda.syncthreads()
            if k <= n_comparisons:
                for b in range(group, n, n_groups):
                    if k == n_comparisons or (rows[key * tile + b] - offset) >> bit & 1 == 1:
                        total += weights[b]
            cuda.syncthreads()
        partial[t] = total
        cuda.syncthreads()
        if group == 0 and k <= n_comparisons:
            for other in range(1, n_groups):
                total += partial[other * lanes + t]
            votes.sums[part, i, m, k] = total
        cuda.syncthreads()


# Functions for the host

_on_gpu: dict[int, DevicePast] = {}  # by the id of `CaseIndex.codes`, while these exist


def _past(index: CaseIndex) -> DevicePast:
    """The past cases on the GPU, to which they are copied once."""
    key = id(index.codes)
    past = _on_gpu.get(key)
    if past is None:
        if index.codes.nbytes > 0.8 * gpu.free_bytes():
            raise ValueError(
                f"{index.n_cases} past cases x {len(index.codes)} columns need {index.codes.nbytes / 1e9:.1f} GB on "
                f"the GPU, which has {gpu.free_bytes() / 1e9:.1f} GB free; pass engine='cpu'"
            )
        past = DevicePast(gpu.to_device(index.codes), gpu.to_device(index.start))
        _on_gpu[key] = past
        finalize(index.codes, _on_gpu.pop, key, None)
    return past


def _layout(index: CaseIndex, most_bits: int, n_draws: int = 0) -> tuple[Layout, Layout]:
    """Keys short enough for the table to stay in the cache; on the host and on the GPU."""
    layout = Layout.of(index, most_bits)
    while most_bits > LEAST_BITS and layout.n_rows * n_draws * 4 > TABLE_BYTES:
        most_bits -= 1
        layout = Layout.of(index, most_bits)
    if len(layout.offset) > TILE_ROWS:
        raise ValueError(f"{len(index.columns)} comparisons are too many for engine='cuda'; pass engine='cpu'")
    return layout, Layout(*(gpu.to_device(array) for array in layout))


def _batches(ranges: Ranges, left_out: LeftOut, bytes_per_case: int) -> Iterator[tuple[slice, DeviceCases]]:
    """Batches of cases whose results fit into the GPU's memory."""
    size = max(1, BATCH_BYTES // max(1, bytes_per_case))
    for first in range(0, len(ranges), size):
        batch = slice(first, min(first + size, len(ranges)))
        edges = left_out.edges[batch.start : batch.stop + 1]
        positions = np.append(left_out.positions[edges[0] : edges[-1]], -1)  # never empty
        low, high = ranges.part(batch)
        arrays = low, high, positions, edges - edges[0]
        yield batch, DeviceCases(*(gpu.to_device(array) for array in arrays))


def _n_stretches(index: CaseIndex, n_blocks: int) -> int:
    """Number of stretches of past cases such that all multiprocessors have work."""
    return max(1, min(-(-N_BLOCKS // n_blocks), index.n_cases // (LEAST_TILES * THREADS)))


def vote(index: CaseIndex, ranges: Ranges, log_weights: Array, *, left_out: LeftOut) -> VoteSums:
    """As `votes.vote`, on the GPU. The weights must be in the range of single precision (`fits_products`)."""
    gpu.require_gpu()
    n, n_classes, n_draws = len(ranges), index.n_classes, len(log_weights)
    layout, layout_on_gpu = _layout(index, MOST_BITS, n_draws)
    table = gpu.to_device(np.exp(layout.log_table(log_weights)).astype(np.float32))
    blank = gpu.blank((1, 1, 1), np.float32)
    lanes = power_of_two(n_draws, THREADS)
    n_chunks = -(-n_draws // lanes)
    past, result = _past(index), np.empty((n, n_classes, n_draws))
    for batch, cases in _batches(ranges, left_out, 8 * n_classes * n_draws):
        size = batch.stop - batch.start
        n_parts = _n_stretches(index, size * n_chunks)
        sums = gpu.blank((n_parts, size, n_classes, n_draws), np.float64)
        add_votes[(size, n_parts, n_chunks), THREADS](
            past, layout_on_gpu, cases, lanes, DeviceVotes(table, blank, sums)
        )
        result[batch] = gpu.from_device(sums).sum(axis=0)
    return VoteSums(result, np.zeros((n, n_draws)))


def vote_shares(
    index: CaseIndex,
    ranges: Ranges,
    log_weights: Array,
    totals: VoteSums,
    heard: Array,
    *,
    left_out: LeftOut,
    n_chains: int,
) -> NDArray[np.float32]:
    """As `votes.vote_shares`, on the GPU. The weights must be in the range of single precision (`fits_products`)."""
    gpu.require_gpu()
    n = len(ranges)
    layout, layout_on_gpu = _layout(index, MOST_BITS, len(log_weights))
    table = gpu.to_device(np.exp(layout.log_table(log_weights)).T.astype(np.float32))
    scale = n_chains * totals.scale(heard) * np.exp(-totals.shift)[:, None]
    past, shares = _past(index), np.empty((n, n_chains, index.n_cases), np.float32)
    for batch, cases in _batches(ranges, left_out, 4 * n_chains * max(1, index.n_cases)):
        size = batch.stop - batch.start
        part = gpu.blank((size, n_chains, index.n_cases), np.float32)
        votes = DeviceVotes(table, gpu.to_device(scale[batch].astype(np.float32)), part)
        find_shares[(size, _n_stretches(index, size)), THREADS](past, layout_on_gpu, cases, votes)
        shares[batch] = gpu.from_device(part)
    return shares


def leave_one_out_sums(index: CaseIndex, ranges: Ranges, left_out: LeftOut, log_weights: Array) -> LeaveOneOutSums:
    """As `votes.leave_one_out_sums`, on the GPU. The weights must be in the range of doubles (`fits_products`)."""
    gpu.require_gpu()
    n, n_classes, n_sums = len(ranges), index.n_classes, len(index.columns) + 1
    layout, layout_on_gpu = _layout(index, BITS_LEFT_OUT)
    table = gpu.to_device(np.exp(layout.log_table(log_weights[None])[:, 0]))
    blank = gpu.blank((1, 1, 1), np.float32)
    lanes = power_of_two(n_sums, THREADS)
    n_chunks = -(-n_sums // lanes)
    past, result = _past(index), np.empty((n, n_classes, n_sums))
    for batch, cases in _batches(ranges, left_out, 8 * n_classes * n_sums):
        size = batch.stop - batch.start
        n_parts = _n_stretches(index, size * n_chunks)
        sums = gpu.blank((n_parts, size, n_classes, n_sums), np.float64)
        add_left_out[(size, n_parts, n_chunks), THREADS](
            past, layout_on_gpu, cases, lanes, DeviceVotes(table, blank, sums)
        )
        result[batch] = gpu.from_device(sums).sum(axis=0)
    return LeaveOneOutSums(result, np.zeros(n))
