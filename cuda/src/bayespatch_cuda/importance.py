"""CUDA kernels for q and q-tilde: the moves of ``engine/importance.py`` with a block of threads for each feature.

Sums are computed in a fixed order, so that the same seed gives the same draws. All threads of a block evaluate the
conditional density of q_j given w together and take the same slice-sampling step.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from numba import cuda, float64, int32, uint64

from bayespatch.engine.importance import (
    MOST_STEPS,
    adapted,
    beta_shape,
    carried,
    draw_for_proposal,
    is_accepted,
    rest_of_ratio,
    set_importance,
    softplus,
    steps_to_the_left,
)
from bayespatch.engine.streams import key_of, logit_beta, open_stream, uniform, uniform_positive
from bayespatch.engine.votes import VOTE_ON
from bayespatch_cuda.compiling import compiled, inlined
from bayespatch_cuda.layout import Importance, chance_at

if TYPE_CHECKING:
    from numba.cuda.cudadrv.devicearray import DeviceNDArray

BLOCK = 256  # largest number of threads for a feature, a power of two


class ParentCodes(NamedTuple):
    """The part of the data that q-tilde depends on: which values are missing."""

    x: DeviceNDArray  # (S, P) float64, missing values as in ``votes.py``


class Prior(NamedTuple):
    """The constants of q and q-tilde."""

    gamma: DeviceNDArray  # (P,)
    sigma1: DeviceNDArray  # (P,)
    sigma2: float


class Chain(NamedTuple):
    """q, q-tilde and the counts that their conditional distributions depend on."""

    logit_q: DeviceNDArray  # (P,)
    logits: DeviceNDArray  # (S, P) logit q-tilde
    step: DeviceNDArray  # (P,) width of the proposals for logit q; the sign is the direction of the next one
    n_neighbors: DeviceNDArray  # (S,) int32
    n_on: DeviceNDArray  # (S, P) int32
    above: DeviceNDArray  # (2, P, N+1) int32: number of parents with n > k, and with s > k


class Move(NamedTuple):
    """A proposal for q and q-tilde, and its acceptance ratio."""

    old: DeviceNDArray  # (4, S, P) float64: q-tilde, rows as in ``votes.py``
    new: DeviceNDArray  # (4, S, P)
    logit_new: DeviceNDArray  # (P,)
    logits_new: DeviceNDArray  # (S, P)
    log_prior: DeviceNDArray  # (P,) log of prior ratio and Jacobian
    log_ratio: DeviceNDArray  # (P, blocks)
    moved: DeviceNDArray  # (P,) int32: whether a proposal was accepted since w was drawn
    # (2, N, P) p(x_ij | z_i), w summed out, for the current and the proposed q-tilde; (1, 1, 1) in Model II
    likelihood: DeviceNDArray
    present: DeviceNDArray  # (P,) int32: which of the two is current


@inlined
def fill_one(parents, importance, b, j, logit):
    """Set q-tilde of parent b and feature j in double and in single precision."""
    set_importance(importance.double, parents.x, b, j, logit)
    importance.chance[chance_at(b, j, parents.x.shape[1], importance.group)] = importance.double[VOTE_ON, b, j]


@cuda.jit
def fill_importance(parents, chain, importance):
    """Compute all of q-tilde from its logits: one thread per parent and feature."""
    b = cuda.grid(1)
    j = cuda.blockIdx.y
    if b < chain.logits.shape[0]:
        fill_one(parents, importance, b, j, chain.logits[b, j])


@inlined
def logit_of(p):
    """As `logit_inside`, for a number in single precision."""
    inside = min(max(float(p), 1e-300), 1.0 - 2.0**-25)
    return math.log(inside / (1.0 - inside))


@cuda.jit
def fill_parts(parents, parts):
    """Set q-tilde of every part to the values passed: one thread per part, parent and feature."""
    b = cuda.grid(1)
    j = cuda.blockIdx.y
    g = cuda.blockIdx.z
    if b < parts.given.shape[1]:
        importance = Importance(parts.double[g], parts.chance[g], parts.group)
        fill_one(parents, importance, b, j, logit_of(parts.given[g, b, j]))


@cuda.jit(device=True)
def block_sum(buffer, value):
    """The sum of a number over the threads of a block, in a fixed tree order; returned to all threads."""
    t = cuda.threadIdx.x
    buffer[t] = value
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if t < half:
            buffer[t] += buffer[t + half]
        cuda.syncthreads()
        half //= 2
    total = buffer[0]
    cuda.syncthreads()
    return total


@cuda.jit(device=True)
def sum_behind(buffer, value):
    """For each thread of a block, the sum of a number over all later threads (Hillis and Steele, 1986)."""
    t = cuda.threadIdx.x
    buffer[t] = value
    cuda.syncthreads()
    step = 1
    while step < cuda.blockDim.x:
        more = buffer[t + step] if t + step < cuda.blockDim.x else 0.0
        cuda.syncthreads()
        buffer[t] += more
        cuda.syncthreads()
        step *= 2
    return buffer[t] - value


@compiled
def carry_along(parents, chain, move, sigma2, logit, logit_new, rng, key, j, first, step):
    """Move q~_bj of every step-th used parent along with q_j, into `move.new`; returns the log of the prior ratio."""
    shape, shape_new = beta_shape(logit, sigma2), beta_shape(logit_new, sigma2)
    rest = rest_of_ratio(shape, shape_new)
    feature_key, log = key_of(key, j), 0.0
    for b in range(first, chain.logits.shape[0], step):
        if chain.n_neighbors[b] > 0:
            open_stream(rng, key_of(feature_key, b))
            move.logits_new[b, j], change = carried(rng, chain.logits[b, j], shape, shape_new, sigma2)
            log += change + rest
            set_importance(move.new, parents.x, b, j, move.logits_new[b, j])
    return log


@compiled
def log_prior_q(prior, logit, j):
    """The log density of logit q_j, up to a constant."""
    return -prior.gamma[j] * softplus(-logit) - prior.sigma1[j] * softplus(logit)


@cuda.jit
def propose(parents, chain, move, prior, key, carry_key, first):
    """Propose a new q_j, and q~_:j moved with it, for features from `first` on: one block each."""
    buffer = cuda.shared.array(BLOCK, float64)
    rng = cuda.local.array(2, uint64)
    j = first + cuda.blockIdx.x
    far, _ = draw_for_proposal(rng, key, j)
    logit = chain.logit_q[j]
    logit_new = logit + chain.step[j] * far
    log = carry_along(
        parents, chain, move, prior.sigma2, logit, logit_new, rng, carry_key, j, cuda.threadIdx.x, cuda.blockDim.x
    )
    log = block_sum(buffer, log)
    if cuda.threadIdx.x == 0:
        move.logit_new[j] = logit_new
        move.log_prior[j] = log + log_prior_q(prior, logit_new, j) - log_prior_q(prior, logit, j)


@compiled
def part_of_sum(values, first, step):
    """The sum of every step-th value."""
    total = 0.0
    for k in range(first, values.shape[0], step):
        total += values[k]
    return total


@cuda.jit
def decide(chain, move, key, first, number, rate):
    """Accept or reject the proposals of a move, and adapt the steps at this rate (0 after the warm-up)."""
    buffer = cuda.shared.array(BLOCK, float64)
    rng = cuda.local.array(2, uint64)
    t = cuda.threadIdx.x
    j = first + cuda.blockIdx.x
    _, u = draw_for_proposal(rng, key, j)
    log = move.log_prior[j] + block_sum(buffer, part_of_sum(move.log_ratio[j], t, cuda.blockDim.x))
    accepted = is_accepted(u, log)
    if t == 0:
        move.moved[j] = accepted or (number > 0 and move.moved[j] != 0)
        step = adapted(chain.step[j], log, rate)
        chain.step[j] = step if accepted else -step  # a rejection reverses the direction
        if accepted:
            chain.logit_q[j] = move.logit_new[j]
            move.present[j] = 1 - move.present[j]
    if accepted:
        for b in range(t, chain.n_neighbors.shape[0], cuda.blockDim.x):
            if chain.n_neighbors[b] > 0:
                chain.logits[b, j] = move.logits_new[b, j]
                for row in range(4):
                    move.old[row, b, j] = move.new[row, b, j]


@compiled
def most_of(values, first, step):
    """The maximum of every step-th value and 0."""
    most = 0
    for k in range(first, values.shape[0], step):
        most = max(most, values[k])
    return most


@compiled
def part_of_density(chain, sigma2, logit, j, most, first, step):
    """Every step-th k of the sum in `importance.log_density_of_logit_q`."""
    a = beta_shape(logit, sigma2)
    log = 0.0
    for k in range(first, most, step):
        if chain.above[1, j, k] > 0:
            log += chain.above[1, j, k] * math.log(a + k)
        if chain.above[0, j, k] > 0:
            log -= chain.above[0, j, k] * math.log(a + sigma2 + k)
    return log


@compiled
def open_feature(rng, key, j):
    open_stream(rng, key_of(key, j))


@cuda.jit(device=True)
def count_above(buffer, counts, most):
    """Convert counts[k] from the number of values equal to k to the number above k, for k = 0..most, using all
    threads of a block.
    """
    t = cuda.threadIdx.x
    share = (most + cuda.blockDim.x) // cuda.blockDim.x
    first = t * share
    last = min(most + 1, first + share)
    mine = 0.0
    for k in range(first, last):
        mine += counts[k]
    left = int(sum_behind(buffer, mine))
    for k in range(last - 1, first - 1, -1):
        here = counts[k]
        counts[k] = left
        left += here
    cuda.syncthreads()


@cuda.jit
def draw_q(chain, prior, key):
    """Draw q_j given w with q~ integrated out: a slice-sampling step (``importance.slice_logit_q``), one block each."""
    buffer = cuda.shared.array(BLOCK, float64)
    longest = cuda.shared.array(1, int32)
    rng = cuda.local.array(2, uint64)
    t = cuda.threadIdx.x
    n_threads = cuda.blockDim.x
    j = cuda.blockIdx.x
    if t == 0:
        longest[0] = 0
    cuda.syncthreads()
    cuda.atomic.max(longest, 0, most_of(chain.n_neighbors, t, n_threads))
    cuda.syncthreads()
    most = longest[0]
    for k in range(t, most + 1, n_threads):
        chain.above[0, j, k] = 0
        chain.above[1, j, k] = 0
    cuda.syncthreads()
    for b in range(t, chain.n_neighbors.shape[0], n_threads):
        cuda.atomic.add(chain.above, (0, j, chain.n_neighbors[b]), 1)
        cuda.atomic.add(chain.above, (1, j, chain.n_on[b, j]), 1)
    cuda.syncthreads()
    count_above(buffer, chain.above[0, j], most)
    count_above(buffer, chain.above[1, j], most)

    open_feature(rng, key, j)
    logit = chain.logit_q[j]
    log = part_of_density(chain, prior.sigma2, logit, j, most, t, n_threads)
    level = log_prior_q(prior, logit, j) + block_sum(buffer, log) + math.log(uniform_positive(rng))
    u = uniform(rng)
    left = logit - u
    right = left + 1.0
    n_left = steps_to_the_left(u)
    n_right = MOST_STEPS - 1 - n_left
    while n_left > 0:
        log = part_of_density(chain, prior.sigma2, left, j, most, t, n_threads)
        if not log_prior_q(prior, left, j) + block_sum(buffer, log) > level:
            break
        left -= 1.0
        n_left -= 1
    while n_right > 0:
        log = part_of_density(chain, prior.sigma2, right, j, most, t, n_threads)
        if not log_prior_q(prior, right, j) + block_sum(buffer, log) > level:
            break
        right += 1.0
        n_right -= 1
    result = logit
    for _ in range(MOST_STEPS):
        new = left + uniform(rng) * (right - left)
        log = part_of_density(chain, prior.sigma2, new, j, most, t, n_threads)
        if log_prior_q(prior, new, j) + block_sum(buffer, log) > level:
            result = new
            break
        if new < logit:
            left = new
        else:
            right = new
    if t == 0:
        chain.logit_q[j] = result


@compiled
def draw_q_tilde_one(parents, chain, importance, rng, sigma2, key, b, j):
    """Draw logit q~_bj given q and w."""
    open_stream(rng, key_of(key_of(key, b), j))
    s = chain.n_on[b, j]
    logit = logit_beta(rng, beta_shape(chain.logit_q[j], sigma2) + s, sigma2 + chain.n_neighbors[b] - s)
    chain.logits[b, j] = logit
    fill_one(parents, importance, b, j, logit)


@cuda.jit
def draw_q_tilde(parents, chain, importance, prior, key):
    """Draw q~_bj given q and w: one thread per parent and feature."""
    b = cuda.grid(1)
    if b < chain.logits.shape[0]:
        rng = cuda.local.array(2, uint64)
        draw_q_tilde_one(parents, chain, importance, rng, prior.sigma2, key, b, cuda.blockIdx.y)
