"""Follow-up of the past cases that vote: treatments, later outcomes and times to events, weighted by votes.

Follow-up columns are recorded for past cases. They are never compared, and new cases do not need them. Each column
has one of four kinds:

- "category", summarized by weighted shares;
- "number", summarized by median and quartiles;
- "time", the time to an event or to the end of follow-up, with another column that states which of the two it is. It is
  summarized by a weighted Kaplan-Meier curve, and by the cumulative incidence of each event if there are several;
- "treatment", a category whose values are listed with the outcomes of the past cases that received each treatment.

Every past case is weighted by its share of the votes (`bayespatch.survival`). Intervals use the effective number of
cases. Summaries of fewer than `LEAST_CASES` past cases, or of an effective number below `LEAST_EFFECTIVE`, are
suppressed: they would be too uncertain to use and could disclose what happened to a single person. Survival curves end
when fewer cases are at risk, and are reported at `N_TIMES` evenly spaced times instead of the event times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from bayespatch.encode.column import number_text
from bayespatch.encode.table import PlainColumn, PlainTable, Value
from bayespatch.survival import (
    check_times,
    cumulative_incidence,
    effective_number,
    frequencies,
    kaplan_meier,
    weighted_quantiles,
)
from bayespatch.types import AnyArray, JSONMapping, JSONObject
from bayespatch.validation import check_choice, listed, remedy

Array = NDArray[np.float64]
Kind = Literal["category", "number", "treatment", "time"]

KINDS: tuple[Kind, ...] = get_args(Kind)
# A kind, ("time", event column), or None to infer the kind from the values
KindOf: TypeAlias = str | tuple[str, str] | None
# The argument of `fit`: the names of the columns, or the kind of each column
FollowUpColumns: TypeAlias = Sequence[str] | Mapping[str, KindOf] | None
LEAST_CASES, LEAST_EFFECTIVE = 10, 5.0
N_TIMES = 101
MOST_LEVELS = 50
NOT_RANDOM = (
    "Treatments were not assigned at random: patients who received different treatments may differ in other ways. "
    "This table does not show which treatment works better."
)
_TICKS = 4  # approximate number of landmarks of a survival curve


class FollowUpRole(NamedTuple):
    """A column of the training table that is recorded but not compared.

    Attributes
    ----------
    name : str
    kind : {"category", "number", "treatment", "time"}, or None
        None means "number" for numbers without labels, and "category" otherwise.
    event : str
        Times only: the column that is 0 if follow-up ended without the event and 1 if it happened. Competing
        events are numbered 1, 2, ...
    """

    name: str
    kind: Kind | None = None
    event: str = ""


@dataclass(frozen=True, eq=False)
class FollowUpColumn:
    """A follow-up column of n past cases.

    Attributes
    ----------
    name : str
    kind : {"category", "number", "treatment", "time"}
    label, unit : str
        Label and unit of the column; may be empty.
    event : str
        Times only: name of the event column.
    levels : tuple of str
        Names of the categories, of the treatments or, for times, of the K events.
    values : array of shape (n,)
        Position in `levels`, number, or time; NaN if nothing was recorded.
    causes : int array of shape (n,)
        Times only, otherwise empty: 0 if follow-up ended without an event, otherwise 1 to K.
    """

    name: str
    kind: Kind
    label: str
    unit: str
    event: str
    levels: tuple[str, ...]
    values: Array
    causes: NDArray[np.int64]

    def extended(self, n: int) -> FollowUpColumn:
        """The same column with n more rows without recorded values."""
        causes = np.append(self.causes, np.zeros(n, np.int64)) if self.kind == "time" else self.causes
        return replace(self, values=np.append(self.values, np.full(n, np.nan)), causes=causes)

    def at(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> FollowUpColumn:
        """The same column for some of its rows."""
        return replace(self, values=self.values[rows], causes=self.causes[rows] if self.kind == "time" else self.causes)

    def without(self, row: int) -> FollowUpColumn:
        """The same column without a row, and without the names of levels and last events that only this row has."""
        rest = self.at(np.delete(np.arange(len(self.values)), row))
        if self.kind == "time":
            return replace(rest, levels=self.levels[: max(1, int(rest.causes.max(initial=0)))])
        if self.kind == "number":
            return rest
        used, places = np.unique(rest.values[rest.known].astype(np.int64), return_inverse=True)
        values = rest.values.copy()
        values[rest.known] = places
        return replace(rest, levels=tuple(self.levels[place] for place in used), values=values)

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Whether a value was recorded, (n,)."""
        return ~np.isnan(self.values)


