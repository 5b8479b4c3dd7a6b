"""The engine for an NVIDIA GPU: the moves of ``engine/cpu`` as CUDA kernels (numba-cuda), with the state on the GPU.

One engine serves several chains: it holds the data, and the state of each chain has all the memory that its moves need.
A sweep waits for the GPU once, to find out whether the lists of neighbors were long enough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from numba import cuda
from numpy.typing import NDArray
from scipy.special import expit

from bayespatch.engine.base import Engine, GivenEngine, Neighbors, Observation, first_capacity, frozen, neighbors_of
from bayespatch.engine.cpu import layout as cpu_layout
from bayespatch.engine.cpu.engine import CpuEngine, CpuState
from bayespatch.engine.cpu.summary import add_w, add_z
from bayespatch.engine.importance import N_MOVES, draw_prior, log_prior, logit_inside
from bayespatch.engine.quadrature import make_nodes, make_rates
from bayespatch.engine.streams import CARRY, CASES, GLOBAL, MOVE, PARENTS, PRIOR, PROPOSE, SUM, chain_key, subkey
from bayespatch.engine.votes import PARENT_MISSING
from bayespatch.model import Data, Latent, Model, feature_constants, log_beta_density
from bayespatch_cuda import importance, layout, summary, sums, update
from bayespatch_cuda.importance import Chain, Move, ParentCodes, Prior
from bayespatch_cuda.launch import Grid, Launcher, grid_of_pairs, grid_over, power_of_two
from bayespatch_cuda.layout import (
    DeviceData,
    DeviceNeighbors,
    Importance,
    ImportanceOfParts,
    UpdateArguments,
)
from bayespatch_cuda.update import Shape
from bayespatch_cuda.weigh import LOG_STEP

if TYPE_CHECKING:
    from numba.cuda.cudadrv.driver import Stream
    from numba.cuda.dispatcher import CUDADispatcher

MOST_AT_ONCE = 8  # features; more would need more registers, so that fewer groups could run in parallel


@dataclass
class CudaState:
    """One chain on the GPU."""

    seed: int
    chain: int
    n_sweeps: int
    importance: Importance
    as_one_part: ImportanceOfParts  # `importance` as a single part with all cases
    parts: ImportanceOfParts | None  # the importances last used for the cases
    weights: Chain  # q and q-tilde
    move: Move
    entries: DeviceNeighbors  # z, w and kappa
    spare: DeviceNeighbors  # output of the next update of the cases
    run: UpdateArguments
    stream: Stream
    launcher: Launcher


class CudaEngine(GivenEngine[CudaState]):
    """Blocked Gibbs sampling on a GPU."""

    GROWING = CpuEngine.GROWING

    @classmethod
    def is_available(cls) -> bool:
        """Whether there is a GPU with a working driver."""
        try:
            return find_spec("numba_cuda") is not None and bool(cuda.is_available())
        except Exception:  # for example, a driver that is incompatible with numba-cuda
            return False

    @classmethod
    def fits(cls, n_cases: int, n_parents: int, n_features: int) -> bool:
        """Whether the problem fits into the GPU's memory, with room for the chains."""
        return layout.fits(n_cases, n_parents, n_features)

    def __init__(self, data: Data, model: Model, n_threads: int = 1) -> None:
        super().__init__(data, model, n_threads)
        layout.require_gpu()
        n_cases, n_features = data.x.shape
        n_parents = len(data.x_parents)
        self.n_words = -(-n_features // 32)
        layout.check_fits(n_cases, n_parents, n_features)
        self.constants = cpu_layout.constants_of(data, model)
        kind = self.constants.kind
        group = layout.group_size(n_parents, n_features)
        self.shape = Shape(kind, n_features, data.n_classes, self.features_at_once(), group)
        gamma, sigma1 = model.hyper.q_prior(n_features)
        self.prior = Prior(layout.to_device(gamma), layout.to_device(sigma1), float(model.hyper.sigma2))
        self.table = self.table_of(data)
        self.parents = ParentCodes(layout.to_device(cpu_layout.padded(data.x_parents, n_features, PARENT_MISSING)))
        self.numbers = layout.to_device(np.arange(n_cases, dtype=np.int64))
        self.nodes: dict[int, sums.DeviceNodes] = {}  # by the capacity of the lists

    @classmethod
    def for_chains(cls, n_chains: int, data: Data, model: Model, n_threads: int = 1) -> list[Engine[CudaState]]:
        """One engine for all chains, which share the tables."""
        return [cls(data, model, n_threads)] * n_chains

    def features_at_once(self) -> int:
        """Number of factors that `weigh.largest_odds` multiplies at once: a power of two, to prevent overflow."""
        c = self.constants
        strongest = c.lam * (c.n_features if c.kind == 2 else 1)
        largest = 1.0 + strongest / min(c.c1, feature_constants(self.data, self.model)[1].min())
        return 1 << (min(MOST_AT_ONCE, int(LOG_STEP / math.log(largest))).bit_length() - 1)

    def table_of(self, data: Data) -> DeviceData:
        """Copy the data to the GPU."""
        n_cases, n_parents = len(data.x), len(data.x_parents)
        table = DeviceData(
            same=layout.blank((self.n_words, n_cases, n_parents), np.uint32),
            votes=layout.to_device(layout.words_of(~np.isnan(data.x_parents))),
            observed=layout.to_device(layout.words_of(~np.isnan(data.x))),
            y=layout.to_device(data.y.astype(np.int32)),
            own_parent=layout.to_device(data.own_parent.astype(np.int32)),
            y_parents=layout.to_device(data.y_parents.astype(np.int32)),
            c2=layout.to_device(feature_constants(data, self.model)[1]),
            mu=layout.to_device(cpu_layout.label_weights(data, self.model)),
        )
        values = (
            layout.to_device(data.x.T),
            layout.to_device(data.x_parents.T),
            layout.to_device(data.windows.astype(np.float64)),
        )
        blocks, threads = grid_over(n_parents)
        layout.find_agreement[(blocks, min(n_cases, 65535)), threads](values, table)
        cuda.synchronize()
        return table

    def start(self, seed: int, chain: int) -> CudaState:
        """Draw q and q-tilde from their priors. There are no neighbors before the first sweep."""
        hyper = self.model.hyper
        n_cases, n_features = self.data.x.shape
        n_parents = len(self.data.x_parents)
        key = subkey(chain_key(seed, chain), PRIOR)
        logit_q, logits = draw_prior(n_parents, n_features, *hyper.q_prior(n_features), float(hyper.sigma2), key)
        capacity = self.capacity_for(first_capacity(n_parents, hyper.alpha))
        pairs = (4, n_parents, n_features)
        group = self.shape.group
        looked_at = -(-n_parents // group) * group  # number of parents, rounded up to whole groups
        values = Importance(layout.blank(pairs, np.float64), layout.blank((looked_at * n_features,), np.float32), group)
        n_sums, _ = self.over_pairs()
        state = CudaState(
            seed,
            chain,
            0,
            values,
            ImportanceOfParts(
                values.double.reshape(1, *pairs),
                values.chance.reshape(1, -1),
                group,
                layout.blank((1, 1, 1), np.float32),  # not used
            ),
            None,
            Chain(
                layout.to_device(logit_q),
                layout.to_device(logits),
                layout.to_device(np.full(n_features, 0.5)),
                layout.to_device(np.zeros(n_parents, np.int32)),
                layout.to_device(np.zeros((n_parents, n_features), np.int32)),
                layout.blank((2, n_features, n_cases + 1), np.int32),
            ),
            Move(
                values.double,
                layout.blank(pairs, np.float64),
                layout.blank((n_features,), np.float64),
                layout.blank((n_parents, n_features), np.float64),
                layout.blank((n_features,), np.float64),
                layout.blank((n_features, n_sums), np.float64),
                layout.blank((n_features,), np.int32),
                layout.blank((1, 1, 1) if self.constants.kind == 2 else (2, n_cases, n_features), np.float64),
                layout.to_device(np.zeros(n_features, np.int32)),
            ),
            self.blank_entries(capacity),
            self.blank_entries(capacity),
            UpdateArguments(self.numbers, layout.to_device(np.zeros(1, np.int32))),
            cuda.stream(),
            Launcher(),
        )
        self.fill_importance(state)
        return state

    def blank_entries(self, capacity: int) -> DeviceNeighbors:
        """Lists without neighbors."""
        n_cases = self.data.x.shape[0]
        return DeviceNeighbors(
            layout.to_device(np.zeros(n_cases, np.int32)),
            layout.blank((n_cases, capacity), np.int32),
            layout.blank((n_cases, capacity, self.n_words), np.uint32),
            layout.blank((n_cases, capacity, self.n_words), np.uint32),
            layout.blank((n_cases, capacity) if self.constants.kind == 3 else (1, 1), np.float64),
            layout.blank((n_cases, capacity) if self.constants.kind == 2 else (1, 1), np.float64),
        )

    def launch(self, kernel: CUDADispatcher, grid: Grid, state: CudaState, *args: object) -> None:
        """Run a kernel in the chain's stream."""
        state.launcher(kernel, grid, state.stream, *args)

    def fill_importance(self, state: CudaState) -> None:
        """Compute q-tilde from its logits."""
        blocks, threads = grid_over(len(self.data.x_parents))
        grid = (blocks, self.data.x.shape[1]), threads
        self.launch(importance.fill_importance, grid, state, self.parents, state.weights, state.importance)

    def set_importance(self, state: CudaState, q: NDArray[np.float64], q_tilde: NDArray[np.float64]) -> None:
        """Set q and q-tilde of a chain; values that were rounded to 0 or 1 are moved slightly into the interval."""
        layout.overwrite(state.weights.logit_q, logit_inside(q))
        layout.overwrite(state.weights.logits, logit_inside(q_tilde))
        self.fill_importance(state)

    def sweep(self, state: CudaState, adapt: bool = False) -> None:
        """Update the cases given q-tilde, then q and q-tilde: a few times with w summed out, then once given w."""
        key = subkey(chain_key(state.seed, state.chain), state.n_sweeps + 1)
        self.update_cases(state, subkey(key, CASES))
        rate = 3.0 / (state.n_sweeps + 10.0) ** 0.6 if adapt else 0.0
        self.move_importance(state, key, rate)
        self.draw_importance(state, key)
        state.n_sweeps += 1

    def sweep_given_q(self, state: CudaState, q: NDArray[np.float64]) -> None:
        """Update the cases given q-tilde, then q-tilde given q and w."""
        layout.overwrite(state.weights.logit_q, logit_inside(q))
        key = subkey(chain_key(state.seed, state.chain), state.n_sweeps + 1)
        self.update_cases(state, subkey(key, CASES))
        self.draw_q_tilde(state, key)
        state.n_sweeps += 1

    def update_cases(self, state: CudaState, key: np.uint64) -> None:
        """Update z, w and kappa of every case given q-tilde."""
        self.update_parts(state, state.as_one_part, state.run, key)

    def update_given(
        self, state: CudaState, q_tilde: NDArray[np.floating], key: np.uint64, numbers: NDArray[np.int64]
    ) -> None:
        """Update z, w and kappa of every case given q-tilde of its part, all at once."""
        if state.parts is None or state.parts.given.shape != q_tilde.shape:
            n_parts = len(q_tilde)
            shapes = (n_parts, *state.importance.double.shape), (n_parts, *state.importance.chance.shape)
            state.parts = ImportanceOfParts(
                layout.blank(shapes[0], np.float64),
                layout.blank(shapes[1], np.float32),
                self.shape.group,
                layout.blank(q_tilde.shape, np.float32),
            )
        layout.overwrite(state.parts.given, q_tilde.astype(np.float32, copy=False))
        blocks, threads = grid_over(q_tilde.shape[1])
        grid = (blocks, q_tilde.shape[2], len(q_tilde)), threads
        self.launch(importance.fill_parts, grid, state, self.parents, state.parts)
        run = UpdateArguments(layout.to_device(numbers), state.run.most)
        self.update_parts(state, state.parts, run, key)

    def update_parts(self, state: CudaState, parts: ImportanceOfParts, run: UpdateArguments, key: np.uint64) -> None:
        """Update z, w and kappa of every case given the importances of its part."""
        kernel = update.update_kernel(self.shape)
        grid = len(self.data.x), self.shape.group
        while True:
            self.launch(summary.clear_counts, grid_over(len(self.data.x_parents)), state, state.weights)
            self.launch(
                kernel, grid, state,
                self.constants, self.table, parts, state.entries, state.spare, state.weights, run, key,
            )  # fmt: skip
            most = int(layout.from_device(run.most, state.stream)[0])
            if most == 0:
                state.entries, state.spare = state.spare, state.entries
                return
            # Some cases found more neighbors than fit: repeat the update with a larger capacity.
            layout.overwrite(run.most, np.zeros(1, np.int32))
            state.spare = self.blank_entries(self.capacity_for(most))

    def capacity_for(self, longest: int) -> int:
        """Capacity for lists of this length, a power of two, so that lists rarely grow."""
        return min(len(self.data.x_parents), power_of_two(longest))

    def count_neighbors(self, state: CudaState) -> None:
        """Count n_b and s_bj."""
        self.launch(summary.clear_counts, grid_over(len(self.data.x_parents)), state, state.weights)
        self.launch(summary.count_neighbors, grid_over(len(self.data.x)), state, state.entries, state.weights)

    def nodes_for(self, capacity: int) -> sums.DeviceNodes:
        """Quadrature rules for sums over w in lists of this length and, in Model II, exp(-u lam k) by weight."""
        if capacity not in self.nodes:
            c, c2 = self.constants, feature_constants(self.data, self.model)[1]
            weights = (1, c.n_features) if c.kind == 2 else (0, 1)  # of a vote
            rules = make_nodes(c2, c.lam, capacity) if c.kind == 1 else make_rates(c2, c.lam, *weights, capacity)
            by_weight = np.outer(np.arange(c.n_features + 1), rules.place[:, 0]) if c.kind == 2 else np.zeros((1, 1))
            self.nodes[capacity] = sums.DeviceNodes(
                layout.to_device(rules.place),
                layout.to_device(rules.weight),
                layout.to_device(rules.span),
                layout.to_device(np.exp(-c.lam * by_weight)),
            )
        return self.nodes[capacity]

    def over_pairs(self) -> tuple[int, int]:
        """Blocks and threads for all pairs of cases and jointly moved features (a single feature in Model II)."""
        n_cases, n_features = self.data.x.shape
        return grid_of_pairs(n_cases, 1 if self.constants.kind == 2 else n_features)

    def move_importance(self, state: CudaState, key: np.uint64, rate: float) -> None:
        """Propose (q_j, q~_:j) with w_:j summed out, a few times, and draw w_:j of the features that moved."""
        n_features = self.data.x.shape[1]
        c, table, entries, weights, move = self.constants, self.table, state.entries, state.weights, state.move
        over_parents = power_of_two(len(self.data.x_parents), importance.BLOCK)
        over_sums = power_of_two(move.log_ratio.shape[1], importance.BLOCK)
        step = 1 if c.kind == 2 else n_features
        over_pairs = self.over_pairs()
        compare = sums.compare_kernel(c.kind, n_features, self.data.n_classes)
        redraw = sums.redraw_kernel(c.kind, n_features)
        given = c, table, self.nodes_for(entries.parent.shape[1]), entries, weights, move, subkey(key, SUM)
        for first in range(0, n_features, step):
            for number in range(N_MOVES[self.model.kind]):
                move_key = subkey(key, MOVE + number)
                propose_key, carry_key = subkey(move_key, PROPOSE), subkey(move_key, CARRY)
                propose = self.parents, weights, move, self.prior, propose_key, carry_key, first
                self.launch(importance.propose, (step, over_parents), state, *propose)
                if c.kind == 2:
                    tilt = sums.tilt_kernel(n_features, self.data.n_classes)
                    self.launch(tilt, grid_over(len(self.data.x)), state, c, table, entries, first)
                self.launch(compare, over_pairs, state, *given, first, first + step, number)
                decide = weights, move, propose_key, first, number, rate
                self.launch(importance.decide, (step, over_sums), state, *decide)
            self.launch(redraw, over_pairs, state, *given, first, first + step)

    def draw_importance(self, state: CudaState, key: np.uint64) -> None:
        """Draw q given w with q-tilde integrated out, then q-tilde given both."""
        n_parents, n_features = self.data.x_parents.shape
        team = power_of_two(n_parents, importance.BLOCK)
        self.launch(importance.draw_q, (n_features, team), state, state.weights, self.prior, subkey(key, GLOBAL))
        self.draw_q_tilde(state, key)

    def draw_q_tilde(self, state: CudaState, key: np.uint64) -> None:
        """Draw q-tilde given q and w."""
        n_parents, n_features = self.data.x_parents.shape
        blocks, threads = grid_over(n_parents)
        self.launch(
            importance.draw_q_tilde, ((blocks, n_features), threads), state,
            self.parents, state.weights, state.importance, self.prior, subkey(key, PARENTS),
        )  # fmt: skip

    def observe(self, state: CudaState) -> Observation:
        """The quantities to store after a sweep."""
        votes, log_likelihood = self.summarise(state)
        weights, stream = state.weights, state.stream
        logit_q = layout.from_device(weights.logit_q, stream)
        n = layout.from_device(state.entries.n, stream)
        log_kappa = 0.0
        if self.constants.kind == 3:
            rows = layout.from_device(state.entries.kappa, stream)
            used = rows[np.arange(rows.shape[1]) < n[:, None]]
            log_kappa = log_beta_density(used, self.model.hyper.tau, self.model.hyper.sigma3)
        log = log_prior(
            self.data, self.model, logit_q, layout.from_device(weights.n_neighbors, stream).astype(np.int64),
            layout.from_device(weights.n_on, stream).astype(np.int64), log_kappa,
        )  # fmt: skip
        q_tilde = expit(layout.from_device(weights.logits, stream))
        return Observation(expit(logit_q), q_tilde, n, votes, float(log_likelihood.sum()) + log)

    def summarise(self, state: CudaState) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Vote shares (N, M) and log likelihood (N,) of the cases."""
        n_cases = self.data.x.shape[0]
        out = layout.blank((n_cases, self.data.n_classes), np.float64), layout.blank((n_cases,), np.float64)
        kernel = summary.summary_kernel(self.shape)
        self.launch(kernel, grid_over(n_cases), state, self.constants, self.table, state.entries, out)
        return layout.from_device(out[0], state.stream), layout.from_device(out[1], state.stream)

    def neighbors(self, state: CudaState) -> Neighbors:
        """The lists of neighbors in the format of the CPU engine."""
        n = layout.from_device(state.entries.n, state.stream)
        longest = max(1, int(n.max(initial=0)))
        entries = state.entries
        parent, halves = (
            layout.from_device(array, state.stream)[:, :longest] for array in (entries.parent, entries.bits)
        )
        bits = np.zeros((*parent.shape, -(-self.n_words // 2)), np.uint64)
        for word in range(self.n_words):
            bits[:, :, word // 2] |= halves[:, :, word].astype(np.uint64) << np.uint64(32 * (word % 2))
        kappa = np.zeros((len(n), 1))
        if self.constants.kind == 3:
            kappa = layout.from_device(entries.kappa, state.stream)[:, :longest].copy()
        return Neighbors(n, parent.copy(), bits, kappa)

    def freeze(self, state: CudaState) -> dict[str, NDArray[np.generic]]:
        """The state in the format of the CPU engine; everything else on the GPU follows from it."""
        n, parent, bits, kappa = self.neighbors(state)
        beyond = np.arange(parent.shape[1]) >= n[:, None]
        for array in (parent, bits, kappa) if self.constants.kind == 3 else (parent, bits):
            array[beyond] = 0
        weights, stream = state.weights, state.stream
        state_of_cpu = CpuState(
            state.seed,
            state.chain,
            state.n_sweeps,
            layout.from_device(weights.logit_q, stream),
            layout.from_device(weights.logits, stream),
            Neighbors(n, parent, bits, kappa),
            layout.from_device(weights.step, stream),
        )
        return frozen(state_of_cpu)

    def thaw(self, arrays: Mapping[str, NDArray[np.generic]], seed: int, chain: int) -> CudaState:
        """Restore a state from `freeze` on the GPU."""
        state = self.start(seed, chain)
        self.check_frozen(arrays, state, seed, chain)
        neighbors = neighbors_of(arrays, "neighbors")
        cpu_layout.check_neighbors(self.constants, neighbors, len(self.data.x_parents))
        state.n_sweeps = int(arrays["n_sweeps"])
        layout.overwrite(state.weights.logit_q, arrays["logit_q"])
        layout.overwrite(state.weights.logits, arrays["logit_q_tilde"])
        layout.overwrite(state.weights.step, arrays["step"])
        state.entries = self.entries_of(neighbors)
        self.count_neighbors(state)
        self.fill_importance(state)
        return state

    def entries_of(self, neighbors: Neighbors) -> DeviceNeighbors:
        """Copy lists of neighbors in the format of the CPU engine to the GPU."""
        n, parent, bits, kappa = neighbors
        longest = parent.shape[1]
        room = (0, 0), (0, self.capacity_for(longest) - longest)
        x, x_parents, windows = self.data.x, self.data.x_parents, self.data.windows
        same = [layout.words_of(np.abs(x - x_parents[column]) <= windows).T for column in parent.T]
        halves = [bits[:, :, word // 2] >> np.uint64(32 * (word % 2)) for word in range(self.n_words)]
        return DeviceNeighbors(
            layout.to_device(n),
            layout.to_device(np.pad(parent, room)),
            layout.to_device(np.pad(np.stack(halves, axis=2).astype(np.uint32), (*room, (0, 0)))),
            layout.to_device(np.pad(np.stack(same, axis=1), (*room, (0, 0)))),
            layout.to_device(np.pad(kappa, room) if self.constants.kind == 3 else np.zeros((1, 1))),
            layout.to_device(np.pad(np.ones(parent.shape), room) if self.constants.kind == 2 else np.zeros((1, 1))),
        )

    def latent(self, state: CudaState) -> Latent:
        """The state as dense arrays."""
        n_cases, n_features = self.data.x.shape
        neighbors = self.neighbors(state)
        z = np.zeros((n_cases, len(self.data.x_parents)), np.float32)
        w = np.zeros((*z.shape, n_features), np.float32)
        add_z(neighbors, z)
        add_w(neighbors, w)
        kappa = np.zeros(z.shape)
        if self.constants.kind == 3:
            for i, n in enumerate(neighbors.n):
                kappa[i, neighbors.parent[i, :n]] = neighbors.kappa[i, :n]
        return Latent(expit(layout.from_device(state.weights.logit_q, state.stream)), z > 0, w > 0, kappa)

    def add_neighbors(self, state: CudaState, z_sum: NDArray[np.float32], w_sum: NDArray[np.float32] | None) -> None:
        """Add z and, if requested, z*w of this draw to the running sums."""
        neighbors = self.neighbors(state)
        add_z(neighbors, z_sum)
        if w_sum is not None:
            add_w(neighbors, w_sum)
