"""Export of cases to CSV, Parquet, or a table of a database."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator

from sqlalchemy import Boolean, Column, Connection, Float, MetaData, Table, Text, create_engine, insert, select
from sqlalchemy.exc import SQLAlchemyError

from bayespatch.casebase import follow_up
from bayespatch.casebase.cases import WITHDRAWN, Definition, as_case
from bayespatch.casebase.database import make_private, path_of, read_url, shown_url
from bayespatch.casebase.errors import CaseBaseError
from bayespatch.casebase.tables import cases
from bayespatch.dictionary import Value
from bayespatch.persistence.atomic import StorageError, replacing
from bayespatch.source.cells import plain_cell
from bayespatch.source.frame import frame_of

_OWN = ("case_id", "external_id", "state")
_TYPES = {"number": Float, "text": Text, "boolean": Boolean}


def names_of(definition: Definition, sensitive: bool) -> list[str]:
    """The columns of an export; without sensitive ones, the external id is left out as well."""
    entries = [*definition.features.entries.values(), definition.target, *definition.follow_up.entries.values()]
    columns = [entry.name for entry in entries if sensitive or not entry.sensitive]
    taken = sorted({*_OWN} & {*columns})
    if taken:
        raise CaseBaseError(
            f"the cases have a column {taken[0]!r}, but the export adds a column of that name; rename it"
        )
    return [*(name for name in _OWN if sensitive or name != "external_id"), *columns]


def rows_of(
    connection: Connection, definition: Definition, names: list[str], state: str | None
) -> Iterator[list[Value]]:
    """The cases that were not forgotten."""
    wanted = select(cases).where(cases.c.state != WITHDRAWN).order_by(cases.c.id)
    if state is not None:
        wanted = wanted.where(cases.c.state == state)
    recorded = follow_up.merged(connection) if definition.follow_up.names else {}
    nothing = dict.fromkeys(definition.follow_up.names)
    for row in connection.execute(wanted.execution_options(yield_per=1000)):
        case = as_case(row)
        values: dict[str, Value] = {
            **nothing,
            **recorded.get(case.id, {}),
            **(case.values or {}),
            "case_id": case.id,
            "external_id": case.external_id,
            "state": case.state,
            definition.target.name: case.outcome,
        }
        yield [values[name] for name in names]


def write(
    connection: Connection, definition: Definition, where: str, *, table: str, state: str | None, sensitive: bool
) -> int:
    """Write the cases to a file or a database; returns their number."""
    names = names_of(definition, sensitive)
    rows = list(rows_of(connection, definition, names, state))
    if "://" in where:
        _write_sql(definition, where, table, names, rows)
        return len(rows)
    if os.path.exists(where):
        raise CaseBaseError(f"{where!r} already exists; choose another name")
    ending = where.lower().rpartition(".")[2]
    if ending == "csv":
        content = _as_csv(names, rows)
    elif ending == "parquet":
        content = _as_parquet(names, rows)
    else:
        raise CaseBaseError(f"{where!r}: pass a file that ends in .csv or .parquet, or the URL of a database")
    try:
        with replacing(where) as file:
            file.write(content)
    except StorageError as error:
        raise CaseBaseError(str(error)) from error
    return len(rows)


def _as_csv(names: list[str], rows: list[list[Value]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(plain_cell, names))
    writer.writerows(map(plain_cell, row) for row in rows)
    return text.getvalue().encode()


def _as_parquet(names: list[str], rows: list[list[Value]]) -> bytes:
    content = io.BytesIO()
    try:
        frame_of("the case base", names, rows).to_parquet(content, index=False)
    except ImportError as error:
        raise ImportError('Parquet needs pyarrow: pip install "bayespatch[parquet]"') from error
    return content.getvalue()


def _write_sql(definition: Definition, where: str, table: str, names: list[str], rows: list[list[Value]]) -> None:
    described = {**definition.features.entries, **definition.follow_up.entries}
    kinds = {name: entry.kind for name, entry in described.items()}
    kinds |= {definition.target.name: definition.target.kind, "case_id": "number"}
    columns: list[Column[Value]] = [Column(name, _TYPES[kinds.get(name, "text")]) for name in names]
    url = read_url(where)
    if url.get_backend_name() == "sqlite":
        make_private(path_of(url))
    engine = create_engine(url, hide_parameters=True)
    made = Table(table, MetaData(), *columns)
    try:
        with engine.begin() as connection:
            made.create(connection)
            if rows:
                connection.execute(insert(made), [dict(zip(names, row, strict=True)) for row in rows])
    except SQLAlchemyError as error:
        message = str(error).strip().partition("\n")[0]
        raise CaseBaseError(
            f"{shown_url(url)}: the table {table!r} cannot be written ({message}); choose another name"
        ) from error
    finally:
        engine.dispose()
