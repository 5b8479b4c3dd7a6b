"""The update of q and q-tilde, and the joint move that makes them mix.

Given w, q and q-tilde are easy to draw: q_j is one-dimensional (slice sampling), and q-tilde is Beta. But with several
neighbors, the likelihood hardly depends on how many of a feature's w are on, so q_j, all q~_bj and all w_ibj are
strongly correlated. So (q_j, q~_:j) also move *together*, with w_:j summed out: propose logit q_j, move every q~_bj
with it so that its quantile under its prior hardly changes (`carried`, with a ratio close to 1), accept with the prior
ratio of q_j and

    prod_i p(x_ij | z_i, new q~) / p(x_ij | z_i, old q~)        (``sums.py``; Model II has further terms),

a few times, then draw w_:j again. Because steps of any size preserve the quantiles, steps can be as large as the data
allow: if the data contain little information about q_j, a step can cross the whole prior.

Proposals keep their direction after an acceptance and reverse it after a rejection (the guided walk of Gustafson,
1998). The reverse of a proposal is the same step in the opposite direction, so the acceptance ratio is unchanged, and
the walk spends less time going back and forth.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, logit

from bayespatch.engine.compiling import compiled, inlined
from bayespatch.engine.streams import (
    gamma,
    key_of,
    log_gamma,
    logit_beta,
    normal,
    open_stream,
    uniform,
    uniform_positive,
)
from bayespatch.engine.votes import OFF, ON, PARENT_MISSING, VOTE_OFF, VOTE_ON
from bayespatch.model import Data, Model

MOST_STEPS = 512  # for stepping out, and for shrinking; a typical posterior needs about a dozen


# Moves of q per sweep, chosen for the most effective draws per second on the heart data. Model II has one, because w is
# drawn with the proposal, from the random numbers of the sweep.
N_MOVES = {"I": 2, "II": 1, "III": 3}


TARGET_ACCEPTANCE = 0.55  # about optimal on the heart data; a guided walk needs more than an ordinary random walk


RISE = 3  # from this shape on, a Gamma variable is nearly a cubed normal one; smaller shapes are raised by this much


FLAT = 1e16  # from this shape on, a Gamma variable equals its shape in double precision


@inlined
def softplus(v):
    """log(1 + exp(v))"""
    return max(v, 0.0) + math.log1p(math.exp(-abs(v)))


@inlined
def beta_shape(logit_q, sigma2):
    """q' = sigma2 q/(1-q), the first shape of q-tilde's prior, limited to the range of a float."""
    return sigma2 * math.exp(min(max(logit_q, -600.0), 600.0))


@inlined
def set_importance(importance, x_parents, b, j, logit):
    """Set q-tilde and its complement without cancellation; a parent whose value is missing does not vote."""
    odds = math.exp(-min(abs(logit), 700.0))  # of the less likely outcome
    more = 1.0 / (1.0 + odds)
    less = odds * more
    on = more if logit >= 0.0 else less
    off = less if logit >= 0.0 else more
    importance[ON, b, j] = on
    importance[OFF, b, j] = off
    silent = x_parents[b, j] == PARENT_MISSING
    importance[VOTE_ON, b, j] = 0.0 if silent else on
    importance[VOTE_OFF, b, j] = 1.0 if silent else off


@inlined
def steps_to_the_left(u):
    """The number of `MOST_STEPS` that may go left: uniform, so that every point of an interval would have led to that
    interval with the same probability (Neal, 2003, figure 3). The leading bits of `u` place the interval; this uses
    other bits.
    """
    return int(MOST_STEPS * (u * 2.0**26 - math.floor(u * 2.0**26)))


@inlined
def rise_of(shape, shape_new):
    """How many times the shape of a Gamma variable is raised by 1 when it moves from one shape to the other."""
    return 0 if min(shape, shape_new) >= RISE else RISE


@inlined
def carried(rng, logit, shape, shape_new, sigma2):
    """Move logit q~ from its prior Beta(shape, sigma2) to Beta(shape_new, sigma2), approximately preserving its
    quantile; also returns the log of prior ratio x Jacobian, without the part that depends only on the shapes
    (`log_rest`).

    q~ = G(shape) / (G(shape) + G(sigma2)) with two Gamma variables, which are drawn here given q~. The second does not
    change. From shape `RISE` on, (G(a)/a)^(1/3) is nearly normal (Wilson and Hilferty, 1931): its standardized value
    does not change, and the ratio corrects for the deviation from normality. If either shape is smaller, the first
    variable is raised before, G(a) + Exp = G(a+1), where log(G(a) / G(a+1)) = log(U) / a with U uniform and independent
    of G(a+1); each U is preserved. This part uses logarithms, because variables with a small shape underflow.
    """
    lowered = 0.0
    if rise_of(shape, shape_new) == 0:
        a, a_new = shape, shape_new
        odds, total = math.exp(logit), gamma(rng, shape + sigma2)
        below = total / (1.0 + odds)  # the second variable
        raised = below * odds
        if not raised > 0.0:  # too far from typical values of this shape for double precision
            return math.nan, math.nan
        kept = math.log(a_new / below)
    else:
        a, a_new = shape + RISE, shape_new + RISE
        total = log_gamma(rng, shape + sigma2)
        rest = math.log1p(math.exp(-abs(logit)))
        first = total - max(-logit, 0.0) - rest
        kept = math.log(a_new) - (total - max(logit, 0.0) - rest)
        raised = math.exp(first)
        for k in range(RISE):
            added = max(-math.log(uniform_positive(rng)), 1e-300)
            lower = -math.log1p(added / raised) if raised > 1e-300 else first - math.log(added)
            lowered += lower * ((shape + k) / (shape_new + k))
            raised += added
    if a < FLAT:
        y = math.log(raised / a) / 3.0
        e = math.expm1(y)
        x = 3.0 * math.sqrt(a) * e + 1.0 / (3.0 * math.sqrt(a))
        log = -log_of_cube(a, e, y)
    else:
        x = normal(rng)
        log = 0.5 * x * x
    e_new = x / (3.0 * math.sqrt(a_new)) - 1.0 / (9.0 * a_new)
    if not e_new > -1.0:
        return math.nan, math.nan
    y_new = math.log1p(e_new)
    log += log_of_cube(a_new, e_new, y_new) if a_new < FLAT else -0.5 * x * x
    return kept + 3.0 * y_new + lowered, log


@inlined
def log_of_cube(a, e, y):
    """The log density of x without `log_rest`, where (1 + e)^3 a is Gamma(a), e = x / (3 sqrt a) - 1 / 9a and
    y = log(1 + e).
    """
    return (3.0 * a - 1.0) * y - a * e * (3.0 + e * (3.0 + e))


@compiled
def log_rest(a):
    """The part of a carried variable's log density that depends only on its shape: (a - 1/2) log a - a + log(2 pi)/2 -
    log Gamma(a).

    For a >= 12 the asymptotic series (Abramowitz and Stegun, 6.1.41) is accurate to 1e-15.
    """
    if a < 12.0:
        return (a - 0.5) * math.log(a) - a + 0.5 * math.log(2.0 * math.pi) - math.lgamma(a)
    r = 1.0 / a
    f = r * r
    return -r * (1.0 / 12.0 - f * (1.0 / 360.0 - f * (1.0 / 1260.0 - f * (1.0 / 1680.0 - f / 1188.0))))


@compiled
def rest_of_ratio(shape, shape_new):
    """The difference of `log_rest` between the two variables of `carried`."""
    rise = rise_of(shape, shape_new)
    return log_rest(shape_new + rise) - log_rest(shape + rise)


@compiled
def draw_for_proposal(rng, key, j):
    """The size of the proposal for feature j in units of its step, and a uniform number for its acceptance."""
    open_stream(rng, key_of(key, j))
    return abs(normal(rng)), uniform(rng)


@compiled
def is_accepted(u, log):
    """Metropolis acceptance; NaN is rejected."""
    return math.log1p(-u) < log


@compiled
def adapted(step, log, rate):
    """The adapted step size after a proposal with acceptance probability min(1, e^log)."""
    chance = 0.0
    if log >= 0.0:
        chance = 1.0
    elif log < 0.0:
        chance = math.exp(log)
    return step * math.exp(rate * (chance - TARGET_ACCEPTANCE))


@compiled
def above(values, most):
    """above[k] is the number of values that exceed k, for k = 0..most."""
    count = np.zeros(most + 1, np.int64)
    for v in values:
        count[v] += 1
    larger = 0
    for k in range(most, -1, -1):
        equal = count[k]
        count[k] = larger
        larger += equal
    return count


@compiled
def draw_prior(n_parents, n_features, gamma, sigma1, sigma2, key):
    """logit q (P,) and logit q~ (S, P) from their priors."""
    rng = np.zeros(2, np.uint64)
    open_stream(rng, key)
    logit_q = np.empty(n_features)
    logits = np.empty((n_parents, n_features))
    for j in range(n_features):
        logit_q[j] = logit_beta(rng, gamma[j], sigma1[j])
        for b in range(n_parents):
            logits[b, j] = logit_beta(rng, beta_shape(logit_q[j], sigma2), sigma2)
    return logit_q, logits


@compiled
def log_prior_w(logit_q, n_neighbors, n_on, sigma2):
    """log p(w | q), q~ integrated out (eq:simpw), summed over parents and features."""
    most = n_neighbors.max()
    above_n = above(n_neighbors, most)
    log = 0.0
    for j in range(logit_q.shape[0]):
        a = beta_shape(logit_q[j], sigma2)
        above_s = above(n_on[:, j], most)
        above_rest = above(n_neighbors - n_on[:, j], most)
        for k in range(most):
            if above_s[k] > 0:
                log += above_s[k] * math.log(a + k)
            if above_rest[k] > 0:
                log += above_rest[k] * math.log(sigma2 + k)
            log -= above_n[k] * math.log(a + sigma2 + k)
    return log


def log_prior(
    data: Data,
    model: Model,
    logit_q: NDArray[np.float64],
    n_neighbors: NDArray[np.int64],
    n_on: NDArray[np.int64],
    log_kappa: float,
) -> float:
    """log p(z, w, kappa, q), q-tilde integrated out, from the counts n_b (S,), s_bj (S, P) and log p(kappa)."""
    hyper = model.hyper
    n_pairs = len(data.x) * len(n_neighbors) - int((data.own_parent >= 0).sum())
    n_active = int(n_neighbors.sum())
    log = n_active * math.log(hyper.alpha) + (n_pairs - n_active) * math.log1p(-hyper.alpha)
    log += log_prior_w(logit_q, n_neighbors, n_on, float(hyper.sigma2))
    gamma, sigma1 = hyper.q_prior(len(logit_q))
    log -= ((gamma - 1.0) * np.logaddexp(0.0, -logit_q)).sum()
    log -= ((sigma1 - 1.0) * np.logaddexp(0.0, logit_q)).sum()
    log -= betaln(gamma, sigma1).sum()
    return float(log + log_kappa)


def logit_inside(p: NDArray[np.floating]) -> NDArray[np.float64]:
    """logit p, finite even if single precision has rounded p to 0 or 1."""
    return np.asarray(logit(np.clip(p.astype(np.float64), 1e-300, 1.0 - 2.0**-25)))
