"""The engine for many machines: cases spread over Dask workers, each running the CPU engine on its part.

This process keeps q, q-tilde and the step sizes of every chain and decides on every move; a worker keeps a *shard*,
some of the fixed blocks of cases (``blocks.py``) with their neighbors. In a sweep go out q-tilde (S, P) and what is
proposed, and come back how many cases of the shard each parent is a neighbor of and with which features on, (S,) and
(S, P), and the log ratios of the proposals, (blocks, P). None of this depends on the number of cases. Counts are
integers and log ratios are added in the order of the blocks, so the draws are those of engine "cpu", bit for bit,
however many workers there are. (Between processors of different make the last bit of a logarithm may differ, and then
the draws do.)

What a worker holds can be computed again: its part of the data, its neighbors as they were at some sweep (a
*snapshot*), and all commands since. So where a worker dies its shards are rebuilt elsewhere and the run goes on.
"""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bayespatch.engine.base import Engine, Neighbors, Observation, ProblemSizes, first_capacity
from bayespatch.engine.blocks import N_BLOCKS, block_edges, sum_of_blocks
from bayespatch.engine.compiling import STAMP
from bayespatch.engine.cpu import importance, layout
from bayespatch.engine.cpu.engine import CpuEngine, CpuState
from bayespatch.engine.importance import log_prior
from bayespatch.model import Data, Latent, Model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

POLL_SECONDS = 1.0  # how soon a dead worker is noticed
REPLACEMENT_SECONDS = 10.0  # how long a shard waits for a new worker before it moves in with another shard
WORKER_SECONDS = 60.0  # how long a run waits where there is no worker at all
MOST_FAILURES = 8  # of one command on one shard: then it is not the worker's fault
SNAPSHOT_SECONDS = 10.0  # between two snapshots in the warm-up, at least; after it every kept draw is one
SNAPSHOT_SHARE = 20  # chains run for at least this many times what a snapshot took
MOST_LOGGED = 64_000_000  # bytes of commands, before a snapshot is taken whatever it costs

Command = tuple[str, tuple[Any, ...]]  # a method of `ShardChain` and its arguments
INSTALL = 'engine="dask" needs dask and distributed: pip install "bayespatch[dask]"'


class Lost(Exception):
    """A worker does not hold the chain that a command is for, or not in the state that the command is for."""


