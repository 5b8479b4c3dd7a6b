"""The database of a case base: transactions, locks, migrations, and readable errors.

Every write is one transaction that first locks the end of the audit chain (SQLite: the whole file). Writers wait for
each other, which rules out lost updates and deadlocks. Changes and their audit rows are committed together.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import shlex
import sqlite3
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast
from weakref import WeakSet

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from bayespatch.casebase.audit import Transaction, check_by
from bayespatch.casebase.errors import CaseBaseError, DatabaseError
from bayespatch.casebase.tables import VERSION, chain, settings
from bayespatch.persistence.atomic import PRIVATE

TIMEOUT = 30.0  # seconds for which a writer waits for another one
KEY_FILE = "BAYESPATCH_AUDIT_KEY_FILE"  # the environment variable that names the file with the audit log's key
PASSWORD_FILE = "BAYESPATCH_DATABASE_PASSWORD_FILE"  # names the file with PostgreSQL's password
KEY_CHECK = "key_check"  # the setting that detects a wrong key
UNSTORABLE = "the text contains a character that cannot be stored, such as NUL or half of a surrogate pair; remove it"
_NOT_USABLE = "the database cannot be used at the moment; contact the operator of the server"
_UPGRADING = 7_265_346_017_221  # PostgreSQL's advisory lock for creating the tables


class Database:
    """A case base's database; `folder` holds temporary files and the checkpoints of a refit."""

    def __init__(
        self,
        url: str,
        folder: str | os.PathLike[str] | None = None,
        timeout: float = TIMEOUT,
        key: bytes | None = None,
    ) -> None:
        self.url = read_url(url)
        self.key = _key() if key is None else key
        self.name = shown_url(self.url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.path = path_of(self.url) if self.is_sqlite else None
        self.timeout = timeout
        self.folder = Path(folder) if folder is not None else self._default_folder()
        self.engine = self._engine()

    def _default_folder(self) -> Path:
        if self.path is not None:
            return self.path.with_name(f"{self.path.name}-work")
        # Not in the system's temporary directory, where any user could create this folder first.
        own = os.environ.get("STATE_DIRECTORY", "").partition(":")[0] or os.environ.get("XDG_STATE_HOME", "")
        key = hashlib.sha256(self.name.encode()).hexdigest()[:16]
        return (Path(own) if own else Path.home() / ".local" / "state") / "bayespatch" / key

    def _engine(self) -> Engine:
        options: dict[str, object] = {"json_serializer": json_text, "hide_parameters": True}
        if self.is_sqlite:
            options["connect_args"] = {"timeout": self.timeout, "check_same_thread": False}
        else:
            options |= {"pool_pre_ping": True, "connect_args": {"connect_timeout": max(1, int(self.timeout))}}
        try:
            engine = create_engine(self.url, **options)
        except ImportError as error:
            raise ImportError('a case base in PostgreSQL needs psycopg: pip install "bayespatch[sql]"') from error
        if not self.is_sqlite and os.environ.get(PASSWORD_FILE):
            event.listen(engine, "do_connect", _bring_password)
        event.listen(engine, "connect", self._on_connect)
        event.listen(engine, "begin", self._on_begin)
        if self.is_sqlite:
            event.listen(engine, "after_cursor_execute", _on_execute)
            event.listen(engine, "commit", _close_cursors)
            event.listen(engine, "rollback", _close_cursors)
        return engine

    def _on_connect(self, connection: sqlite3.Connection, _: object) -> None:
        if not self.is_sqlite:
            return
        connection.isolation_level = None  # this module begins all transactions
        for pragma in (
            f"busy_timeout = {int(1000 * self.timeout)}",
            "foreign_keys = ON",
            "secure_delete = ON",  # overwrite deleted data
            "temp_store = MEMORY",  # no values in temporary files
            "synchronous = FULL",  # committed data survive a power failure
        ):
            connection.execute(f"PRAGMA {pragma}")

    def _on_begin(self, connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        if self.is_sqlite:
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
        elif writes:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{int(1000 * self.timeout)}ms'")

    # Transactions

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that reads one consistent state of the base."""
        with self._errors(), self.engine.connect() as connection:
            if not self.is_sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self, by: str) -> Iterator[Transaction]:
        """A transaction that changes the base, one at a time, with its audit rows."""
        check_by(by)
        with self.unaudited() as connection:
            end = select(chain.c.number, chain.c.hash).where(chain.c.id == 1)
            head = connection.execute(end if self.is_sqlite else end.with_for_update()).one()
            transaction = Transaction(connection, by, head.number, head.hash, self.key)
            yield transaction
            transaction.finish()

    @contextmanager
    def unaudited(self) -> Iterator[Connection]:
        """A transaction without an audit row: for copies, which include their own rows, and for times of last use."""
        with (
            self._errors(),
            self.engine.connect().execution_options(writes=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def outside(self) -> Iterator[Connection]:
        """A connection without a transaction, for statements that cannot run in one."""
        with self._errors(), self.engine.connect() as connection:
            if self.is_sqlite:
                raw = cast(sqlite3.Connection, connection.connection.driver_connection)
                yield _Raw(raw)  # type: ignore[misc]
            else:
                yield connection.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise database errors as a CaseBaseError with the remedy."""
        try:
            yield
        except UnicodeError as error:
            raise CaseBaseError(UNSTORABLE) from error
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise self._refusal(error) from error

    def _refusal(self, error: Exception) -> CaseBaseError:
        original = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        message = _first_line(original)
        if "NUL (0x00)" in message:
            return CaseBaseError(UNSTORABLE)
        code = getattr(original, "sqlstate", None) or ""
        lost = getattr(error, "connection_invalidated", False) or code[:2] in ("08", "57") or "connection" in message
        public = _NOT_USABLE
        if "database is locked" in message or code == "55P03":
            wrong = f"another process has been writing for more than {self.timeout:g} seconds; "
            wrong = public = f"{wrong}try again, nothing was changed"
        elif "readonly" in message or "read-only" in message or code == "25006":
            wrong = "is read-only, but every access to a case is logged; allow writing"
        elif "not a database" in message or "malformed" in message:
            wrong = f"is damaged or not a SQLite file ({message}); restore a backup"
        elif "unable to open" in message:
            wrong = "cannot be opened; check that the folder exists and that you may write to it"
        elif not self.is_sqlite and lost:
            unknown = "the change may or may not have been saved; check the audit log before you repeat it"
            wrong, public = (
                f"no connection to the database ({message}); {unknown}",
                f"no connection to the database; {unknown}",
            )
        else:
            wrong = f"the database reports an error ({message})"
        # PostgreSQL's message may quote a value.
        cause = f"{type(original).__name__} {code or message}"
        return DatabaseError(f"{self.name}: {wrong}", public, cause)

    # Opening

    def open(self, create: bool = True) -> None:
        """Create missing tables and migrate older ones; raise an error for newer ones."""
        if self.path is not None:
            if not self.path.parent.is_dir():
                raise CaseBaseError(f"{self.name}: there is no folder {str(self.path.parent)!r}; create it first")
            if self.path.is_dir():
                raise CaseBaseError(f"{self.name}: is a folder; pass the name of a file")
            if not create and not self.path.exists():
                raise CaseBaseError(f"{self.name}: no such case base; create it: bayespatch casebase init")
            make_private(self.path)
            self._warn_if_open()
        version = self.version()
        if version == VERSION:
            self._keep_a_log()
        elif version is None and not create:
            raise CaseBaseError(f"{self.name}: contains no case base; create one: bayespatch casebase init")
        else:
            self.migrate("head")
        self._check_key()

    def _check_key(self) -> None:
        """Check that the key of the audit log is the one with which the log was created, or that neither exists."""
        check = None if self.key is None else hmac.new(self.key, b"bayespatch audit", hashlib.sha256).hexdigest()[:16]
        with self.reading() as connection:
            stored = connection.execute(select(settings.c.value).where(settings.c.key == KEY_CHECK)).scalar()
            n_rows = connection.execute(select(chain.c.number)).scalar()
        if stored == check:
            return
        if check is None:
            raise CaseBaseError(f"{self.name}: its audit log has a key; set {KEY_FILE} to the file that contains it")
        if stored is not None:
            raise CaseBaseError(f"{self.name}: its audit log has a different key; correct {KEY_FILE}")
        if n_rows:
            raise CaseBaseError(
                f"{self.name}: its audit log was created without a key; unset {KEY_FILE}, or create a new case base"
            )
        with self.unaudited() as connection:
            connection.execute(insert(settings).values(key=KEY_CHECK, value=check))

    def _warn_if_open(self) -> None:
        """Warn if other users of the machine may read or write the file, or SQLite's files next to it."""
        if os.name == "nt":
            return
        for ending in ("", "-wal", "-shm"):
            path = f"{self.path}{ending}"
            with suppress(FileNotFoundError):
                mode = stat.S_IMODE(os.stat(path).st_mode)
                if mode & 0o077:
                    warnings.warn(
                        f"{path}: other users of this machine may open this file (mode {mode:o}), which contains "
                        f"patient data; run: chmod 600 {shlex.quote(path)}",
                        stacklevel=4,
                    )

    def _keep_a_log(self) -> None:
        """Turn on SQLite's write-ahead log, so that readers and writers do not block each other."""
        if self.is_sqlite and "mode=ro" not in str(self.url):
            with self.outside() as connection:
                connection.execute(text("PRAGMA journal_mode = WAL"))

    def version(self) -> str | None:
        """The number of the last migration; None if there are no tables yet."""
        with self.reading() as connection:
            names = set(inspect(connection).get_table_names())
            if "alembic_version" not in names:
                if names:
                    raise CaseBaseError(
                        f"{self.name}: contains other tables, such as {min(names)!r}, but no case base; "
                        f"pass an empty database, or a new file"
                    )
                return None
            return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar())

    def migrate(self, target: str) -> None:
        """Migrate the tables to a version: "head", a number, "-1" for the previous one, "base" for none."""
        from alembic import command
        from alembic.config import Config
        from alembic.script import ScriptDirectory
        from alembic.util import CommandError

        self._keep_a_log()
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
        versions = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
        with self.unaudited() as connection:
            if not self.is_sqlite:
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_UPGRADING})"))
            has_version = "alembic_version" in inspect(connection).get_table_names()
            current = (
                connection.execute(text("SELECT version_num FROM alembic_version")).scalar() if has_version else None
            )
            if current is not None and current not in versions:
                raise CaseBaseError(
                    f"{self.name}: was written by a newer bayespatch (its tables have version {current}, this "
                    f"bayespatch supports {', '.join(sorted(versions))}); upgrade bayespatch"
                )
            config.attributes["connection"] = connection
            try:
                (command.downgrade if target in ("base", "-1") else command.upgrade)(config, target)
            except CommandError as error:
                raise CaseBaseError(f"{self.name}: cannot be migrated to version {target} ({error})") from error

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    # Erasing

    def erase(self) -> str | None:
        """Overwrite deleted values on disk; returns a note on what failed, or None."""
        if self.is_sqlite:
            return self._erase_sqlite()
        try:
            with self.engine.connect() as connection:
                alone = connection.execution_options(isolation_level="AUTOCOMMIT")
                alone.execute(text(f"SET lock_timeout = '{int(1000 * self.timeout)}ms'"))
                for table in ("cases", "follow_up", "consultations", "decisions", "models", "model_parts"):
                    alone.execute(text(f"VACUUM (FULL) {table}"))
                # The server recycles old log segments after a checkpoint.
                alone.execute(text("SELECT pg_switch_wal()"))
                alone.execute(text("CHECKPOINT"))
                alone.execute(text("RESET lock_timeout"))
        except DBAPIError as error:
            return f"the server could not overwrite everything ({_first_line(error.orig)}); vacuum and checkpoint it"
        return None

    def _erase_sqlite(self) -> str | None:
        deadline = time.monotonic() + self.timeout
        with self.outside() as connection:
            for statement in ("PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                while True:
                    try:
                        answer = connection.execute(text(statement)).fetchone()
                        is_busy = answer is not None and answer[0] != 0
                    except sqlite3.OperationalError as error:
                        if "locked" not in str(error):
                            raise
                        is_busy = True
                    if not is_busy:
                        break
                    if time.monotonic() > deadline:
                        return "another process is reading the file, which still contains the deleted data"
                    time.sleep(0.02)
        return None


class _Raw:
    """SQLite's own connection, without automatic transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def execute(self, statement: object) -> sqlite3.Cursor:
        return self.connection.execute(str(statement))


def _key() -> bytes | None:
    """The key of the audit log, from the file that the environment names."""
    path = os.environ.get(KEY_FILE)
    if not path:
        return None
    try:
        key = Path(path).read_bytes().strip()
    except OSError as error:
        raise CaseBaseError(f"{KEY_FILE}={path!r} cannot be read ({error.strerror}); correct it") from error
    if len(key) < 32:
        raise CaseBaseError(
            f"{KEY_FILE}={path!r} has {len(key)} bytes; write a random key of at least 32 bytes into it"
        )
    return key


def _on_execute(connection: Connection, cursor: sqlite3.Cursor, *_: object) -> None:
    """Remember the cursor, so that it can be closed."""
    connection.info.setdefault("cursors", WeakSet()).add(cursor)


def _close_cursors(connection: Connection) -> None:
    """Close all cursors at the end of a transaction.

    An unfinished one, kept alive by the traceback of an error, would hold its connection at an old state of the base:
    the next requests on this connection would not see later changes, such as an ended session.
    """
    for cursor in connection.info.pop("cursors", ()):
        cursor.close()


def _bring_password(dialect: object, record: object, arguments: object, options: dict[str, object]) -> None:
    """Read PostgreSQL's password from its file for each connection, so that it can change while the server runs."""
    path = os.environ[PASSWORD_FILE]
    try:
        password = Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise _no_password(f"{path!r} cannot be read ({error.strerror}); correct it") from error
    except UnicodeError as error:
        raise _no_password(f"{path!r} is not UTF-8 text; write the password into it") from error
    if not password:
        raise _no_password(f"{path!r} is empty; write the password into it")
    options["password"] = password


def _no_password(wrong: str) -> DatabaseError:
    """An error of the password file; only the log names the file."""
    message = f"{PASSWORD_FILE}={wrong}"
    return DatabaseError(message, _NOT_USABLE, message)


def make_private(path: str | os.PathLike[str]) -> None:
    """Create an empty file that only its owner can read, unless it exists; SQLite's auxiliary files copy its mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))
    except FileExistsError:
        return
    except OSError as error:
        raise CaseBaseError(
            f"{os.fspath(path)!r} cannot be created ({error.strerror}); choose another location"
        ) from error


def json_text(value: object) -> str:
    """JSON in stored form."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def read_url(where: str) -> URL:
    """A URL, or the path of a SQLite file."""
    if not isinstance(where, str | os.PathLike) or not str(where):
        raise CaseBaseError(f"{where!r} is not a case base; pass a file, sqlite:///FILE or postgresql://...")
    name = os.fspath(where)
    if "://" not in name:
        return URL.create("sqlite", database=os.path.abspath(name))
    try:
        url = make_url(re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", name))
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError) as error:
        raise CaseBaseError(f"{name.partition('://')[0]}:// cannot be read as a URL ({error}); correct it") from error
    if backend not in ("sqlite", "postgresql"):
        raise CaseBaseError(f"{backend}:// is not supported; pass sqlite:///FILE or postgresql://USER@HOST/NAME")
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        raise CaseBaseError("a case base in memory would be lost; pass a file: sqlite:///clinic.db")
    return url


def shown_url(url: URL) -> str:
    """A URL without secrets.

    Examples
    --------
    >>> shown_url(make_url("postgresql://roe:hunter2@db/clinic?password=hunter2&sslmode=require"))
    'postgresql://roe:***@db/clinic?password=%2A%2A%2A&sslmode=require'
    """
    query = {name: "***" if "pass" in name.lower() else value for name, value in url.query.items()}
    return url.set(query=query).render_as_string(hide_password=True)


def path_of(url: URL) -> Path:
    """The file of a SQLite URL."""
    database = str(url.database)
    return Path(database.removeprefix("file:") if database.startswith("file:") else database)


def _first_line(error: object) -> str:
    return str(error).strip().partition("\n")[0]
