"""The bounded queue in front of the model: some questions are answered, some wait, the rest are refused at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
RETRY = 2  # seconds after which whoever was refused may come again


class BusyError(Exception):
    """The queue is full; nothing was done."""


class LateError(Exception):
    """The time for a request is over."""


class Queue:
    """Threads that answer questions, and places for those that wait.

    A question that has begun cannot be interrupted: it keeps its thread to its end, and counts until then, though
    nobody waits for it any more.
    """

    def __init__(self, threads: int, waiting: int, seconds: float) -> None:
        self.most, self.seconds = threads + waiting, seconds
        self.pending = self.refused = self.late = 0
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="model")

    async def run(self, work: Callable[..., T], *args: object, **kwargs: object) -> T:
        """The result of a function that is called in one of the threads."""
        if self.pending >= self.most:
            self.refused += 1
            raise BusyError
        loop = asyncio.get_running_loop()
        future: Future[T] = self._threads.submit(work, *args, **kwargs)
        self.pending += 1
        future.add_done_callback(lambda _: _tell(loop, self._ended))
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), self.seconds)
        except TimeoutError:
            future.cancel()
            self.late += 1
            raise LateError from None
        except asyncio.CancelledError:
            future.cancel()
            raise

    def _ended(self) -> None:
        self.pending -= 1

    def close(self) -> None:
        """Wait for what has begun, and drop what waits."""
        self._threads.shutdown(wait=True, cancel_futures=True)


def _tell(loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(ended)