class Packed(NamedTuple):
    """`Neighbors` without their empty room: the entries of all cases, one after the other."""

    n: NDArray[np.int32]  # (N,)
    parent: NDArray[np.int32]  # (E,)
    bits: NDArray[np.uint64]  # (E, words)
    kappa: NDArray[np.float64]  # (E,), or empty where the model derives it

    @classmethod
    def of(cls, neighbors: Neighbors, has_kappa: bool) -> Packed:
        """The used entries of `neighbors`."""
        used = np.arange(neighbors.parent.shape[1]) < neighbors.n[:, None]
        kappa = neighbors.kappa[used] if has_kappa else np.zeros(0)
        return cls(neighbors.n.copy(), neighbors.parent[used], neighbors.bits[used], kappa)

    @classmethod
    def joined(cls, parts: list[Packed]) -> Packed:
        """Those of several shards as one."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def unpacked(self, blank: Neighbors) -> Neighbors:
        """With the room of `blank`, doubled as often as is needed."""
        most, capacity = int(self.n.max(initial=0)), blank.parent.shape[1]
        while capacity < most:
            capacity *= 2
        n, parent, bits, kappa = layout.with_capacity(blank, capacity)
        used = np.arange(capacity) < self.n[:, None]
        n[:] = self.n
        parent[used] = self.parent
        bits[used] = self.bits
        if len(self.kappa):
            kappa[used] = self.kappa
        return Neighbors(n, parent, bits, kappa)


# On a worker


class ShardChain:
    """One chain of one shard: the CPU engine on a part of the cases. Its methods are the commands."""

    def __init__(self, engine: CpuEngine, seed: int, chain: int, neighbors: Packed | None) -> None:
        self.engine = engine
        self.state = engine.start(seed, chain)
        if neighbors is not None:
            self.state.neighbors = neighbors.unpacked(self.state.neighbors)
        self.used = np.zeros(0, np.int64)
        self.n_done = 0  # batches of commands

    def run(self, number: int, commands: list[Command]) -> Any:
        """Batch `number` of commands; returns what the last of them returns."""
        if number != self.n_done + 1:
            raise Lost(f"batch {number} after {self.n_done}")
        self.n_done = -1  # what breaks off within a batch is not taken up again
        answer = None
        for name, arguments in commands:
            answer = getattr(self, name)(*arguments)
        self.n_done = number
        return answer

    def set_logit_q(self, logit_q: NDArray[np.float64]) -> None:
        """logit q (P,)."""
        self.state.logit_q = logit_q

    def set_logit_q_tilde(self, logit_q_tilde: NDArray[np.float64]) -> None:
        """logit q-tilde (S, P); a copy, as moves change it in place."""
        self.state.logit_q_tilde = logit_q_tilde.copy()

    def update_cases(self, key: np.uint64) -> None:
        """z, w and kappa given q-tilde."""
        self.engine.update_cases(self.state, key)

    def prepare_comparison(self) -> None:
        """The present importances, before the first comparison of a joint update of q."""
        self.used = self.engine.count_cases(self.state)
        self.engine.prepare_comparison(self.state)

    def compare_importance(
        self, key: np.uint64, move_key: np.uint64, logit_q_new: NDArray[np.float64], first: int, last: int
    ) -> NDArray[np.float64]:
        """The log ratios of features first..last-1, summed over each block."""
        # Only parents that are neighbors here are needed here; the others' prior ratio is the caller's business.
        self.engine.carry_along(self.state, move_key, logit_q_new, self.used, first, last)
        return self.engine.compare_importance(self.state, key, move_key, logit_q_new, first, last)

    def accept_importance(self, logit_q: NDArray[np.float64], features: NDArray[np.int64]) -> None:
        """q with the proposed values of these features, and the q-tilde that goes with them."""
        self.state.logit_q = logit_q
        self.engine.accept_importance(self.state, self.used, features)

    def redraw_features(self, key: np.uint64, features: NDArray[np.int64]) -> None:
        """w of these features."""
        self.engine.redraw_features(self.state, key, features)

    def count_cases(self) -> NDArray[np.int32]:
        """n_b (S,) in this shard."""
        return self.engine.count_cases(self.state).astype(np.int32)

    def count_neighbors(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """n_b (S,) and s_bj (S, P) in this shard."""
        n_neighbors, n_on = self.engine.count_neighbors(self.state)
        return n_neighbors.astype(np.int32), n_on.astype(np.int32)

    def summarise(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Vote shares and log likelihood of the cases."""
        return self.engine.summarise(self.state)

    def observe(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int32], NDArray[np.int32], Packed]:
        """What is kept of a draw: votes, sums of each block, counts, neighbors."""
        return *self.engine.summarise_blocks(self.state), *self.count_neighbors(), self.pack()

    def pack(self) -> Packed:
        """The neighbors."""
        return Packed.of(self.state.neighbors, self.engine.model.kind == "III")


class Shard(NamedTuple):
    """Which cases a shard has, and the model."""

    number: int
    first: int  # of its cases, in the whole data
    edges: NDArray[np.int64]  # of its blocks, in the shard
    stamp: str  # of the sources of the engines


def _held() -> dict[Any, Any]:
    """What this worker keeps between commands: it goes with the worker."""
    from distributed import get_worker

    worker: Any = get_worker()
    with _making:
        if not hasattr(worker, "bayespatch"):
            worker.bayespatch = {"lock": threading.Lock()}
    return worker.bayespatch


_making = threading.Lock()


def _run(token: str, shard: int, chain: int, number: int, commands: list[Command]) -> Any:
    """Commands for a chain of a shard that this worker holds."""
    held = _held()
    with held["lock"]:  # a sweep takes all threads of the worker
        here = held.get((token, shard, chain))
        if here is None:
            raise Lost(f"chain {chain} of shard {shard}")
        return here.run(number, commands)


@dataclass(frozen=True)
class _Whole:
    """What is passed on as it is: Dask takes tuples apart, and older ones cannot put named ones together again."""

    value: Any