@dataclass(frozen=True, eq=False)
class FollowUp:
    """The follow-up columns of a training table.

    Examples
    --------
    >>> import pandas
    >>> from bayespatch.encode.table import read_table
    >>> table = read_table(pandas.DataFrame({"drug": ["a", "b"] * 20, "days": [3.0, 5.0] * 20}))
    >>> follow_up = FollowUp.learn(table, follow_up_roles({"drug": "treatment", "days": "number"}))
    >>> summary = follow_up.summaries(np.ones(40), level=0.9)
    >>> summary["days"]["median"]["value"], [row["treatment"] for row in summary["drug"]["treatments"]]
    (4.0, ['a', 'b'])
    """

    columns: tuple[FollowUpColumn, ...]

    @classmethod
    def learn(cls, table: PlainTable, roles: Sequence[FollowUpRole]) -> FollowUp:
        """Read the columns of a table; values that do not match the kind raise a ValueError."""
        by_name = {column.name: column for column in table.columns}
        return cls(tuple(_column(by_name, role, table) for role in roles))

    def at(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> FollowUp:
        """The same columns for some of their rows."""
        return FollowUp(tuple(column.at(rows) for column in self.columns))

    def without(self, row: int) -> FollowUp:
        """The same columns without a row, and without names that only this row has."""
        return FollowUp(tuple(column.without(row) for column in self.columns))

    def extended(self, n: int) -> FollowUp:
        """The same columns with n more rows without recorded values."""
        return FollowUp(tuple(column.extended(n) for column in self.columns))

    def summaries(
        self,
        weights: Array,
        level: float,
        outcome: FollowUpColumn | None = None,
        landmarks: Sequence[float] | None = None,
    ) -> JSONObject:
        """Summaries of all columns over cases with these weights, {column: summary}, ready for JSON.

        Parameters
        ----------
        weights : array of shape (n,)
            Share of the votes of each row.
        level : float
            Probability of the intervals.
        outcome : FollowUpColumn, optional
            The outcome of the same rows, to be shown for each treatment.
        landmarks : sequence of float, optional
            Landmarks of an outcome that is a time; by default, round times.

        Returns
        -------
        dict
            Every summary has "kind", "label", "unit", "level", "n" (past cases with a recorded value), "effective"
            (their effective number) and "suppressed" (the reason, or None). If it is not suppressed it also has

            - category: "shares", a list of {"value", "share", "low", "high", "population"};
            - number: "median" and "quartiles", {"value", "low", "high"} and [lower, upper], and "population", the same
              values for all past cases;
            - time: "event", "n_events", "median" ({"value", "low", "high"}; None if the curve does not fall to 0.5),
              "curve" ({"times", "survival", "low", "high", "at_risk", "population"}), "landmarks" (the curve at
              a few round times) and "incidence" (a list of {"event", "times", "incidence", "low", "high"}, empty for a
              single event). "at_risk" is an effective number;
            - treatment: "note", and "treatments", a list in alphabetical order of {"treatment", "share", "low", "high",
              "n", "effective", "suppressed", "outcome", "follow_up"}, where the last two are summaries over the past
              cases that received this treatment.

            "population" is the same with equal weights, over all past cases, or all that received the treatment. "n",
            "effective" and "population" of a treatment are None if they would reveal the size of a group of few cases.
        """
        plain = {column.name: summary(column, weights, level) for column in self.columns if column.kind != "treatment"}
        # Treatments are compared at the same times.
        others = [(column, landmarks_of(plain[column.name])) for column in self.columns if column.name in plain]
        result = None
        if outcome is not None:
            result = outcome, landmarks_of(summary(outcome, weights, level, landmarks))
        return {
            column.name: plain.get(column.name) or _treatments(column, weights, level, others, result)
            for column in self.columns
        }

    def to_dict(self) -> list[JSONObject]:
        """Everything except the values, ready for JSON."""
        names = ("name", "kind", "label", "unit", "event", "levels")
        return [{name: _plain(getattr(column, name)) for name in names} for column in self.columns]

    def to_array(self) -> Array:
        """The values, (n, F), followed by the causes of all times, (n, F + T)."""
        causes = [column.causes.astype(np.float64) for column in self.columns if column.kind == "time"]
        return np.column_stack([*(column.values for column in self.columns), *causes])

    @classmethod
    def from_stored(cls, described: object, numbers: AnyArray, n: int) -> FollowUp:
        """The columns written by `to_dict` and `to_array` for n rows; invalid contents raise a ValueError."""
        names = ["name", "kind", "label", "unit", "event", "levels"]
        if not isinstance(described, list) or not all(isinstance(d, dict) and list(d) == names for d in described):
            raise ValueError("the description of the follow-up columns is invalid")
        for one in described:
            check_choice("kind", one["kind"], KINDS)
            texts = [one[name] for name in names[:-1]]
            if not isinstance(one["levels"], list) or not all(type(text) is str for text in (*texts, *one["levels"])):
                raise ValueError("the description of a follow-up column contains values that are not text")
        n_times = sum(one["kind"] == "time" for one in described)
        if numbers.dtype != np.float64 or numbers.shape != (n, len(described) + n_times) or not len(described):
            raise ValueError("the follow-up columns do not match their descriptions or the length of the table")
        columns, place = [], len(described)
        for j, one in enumerate(described):
            values, causes = numbers[:, j], np.empty(0, np.int64)
            if one["kind"] == "time":
                if not np.all(np.isin(numbers[:, place], np.arange(len(one["levels"]) + 1))):
                    raise ValueError(f"follow-up column {one['name']!r} has unknown events")
                causes, place = numbers[:, place].astype(np.int64), place + 1
            _check_stored(one, values)
            columns.append(FollowUpColumn(**{**one, "levels": tuple(one["levels"])}, values=values, causes=causes))
        return cls(tuple(columns))


def follow_up_roles(follow_up: FollowUpColumns) -> tuple[FollowUpRole, ...]:
    """The argument `follow_up` of `fit`.

    Parameters
    ----------
    follow_up : sequence of str, mapping, or None
        Names of columns, or {name: kind}. The kind of a time is ("time", event column); None infers the kind from the
        values.

    Examples
    --------
    >>> follow_up_roles({"drug": "treatment", "days": ("time", "died")})[1]
    FollowUpRole(name='days', kind='time', event='died')
    """
    if follow_up is None:
        return ()
    if isinstance(follow_up, str):
        raise ValueError(f"follow_up={follow_up!r} is a string; pass a list of columns, such as [{follow_up!r}]")
    kinds = dict(follow_up) if isinstance(follow_up, Mapping) else dict.fromkeys(follow_up)
    roles = []
    for name, kind in kinds.items():
        event = ""
        if isinstance(kind, tuple | list) and len(kind) == 2 and kind[0] == "time":
            kind, event = "time", str(kind[1])
        if kind is not None:
            check_choice(f"follow_up[{name!r}]", kind, KINDS)
        if kind == "time" and not event:
            raise ValueError(
                f"follow_up[{name!r}] is a time without an event; pass ('time', COLUMN), with the column that is 1 if "
                f"the event happened and 0 if follow-up ended without it"
            )
        roles.append(FollowUpRole(str(name), cast("Kind | None", kind), event))
    events = {role.event for role in roles if role.event}
    return tuple(role for role in roles if role.name not in events or role.kind is not None)


def columns_of(roles: Sequence[FollowUpRole], names: Sequence[str]) -> list[str]:
    """The follow-up columns of a table; a missing column raises a ValueError."""
    columns = list(dict.fromkeys(name for role in roles for name in (role.name, role.event) if name))
    absent = [name for name in columns if name not in names]
    if absent:
        meant = remedy(absent[0], names, f"the columns are {listed(list(names))}")
        raise ValueError(f"follow_up names column {absent[0]!r}, which is not in the table; {meant}")
    if len(columns) == len(names):
        raise ValueError("follow_up names every column; leave at least one to compare cases on")
    return columns


# Reading


def _column(by_name: Mapping[str, PlainColumn], role: FollowUpRole, table: PlainTable) -> FollowUpColumn:
    plain = by_name[role.name]
    given = table.labels.get(role.name), table.labels.get(role.event)
    labels, event_labels = (each if isinstance(each, Mapping) else {} for each in given)
    label, unit = str(table.descriptions.get(role.name) or ""), str(table.units.get(role.name) or "")
    kind = role.kind or ("number" if plain.family in ("number", "none") and not labels else "category")
    levels: tuple[str, ...] = ()
    causes = np.empty(0, np.int64)
    if kind in ("number", "time") and plain.family == "text":
        raise ValueError(
            f"follow-up column {role.name!r} contains text, but its kind is {kind!r}; make it a 'category', or drop it"
        )
    if kind == "number":
        values = plain.numbers
    elif kind == "time":
        values, causes, levels = _times(plain, by_name[role.event], event_labels)
    else:
        values, levels = _categories(plain, labels)
    if np.isnan(values).all():
        raise ValueError(f"follow-up column {role.name!r} is empty; drop it")
    return FollowUpColumn(role.name, kind, label, unit, role.event, levels, values, causes)


def _categories(plain: PlainColumn, labels: Mapping[object, object]) -> tuple[Array, tuple[str, ...]]:
    """Positions in the list of levels, and the levels, sorted or in the order that the column declares."""
    if plain.family == "text":
        each: list[str | float | None] = list(plain.texts)
    else:
        each = [None if math.isnan(number) else number for number in plain.numbers.tolist()]
    levels = sorted({value for value in each if value is not None})
    if plain.ordered and plain.declared is not None:
        levels = [value for value in plain.declared if value in set(levels)]
    if len(levels) > MOST_LEVELS:
        raise ValueError(
            f"follow-up column {plain.name!r} has {len(levels)} different values, but a category may have at most "
            f"{MOST_LEVELS}; group the values, or make the column a 'number'"
        )
    place = {value: float(k) for k, value in enumerate(levels)}
    values = np.array([np.nan if value is None else place[value] for value in each], dtype=np.float64)
    return values, tuple(_level_text(value, plain.family, labels) for value in levels)


def _level_text(value: Value, family: str, labels: Mapping[object, object]) -> str:
    if value in labels:
        return str(labels[value])
    if isinstance(value, str):
        return value
    return ("no", "yes")[int(value)] if family == "boolean" else number_text(value)


def _times(
    time: PlainColumn, event: PlainColumn, labels: Mapping[object, object]
) -> tuple[Array, NDArray[np.int64], tuple[str, ...]]:
    """Times, causes and the names of the events; a row with neither time nor event has no record."""
    if event.family == "text":
        raise ValueError(
            f"event column {event.name!r} contains text, such as {next(t for t in event.texts if t is not None)!r}; "
            f"use 0 if follow-up ended without the event and 1 if it happened (competing events 1, 2, ...)"
        )
    flags = event.numbers
    known = ~(np.isnan(time.numbers) & (np.isnan(flags) | (flags == 0.0)))
    rows = np.flatnonzero(known)
    bad = rows[np.isnan(flags[rows]) | (flags[rows] < 0) | (flags[rows] != np.round(flags[rows]))]
    if bad.size:
        raise ValueError(
            f"column {event.name!r} has {flags[bad[0]]:g} in row {bad[0]}; use 0 if follow-up ended without the event "
            f"and 1 if it happened (competing events 1, 2, ...)"
        )
    every = np.where(known, time.numbers, 0.0)
    causes = np.where(known, flags, 0.0).astype(np.int64)
    check_times(every, causes > 0, time.name, event.name)
    n_events = int(causes.max())
    if n_events > MOST_LEVELS:
        raise ValueError(f"column {event.name!r} has event {n_events}; number competing events 1, 2, ...")
    default = [event.name] if n_events == 1 else [f"{event.name} {k}" for k in range(1, n_events + 1)]
    names = tuple(str(labels.get(k + 1, labels.get(float(k + 1), name))) for k, name in enumerate(default))
    return np.where(known, time.numbers, np.nan), causes, names


def _check_stored(described: JSONMapping, values: Array) -> None:
    known = values[~np.isnan(values)]
    kind, n_levels = described["kind"], len(described["levels"])
    if not np.isfinite(known).all() or (kind == "time" and (np.any(known < 0.0) or not n_levels)):
        raise ValueError(f"follow-up column {described['name']!r} has values that are not finite, or negative times")
    if kind in ("category", "treatment") and not np.all(np.isin(known, np.arange(n_levels))):
        raise ValueError(f"follow-up column {described['name']!r} has values without a name")


# Summaries


def summary(
    column: FollowUpColumn, weights: Array, level: float, landmarks: Sequence[float] | None = None
) -> JSONObject:
    """Summary of a category, a number or a time; see `FollowUp.summaries`. None chooses the landmarks."""
    rows = np.flatnonzero(column.known & (weights > 0.0))
    head = _head(column, weights[rows], level)
    if head["suppressed"]:
        return head
    part = column.at(rows)
    whole = column.at(column.known)
    if column.kind == "number":
        return {**head, **_number(part.values, weights[rows], whole.values, level)}
    if column.kind == "time":
        return {**head, **_time(part, weights[rows], whole, level, landmarks)}
    return {**head, "shares": _shares(part, weights[rows], whole, level)}


def landmarks_of(summary: JSONMapping) -> list[float] | None:
    """Times of the landmarks of a summary; None if it has none."""
    return [one["time"] for one in summary["landmarks"]] if "landmarks" in summary else None


def _head(column: FollowUpColumn, weights: Array, level: float) -> JSONObject:
    """The fields that every summary has."""
    effective = effective_number(weights)
    return {
        "kind": column.kind,
        "label": column.label,
        "unit": column.unit,
        "level": level,
        "n": len(weights),
        "effective": effective,
        "suppressed": suppressed(len(weights), effective),
    }


def suppressed(n: int, effective: float) -> str | None:
    """The reason for suppressing a summary of n past cases; None if it is shown.

    Examples
    --------
    >>> suppressed(300, 4.2)
    'fewer than 5 effective past cases (4.2)'
    >>> suppressed(300, 62.0) is None
    True
    """
    if n < LEAST_CASES:
        return f"fewer than {LEAST_CASES} past cases"
    if effective < LEAST_EFFECTIVE:
        return f"fewer than {LEAST_EFFECTIVE:g} effective past cases ({effective:.1f})"
    return None


def _number(values: Array, weights: Array, everyone: Array, level: float) -> JSONObject:
    lower, median, upper = (_ends(*numbers) for numbers in zip(*weighted_quantiles(
        values, (0.25, 0.5, 0.75), weights, level
    )[:3], strict=True))  # fmt: skip
    q = weighted_quantiles(everyone, (0.25, 0.5, 0.75), np.ones(len(everyone)), level).value.tolist()
    return {
        "median": median,
        "quartiles": [lower["value"], upper["value"]],
        "population": {"median": q[1], "quartiles": [q[0], q[2]]},
    }


def _shares(column: FollowUpColumn, weights: Array, everyone: FollowUpColumn, level: float) -> list[JSONObject]:
    n_levels = len(column.levels)
    shares = frequencies(column.values.astype(np.int64), n_levels, weights, level)
    population = np.bincount(everyone.values.astype(np.int64), minlength=n_levels) / len(everyone.values)
    numbers = zip(column.levels, shares.share, shares.lower, shares.upper, population, strict=True)
    return [
        {"value": value, "share": float(p), "low": float(a), "high": float(b), "population": float(of_all)}
        for value, p, a, b, of_all in numbers
    ]


def _time(
    column: FollowUpColumn,
    weights: Array,
    everyone: FollowUpColumn,
    level: float,
    landmarks: Sequence[float] | None,
) -> JSONObject:
    event = column.causes > 0
    curve = kaplan_meier(column.values, event, weights, level)
    shown = (curve.n_at_risk >= LEAST_CASES) & (curve.effective_at_risk >= LEAST_EFFECTIVE)
    end = float(curve.times[shown].max())
    times = np.linspace(0.0, end, N_TIMES)
    steps = curve.at(times)
    of_all = kaplan_meier(everyone.values, everyone.causes > 0, None, level).at(times)[:, 0]
    at_risk = curve.at_risk(times)
    median = [one if one is not None and one <= end else None for one in curve.median()]
    data: JSONObject = {
        "event": column.levels[0] if len(column.levels) == 1 else column.event,
        "n_events": int(event.sum()),
        "median": _ends(*median),
        "curve": {
            "times": times.tolist(),
            **dict(zip(("survival", "low", "high"), steps.T.tolist(), strict=True)),
            "at_risk": at_risk.tolist(),
            "population": of_all.tolist(),
        },
        "landmarks": [
            {"time": t, "survival": s, "low": a, "high": b, "at_risk": float(curve.at_risk([t])[0])}
            for t in (round_times(end) if landmarks is None else [t for t in landmarks if t <= end])
            for s, a, b in curve.at([t]).tolist()
        ],
        "incidence": [],
    }
    if len(column.levels) > 1:
        data["incidence"] = _incidence(column, weights, times, level)
    return data


def _incidence(column: FollowUpColumn, weights: Array, times: Array, level: float) -> list[JSONObject]:
    """Cumulative incidence of each competing event that happened."""
    if not column.causes.any():
        return []
    curves = cumulative_incidence(column.values, column.causes, weights, level)
    place = np.searchsorted(curves.times, times, side="right")

    def at(steps: Array) -> list[float]:
        return [float(number) for number in np.append(0.0, steps)[place]]

    return [
        {"event": name, "times": times.tolist(), "incidence": at(f), "low": at(low), "high": at(high)}
        for name, f, low, high in zip(column.levels, curves.incidence, curves.lower, curves.upper, strict=False)
    ]


def round_times(end: float) -> list[float]:
    """About `_TICKS` positive round numbers up to the end of the curve.

    Examples
    --------
    >>> round_times(2437.0)
    [500.0, 1000.0, 1500.0, 2000.0]
    """
    if end <= 0.0:
        return []
    rough = end / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = max((m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power <= rough * 1.0001), default=power)
    return [float(number_text(round(k * step, 10))) for k in range(1, int(end / step) + 1)][: 2 * _TICKS]


def _treatments(
    column: FollowUpColumn,
    weights: Array,
    level: float,
    others: Sequence[tuple[FollowUpColumn, Sequence[float] | None]],
    outcome: tuple[FollowUpColumn, Sequence[float] | None] | None,
) -> JSONObject:
    """The treatments that similar past cases received, and the outcomes by treatment."""
    rows = np.flatnonzero(column.known & (weights > 0.0))
    head = _head(column, weights[rows], level)
    if head["suppressed"]:
        return head
    shares = {row["value"]: row for row in _shares(column.at(rows), weights[rows], column.at(column.known), level)}
    treatments = []
    for k in sorted(range(len(column.levels)), key=lambda k: column.levels[k]):
        name = column.levels[k]
        had = np.flatnonzero(column.values == k)
        those = weights[had]
        n, effective = int((those > 0.0).sum()), effective_number(those)
        why = suppressed(n, effective)
        treatments.append(
            {
                "treatment": name,
                **{part: shares[name][part] for part in ("share", "low", "high", "population")},
                "n": n,
                "effective": effective,
                "suppressed": why,
                "outcome": None if outcome is None or why else summary(outcome[0].at(had), those, level, outcome[1]),
                "follow_up": {}
                if why
                else {other.name: summary(other.at(had), those, level, times) for other, times in others},
            }
        )
    for row in _sized_by_difference(treatments):
        row |= {"population": None, "n": None, "effective": None}
    return {**head, "note": NOT_RANDOM, "treatments": treatments}


def _sized_by_difference(treatments: Sequence[JSONObject]) -> list[JSONObject]:
    """Treatments whose sizes are not shown: those of few cases and, if it is only one, the next larger one as well.

    Otherwise, the total minus the sizes of the other treatments would reveal it.
    """
    by_size = sorted(treatments, key=lambda row: row["n"])
    n_small = sum(row["n"] < LEAST_CASES for row in treatments)
    return by_size[: max(n_small, 2) if n_small else 0]


def _ends(value: float | None, low: float | None, high: float | None) -> dict[str, float | None]:
    numbers = [None if number is None else float(number) for number in (value, low, high)]
    return dict(zip(("value", "low", "high"), numbers, strict=True))


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
