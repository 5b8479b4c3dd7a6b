"""Rate limits: a token bucket for each user."""

from __future__ import annotations

import time
from collections import OrderedDict

_MOST = 10_000  # buckets; the least recently used one is dropped first


class Rate:
    """At most `most` requests at once, and `most` requests per `seconds` in the long run.

    Examples
    --------
    >>> rate = Rate(2, 60)
    >>> [rate.wait("Dr. Roe", now=0.0) for _ in range(3)]
    [0, 0, 30]
    >>> rate.wait("Dr. Roe", now=30.0)
    0
    """

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.per_second = most, most / seconds
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # who -> (requests left, time)

    def wait(self, who: str, now: float | None = None) -> int:
        """Count a request and return 0 if it is allowed; otherwise return the seconds to wait."""
        now = time.monotonic() if now is None else now
        left, before = self._buckets.pop(who, (float(self.most), now))
        left = min(float(self.most), left + (now - before) * self.per_second)
        allowed = left >= 1.0
        self._buckets[who] = (left - 1.0 if allowed else left, now)
        while len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        return 0 if allowed else max(1, round((1.0 - left) / self.per_second))
