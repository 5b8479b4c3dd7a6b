"""Throttling after wrong passwords, which slows down only their sender."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict

FORGOTTEN_AFTER = 3600.0  # seconds without a failure
_MOST = 10_000  # keys; the least recently used one is dropped first


class Throttle:
    """Counts failures by key: after the first `free` ones, the waiting time doubles up to `longest` seconds.

    Examples
    --------
    >>> throttle = Throttle(free=2, longest=900)
    >>> [throttle.begin("Dr. Roe from 10.0.0.7", now=t) for t in (0.0, 1.0, 2.0, 2.5, 4.0, 5.0)]
    [0, 0, 0, 2, 0, 3]
    >>> throttle.succeeded("Dr. Roe from 10.0.0.7")
    >>> throttle.begin("Dr. Roe from 10.0.0.7", now=5.0)
    0
    """

    def __init__(self, free: int, longest: float) -> None:
        self.free, self.longest = free, longest
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # key -> (number, time of the last one)
        self._lock = threading.Lock()

    def begin(self, key: str, now: float | None = None) -> int:
        """0 if an attempt is allowed; otherwise the seconds to wait. An attempt counts as failed until `succeeded`.

        Several attempts at the same moment are thus counted before any of them is answered.
        """
        now = time.monotonic() if now is None else now
        with self._lock:
            n, last = self._failures.pop(key, (0, now))
            if now - last > FORGOTTEN_AFTER:
                n = 0
            wait = last + self._delay(n) - now
            self._failures[key] = (n, last) if wait > 0 else (n + 1, now)
            while len(self._failures) > _MOST:
                self._failures.popitem(last=False)
        return max(1, round(wait)) if wait > 0 else 0

    def succeeded(self, key: str) -> None:
        """Forget the failures of a key."""
        with self._lock:
            self._failures.pop(key, None)

    def take_back(self, key: str) -> None:
        """Forget the last attempt of a key, which succeeded."""
        with self._lock:
            n, last = self._failures.get(key, (0, 0.0))
            if n:
                self._failures[key] = (n - 1, last)

    def _delay(self, n: int) -> float:
        return 0.0 if n <= self.free else min(self.longest, 2.0 ** min(n - self.free, 30))


def network_of(address: str) -> str:
    """The key under which failures of an address are counted: an IPv4 address, or an IPv6 /64 network.

    Examples
    --------
    >>> network_of("10.0.0.7"), network_of("2001:db8::1:2"), network_of("::ffff:10.0.0.7"), network_of("-")
    ('10.0.0.7', '2001:db8::/64', '10.0.0.7', '-')
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip.packed, 64), strict=False))
