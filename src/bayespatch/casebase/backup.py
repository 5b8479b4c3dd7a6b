"""Backups: the whole case base in one SQLite file, itself a case base, written without interrupting other users."""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select, text

from bayespatch.casebase import models, replay
from bayespatch.casebase.audit import Verification, verify
from bayespatch.casebase.cases import index_columns
from bayespatch.casebase.database import Database, make_private
from bayespatch.casebase.errors import CaseBaseError
from bayespatch.casebase.tables import chain, metadata, settings
from bayespatch.persistence.atomic import StorageError, check_writable

_BATCH = 1000  # rows at a time


def backup(database: Database, path: str | os.PathLike[str], by: str) -> Path:
    """Copy a snapshot of the whole case base into a new file."""
    target = Path(os.fspath(path))
    if target.exists():
        raise CaseBaseError(f"{str(target)!r} already exists; choose another name")
    try:
        check_writable(target)
    except StorageError as error:
        raise CaseBaseError(str(error)) from error
    with database.writing(by) as transaction:
        transaction.record("backup", file=target.name)
    unfinished = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        make_private(unfinished)
        if database.is_sqlite:
            _vacuum_into(database, unfinished)
        else:
            _copy_out(database, unfinished)
        with open(unfinished, "rb") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            Path(f"{unfinished}{ending}").unlink(missing_ok=True)
    return target


def restore(source: str | os.PathLike[str], database: Database, by: str) -> None:
    """Fill an empty case base from a backup."""
    other = Database(os.fspath(source), key=database.key)
    try:
        other.open(create=False)
        with other.reading() as old:
            verification = verify_all(other, old)
        if not verification.intact:
            raise CaseBaseError(
                f"{other.name}: was changed since it was written ({verification.problems[0]}); use another backup"
            )
        if database.version() is not None:
            with database.reading() as connection:
                if connection.execute(select(chain.c.number)).scalar():
                    raise CaseBaseError(f"{database.name}: is not empty; restore a backup into a new case base")
        database.open()
        with other.reading() as old, database.writing(by) as transaction:
            _copy(old, transaction.connection)
            head = transaction.execute(select(chain.c.number, chain.c.hash)).one()
            transaction.continue_from(head.number, head.hash)
            transaction.record("restore", rows=head.number)
    finally:
        other.close()


def verify_all(database: Database, connection: Connection, head: str | None = None) -> Verification:
    """Check the log against its hashes and, if it is intact, the tables against the log."""
    verification = verify(connection, head, database.key)
    if not verification.intact:
        return verification
    return replace(verification, problems=(*models.problems(connection), *replay.problems(connection)))


def _vacuum_into(database: Database, target: Path) -> None:
    """Write a copy without deleted values with SQLite."""
    with database.outside() as connection:
        name = str(target).replace("'", "''")
        connection.execute(text(f"VACUUM INTO '{name}'"))


def _copy_out(database: Database, target: Path) -> None:
    """Copy all rows from one snapshot of PostgreSQL."""
    copy = Database(str(target), key=database.key)
    try:
        copy.open()
        with database.reading() as old, copy.unaudited() as new:
            _copy(old, new)
        with copy.outside() as connection:
            connection.execute(text("PRAGMA journal_mode = DELETE"))  # keep everything in one file
    finally:
        copy.close()


def _copy(old: Connection, new: Connection) -> None:
    """Replace all rows of a new case base, each table after those that it references."""
    for table in (chain, settings):
        new.execute(delete(table))
    for table in metadata.sorted_tables:
        rows = old.execute(select(table).execution_options(yield_per=_BATCH))
        for part in rows.partitions(_BATCH):
            new.execute(insert(table), [dict(row._mapping) for row in part])
    new.execute(delete(settings).where(settings.c.key == "erase"))
    index_columns(new)
