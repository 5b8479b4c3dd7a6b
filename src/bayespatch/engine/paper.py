"""A literal version of the paper's Metropolis-within-Gibbs sampler (Appendix A): slow and simple, for reference.

q-tilde is integrated out; z, q and w are updated one by one, each given everything else. A loop over single sites is
vectorized only if the sites are independent given the rest, so the sampler is unchanged: z_ib over the cases i of one
parent, w_ibj over the features j of one pair (not in Model II, where kappa couples them), and q_j over the features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, log_expit, logit

from bayespatch import model as bp
from bayespatch.engine.base import Engine, Observation, ProblemSizes
from bayespatch.model import Data, Latent, Model
from bayespatch.simulate import draw_prior

N_CANDIDATES = 4  # values of kappa to choose from in Model III: the current one and new draws from the prior
ACCEPTANCE = 0.44  # the best acceptance rate of a random walk in one dimension (Gelman, Roberts and Gilks, 1996)


@dataclass
class PaperState:
    """One chain: the latent variables, and the proposal settings."""

    seed: int
    chain: int
    n_sweeps: int
    logit_q: NDArray[np.float64]  # (P,)
    z: NDArray[np.bool_]  # (N, S)
    w: NDArray[np.bool_]  # (N, S, P)  for all pairs, as in the paper
    kappa: NDArray[np.float64]  # (N, S)  Model III: for all pairs
    log_step: NDArray[np.float64]  # (P,)  of the random walk on logit q
    n_adapted: int = 0

    def rng(self, purpose: int = 0) -> np.random.Generator:
        """Random numbers for the current sweep, with a separate stream for every purpose."""
        return np.random.default_rng(np.random.SeedSequence([self.seed, self.chain, self.n_sweeps, purpose]))


@dataclass
class _Counts:
    """Running sums over the parents and over the cases, so that single-site updates need not recompute them."""

    agree: NDArray[np.float64]  # (N, P)  votes for the case's own value
    total: NDArray[np.float64]  # (N, P)  all votes on the feature
    own: NDArray[np.float64]  # (N,)  mu-weighted votes for the case's own class
    all: NDArray[np.float64]  # (N,)  mu-weighted votes for all classes
    n_on: NDArray[np.float64]  # (S, P)  sum_i w_ibj, over all cases


class PaperEngine(Engine[PaperState]):
    """Metropolis-within-Gibbs on (z, q, w), with q-tilde integrated out."""

    def __init__(self, data: Data, model: Model, n_threads: int = 1) -> None:
        super().__init__(data, model, n_threads)
        self._allowed = bp.may_be_neighbors(data)
        # A feature whose value is missing in the case has likelihood 1, as if there were no votes.
        self._agrees = bp.agreement(data).astype(np.float64)
        self._votable = (bp.can_vote(data)[None] & bp.observed(data)[:, None]).astype(np.float64)
        # A hidden label is treated in the same way.
        mu = np.append(model.hyper.mu_per_class(data.n_classes), 0.0)
        self._label_weight = np.where((data.y == bp.HIDDEN)[:, None], 0.0, mu[data.y_parents])
        self._own_label_weight = self._label_weight * (data.y[:, None] == data.y_parents)
        self._c1, self._c2 = bp.feature_constants(data, model)
        label_c1, self._label_c2 = bp.label_constants(data, model)
        self._label_c1 = label_c1[np.maximum(data.y, 0)]  # (N,) of the case's own class; not read if it is hidden

    @classmethod
    def bytes_per_chain(cls, sizes: ProblemSizes, model: Model, n_threads: int) -> tuple[int, int]:
        """All arrays are dense: two arrays of doubles for all pairs, z, w, kappa, and their products in a sweep."""
        n_pairs = sizes.n_cases * sizes.n_parents
        return n_pairs * (17 * sizes.n_features + 26), n_pairs * (32 * sizes.n_features + 16)

    def start(self, seed: int, chain: int) -> PaperState:
        """A new chain, started from a draw of the prior."""
        (n_cases, n_features), n_parents = self.data.x.shape, len(self.data.x_parents)
        state = PaperState(
            seed=seed,
            chain=chain,
            n_sweeps=0,
            logit_q=np.empty(n_features),
            z=np.empty((n_cases, n_parents), dtype=np.bool_),
            w=np.empty((n_cases, n_parents, n_features), dtype=np.bool_),
            kappa=np.empty((n_cases, n_parents)),
            log_step=np.zeros(n_features),
        )
        latent, _ = draw_prior(state.rng(), self.model, n_cases, n_parents, n_features, self.data.own_parent)
        # A draw of q may round to 0 or 1; the random walk needs a finite starting point.
        state.logit_q = np.clip(logit(latent.q), -30.0, 30.0)
        state.z, state.w, state.kappa = latent.z, latent.w, latent.kappa
        return state

    def set_importance(self, state: PaperState, q: NDArray[np.float64], q_tilde: NDArray[np.float64]) -> None:
        """Set q of a chain; q-tilde is integrated out."""
        state.logit_q = np.clip(logit(q), -30.0, 30.0)

    def sweep(self, state: PaperState, adapt: bool = False) -> None:
        """Update z, q and w once, in the paper's order."""
        state.n_sweeps += 1
        rng = state.rng()
        counts = self._count(state)
        for b in range(state.z.shape[1]):
            self._update_z(state, counts, b, rng)
        self._update_q(state, counts.n_on, rng, adapt)
        for i, b in np.ndindex(state.z.shape):
            if not state.z[i, b]:
                self._update_w_of_non_neighbor(state, counts, i, b, rng)
            elif self.model.kind == "II":
                self._update_w_one_by_one(state, counts, i, b, rng)
            else:
                self._update_w(state, counts, i, b, rng)

    def observe(self, state: PaperState) -> Observation:
        """The quantities to store; q-tilde is drawn from its conditional distribution, `eq:qw`."""
        latent = self.latent(state)
        n_on = state.w.sum(axis=0)
        n_off = len(state.w) - n_on
        q_tilde = state.rng(purpose=1).beta(self._prior_shape(state.logit_q) + n_on, self.model.hyper.sigma2 + n_off)
        return Observation(
            q=latent.q,
            q_tilde=q_tilde,
            n_neighbors=state.z.sum(axis=1, dtype=np.int32),
            votes=bp.class_votes(self.data, self.model, latent),
            log_joint=bp.log_joint(self.data, self.model, latent),
        )

    def latent(self, state: PaperState) -> Latent:
        """A copy of the state as dense arrays."""
        return Latent(q=expit(state.logit_q), z=state.z.copy(), w=state.w.copy(), kappa=state.kappa.copy())

    def add_neighbors(self, state: PaperState, z_sum: NDArray[np.float32], w_sum: NDArray[np.float32] | None) -> None:
        """Add z and, if requested, z*w of this draw to the running sums."""
        z_sum += state.z
        if w_sum is not None:
            w_sum += state.z[:, :, None] & state.w

    # z

    def _update_z(self, state: PaperState, counts: _Counts, b: int, rng: np.random.Generator) -> None:
        """`eq:zupdate`: whether parent b is a neighbor of each case. Given w and q, the cases are independent."""
        w = state.w[:, b].astype(np.float64)
        kappa = self._kappa_if_on(state, slice(None), b)
        self._add(counts, slice(None), b, -kappa * state.z[:, b], w)
        if self.model.kind == "III":
            kappa = self._choose_kappa(counts, b, kappa, w, rng)
            state.kappa[:, b] = kappa
        log_odds = logit(self.model.hyper.alpha) + self._log_ratio(counts, slice(None), b, kappa, w)
        state.z[:, b] = (rng.random(len(w)) < expit(log_odds)) & self._allowed[:, b]
        self._add(counts, slice(None), b, kappa * state.z[:, b], w)

    def _choose_kappa(
        self,
        counts: _Counts,
        b: int,
        kappa: NDArray[np.float64],
        w: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> NDArray[np.float64]:
        """Model III: choose kappa of parent b for every case, with z summed out.

        Departs from the paper: its step for z given kappa can never switch a neighbor off. Here every pair has a kappa,
        which follows its prior if z is off. The new value is chosen among the current one and new draws from the prior,
        in proportion to 1 - alpha + alpha L(kappa), which leaves the posterior invariant.
        """
        hyper = self.model.hyper
        fresh = rng.beta(hyper.tau, hyper.sigma3, (N_CANDIDATES - 1, len(kappa)))
        candidates = np.concatenate([kappa[None], fresh])
        log_ratio = np.stack([self._log_ratio(counts, slice(None), b, candidate, w) for candidate in candidates])
        # The pair of a case and itself is off for any kappa, so all candidates have the same weight.
        log_ratio = np.where(self._allowed[:, b], log_ratio, 0.0)
        log_weight = np.logaddexp(np.log1p(-hyper.alpha), np.log(hyper.alpha) + log_ratio)
        # The index of the largest log weight + Gumbel noise is a draw in proportion to the weights.
        chosen = np.argmax(log_weight + rng.gumbel(size=log_weight.shape), axis=0)
        return np.take_along_axis(candidates, chosen[None], axis=0)[0]

    # q

    def _update_q(self, state: PaperState, n_on: NDArray[np.float64], rng: np.random.Generator, adapt: bool) -> None:
        """`eq:qupdate` by random-walk Metropolis on logit q. Given w, the features are independent."""
        proposal = state.logit_q + np.exp(state.log_step) * rng.standard_normal(len(state.logit_q))
        log_ratio = self._log_density_logit_q(proposal, n_on) - self._log_density_logit_q(state.logit_q, n_on)
        accepted = np.log(rng.random(len(proposal))) < log_ratio
        state.logit_q = np.where(accepted, proposal, state.logit_q)
        if adapt:  # Robbins and Monro: ever smaller corrections of the step toward the optimal acceptance rate
            state.n_adapted += 1
            state.log_step = state.log_step + (np.exp(np.minimum(log_ratio, 0.0)) - ACCEPTANCE) * state.n_adapted**-0.6

    def _log_density_logit_q(self, logit_q: NDArray[np.float64], n_on: NDArray[np.float64]) -> NDArray[np.float64]:
        """(P,) log p(q_j | w) on the logit scale: the exponents of the prior include the Jacobian q (1 - q)."""
        hyper = self.model.hyper
        shape = self._prior_shape(logit_q)
        gamma, sigma1 = hyper.q_prior(len(logit_q))
        log_prior = gamma * log_expit(logit_q) + sigma1 * log_expit(-logit_q)
        n_off = len(self.data.x) - n_on
        return log_prior + (betaln(shape + n_on, hyper.sigma2 + n_off) - betaln(shape, hyper.sigma2)).sum(axis=0)

    # w

    def _update_w(self, state: PaperState, counts: _Counts, i: int, b: int, rng: np.random.Generator) -> None:
        """`eq:wupdate`, Models I and III: which features of neighbor b are relevant to case i, independently."""
        kappa = self._kappa_if_on(state, i, b)
        w = state.w[i, b].astype(np.float64)
        self._add(counts, i, b, -kappa, w)
        counts.n_on[b] -= w
        on, off = self._prior_odds_w(state, counts, b)
        log_odds = np.log(on / off)
        log_odds += self._log_ratio_features(counts, i, b, kappa, np.ones_like(w))
        state.w[i, b] = rng.random(len(w)) < expit(log_odds)
        w = state.w[i, b].astype(np.float64)
        counts.n_on[b] += w
        self._add(counts, i, b, kappa, w)

    def _update_w_one_by_one(
        self, state: PaperState, counts: _Counts, i: int, b: int, rng: np.random.Generator
    ) -> None:
        """Appendix B, Model II: every w_ibj changes kappa, and thus the votes on all features and on the class."""
        w = state.w[i, b].astype(np.float64)
        self._add(counts, i, b, -w.sum(), w)
        counts.n_on[b] -= w
        on, off = self._prior_odds_w(state, counts, b)
        prior_log_odds = np.log(on / off)
        for j, uniform in enumerate(rng.random(len(w))):
            off_and_on = np.array([w, w])
            off_and_on[:, j] = 0.0, 1.0
            log_off, log_on = self._log_ratio(counts, i, b, off_and_on.sum(axis=1), off_and_on)
            w[j] = uniform < expit(prior_log_odds[j] + log_on - log_off)
        state.w[i, b] = w > 0
        counts.n_on[b] += w
        self._add(counts, i, b, w.sum(), w)

    def _update_w_of_non_neighbor(
        self, state: PaperState, counts: _Counts, i: int, b: int, rng: np.random.Generator
    ) -> None:
        """`eq:wupdate` if z is off: without evidence from the data, w depends on the other cases' w of this parent."""
        counts.n_on[b] -= state.w[i, b]
        on, off = self._prior_odds_w(state, counts, b)
        state.w[i, b] = rng.random(len(on)) * (on + off) < on
        counts.n_on[b] += state.w[i, b]

    def _prior_odds_w(
        self, state: PaperState, counts: _Counts, b: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(P,) prior odds that w_ibj is on given the other cases' w, of which n_on are on: a ratio of `eq:simpw`."""
        n_on = counts.n_on[b]
        return self._prior_shape(state.logit_q) + n_on, self.model.hyper.sigma2 + (len(state.w) - 1 - n_on)

    # Votes and their likelihood; `i` is one case or a slice of all cases

    def _prior_shape(self, logit_q: NDArray[np.float64]) -> NDArray[np.float64]:
        """q'_j = sigma2 q_j / (1 - q_j)."""
        return self.model.hyper.sigma2 * np.exp(logit_q)

    def _kappa_if_on(self, state: PaperState, i: int | slice, b: int | slice) -> NDArray[np.float64]:
        """The weight of parent b's vote on case i if b is a neighbor."""
        if self.model.kind == "III":
            return state.kappa[i, b]
        if self.model.kind == "II":
            return state.w[i, b].sum(axis=-1, dtype=np.float64)
        return np.ones_like(state.kappa[i, b])

    def _count(self, state: PaperState) -> _Counts:
        """Count all votes again: the data may be new, and sums of kappas must not drift."""
        kappa = self._kappa_if_on(state, slice(None), slice(None)) * state.z
        votes = kappa[:, :, None] * state.w * self._votable
        return _Counts(
            agree=(votes * self._agrees).sum(axis=1),
            total=votes.sum(axis=1),
            own=(kappa * self._own_label_weight).sum(axis=1),
            all=(kappa * self._label_weight).sum(axis=1),
            n_on=state.w.sum(axis=0, dtype=np.float64),
        )

    def _add(
        self, counts: _Counts, i: int | slice, b: int, kappa: NDArray[np.float64] | float, w: NDArray[np.float64]
    ) -> None:
        """Add a vote of parent b with weight kappa on the features selected by w; a negative weight removes it."""
        vote = np.asarray(kappa)[..., None] * w * self._votable[i, b]
        counts.agree[i] += vote * self._agrees[i, b]
        counts.total[i] += vote
        counts.own[i] += kappa * self._own_label_weight[i, b]
        counts.all[i] += kappa * self._label_weight[i, b]

    def _log_ratio_features(
        self, counts: _Counts, i: int | slice, b: int, kappa: NDArray[np.float64] | float, w: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """(..., P) the change in log p(x_ij) if parent b, whose vote is not counted yet, votes with weight kappa."""
        vote = self.model.hyper.lam * np.asarray(kappa)[..., None] * w * self._votable[i, b]
        agree = self._c1 + self.model.hyper.lam * counts.agree[i]
        total = self._c2 + self.model.hyper.lam * counts.total[i]
        return np.log1p(vote * self._agrees[i, b] / agree) - np.log1p(vote / total)

    def _log_ratio(
        self, counts: _Counts, i: int | slice, b: int, kappa: NDArray[np.float64] | float, w: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """(...) the change in log p(x_i) + log p(y_i) if parent b votes with weight kappa on features and class."""
        own = np.log1p(kappa * self._own_label_weight[i, b] / (self._label_c1[i] + counts.own[i]))
        all_ = np.log1p(kappa * self._label_weight[i, b] / (self._label_c2 + counts.all[i]))
        return self._log_ratio_features(counts, i, b, kappa, w).sum(axis=-1) + own - all_
