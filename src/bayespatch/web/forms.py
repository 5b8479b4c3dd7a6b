"""The form of a case, generated from the data dictionary, and the entered values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from bayespatch import language
from bayespatch.dictionary import Dictionary, DictionaryError, Entry, Value
from bayespatch.language import decimal, gettext, stored_text, stored_value
from bayespatch.types import JSONMapping

MOST_BUTTONS = 4  # maximum number of choices shown as buttons; more are shown as a list
NOT_KNOWN = ""  # value of an unknown answer in the form


@dataclass(frozen=True)
class Choice:
    """One choice of a field."""

    key: str
    label: str


@dataclass(frozen=True)
class Field:
    """One field of the form.

    Attributes
    ----------
    name, key : str
        The column, and its key in the form.
    label, unit, hint, usual : str
        `hint` has the usual range in words, `usual` in figures.
    kind : {"buttons", "list", "number", "text"}
    choices : tuple of Choice
    value : str
        The entered value.
    problem : str
        The error message; may be empty.
    """

    name: str
    key: str
    label: str
    unit: str
    hint: str
    usual: str
    kind: str
    choices: tuple[Choice, ...]
    value: str = NOT_KNOWN
    problem: str = ""


def key_of(name: str, prefix: str = "v") -> str:
    """The key of a column in the form, which is unique among all fields."""
    return f"{prefix}:{name}"


def fields(dictionary: Dictionary, filled: Mapping[str, str], problems: Mapping[str, str]) -> list[Field]:
    """The form with entered values and error messages, each by column."""
    return [_field(e, filled.get(name, NOT_KNOWN), problems.get(name, "")) for name, e in dictionary.entries.items()]


def _field(entry: Entry, value: str, problem: str) -> Field:
    choices = tuple(Choice(_key(level), stored_value(label)) for level, label in entry.levels)
    if entry.kind == "boolean" and not choices:
        choices = (Choice("true", stored_value("yes")), Choice("false", stored_value("no")))
    kind = "number" if entry.kind == "number" else "text"
    if choices:
        short = len(choices) <= MOST_BUTTONS and all(len(choice.label) <= 24 for choice in choices)
        kind = "buttons" if short else "list"
    hint = usual = ""
    if entry.usual is not None and kind == "number":
        low, high = (decimal(f"{end:g}") for end in entry.usual)
        hint, usual = gettext("usually {low} to {high}", low=low, high=high), f"{low}–{high}"
    label = entry.label or entry.name
    return Field(entry.name, key_of(entry.name), label, entry.unit, hint, usual, kind, choices, value, problem)


def filled(dictionary: Dictionary, values: Mapping[str, Value]) -> dict[str, str]:
    """Values as displayed in the form."""
    return {name: _shown(entry, values.get(name)) for name, entry in dictionary.entries.items()}


def sent(dictionary: Dictionary, form: JSONMapping, prefix: str = "v") -> dict[str, str]:
    """The values of a form, by column; columns that are not in the form are unknown."""
    return {name: str(form.get(key_of(name, prefix), NOT_KNOWN)).strip() for name in dictionary.names}


def given(dictionary: Dictionary, form: JSONMapping, prefix: str) -> dict[str, str]:
    """Entries of the form under a prefix, by column."""
    return {name: str(form[key]).strip() for name in dictionary.names if (key := key_of(name, prefix)) in form}


def read(dictionary: Dictionary, texts: Mapping[str, str]) -> tuple[dict[str, Value], dict[str, str]]:
    """The values that were filled in, and an error message for each invalid column.

    Examples
    --------
    >>> dictionary = Dictionary.from_dict({"age": {"kind": "number", "possible": [0, 120]}, "sex": {"levels": [0, 1]}})
    >>> read(dictionary, {"age": "61,5", "sex": "1"})
    ({'age': 61.5, 'sex': 1}, {})
    >>> read(dictionary, {"age": "610", "sex": ""})
    ({'sex': None}, {'age': '610 is outside the possible range, 0 to 120; correct it'})
    """
    values: dict[str, Value] = {}
    problems: dict[str, str] = {}
    for name, entry in dictionary.entries.items():
        if entry.kind == "number" and not entry.levels and is_ambiguous(texts.get(name, NOT_KNOWN)):
            problems[name] = gettext("{value} is ambiguous; write it without a thousands separator", value=texts[name])
            continue
        try:
            values[name] = entry.check(_value(entry, texts.get(name, NOT_KNOWN)))
        except DictionaryError as error:
            problems[name] = stored_text(str(error).removeprefix(f"column {name!r}: "))
    return values, problems


def _shown(entry: Entry, value: Value) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and not entry.levels
    return decimal(_key(value)) if is_number else _key(value)


def _key(value: Value) -> str:
    if value is None:
        return NOT_KNOWN
    return value if isinstance(value, str) else json.dumps(value)


def is_ambiguous(text: str) -> bool:
    """Whether a number may contain a thousands separator, which could be mistaken for a decimal point.

    Examples
    --------
    >>> is_ambiguous("1,234"), is_ambiguous("12,5"), is_ambiguous("1.234"), is_ambiguous("0,125")
    (True, False, False, False)
    """
    group = re.escape(language.current().group)
    return re.fullmatch(rf"-?[1-9]\d{{0,2}}({group}\d{{3}})+", text) is not None


def _value(entry: Entry, text: str) -> object:
    """Convert the text of a form field to a value, which the dictionary then checks."""
    if text == NOT_KNOWN:
        return None
    if entry.levels:
        return next((level for level, _ in entry.levels if _key(level) == text), text)
    if entry.kind == "boolean":
        return {"true": True, "false": False}.get(text, text)
    if entry.kind == "number":
        plain = text.replace(",", ".", 1) if text.count(",") == 1 and "." not in text else text
        try:
            number = float(plain) if "_" not in plain else math.nan
        except ValueError:
            return text
        if not math.isfinite(number):
            return text
        return int(number) if number.is_integer() else number
    return text
