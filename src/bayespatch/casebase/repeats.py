"""Idempotent requests: a request repeated under the same key is executed once.

A client that receives no response cannot know whether its request succeeded. If it repeats the request with the same
key, it gets the first result. The table keeps a hash of the key, a keyed hash of the request, and the number of the
result, but no values.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import timedelta
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select

from bayespatch.casebase.audit import Transaction, ago
from bayespatch.casebase.errors import CaseBaseError, ConflictError
from bayespatch.casebase.tables import repeats

MOST_KEY = 200  # characters
KEPT = timedelta(days=2)


class Once(NamedTuple):
    """A request to execute once: its action, key, person and content."""

    action: str
    key: str
    by: str
    request: object

    @property
    def hash(self) -> str:
        """The hash of the key."""
        return hashlib.sha256(json.dumps([self.action, self.key, self.by]).encode()).hexdigest()

    @property
    def content(self) -> str:
        """A keyed hash of the request, to detect a different request with the same key."""
        request = json.dumps(self.request, sort_keys=True, default=str).encode()
        return hmac.new(self.key.encode(), request, hashlib.sha256).hexdigest()


def once(action: str, key: str | None, by: str, request: object) -> Once | None:
    """A request to execute once; None without a key."""
    return None if key is None else Once(action, key, by, request)


def earlier(connection: Connection, once: Once | None) -> int | None:
    """The number of the result under this key; None if there is none yet."""
    if once is None:
        return None
    if not isinstance(once.key, str) or not 1 <= len(once.key) <= MOST_KEY:
        raise CaseBaseError(f"a key has 1 to {MOST_KEY} characters; pass a random one, such as a UUID")
    row = connection.execute(select(repeats).where(repeats.c.hash == once.hash)).first()
    if row is None:
        return None
    if not hmac.compare_digest(row.request, once.content):
        raise ConflictError("this key was used for a different request; pass a new key")
    return int(row.result)


def keep(transaction: Transaction, once: Once | None, result: int) -> None:
    """Store the result in the transaction that produces it, and delete old ones."""
    if once is None:
        return
    transaction.execute(delete(repeats).where(repeats.c.at < ago(KEPT)))
    row = {"hash": once.hash, "request": once.content, "result": result, "at": transaction.at}
    transaction.execute(insert(repeats).values(**row))
