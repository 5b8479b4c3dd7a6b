"""The bounded queue in front of the model: some questions are answered, some wait, the rest are rejected at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
RETRY = 2  # seconds after which a rejected client may try again


class BusyError(Exception):
    """The queue is full; nothing was done."""


class LateError(Exception):
    """The time limit for a request was exceeded."""


class Queue:
    """Threads that answer questions, and a bounded number of waiting questions.

    A running question cannot be interrupted: it occupies its thread until it ends, even if nobody waits for it anymore.
    """

    def __init__(self, threads: int, waiting: int, seconds: float) -> None:
        self.most, self.seconds = threads + waiting, seconds
        self.pending = self.refused = self.late = 0
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="model")

    async def run(self, work: Callable[..., T], *args: object, **kwargs: object) -> T:
        """Call a function in one of the threads and return its result."""
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
        """Wait for running questions, and drop waiting ones."""
        self._threads.shutdown(wait=True, cancel_futures=True)


def _tell(loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(ended)
