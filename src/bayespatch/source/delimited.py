"""Text with a delimiter: CSV and similar files, with line numbers in error messages.

Blank, NA, N/A, NaN, null and ? are missing. A column is numeric if all its known values are numbers or laboratory
values (`lab_values`); true and false are booleans; everything else is text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from bayespatch.source.frame import check_names, import_pandas, refuse
from bayespatch.source.lab_values import with_lab_values

if TYPE_CHECKING:
    from pandas import DataFrame

MISSING = frozenset(("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "?"))
DELIMITERS = (",", ";", "\t", "|")
DELIMITER_WORDS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}
_LINES = 50  # number of lines used to detect the delimiter
_SUSPECT = re.compile(r"[,;:|^~\t]")  # in the name of the only column, this shows that the delimiter was not detected
_KNOWN_FILES = {
    b"\xd0\xcf\x11\xe0": "is an old Excel workbook (.xls); save the sheet as .xlsx or CSV and pass that",
    b"SQLite format 3\x00": "is a SQLite database; pass it as sqlite:///PATH, with --query 'SELECT ...'",
    b"\x89bayespatch\n": "is a bayespatch model; pass a table of cases",
}


def read_delimited(
    source: str,
    data: bytes,
    *,
    delimiter: str | None = None,
    texts: Collection[str] = (),
    numbers: Mapping[str, str] | None = None,
) -> DataFrame:
    r"""Read a table from the bytes of a text file.

    Parameters
    ----------
    source : str
        Name in messages.
    data : bytes
        UTF-8, UTF-16 with a byte order mark, or Windows-1252.
    delimiter : str, optional
        The character between the values, or its name (tab, space, comma, semicolon, pipe); None detects comma,
        semicolon, tab or |. Any number of spaces counts as one.
    texts : names
        Columns that remain text even if all values look like numbers.
    numbers : dict of str to str, optional
        Columns to read as numbers -> their unit, or an empty string.

    Examples
    --------
    >>> read_delimited("a.csv", b"age;sex\n61;f\n58;m\n").to_dict("list")
    {'age': [61, 58], 'sex': ['f', 'm']}
    """
    text = _decoded(source, data)
    if delimiter is not None:
        delimiter = DELIMITER_WORDS.get(delimiter.lower(), delimiter)
        if len(delimiter) != 1:
            raise ValueError(
                f"--delimiter {delimiter!r} is not a single character; pass a character such as ';', or tab or space"
            )
    if not text.strip():
        raise refuse(source, "the file is empty; pass a table with a first line of column names")
    separator = delimiter or _delimiter_of(text)
    lines = _lines(source, text, separator)
    names = next(lines)[1]
    _check_header(source, names, separator)
    columns: list[list[str | None]] = [[] for _ in names]
    for number, values in lines:
        if len(values) != len(names):
            raise refuse(
                source,
                f"line {number} has {len(values)} values, but the first line names {len(names)} columns; "
                f"correct the line (a value that contains {separator!r} needs quotation marks), or pass --delimiter",
            )
        for column, value in zip(columns, values, strict=True):
            column.append(None if value in MISSING else value)
    if not columns[0]:
        raise refuse(source, "there are column names but no rows; pass at least two cases")
    table = dict(zip(names, columns, strict=True))
    typed = {name: values if name in texts else _typed(values) for name, values in table.items()}
    frame: DataFrame = import_pandas().DataFrame(typed)
    return with_lab_values(frame, texts=texts, numbers=numbers, commas=separator != ",")


def _decoded(source: str, data: bytes) -> str:
    for beginning, wrong in _KNOWN_FILES.items():
        if data.startswith(beginning):
            raise refuse(source, wrong)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    if b"\x00" in data:
        raise refuse(source, "is a binary file, not a table; pass CSV, Parquet or Arrow")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace")  # written by spreadsheets on Windows
    strange = sum(not (character.isprintable() or character in "\r\n\t") for character in text[:10_000])
    if strange > len(text[:10_000]) / 50:
        raise refuse(source, "is a binary file, not a table; pass CSV, Parquet or Arrow")
    return text


def _delimiter_of(text: str) -> str:
    """The delimiter that divides the first lines into the same number of values, preferably many."""
    head = list(islice(io.StringIO(text, newline=""), _LINES))

    def score(delimiter: str) -> tuple[bool, int]:
        try:
            widths = [len(values) for values in csv.reader(head, delimiter=delimiter) if values]
        except csv.Error:  # a line without this delimiter may be one value that is too long
            return False, 0
        return len(set(widths)) == 1 and widths[0] > 1, widths[0]

    return max(DELIMITERS, key=score)


def _lines(source: str, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The values of each line that is not blank, with its number."""
    spaced = delimiter == " "
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=spaced)
    try:
        for values in reader:
            if spaced and len(values) > 1 and not values[-1]:  # spaces before the end of the line
                values = values[:-1]
            if len(values) > 1 or any(value.strip() for value in values):
                yield reader.line_num, [value.strip() for value in values]
    except csv.Error as error:
        raise refuse(
            source, f"line {reader.line_num} cannot be read ({error}); look for an unclosed quotation mark"
        ) from error


def _check_header(source: str, names: Sequence[str], separator: str) -> None:
    if len(names) == 1 and separator != " " and len(names[0].split()) > 1 and not _SUSPECT.search(names[0]):
        raise refuse(
            source,
            f"was read as a single column, {names[0]!r}; if spaces separate the values, pass --delimiter space "
            f"(or tab, for tabs)",
        )
    if len(names) == 1 and _SUSPECT.search(names[0]):
        raise refuse(
            source,
            f"was read as a single column, {names[0]!r}; name what separates the values, such as --delimiter ':'",
        )
    check_names(source, names)
    if all(_is_number(name) for name in names):
        raise refuse(source, f"the first line contains numbers ({names[0]}, ...); put a line of column names before it")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _typed(values: list[str | None]) -> object:
    """Numbers or booleans if all known values are; otherwise text."""
    known = [value for value in values if value is not None]
    if not known:
        return values
    if {value.lower() for value in known} <= {"true", "false"}:
        return [None if value is None else value.lower() == "true" for value in values]
    pandas = import_pandas()
    numbers = pandas.to_numeric(pandas.Series(values, dtype=object), errors="coerce")
    return numbers if int(numbers.notna().sum()) == len(known) else values
