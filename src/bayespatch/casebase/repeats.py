"""What is done once, however often it is asked for under the same key.

Whoever sends a request and hears nothing cannot know whether it was done. Sent again under the same key it is not done
a second time, and what was done the first time is found. The table keeps a hash of the key, a hash of the request that
cannot be computed without the key, and the number of what was made: none of the values.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select

from bayespatch.casebase.audit import Transaction
from bayespatch.casebase.errors import CaseBaseError, ConflictError
from bayespatch.casebase.tables import repeats

MOST_KEY = 200  # characters
KEPT = timedelta(days=2)


class Once(NamedTuple):
    """A request that is to be done once: which action, under which key, by whom, and what it says."""

    action: str
    key: str
    by: str
    request: object

    @property
    def hash(self) -> str:
        """By which it is found again."""
        return hashlib.sha256(json.dumps([self.action, self.key, self.by]).encode()).hexdigest()

    @property
    def content(self) -> str:
        """By which the same key with another request is noticed."""
        request = json.dumps(self.request, sort_keys=True, default=str).encode()
        return hmac.new(self.key.encode(), request, hashlib.sha256).hexdigest()


def earlier(connection: Connection, once: Once) -> int | None:
    """The number of what was made under this key; None: nothing yet."""
    if not isinstance(once.key, str) or not 1 <= len(once.key) <= MOST_KEY:
        raise CaseBaseError(f"a key has 1 to {MOST_KEY} characters; pass a random one, such as a UUID")
    row = connection.execute(select(repeats).where(repeats.c.hash == once.hash)).first()
    if row is None:
        return None
    if not hmac.compare_digest(row.request, once.content):
        raise ConflictError("this key was used for another request; pass a new key")
    return int(row.result)


def keep(transaction: Transaction, once: Once, result: int) -> None:
    """Note what was made, in the transaction that makes it; what is old is dropped."""
    oldest = (datetime.now(UTC) - KEPT).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    transaction.execute(delete(repeats).where(repeats.c.at < oldest))
    row = {"hash": once.hash, "request": once.content, "result": result, "at": transaction.at}
    transaction.execute(insert(repeats).values(**row))
