"""The data dictionary: what each column of a table means, and which values it may have.

It is a CSV, YAML or JSON file that a data manager writes once::

    name,label,kind,unit,levels,usual,possible,identifier,sensitive,fixed
    age,age at admission,number,years,,30..80,0..120,,,yes
    cp,chest pain,number,,1=typical angina;2=atypical angina;3=non-anginal;4=asymptomatic,,,,,
    mrn,,text,,,,,yes,,

    age: {label: age at admission, unit: years, usual: [30, 80], possible: [0, 120], fixed: true}
    cp: {label: chest pain, levels: {1: typical angina, 2: atypical angina, 3: non-anginal, 4: asymptomatic}}
    mrn: {identifier: true}

``phrases`` describe patients with a value in a sentence, as a plural noun or as a phrase that begins with "with",
"without", "who" or "whose" (``58 men with a normal thallium scan``)::

    sex: {levels: {0: female, 1: male}, phrases: {0: women, 1: men}}
    thal: {levels: {3: normal, 7: defect}, phrases: {3: with a normal thallium scan, 7: with a thallium defect}}

A column without an entry has no description and may have any value of its kind.

Follow-up columns are recorded for past cases but not compared (`bayespatch.follow_up`). Their role is ``follow-up`` or
``treatment``; a time to an event also names the column with the event::

    therapy: {role: treatment}
    stay: {role: follow-up, unit: days}
    days: {role: follow-up, event: died}
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from os import PathLike, fspath
from typing import TYPE_CHECKING, Literal, cast

from bayespatch.decisions import check_texts
from bayespatch.types import JSONObject
from bayespatch.validation import remedy

if TYPE_CHECKING:  # importing these takes a second, which would delay shell completion
    from bayespatch.encode.table import DataFrame, Series
    from bayespatch.follow_up import KindOf

ValueKind = Literal["number", "text", "boolean", "any"]  # "any" until the kind is inferred from values
Value = str | bool | int | float | None

KINDS: tuple[ValueKind, ...] = ("number", "text", "boolean", "any")
MOST_TEXT = 10_000  # characters; longer text is a document, not a value
_DEEPEST = 10  # levels of a dictionary's file
_LARGEST = 1e25  # the largest number that can be coded
_PARTS = (
    *("label", "kind", "unit", "levels", "phrases", "usual", "possible", "coarse"),
    *("identifier", "sensitive", "fixed", "role", "event", "threshold", "cost"),
)
_TEXTS = ("label", "unit", "role", "event", "threshold", "cost")
_ROLES = ("", "follow-up", "treatment")
_YES, _NO = ("yes", "true", "1", "x"), ("", "no", "false", "0")


class DictionaryError(ValueError):
    """A value, or the dictionary itself, is invalid; the message names column, value and remedy."""


@dataclass(frozen=True)
class Entry:
    """Description of one column.

    Attributes
    ----------
    name : str
    kind : {"number", "text", "boolean", "any"}
        "any" if not specified, until `Dictionary.completed` has seen values.
    label, unit : str
        Label and unit of the column; may be empty.
    levels : tuple of (value, label) pairs
        The allowed values and their labels; empty: any value.
    phrases : tuple of (value, phrase) pairs
        Phrases for patients with a value in sentences: "men", "with a normal thallium scan".
    usual : pair of numbers, or None
        A number outside it is accepted with a warning.
    possible : pair of numbers, or None
        A number outside it is rejected.
    coarse : float or None
        Width of the ranges that viewers see instead of the numbers.
    identifier : bool
        Whether it identifies the patient and is not a feature.
    sensitive : bool
        Whether it is hidden from viewers.
    fixed : bool
        Whether it cannot change, such as age or sex: counterfactuals keep it, unless requested.
    role : {"", "follow-up", "treatment"}
        "" for a feature; otherwise the column is recorded for past cases but not compared.
    event : str
        For a time: the column that is 1 if the event happened and 0 if follow-up ended without it.
    threshold, cost : str
        For an outcome: the threshold at which a class is flagged (0.2; for a specific class: sick=0.2), or the costs of
        a missed case and of a false alarm, such as 10:1 (`decisions.read_decision`).
    """

    name: str
    kind: ValueKind = "any"
    label: str = ""
    unit: str = ""
    levels: tuple[tuple[Value, str], ...] = ()
    phrases: tuple[tuple[Value, str], ...] = ()
    usual: tuple[float, float] | None = None
    possible: tuple[float, float] | None = None
    coarse: float | None = None
    identifier: bool = False
    sensitive: bool = False
    fixed: bool = False
    role: str = ""
    event: str = ""
    threshold: str = ""
    cost: str = ""

    def __post_init__(self) -> None:
        for complaint in _complaints(self):
            raise DictionaryError(f"data dictionary, column {self.name!r}: {complaint}")

    @property
    def labels(self) -> dict[Value, str]:
        """Value -> label."""
        return dict(self.levels)

    def check(self, value: object, where: str = "") -> Value:
        """The stored value: a number, string, boolean, or None if missing.

        Examples
        --------
        >>> pain = Entry("cp", "number", levels=((1, "typical"), (4, "asymptomatic")))
        >>> pain.check(4.0), pain.check("asymptomatic"), pain.check(float("nan"))
        (4, 4, None)
        >>> pain.check(7)
        Traceback (most recent call last):
        ...
        bayespatch.dictionary.DictionaryError: column 'cp': 7 is not one of its values; pass one of 1 (typical), \
