"""Queries of databases: SQLite, PostgreSQL or DuckDB with their usual drivers, read-only.

A query must be a single SELECT, and each database is opened in a way that allows nothing else. In PostgreSQL, the
administrator decides which functions a role may call. URLs are parsed, and messages show only the parts that cannot
contain a password.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from bayespatch.source.frame import frame_of, refuse
from bayespatch.types import JSONObject

if TYPE_CHECKING:
    from pandas import DataFrame

_MEMORY = ":memory:"
# Options allowed after the question mark of a PostgreSQL URL, as named by libpq
_OPTIONS = frozenset(
    (
        *("host", "hostaddr", "port", "dbname", "user", "password", "passfile", "service", "options"),
        *("connect_timeout", "client_encoding", "application_name", "keepalives", "target_session_attrs"),
        *("sslmode", "sslcert", "sslkey", "sslpassword", "sslrootcert", "sslcrl", "sslcrldir", "channel_binding"),
        *("gssencmode", "krbsrvname", "require_auth"),
    )
)
_SECRETS = ("password", "sslpassword")


class Address(NamedTuple):
    """Address of a database: as shown, as used to connect, and the secrets that messages must not contain."""

    shown: str
    path: str = ""  # path of a file
    options: dict[str, str] = {}  # noqa: RUF012  # connection options of a server; never changed
    secrets: tuple[str, ...] = ()


class Cursor(Protocol):
    """The cursor that every driver returns."""

    @property
    def description(self) -> Sequence[Sequence[object]] | None:
        """The columns, by name and type."""

    def fetchall(self) -> Sequence[Sequence[object]]:
        """The rows."""


class QueryResult(NamedTuple):
    """The result of a query; `names` is None if it is not a table."""

    names: Sequence[str] | None
    rows: Sequence[Sequence[object]]


def read_query(url: str, query: str | None) -> DataFrame:
    """The table that a query returns.

    Parameters
    ----------
    url : str
        ``sqlite:///cases.db`` (a fourth slash begins an absolute path), ``postgresql://user@host/name`` or
        ``duckdb:///cases.duckdb``; ``duckdb://`` alone is a database in memory, whose queries can read files.
    query : str
        A single SELECT statement; databases are never written.
    """
    shown, answer = _answered(url, query)
    return frame_of(shown, answer.names or (), answer.rows)


def read_rows(url: str, query: str) -> list[JSONObject]:
    """The rows of a query as the driver returns them, by column; possibly none."""
    _, answer = _answered(url, query)
    return [dict(zip(answer.names or (), row, strict=True)) for row in answer.rows]


def _answered(url: str, query: str | None) -> tuple[str, QueryResult]:
    """The name of a database for messages, and its answer to a query, which must be a table."""
    scheme = url.partition("://")[0].lower()
    if scheme not in _ASKED:
        raise refuse(f"{scheme}://***", f"{scheme}:// is not supported; pass sqlite:///, postgresql:// or duckdb:///")
    address = _server(url) if scheme.startswith("postgres") else _file(scheme, url)
    if query is None or not query.strip():
        raise refuse(address.shown, "a database needs a query; pass --query 'SELECT ...'")
    try:
        answer = _ASKED[scheme](address, query)
    except (ImportError, ValueError):
        raise
    except Exception as error:  # every driver has its own errors
        message = str(error).strip().partition("\n")[0]
        if any(secret in str(error) for secret in address.secrets):
            message = "its message is hidden because it repeats a part of the URL that may be a password"
        raise refuse(
            address.shown, f"the database reports an error ({message}); correct the URL or the query"
        ) from None
    if answer.names is None:
        raise refuse(address.shown, "the query returns no table; pass a SELECT")
    return address.shown, answer


def _ask_sqlite(address: Address, query: str) -> QueryResult:
    """Query SQLite; only selecting, reading columns and calling functions is allowed."""
    import sqlite3

    allowed = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
    _check_there(address)
    with closing(sqlite3.connect(f"file:{quote(address.path)}?mode=ro", uri=True)) as connection:
        connection.setlimit(
            sqlite3.SQLITE_LIMIT_ATTACHED, 0
        )  # no access to other files, which VACUUM INTO could also write
        connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY)
        try:
            return _answer(connection.execute(query))
        except sqlite3.DatabaseError as error:
            if any(word in str(error) for word in ("not authorized", "prohibited", "authorization denied")):
                raise refuse(address.shown, f"the query does more than read ({error}); pass a SELECT") from None
            raise


def _ask_postgresql(address: Address, query: str) -> QueryResult:
    """Query PostgreSQL in a read-only transaction; a named cursor accepts only a single SELECT."""
    try:
        import psycopg
    except ImportError as error:
        raise ImportError('postgresql:// needs psycopg: pip install "bayespatch[sql]"') from error
    with psycopg.connect(**{"connect_timeout": "10", **address.options}) as connection:  # type: ignore[arg-type]
        connection.read_only = True
        with connection.cursor("bayespatch") as cursor:
            return _answer(cursor.execute(query.encode()))


def _ask_duckdb(address: Address, query: str) -> QueryResult:
    """Query DuckDB with a single SELECT: a database file has no access to other files; in memory, files can be read."""
    try:
        import duckdb
    except ImportError as error:
        raise ImportError('duckdb:// needs duckdb: pip install "bayespatch[sql]"') from error
    in_memory = address.path in ("", _MEMORY)
    if not in_memory:
        _check_there(address)
    statements = duckdb.extract_statements(query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise refuse(address.shown, "the query must be a single SELECT, because databases are only read; correct it")
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "allow_community_extensions": "false",
    }
    if not in_memory:
        config["enable_external_access"] = "false"
    path = _MEMORY if in_memory else address.path
    with closing(duckdb.connect(path, read_only=not in_memory, config=config)) as connection:
        return _answer(connection.execute(query))


def _answer(cursor: Cursor) -> QueryResult:
    """Names and rows; rows can be fetched only if there are names."""
    if not cursor.description:
        return QueryResult(None, ())
    return QueryResult([str(column[0]) for column in cursor.description], cursor.fetchall())


def _file(scheme: str, url: str) -> Address:
    """The path after the third slash, without anything after a question mark."""
    host, _, path = url.partition("://")[2].partition("?")[0].partition("/")
    if host and not (scheme == "duckdb" and host == _MEMORY):
        raise refuse(f"{scheme}://***", f"a file has no host; pass {scheme}:///FILE (a fourth slash: from the root)")
    path = unquote(path)
    return Address(f"{scheme}:///{path}", path)


def _check_there(address: Address) -> None:
    if not address.path or not os.path.isfile(address.path):
        wrong = f"there is no file {address.path!r}; correct it (a fourth slash begins an absolute path)"
        raise refuse(address.shown, wrong)


def _server(url: str) -> Address:
    """User, password, host, port, database and options, separately."""
    hidden = "postgresql://***"
    unclear = (
        "the URL cannot be read; pass postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and in the password write "
        "%40 for @, %3A for :, %2F for /, %3F for ?, %23 for # and %25 for %"
    )
    try:
        parts = urlsplit(url)
        named = {"host": parts.hostname, "user": parts.username, "password": parts.password}
        port, database = parts.port, unquote(parts.path).removeprefix("/")
        given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise refuse(hidden, unclear) from None
    if "@" in database or "/" in database or parts.fragment:  # a password that was cut in two
        raise refuse(hidden, unclear)
    if not set(given) <= _OPTIONS:
        raise refuse(hidden, f"an option after the ? is not supported; supported are {', '.join(sorted(_OPTIONS))}")
    options = {name: unquote(value) for name, value in named.items() if value}
    options |= {"port": str(port)} if port is not None else {}
    options |= {"dbname": database} if database else {}
    options |= given
    secrets = [options[name] for name in _SECRETS if options.get(name)]
    secrets += [quote(secret, safe="") for secret in secrets] + [parts.password or ""]
    if "@" not in parts.netloc and port is not None:  # if the @ was forgotten, this is not a port
        secrets.append(str(port))
    user = f"{options['user']}@" if "user" in options else ""
    shown = f"postgresql://{user}{parts.hostname or ''}/{options.get('dbname', '')}"
    if any(secret in shown for secret in secrets if secret):
        shown = hidden
    return Address(shown, options=options, secrets=tuple(secret for secret in secrets if secret))


_ASKED: dict[str, Callable[[Address, str], QueryResult]] = {
    "sqlite": _ask_sqlite,
    "postgresql": _ask_postgresql,
    "postgres": _ask_postgresql,
    "duckdb": _ask_duckdb,
}
