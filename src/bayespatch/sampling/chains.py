"""Running several chains in step: warm-up, thinning, progress and interruption.

An engine sweeps one chain; this module decides when each chain is swept and which draws are kept. Chains advance in
step, by a short block of draws at a time, so an interrupted run has the same number of draws from each chain.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayespatch.engine.base import Engine, GivenEngine
from bayespatch.progress import Meter, Report
from bayespatch.sampling.posterior import Posterior, PredictiveDraws, SamplingSettings, Timing
from bayespatch.types import AnyArray

_BLOCK_SECONDS = 0.1  # how long chains run before they wait for each other
_POLL_SECONDS = 0.2  # interval at which progress is shown and, on Windows, Ctrl-C is noticed


Number = TypeVar("Number", bound=np.generic)


class Keeper(Protocol):
    """Saves a run. The chains pause during these calls."""

    def meet(self, run: Run) -> None:
        """Called when all chains have reached the same draw: write a checkpoint if one is due."""

    def end(self, run: Run) -> None:
        """Called when the chains have finished or were interrupted."""


class Run:
    """All chains of a run and their results.

    Only one thread at a time advances a chain, and each chain writes to its own slots. Only the sums over z and w are
    shared: they count draws, so the order in which chains add to them does not matter.
    """

    def __init__(
        self,
        engines: Sequence[Engine[Any]],  # each state belongs to its engine
        settings: SamplingSettings,
        *,
        keep_w: bool,
        keep_votes: bool,
        begin: Posterior | None,
        predictive: PredictiveDraws | None = None,
    ) -> None:
        data = engines[0].data
        (n_cases, n_features), n_parents = data.x.shape, len(data.x_parents)
        per_draw = (settings.chains, settings.draws)
        self.engines, self.settings, self.begin, self.predictive = engines, settings, begin, predictive
        self.states: list[Any] = [None] * settings.chains
        self.q = np.empty((*per_draw, n_features))
        self.q_tilde = np.empty((*per_draw, n_parents, n_features), dtype=np.float32)
        self.n_neighbors = np.empty((*per_draw, n_cases), dtype=np.int32)
        self.log_joint = np.empty(per_draw)
        self.votes = np.empty((*per_draw, n_cases, data.n_classes), dtype=np.float32) if keep_votes else None
        self.votes_sum = np.zeros((settings.chains, n_cases, data.n_classes))
        self.z_sum = np.zeros((n_cases, n_parents), dtype=np.float32)
        self.w_sum = np.zeros((n_cases, n_parents, n_features), dtype=np.float32) if keep_w else None

        self.n_swept = [0] * settings.chains
        self.n_kept = [0] * settings.chains
        self.goal = settings.draws  # no chain keeps more draws than this; an interruption lowers it
        self.halted = False
        self.seconds = {"warm-up": 0.0, "sampling": 0.0}
        self.futures: list[Future[None]] = []  # current tasks of the threads
        self._lock = threading.Lock()

    @property
    def draws(self) -> dict[str, AnyArray]:
        """Quantities of each draw, (chains, draws, ...): slots are filled in order; `n_kept` counts them by chain."""
        kept = {name: getattr(self, name) for name in ("q", "q_tilde", "n_neighbors", "log_joint", "votes")}
        return {name: array for name, array in kept.items() if array is not None}

    @property
    def sums(self) -> dict[str, AnyArray]:
        """The sums over the draws."""
        kept = {name: getattr(self, name) for name in ("votes_sum", "z_sum", "w_sum")}
        return {name: array for name, array in kept.items() if array is not None}

    def run(self, n_at_once: int, meter: Meter, keeper: Keeper | None = None) -> None:
        """Advance all chains to the end or until interrupted. All threads end before this call returns."""
        settings = self.settings
        pool = ThreadPoolExecutor(n_at_once, thread_name_prefix="bayespatch")
        try:
            try:
                with meter(settings.chains * (settings.warmup + settings.draws * settings.thin)) as report:
                    self._together(pool, "warm-up", self._start, 0, 1, report)
                    for phase, advance, done, steps in (
                        ("warm-up", self._warm_up, self.n_swept, settings.warmup),
                        ("sampling", self._draw, self.n_kept, settings.draws),
                    ):
                        self._together(pool, phase, advance, min(done), steps, report, keeper)
            except KeyboardInterrupt:
                self.halt()
                wait(self.futures)
        except BaseException:  # an error, or a second Ctrl-C
            self.give_up()
            wait(self.futures)
            raise
        finally:
            pool.shutdown()  # the threads are idle; joining a busy thread could not be interrupted safely
        if keeper is not None and self._sound():
            keeper.end(self)
        if min(self.n_kept) == 0:
            raise KeyboardInterrupt("interrupted before every chain had finished its first draw")

    def halt(self) -> None:
        """Stop as soon as all chains have the same number of draws: chains that are behind catch up, the rest stop."""
        with self._lock:
            self.halted = True
            self.goal = max(self.n_kept)

    def _sound(self) -> bool:
        """Whether every chain has a state, none stopped within a sweep, and all have the same number of draws."""
        failed = any(future.done() and future.exception() is not None for future in self.futures)
        return not failed and all(state is not None for state in self.states) and len(set(self.n_kept)) == 1

    def give_up(self) -> None:
        """Stop every chain after its current sweep."""
        self.halted = True
        self.goal = 0

    def posterior(self, n_threads: int) -> Posterior:
        """The stored draws, truncated to the number that every chain has."""
        n_draws, n_summed = min(self.n_kept), sum(self.n_kept)
        self.z_sum /= n_summed
        if self.w_sum is not None:
            self.w_sum /= n_summed
        return Posterior(
            q=_cut(self.q, n_draws),
            q_tilde=_cut(self.q_tilde, n_draws),
            z_mean=self.z_sum,
            votes_mean=self.votes_sum.sum(axis=0) / n_summed,
            n_neighbors=_cut(self.n_neighbors, n_draws),
            log_joint=_cut(self.log_joint, n_draws),
            model=self.engines[0].model,
            settings=self.settings,
            timing=Timing(self.seconds["warm-up"], self.seconds["sampling"], sum(self.n_swept), n_threads),
            kept_w_mean=self.w_sum,
            kept_votes=None if self.votes is None else _cut(self.votes, n_draws),
            steps=None if self.predictive is None else self.predictive.steps,
        )

    def _together(
        self,
        pool: ThreadPoolExecutor,
        phase: str,
        advance: Callable[[int, int], None],
        done: int,
        n_steps: int,
        report: Report,
        keeper: Keeper | None = None,
    ) -> None:
        """Advance every chain from step `done` of a phase to `n_steps`, block by block; chains wait for each other."""
        block, clock = 1, time.perf_counter()
        report(sum(self.n_swept), phase)
        try:
            while done < n_steps:
                block_began = time.perf_counter()
                upto = min(done + block, n_steps)
                self.futures = [pool.submit(advance, chain, upto) for chain in range(self.settings.chains)]
                pending = set(self.futures)
                while pending:
                    finished, pending = wait(pending, timeout=_POLL_SECONDS, return_when=FIRST_EXCEPTION)
                    report(sum(self.n_swept), phase)
                    for future in finished:
                        future.result()
                now = time.perf_counter()
                seconds = max(now - block_began, 1e-6)
                done, block = upto, max(1, min(int(block * _BLOCK_SECONDS / seconds), 8 * block))
                self.seconds[phase] += now - clock
                clock = now
                if keeper is not None:
                    keeper.meet(self)
        finally:
            self.seconds[phase] += time.perf_counter() - clock

    def _start(self, chain: int, _: int) -> None:
        if self.halted or self.states[chain] is not None:
            return
        engine = self.engines[chain]
        self.states[chain] = state = engine.start(self.settings.seed, chain)
        if self.begin is not None:
            source = chain % self.begin.n_chains
            q, q_tilde = self.begin.q[source, -1], self.begin.q_tilde[source, -1]
            newcomers = np.broadcast_to(q, (len(engine.data.x_parents) - len(q_tilde), len(q)))
            engine.set_importance(state, q, np.concatenate([q_tilde, newcomers]))

    def _warm_up(self, chain: int, upto: int) -> None:
        while self.n_swept[chain] < upto and not self.halted:
            self._sweep(chain, adapt=True)

    def _draw(self, chain: int, upto: int) -> None:
        settings = self.settings
        while self.n_kept[chain] < min(upto, self.goal):
            # Count from the first sweep, because an interruption may have left a chain between two draws.
            while self.n_swept[chain] < settings.warmup + (self.n_kept[chain] + 1) * settings.thin:
                if self.n_kept[chain] >= self.goal:
                    return
                self._sweep(chain, adapt=False)
            self._keep(chain)

    def _sweep(self, chain: int, adapt: bool) -> None:
        """Run one sweep over everything, or over everything except q if q is given."""
        engine, state = self.engines[chain], self.states[chain]
        if self.predictive is None:
            engine.sweep(state, adapt)
        else:
            assert isinstance(engine, GivenEngine)
            engine.sweep_given_q(state, self.predictive.given[chain, self.n_swept[chain]])
        self.n_swept[chain] += 1

    def _keep(self, chain: int) -> None:
        """Store the current state of a chain as its next draw."""
        engine, state = self.engines[chain], self.states[chain]
        observation = engine.observe(state)
        slot = chain, self.n_kept[chain]
        self.q[slot] = observation.q
        self.q_tilde[slot] = observation.q_tilde
        self.n_neighbors[slot] = observation.n_neighbors
        self.log_joint[slot] = observation.log_joint
        if self.votes is not None:
            self.votes[slot] = observation.votes
        with self._lock:
            if self.n_kept[chain] < self.goal:
                engine.add_neighbors(state, self.z_sum, self.w_sum)
                self.votes_sum[chain] += observation.votes
                self.n_kept[chain] += 1


def _cut(kept: NDArray[Number], n_draws: int) -> NDArray[Number]:
    """The first `n_draws` of each chain; frees the memory that an interrupted run has not filled."""
    return kept if n_draws == kept.shape[1] else kept[:, :n_draws].copy()