4 (asymptomatic)
        """
        plain = plain_value(value, self.name, where)
        if plain is None:
            return None
        if self.levels:
            for level, label in self.levels:
                if plain == label or (plain == level and isinstance(plain, bool) == isinstance(level, bool)):
                    return level
            names = [name for level in self.levels for name in level]
            meant = remedy(str(plain), names, f"pass one of {self._levels_text()}")
            raise self._refuse(value, f"is not one of its values; {meant}", where)
        if self.kind == "number":
            if isinstance(plain, bool | str):
                raise self._refuse(value, "is not a number; pass a number, or null if it is unknown", where)
            if self.possible is not None and not self.possible[0] <= plain <= self.possible[1]:
                low, high = map(_number_text, self.possible)
                raise self._refuse(value, f"is outside the possible range, {low} to {high}; correct it", where)
        elif self.kind == "boolean":
            if not isinstance(plain, bool):
                raise self._refuse(value, "is neither true nor false; pass one of them", where)
        elif self.kind == "text" and not isinstance(plain, str):
            raise self._refuse(value, "is not text; put it in quotes", where)
        return plain

    def text(self, value: Value) -> str:
        """A value as text for people.

        Examples
        --------
        >>> Entry("age", "number", unit="years").text(61), Entry("smokes", "boolean").text(True)
        ('61 years', 'yes')
        """
        if value is None:
            return "not known"
        if self.levels:
            return self.labels[value]
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str):
            return value
        return f"{_number_text(value)} {self.unit}".rstrip()

    def coarse_text(self, value: Value) -> str:
        """A value for display to viewers, as a range.

        Examples
        --------
        >>> Entry("age", "number", coarse=10.0).coarse_text(61)
        '60 to 70'
        >>> Entry("town", "text", sensitive=True).coarse_text("Ulm")
        'withheld'
        """
        if self.sensitive:
            return "withheld"
        if self.coarse is None or value is None or isinstance(value, bool | str):
            return self.text(value)
        low = math.floor(value / self.coarse) * self.coarse
        return f"{_number_text(low)} to {_number_text(low + self.coarse)} {self.unit}".rstrip()

    def to_dict(self) -> JSONObject:
        """Plain data, ready for JSON."""
        plain: JSONObject = {part.name: getattr(self, part.name) for part in fields(self)[1:]}
        plain |= {part: list(map(list, plain[part])) for part in ("levels", "phrases")}
        return plain | {part: plain[part] and list(plain[part]) for part in ("usual", "possible")}

    def _levels_text(self) -> str:
        shown = [f"{value!r} ({label})" if label != str(value) else repr(value) for value, label in self.levels[:12]]
        return ", ".join(shown) + (" and others" if len(self.levels) > 12 else "")

    def _refuse(self, value: object, wrong: str, where: str) -> DictionaryError:
        return DictionaryError(f"{where}column {self.name!r}: {_shown(value)} {wrong}")


@dataclass(frozen=True)
class Dictionary:
    """Descriptions of the columns of a table, in order.

    Examples
    --------
    >>> dictionary = Dictionary.from_dict({"age": {"kind": "number", "usual": [30, 80]}, "pain": {"kind": "text"}})
    >>> dictionary.check_row({"pain": "none", "age": 91.0})
    {'age': 91, 'pain': 'none'}
    """

    entries: Mapping[str, Entry] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Dictionary:
        r"""Read a CSV, YAML or JSON file, according to its extension.

        Examples
        --------
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "dictionary.csv")
        ...     with open(path, "w") as file:
        ...         _ = file.write("name,kind,unit,usual\nage,number,years,30..80\n")
        ...     Dictionary.read(path)["age"].usual
        (30.0, 80.0)
        """
        name = fspath(path)
        try:
            with open(name, encoding="utf-8-sig", newline="") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise DictionaryError(f"data dictionary {name!r}: cannot be read ({error}); correct the path") from error
        ending = name.lower().rpartition(".")[2]
        parsers = {"csv": _from_csv, "json": _from_json, "yaml": _from_yaml, "yml": _from_yaml}
        if ending not in parsers:
            raise DictionaryError(f"data dictionary {name!r}: pass a file that ends in .csv, .yaml or .json")
        try:
            return cls.from_dict(parsers[ending](name, text))
        except DictionaryError:
            raise
        except RecursionError as error:
            raise DictionaryError(f"data dictionary {name!r}: is nested too deeply; correct it") from error
        except (csv.Error, AttributeError, LookupError, ValueError) as error:  # YAML's tags raise any of these
            kind, reason = ending.upper().replace("YML", "YAML"), " ".join(str(error).split())
            raise DictionaryError(f"data dictionary {name!r}: is not {kind} ({reason}); correct it") from error

    @classmethod
    def from_dict(cls, data: object) -> Dictionary:
        """A dictionary from plain data, such as the content of a JSON or YAML file or the result of `to_dict`."""
        if not isinstance(data, Mapping) or not data:
            raise DictionaryError("data dictionary: is empty, or is not a mapping; pass a description for each column")
        return cls({str(name): _entry(str(name), description) for name, description in data.items()})

    @classmethod
    def infer(cls, names: Sequence[str], rows: Iterable[Sequence[object]]) -> Dictionary:
        """Infer the kind of each column from its values.

        Examples
        --------
        >>> Dictionary.infer(["age", "pain"], [[61, "none"], [None, "some"]])["age"].kind
        'number'
        """
        kinds: list[dict[ValueKind, Value]] = [{} for _ in names]
        for number, row in enumerate(rows, start=1):
            for name, examples_by_kind, value in zip(names, kinds, row, strict=True):
                plain = plain_value(value, name, f"row {number}, ")
                if plain is not None:
                    examples_by_kind.setdefault(_kind_of(plain), plain)
        entries = {}
        for name, examples_by_kind in zip(names, kinds, strict=True):
            if len(examples_by_kind) > 1:
                examples = " and ".join(_shown(value) for value in list(examples_by_kind.values())[:2])
                raise DictionaryError(
                    f"column {name!r}: mixes values of different kinds, such as {examples}; use one kind"
                )
            if not examples_by_kind:
                raise DictionaryError(
                    f"column {name!r}: has only missing values; remove it, or describe it in the dictionary"
                )
            entries[name] = Entry(name, next(iter(examples_by_kind)))
        return cls(entries)

    def completed(self, names: Sequence[str], rows: Sequence[Sequence[object]]) -> Dictionary:
        """Complete the dictionary with the other columns of a table, inferred from their values."""
        absent = [name for name in self.names if name not in names and not self[name].identifier]
        if absent:
            raise DictionaryError(
                f"the data dictionary describes column {absent[0]!r}, which the table does not have; "
                f"{_meant(absent[0], names)}"
            )
        missing = [j for j, name in enumerate(names) if name not in self or self[name].kind == "any"]
        inferred = Dictionary.infer([names[j] for j in missing], ([row[j] for j in missing] for row in rows))
        return Dictionary(
            {
                name: replace(self.entries.get(name, Entry(name)), kind=inferred[name].kind)
                if name in inferred
                else self[name]
                for name in names
            }
        )

    def to_dict(self) -> JSONObject:
        """JSON-ready data; `from_dict` restores the dictionary from them."""
        return {name: entry.to_dict() for name, entry in self.entries.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(self.entries)

    def __getitem__(self, name: str) -> Entry:
        if name not in self.entries:
            raise DictionaryError(f"there is no column {_shown(name)}; {_meant(name, self.names)}")
        return self.entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def only(self, names: Iterable[str]) -> Dictionary:
        """The entries of some columns."""
        return Dictionary({name: self[name] for name in names})

    def check_row(self, values: Mapping[str, object], where: str = "") -> dict[str, Value]:
        """The stored values of one case, one for each column; invalid ones raise a DictionaryError."""
        if not isinstance(values, Mapping):
            raise DictionaryError(
                f"{where}{_shown(values)} is not a case; pass values by column, such as {{'age': 61}}"
            )
        unknown = [str(name) for name in values if name not in self.entries]
        if unknown:
            raise DictionaryError(f"{where}there is no column {_shown(unknown[0])}; {_meant(unknown[0], self.names)}")
        absent = [name for name in self.entries if name not in values]
        if absent:
            raise DictionaryError(f"{where}column {absent[0]!r} has no value; pass a value, or null if it is unknown")
        return {name: entry.check(values[name], where) for name, entry in self.entries.items()}

    def describe(self, X: DataFrame, y: Series | None = None) -> tuple[DataFrame, Series | None]:
        """The same features and outcomes with the labels of the dictionary, for an estimator.

        Labels, units and usual ranges are added to ``X.attrs`` and ``y.attrs``, from which `fit` reads them.

        Parameters
        ----------
        X : pandas data frame
            Features. Every described column except identifiers is checked: values must be among the levels and within
            the possible range.
        y : pandas Series, optional
            Outcomes, described by the entry with the name of the series.

        Examples
        --------
        >>> import pandas
        >>> dictionary = Dictionary.from_dict({"cp": {"label": "chest pain", "levels": {1: "typical", 4: "none"}}})
        >>> X, _ = dictionary.describe(pandas.DataFrame({"cp": [1, 4, 4]}))
        >>> X.attrs["descriptions"], X.attrs["labels"]
        ({'cp': 'chest pain'}, {'cp': {1: 'typical', 4: 'none'}})
        """
        described = [name for name in map(str, X.columns) if name in self.entries]
        for name in described:
            _check_column(self.entries[name], X[name])
        part = self.only(described)
        X = X.copy(deep=False)
        X.attrs |= {
            "labels": {name: entry.labels for name, entry in part.entries.items() if entry.levels},
            "phrases": {name: dict(entry.phrases) for name, entry in part.entries.items() if entry.phrases},
            "descriptions": {name: entry.label for name, entry in part.entries.items() if entry.label},
            "units": {name: entry.unit for name, entry in part.entries.items() if entry.unit},
            "usual": {name: entry.usual for name, entry in part.entries.items() if entry.usual is not None},
        }
        if y is None or str(y.name) not in self.entries:
            return X, y
        entry = self.entries[str(y.name)]
        _check_column(entry, y)
        y = y.copy(deep=False)
        y.attrs |= {"labels": entry.labels, "description": entry.label or entry.name, "unit": entry.unit}
        y.attrs |= {part: text for part in ("threshold", "cost") if (text := getattr(entry, part))}
        return X, y

    def to_csv(self) -> str:
        """The dictionary as CSV text that `read` accepts.

        Examples
        --------
        >>> dictionary = Dictionary.from_dict({"cp": {"label": "chest pain", "levels": {1: "typical", 4: "none"}}})
        >>> print(dictionary.to_csv(), end="")
        name,label,kind,unit,levels,phrases,usual,possible,coarse,identifier,sensitive,fixed,role,event,threshold,cost
        cp,chest pain,number,,1=typical;4=none,,,,,,,,,,,
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("name", *_PARTS))
        for entry in self.entries.values():
            levels, phrases = _pairs_text(entry.name, entry.levels), _pairs_text(entry.name, entry.phrases)
            spans = [
                "" if span is None else "..".join(map(_number_text, span)) for span in (entry.usual, entry.possible)
            ]
            flags = ["yes" if flag else "" for flag in (entry.identifier, entry.sensitive, entry.fixed)]
            kind = "" if entry.kind == "any" else entry.kind
            coarse = "" if entry.coarse is None else _number_text(entry.coarse)
            described = [entry.name, entry.label, kind, entry.unit, levels, phrases, *spans, coarse]
            writer.writerow([*described, *flags, entry.role, entry.event, entry.threshold, entry.cost])
        return text.getvalue()

    @property
    def follow_up(self) -> dict[str, KindOf]:
        """Follow-up columns and their kinds, for `fit`.

        Examples
        --------
        >>> parts = {"drug": {"role": "treatment"}, "days": {"role": "follow-up", "event": "died"}, "age": {}}
        >>> Dictionary.from_dict(parts).follow_up
        {'drug': 'treatment', 'days': ('time', 'died')}
        """
        kinds: dict[str, KindOf] = {}
        for name, entry in self.entries.items():
            if entry.role:
                kinds[name] = ("time", entry.event) if entry.event else None
            if entry.role == "treatment":
                kinds[name] = "treatment"
        return kinds

    @property
    def measured(self) -> dict[str, str]:
        """Numeric columns without levels -> their units, which may be empty."""
        return {name: entry.unit for name, entry in self.entries.items() if entry.kind == "number" and not entry.levels}


