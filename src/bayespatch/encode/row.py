"""Reading a single case from a dict, a Series, a list of values, or a table with one row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

import narwhals as nw
import numpy as np

from bayespatch.encode.schema import Schema
from bayespatch.encode.table import PlainTable, read_table
from bayespatch.validation import listed, remedy


def read_row(row: object, schema: Schema) -> PlainTable:
    """Read one case as a table with one row. Labels are accepted instead of values.

    Parameters
    ----------
    row : dict, Series, sequence of values, or table with one row
        A dict or a Series is read by feature names, a sequence by position.
    schema : Schema
        The schema with these columns.

    Examples
    --------
    >>> schema = Schema.learn([[52, "male"], [61, "female"]])
    >>> read_row({"x1": "male", "x0": 50}, schema).names
    ('x0', 'x1')
    >>> read_row([50, "male"], schema).n_rows
    1
    """
    names, ids = schema.names, None
    if nw.dependencies.is_pandas_series(row):
        ids = None if row.name is None else (str(row.name),)
        row = dict(zip(map(str, row.index), row.tolist(), strict=True))
    if isinstance(row, Mapping):
        by_name = {str(name): value for name, value in row.items()}
        _check_names(by_name, names, all_of_them=True)
        values = [by_name[name] for name in names]
    elif _is_flat(row):
        values = list(row)
        if len(values) != len(names):
            raise ValueError(f"row has {len(values)} values for {len(names)} features; pass one for each, in order")
    else:
        table = read_table(row)
        if table.n_rows != 1:
            raise ValueError(f"row has {table.n_rows} rows; pass one, such as X.iloc[[0]], or explain_all(X) for many")
        return table
    words = [column.value_called(value) for column, value in zip(schema.columns, values, strict=True)]
    table = read_table([words])
    columns = tuple(replace(column, name=name) for column, name in zip(table.columns, names, strict=True))
    return replace(table, columns=columns, named=schema.named, ids=ids)


def changed_row(table: PlainTable, changes: Mapping[str, object], schema: Schema) -> PlainTable:
    """The case from `read_row` with some values changed."""
    if not isinstance(changes, Mapping) or not changes:
        raise ValueError(f"changes={changes!r} changes nothing; pass new values by feature, such as {{'age': 50}}")
    new = {str(name): value for name, value in changes.items()}
    _check_names(new, schema.names, all_of_them=False)
    called = {name: schema.column(name).value_called(value) for name, value in new.items()}
    place = {name: j for j, name in enumerate(table.names if table.named else schema.names)}
    columns = list(table.columns)
    for name, column in zip(called, read_table([list(called.values())]).columns, strict=True):
        columns[place[name]] = replace(column, name=columns[place[name]].name)
    return replace(table, columns=tuple(columns))


def changed_rows(table: PlainTable, changes: Sequence[Mapping[str, object]], schema: Schema) -> PlainTable:
    """Copies of the case from `read_row`, each with some values changed.

    Examples
    --------
    >>> schema = Schema.learn([[52, "male"], [61, "female"]])
    >>> schema.encode(changed_rows(read_row([61, "male"], schema), [{"x0": 52}, {"x1": "female"}], schema)).x.tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    columns = schema._matched(table)
    original = [
        column.texts[0] if column.family == "text" else None if column.is_missing[0] else float(column.numbers[0])
        for column in columns
    ]
    place = {name: j for j, name in enumerate(schema.names)}
    rows = []
    for change in changes:
        row: list[object] = list(original)
        for name, value in change.items():
            row[place[name]] = value
        rows.append(row)
    return _table_of(rows, schema, None)


def read_rows(rows: Sequence[Mapping[str, object]], schema: Schema, ids: Sequence[str]) -> PlainTable:
    """Read cases given by feature names, as in `read_row`, each with an id.

    Examples
    --------
    >>> schema = Schema.learn([[52, "male"], [61, "female"]])
    >>> read_rows([{"x0": 50, "x1": "male"}, {"x0": None, "x1": "male"}], schema, ["a", "b"]).n_rows
    2
    """
    for row in rows:
        _check_names(row, schema.names, all_of_them=True)
    return _table_of([[c.value_called(row[c.name]) for c in schema.columns] for row in rows], schema, tuple(ids))


def _table_of(rows: Sequence[Sequence[object]], schema: Schema, ids: tuple[str, ...] | None) -> PlainTable:
    """Rows of values in the order of the schema."""
    # An additional row of None gives all columns the object type, regardless of the other rows.
    many = read_table([*rows, [None] * len(schema.names)])
    kept = tuple(
        replace(column, name=name, numbers=column.numbers[: len(rows)], texts=column.texts[: len(rows)])
        for column, name in zip(many.columns, schema.names, strict=True)
    )
    return replace(many, columns=kept, n_rows=len(rows), named=schema.named, ids=ids)


def _check_names(given: Mapping[str, object], names: tuple[str, ...], all_of_them: bool) -> None:
    unknown = [name for name in given if name not in names]
    if unknown:
        meant = remedy(unknown[0], names, f"the features are {listed(names)}")
        raise ValueError(f"there is no feature {listed(unknown)}; {meant}")
    absent = [name for name in names if name not in given]
    if absent and all_of_them:
        raise ValueError(f"row has no value for {listed(absent)}; pass one for each feature, None if it is missing")


def _is_flat(row: object) -> TypeGuard[Iterable[object]]:
    """Whether this is a sequence of the values of one case rather than a sequence of rows."""
    if isinstance(row, np.ndarray):
        return row.ndim == 1
    return isinstance(row, list | tuple) and not any(isinstance(v, list | tuple | dict | np.ndarray) for v in row)
