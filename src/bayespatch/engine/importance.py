"""The update of q and q-tilde, and the move that makes them mix.

Given w, q and q-tilde are easy: q_j is one-dimensional (slice sampling), q-tilde is Beta. But with several neighbors
the likelihood is nearly flat in how many of a feature's w are on, and q_j, all q~_bj and all w_ibj hold each other in
place. So (q_j, q~_:j) also move *together*, with w_:j summed out: propose logit q_j, carry every logit q~_bj along by
keeping its place in its prior (in mean and standard deviation of a logit-Beta), accept by the prior ratio, the Jacobian
and

    prod_i p(x_ij | z_i, new q~) / p(x_ij | z_i, old q~)        (``summing.py``),

then draw w_:j afresh.
"""

from __future__ import annotations

import math

import numpy as np

from bayespatch.engine.streams import compiled, inlined, key_of, logit_beta, open_stream, uniform, uniform_positive
from bayespatch.engine.votes import OFF, ON, PARENT_MISSING, VOTE_OFF, VOTE_ON

MOST_STEPS = 512  # of a slice, out and in; an interval of an ordinary posterior is a dozen wide


@inlined
def softplus(v):
    """log(1 + exp(v))"""
    return max(v, 0.0) + math.log1p(math.exp(-abs(v)))


@inlined
def beta_shape(logit_q, sigma2):
    """q' = sigma2 q/(1-q), the first shape of q-tilde's prior, kept inside the floats."""
    return sigma2 * math.exp(min(max(logit_q, -600.0), 600.0))


@inlined
def set_importance(importance, x_parents, b, j, logit):
    """q-tilde and its complement, without cancellation; a parent whose value is missing does not vote."""
    odds = math.exp(-min(abs(logit), 700.0))  # of the less likely of the two
    more = 1.0 / (1.0 + odds)
    less = odds * more
    on = more if logit >= 0.0 else less
    off = less if logit >= 0.0 else more
    importance[ON, b, j] = on
    importance[OFF, b, j] = off
    silent = x_parents[b, j] == PARENT_MISSING
    importance[VOTE_ON, b, j] = 0.0 if silent else on
    importance[VOTE_OFF, b, j] = 1.0 if silent else off


@compiled
def fill_importance(logits, x_parents, importance):
    """All of q-tilde."""
    for b in range(logits.shape[0]):
        for j in range(logits.shape[1]):
            set_importance(importance, x_parents, b, j, logits[b, j])


@compiled
def carry_along(logits, used, sigma2, shape, center, spread, feature_0, x_parents, proposed, log, first, last):
    """Move logit q~_:j of the used parents with q_j, for features feature_0, feature_0 + 1, ...; fills `proposed`.

    Row 0 of `shape`, `center` and `spread` is of the old q_j, row 1 of the new. `log` (S, features) gets the logarithm
    of each prior ratio without the Beta functions. Parents that are nobody's neighbor now are integrated out: they do
    not count here and are redrawn given the new q before they are used again. Parents first..last-1.
    """
    for b in range(first, last):
        if used[b] == 0:
            log[b] = 0.0
            continue
        for r in range(shape.shape[1]):
            v = logits[b, feature_0 + r]
            v_new = center[1, r] + (v - center[0, r]) * (spread[1, r] / spread[0, r])
            log[b, r] = shape[1, r] * v_new - (shape[1, r] + sigma2) * softplus(v_new)
            log[b, r] -= shape[0, r] * v - (shape[0, r] + sigma2) * softplus(v)
            set_importance(proposed, x_parents, b, feature_0 + r, v_new)


@compiled
def log_density_of_logit_q(logit, gamma, sigma1, sigma2, above_s, above_n):
    """log p(logit q_j | w), q~ integrated out (eq:qupdate).

    A product of beta-binomials over parents, B(q'+s, sigma2+n-s)/B(q', sigma2), written by how many parents have
    s > k and n > k: prod_k (q'+k)^above_s[k] / (q'+sigma2+k)^above_n[k], but for what does not depend on q.
    """
    a = beta_shape(logit, sigma2)
    log = -gamma * softplus(-logit) - sigma1 * softplus(logit)
    for k in range(above_s.shape[0]):
        if above_s[k] == 0:
            break
        log += above_s[k] * math.log(a + k)
    for k in range(above_n.shape[0]):
        if above_n[k] == 0:
            break
        log -= above_n[k] * math.log(a + sigma2 + k)
    return log


@inlined
def steps_to_the_left(u):
    """How many of the `MOST_STEPS` may go to the left: uniform, and so that any point of an interval would have led to
    that interval as often (Neal, 2003, figure 3). `u` also places the interval, by its leading bits; this takes others.
    """
    return int(MOST_STEPS * (u * 2.0**26 - math.floor(u * 2.0**26)))


@compiled
def slice_logit_q(rng, logit, gamma, sigma1, sigma2, above_s, above_n):
    """One slice-sampling step (Neal, 2003: stepping out, then shrinking), of a bounded number of evaluations.

    A density that is nearly flat over thousands of units (a Beta shape near 0) is crossed in several sweeps. Where no
    point but the present one is left, by rounding, the chain stays.
    """
    level = log_density_of_logit_q(logit, gamma, sigma1, sigma2, above_s, above_n) + math.log(uniform_positive(rng))
    u = uniform(rng)
    left = logit - u
    right = left + 1.0
    n_left = steps_to_the_left(u)
    n_right = MOST_STEPS - 1 - n_left
    while n_left > 0 and log_density_of_logit_q(left, gamma, sigma1, sigma2, above_s, above_n) > level:
        left -= 1.0
        n_left -= 1
    while n_right > 0 and log_density_of_logit_q(right, gamma, sigma1, sigma2, above_s, above_n) > level:
        right += 1.0
        n_right -= 1
    for _ in range(MOST_STEPS):
        new = left + uniform(rng) * (right - left)
        if log_density_of_logit_q(new, gamma, sigma1, sigma2, above_s, above_n) > level:
            return new
        if new < logit:
            left = new
        else:
            right = new
    return logit


@compiled
def above(values, most):
    """above[k]: how many of the values exceed k, for k = 0..most."""
    count = np.zeros(most + 1, np.int64)
    for v in values:
        count[v] += 1
    left = 0
    for k in range(most, -1, -1):
        here = count[k]
        count[k] = left
        left += here
    return count


@compiled
def draw_q_given_w(logit_q, n_neighbors, n_on, gamma, sigma1, sigma2, key):
    """q_j given w for every feature, in place. n_neighbors (S,), n_on (S, P): n_b and s_bj."""
    rng = np.zeros(2, np.uint64)
    most = n_neighbors.max()
    above_n = above(n_neighbors, most)
    for j in range(logit_q.shape[0]):
        open_stream(rng, key_of(key, j))
        logit_q[j] = slice_logit_q(rng, logit_q[j], gamma[j], sigma1[j], sigma2, above(n_on[:, j], most), above_n)


@compiled
def draw_q_tilde_given_w(logits, logit_q, n_neighbors, n_on, sigma2, key, first, last):
    """logit q~_bj given q and w (eq:qw), for parents first..last-1, in place."""
    rng = np.zeros(2, np.uint64)
    for b in range(first, last):
        open_stream(rng, key_of(key, b))
        for j in range(logit_q.shape[0]):
            s = n_on[b, j]
            logits[b, j] = logit_beta(rng, beta_shape(logit_q[j], sigma2) + s, sigma2 + n_neighbors[b] - s)


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
