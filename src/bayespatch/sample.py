"""Sampling: several chains in step, warm-up, thinning, progress and interruption; arrays in, a `Posterior` out.

An engine knows how to sweep one chain; this room decides which chain is swept when, and what is kept. Chains advance in
step, a short block of draws at a time, so that an interrupted run has equally many draws of each chain.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayespatch.check import check_choice, check_count, check_data, check_flag, check_model, check_seed
from bayespatch.diagnostics import MixingWarning
from bayespatch.engine.auto import fastest_engine
from bayespatch.engine.base import Engine
from bayespatch.model import Data, Hyperparameters, Model
from bayespatch.posterior import Posterior, Settings, Timing
from bayespatch.progress import Meter, Report, Tell, progress_meter

# Names are loaded when they are asked for: importing bayespatch does not load Numba.
ENGINES: dict[str, str] = {
    "cpu": "bayespatch.engine.cpu:CpuEngine",
    "paper": "bayespatch.engine.paper:PaperEngine",
    "cuda": "bayespatch.engine.cuda:CudaEngine",
}

_BLOCK_SECONDS = 0.1  # how long chains run between two meetings
_POLL_SECONDS = 0.2  # how often progress is shown, and on Windows how soon Ctrl-C is noticed
_MAX_SUMMED = 2**24  # float32 counts draws exactly up to here


def chosen_engine(name: str, data: Data) -> str:
    """The engine that is meant: "auto" is a GPU where one is present and the data are large enough to pay."""
    if check_choice("engine", name, ("auto", *ENGINES)) != "auto":
        return name
    return fastest_engine(len(data.x), *data.x_parents.shape)


def load_engine(name: str) -> type[Engine]:
    """The engine class that goes by `name`."""
    module, _, class_name = ENGINES[check_choice("engine", name, ENGINES)].partition(":")
    engine: type[Engine] = getattr(import_module(module), class_name)
    return engine


def sample(
    x: ArrayLike,
    y: ArrayLike,
    x_parents: ArrayLike,
    y_parents: ArrayLike,
    *,
    n_values: ArrayLike,
    n_classes: int,
    hyper: Hyperparameters | None = None,
    model: str = "I",
    likelihood: str = "exact",
    supervised: bool = True,
    exclude_self: bool = False,
    windows: ArrayLike | None = None,
    missing: str = "error",
    engine: str = "cpu",
    chains: int = 4,
    draws: int = 500,
    warmup: int = 500,
    thin: int = 1,
    seed: int = 0,
    n_threads: int | None = None,
    progress: bool | Tell = False,
    keep_w: bool = False,
    keep_votes: bool = False,
    begin: Posterior | None = None,
) -> Posterior:
    """Sample which parents are the neighbors of each case, and which features matter.

    Ctrl-C ends the run early and returns the draws finished so far, equally many of each chain, with a warning; pressed
    again, or before the first draw, it raises KeyboardInterrupt.

    Parameters
    ----------
    x, y : array of shape (N, P) and (N,)
        The cases: coded values, and classes 0..M-1 (-1 where the class is not known).
    x_parents, y_parents : array of shape (S, P) and (S,)
        The parents: past cases that may become neighbors.
    n_values : sequence of length P
        V_j, the number of values of each feature; codes run from 0 to V_j - 1.
    n_classes : int
        M, the number of classes.
    hyper : Hyperparameters, optional
        The constants of the prior and of the votes.
    model : {"I", "II", "III"}
        How much a neighbor influences a case: all neighbors alike, by the number of features that matter, or freely.
    likelihood : {"exact", "paper"}
        g / sum g, or (g + 1) / (sum g + 1) as the paper prints it.
    supervised : bool
        False hides the classes of all cases.
    exclude_self : bool
        True where x and x_parents are the same rows: case i is never its own neighbor.
    windows : sequence of length P, optional
        r_j: values agree where they differ by at most r_j; 0 (the default) for codes of categories. Where r_j > 0,
        V_j is range_j / (2 r_j).
    missing : {"error", "ignore"}
        Refuse NaN, or leave missing values out of the comparison.
    engine : str
        "cpu"; "cuda" for an NVIDIA GPU; "auto" for the faster of the two here; or "paper" for the paper's own sampler
        (slow).
    chains, draws, warmup, thin : int
        Chains; draws kept of each; sweeps before the first draw, in which step sizes adapt; sweeps per draw.
    seed : int
        The same seed gives the same draws, on any number of threads.
    n_threads : int, optional
        Threads to use; None takes all cores that this process may use.
    progress : bool or callable
        True shows a bar on stderr; a callable gets (sweeps done, sweeps in all, phase).
    keep_w : bool
        Also keep `w_mean` (4*N*S*P bytes).
    keep_votes : bool
        Also keep the votes of each draw (4*chains*draws*N*M bytes).
    begin : Posterior, optional
        An earlier run on the same features whose parents are the first of these: chains begin with the importances of
        its last draws instead of draws from the prior, which shortens the warm-up.

    Returns
    -------
    Posterior

    Warns
    -----
    MixingWarning
        Where R-hat is above 1.01 or there are fewer than 100 effective draws per chain.

    Examples
    --------
    >>> posterior = sample([[0], [1]], [0, 1], [[0], [1], [1]], [0, 1, 1], n_values=[2], n_classes=2)
    >>> posterior.q.shape
    (4, 500, 1)
    """
    data = check_data(
        x,
        y,
        x_parents,
        y_parents,
        n_values=n_values,
        n_classes=n_classes,
        windows=windows,
        missing=missing,
        supervised=supervised,
        exclude_self=exclude_self,
    )
    settings = Settings(
        engine=chosen_engine(engine, data),
        chains=check_count("chains", chains, at_least=1),
        draws=check_count("draws", draws, at_least=1),
        warmup=check_count("warmup", warmup, at_least=0),
        thin=check_count("thin", thin, at_least=1),
        seed=check_seed(seed),
        supervised=supervised,
        exclude_self=exclude_self,
        missing=missing,
    )
    return run_chains(
        data,
        check_model(model, likelihood, hyper, data.n_classes, data.x.shape[1]),
        settings,
        n_threads=n_threads,
        progress=progress,
        keep_w=keep_w,
        keep_votes=keep_votes,
        begin=begin,
    )


def run_chains(
    data: Data,
    model: Model,
    settings: Settings,
    *,
    n_threads: int | None = None,
    progress: bool | Tell = False,
    keep_w: bool = False,
    keep_votes: bool = False,
    begin: Posterior | None = None,
) -> Posterior:
    """`sample` where data, model and settings have been checked already; the rest is described there."""
    if settings.chains * settings.draws > _MAX_SUMMED:
        raise ValueError(f"chains*draws={settings.chains * settings.draws} is above 2**24; pass fewer draws")
    keep_w, keep_votes = check_flag("keep_w", keep_w), check_flag("keep_votes", keep_votes)
    threads = available_cores() if n_threads is None else check_count("n_threads", n_threads, at_least=1)
    meter = progress_meter(progress)  # before the work: a missing package is told at once

    n_at_once = min(settings.chains, threads)
    engines = load_engine(settings.engine).for_chains(settings.chains, data, model, threads // n_at_once)
    run = _Run(engines, settings, keep_w=keep_w, keep_votes=keep_votes, begin=_checked_beginning(begin, data))
    run.run(n_at_once, meter)

    posterior = run.posterior(n_threads=threads)
    del run, engines  # their memory is not needed any more
    if posterior.interrupted:
        warnings.warn(
            f"interrupted: {posterior.n_draws} of {settings.draws} draws are kept of each chain",
            UserWarning,
            stacklevel=3,
        )
    trouble = posterior.diagnostics().warning()
    if trouble is not None:
        warnings.warn(trouble, MixingWarning, stacklevel=3)
    return posterior


class _Run:
    """All chains of one run and what they leave behind.

    A chain is advanced by one thread at a time and writes to slots of its own. Only the sums over z and w are shared:
    they count draws, so they come out the same in whatever order the chains add to them.
    """

    def __init__(
        self, engines: list[Engine], settings: Settings, *, keep_w: bool, keep_votes: bool, begin: Posterior | None
    ) -> None:
        data = engines[0].data
        (n_cases, n_features), n_parents = data.x.shape, len(data.x_parents)
        per_draw = (settings.chains, settings.draws)
        self.engines, self.settings, self.begin = engines, settings, begin
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
        self.futures: list[Future[None]] = []  # what the threads are at
        self._lock = threading.Lock()

    def run(self, n_at_once: int, meter: Meter) -> None:
        """Advance all chains to the end, or until interrupted. No thread outlives this call."""
        settings = self.settings
        pool = ThreadPoolExecutor(n_at_once, thread_name_prefix="bayespatch")
        try:
            try:
                with meter(settings.chains * (settings.warmup + settings.draws * settings.thin)) as report:
                    self._together(pool, "warm-up", self._start, 1, report)
                    self._together(pool, "warm-up", self._warm_up, settings.warmup, report)
                    self._together(pool, "sampling", self._draw, settings.draws, report)
            except KeyboardInterrupt:
                self.halt()
                wait(self.futures)
        except BaseException:  # an error, or Ctrl-C once more
            self.give_up()
            wait(self.futures)
            raise
        finally:
            pool.shutdown()  # idle by now: joining a busy thread could not be interrupted safely
        if min(self.n_kept) == 0:
            raise KeyboardInterrupt("interrupted before the first draw of each chain was finished")

    def halt(self) -> None:
        """Stop as soon as the chains are level: those that lag behind the furthest catch up, the others stop now."""
        with self._lock:
            self.halted = True
            self.goal = max(self.n_kept)

    def give_up(self) -> None:
        """Stop every chain after its current sweep."""
        self.halted = True
        self.goal = 0

    def posterior(self, n_threads: int) -> Posterior:
        """What has been kept, cut to the draws that every chain has."""
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
        )

    def _together(
        self, pool: ThreadPoolExecutor, phase: str, advance: Callable[[int, int], None], n_steps: int, report: Report
    ) -> None:
        """Take every chain through `n_steps` of a phase; none begins a block before all have ended the last."""
        began = time.perf_counter()
        done, block = 0, 1
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
                seconds = max(time.perf_counter() - block_began, 1e-6)
                done, block = upto, max(1, min(int(block * _BLOCK_SECONDS / seconds), 8 * block))
        finally:
            self.seconds[phase] += time.perf_counter() - began

    def _start(self, chain: int, _: int) -> None:
        if self.halted:
            return
        engine = self.engines[chain]
        self.states[chain] = state = engine.start(self.settings.seed, chain)
        if self.begin is not None:
            source = chain % self.begin.n_chains
            q, q_tilde = self.begin.q[source, -1], self.begin.q_tilde[source, -1]
            newcomers = np.broadcast_to(q, (len(engine.data.x_parents) - len(q_tilde), len(q)))
            engine.set_importance(state, q, np.concatenate([q_tilde, newcomers]))

    def _warm_up(self, chain: int, upto: int) -> None:
        engine, state = self.engines[chain], self.states[chain]
        while self.n_swept[chain] < upto and not self.halted:
            engine.sweep(state, adapt=True)
            self.n_swept[chain] += 1

    def _draw(self, chain: int, upto: int) -> None:
        engine, state = self.engines[chain], self.states[chain]
        while self.n_kept[chain] < upto:
            for _ in range(self.settings.thin):
                if self.n_kept[chain] >= self.goal:
                    return
                engine.sweep(state, adapt=False)
                self.n_swept[chain] += 1
            self._keep(chain)

    def _keep(self, chain: int) -> None:
        """Write down the present state of a chain as its next draw."""
        engine, state = self.engines[chain], self.states[chain]
        seen = engine.observe(state)
        slot = chain, self.n_kept[chain]
        self.q[slot] = seen.q
        self.q_tilde[slot] = seen.q_tilde
        self.n_neighbors[slot] = seen.n_neighbors
        self.log_joint[slot] = seen.log_joint
        if self.votes is not None:
            self.votes[slot] = seen.votes
        with self._lock:
            if self.n_kept[chain] < self.goal:
                engine.add_neighbors(state, self.z_sum, self.w_sum)
                self.votes_sum[chain] += seen.votes
                self.n_kept[chain] += 1


def _checked_beginning(begin: Posterior | None, data: Data) -> Posterior | None:
    if begin is not None:
        n_parents, n_features = begin.q_tilde.shape[2:]
        if n_features != data.x.shape[1] or n_parents > len(data.x_parents):
            raise ValueError(
                f"begin has {n_parents} parents and {n_features} features, x_parents has shape {data.x_parents.shape}; "
                f"pass a run on the same features whose parents are the first of these, or leave begin out"
            )
    return begin


def _cut(kept: Any, n_draws: int) -> Any:
    """The first `n_draws` of each chain; what an interrupted run has not filled is given back."""
    return kept if n_draws == kept.shape[1] else kept[:, :n_draws].copy()


def available_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