def _rebuild(
    token: str,
    shard: Shard,
    part: _Whole,
    model: Model,
    seed: int,
    chain: int,
    past: tuple[Packed | None, list[list[Command]]],
    number: int,
) -> Any:
    """Begin a chain of a shard here: its neighbors as they were, then all commands since, up to batch `number`."""
    from distributed import get_worker

    _check_version(shard.stamp)
    held, data = _held(), part.value
    with held["lock"]:
        engine = held.get((token, shard.number))
        if engine is None:
            engine = CpuEngine(data, model, get_worker().state.nthreads)
            engine.numbers = np.arange(shard.first, shard.first + len(data.x))
            engine.edges = shard.edges
            held[token, shard.number] = engine
        own = copy(engine)  # chains share the tables, and nothing that is written to
        own.importance, own.proposed = engine.importance.copy(), engine.proposed.copy()
        own.proposed_logits = engine.proposed_logits.copy()
        snapshot, log = past
        here = ShardChain(own, seed, chain, snapshot)
        here.n_done = number - len(log)
        answer = None
        for k, commands in enumerate(log):
            answer = here.run(number - len(log) + 1 + k, commands)
        held[token, shard.number, chain] = here
        return answer


def _check_version(stamp: str) -> None:
    """Refuse work for other sources than those that the worker has."""
    if stamp != STAMP:
        from distributed import get_worker

        raise ValueError(
            f"worker {get_worker().address} has another version of bayespatch's engines than this process; install "
            f"the same version on all workers"
        )


def _drop(token: str, dask_worker: Any) -> None:
    held = getattr(dask_worker, "bayespatch", {})
    for key in [key for key in held if isinstance(key, tuple) and key[0] == token]:
        del held[key]


# In this process


