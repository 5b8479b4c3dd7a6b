"""Retention periods, and forgetting patients again after a restore."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import index
from pathlib import Path

from sqlalchemy import delete, func, select, update

from bayespatch.casebase.audit import LogEntry, Transaction, ago, now, row_hash
from bayespatch.casebase.cases import OPEN, PAST, WITHDRAWN
from bayespatch.casebase.database import Database
from bayespatch.casebase.errors import CaseBaseError
from bayespatch.casebase.forget import finish, forget_in, pending
from bayespatch.casebase.identities import UNDER_WAY
from bayespatch.casebase.people import ABSOLUTE, IDLE, disable_in, end_access, find_person
from bayespatch.casebase.refit import drop_checkpoints
from bayespatch.casebase.repeats import KEPT
from bayespatch.casebase.replay import digest
from bayespatch.casebase.tables import (
    audit,
    cases,
    consultations,
    decisions,
    identities,
    invitations,
    repeats,
    sessions,
    sign_ins,
    tokens,
    users,
)
from bayespatch.types import JSONObject


@dataclass(frozen=True)
class Purged:
    """Deleted rows by table, and forgotten cases."""

    consultations: int
    open_cases: tuple[int, ...]
    past_cases: tuple[int, ...]
    expired: dict[str, int]  # expired sessions, tokens, invitations and idempotency keys
    erased: bool
    note: str | None


def purge(
    database: Database, by: str, *, consultations_days: int | None, open_days: int | None, past_days: int | None
) -> Purged:
    """Delete data older than the retention periods, in one transaction with one audit row."""
    periods = {"consultations": consultations_days, "open_cases": open_days, "past_cases": past_days}
    for name, days in periods.items():
        if days is not None and (isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= 100_000):
            raise CaseBaseError(f"{name}={days!r} is not a valid number of days; pass 1 or more, or omit it")
    with database.writing(by) as transaction:
        expired = _expired(transaction)
        gone = {
            state: _forgotten(transaction, database, state, days, name)
            for state, days, name in ((OPEN, open_days, "open_cases"), (PAST, past_days, "past_cases"))
        }
        n = 0 if consultations_days is None else _consultations(transaction, ago(timedelta(days=consultations_days)))
        if n or gone[OPEN] or gone[PAST]:
            pending(transaction, True)
        counts = {"consultations": n, "open_cases": len(gone[OPEN]), "past_cases": len(gone[PAST])}
        transaction.record("purge", periods={k: v for k, v in periods.items() if v is not None}, **counts, **expired)
    drop_checkpoints(database.folder)
    note = finish(database, by)
    return Purged(n, tuple(gone[OPEN]), tuple(gone[PAST]), expired, note is None, note)


def _expired(transaction: Transaction) -> dict[str, int]:
    """Delete expired sessions, tokens, invitations, sign-ins and idempotency keys."""
    ended = (sessions.c.seen_at < ago(IDLE)) | (sessions.c.made_at < ago(ABSOLUTE))
    conditions = {
        sessions: ended,
        tokens: tokens.c.expires_at < now(),
        invitations: invitations.c.expires_at < now(),
        sign_ins: sign_ins.c.made_at < ago(UNDER_WAY),
        repeats: repeats.c.at < ago(KEPT),
    }
    return {table.name: transaction.execute(delete(table).where(old)).rowcount for table, old in conditions.items()}


def _consultations(transaction: Transaction, before: str) -> int:
    """Delete old consultations of past cases with their decisions; those of open cases are still needed."""
    past = select(cases.c.id).where(cases.c.state == PAST)
    old = select(consultations.c.id).where(consultations.c.at < before, consultations.c.case_id.in_(past))
    transaction.execute(delete(decisions).where(decisions.c.consultation_id.in_(old)))
    done = transaction.execute(delete(consultations).where(consultations.c.id.in_(old)))
    return int(done.rowcount)


def _forgotten(transaction: Transaction, database: Database, state: str, days: int | None, name: str) -> list[int]:
    """Forget the cases in this state that have not been used for this many days."""
    if days is None:
        return []
    seen = select(func.max(consultations.c.at)).where(consultations.c.case_id == cases.c.id).scalar_subquery()
    before = ago(timedelta(days=days))
    touched = func.coalesce(seen if state == OPEN else cases.c.outcome_at, cases.c.entered_at)
    wanted = select(cases.c.id).where(cases.c.state == state, touched < before).order_by(cases.c.id)
    numbers = [int(number) for number in transaction.execute(wanted).scalars()]
    for number in numbers:
        forget_in(transaction, number, f"retention period of {days} days ({name})", database)
    return numbers


# Restoring a backup


def forget_again(database: Database, log: str | os.PathLike[str], by: str) -> list[int]:
    """In a restored case base, forget the cases that a later log shows as forgotten, and end access; returns them.

    The rows after the end of the backup must continue its chain of hashes, which shows that the log belongs to this
    base.
    """
    rows = read_log(log)
    with database.reading() as connection:
        restored = select(audit).where(audit.c.action == "restore").order_by(audit.c.number.desc())
        first = connection.execute(restored).first()
        if first is None:
            raise CaseBaseError(f"{database.name}: was not restored from a backup; pass the log when you restore one")
        end = connection.execute(select(audit).where(audit.c.number == first.number - 1)).one()
    later = check_continues(rows, end.number, end.hash, database.key)
    wanted = sorted({row.case_id for row in later if row.action == "forget" and row.case_id is not None})
    with database.writing(by) as transaction:
        live = select(cases.c.id).where(cases.c.id.in_(wanted), cases.c.state != WITHDRAWN).order_by(cases.c.id)
        again = [int(number) for number in transaction.execute(live).scalars()]
        for number in again:
            forget_in(transaction, number, "forgotten before the backup was restored", database)
        if again:
            pending(transaction, True)
        _close_again(transaction, later)
        transaction.record("forget again", rows=len(later), cases=len(again))
    drop_checkpoints(database.folder)
    finish(database, by)
    return again


def _close_again(transaction: Transaction, later: Sequence[LogEntry]) -> None:
    """End the access that a later log shows as ended: disabled accounts, earlier roles, passwords and identities,
    revoked tokens, links, all sessions.
    """
    for table in (sessions, sign_ins, invitations):
        transaction.execute(delete(table))
    last = {row.details["person"]: row.action for row in later if row.action in ("disable", "enable")}
    for name in sorted(name for name, action in last.items() if action == "disable"):
        person = find_person(transaction.connection, name)
        if person is not None and person.disabled_at is None:
            disable_in(transaction, name)
    roles = {row.details["person"]: row.details["role"] for row in later if row.action == "role"}
    for name, role in sorted(roles.items()):
        person = find_person(transaction.connection, name)
        if person is not None and person.role != role:
            transaction.execute(update(users).where(users.c.name == name).values(role=role))
            transaction.record("role", person=name, role=role)
    ended: defaultdict[str, set[str]] = defaultdict(set)
    for row in later:
        if row.action in ("disable", "accept", "password", "unlink"):
            ended[row.action].add(row.details["person"])
    for name in sorted(set[str]().union(*ended.values())):
        end_access(transaction, name)
    for name in sorted(ended["accept"] | ended["password"]):
        person = find_person(transaction.connection, name)
        if person is not None and person.password_hash is not None:
            transaction.execute(update(users).where(users.c.name == name).values(password_hash=None))
            transaction.record("password", person=name, password=digest(None))
    for name in sorted(ended["unlink"]):
        if transaction.execute(delete(identities).where(identities.c.user == name)).rowcount:
            transaction.record("unlink", person=name)
    revoked = {row.details.get("id") for row in later if row.action == "revoke"}
    for token in transaction.execute(select(tokens)).all():
        if token.hash[:16] in revoked:
            transaction.execute(delete(tokens).where(tokens.c.hash == token.hash))
            transaction.record("revoke", person=token.user, label=token.label, id=token.hash[:16])


def check_continues(rows: Iterable[LogEntry], number: int, head: str, key: bytes | None) -> list[LogEntry]:
    """The rows after a number; they must follow the row with this hash without a gap."""
    later = [row for row in rows if row.number > number]
    for row in later:
        details = json.dumps(row.details, ensure_ascii=False, allow_nan=False, sort_keys=True)
        right = row_hash(row.number, row.at, row.by, row.action, row.case_id, details, head, key)
        if row.number != number + 1 or row.hash != right:
            raise CaseBaseError(
                f"the log does not continue the backup at row {number + 1}; pass all rows after {number} of the log "
                f"of the same case base"
            )
        number, head = row.number, row.hash
    return later


def read_log(path: str | os.PathLike[str]) -> list[LogEntry]:
    """Rows of an audit log, by number: one JSON row per line, the output of ``casebase log --json``, or of REST."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        texts = [line for line in text.splitlines() if line.strip()] if _is_lines(text) else [text]
        parts = [json.loads(one) for one in texts]
        rows: list[JSONObject] = []
        for part in parts:
            rows += part.get("log", part.get("items", [part]))
        entries = [LogEntry(**{name: row[name] for name in LogEntry.__annotations__}) for row in rows]
        return sorted(entries, key=lambda entry: index(entry.number))
    except (OSError, UnicodeError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CaseBaseError(f"{os.fspath(path)!r} is not an audit log ({type(error).__name__}); pass JSON") from error


def _is_lines(text: str) -> bool:
    first = text.strip().partition("\n")[0]
    return first.startswith("{") and first.endswith("}")
