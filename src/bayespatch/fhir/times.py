"""FHIR dates and times, with a precision of a year, month, day or second."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

_DATE_TIME = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)"
    r"(?:T(?P<time>\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(?P<zone>Z|[+-]\d\d:\d\d)?)?)?)?"
)
TIME_UNITS = ("a", "mo", "wk", "d")


class Span(NamedTuple):
    """The range of a FHIR date: from `start` up to, but not including, `end`."""

    start: datetime
    end: datetime

    @property
    def text(self) -> str:
        """The date as precise as it is known: year, month or day."""
        length = self.end - self.start
        return f"{self.start:%Y-%m-%d}"[: 4 if length > timedelta(days=31) else 7 if length > timedelta(days=1) else 10]

    def straddles(self, at: datetime) -> bool:
        """Whether only the month or the year is known, and it began before and ends after this time."""
        return self.end - self.start > timedelta(days=1) and self.start < at < self.end


def read_time(text: object, zone: tzinfo | None = None) -> Span | None:
    """A FHIR date or dateTime; None if it is malformed. Times without a zone are in `zone` (default: UTC).

    Examples
    --------
    >>> span = read_time("2024-02")
    >>> str(span.start), str(span.end)
    ('2024-02-01 00:00:00+00:00', '2024-03-01 00:00:00+00:00')
    >>> read_time("2024-13")
    """
    match = _DATE_TIME.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    zone = zone or UTC
    try:
        year, month, day = (int(match[part] or 1) for part in ("year", "month", "day"))
        if match["time"]:
            clock = match["time"] if len(match["time"]) > 5 else f"{match['time']}:00"
            whole, _, part = clock.partition(".")
            moment = datetime.fromisoformat(f"{match['year']}-{match['month']}-{match['day']}T{whole}")
            moment = moment.replace(microsecond=int(f"{part:0<6}"[:6]) if part else 0)
            moment = moment.replace(tzinfo=_zone(match["zone"], zone))
            return Span(moment, moment)
        start = datetime(year, month, day, tzinfo=zone)
        if match["day"]:
            return Span(start, start + timedelta(days=1))
        if match["month"]:
            return Span(start, datetime(year + month // 12, month % 12 + 1, 1, tzinfo=zone))
        return Span(start, datetime(year + 1, 1, 1, tzinfo=zone))
    except (ValueError, OverflowError):
        return None


def aware(at: datetime | None) -> datetime:
    """The time of a prediction with a time zone; None means now, and a time without a zone is in UTC."""
    if at is None:
        return datetime.now(UTC)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def elapsed(since: Span, at: datetime, unit: str) -> int:
    """Completed years, months, weeks or days between the start of a span and `at`.

    Examples
    --------
    >>> elapsed(read_time("1960-03-01"), datetime(2024, 2, 29, tzinfo=UTC), "a")
    63
    """
    start = since.start.astimezone(at.tzinfo)
    if unit in ("a", "mo"):
        months = 12 * (at.year - start.year) + at.month - start.month
        months -= (at.day, at.time()) < (start.day, start.time())
        return months // 12 if unit == "a" else months
    days = (at - start) // timedelta(days=1)
    return days // 7 if unit == "wk" else days


def _zone(text: str | None, zone: tzinfo) -> tzinfo:
    """The time zone at the end of a dateTime."""
    if text is None:
        return zone
    return datetime.fromisoformat(f"2000-01-01T00:00:00{'+00:00' if text == 'Z' else text}").tzinfo or zone
