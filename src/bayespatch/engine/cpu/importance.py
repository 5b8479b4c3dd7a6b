"""Updates of q and q-tilde on threads: loops over features and parents around ``engine/importance.py``."""

from __future__ import annotations

import math

import numpy as np

from bayespatch.engine.compiling import compiled
from bayespatch.engine.importance import (
    MOST_STEPS,
    above,
    beta_shape,
    carried,
    draw_for_proposal,
    rest_of_ratio,
    set_importance,
    softplus,
    steps_to_the_left,
)
from bayespatch.engine.streams import key_of, logit_beta, open_stream, uniform, uniform_positive


@compiled
def fill_importance(logits, x_parents, importance):
    """Compute all of q-tilde from its logits."""
    for b in range(logits.shape[0]):
        for j in range(logits.shape[1]):
            set_importance(importance, x_parents, b, j, logits[b, j])


@compiled
def carry_along(
    logits, used, sigma2, logit_q, logit_q_new, key, feature_0, x_parents, proposed, logits_new, log, first, last
):
    """Move q~_:j of the used parents with q_j (`carried`) for features feature_0, feature_0 + 1, ...; fills `proposed`
    and, with its logits, `logits_new`.

    `log` (S, features) gets the logarithm of each prior ratio, for parents first..last-1. Parents that are currently
    not neighbors are integrated out: they are ignored here and redrawn given the new q before their next use.
    """
    rng = np.zeros(2, np.uint64)
    for r in range(log.shape[1]):
        j = feature_0 + r
        shape, shape_new = beta_shape(logit_q[r], sigma2), beta_shape(logit_q_new[r], sigma2)
        rest = rest_of_ratio(shape, shape_new)
        feature_key = key_of(key, j)
        for b in range(first, last):
            if used[b] == 0:
                log[b, r] = 0.0
                continue
            open_stream(rng, key_of(feature_key, b))
            logits_new[b, j], change = carried(rng, logits[b, j], shape, shape_new, sigma2)
            log[b, r] = change + rest
            set_importance(proposed, x_parents, b, j, logits_new[b, j])


@compiled
def accept_features(logits, logits_new, importance, proposed, used, features):
    """Replace the current q~ of the used parents with the proposals of `carry_along`, for these features."""
    for b in range(used.shape[0]):
        if used[b] > 0:
            for j in features:
                logits[b, j] = logits_new[b, j]
                for row in range(importance.shape[0]):
                    importance[row, b, j] = proposed[row, b, j]


@compiled
def log_density_of_logit_q(logit, gamma, sigma1, sigma2, above_s, above_n):
    """log p(logit q_j | w), q~ integrated out (eq:qupdate).

    A product of beta-binomials over parents, B(q'+s, sigma2+n-s)/B(q', sigma2), written in terms of the numbers of
    parents with s > k and n > k: prod_k (q'+k)^above_s[k] / (q'+sigma2+k)^above_n[k], up to a factor independent of q.
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


@compiled
def slice_logit_q(rng, logit, gamma, sigma1, sigma2, above_s, above_n):
    """One slice-sampling step (Neal, 2003: stepping out, then shrinking), with a bounded number of evaluations.

    If the density is nearly flat over thousands of units (a Beta shape near 0), crossing it takes several sweeps. If
    rounding leaves only the current point, the chain does not move.
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
def draw_q_given_w(logit_q, n_neighbors, n_on, gamma, sigma1, sigma2, key):
    """Draw q_j given w for every feature, in place. n_neighbors (S,) and n_on (S, P) are n_b and s_bj."""
    rng = np.zeros(2, np.uint64)
    most = n_neighbors.max()
    above_n = above(n_neighbors, most)
    for j in range(logit_q.shape[0]):
        open_stream(rng, key_of(key, j))
        logit_q[j] = slice_logit_q(rng, logit_q[j], gamma[j], sigma1[j], sigma2, above(n_on[:, j], most), above_n)


@compiled
def draw_q_tilde_given_w(logits, logit_q, n_neighbors, n_on, sigma2, key, first, last):
    """Draw logit q~_bj given q and w (eq:qw) for parents first..last-1, in place."""
    rng = np.zeros(2, np.uint64)
    for b in range(first, last):
        open_stream(rng, key_of(key, b))
        for j in range(logit_q.shape[0]):
            s = n_on[b, j]
            logits[b, j] = logit_beta(rng, beta_shape(logit_q[j], sigma2) + s, sigma2 + n_neighbors[b] - s)


@compiled
def draw_for_proposals(key, first, last):
    """`draw_for_proposal` for each of the features."""
    rng = np.zeros(2, np.uint64)
    drawn = np.empty((2, last - first))
    for r in range(last - first):
        drawn[0, r], drawn[1, r] = draw_for_proposal(rng, key, first + r)
    return drawn
