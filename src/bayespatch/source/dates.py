"""Conversion of dates to years or days between two dates.

An interval is a separate column whose name describes its computation, such as ``years from born to admitted``, so a
model can compute it from the dates of new cases.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from bayespatch.source.frame import import_pandas
from bayespatch.validation import listed

if TYPE_CHECKING:
    from pandas import DataFrame, Series, Timestamp

Unit = Literal["years", "days"]
TODAY = "today"
DAYS_A_YEAR = 365.2425
_TIMES = (datetime.date, datetime.time, datetime.timedelta)
_ISO = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})([T ]\d{1,2}:\d{2}.*)?")
_OTHER = re.compile(r"(\d{1,2})([-./])(\d{1,2})[-./](\d{2,4})([T ]\d{1,2}:\d{2}.*)?")
_NAME = re.compile(r"(years|days) from (.+) to (.+)")


class Interval(NamedTuple):
    """The time between two dates of a case.

    Attributes
    ----------
    unit : {"years", "days"}
    start : str
        A column of dates.
    end : str
        Another column of dates, a date such as 2024-12-31, or "today".

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"born": ["1960-05-01", None], "admitted": ["2020-05-01", "2020-06-01"]})
    >>> interval = Interval("years", "born", "admitted")
    >>> interval.name, interval.values(frame).round(1).tolist()
    ('years from born to admitted', [60.0, nan])
    """

    unit: Unit
    start: str
    end: str

    @property
    def name(self) -> str:
        """Name of the new column."""
        return f"{self.unit} from {self.start} to {self.end}"

    @classmethod
    def named(cls, name: str) -> Interval | None:
        """The interval with this name; None for other names."""
        match = _NAME.fullmatch(name)
        return None if match is None else cls("years" if match[1] == "years" else "days", match[2], match[3])

    def columns(self, frame: DataFrame) -> list[str]:
        """The required date columns that the table does not have."""
        ends = [] if self._fixed_end() is not None else [self.end]
        return [name for name in [self.start, *ends] if name not in frame.columns]

    def values(self, frame: DataFrame) -> Series:
        """The numbers, one for each row; NaN if a date is missing."""
        fixed = self._fixed_end()
        end = dates_of(frame[self.end]) if fixed is None else fixed
        days = (end - dates_of(frame[self.start])).dt.total_seconds() / 86400.0
        # Rounded, because more digits would suggest a precision that ages and stays do not have.
        return (days / DAYS_A_YEAR).round(1) if self.unit == "years" else days.round(0)

    def _fixed_end(self) -> Timestamp | None:
        if self.end == TODAY:
            return import_pandas().Timestamp.today().normalize()
        return import_pandas().Timestamp(self.end) if _ISO.fullmatch(self.end) else None


def holds_dates(column: Series) -> bool:
    """Whether all known values are dates or times."""
    if column.dtype.kind in "Mm":
        return True
    if column.dtype.kind in "biufc":
        return False
    known = column.dropna().tolist()
    return bool(known) and all(
        isinstance(value, _TIMES) or _ISO.fullmatch(str(value)) or _OTHER.fullmatch(str(value)) for value in known
    )


def dates_of(column: Series) -> Series:
    """Convert a column of text or dates to timestamps; its values must show which of two numbers is the day.

    Examples
    --------
    >>> import pandas
    >>> dates_of(pandas.Series(["31.12.2023", "1.2.2024"])).dt.month.tolist()
    [12, 2]
    """
    pandas = import_pandas()
    if column.dtype.kind == "M":
        return column.dt.tz_localize(None) if getattr(column.dtype, "tz", None) is not None else column
    known = column.dropna()
    if not holds_dates(column):
        example = f", such as {str(known.iloc[0])!r}" if len(known) else ""
        raise ValueError(f"column {str(column.name)!r} contains no dates{example}; name a column of dates")
    texts = [str(value) for value in known]
    matches = [_OTHER.fullmatch(text) for text in texts]
    if not any(matches):
        return pandas.to_datetime(column.where(column.isna(), column.astype(str)), format="ISO8601")
    parts = [match for match in matches if match is not None]
    if len(parts) < len(texts):
        raise ValueError(
            f"column {str(column.name)!r} has dates in several formats, such as {texts[0]!r} and "
            f"{parts[0].string!r}; write all of them as 2024-12-31"
        )
    first, second = max(int(match[1]) for match in parts), max(int(match[3]) for match in parts)
    day_first = "." in {match[2] for match in parts} or first > 12
    if not day_first and second <= 12:
        raise ValueError(
            f"column {str(column.name)!r}: {texts[0]!r} could be day first or month first; write dates as 2024-12-31"
        )
    return pandas.to_datetime(column, dayfirst=day_first, format="mixed")


def in_period(frame: DataFrame, column: str, since: str | None = None, until: str | None = None) -> DataFrame:
    """The rows whose date is `since` or later, and before `until`; both are dates such as 2024-12-31.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"seen": ["2019-05-01", "2020-01-01", "2021-06-01"], "n": [1, 2, 3]})
    >>> in_period(frame, "seen", since="2020-01-01", until="2021-01-01")["n"].tolist()
    [2]
    """
    days = dates_of(frame[column])
    if days.isna().any():
        raise ValueError(f"--date {column!r}: {int(days.isna().sum())} rows have no date; fill them in, or remove them")
    chosen = days.notna()
    for option, text in {"--since": since, "--until": until}.items():
        if text is not None and not _ISO.fullmatch(text):
            raise ValueError(f"{option} {text!r} is not a date; write it as 2024-12-31")
    pandas = import_pandas()
    if since is not None:
        chosen &= days >= pandas.Timestamp(since)
    if until is not None:
        chosen &= days < pandas.Timestamp(until)
    if not chosen.any():
        ends = f"{days.min():%Y-%m-%d} to {days.max():%Y-%m-%d}"
        raise ValueError(f"no row has a date in the period; {column!r} ranges from {ends}; change --since or --until")
    return frame[chosen.to_numpy()]


def with_intervals(frame: DataFrame, intervals: Sequence[Interval]) -> DataFrame:
    """The table with columns for the intervals, and without the dates they were computed from."""
    used: set[str] = set()
    new = frame.copy(deep=False)
    for interval in intervals:
        absent = interval.columns(frame)
        if absent:
            raise ValueError(
                f"there is no column {listed(absent)}, which {interval.name!r} is computed from; the columns are "
                f"{listed(frame.columns, 40)}"
            )
        new[interval.name] = interval.values(frame)
        used |= {name for name in (interval.start, interval.end) if name in frame.columns}
    return new.drop(columns=sorted(used))


def remade(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """The table with missing columns added if they can be computed from its dates."""
    new = frame
    for name in names:
        interval = None if name in frame.columns else Interval.named(name)
        if interval is not None and not interval.columns(frame):
            new = new.assign(**{name: interval.values(frame)})
    return new
