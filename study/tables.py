"""Tables of results, written as CSV for programs and as Markdown for readers, and read from CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayespatch.persistence.atomic import PUBLIC, replacing

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Table:
    """Named columns and rows of plain values.

    Examples
    --------
    >>> table = Table("votes", "Who won", ("who", "share"), [("ann", 0.51234), ("ben", None)])
    >>> print(table.to_markdown())
    | who | share |
    |---|---|
    | ann | 0.512 |
    | ben |  |
    >>> Table.from_csv("votes", table.to_csv()).column("share")
    [0.51234, None]
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(f"table {self.name!r}: the row {wrong[0]!r} does not have the columns {self.columns}")

    @classmethod
    def of_records(cls, name: str, caption: str, records: Sequence[dict[str, Any]]) -> Table:
        """A table of dictionaries with the same keys."""
        columns = tuple(records[0]) if records else ()
        return cls(name, caption, columns, [tuple(_plain(record[key]) for key in columns) for record in records])

    @classmethod
    def from_csv(cls, name: str, text: str) -> Table:
        """Read the result of `to_csv`; strings that look like numbers become numbers."""
        lines = list(csv.reader(io.StringIO(text)))
        return cls(name, "", tuple(lines[0]), [tuple(_read(cell) for cell in line) for line in lines[1:]])

    def records(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def column(self, name: str) -> list[Any]:
        """One column."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def where(self, **values: Any) -> Table:
        """The rows with these values."""
        conditions = {self.columns.index(name): value for name, value in values.items()}
        rows = [row for row in self.rows if all(row[column] == value for column, value in conditions.items())]
        return Table(self.name, self.caption, self.columns, rows)

    def to_csv(self) -> str:
        """The table as CSV with all digits, so that reading it loses nothing."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([_exact(cell) for cell in row] for row in self.rows)
        return file.getvalue()

    def to_markdown(self, digits: int = 3) -> str:
        """The table as Markdown for readers."""
        lines = ["| " + " | ".join(self.columns) + " |", "|" + "---|" * len(self.columns)]
        lines += ["| " + " | ".join(_short(cell, digits) for cell in row) + " |" for row in self.rows]
        return "\n".join(lines)


def summary(
    table: Table,
    by: Sequence[str],
    over: Iterable[str],
    name: str,
    caption: str,
    paper: Callable[..., Mapping[str, float]] | None = None,
) -> Table:
    """Mean and SD over folds of several measures, one row for each combination of `by`, in order of appearance.

    `paper`, if passed, maps the values of `by` to the paper's means; these and the difference in accuracy are added.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in table.records():
        groups.setdefault(tuple(row[key] for key in by), []).append(row)
    printed = {key: paper(*key) for key in groups} if paper is not None else {}
    in_paper = list(dict.fromkeys(measure for means in printed.values() for measure in means))
    records = []
    for key, members in groups.items():
        record: dict[str, Any] = dict(zip(by, key, strict=True))
        for measure in over:
            values = np.array([member[measure] for member in members if member[measure] is not None], dtype=float)
            record[measure] = float(values.mean()) if values.size else None
            record[f"{measure} SD"] = float(values.std(ddof=1)) if values.size > 1 else None
        for measure in in_paper:
            record[f"paper's {measure}"] = printed[key].get(measure)
        if "accuracy" in in_paper:
            paper_accuracy = printed[key].get("accuracy")
            record["difference"] = None if paper_accuracy is None else record["accuracy"] - paper_accuracy
        records.append(record)
    return Table.of_records(name, caption, records)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that it is complete or does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, PUBLIC) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


def _plain(value: Any) -> Cell:
    """Convert NumPy numbers to Python numbers, and NaN to None."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and np.isnan(value) else value


def _exact(cell: Cell) -> str:
    return "" if cell is None else repr(cell) if isinstance(cell, float) else str(cell)


def _read(cell: str) -> Cell:
    if cell in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[cell]
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def _short(cell: Cell, digits: int) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.{digits}f}" if abs(cell) >= 10.0**-digits or cell == 0.0 else f"{cell:.2g}"
    return str(cell).replace("|", "\\|")
