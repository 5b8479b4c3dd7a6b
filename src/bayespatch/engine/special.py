"""Functions that kernels need and Numba lacks; they hold from the smallest shape of a Beta to the largest.

SciPy has them for NumPy; these are for code that runs on a GPU, and are tested against SciPy.
"""

from __future__ import annotations

import math

from bayespatch.engine.compiling import compiled

LARGE = 12.0  # from here on the asymptotic series (Abramowitz and Stegun, 6.1.41, 6.3.18, 6.4.12) are exact to 1e-15


@compiled
def digamma(x):
    """The derivative of log Gamma at x > 0."""
    below = 0.0
    while x < LARGE:
        below += 1.0 / x
        x += 1.0
    r = 1.0 / x
    f = r * r
    series = f * (1.0 / 12.0 - f * (1.0 / 120.0 - f * (1.0 / 252.0 - f * (1.0 / 240.0 - f / 132.0))))
    return math.log(x) - 0.5 * r - series - below


@compiled
def trigamma(x):
    """The second derivative of log Gamma at x > 0; infinite where it leaves the floats."""
    below = 0.0
    while x < LARGE:
        r = 1.0 / x
        below += r * r
        x += 1.0
    r = 1.0 / x
    f = r * r
    series = f * (1.0 / 6.0 - f * (1.0 / 30.0 - f * (1.0 / 42.0 - f * (1.0 / 30.0 - f * 5.0 / 66.0))))
    return r + 0.5 * f + r * series + below


@compiled
def stirling_rest(x):
    """log Gamma(x) less (x - 1/2) log x - x + log(2 pi)/2, for large x."""
    r = 1.0 / x
    f = r * r
    return r * (1.0 / 12.0 - f * (1.0 / 360.0 - f * (1.0 / 1260.0 - f * (1.0 / 1680.0 - f / 1188.0))))


@compiled
def log_beta(a, b):
    """log B(a, b). For a large a, log Gamma(a) - log Gamma(a+b) is taken term by term: the two are nearly equal."""
    if a < LARGE:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    total = a + b
    drop = (a - 0.5) * math.log1p(b / a) + b * math.log(total) - b
    return math.lgamma(b) - drop + stirling_rest(a) - stirling_rest(total)
