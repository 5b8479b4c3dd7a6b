"""Limits on connections: idle and unfinished ones are closed, and no address can occupy all of them."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0  # time limit for the headers of a request to arrive
MOST_CONNECTIONS = 800  # further requests are answered with 503
SPARE = 50  # once only these are left, a new connection closes the one that has been idle the longest
MOST_OF_ONE = 200  # connections of one address, unless it is this machine or a trusted proxy


class LimitedProtocol(H11Protocol):
    """uvicorn's protocol, with a time limit for the headers of a request and a limit on connections per address."""

    trusted: ClassVar[frozenset[str]] = frozenset()
    counts: ClassVar[Counter[str]] = Counter()
    idle: ClassVar[dict[LimitedProtocol, None]] = {}  # connections without a request in progress, longest idle first

    _timer: asyncio.TimerHandle | None = None
    _counted = ""

    def connection_made(self, transport: Any) -> None:
        """Accept a connection, which must soon send a request; if there are too many, close an idle one."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS - SPARE:
            longest = next((one for one in self.idle if one in self.connections), None)
            if longest is not None:
                del self.idle[longest]
                longest.transport.abort()
        self.idle[self] = None
        address = str(self.client[0]) if self.client else ""
        if address and address not in self.trusted and not _is_local(address):
            if self.counts[address] >= MOST_OF_ONE:
                transport.abort()
                return
            self._counted = address
            self.counts[address] += 1
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection was closed."""
        self._stop_waiting()
        self.idle.pop(self, None)
        if self._counted:
            self.counts[self._counted] -= 1
            if not self.counts[self._counted]:
                del self.counts[self._counted]
            self._counted = ""
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive bytes of a request; its headers must be complete within the time limit."""
        super().data_received(data)
        if self._in_request:
            self._stop_waiting()
            self.idle.pop(self, None)
        elif self._timer is None:
            self._wait_for_head()

    def on_response_complete(self) -> None:
        """A response was sent, and the connection is idle again."""
        super().on_response_complete()
        if not self.transport.is_closing() and not self._in_request:
            self.idle[self] = None

    @property
    def _in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._timer = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if not self._in_request and not self.transport.is_closing():
            self.transport.close()


def trust(proxies: str) -> None:
    """Do not limit the connections of reverse proxies (addresses separated by commas)."""
    LimitedProtocol.trusted = frozenset(part.strip() for part in proxies.split(",") if part.strip())


def _is_local(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
