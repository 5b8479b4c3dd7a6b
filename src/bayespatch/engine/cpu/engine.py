"""The production engine: runs the kernels on threads over cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit

from bayespatch.engine.base import GivenEngine, Neighbors, Observation, ProblemSizes, first_capacity
from bayespatch.engine.blocks import block_edges, log_ratio_blocks, sum_blocks, sum_of_blocks
from bayespatch.engine.cpu import importance, layout, screen, summary, sums, update
from bayespatch.engine.importance import N_MOVES, TARGET_ACCEPTANCE, draw_prior, log_prior, logit_inside
from bayespatch.engine.streams import CARRY, CASES, GLOBAL, MOVE, PARENTS, PRIOR, PROPOSE, SUM, chain_key, subkey
from bayespatch.model import Data, Latent, Model


@dataclass
class CpuState:
    """One chain. w and kappa are stored only for neighbors; q and q-tilde are stored as logits, because the
    probabilities may round to 0 or 1.
    """

    seed: int
    chain: int
    n_sweeps: int
    logit_q: NDArray[np.float64]  # (P,)
    logit_q_tilde: NDArray[np.float64]  # (S, P)
    neighbors: Neighbors
    step: NDArray[np.float64]  # (P,) width of the proposals for logit q; the sign is the direction of the next one


class CpuEngine(GivenEngine[CpuState]):
    """Blocked Gibbs sampling of z, w and kappa, case by case, with a joint move of q and q-tilde."""

    GROWING = frozenset({"neighbors.parent", "neighbors.bits", "neighbors.kappa"})

    def __init__(self, data: Data, model: Model, n_threads: int = 1) -> None:
        super().__init__(data, model, n_threads)
        self.constants = layout.constants_of(data, model)
        self.tables = layout.tables_of(data, model)
        self.importance = layout.blank_importance(self.tables)
        self.proposed = layout.blank_importance(self.tables)
        self.proposed_logits = np.empty(data.x_parents.shape)
        # Model II: w of the feature that moves, and the votes on the cases in the form of `count_all_votes`.
        self.drawn = np.empty((0, 0), bool)  # (N, C)
        self.kept = np.empty((0, 2, 2, 0), np.float32)  # (N, 2, 2, F)
        self.kept_classes = np.empty((0, 2, 0), np.float32)  # (N, 2, M)
        self.likelihood = np.empty((2, 0, 0))  # p(x_ij | z_i), w summed out, for the current and proposed importances
        self.present_known = False  # whether the first one is up to date
        self.work = [layout.blank_work(self.constants, self.tables) for _ in range(n_threads)]
        self.rough = screen.blank_rough(self.constants, self.tables, n_threads)
        self.sums: list[layout.Sums] = []
        # For a part of the data: the numbers of its cases in the whole data, and the start of each block.
        self.numbers = np.arange(len(data.x))
        self.edges = block_edges(len(data.x))
        self.summed_capacity = 0  # capacity for which the sums are allocated
        self.pool = ThreadPoolExecutor(n_threads - 1) if n_threads > 1 else None  # in addition to the caller's thread

    @classmethod
    def bytes_per_chain(cls, sizes: ProblemSizes, model: Model, n_threads: int) -> tuple[int, int]:
        """Tables, importances, scratch memory and neighbors; additionally the arrays over cases that a sweep fills."""
        n_cases, n_parents, n_features, n_classes = sizes
        width, words = layout.padded_width(n_features), -(-n_features // 64)
        capacity = first_capacity(n_parents, model.hyper.alpha)
        entry = 4 + 8 * words + (8 if model.kind == "III" else 0)
        tables = (8 + 4) * width * (n_cases + n_parents) + 16 * n_cases
        rough = 4 * n_parents * width
        importances = 2 * 4 * 8 * n_parents * width + 2 * 8 * n_parents * n_features
        scratch = n_threads * n_parents * (16 + 8 * words)
        kept = capacity + 4 * (4 * width + 2 * n_classes) if model.kind == "II" else 0
        neighbors = n_cases * (4 + capacity * entry + kept + 8)
        compared = 1 if model.kind == "II" else 2 * n_features
        swept = n_cases * (8 + 1 + 8 * compared + 8 + 16 * n_classes) + 3 * 8 * n_parents * n_features
        return tables + importances + rough + scratch + neighbors, swept

    def start(self, seed: int, chain: int) -> CpuState:
        """Draw q and q-tilde from their priors. There are no neighbors before the first sweep."""
        hyper = self.model.hyper
        n_cases, n_features = self.data.x.shape
        n_parents = self.data.x_parents.shape[0]
        key = subkey(chain_key(seed, chain), PRIOR)
        logit_q, logits = draw_prior(n_parents, n_features, *hyper.q_prior(n_features), float(hyper.sigma2), key)
        capacity = first_capacity(n_parents, hyper.alpha)
        neighbors = layout.blank_neighbors(self.constants, n_cases, capacity)
        return CpuState(seed, chain, 0, logit_q, logits, neighbors, np.full(n_features, 0.5))

    def set_importance(self, state: CpuState, q: NDArray[np.float64], q_tilde: NDArray[np.float64]) -> None:
        """Set q and q-tilde of a chain; values that were rounded to 0 or 1 are moved slightly into the interval."""
        state.logit_q = logit_inside(q)
        state.logit_q_tilde = logit_inside(q_tilde)

    def thaw(self, arrays: Mapping[str, NDArray[np.generic]], seed: int, chain: int) -> CpuState:
        """Restore a state from `freeze`. Indices are checked here, because kernels do not check array bounds."""
        state = super().thaw(arrays, seed, chain)
        layout.check_neighbors(self.constants, state.neighbors, len(self.data.x_parents))
        return state

    def sweep(self, state: CpuState, adapt: bool = False) -> None:
        """Update the cases given q-tilde, then q and q-tilde: a few times with w summed out, then once given w."""
        key = subkey(chain_key(state.seed, state.chain), state.n_sweeps + 1)
        self.update_cases(state, subkey(key, CASES))
        self.move_importance(state, key, adapt)
        self.draw_importance(state, key)
        state.n_sweeps += 1

    def sweep_given_q(self, state: CpuState, q: NDArray[np.float64]) -> None:
        """Update the cases given q-tilde, then q-tilde given q and w."""
        state.logit_q = logit_inside(q)
        key = subkey(chain_key(state.seed, state.chain), state.n_sweeps + 1)
        self.update_cases(state, subkey(key, CASES))
        self.draw_q_tilde(state, key, *self.count_neighbors(state))
        state.n_sweeps += 1

    def update_cases(self, state: CpuState, key: np.uint64) -> None:
        """Update z, w and kappa of every case given q-tilde."""
        self.update_some(state, state.logit_q_tilde, key, self.numbers, 0, len(self.data.x))

    def update_given(
        self, state: CpuState, q_tilde: NDArray[np.floating], key: np.uint64, numbers: NDArray[np.int64]
    ) -> None:
        """Update z, w and kappa of every case given q-tilde of its part, one part after another."""
        size = len(self.data.x) // len(q_tilde)
        for part, given in enumerate(q_tilde):
            self.update_some(state, logit_inside(given), key, numbers, part * size, (part + 1) * size)

    def update_some(
        self,
        state: CpuState,
        logits: NDArray[np.float64],
        key: np.uint64,
        numbers: NDArray[np.int64],
        first: int,
        last: int,
    ) -> None:
        """Update z, w and kappa of cases first..last-1 given logit q-tilde. Streams depend on the case's number."""
        importance.fill_importance(logits, self.tables.x_parents, self.importance)
        screen.fill_rough(self.rough[0], self.importance)
        todo = np.zeros(len(self.data.x), bool)
        todo[first:last] = True
        while True:
            self.over(
                last - first,
                lambda thread, lo, hi: update.update_cases(
                    self.constants, self.tables, self.importance, state.neighbors, self.work[thread],
                    self.rough[thread], numbers, key, todo, first + lo, first + hi,
                ),
            )  # fmt: skip
            if not todo.any():
                return
            # Some cases found more neighbors than fit and are unchanged: repeat them with a larger capacity.
            room = min(2 * state.neighbors.parent.shape[1], self.data.x_parents.shape[0])
            state.neighbors = layout.with_capacity(state.neighbors, room)

    def move_importance(self, state: CpuState, key: np.uint64, adapt: bool) -> None:
        """Propose (q_j, q~_:j) with w_:j summed out, a few times, and draw w_:j of the features that moved.

        Given z, features are independent except in Model II.
        """
        self.prepare_comparison(state)
        n_features = self.data.x.shape[1]
        used = self.count_cases(state)
        step = 1 if self.model.kind == "II" else n_features
        for first in range(0, n_features, step):
            moved = np.zeros(step, bool)
            for number in range(N_MOVES[self.model.kind]):
                moved |= self.move_features(state, key, subkey(key, MOVE + number), used, first, first + step, adapt)
            if moved.any():
                self.redraw_features(state, key, first + np.flatnonzero(moved))

    def prepare_comparison(self, state: CpuState) -> None:
        """The current importances, memory for sums over the current neighbors, and in Model II their votes."""
        capacity = state.neighbors.parent.shape[1]
        if capacity > self.summed_capacity:
            self.sums = [layout.blank_sums(self.constants, self.tables, capacity) for _ in range(self.n_threads)]
            self.summed_capacity = capacity
            self.drawn = np.zeros((len(self.data.x), capacity if self.model.kind == "II" else 0), bool)
        importance.fill_importance(state.logit_q_tilde, self.tables.x_parents, self.importance)
        n_cases, width = self.tables.x.shape
        if self.model.kind == "II":
            if len(self.kept) != n_cases:
                self.kept = np.empty((n_cases, 2, 2, width), np.float32)
                self.kept_classes = np.empty((n_cases, 2, self.data.n_classes), np.float32)
            self.over(
                n_cases,
                lambda _, first, last: sums.count_all_votes(
                    self.constants, self.tables, state.neighbors, self.kept, self.kept_classes, first, last
                ),
            )
        else:
            if self.likelihood.shape[1:] != self.data.x.shape:
                self.likelihood = np.empty((2, *self.data.x.shape))
            self.present_known = False

    def move_features(
        self,
        state: CpuState,
        key: np.uint64,
        move_key: np.uint64,
        used: NDArray[np.int64],
        first: int,
        last: int,
        adapt: bool,
    ) -> NDArray[np.bool_]:
        """Propose moves of features first..last-1, which are accepted separately; returns the accepted features."""
        far, uniforms = importance.draw_for_proposals(subkey(move_key, PROPOSE), first, last)
        logit_q_new = state.logit_q[first:last] + state.step[first:last] * far
        log_accept = self.carry_along(state, move_key, logit_q_new, used, first, last)
        log_accept += sum_of_blocks(self.compare_importance(state, key, move_key, logit_q_new, first, last))
        accepted = np.log1p(-uniforms) < log_accept
        if adapt:
            chance = np.exp(np.minimum(np.nan_to_num(log_accept, nan=-np.inf), 0.0))
            rate = 3.0 / (state.n_sweeps + 10.0) ** 0.6
            state.step[first:last] *= np.exp(rate * (chance - TARGET_ACCEPTANCE))
        state.step[first:last][~accepted] *= -1.0  # a rejection reverses the direction
        if accepted.any():
            state.logit_q[first:last][accepted] = logit_q_new[accepted]
            self.accept_importance(state, used, first + np.flatnonzero(accepted))
        return np.asarray(accepted)

    def compare_importance(
        self,
        state: CpuState,
        key: np.uint64,
        move_key: np.uint64,
        logit_q_new: NDArray[np.float64],
        first: int,
        last: int,
    ) -> NDArray[np.float64]:
        """Log likelihood ratio of the proposed importances of features first..last-1, by block and feature.

        `move_key` has already stored them in `self.proposed`, with `logit_q_new`.
        """
        n_cases, sum_key = self.data.x.shape[0], subkey(key, SUM)
        if self.model.kind != "II":

            def find(thread: int, lo: int, hi: int) -> None:
                data = self.constants, self.tables
                lists = state.neighbors, self.sums[thread]
                if not self.present_known:
                    sums.find_likelihood(*data, self.importance, *lists, self.likelihood[0], lo, hi)
                sums.find_likelihood(*data, self.proposed, *lists, self.likelihood[1], lo, hi)

            self.over(n_cases, find)
            self.present_known = True
            return np.asarray(log_ratio_blocks(self.likelihood[1], self.likelihood[0], self.edges))
        log_ratio = np.empty((n_cases, 1))
        self.over(
            n_cases,
            lambda thread, lo, hi: sums.compare_importance(
                self.constants, self.tables, self.importance, self.proposed, state.neighbors, self.kept,
                self.kept_classes, self.sums[thread], self.numbers, sum_key, self.drawn, log_ratio[:, 0], first, lo, hi,
            ),
        )  # fmt: skip
        return np.asarray(sum_blocks(log_ratio, self.edges))

    def accept_importance(self, state: CpuState, used: NDArray[np.int64], features: NDArray[np.int64]) -> None:
        """Replace the current importances of these features with the proposed ones."""
        importance.accept_features(
            state.logit_q_tilde, self.proposed_logits, self.importance, self.proposed, used, features
        )
        if self.model.kind != "II":
            self.likelihood[0][:, features] = self.likelihood[1][:, features]

    def redraw_features(self, state: CpuState, key: np.uint64, features: NDArray[np.int64]) -> None:
        """Draw w of these features given z and the current importances; Model II uses the draw of
        `compare_importance`.
        """
        sum_key = subkey(key, SUM)

        def redraw(thread: int, first: int, last: int) -> None:
            if self.model.kind == "II":
                sums.take_drawn(
                    self.constants, self.tables, state.neighbors, self.kept, self.kept_classes, self.drawn,
                    features[0], first, last,
                )  # fmt: skip
                return
            sums.redraw_features(
                self.constants, self.tables, self.importance, state.neighbors, self.sums[thread],
                self.numbers, sum_key, features, first, last,
            )  # fmt: skip

        self.over(self.data.x.shape[0], redraw)

    def carry_along(
        self,
        state: CpuState,
        key: np.uint64,
        logit_q_new: NDArray[np.float64],
        used: NDArray[np.int64],
        first: int,
        last: int,
    ) -> NDArray[np.float64]:
        """Compute q-tilde for the new q in `self.proposed`; returns log (prior ratio x Jacobian) per feature."""
        hyper, carry_key = self.model.hyper, subkey(key, CARRY)
        logit_q = state.logit_q[first:last]
        log_each = np.empty((len(used), last - first))
        self.over(
            len(used),
            lambda _, lo, hi: importance.carry_along(
                state.logit_q_tilde, used, float(hyper.sigma2), logit_q, logit_q_new, carry_key, first,
                self.tables.x_parents, self.proposed, self.proposed_logits, log_each, lo, hi,
            ),
        )  # fmt: skip
        gamma, sigma1 = (each[first:last] for each in hyper.q_prior(self.data.x.shape[1]))
        before, after = (-gamma * np.logaddexp(0.0, -q) - sigma1 * np.logaddexp(0.0, q) for q in (logit_q, logit_q_new))
        return np.asarray(log_each.sum(axis=0) + after - before)

    def draw_importance(self, state: CpuState, key: np.uint64) -> None:
        """Draw q given w with q-tilde integrated out, then q-tilde given both."""
        hyper = self.model.hyper
        n_neighbors, n_on = self.count_neighbors(state)
        sigma2 = float(hyper.sigma2)
        importance.draw_q_given_w(
            state.logit_q, n_neighbors, n_on, *hyper.q_prior(len(state.logit_q)), sigma2, subkey(key, GLOBAL)
        )
        self.draw_q_tilde(state, key, n_neighbors, n_on)

    def draw_q_tilde(
        self, state: CpuState, key: np.uint64, n_neighbors: NDArray[np.int64], n_on: NDArray[np.int64]
    ) -> None:
        """Draw q-tilde given q and w."""
        parents_key, sigma2 = subkey(key, PARENTS), float(self.model.hyper.sigma2)
        self.over(
            state.logit_q_tilde.shape[0],
            lambda _, first, last: importance.draw_q_tilde_given_w(
                state.logit_q_tilde, state.logit_q, n_neighbors, n_on, sigma2, parents_key, first, last
            ),
        )

    def count_cases(self, state: CpuState) -> NDArray[np.int64]:
        """Only n_b (S,) of `count_neighbors`."""
        return np.asarray(summary.count_cases(state.neighbors, self.data.x_parents.shape[0]))

    def count_neighbors(self, state: CpuState) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """n_b (S,): number of cases that parent b is a neighbor of; s_bj (S, P): number of these with feature j on."""
        counts = [(np.empty(0, np.int64), np.empty(0, np.int64))] * self.n_threads

        def count(thread: int, first: int, last: int) -> None:
            n, parent, bits, kappa = state.neighbors
            some = Neighbors(n[first:last], parent[first:last], bits[first:last], kappa[first:last])
            counts[thread] = summary.count_neighbors(some, *state.logit_q_tilde.shape)

        self.over(self.data.x.shape[0], count)
        n_neighbors, n_on = (sum(parts[1:], start=parts[0]) for parts in zip(*counts, strict=True))
        return n_neighbors, n_on

    def over(self, n: int, task: Callable[[int, int, int], None]) -> None:
        """Run task(thread, first, last) over 0..n-1, once per thread; the first run uses the current thread."""
        if self.pool is None:
            task(0, 0, n)
            return
        edges = [n * k // self.n_threads for k in range(self.n_threads + 1)]
        jobs = [self.pool.submit(task, k, edges[k], edges[k + 1]) for k in range(1, self.n_threads)]
        try:
            task(0, 0, edges[1])
        finally:
            wait(jobs)
        for job in jobs:
            job.result()

    def observe(self, state: CpuState) -> Observation:
        """The quantities to store after a sweep."""
        votes, by_block = self.summarise_blocks(state)
        n_neighbors, n_on = self.count_neighbors(state)
        log_likelihood, log_kappa = sum_of_blocks(by_block)
        log = log_likelihood + log_prior(self.data, self.model, state.logit_q, n_neighbors, n_on, log_kappa)
        n = state.neighbors.n.copy()
        return Observation(expit(state.logit_q), expit(state.logit_q_tilde), n, votes, float(log))

    def summarise_blocks(self, state: CpuState) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Vote shares (N, M), and the log likelihood of each block with, in Model III, the log prior of kappa."""
        votes, log_likelihood = self.summarise(state)
        log = np.zeros((len(votes), 2))
        log[:, 0] = log_likelihood
        if self.model.kind == "III":
            tau, sigma3 = float(self.model.hyper.tau), float(self.model.hyper.sigma3)
            summary.log_prior_kappa(state.neighbors, tau, sigma3, float(betaln(tau, sigma3)), log[:, 1:])
        return votes, np.asarray(sum_blocks(log, self.edges))

    def summarise(self, state: CpuState) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Vote shares (N, M) and log likelihood (N,)."""
        n_cases = self.data.x.shape[0]
        votes = np.empty((n_cases, self.data.n_classes))
        log_likelihood = np.empty(n_cases)
        self.over(
            n_cases,
            lambda thread, first, last: summary.summarise_cases(
                self.constants, self.tables, state.neighbors, self.work[thread],
                votes, log_likelihood, first, last,
            ),
        )  # fmt: skip
        return votes, log_likelihood

    def neighbors(self, state: CpuState) -> Neighbors:
        """The lists of neighbors."""
        return state.neighbors

    def latent(self, state: CpuState) -> Latent:
        """The state as dense arrays."""
        n_cases, n_features = self.data.x.shape
        n_parents = self.data.x_parents.shape[0]
        z = np.zeros((n_cases, n_parents), np.float32)
        w = np.zeros((n_cases, n_parents, n_features), np.float32)
        self.add_neighbors(state, z, w)
        kappa = np.zeros((n_cases, n_parents))
        if self.model.kind == "III":
            for i, n in enumerate(state.neighbors.n):
                kappa[i, state.neighbors.parent[i, :n]] = state.neighbors.kappa[i, :n]
        return Latent(expit(state.logit_q), z > 0, w > 0, kappa)

    def add_neighbors(self, state: CpuState, z_sum: NDArray[np.float32], w_sum: NDArray[np.float32] | None) -> None:
        """Add z and, if requested, z*w of this draw to the running sums."""
        summary.add_z(state.neighbors, z_sum)
        if w_sum is not None:
            summary.add_w(state.neighbors, w_sum)
