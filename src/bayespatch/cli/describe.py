"""The command that describes a table before fitting."""

from __future__ import annotations

import warnings
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

import numpy as np

from bayespatch.cli.files import check_new, write
from bayespatch.cli.options import Data, Delimiter, DraftOut, Force, Json, MaybeTarget, Query
from bayespatch.cli.terminal import say, show, table_text, width, working
from bayespatch.dictionary import Dictionary, Entry
from bayespatch.duplicates import duplicates_text
from bayespatch.source import read
from bayespatch.source.columns import Found, notice, repeated_rows
from bayespatch.source.dates import dates_of, holds_dates
from bayespatch.source.frame import plain_text
from bayespatch.source.lab_values import LabValueWarning
from bayespatch.source.roles import check_column
from bayespatch.types import JSONObject

if TYPE_CHECKING:
    from bayespatch.encode.table import DataFrame, Series, Value

_BARS = " ▁▂▃▄▅▆▇█"
_MOST_LEVELS = 12  # levels of a column that are shown and written to the draft
_N_BINS = 12


def describe(
    data: Data,
    target: MaybeTarget = None,
    query: Query = None,
    delimiter: Delimiter = None,
    dictionary: DraftOut = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Show the columns of a table: kinds, missing values, levels, distributions, and problems.

    With --dictionary, also write a draft of the data dictionary. Complete it and pass it to fit.

    Examples
    --------
    $ bayespatch describe patients.csv
    $ bayespatch describe patients.csv --target outcome --dictionary dictionary.csv
    """
    check_new(force, dictionary)
    with (
        working(f"Reading {data.partition('://')[0] if '://' in data else data}"),
        warnings.catch_warnings(record=True) as notes,
    ):
        warnings.simplefilter("always", LabValueWarning)
        frame = read(data, query, delimiter=delimiter)
    if target is not None:
        check_column(frame, target, "--target")
    names = [str(name) for name in frame.columns]
    columns = [_column(frame[name]) for name in names]
    remarks = [str(note.message) for note in notes] + _remarks(frame, target, columns)
    summary = {"rows": len(frame), "columns": columns, "target": target, "remarks": remarks}
    if dictionary is not None:
        write(_draft(frame, columns).to_csv(), dictionary)
        say(f"wrote a draft of the data dictionary to {dictionary}; add labels and units, then pass it to fit")
    show(summary, json, _text(summary))


def _column(column: Series) -> JSONObject:
    """One column as plain data."""
    values = column.dropna()
    about: JSONObject = {
        "name": str(column.name),
        "kind": _kind(column),
        "missing": int(column.isna().sum()),
        "distinct": int(values.nunique()),
    }
    if about["kind"] == "number":
        numbers = values.to_numpy(dtype=np.float64)
        counts, _ = np.histogram(numbers, bins=_N_BINS)
        about |= {
            "smallest": float(numbers.min()),
            "median": float(np.median(numbers)),
            "largest": float(numbers.max()),
            "histogram": counts.tolist(),
        }
    elif about["kind"] == "date":
        times = dates_of_or_none(column)
        if times is not None:
            about |= {"smallest": str(times.min().date()), "largest": str(times.max().date())}
    if about["kind"] in ("text", "boolean") or about["distinct"] <= _MOST_LEVELS:
        counted = (
            values.astype(str).value_counts(sort=True).head(_MOST_LEVELS)
            if about["kind"] != "number"
            else (values.value_counts().sort_index())
        )
        about["levels"] = {plain_text(value): int(n) for value, n in counted.items()}
    return about


def dates_of_or_none(column: Series) -> Series | None:
    """A column of dates as timestamps; None if they cannot be parsed."""
    try:
        return dates_of(column)
    except ValueError:
        return None


def _kind(column: Series) -> str:
    if column.isna().all():
        return "empty"
    if holds_dates(column):
        return "date"
    if column.dtype.kind in "iuf":
        return "number"
    values = set(map(type, column.dropna().tolist()))
    return "boolean" if values == {bool} else "text"


def _remarks(frame: DataFrame, target: str | None, columns: list[JSONObject]) -> list[str]:
    """Problems to check before fitting."""
    remarks = []
    for column in columns:
        if column["kind"] == "date":
            name = column["name"]
            remarks.append(f"{name!r} contains dates: fit needs --age {name!r}, --days {name!r} or --drop {name!r}")
    y = frame[target] if target is not None else None
    plain = [
        column["name"] for column in columns if column["kind"] not in ("date", "empty") and column["name"] != target
    ]
    if y is not None:
        n_unknown = int(y.isna().sum())
        remarks += [f"{n_unknown} rows have no {target!r} and would be dropped"] if n_unknown else []
        has_outcome = y.notna()
        findings: Found | None = notice(frame.loc[has_outcome, plain], y[has_outcome])
        rare = y.value_counts()
        few = [f"{plain_text(value)} ({n})" for value, n in rare.items() if n < 3]
        if few and len(rare) <= 100 and 2 * len(rare) <= int(has_outcome.sum()):
            remarks.append(f"classes with one or two cases: {', '.join(few[:8])}{' and more' if len(few) > 8 else ''}")
    else:
        findings = notice(frame[plain]) if plain else None
    if findings is not None:
        remarks += [
            f"{name!r} looks like an identifier ({why}): fit asks for --id, --drop or --keep"
            for name, why in findings.identifiers.items()
        ]
        remarks += [
            f"{name!r} identifies patients, and {n} rows share a value with another row: pass --group {name!r}"
            for name, n in findings.repeated.items()
        ]
        rows = repeated_rows(frame[[name for name in plain if name not in findings.identifiers]])
        if rows:
            remarks.append(
                f"{duplicates_text(rows, len(frame))}: remove repeats, or name the column of patients with --group"
            )
        remarks += [f"nearly all values of {name!r} are different" for name in findings.unique]
        remarks += [f"{name!r} is {value} in every row" for name, value in findings.constant.items()]
        remarks += [f"{name!r} duplicates {other!r}" for name, other in findings.copies.items()]
        remarks += [
            f"{name!r} on its own predicts {target!r} for {100 * share:.4g}% of the cases: is it known only after the "
            f"outcome?"
            for name, share in findings.leaks.items()
        ]
    remarks += [f"{column['name']!r} is empty" for column in columns if column["kind"] == "empty"]
    return remarks


def _draft(frame: DataFrame, columns: list[JSONObject]) -> Dictionary:
    """A draft dictionary: kinds, levels, identifiers, and the observed range of numbers as their usual range."""
    plain = [column["name"] for column in columns if column["kind"] not in ("date", "empty")]
    identifiers = notice(frame[plain]).identifiers if plain else {}
    entries = {}
    for column in columns:
        name, kind = column["name"], column["kind"]
        if kind in ("empty", "date"):
            entries[name] = Entry(name)
            continue
        levels: tuple[tuple[Value, str], ...] = ()
        if kind != "number" and column["distinct"] <= _MOST_LEVELS:
            levels = tuple((value == "True" if kind == "boolean" else value, value) for value in column["levels"])
        elif kind == "number" and column["distinct"] <= min(_MOST_LEVELS, len(frame) // 2) and name not in identifiers:
            whole = all(float(value).is_integer() for value in column["levels"])
            levels = tuple((int(value), value) for value in column["levels"]) if whole else ()
        usual = None
        if kind == "number" and not levels and name not in identifiers:
            usual = (_rounded(column["smallest"], ROUND_FLOOR), _rounded(column["largest"], ROUND_CEILING))
        if any(mark in value for value, _ in levels if isinstance(value, str) for mark in ";="):
            levels = ()  # a CSV file cannot store them
        entries[name] = Entry(
            name,
            kind=kind,
            levels=levels,
            usual=usual,
            identifier=name in identifiers,
        )
    return Dictionary(entries)


def _rounded(number: float, how: str) -> float:
    """Round to four digits, up or down."""
    exact = Decimal(repr(number))
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 3), rounding=how)) if exact else 0.0


def _text(summary: JSONObject) -> str:
    rows = []
    for column in summary["columns"]:
        missing = f"{column['missing']}" if column["missing"] else ""
        name = f"{column['name']} (target)" if column["name"] == summary["target"] else column["name"]
        rows.append([name, column["kind"], missing, str(column["distinct"]), _picture(column), _values(column)])
    text = table_text(["column", "kind", "missing", "distinct", "picture", "values"], rows)
    lines = [f"{summary['rows']} rows, {len(summary['columns'])} columns", "", text]
    if summary["remarks"]:
        lines += ["", "Check before fitting:", *(f"  {remark}" for remark in summary["remarks"])]
    return "\n".join(lines)


def _picture(column: JSONObject) -> str:
    """A small bar chart: the histogram of numbers, or the shares of levels."""
    counts = column.get("histogram") if "levels" not in column else list(column["levels"].values())
    if not counts or max(counts) == 0:
        return ""
    return "".join(_BARS[max(1, round(8 * n / max(counts)))] if n else _BARS[0] for n in counts)


def _values(column: JSONObject) -> str:
    if column["kind"] == "empty":
        return ""
    if "levels" in column and column["distinct"] <= _MOST_LEVELS:
        text = ", ".join(f"{value} ({n})" for value, n in column["levels"].items())
    elif "smallest" in column:
        ends = [column["smallest"], *([column["median"]] if "median" in column else []), column["largest"]]
        text = " … ".join(end if isinstance(end, str) else f"{end:.6g}" for end in ends)
    else:
        text = ", ".join(list(column["levels"])[:4]) + ", …" if column.get("levels") else ""
    room = max(20, width() - 70)
    return text if len(text) <= room else f"{text[: room - 1]}…"