def _check_column(entry: Entry, column: Series) -> None:
    """Check that the entry allows every value of a table column."""
    if entry.levels or entry.possible is not None or entry.kind != "any":
        first = column.drop_duplicates()
        for place, value in zip(first.index.tolist(), first.tolist(), strict=True):
            entry.check(value, f"row {place}, ")


def plain_value(value: object, name: str, where: str = "") -> Value:
    """Convert a value for JSON: whole numbers to integers, NaN and other missing values to None.

    Examples
    --------
    >>> plain_value(61.0, "age"), plain_value(float("nan"), "age"), plain_value("none", "pain")
    (61, None, 'none')
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, str):
        text = str(value)
        if len(text) > MOST_TEXT:
            raise DictionaryError(f"{where}column {name!r}: text of {len(text)} characters is too long; shorten it")
        if "\0" in text or any("\ud800" <= mark <= "\udfff" for mark in text):
            raise DictionaryError(
                f"{where}column {name!r}: the text contains NUL or half of a surrogate pair; remove it"
            )
        return text
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    if isinstance(value, Integral):
        number: float | int = int(value)
    elif isinstance(value, Real):
        number = float(value)
        if math.isnan(number):
            return None
        if number.is_integer() and abs(number) < 2**53:
            number = int(number)
    else:
        raise DictionaryError(
            f"{where}column {name!r}: {_shown(value)} is not a number, text, true or false; convert it "
            f"(a date, for instance, into an age in years)"
        )
    if not abs(number) <= _LARGEST:
        raise DictionaryError(f"{where}column {name!r}: {_shown(value)} is too large to be a measurement; correct it")
    return number


def _kind_of(value: Value) -> ValueKind:
    if isinstance(value, bool):
        return "boolean"
    return "text" if isinstance(value, str) else "number"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _number_text(number: float) -> str:
    return f"{number:g}" if number == float(f"{number:g}") else repr(number)


def _level_text(value: Value) -> str:
    return _number_text(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _pairs_text(name: str, pairs: Sequence[tuple[Value, str]]) -> str:
    """Values and their labels as a CSV cell: ``1=typical;4=none``."""
    texts = [_level_text(value) for value, _ in pairs]
    cells = [text if other == text else f"{text}={other}" for text, (_, other) in zip(texts, pairs, strict=True)]
    if any(";" in cell for cell in cells) or any("=" in text for text in texts):
        raise DictionaryError(
            f"data dictionary, column {name!r}: a level or phrase with ; or = in it cannot be written as CSV; write "
            f"JSON"
        )
    return ";".join(cells)


def _meant(name: str, names: Sequence[str]) -> str:
    return remedy(name[:100], names, f"the columns are {', '.join(map(repr, names))}")


def _complaints(entry: Entry) -> list[str]:
    """The errors in an entry."""
    if not entry.name or any(mark in entry.name for mark in '"\0\n'):
        return ["a name must not be empty or contain a quotation mark or line break; rename it"]
    if entry.kind not in KINDS:
        return [f"kind {entry.kind!r} is not known; choose one of {', '.join(KINDS)}"]
    complaints = []
    for value, _ in entry.levels:
        if value is None or (entry.kind != "any" and _kind_of(value) != entry.kind):
            complaints.append(f"level {value!r} is not of kind {entry.kind}; correct the level or the kind")
    values = [value for value, _ in entry.levels]
    if len(set(map(repr, values))) < len(values):
        complaints.append("a level occurs twice; keep one")
    if len({label for _, label in entry.levels}) < len(values):
        complaints.append("two levels have the same label; labels must differ")
    for value, phrase in entry.phrases:
        if values and value not in values:
            complaints.append(f"there is a phrase for {value!r}, which is not a level; correct one of them")
        if not phrase.strip():
            complaints.append(f"the phrase for {value!r} is empty; write one, or remove it")
    for name, span in {"usual": entry.usual, "possible": entry.possible}.items():
        if span is not None and entry.kind not in ("number", "any"):
            complaints.append(f"only a number has a range, but the kind is {entry.kind}; remove {name}")
        if span is not None and not span[0] <= span[1]:
            complaints.append(f"{name} is not a range from low to high; correct it")
    if entry.role not in _ROLES:
        complaints.append(
            f"role {entry.role!r} is not known; choose follow-up or treatment, or remove it for a feature"
        )
    if entry.event and entry.role != "follow-up":
        complaints.append("an event belongs to a time with the role follow-up; add the role, or remove the event")
    if (wrong := check_texts(entry.threshold, entry.cost)) is not None:
        complaints.append(wrong)
    if entry.role and entry.identifier:
        complaints.append("an identifier has no role; remove one of them")
    if entry.coarse is not None and (entry.kind not in ("number", "any") or entry.levels or not entry.coarse > 0):
        complaints.append(
            "coarse is the width of the ranges in which a number is shown; pass a number above 0, or remove it"
        )
    return complaints


def _entry(name: str, description: object) -> Entry:
    """One column, from plain data."""
    description = {} if description is None else description
    if not isinstance(description, Mapping):
        raise DictionaryError(
            f"data dictionary, column {name!r}: {_shown(description)} is not a description; pass a mapping"
        )
    unknown = [str(part) for part in description if part not in _PARTS]
    if unknown:
        raise DictionaryError(
            f"data dictionary, column {name!r}: {unknown[0]!r} is not a known key; the keys are {', '.join(_PARTS)}"
        )
    levels = _pairs(name, "levels", description.get("levels"))
    parts: JSONObject = {part: _span(name, part, description.get(part)) for part in ("usual", "possible")}
    kind = description.get("kind")
    if not kind:
        kind = "number" if any(parts.values()) or description.get("unit") else "any"
        kind = _kind_of(levels[0][0]) if levels else kind
    parts |= {part: _flag(name, part, description.get(part)) for part in ("identifier", "sensitive", "fixed")}
    parts |= {part: _text(name, part, description.get(part)) for part in _TEXTS}
    return Entry(
        name=name,
        kind=cast("ValueKind", kind),  # which Entry checks
        levels=levels,
        phrases=_pairs(name, "phrases", description.get("phrases")),
        coarse=_width(name, description.get("coarse")),
        **parts,
    )


def _pairs(name: str, part: str, given: object) -> tuple[tuple[Value, str], ...]:
    if given is None or given == "":
        return ()
    pairs: list[tuple[object, object]]
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif isinstance(given, list | tuple):
        pairs = [(one[0], one[1]) if isinstance(one, list | tuple) and len(one) == 2 else (one, one) for one in given]
    else:
        raise DictionaryError(
            f"data dictionary, column {name!r}: {part} {_shown(given)} are not a list; pass value: label"
        )
    return tuple((plain_value(value, name), str(value if label is None else label)) for value, label in pairs)


def _span(name: str, part: str, given: object) -> tuple[float, float] | None:
    if given is None or given == "":
        return None
    try:
        low, high = (float(end) for end in cast("Iterable[float]", given))
        span = low, high
        if all(math.isfinite(end) for end in span):
            return span
    except (TypeError, ValueError):
        pass
    raise DictionaryError(f"data dictionary, column {name!r}: {part} {_shown(given)} is not a range; pass [low, high]")


def _width(name: str, given: object) -> float | None:
    if given is None or given == "":
        return None
    try:
        width = float(cast("float", given))
    except (TypeError, ValueError):
        width = math.nan
    if not math.isfinite(width):
        raise DictionaryError(f"data dictionary, column {name!r}: coarse {_shown(given)} is not a width; pass a number")
    return width


def _text(name: str, part: str, given: object) -> str:
    if given is None:
        return ""
    if isinstance(given, Mapping | list | tuple):
        raise DictionaryError(f"data dictionary, column {name!r}: {part} {_shown(given)} is not text; pass text")
    return str(given)


def _flag(name: str, part: str, given: object) -> bool:
    text = "" if given is None else str(given).strip().lower()
    if text in _YES or text in _NO:
        return text in _YES
    raise DictionaryError(f"data dictionary, column {name!r}: {part} {_shown(given)} is neither yes nor no; correct it")


def _from_csv(path: str, text: str) -> JSONObject:
    """The rows of a CSV file as the mapping that a JSON file would have."""
    rows = list(csv.DictReader(io.StringIO(text)))
    if not rows or "name" not in rows[0]:
        raise DictionaryError(f"data dictionary {path!r}: needs a column 'name' and a row for each column of the table")
    descriptions: JSONObject = {}
    for row in rows:
        name = (row.pop("name") or "").strip()
        if name in descriptions:
            raise DictionaryError(f"data dictionary {path!r}: column {name!r} occurs twice; keep one")
        description: JSONObject = {part.strip(): (cell or "").strip() for part, cell in row.items() if part is not None}
        kind = description.get("kind")
        for part in ("levels", "phrases"):
            if description.get(part):
                pairs = [one.partition("=") for one in description[part].split(";") if one.strip()]
                description[part] = [
                    [_level_of(value.strip(), kind), (label or value).strip()] for value, _, label in pairs
                ]
        for part in ("usual", "possible"):
            if description.get(part):
                description[part] = description[part].split("..")
        descriptions[name] = description
    return descriptions


def _from_json(_: str, text: str) -> object:
    """Parse JSON, whose keys are all strings: levels that look like numbers become numbers if the kind allows it."""
    data = json.loads(text)
    for description in data.values() if isinstance(data, dict) else ():
        for part in ("levels", "phrases") if isinstance(description, dict) else ():
            if isinstance(description.get(part), dict):
                kind = description.get("kind")
                description[part] = [[_level_of(value, kind), text] for value, text in description[part].items()]
    return data


def _level_of(text: str, kind: str | None) -> Value:
    """Convert a level to the kind of its column; without a kind, text that looks like a number becomes a number."""
    if kind == "boolean":
        return text.lower() in _YES
    if kind in (None, "", "number"):
        try:
            return plain_value(float(text), "levels")
        except ValueError:
            pass
    return text


def _from_yaml(path: str, text: str) -> object:
    try:
        import yaml
    except ImportError as error:
        raise ImportError('a dictionary in YAML needs PyYAML: pip install "bayespatch[casebase]"') from error
    try:
        depth = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):  # a few lines of aliases can expand beyond any memory
                raise DictionaryError(f"data dictionary {path!r}: has an alias (*name); write out the value")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise DictionaryError(f"data dictionary {path!r}: is nested too deeply; correct it")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise DictionaryError(f"data dictionary {path!r}: is not YAML ({reason}); correct it") from error
