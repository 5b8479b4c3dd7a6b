"""A table in many Parquet files: each file is one part, or several if it is large, read by the process that uses it."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from bayespatch.source.columnar import read_columnar
from bayespatch.source.dates import Interval
from bayespatch.source.frame import refuse
from bayespatch.source.roles import past_rows
from bayespatch.types import JSONObject, Parameters

if TYPE_CHECKING:
    from pandas import DataFrame

    from bayespatch.encode import Partitions
    from bayespatch.encode.partitions import Each, Part

Result = TypeVar("Result")

ENDING = ".parquet"
MOST_BYTES = 256_000_000  # uncompressed size of a part; larger files are split between row groups


def parquet_files(where: str) -> list[str] | None:
    """The files of a partitioned table: those that match a pattern, or all of a folder; None for a single table.

    Examples
    --------
    >>> parquet_files("cases.parquet") is None
    True
    """
    if "://" in where or "\0" in where or where == "-" or os.path.isfile(where):
        return None
    if os.path.isdir(where):
        paths = glob.glob(os.path.join(glob.escape(where), f"*{ENDING}"))
        wrong = f"there is no file *{ENDING} in the folder; pass a file, or a folder of Parquet files"
    elif glob.has_magic(where):
        paths = glob.glob(where, recursive=True)
        wrong = "no file matches; correct the pattern"
    else:
        return None
    files = sorted(path for path in paths if os.path.isfile(path))
    if not files:
        raise refuse(repr(where), wrong)
    return files


class FilePart(NamedTuple):
    """A Parquet file, or some of its row groups.

    Attributes
    ----------
    file : str
        Name of the file, as passed by the user.
    path : str
        Path of the file.
    groups : tuple of int, or None
        The row groups; None: all of them.
    first : int
        The number of the first row in the file.
    """

    file: str
    path: str
    groups: tuple[int, ...] | None = None
    first: int = 0

    @property
    def label(self) -> str:
        """Name in messages."""
        return repr(self.file) + (f" from row {self.first} on" if self.first else "")


def parts_of(files: Sequence[str]) -> list[FilePart]:
    """The parts of files, in order: a large file is split between row groups."""
    parquet = _pyarrow().parquet
    parts = []
    for file in files:
        path = os.path.abspath(file)
        _check_parquet(file, path)
        try:
            metadata = parquet.read_metadata(path)
        except (OSError, ValueError) as error:  # pyarrow raises either
            raise refuse(repr(file), f"cannot be read as Parquet ({error}); use another copy of the file") from error
        sizes = [
            (metadata.row_group(k).total_byte_size, metadata.row_group(k).num_rows)
            for k in range(metadata.num_row_groups)
        ]
        if sum(size for size, _ in sizes) <= MOST_BYTES:
            parts.append(FilePart(file, path))
            continue
        groups: list[int] = []
        held = first = row = 0
        for k, (size, n_rows) in enumerate(sizes):
            if groups and held + size > MOST_BYTES:
                parts.append(FilePart(file, path, tuple(groups), first))
                groups, held, first = [], 0, row
            groups.append(k)
            held, row = held + size, row + n_rows
        parts.append(FilePart(file, path, tuple(groups), first))
    return parts


def read_part(part: FilePart) -> DataFrame:
    """The rows of a part; possibly empty."""
    _check_parquet(part.file, part.path)
    return read_columnar(repr(part.file), part.path, "Parquet", groups=part.groups, may_be_empty=True)


def _pyarrow() -> ModuleType:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError('Parquet files need pyarrow: pip install "bayespatch[parquet]"') from error
    return pyarrow


def _check_parquet(file: str, path: str) -> None:
    try:
        with open(path, "rb") as opened:
            is_parquet = opened.read(4) == b"PAR1"
    except OSError as error:
        raise refuse(repr(file), f"cannot be read ({error}); all workers must see it under the same path") from error
    if not is_parquet:
        raise refuse(repr(file), "is not Parquet, but a table in several files must be; convert it, or pass it alone")


def column_names(file: str) -> list[str]:
    """The columns of a Parquet file, without its rows."""
    parquet = _pyarrow().parquet
    _check_parquet(file, file)
    try:
        return [str(name) for name in parquet.read_schema(file).names]
    except (OSError, ValueError) as error:  # pyarrow raises either
        raise refuse(repr(file), f"cannot be read as Parquet ({error}); use another copy of the file") from error


def training_parts(
    files: Sequence[str],
    target: str,
    each: Each,
    *,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    intervals: Sequence[Interval] = (),
) -> Partitions:
    """Files as a partitioned training table; `each` as in `Partitions`."""
    from bayespatch.encode import Partitions

    parts = tuple(parts_of(files))
    options = dict(id_column=id_column, drop=tuple(drop), intervals=tuple(intervals))
    labels = tuple(part.label for part in parts)
    return Partitions(parts, labels, partial(_read_training, target, options), each)


def _read_training(target: str, options: Parameters, part: FilePart) -> Part:
    from bayespatch.encode.partitions import Part

    return Part(*past_rows(read_part(FilePart(*part)), target, **options)[:3])


def one_after_the_other(function: Callable[..., Result], arguments: Sequence[tuple[object, ...]]) -> list[Result]:
    """`Partitions.each` in this process."""
    return [function(*each) for each in arguments]


def write_part(path: str, columns: dict[str, str], rows: Sequence[JSONObject]) -> None:
    """Write rows to a Parquet file, which gets its final name once it is complete and on disk.

    Parameters
    ----------
    path : str
    columns : dict
        Name -> pyarrow type ("string", "int64", "float64"), the same in all parts of a table.
    rows : sequence of dict
    """
    pyarrow = _pyarrow()
    schema = pyarrow.schema([(name, getattr(pyarrow, kind)()) for name, kind in columns.items()])
    aside = f"{path}.{os.getpid()}.tmp"  # another worker may write the same part if this one was considered lost
    try:
        descriptor = os.open(aside, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o600)
        with open(descriptor, "wb") as file:
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows), schema=schema), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        raise refuse(
            repr(path), f"cannot be written ({error}); all workers must be able to write there under the same path"
        ) from error