class Spread:
    """The workers, and which of them holds which shard."""

    def __init__(self, data: Data, model: Model, n_workers: int, scheduler: str | None, n_shards: int | None) -> None:
        self.data, self.model, self.token = data, model, uuid.uuid4().hex
        self.cluster: Any = None
        self.lock = threading.Lock()
        self.n_replaced = 0  # shards that had to be rebuilt
        self.bytes_sent = 0  # of arrays in commands, to all workers together
        self.bytes_received = 0  # of arrays in answers
        if scheduler is None:
            self.cluster = local_cluster(n_workers)
            scheduler = str(self.cluster.scheduler_address)
        self.client = connected(scheduler)
        try:
            workers = self._workers_at_start()
            self.shards = shards_of(len(data.x), list(workers.values()) if n_shards is None else [1] * n_shards)
            addresses = list(workers)
            self.address = [addresses[k % len(addresses)] for k in range(len(self.shards))]
            self.parts = [self._send_part(shard) for shard in self.shards]
            self.pool = ThreadPoolExecutor(thread_name_prefix="dask-answers", max_workers=256)
        except BaseException:
            self._disconnect()
            raise

    def _workers_at_start(self) -> dict[str, int]:
        until = time.monotonic() + WORKER_SECONDS
        while True:
            workers: dict[str, int] = dict(sorted(self.client.nthreads().items()))
            if workers:
                return workers
            if time.monotonic() > until:
                address = self.client.scheduler.address
                raise RuntimeError(
                    f"the Dask scheduler at {address} has had no worker for {WORKER_SECONDS:.0f} seconds; start some "
                    f"with `dask worker {address}`"
                )
            time.sleep(POLL_SECONDS / 4)

    def _send_part(self, shard: Shard) -> Any:
        """The shard's part of the data, on its worker."""
        rows = slice(shard.first, shard.first + int(shard.edges[-1]))
        data = self.data
        part = data._replace(x=data.x[rows], y=data.y[rows], own_parent=data.own_parent[rows])
        return self.client.scatter(_Whole(part), workers=[self.address[shard.number]], hash=False)

    def ask(self, state: DaskState, commands: list[Command]) -> list[Any]:
        """The next batch of commands to all shards of a chain; their answers, in the order of the shards."""
        state.log.append(commands)
        state.n_logged += _bytes_of(commands)
        state.n_asked += 1
        self._count(sent=_bytes_of(commands) * len(self.shards))
        answers: dict[int, Any] = {}
        failures = dict.fromkeys(range(len(self.shards)), 0)
        while len(answers) < len(self.shards):
            sent = {}
            for shard in self.shards:
                if shard.number not in answers:
                    failed = failures[shard.number] > 0
                    sent[shard.number] = self._submit(state, shard, rebuild=failed or shard.number not in state.opened)
            found = self._collect({number: future for number, (future, _) in sent.items()}, sent)
            answers |= found
            state.opened |= set(found)
            for number, (future, address) in sent.items():
                if number not in found:
                    failures[number] += 1
                    self._explain(future, number, failures[number])
                    self._replace(number, address)
        self._count(received=_bytes_of(list(answers.values())))
        return [answers[shard.number] for shard in self.shards]

    def _submit(self, state: DaskState, shard: Shard, rebuild: bool) -> tuple[Any, str]:
        with self.lock:
            address, part = self.address[shard.number], self.parts[shard.number]
        only_here = dict(workers=[address], allow_other_workers=False, pure=False)
        if not rebuild:
            what = (self.token, shard.number, state.chain, state.n_asked, state.log[-1])
            return self.client.submit(_run, *what, **only_here), address
        snapshot = None if state.snapshot is None else state.snapshot[shard.number]
        past = self.client.scatter((snapshot, list(state.log)), workers=[address], hash=False)
        own = (state.seed, state.chain, past, state.n_asked)
        return self.client.submit(_rebuild, self.token, shard, part, self.model, *own, **only_here), address

    def _collect(self, futures: dict[int, Any], sent: dict[int, tuple[Any, str]]) -> dict[int, Any]:
        """The answers; those of workers that died are missing."""
        job = self.pool.submit(self.client.gather, futures, errors="skip")
        while True:
            try:
                found = job.result(timeout=POLL_SECONDS)  # None for what failed; every command that is asked answers
                return {number: answer for number, answer in found.items() if answer is not None}
            except NotYet:
                alive = self.client.nthreads()
                for future, address in sent.values():
                    if address not in alive:
                        future.cancel()

    def _explain(self, future: Any, number: int, n_failures: int) -> None:
        """Raise what is not to be mended by another worker."""
        from distributed import KilledWorker

        error = future.exception() if future.status == "error" else None
        if error is not None and not isinstance(error, Lost | KilledWorker | OSError):
            raise error
        if n_failures >= MOST_FAILURES:
            raise RuntimeError(
                f"shard {number} of {len(self.shards)} was lost {n_failures} times in a row; its workers may lack "
                f"memory: the log of the scheduler says how they ended"
            ) from error

    def _replace(self, number: int, address: str) -> None:
        """Give a shard whose worker is gone to another: a new one if it comes soon, or else the least busy."""
        with self.lock:
            if self.address[number] != address:
                return  # another chain has done so
            self.n_replaced += 1
            workers: dict[str, int] = self.client.nthreads()
            until = time.monotonic() + REPLACEMENT_SECONDS
            while not set(workers) - set(self.address) and address not in workers and time.monotonic() < until:
                time.sleep(POLL_SECONDS / 4)
                workers = self.client.nthreads()
            workers = workers or self._workers_at_start()
            load = {each: self.address.count(each) / n_threads for each, n_threads in sorted(workers.items())}
            self.address[number] = address if address in workers else min(load, key=lambda each: load[each])
            self.parts[number] = self._send_part(self.shards[number])

    def _count(self, sent: int = 0, received: int = 0) -> None:
        with self.lock:
            self.bytes_sent += sent
            self.bytes_received += received

    def close(self) -> None:
        """Let the workers forget this run; those that were started for it end."""
        if self.client is None:
            return
        self.pool.shutdown(wait=False, cancel_futures=True)
        if self.cluster is None:
            with suppress(OSError):  # where the scheduler is gone, the workers are too
                self.client.run(_drop, self.token, on_error="ignore")
        self._disconnect()

    def _disconnect(self) -> None:
        self.parts = []
        self.client.close()
        self.client = None
        if self.cluster is not None:
            self.cluster.close()


def dask_setup(worker: Any) -> None:
    """Run by Dask in every worker that a run starts itself: Ctrl-C, which the terminal sends to all, is for the run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def local_cluster(n_workers: int) -> Any:
    """Workers on this machine, of one thread each."""
    try:
        from distributed import LocalCluster
    except ImportError as error:
        raise ImportError(INSTALL) from error
    try:
        return LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", preload=[__name__]
        )
    except RuntimeError as error:
        raise RuntimeError(
            "the workers did not start; a script that starts them keeps its own work under "
            'if __name__ == "__main__":, since every worker imports the script'
        ) from error


def shards_of(n_cases: int, shares: list[int]) -> list[Shard]:
    """Shards of whole blocks, in proportion to the shares.

    >>> [(shard.first, int(shard.edges[-1])) for shard in shards_of(1000, [1, 1])]
    [(0, 500), (500, 500)]
    """
    edges = block_edges(n_cases)
    ends = np.rint(np.cumsum(shares) / sum(shares) * N_BLOCKS).astype(int)
    bounds = [0, *(int(end) for end in np.unique(ends[ends > 0]))]
    return [
        Shard(number, int(edges[lo]), edges[lo : hi + 1] - edges[lo], STAMP)
        for number, (lo, hi) in enumerate(pairwise(bounds))
    ]


def _bytes_of(value: Any) -> int:
    """Of all arrays inside."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    return sum(map(_bytes_of, value)) if isinstance(value, list | tuple) else 0


