"""Follow-up columns of cases, recorded at any time, with their history.

Each recording is a row; later values replace earlier ones, and the next refit reads the latest. The log contains a
seal of each recording but none of its values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from bayespatch.casebase import cases as case_rows
from bayespatch.casebase.audit import Transaction
from bayespatch.casebase.cases import Definition, common_seal
from bayespatch.casebase.errors import CaseBaseError
from bayespatch.casebase.tables import cases, follow_up
from bayespatch.dictionary import Value
from bayespatch.follow_up import MOST_LEVELS, KindOf


@dataclass(frozen=True)
class Recording:
    """Follow-up values that were recorded together; None if the case was forgotten."""

    number: int  # number of the audit row
    case_id: int
    values: dict[str, Value] | None
    at: str
    by: str


def record(transaction: Transaction, case: int | str, values: Mapping[str, object]) -> Recording:
    """Record follow-up values of a case; other columns keep their values."""
    definition = case_rows.required_definition(transaction.connection)
    row = case_rows.find_live(transaction.connection, case)
    plain = checked(definition, values, merged(transaction.connection, [row.id])[row.id])
    (number,) = record_all(transaction, {row.id: plain})
    return Recording(number, row.id, plain, transaction.at, transaction.by)


def record_all(transaction: Transaction, values: Mapping[int, Mapping[str, Value]]) -> list[int]:
    """Store checked values of several cases under one audit row; returns its number, or None."""
    if not values:
        return []
    number = transaction.next_number
    ids = sorted(values)
    salts: dict[int, str] = {}
    for start in range(0, len(ids), 500):
        wanted = select(cases.c.id, cases.c.salt).where(cases.c.id.in_(ids[start : start + 500]))
        salts |= {row.id: row.salt for row in transaction.execute(wanted)}
    rows = [
        {
            "number": number,
            "case_id": one,
            "values": dict(values[one]),
            "seal": seal(one, number, salts[one], values[one]),
            "at": transaction.at,
            "by": transaction.by,
        }
        for one in ids
    ]
    transaction.execute(insert(follow_up), rows)
    seals = common_seal([str(row["seal"]) for row in rows])
    transaction.record("follow up", ids[0] if len(ids) == 1 else None, cases=len(ids), seals=seals)
    return [number]


def seal(case_id: int, number: int, salt: str, values: Mapping[str, Value]) -> str:
    """A digest of a recording; it reveals nothing without the salt of its case."""
    content = json.dumps([case_id, number, salt, values], sort_keys=True)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def checked(
    definition: Definition, values: Mapping[str, object], before: Mapping[str, Value], where: str = ""
) -> dict[str, Value]:
    """Check values and convert them to stored form; with earlier recordings, times and events must be consistent."""
    if not isinstance(values, Mapping) or not values:
        raise CaseBaseError(f"{where}no values to record; pass values by column, such as {{'stay': 6}}")
    if not definition.follow_up.names:
        raise CaseBaseError("the cases have no follow-up columns; add some to the data dictionary with role: follow-up")
    plain = {str(name): definition.follow_up[str(name)].check(value, where) for name, value in values.items()}
    now = {**before, **plain}
    for name, entry in definition.follow_up.entries.items():
        if not entry.event:
            continue
        time, event = now.get(name), now.get(entry.event)
        if isinstance(time, int | float) and time < 0:
            raise CaseBaseError(f"{where}column {name!r}: {time} is a negative time; correct it")
        if event is not None and (isinstance(event, str) or event < 0 or event != int(event)):
            raise CaseBaseError(
                f"{where}column {entry.event!r}: {event!r} is not an event code; use 0 if follow-up ended without it "
                "and 1 if it happened (competing events 1, 2, ...)"
            )
        if time is None and event:
            raise CaseBaseError(f"{where}column {entry.event!r} says that the event happened, but {name!r} has no time")
        if time is not None and event is None:
            raise CaseBaseError(
                f"{where}column {name!r} has a time, but {entry.event!r} does not say how follow-up ended"
            )
    return plain


def history(connection: Connection, case_id: int) -> tuple[Recording, ...]:
    """All recordings of a case, oldest first."""
    wanted = select(follow_up).where(follow_up.c.case_id == case_id).order_by(follow_up.c.number)
    return tuple(Recording(row.number, row.case_id, row.values, row.at, row.by) for row in connection.execute(wanted))


def merged(connection: Connection, ids: Sequence[int] | None = None) -> dict[int, dict[str, Value]]:
    """Current follow-up values {case: values} of some cases, or of all that have any."""
    values: dict[int, dict[str, Value]] = {} if ids is None else {one: {} for one in ids}
    wanted = select(follow_up.c.case_id, follow_up.c["values"]).order_by(follow_up.c.number)
    if ids is not None and len(ids) == 1:
        wanted = wanted.where(follow_up.c.case_id == ids[0])
    for row in connection.execute(wanted.execution_options(yield_per=1000)):
        if row.values is not None and (ids is None or row.case_id in values):
            values.setdefault(row.case_id, {}).update(row.values)
    return values


def erase(transaction: Transaction, case_id: int) -> None:
    """Delete the follow-up of a forgotten case; the seals remain, for checks against the log."""
    transaction.execute(update(follow_up).where(follow_up.c.case_id == case_id).values(values=None))


def usable_kinds(definition: Definition, rows: Sequence[Mapping[str, Value]]) -> dict[str, KindOf]:
    """Follow-up columns that a model can summarize, and their kinds: those with values, and times with events."""
    kinds, usable = definition.follow_up.follow_up, {}
    events = {kind[1] for kind in kinds.values() if isinstance(kind, tuple)}
    for name, kind in kinds.items():
        if name in events:
            continue
        values = {value for row in rows if (value := row.get(name)) is not None}
        entry = definition.follow_up[name]
        is_number = entry.kind == "number" and not entry.levels and kind != "treatment"
        if not values or (not is_number and len(values) > MOST_LEVELS):
            continue
        if entry.event and not any(row.get(entry.event) for row in rows):
            continue
        usable[name] = kind
    return usable


def problems(connection: Connection, logged: Mapping[int, str]) -> list[str]:
    """Differences between the recordings and the log; `logged` has the common seal of each audit row."""
    wanted = (
        select(follow_up, cases.c.salt)
        .join(cases, cases.c.id == follow_up.c.case_id)
        .order_by(follow_up.c.number, follow_up.c.case_id)
    )
    seals: dict[int, list[str | None]] = {}
    wrong = []
    for row in connection.execute(wanted.execution_options(yield_per=1000)):
        seals.setdefault(row.number, []).append(row.seal)
        if row.values is not None and (
            row.salt is None or seal(row.case_id, row.number, row.salt, row.values) != row.seal
        ):
            wrong.append(f"follow-up of case {row.case_id} was changed after it was recorded")
    for number in sorted(set(seals) | set(logged)):
        if number not in logged:
            wrong.append(f"follow-up under audit row {number} is not in the log")
        elif number not in seals or common_seal(seals[number]) != logged[number]:
            wrong.append(f"follow-up in row {number} of the log is missing or was changed")
    return wrong
