"""Random numbers for the kernels: one stream per (seed, chain, sweep, purpose, item), independent of processes and
threads.

A stream is a xoroshiro128++ generator (Blackman and Vigna, 2021) whose 128-bit state is hashed from its key with the
finalizer of SplitMix64 (Steele, Lea and Flood, 2014). A key identifies what the numbers are used for, so results do not
depend on the number of threads or on how cases are split among them. The state is an array ``rng`` of two uint64.

Keys are nested: seed -> chain -> sweep -> purpose -> item. The purposes are named below, for all engines.
"""

from __future__ import annotations

import math

import numpy as np

from bayespatch.engine.compiling import compiled, inlined

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX1 = np.uint64(0xBF58476D1CE4E5B9)
MIX2 = np.uint64(0x94D049BB133111EB)
TO_UNIT = 2.0**-53

# Purposes of streams: of a chain (sweeps are numbered from 1), of a sweep (moves of q count up from MOVE), of a move.
PRIOR = 0
CASES, SUM, GLOBAL, PARENTS, MOVE = range(5)
PROPOSE, CARRY = range(2)


@inlined
def mixed(h):
    """SplitMix64's finalizer: every bit of the result depends on every bit of `h`."""
    h = (h ^ (h >> np.uint64(30))) * MIX1
    h = (h ^ (h >> np.uint64(27))) * MIX2
    return h ^ (h >> np.uint64(31))


@inlined
def key_of(parent_key, number):
    """The key of item `number` under `parent_key`: seed -> chain -> sweep -> purpose -> case."""
    return mixed(mixed(parent_key + GOLDEN) ^ (np.uint64(number) + MIX1))


def subkey(key: np.uint64, number: int) -> np.uint64:
    """`key_of` for callers in Python, where Numba returns a plain int."""
    return np.uint64(key_of(key, np.uint64(number)))


@compiled
def renumbered(numbers, first, second):
    """Item numbers (int64) for items that need a stream for every pair of two other numbers."""
    new_numbers = np.empty_like(numbers)
    for i in range(len(numbers)):
        new_numbers[i] = np.int64(key_of(key_of(np.uint64(numbers[i]), first), second))
    return new_numbers


def chain_key(seed: int, chain: int) -> np.uint64:
    """The key of a chain."""
    return subkey(subkey(np.uint64(0), seed), chain)


@inlined
def open_stream(rng, key):
    """Set `rng` to the beginning of the stream named by `key`."""
    rng[0] = mixed(key + GOLDEN)
    rng[1] = mixed(key + GOLDEN + GOLDEN)
    if rng[0] == 0 and rng[1] == 0:
        rng[0] = GOLDEN


@inlined
def rotated(v, k):
    return (v << np.uint64(k)) | (v >> np.uint64(64 - k))


@inlined
def random_bits(rng):
    """64 random bits."""
    s0 = rng[0]
    s1 = rng[1]
    bits = rotated(s0 + s1, 17) + s0
    s1 = s1 ^ s0
    rng[0] = rotated(s0, 49) ^ s1 ^ (s1 << np.uint64(21))
    rng[1] = rotated(s1, 28)
    return bits


@inlined
def to_unit(bits):
    """64 random bits as a number in [0, 1), a multiple of 2^-53."""
    return float(bits >> np.uint64(11)) * TO_UNIT


@inlined
def uniform(rng):
    """A number in [0, 1), a multiple of 2^-53."""
    return to_unit(random_bits(rng))


@inlined
def uniform_positive(rng):
    """A number in (0, 1]: safe to take the logarithm of."""
    return 1.0 - uniform(rng)


@compiled
def normal(rng):
    """A standard normal variate (one of the Box-Muller pair)."""
    radius = math.sqrt(-2.0 * math.log(uniform_positive(rng)))
    return radius * math.cos(2.0 * math.pi * uniform(rng))


@compiled
def gamma(rng, shape):
    """A Gamma(shape, 1) variate, for a shape of at least 1 (Marsaglia and Tsang, 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        n = normal(rng)
        v = 1.0 + c * n
        if v > 0.0:
            v = v * v * v
            u = uniform_positive(rng)
            if u < 1.0 - 0.0331 * n * n * n * n:  # the squeeze: no logarithm in most draws
                return d * v
            if math.log(u) < 0.5 * n * n + d - d * v + d * math.log(v):
                return d * v


@compiled
def log_gamma(rng, shape):
    """The logarithm of a Gamma(shape, 1) variate, for any shape.

    The variate itself would underflow for a small shape. log G(a) = log G(a+1) + log(U)/a.
    """
    if shape >= 1.0:
        return math.log(gamma(rng, shape))
    boost = math.log(uniform_positive(rng)) / shape
    return math.log(gamma(rng, shape + 1.0)) + boost


@compiled
def logit_beta(rng, a, b):
    """The logit of a Beta(a, b) variate, accurate even if the variate rounds to 0 or 1."""
    if min(a, b) >= 1.0:
        return math.log(gamma(rng, a) / gamma(rng, b))
    return log_gamma(rng, a) - log_gamma(rng, b)


@compiled
def beta(rng, a, b):
    """A Beta(a, b) variate in (0, 1)."""
    if a == 1.0 and b == 1.0:
        return uniform_positive(rng)
    return 1.0 / (1.0 + math.exp(-logit_beta(rng, a, b)))
