"""The answer of a database to a query: SQLite, PostgreSQL or DuckDB through their usual drivers, only ever reading."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from bayespatch.source.frame import frame_of, refuse

if TYPE_CHECKING:
    from pandas import DataFrame

_MEMORY = ":memory:"


class Answer(NamedTuple):
    """What a query returns; `names` is None where it is no table."""

    names: Sequence[str] | None
    rows: Sequence[Sequence[Any]]


def read_query(url: str, query: str | None) -> DataFrame:
    """The table that a query returns.

    Parameters
    ----------
    url : str
        ``sqlite:///cases.db`` (a fourth slash begins an absolute path), ``postgresql://user@host/name`` or
        ``duckdb:///cases.duckdb``; ``duckdb://`` alone is a database in memory, whose queries can read files.
    query : str
        A SELECT.
    """
    scheme, _, rest = url.partition("://")
    source = re.sub(r"://([^:/@]*):[^@]*@", r"://\1:***@", url)  # a password is nobody's business
    if scheme.lower() not in _ASKED:
        raise refuse(source, f"{scheme}:// is not known; pass sqlite:///, postgresql:// or duckdb:///")
    if query is None or not query.strip():
        raise refuse(source, "a database needs a query; pass one: --query 'SELECT ...'")
    try:
        answer = _ASKED[scheme.lower()](source, url, rest, query)
    except (ImportError, ValueError):
        raise
    except Exception as error:  # every driver has errors of its own; none of them is ours
        said = str(error).strip().partition("\n")[0]
        raise refuse(source, f"the database refuses ({said}); correct the URL or the query") from error
    if answer.names is None:
        raise refuse(source, "the query returns no table; pass a SELECT")
    return frame_of(source, answer.names, answer.rows)


def _ask_sqlite(source: str, url: str, rest: str, query: str) -> Answer:
    import sqlite3

    path = _file(source, rest)
    with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as connection:
        return _answer(connection.execute(query))


def _ask_postgresql(source: str, url: str, rest: str, query: str) -> Answer:
    try:
        import psycopg
    except ImportError as error:
        raise ImportError('postgresql:// needs psycopg: pip install "bayespatch[sql]"') from error
    with psycopg.connect(f"postgresql://{rest}", connect_timeout=10) as connection:
        connection.read_only = True
        return _answer(connection.execute(query.encode()))


def _ask_duckdb(source: str, url: str, rest: str, query: str) -> Answer:
    try:
        import duckdb
    except ImportError as error:
        raise ImportError('duckdb:// needs duckdb: pip install "bayespatch[sql]"') from error
    in_memory = rest.lstrip("/") in ("", _MEMORY)
    path = _MEMORY if in_memory else _file(source, rest)
    with closing(duckdb.connect(path, read_only=not in_memory)) as connection:
        return _answer(connection.execute(query))


def _answer(cursor: Any) -> Answer:
    """Names and rows; only where there are names may rows be fetched."""
    if not cursor.description:
        return Answer(None, ())
    return Answer([str(column[0]) for column in cursor.description], cursor.fetchall())


def _file(source: str, rest: str) -> str:
    """The path behind the third slash."""
    path = unquote(rest.partition("?")[0]).removeprefix("/")
    if not path or not os.path.isfile(path):
        raise refuse(source, f"there is no file {path!r}; correct it (a fourth slash begins an absolute path)")
    return path


_ASKED: dict[str, Callable[[str, str, str, str], Answer]] = {
    "sqlite": _ask_sqlite,
    "postgresql": _ask_postgresql,
    "postgres": _ask_postgresql,
    "duckdb": _ask_duckdb,
}
