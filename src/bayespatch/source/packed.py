"""Compressed text files and Excel sheets."""

from __future__ import annotations

import io
import warnings
import zipfile
import zlib
from typing import TYPE_CHECKING

from bayespatch.available_memory import available_memory, shown_bytes
from bayespatch.source.frame import check_names, import_pandas, plain_text, refuse

if TYPE_CHECKING:
    from pandas import DataFrame

GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
_TIMES = 3  # memory needed to read a table, at least, as a multiple of the size of its text
_MOST_EXCEL = 1_000_000_000  # maximum size in bytes of an unpacked workbook


def unpacked(source: str, data: bytes) -> bytes:
    """The uncompressed bytes of a gzip file; a file that would not fit into memory is rejected before that."""
    available = available_memory()
    most = 2**40 if available is None else available // _TIMES
    pieces, size, rest = [], 0, data
    try:
        while rest:
            stream = zlib.decompressobj(wbits=31)
            part = stream.decompress(rest, most + 1 - size)
            size += len(part)
            if size > most:
                raise refuse(source, f"is larger than {shown_bytes(most)} when unpacked; pass fewer rows or columns")
            if not stream.eof:
                raise refuse(source, "is a truncated compressed file; use another copy of the file")
            pieces.append(part)
            rest = stream.unused_data
    except zlib.error as error:
        raise refuse(source, f"cannot be unpacked ({error}); use another copy of the file") from error
    return b"".join(pieces)


class SheetWarning(UserWarning):
    """A workbook has several sheets, of which only the first is read."""


def read_excel(source: str, data: bytes) -> DataFrame:
    """The first sheet of a workbook (.xlsx), whose first row must contain the column names."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = set(archive.namelist())
            size = sum(part.file_size for part in archive.infolist())
    except zipfile.BadZipFile as error:
        raise refuse(source, f"cannot be unpacked ({error}); use another copy of the file") from error
    if "xl/workbook.xml" not in names:
        raise refuse(source, "is a zip archive; unpack it and pass the table inside")
    if size > _MOST_EXCEL:
        raise refuse(source, f"is {shown_bytes(size)} when unpacked; save the sheet as CSV and pass that")
    try:
        import openpyxl
    except ImportError as error:
        raise ImportError('Excel workbooks need openpyxl: pip install "bayespatch[excel]"') from error
    try:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        sheets = [sheet.title for sheet in book.worksheets]
        rows = [list(row) for row in book.worksheets[0].iter_rows(values_only=True)]
    except Exception as error:  # openpyxl has many error types, handled the same way here
        raise refuse(source, f"cannot be read as a workbook ({error}); save the sheet as CSV and pass that") from error
    if len(sheets) > 1:
        warnings.warn(
            f"{source}: only the first of {len(sheets)} sheets, {sheets[0]!r}, is read; put the table there",
            SheetWarning,
            stacklevel=2,
        )
    rows = [row for row in rows if any(value is not None for value in row)]
    if not rows:
        raise refuse(source, "the first sheet is empty; put the table there")
    width = max(place + 1 for row in rows for place, value in enumerate(row) if value is not None)
    header = ["" if name is None else str(name).strip() for name in (rows[0] + [None] * width)[:width]]
    check_names(source, header)
    if len(rows) < 2:
        raise refuse(source, "there are column names but no rows; pass at least two cases")
    columns = {name: [_value(row[j] if j < len(row) else None) for row in rows[1:]] for j, name in enumerate(header)}
    frame: DataFrame = import_pandas().DataFrame({name: _typed(values) for name, values in columns.items()})
    return frame


def _value(value: object) -> object:
    from bayespatch.source.delimited import MISSING

    if isinstance(value, str):
        text = value.strip()
        return None if text in MISSING else text
    return value


def _typed(values: list[object]) -> list[object]:
    """Convert all cells of a column to text if it mixes text with other values."""
    known = [value for value in values if value is not None]
    if any(isinstance(value, str) for value in known) and not all(isinstance(value, str) for value in known):
        return [None if value is None else plain_text(value) for value in values]
    return values
