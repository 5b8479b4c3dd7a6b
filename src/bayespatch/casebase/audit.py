"""The audit log: who did what and when, each row hashed together with the row before it.

A row's hash is the SHA-256 of the JSON list of its number, time, person, action, case, details and the hash of the row
before. The number and hash of the last row are stored in a separate table, so that truncation is detected as well.
Anyone who can write to the database can also compute hashes. To detect this, keep the end of the chain elsewhere (every
backup and `bayespatch casebase verify` print it), so that `verify` can compare the log with it; or keep a key
elsewhere, which turns each hash into an HMAC that cannot be computed without the key.

No row contains a patient's values, so patients can be forgotten while the log remains.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, Executable, insert, select, update

from bayespatch.casebase.errors import CaseBaseError
from bayespatch.casebase.tables import Result, Row, audit, chain
from bayespatch.types import JSONObject

ACTIONS = (
    *("define", "import", "add", "consult", "decide", "outcome", "retain", "refit", "promote", "roll back", "forget"),
    "follow up",
    *("erase", "read", "search", "ask", "drift", "monitor", "score", "backup", "restore", "export", "audit"),
    *("invite", "accept", "role", "disable", "enable", "sign in", "sign out", "refuse", "token", "revoke"),
    *("password", "rehash", "second factor", "link", "unlink", "purge", "forget again", "launch"),
)


@dataclass(frozen=True)
class LogEntry:
    """One row of the log."""

    number: int
    at: str
    by: str
    action: str
    case_id: int | None
    details: JSONObject
    hash: str


@dataclass(frozen=True)
class Verification:
    """Result of checking the log against its hashes; `problems` is empty if it is intact."""

    n_entries: int
    head: str  # number and hash of the last row
    problems: tuple[str, ...]
    intact: bool = field(init=False, default=False)  # whether there are no problems

    def __post_init__(self) -> None:
        object.__setattr__(self, "intact", not self.problems)


class Transaction:
    """A write transaction and the audit rows that are committed with it."""

    def __init__(self, connection: Connection, by: str, number: int, digest: str, key: bytes | None) -> None:
        self.connection, self.by, self.at, self._key = connection, by, now(), key
        self._number, self._hash = number, digest
        self._rows: list[JSONObject] = []

    def execute(self, statement: Executable, rows: Sequence[Mapping[str, object]] | None = None) -> Result:
        """Run a statement, once or for each of the rows."""
        return self.connection.execute(statement, rows)

    def record(self, action: str, case_id: int | None = None, /, **details: object) -> int:
        """Add an audit row; returns its number."""
        assert action in ACTIONS
        self._number += 1
        text = json.dumps(details, ensure_ascii=False, allow_nan=False, sort_keys=True)
        self._hash = row_hash(self._number, self.at, self.by, action, case_id, text, self._hash, self._key)
        row = (self._number, self.at, self.by, action, case_id, text, self._hash)
        self._rows.append(dict(zip(audit.c.keys(), row, strict=True)))
        return self._number

    @property
    def next_number(self) -> int:
        """The number of the next audit row."""
        return self._number + 1

    def continue_from(self, number: int, digest: str) -> None:
        """Continue a chain that was copied from another case base."""
        assert not self._rows
        self._number, self._hash = number, digest

    def finish(self) -> None:
        """Write the audit rows and the new end of the chain."""
        assert self._rows, "every write needs an audit row"
        self.execute(insert(audit), self._rows)
        self.execute(update(chain).where(chain.c.id == 1).values(number=self._number, hash=self._hash))


def now(later: timedelta = timedelta(0)) -> str:
    """The time, or one that is later, as it is stored."""
    return time_text(datetime.now(UTC) + later)


def ago(period: timedelta) -> str:
    """A time in the past, as it is stored."""
    return now(-period)


def time_text(moment: datetime) -> str:
    """A time as it is stored: texts sort like times."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def check_by(by: object) -> str:
    """Check the name that the audit log will record."""
    if not isinstance(by, str) or not by.strip() or len(by) > 200 or not by.isprintable():
        raise CaseBaseError(f"by={by!r} is not a valid name; pass the name of the user, for the audit log")
    return by


def row_hash(
    number: int,
    at: str,
    by: str,
    action: str,
    case_id: int | None,
    details: str,
    before: str,
    key: bytes | None = None,
) -> str:
    """The hash of an audit row; with a key, its HMAC."""
    content = json.dumps([number, at, by, action, case_id, details, before], ensure_ascii=True).encode("ascii")
    if key is not None:
        return hmac.new(key, content, hashlib.sha256).hexdigest()
    return hashlib.sha256(content).hexdigest()


def check_chain(
    rows: Iterable[Row], head_number: int, head_hash: str, expected: str | None = None, key: bytes | None = None
) -> Verification:
    """Check audit rows, sorted by number, against their hashes, and the last one against the stored end of the chain.

    `expected` is the end of the chain as printed earlier.
    """
    problems: list[str] = []
    before, last = "", 0
    noted = _read_head(expected) if expected is not None else None
    for row in rows:
        if row.number != last + 1:
            problems.append(f"row {last + 1} is missing" if row.number > last else f"row {row.number} is out of place")
        elif row.hash != row_hash(row.number, row.at, row.by, row.action, row.case_id, row.details, before, key):
            problems.append(f"row {row.number} was changed after it was written")
        if problems:
            break
        last, before = row.number, row.hash
        if noted is not None and noted[0] == last and noted[1] != before:
            problems.append(f"row {last} has a different hash than recorded: the log was rewritten")
            break
    if not problems and (last, before) != (head_number, head_hash):
        problems.append(f"the log ends with row {last}, but was written up to row {head_number}")
    if not problems and noted is not None and noted[0] > last:
        problems.append(f"row {noted[0]} was recorded but is missing: the log was truncated")
    return Verification(last, f"{last}:{before}", tuple(problems))


def _read_head(text: str) -> tuple[int, str]:
    number, _, digest = text.partition(":")
    if not number.isdecimal() or (digest and len(digest) != 64):
        raise CaseBaseError(f"{text!r} is not the end of an audit log; pass NUMBER:HASH as printed by verify")
    return int(number), digest


def verify(connection: Connection, expected: str | None = None, key: bytes | None = None) -> Verification:
    """Check the whole log against its hashes."""
    rows = connection.execute(select(audit).order_by(audit.c.number).execution_options(yield_per=1000))
    heads = connection.execute(select(chain.c.number, chain.c.hash)).all()
    if len(heads) != 1:
        return Verification(0, "", ("the end of the chain is missing",))
    return check_chain(rows, heads[0].number, heads[0].hash, expected, key)


def entries(
    connection: Connection,
    *,
    case_id: int | None,
    by: str | None,
    action: str | None,
    after: int,
    before: int | None,
    limit: int,
) -> Iterator[LogEntry]:
    """Rows of the log, newest first; with `after`, the rows after this number, oldest first."""
    wanted = select(audit)
    for column, value in ((audit.c.case_id, case_id), (audit.c.by, by), (audit.c.action, action)):
        if value is not None:
            wanted = wanted.where(column == value)
    if before is not None:
        wanted = wanted.where(audit.c.number < before)
    if after:
        wanted = wanted.where(audit.c.number > after).order_by(audit.c.number)
    else:
        wanted = wanted.order_by(audit.c.number.desc())
    for row in connection.execute(wanted.limit(limit)):
        yield LogEntry(row.number, row.at, row.by, row.action, row.case_id, json.loads(row.details), row.hash)
