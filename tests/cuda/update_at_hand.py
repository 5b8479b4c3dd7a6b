"""The update of the cases as the GPU does it, from the definitions: one case after another, one parent after another,
with the random numbers of the GPU's engine. Nothing of its layout, its bounds or its groups of threads is in here."""

import numpy as np
from bayespatch_cuda.weigh import draw_kappa

from bayespatch.engine.cpu import layout
from bayespatch.engine.paper import N_CANDIDATES
from bayespatch.engine.streams import key_of, to_unit
from bayespatch.engine.votes import pick
from bayespatch.model import Latent, agreement, feature_constants, label_constants


def numbered(key, number):
    """The key `number` under a key, which is a random number as well."""
    return np.uint64(key_of(np.uint64(key), np.uint64(number)))


def unit(key):
    return to_unit(np.uint64(key))


class Updating:
    """z, w and kappa of one case, and what they make of its likelihood."""

    def __init__(self, data, model, i):
        self.c = layout.constants_of(data, model)
        self.c2 = feature_constants(data, model)[1]
        self.mu = model.hyper.mu_per_class(data.n_classes)
        self.label_c1 = label_constants(data, model)[0]
        self.same = agreement(data)[i]  # (S, P)
        self.votes = ~np.isnan(data.x_parents)
        self.observed = ~np.isnan(data.x[i])
        self.y, self.y_parents = data.y[i], data.y_parents

    def ratios(self, z, w, k, b, strength):
        """R_j(k) of one more neighbor b."""
        total = self.c2 + self.c.lam * ((z * k)[:, None] * w * self.votes).sum(axis=0)
        agree = self.c.c1 + self.c.lam * ((z * k)[:, None] * w * self.same).sum(axis=0)
        lam = self.c.lam * strength
        ratio = total / (total + lam) * np.where(self.same[b], 1 + lam / agree, 1.0)
        return np.where(self.votes[b] & self.observed, ratio, 1.0)

    def label_ratio(self, z, k, b, strength):
        """H(k) of one more neighbor b."""
        if self.y < 0:
            return 1.0
        cast = self.mu[self.y_parents] * z * k
        mine = self.label_c1[self.y] + cast[self.y_parents == self.y].sum()
        every = self.c.label_c2 + cast.sum()
        vote = self.mu[self.y_parents[b]] * strength
        return (mine + vote * (self.y_parents[b] == self.y)) / (every + vote) * every / mine


def update(data, model, latent, q_tilde, key):
    """The state after one update of all cases."""
    kind = ["I", "II", "III"].index(model.kind) + 1
    z, w, kappa = latent.z.copy(), latent.w.copy() & latent.z[:, :, None], latent.kappa.copy()
    for i in range(len(data.x)):
        at = Updating(data, model, i)
        case_key = numbered(key, i)
        for b in range(len(data.x_parents)):
            if b == data.own_parent[i]:
                continue
            current = kappa[i, b] if z[i, b] else -1.0
            z[i, b] = False
            k = (np.ones(len(z[i])), w[i].sum(axis=1), kappa[i])[kind - 1]
            found = (with_one, with_counts, with_kappas)[kind - 1](
                at, z[i], w[i], k, b, q_tilde[b], numbered(case_key, b), current
            )
            if found is not None:
                z[i, b] = True
                w[i, b], kappa[i, b] = found
    return Latent(latent.q, z, w, kappa)


def features(q, ratio, pair_key):
    """w given the ratios, independent."""
    u = np.array([unit(numbered(pair_key, j)) for j in range(len(q))])
    return u * (1 - q + q * ratio) < q * ratio


def with_one(at, z, w, k, b, q, pair_key, current):
    ratio = at.ratios(z, w, k, b, 1.0)
    odds = at.c.prior_odds * at.label_ratio(z, k, b, 1.0) * np.prod(1 - q + q * ratio)
    return (features(q, ratio, pair_key), 0.0) if unit(pair_key) * (1 + odds) < odds else None


def with_counts(at, z, w, k, b, q, pair_key, current):
    size = len(q)
    rows = []  # for each number of features on: coefficients of the first 0, 1, .. features
    for count in range(size + 1):
        on = q * at.ratios(z, w, k, b, count)
        rows.append([np.array([1.0])])
        for j in range(size):
            rows[count].append(np.convolve(rows[count][-1], [1 - q[j], on[j]]))
    weight = np.array([rows[count][size][count] * at.label_ratio(z, k, b, count) for count in range(size + 1)])
    odds = at.c.prior_odds * weight.sum()
    if unit(pair_key) * (1 + odds) >= odds:
        return None
    left = count = pick(weight, size + 1, weight.sum() * unit(numbered(pair_key, size)))
    on, found = q * at.ratios(z, w, k, b, count), np.zeros(size, bool)
    for j in range(size - 1, -1, -1):
        if left > 0:
            found[j] = unit(numbered(pair_key, j)) * rows[count][j + 1][left] < on[j] * rows[count][j][left - 1]
            left -= found[j]
    return found, 0.0


def with_kappas(at, z, w, k, b, q, pair_key, current):
    rng, candidates = np.zeros(2, np.uint64), []
    for r in range(N_CANDIDATES):
        candidates.append(current if r == 0 and current >= 0 else draw_kappa(at.c, rng, pair_key, r))
    weight = np.array(
        [np.prod(1 - q + q * at.ratios(z, w, k, b, kappa)) * at.label_ratio(z, k, b, kappa) for kappa in candidates]
    )
    odds = at.c.prior_odds * weight.mean()
    if unit(pair_key) * (1 + odds) >= odds:
        return None
    kappa = candidates[pick(weight, N_CANDIDATES, weight.sum() * unit(numbered(pair_key, len(q))))]
    return features(q, at.ratios(z, w, k, b, kappa), pair_key), kappa
