"""Independent tasks on the workers of a Dask cluster, and data that remain there.

Workers call functions on parts of tables, models or indexes. They must run the same version of bayespatch.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from bayespatch.engine import digest_of_sources

if TYPE_CHECKING:
    from distributed import Client, Future

Shared = TypeVar("Shared")
Piece = TypeVar("Piece")
Result = TypeVar("Result")

POLL_SECONDS = 1.0  # interval between checks for lost workers
INSTALL = 'a Dask scheduler or data frame needs dask and distributed: pip install "bayespatch[dask]"'


def check_scheduler(scheduler: object) -> str | None:
    """The address of a Dask scheduler, or None."""
    if scheduler is not None and (not isinstance(scheduler, str) or not scheduler):
        raise ValueError(
            f"scheduler={scheduler!r} is not an address; pass an address such as 'tcp://10.0.0.1:8786', or None"
        )
    return scheduler


@cache
def _version() -> str:
    """A digest of the sources of this package."""
    return digest_of_sources(Path(__file__).parent)


def _check_version(version: str) -> None:
    if version != _version():
        from distributed import get_worker

        raise ValueError(
            f"worker {get_worker().address} has a different version of bayespatch than this process; install the same "
            f"version on all workers"
        )


@dataclass(frozen=True)
class _Whole:
    """A wrapper for a value that Dask must pass on unchanged; Dask would take tuples apart."""

    value: object


def over_workers(
    function: Callable[[Shared, Piece, int], Result], shared: Shared, parts: Iterable[Piece], scheduler: str
) -> Iterator[Result]:
    """function(shared, part, n_threads) for every part, on the workers at `scheduler`; results in the order of parts.

    At most twice as many parts are in progress as the workers have threads, so that unread results do not pile up.
    """
    with _client(scheduler) as client:
        held = client.scatter(_Whole(shared), broadcast=True, hash=False)
        waiting: deque[Future] = deque()
        for part in parts:
            waiting.append(client.submit(_apply, _version(), function, held, _Whole(part), 1, pure=False))
            if len(waiting) >= 2 * max(1, sum(client.nthreads().values())):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _apply(version: str, function: Callable[..., Result], *arguments: object) -> Result:
    """Call a function on a worker."""
    _check_version(version)
    return function(*(given.value if isinstance(given, _Whole) else given for given in arguments))


def computed(
    function: Callable[..., Result],
    arguments: Iterable[tuple[object, ...]],
    scheduler: str | None,
    shared: object = None,
) -> list[Result]:
    """function(shared, *arguments) for each tuple of arguments, which may contain parts of Dask collections.

    Runs on the workers at `scheduler` or, without a scheduler, where Dask computes by default (the active client, or
    threads of this process). `shared` is sent once; if it is None, the function is called without it.
    """
    try:
        from dask.base import compute
        from dask.delayed import delayed
    except ImportError as error:
        raise ImportError(INSTALL) from error
    before = () if shared is None else (delayed(shared, traverse=False),)
    tasks = [delayed(_apply, pure=False)(_version(), function, *before, *each) for each in arguments]
    if scheduler is None:
        return list(compute(*tasks))
    with _client(scheduler, _active(scheduler)) as client:
        return list(client.gather(client.compute(tasks)))


def _active(scheduler: str) -> Client | None:
    """The active client if it is connected to this scheduler; other clients cannot use its collections."""
    from distributed import default_client

    with suppress(ValueError):  # no client is active
        active = default_client()
        return active if active.scheduler.address == scheduler else None
    return None


def active_scheduler() -> str | None:
    """The address of the scheduler that Dask uses by default in this process, if it has a client."""
    distributed = sys.modules.get("distributed")  # imported if there is a client
    if distributed is None:
        return None
    try:
        return str(distributed.default_client().scheduler.address)
    except ValueError:  # no client is active
        return None


class HeldParts:
    """Results that stay on the workers that computed them, for further work there.

    Dask recomputes the results of lost workers.

    Parameters
    ----------
    function : callable
        Computes a part.
    arguments : iterable of tuples
        The arguments for each part, which may include parts of Dask collections.
    scheduler : str
        Address of the scheduler.
    """

    def __init__(
        self, function: Callable[..., object], arguments: Iterable[tuple[object, ...]], scheduler: str
    ) -> None:
        try:
            from dask.delayed import delayed
        except ImportError as error:
            raise ImportError(INSTALL) from error
        active = _active(scheduler)
        self.scheduler, self.owns_client = scheduler, active is None
        self.client = connected(scheduler) if active is None else active
        tasks = [delayed(_apply, pure=False)(_version(), function, *each) for each in arguments]
        self.futures = self.client.compute(tasks)

    def each(self, function: Callable[..., Result], shared: object, own: Iterable[object]) -> Iterator[Result]:
        """function(shared, part, own argument) for every part, on the worker that has it, in the order of parts."""
        with _client(self.scheduler, self.client):
            held = self.client.scatter(_Whole(shared), broadcast=True, hash=False)
            pending = deque(
                (part, (function, held, part, _Whole(value))) for part, value in zip(self.futures, own, strict=True)
            )
            sent = deque(self._send(part, arguments) for part, arguments in pending)
            while sent:
                yield self._answer(*pending.popleft(), *sent.popleft())

    def _send(self, part: Future, arguments: tuple[object, ...]) -> tuple[Future, list[str]]:
        """Call a function on a worker that has the part; returns the future result and the workers' addresses."""
        holders: list[str] = []
        while not holders:  # after the loss of a worker, until Dask has recomputed the part
            error = part.exception()  # waits for the part
            if error is not None:
                raise error
            holders = [address for each in self.client.who_has([part]).values() for address in each]
            if not holders:
                time.sleep(POLL_SECONDS / 4)
        here = dict(workers=holders, allow_other_workers=False, pure=False)
        return self.client.submit(_apply, _version(), *arguments, **here), holders

    def _answer(self, part: Future, arguments: tuple[object, ...], future: Future, holders: list[str]) -> Any:
        """The result; the call is repeated if the workers that had the part are lost."""
        while True:
            try:
                return future.result(timeout=POLL_SECONDS)
            except NotYet:
                if not set(holders) & set(self.client.nthreads()):
                    future.cancel()
                    future, holders = self._send(part, arguments)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "the past cases of this model are on Dask workers and cannot be copied or pickled with it; save the model "
            "with save(path) and load it where it is needed"
        )

    def close(self) -> None:
        """Let the workers drop the parts."""
        self.futures = []
        if self.owns_client:
            self.client.close()


@contextmanager
def _client(scheduler: str, active: Client | None = None) -> Iterator[Client]:
    """A connection to the workers: the active one, or a new one that is closed at the end."""
    client = connected(scheduler) if active is None else active
    from distributed import KilledWorker

    try:
        yield client
    except KilledWorker as error:
        raise ConnectionError(
            f"workers at {scheduler} died repeatedly while processing one part, perhaps for lack of memory; "
            f"split the table into smaller parts, or start workers with more memory (see their logs)"
        ) from error
    finally:
        if active is None:
            client.close()


def connected(scheduler: str) -> Client:
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
            f"omit scheduler to use only this machine"
        ) from error
