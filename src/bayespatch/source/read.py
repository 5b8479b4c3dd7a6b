"""Reads a table from any source; the kind of a file is detected from its content, not its name."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from bayespatch.available_memory import available_memory, shortage, shown_bytes
from bayespatch.source.columnar import BEGINNINGS, read_columnar
from bayespatch.source.database import read_query
from bayespatch.source.delimited import read_delimited
from bayespatch.source.frame import refuse
from bayespatch.source.lab_values import with_lab_values
from bayespatch.source.packed import GZIP, ZIP, read_excel, unpacked

if TYPE_CHECKING:
    from pandas import DataFrame

_TIMES = 3  # memory needed to read a table, at least, as a multiple of the size of its file


def read(
    where: str,
    query: str | None = None,
    *,
    delimiter: str | None = None,
    texts: Collection[str] = (),
    numbers: Mapping[str, str] | None = None,
) -> DataFrame:
    r"""Read a table.

    Parameters
    ----------
    where : str
        A file of delimited text (optionally compressed with gzip), Excel, Parquet or Arrow, "-" for standard input, or
        the URL of a database.
    query : str, optional
        The database query.
    delimiter : str, optional
        Delimiter of text files; None detects it.
    texts : names
        Columns that remain text even if all values look like numbers.
    numbers : dict of str to str, optional
        Numeric columns -> their unit, or an empty string. Non-numeric values in them become missing, with a
        `LabValueWarning`. Other columns are read as numbers if nearly all their values are (`lab_values`).

    Returns
    -------
    pandas.DataFrame
        The table, with at least one row and unique column names.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "cases.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("age,sex\n61,f\n58,m\n")
    ...     read(path).shape
    (2, 2)
    """
    if "://" in where:
        return with_lab_values(read_query(where, query), texts=texts, numbers=numbers)
    source = repr(where)
    if "\0" in where:
        raise refuse(source, "cannot be read (a path must not contain a NUL byte); correct the path")
    if query is not None:
        raise refuse(source, "--query works only with a database; pass a URL such as sqlite:///cases.db, or remove it")
    if where == "-":
        return _of_bytes("standard input", _standard_input(), delimiter, texts, numbers)
    if os.path.isdir(where):
        raise refuse(source, "is a folder; pass a file in it")
    try:
        state = os.stat(where)
        _check_file(source, state)
        with open(where, "rb") as file:
            beginning = file.read(8)
            layouts = [layout for magic, layout in BEGINNINGS.items() if beginning.startswith(magic)]
            data = b"" if layouts else beginning + file.read(state.st_size)
    except FileNotFoundError as error:
        raise refuse(source, "no such file; correct the path") from error
    except OSError as error:
        raise refuse(source, f"cannot be read ({error}); correct the path") from error
    if layouts:
        return with_lab_values(read_columnar(source, where, layouts[0]), texts=texts, numbers=numbers)
    return _of_bytes(source, data, delimiter, texts, numbers)


def _of_bytes(
    source: str, data: bytes, delimiter: str | None, texts: Collection[str], numbers: Mapping[str, str] | None
) -> DataFrame:
    """A table from the content of a file or pipe."""
    if data.startswith(GZIP):
        data = unpacked(source, data)
    if data.startswith(ZIP):
        return with_lab_values(read_excel(source, data), texts=texts, numbers=numbers)
    if data.startswith(tuple(BEGINNINGS)):
        raise refuse(source, "is Parquet or Arrow, which cannot be piped; pass the path of the file")
    return read_delimited(source, data, delimiter=delimiter, texts=texts, numbers=numbers)


def _standard_input() -> bytes:
    """The content of standard input, if it fits into memory."""
    if sys.stdin is None or sys.stdin.isatty():
        raise refuse("standard input", "nothing is piped into the program; pass a file, or pipe a table into it")
    available = available_memory()
    most = -1 if available is None else available // _TIMES
    data = sys.stdin.buffer.read(most)
    if len(data) == most:
        raise refuse("standard input", f"is larger than {shown_bytes(most)}; pass fewer rows or columns")
    return data


def _check_file(source: str, state: os.stat_result) -> None:
    """Check that the file is a regular file and fits into memory."""
    if not stat.S_ISREG(state.st_mode):
        raise refuse(source, "is a device or pipe, not a file; save its output to a file, and pass that")
    if (available := shortage(_TIMES * state.st_size)) is not None:
        wrong = f"is {shown_bytes(state.st_size)}, but only {available} of memory are available"
        remedy = "pass fewer rows or columns, a database and a --query, or a folder of Parquet files"
        raise refuse(source, f"{wrong}; {remedy}")