@dataclass
class DaskState:
    """One chain: what this process keeps of it. The neighbors are on the workers."""

    seed: int
    chain: int
    n_sweeps: int
    logit_q: NDArray[np.float64]  # (P,)
    logit_q_tilde: NDArray[np.float64]  # (S, P)
    step: NDArray[np.float64]  # (P,)
    snapshot: list[Packed] | None = None  # the neighbors of each shard as they were; None: as a new chain has them
    log: list[list[Command]] = field(default_factory=list)  # all since then, to every shard alike
    n_logged: int = 0  # bytes
    n_asked: int = 0  # batches of commands
    waiting: list[Command] = field(default_factory=list)  # commands without an answer, sent with the next that has one
    sent: dict[str, NDArray[np.float64]] = field(default_factory=dict)  # logits that the shards have
    opened: set[int] = field(default_factory=set)  # shards that have begun this chain
    seen: tuple[int, Packed] | None = None  # the neighbors after so many sweeps
    snapshot_due: float = 0.0


class DaskEngine(CpuEngine):
    """The sweeps of the CPU engine, where everything that is done for each case is done by the workers."""

    REMOTE = True

    def __init__(self, data: Data, model: Model, n_threads: int = 1, spread: Spread | None = None) -> None:
        nobody = data._replace(x=data.x[:0], y=data.y[:0], own_parent=data.own_parent[:0])
        super().__init__(nobody, model, 1)
        self.data = data
        self.whole = CpuEngine(nobody, model, 1)  # for states with the neighbors of all cases
        self.whole.data = data
        self.spread = spread or Spread(data, model, n_threads, None, None)

    @classmethod
    def for_chains(
        cls,
        n_chains: int,
        data: Data,
        model: Model,
        n_threads: int = 1,
        scheduler: str | None = None,
        n_shards: int | None = None,
    ) -> list[Engine]:
        """Engines that share the workers at `scheduler`, or `n_threads` workers that are started here."""
        spread = Spread(data, model, n_threads, scheduler, n_shards)
        return [cls(data, model, 1, spread) for _ in range(n_chains)]

    @classmethod
    def bytes_per_chain(cls, sizes: ProblemSizes, model: Model, n_threads: int) -> tuple[int, int]:
        """In this process: importances, commands and a snapshot; and what comes back of a draw."""
        n_cases, n_parents, n_features, n_classes = sizes
        importances = 2 * 2 * 4 * 8 * n_parents * layout.padded_width(n_features)
        expected = min(first_capacity(n_parents, model.hyper.alpha), 2.0 + 2.0 * n_parents * model.hyper.alpha)
        entry = 4 + 8 * -(-n_features // 64) + (8 if model.kind == "III" else 0)
        neighbors = int(n_cases * (4 + expected * entry))
        return importances + MOST_LOGGED + neighbors, 2 * neighbors + 8 * n_cases * n_classes

    def close(self) -> None:
        """Close the connection, and the workers that were started here."""
        self.spread.close()

    # States

    def start(self, seed: int, chain: int) -> DaskState:  # type: ignore[override]
        """As the CPU engine starts: no neighbors yet."""
        return self._spread_out(self.whole.start(seed, chain), blank=True)

    def thaw(self, arrays: Mapping[str, NDArray[Any]], seed: int, chain: int) -> DaskState:  # type: ignore[override]
        """The state that `freeze`, of this engine or of the CPU's, was given."""
        return self._spread_out(self.whole.thaw(arrays, seed, chain), blank=False)

    def freeze(self, state: DaskState) -> dict[str, NDArray[Any]]:
        """As the CPU engine freezes the same chain, but that unused room for neighbors is empty."""
        return self.whole.freeze(self._gathered(state))

    def latent(self, state: DaskState) -> Latent:  # type: ignore[override]
        """The state as dense arrays."""
        return self.whole.latent(self._gathered(state))

    def neighbors(self, state: DaskState) -> Neighbors:  # type: ignore[override]
        """The lists of neighbors."""
        return self._gathered(state).neighbors

    def _spread_out(self, state: CpuState, blank: bool) -> DaskState:
        snapshot = None
        if not blank:
            n, parent, bits, kappa = state.neighbors
            snapshot = []
            for shard in self.spread.shards:
                rows = slice(shard.first, shard.first + int(shard.edges[-1]))
                part = Neighbors(n[rows], parent[rows], bits[rows], kappa[rows])
                snapshot.append(Packed.of(part, self.model.kind == "III"))
        logits = state.logit_q, state.logit_q_tilde
        return DaskState(state.seed, state.chain, state.n_sweeps, *logits, state.step, snapshot)

    def _gathered(self, state: DaskState) -> CpuState:
        if state.seen is None or state.seen[0] != state.n_sweeps:
            self._keep_snapshot(state, self._ask(state, "pack"))
        assert state.seen is not None
        blank = layout.blank_neighbors(
            self.constants, len(self.data.x), first_capacity(len(self.data.x_parents), self.model.hyper.alpha)
        )
        neighbors = state.seen[1].unpacked(blank)
        logits = state.logit_q, state.logit_q_tilde
        return CpuState(state.seed, state.chain, state.n_sweeps, *logits, neighbors, state.step)

    def _keep_snapshot(self, state: DaskState, parts: list[Packed]) -> None:
        """From here on a lost shard is rebuilt from these neighbors. Between sweeps only."""
        state.seen = state.n_sweeps, Packed.joined(parts)
        state.snapshot, state.log, state.n_logged, state.sent = parts, [], 0, {}

    # What is done for each case

    def _send(self, state: DaskState, name: str, *arguments: Any) -> None:
        """A command that nobody waits for; it goes out with the next that has an answer."""
        for logit in ("logit_q", "logit_q_tilde"):
            now = getattr(state, logit)
            if logit not in state.sent or not np.array_equal(state.sent[logit], now):
                state.sent[logit] = now.copy()
                state.waiting.append((f"set_{logit}", (state.sent[logit],)))
        state.waiting.append((name, arguments))

    def _ask(self, state: DaskState, name: str, *arguments: Any) -> list[Any]:
        """A command to all shards, and their answers."""
        self._send(state, name, *arguments)
        commands, state.waiting = state.waiting, []
        return self.spread.ask(state, commands)

    def sweep(self, state: DaskState, adapt: bool = False) -> None:  # type: ignore[override]
        """The sweep of the CPU engine; and a snapshot, if it is time."""
        super().sweep(state, adapt)  # type: ignore[arg-type]
        self._snapshot_if_due(state)

    def sweep_given_q(self, state: DaskState, q: NDArray[Any]) -> None:  # type: ignore[override]
        """The sweep of the CPU engine given q; and a snapshot, if it is time."""
        super().sweep_given_q(state, q)  # type: ignore[arg-type]
        self._snapshot_if_due(state)

    def _snapshot_if_due(self, state: DaskState) -> None:
        began = time.monotonic()
        if state.snapshot_due == 0.0:
            state.snapshot_due = began + SNAPSHOT_SECONDS
        if began >= state.snapshot_due or state.n_logged > MOST_LOGGED:
            self._keep_snapshot(state, self._ask(state, "pack"))
            now = time.monotonic()
            state.snapshot_due = now + max(SNAPSHOT_SECONDS, SNAPSHOT_SHARE * (now - began))

    def update_cases(self, state: DaskState, key: np.uint64) -> None:  # type: ignore[override]
        """z, w and kappa of every case given q-tilde."""
        self._send(state, "update_cases", key)

    def update_given(  # type: ignore[override]
        self, state: DaskState, q_tilde: NDArray[Any], key: np.uint64, numbers: NDArray[np.int64]
    ) -> None:
        """Not on workers: they predict with the CPU's engine, in parts of their own."""
        raise self.no_given_importances()

    def prepare_comparison(self, state: DaskState) -> None:  # type: ignore[override]
        """The shards take the present importances."""
        self._send(state, "prepare_comparison")

    def count_cases(self, state: DaskState) -> NDArray[np.int64]:  # type: ignore[override]
        """n_b (S,)."""
        return np.sum(self._ask(state, "count_cases"), axis=0, dtype=np.int64)

    def compare_importance(  # type: ignore[override]
        self,
        state: DaskState,
        key: np.uint64,
        move_key: np.uint64,
        logit_q_new: NDArray[np.float64],
        first: int,
        last: int,
    ) -> NDArray[np.float64]:
        """How much better the new importances explain the cases, by block and feature."""
        return np.concatenate(self._ask(state, "compare_importance", key, move_key, logit_q_new, first, last))

    def accept_importance(  # type: ignore[override]
        self, state: DaskState, used: NDArray[np.int64], features: NDArray[np.int64]
    ) -> None:
        """The shards take over the proposed importances of these features, which they have computed themselves."""
        importance.accept_features(
            state.logit_q_tilde, self.proposed_logits, self.importance, self.proposed, used, features
        )
        state.sent = {"logit_q": state.logit_q.copy(), "logit_q_tilde": state.logit_q_tilde.copy()}
        self._send(state, "accept_importance", state.sent["logit_q"], features)

    def redraw_features(  # type: ignore[override]
        self, state: DaskState, key: np.uint64, features: NDArray[np.int64]
    ) -> None:
        """The shards redraw w of these features."""
        self._send(state, "redraw_features", key, features)

    def count_neighbors(  # type: ignore[override]
        self, state: DaskState
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """n_b (S,) and s_bj (S, P)."""
        return _summed(self._ask(state, "count_neighbors"))

    def observe(self, state: DaskState) -> Observation:  # type: ignore[override]
        """What is kept of a chain after a sweep; what comes back is also a snapshot."""
        votes, by_block, n_neighbors, n_on, packed = zip(*self._ask(state, "observe"), strict=True)
        self._keep_snapshot(state, list(packed))
        assert state.seen is not None
        log_likelihood, log_kappa = sum_of_blocks(np.concatenate(by_block))
        counts = _summed(list(zip(n_neighbors, n_on, strict=True)))
        log = log_likelihood + log_prior(self.data, self.model, state.logit_q, *counts, log_kappa)
        n = state.seen[1].n.copy()
        return Observation(expit(state.logit_q), expit(state.logit_q_tilde), n, np.concatenate(votes), float(log))

    def summarise(self, state: DaskState) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # type: ignore[override]
        """Vote shares (N, M) and log likelihood (N,)."""
        votes, log_likelihood = zip(*self._ask(state, "summarise"), strict=True)
        return np.concatenate(votes), np.concatenate(log_likelihood)

    def add_neighbors(  # type: ignore[override]
        self, state: DaskState, z_sum: NDArray[np.float32], w_sum: NDArray[np.float32] | None
    ) -> None:
        """Add z and z*w of this draw to the sums."""
        self.whole.add_neighbors(self._gathered(state), z_sum, w_sum)


def _summed(counts: list[tuple[NDArray[np.int32], NDArray[np.int32]]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    n_neighbors, n_on = (np.asarray(np.sum(parts, axis=0), np.int64) for parts in zip(*counts, strict=True))
    return n_neighbors, n_on


# Work of which no part needs another


def over_workers(
    function: Callable[[Any, Any, int], Any], shared: Any, parts: Iterable[Any], scheduler: str
) -> Iterator[Any]:
    """function(shared, part, n_threads) for every part, on the workers at `scheduler`; results in the order of parts.

    No more parts are under way than twice the workers' threads: results which nobody has asked for yet do not pile up.
    """
    with _client(scheduler) as client:
        held = client.scatter(_Whole(shared), broadcast=True, hash=False)
        waiting: deque[Any] = deque()
        for part in parts:
            waiting.append(client.submit(_apply, STAMP, function, held, _Whole(part), 1, pure=False))
            if len(waiting) >= 2 * max(1, sum(client.nthreads().values())):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _apply(stamp: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """On a worker, which does as many parts at once as it has threads."""
    _check_version(stamp)
    return function(*(given.value if isinstance(given, _Whole) else given for given in arguments))


def computed(
    function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], scheduler: str | None, shared: Any = None
) -> list[Any]:
    """function(*arguments) for each list of arguments, among which may be parts of Dask collections.

    What is `shared` is sent once, and comes before the others, unless it is None.
    It is called where these lie: on the workers at `scheduler`, or, without one, wherever Dask computes by default
    (the client that is active, or threads of this process).
    """
    try:
        from dask.base import compute
        from dask.delayed import delayed
    except ImportError as error:
        raise ImportError(INSTALL) from error
    before = () if shared is None else (delayed(shared, traverse=False),)
    tasks = [delayed(_apply, pure=False)(STAMP, function, *before, *each) for each in arguments]
    if scheduler is None:
        return list(compute(*tasks))
    with _client(scheduler, _active(scheduler)) as client:
        return list(client.gather(client.compute(tasks)))


def _active(scheduler: str) -> Any:
    """The active client, if it is connected to this scheduler: another client cannot use what it holds."""
    from distributed import default_client

    with suppress(ValueError):  # no client is active
        active = default_client()
        return active if active.scheduler.address == scheduler else None
    return None


class HeldParts:
    """Results that stay on the workers that computed them, for further work there.

    Dask recomputes the results of a worker that is lost.

    Parameters
    ----------
    function : callable
        Computes a part.
    arguments : iterable of tuples
        The arguments for each part, among which may be parts of Dask collections.
    scheduler : str
        Address of the scheduler.
    """

    def __init__(self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], scheduler: str) -> None:
        try:
            from dask.delayed import delayed
        except ImportError as error:
            raise ImportError(INSTALL) from error
        active = _active(scheduler)
        self.scheduler, self.owns_client = scheduler, active is None
        self.client = connected(scheduler) if active is None else active
        tasks = [delayed(_apply, pure=False)(STAMP, function, *each) for each in arguments]
        self.futures = self.client.compute(tasks)

    def each(self, function: Callable[..., Any], shared: Any, own: Iterable[Any]) -> Iterator[Any]:
        """function(shared, part, own argument) for every part, on the worker that holds it; results in their order."""
        with _client(self.scheduler, self.client):
            held = self.client.scatter(_Whole(shared), broadcast=True, hash=False)
            asked = deque(
                (part, (function, held, part, _Whole(value))) for part, value in zip(self.futures, own, strict=True)
            )
            sent = deque(self._send(part, arguments) for part, arguments in asked)
            while sent:
                yield self._answer(*asked.popleft(), *sent.popleft())

    def _send(self, part: Any, arguments: tuple[Any, ...]) -> tuple[Any, list[str]]:
        """Call a function on the workers that hold a part; returns the future result, and the workers."""
        holders: list[str] = []
        while not holders:  # where a worker was lost, until the part is there again
            error = part.exception()  # waits for the part
            if error is not None:
                raise error
            holders = [address for each in self.client.who_has([part]).values() for address in each]
            if not holders:
                time.sleep(POLL_SECONDS / 4)
        here = dict(workers=holders, allow_other_workers=False, pure=False)
        return self.client.submit(_apply, STAMP, *arguments, **here), holders

    def _answer(self, part: Any, arguments: tuple[Any, ...], future: Any, holders: list[str]) -> Any:
        """The result, asked for again where the workers that held the part are lost."""
        while True:
            try:
                return future.result(timeout=POLL_SECONDS)
            except NotYet:
                if not set(holders) & set(self.client.nthreads()):
                    future.cancel()
                    future, holders = self._send(part, arguments)

    def close(self) -> None:
        """Let the workers drop the parts."""
        self.futures = []
        if self.owns_client:
            self.client.close()


@contextmanager
def _client(scheduler: str, active: Any = None) -> Iterator[Any]:
    """A connection to the workers, closed at the end unless it was there before."""
    client = connected(scheduler) if active is None else active
    from distributed import KilledWorker

    try:
        yield client
    except KilledWorker as error:
        raise ConnectionError(
            f"workers at {scheduler} died again and again over one part of the work; they may lack the memory for it: "
            f"cut the table into smaller parts, or start workers with more memory (their logs say how they ended)"
        ) from error
    finally:
        if active is None:
            client.close()


def connected(scheduler: str) -> Any:
    """A connection to the scheduler."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError(INSTALL) from error
    try:
        return Client(scheduler, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at scheduler={scheduler!r} ({error}); start one with `dask scheduler`, or "
            f"leave scheduler out to use this machine alone"
        ) from error
