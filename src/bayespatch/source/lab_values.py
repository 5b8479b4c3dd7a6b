"""Laboratory values: numbers with detection limits, units, decimal commas, or remarks."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from bayespatch.source.frame import import_pandas
from bayespatch.validation import listed

if TYPE_CHECKING:
    from pandas import DataFrame

Cell: TypeAlias = str | float

LEAST_NUMBERS = 20  # with fewer plain numbers next to limits or remarks, they may be category codes
LEAST_DISTINCT = 10  # likewise for distinct values
MOST_REMARKS = 0.05  # maximum share of remarks among the known values; with more, the values are categories
_NUMBER = re.compile(
    r"(?P<limit>[<>≤≥]=?)?\s*(?P<number>[-+]?(?:\d+(?:[.,]\d+)?|[.,]\d+)(?:[eE][-+]?\d+)?)\s*(?P<unit>[a-zA-Zµμ°%‰×*].*)?"
)
_GROUPED = re.compile(r"[-+]?\d{1,3},\d{3}")  # 1,234: the comma may separate thousands or decimals
# A unit is a quotient, such as mg/dl or 10^9/l, or one of the following.
# Single letters are excluded: 2a is a stage.
_UNITS = re.compile(
    r"%|‰|yrs?|years?|mo|months?|wk|weeks?|days?|hr|hours?|min|sec|ms|kg|[mµμunp]g|lbs?|oz|[mµμunp]?mol|[dmµμuf]l|"
    r"[cmµμu]m|in|inch(es)?|ft|m[²2]|kpa|mmhg|cmh2o|bar|bpm|hz|[km]?iu|[km]u|meq|mosm|°[cf]|kcal|kj|points"
)


class LabValueWarning(UserWarning):
    """A column was read as numbers although some values are written differently."""


class _Parsed(NamedTuple):
    number: float
    limit: bool
    comma: bool
    unit: str


def with_lab_values(
    frame: DataFrame, *, texts: Collection[str] = (), numbers: Mapping[str, str] | None = None, commas: bool = False
) -> DataFrame:
    """A table in which columns of laboratory values are numbers; see `lab_values`.

    Parameters
    ----------
    frame : pandas data frame
    texts : names
        Columns that remain text.
    numbers : dict of str to str, optional
        Columns to read as numbers -> their unit, or an empty string.
    commas : bool
        Whether the comma in 1,234 is a decimal comma.
    """
    units = dict(numbers or {})
    new = {}
    for name in map(str, frame.columns):
        column = frame[name]
        if name in texts or column.dtype.kind in "biufcMm":
            continue
        values = column.astype(object).where(column.notna(), None).tolist()
        numeric = lab_values(name, values, unit=units.get(name), commas=commas)
        if numeric is not None:
            new[name] = import_pandas().Series(numeric, index=column.index, dtype="float64")
    return frame.assign(**new) if new else frame


def lab_values(
    name: str, values: Sequence[object], *, unit: str | None = None, commas: bool = False
) -> list[float | None] | None:
    """Convert a text column to numbers if most values are numbers, with a `LabValueWarning`.

    "<0.3" and ">10" become the limit, "12 mg/dl" becomes the number, and "0,3" a number with decimals. A remark, such
    as "hemolytic", becomes missing. Returns None if the column remains text: more than 5% of the values are remarks, a
    remark has digits (a code such as V57), there are limits or remarks but fewer than 20 plain numbers, or units
    differ.

    Parameters
    ----------
    name : str
        Name of the column in messages.
    values : sequence of str, numbers or None
    unit : str, optional
        Pass it if the column is known to be numeric: other values become missing. A non-empty string is the unit; other
        units are rejected.
    commas : bool
        Whether the comma in 1,234 is a decimal comma; by default, an ambiguous column remains text.

    Examples
    --------
    >>> lab_values("crp", ["0,3 mg/l", "12,5 mg/l", None])
    [0.3, 12.5, None]
    >>> lab_values("stage", ["1", "2a", "2b"]) is None
    True
    """
    known = [value for value in values if isinstance(value, str | int | float) and not isinstance(value, bool)]
    if not known or len(known) < sum(value is not None for value in values):
        return None
    cells = cast("Sequence[Cell | None]", values)
    parsed = {value: _parse(value) for value in dict.fromkeys(known)}
    numbers = {value: part for value, part in parsed.items() if part is not None}
    if not numbers and unit is None:
        return None
    grouped = [value for value in numbers if isinstance(value, str) and _GROUPED.fullmatch(value.strip())]
    if grouped and not commas and not any(part.comma and value not in grouped for value, part in numbers.items()):
        _warn(
            name,
            f"{grouped[0]!r} is ambiguous: the comma may separate thousands or decimals; write it without the comma",
        )
        return None
    units = Counter(part.unit for part in numbers.values() if part.unit)
    if unit is None and not _are_numbers(known, parsed):
        return None
    if not _one_unit(name, units, unit):
        return None
    numeric = [None if value is None else getattr(parsed[value], "number", None) for value in cells]
    _tell(name, known, parsed, units, strict=unit is not None)
    return numeric


def _parse(value: str | float) -> _Parsed | None:
    if not isinstance(value, str):
        return _Parsed(float(value), False, False, "")
    match = _NUMBER.fullmatch(value.strip())
    if match is None:
        return None
    unit = _unit(match["unit"] or "")
    if unit and "/" not in unit and not _UNITS.fullmatch(unit):
        return None
    return _Parsed(float(match["number"].replace(",", ".")), bool(match["limit"]), "," in match["number"], unit)


def _unit(text: str) -> str:
    """The normalized spelling of a unit: lower case, one of the two signs for micro, singular."""
    return re.sub(r"\b(year|yr|month|week|day|hour)s\b", r"\1", " ".join(text.lower().split()).replace("μ", "µ"))


def _are_numbers(known: Sequence[Cell], parsed: Mapping[Cell, _Parsed | None]) -> bool:
    """Whether a column without further information contains measurements."""
    counts = Counter(known)
    remarks = [value for value, part in parsed.items() if part is None]
    plain = [value for value, part in parsed.items() if part is not None and not part.limit]
    if len(plain) == len(parsed):
        return True
    n_plain = sum(counts[value] for value in plain)
    return (
        sum(counts[value] for value in remarks) <= MOST_REMARKS * len(known)
        and not any(character.isdigit() for value in remarks for character in str(value))
        and n_plain >= max(LEAST_NUMBERS, len(known) / 2)
        and len(plain) >= LEAST_DISTINCT
    )


def _one_unit(name: str, units: Counter[str], unit: str | None) -> bool:
    """Whether all values have the same unit; differing units are an error if the column is known to be numeric."""
    if len(units) > 1:
        if unit is not None:
            raise ValueError(f"column {name!r} has values in different units: {listed(units)}; convert them to one")
        _warn(name, f"values in different units ({listed(units)}) are not read as numbers; convert them to one unit")
        return False
    if unit and units and _unit(unit) not in units:
        raise ValueError(f"column {name!r} has values in {listed(units)}, but should be in {unit!r}; convert them")
    return True


def _tell(
    name: str, known: Sequence[Cell], parsed: Mapping[Cell, _Parsed | None], units: Counter[str], *, strict: bool
) -> None:
    """Warn about all values that are not plain numbers."""
    counts = Counter(known)
    kinds: dict[str, list[Cell]] = {"limits": [], "units": [], "commas": [], "remarks": []}
    for value, part in parsed.items():
        if part is None:
            kinds["remarks"].append(value)
            continue
        kinds["limits"] += [value] * part.limit
        kinds["units"] += [value] * bool(part.unit)
        kinds["commas"] += [value] * part.comma
    n = {kind: sum(counts[value] for value in values) for kind, values in kinds.items()}
    parts = []
    if n["commas"]:
        parts.append(f"{n['commas']} with a decimal comma (such as {kinds['commas'][0]!r})")
    if n["units"]:
        parts.append(f"{n['units']} with the unit {next(iter(units))}")
    if n["limits"]:
        parts.append(f"{n['limits']} at a detection limit, as the limit itself (such as {kinds['limits'][0]!r})")
    if n["remarks"]:
        parts.append(f"{n['remarks']} text{'s' * (n['remarks'] > 1)} as missing ({listed(kinds['remarks'], 3)})")
    if parts:
        keep = "" if strict else "; to keep the text, give the column the kind text in the data dictionary"
        _warn(name, f"{len(known)} values are read as numbers: {', '.join(parts)}{keep}")


def _warn(name: str, text: str) -> None:
    warnings.warn(f"column {name!r}: {text}", LabValueWarning, stacklevel=2)
