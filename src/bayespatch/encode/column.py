"""Conversion of the values of a column to codes, and back to the user's terms.

The model compares codes. The code of a categorical or ordinal value is its position in the list, and the code of a
binned number is its bin; these codes agree if they are equal. In a windowed column, numbers are their own codes and
agree if they differ by no more than the window. In a ranked column, the code of a number is its rank, and numbers agree
if their ranks differ by no more than the window.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bayespatch.encode.ranks import knot_of, n_rank_values, rank_codes, rank_complaints
from bayespatch.encode.table import LARGEST, Family, PlainColumn, Value, family_of
from bayespatch.types import JSONObject

ColumnKind = Literal["categorical", "ordinal", "binned", "windowed", "ranked"]
KINDS: tuple[ColumnKind, ...] = ("categorical", "ordinal", "binned", "windowed", "ranked")

MISSING, UNSEEN = "missing", "not seen before"  # text for codes without a value
MISSING_NUMBER = -1e30  # the code of a missing value under a window: far from every number, equal to itself


@dataclass(frozen=True)
class Column:
    """How a column is coded.

    Attributes
    ----------
    name : str
    kind : {"categorical", "ordinal", "binned", "windowed", "ranked"}
    family : {"text", "number", "boolean"}
        Type of the values in the training table.
    values : tuple
        Categorical and ordinal: the values of the codes 0, 1, ...
    labels : tuple of str
        Labels of these values, if given by the user.
    phrases : tuple of str
        Phrases for patients with these values ("men", "with a normal scan"), with an empty string for a value without a
        phrase. Empty if no value has a phrase.
    edges : tuple of float
        Binned: the edges between the bins, increasing; a number on an edge belongs to the bin above it.
    window : float
        Windowed and ranked: two codes agree if they differ by at most this much. Otherwise 0.
    low, high : float
        Windowed and ranked: the smallest and the largest number among the past cases.
    knots : tuple of float
        Ranked: quantiles of the past cases' numbers, in order; the rank of a number is its position among them.
    missing_is_value : bool
        Whether "missing" counts as an additional value because it occurred among the past cases.
    description : str
        Name of the column in sentences; if empty, `name` is used.
    unit : str
        Unit of the numbers; may be empty.
    usual : pair of floats, or empty
        The usual range of the numbers; numbers outside this range cause a warning.
    nested : tuple of float
        Ranked: additional windows for closed-form votes (`bayespatch.retrieval`).
    is_compared : bool
        Whether the column is used to compare cases. False if all rows of the training table, or all but one, have the
        same value, which makes the column uninformative.

    Examples
    --------
    >>> age = Column("age", "binned", "number", edges=(45.0, 55.0))
    >>> [age.decode(code) for code in (0, 1, 2)]
    ['under 45', '45-55', '55 or more']
    """

    name: str
    kind: ColumnKind
    family: Family
    values: tuple[Value, ...] = ()
    labels: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    window: float = 0.0
    low: float = 0.0
    high: float = 0.0
    missing_is_value: bool = False
    description: str = ""
    knots: tuple[float, ...] = ()
    unit: str = ""
    usual: tuple[float, ...] = ()
    nested: tuple[float, ...] = ()
    is_compared: bool = True
    phrases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for complaint in _complaints(self):
            raise ValueError(f"column {self.name!r}: {complaint}; learn the schema again from the table")

    @property
    def is_coded(self) -> bool:
        """Whether each value has its own code."""
        return self.kind in ("categorical", "ordinal")

    @property
    def has_window(self) -> bool:
        """Whether codes agree within a window, rather than only if they are equal."""
        return self.kind in ("windowed", "ranked")

    @property
    def keeps_numbers(self) -> bool:
        """Whether codes carry less information than the numbers, so that both are stored for past cases."""
        return self.kind in ("binned", "ranked")

    @property
    def rank_share(self) -> float:
        """Ranked: the largest percentage of the past cases between two values that agree."""
        return 100.0 * math.floor(self.window) / (2 * len(self.knots))

    @property
    def n_known(self) -> float:
        """Number of values, not counting "missing"."""
        if self.kind == "windowed":
            return max(1.0, (self.high - self.low) / (2.0 * self.window))
        if self.kind == "ranked":
            return n_rank_values(len(self.knots), self.window) if self.low < self.high else 1.0
        return float(len(self.values) if self.is_coded else len(self.edges) + 1)

    @property
    def n_values(self) -> float:
        """V_j: the number of values; with a window, range / (2 window) but at least 1."""
        return self.n_known + self.missing_is_value

    # Codes

    def encode(
        self, column: PlainColumn, ignored: NDArray[np.bool_] | bool
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The codes of a column of values, (n,), and whether each value is unseen, that is, agrees with no past case.

        `ignored`: the rows whose missing values are not compared.

        An unseen value has the code `n_values`, above all other codes; in a windowed column it is its own code. A
        ranked column has no unseen values: a number outside its range has the rank of the nearest number inside.
        """
        self._check_family(column)
        missing = column.is_missing
        unseen = np.zeros(len(missing), dtype=np.bool_)
        if missing.all():
            codes = np.zeros(len(missing))
        elif self.kind == "windowed":
            codes = column.numbers + 0.0
            unseen = (codes < self.low - self.window) | (codes > self.high + self.window)
        elif self.kind == "ranked":
            codes = rank_codes(self.knots, np.clip(column.numbers, self.low, self.high))
        elif self.kind == "binned":
            codes = np.searchsorted(self.edges, column.numbers, side="right").astype(np.float64)
        else:
            codes = self._code_of_values(column)
            unseen = codes < 0
            codes[unseen] = self.n_values
        left_out = missing & ignored
        codes[left_out], unseen[left_out] = np.nan, False
        counted = missing & ~left_out
        codes[counted], unseen[counted] = self.missing_code, not self.missing_is_value
        return codes, unseen

    @property
    def missing_code(self) -> float:
        """The code of a missing value: the last valid code, or the first code that matches no case."""
        return MISSING_NUMBER if self.has_window else self.n_known

    def _code_of_values(self, column: PlainColumn) -> NDArray[np.float64]:
        """The position of each value in the list, -1 if absent."""
        if self.family == "text":
            code_of: dict[object, int] = {value: code for code, value in enumerate(self.values)}
            return np.array([code_of.get(text, -1) for text in column.texts], dtype=np.float64)
        values = np.array(self.values, dtype=np.float64)
        order = np.argsort(values)
        place = np.minimum(np.searchsorted(values, column.numbers, sorter=order), len(values) - 1)
        return np.where(values[order[place]] == column.numbers, order[place], -1.0)

    def _check_family(self, column: PlainColumn) -> None:
        """Reject a column of another family; booleans count as the numbers 0 and 1."""
        if column.family == "none" or (column.family == "text") == (self.family == "text"):
            return
        raise ValueError(
            f"column {self.name!r} held {self.family} values in the training table and now holds "
            f"{column.family} values, such as {_example(column)}; convert it to the type it had"
        )

    # Words

    def decode(self, code: float) -> str:
        """The value, the bin, or a number of about the same rank that a code represents, in the user's terms."""
        number = float(code)
        if math.isnan(number) or (self.has_window and number == MISSING_NUMBER):
            return MISSING
        if self.kind == "windowed":
            return number_text(number)
        if self.kind == "ranked":
            return self._rank_text(number)
        if number == self.n_values:
            return UNSEEN
        if not (number.is_integer() and 0 <= number < self.n_values):
            raise ValueError(
                f"column {self.name!r} has no code {code!r}; its codes are the integers from 0 to "
                f"{self.n_values - 1:g}, and {self.n_values:g} for values not seen before"
            )
        if number == self.n_known:
            return MISSING
        return self._value_text(int(number)) if self.is_coded else bin_text(self.edges, int(number))

    def own_words(self, column: PlainColumn) -> list[str]:
        """The original values of a column as text: numbers instead of their bins."""
        if column.family == "text":
            texts = [MISSING if text is None else text for text in column.texts]
        else:
            texts = [self._own_number(number) for number in column.numbers.tolist()]
        if not self.labels:
            return texts
        codes, _ = self.encode(column, ignored=True)
        known = codes < len(self.values)  # false for NaN
        return [self.labels[int(codes[i])] if known[i] else text for i, text in enumerate(texts)]

    def own_value(self, value: float) -> str:
        """The text of an original value of a past case: the number itself, or the text of the code."""
        return self._own_number(value) if self.keeps_numbers else self.decode(value)

    def phrases_of_values(self) -> dict[str, str]:
        """Maps the text of a value to the phrase for patients with this value, if any.

        Examples
        --------
        >>> sex = Column("sex", "categorical", "number", (0.0, 1.0), ("female", "male"), phrases=("", "men"))
        >>> sex.phrases_of_values()
        {'male': 'men'}
        """
        return {self._value_text(code): phrase for code, phrase in enumerate(self.phrases) if phrase}

    def value_called(self, value: object) -> object:
        """The value for a label; anything else is returned unchanged."""
        return self.values[self.labels.index(value)] if value in self.labels and value not in self.values else value

    @property
    def called(self) -> str:
        """The name of the column for display."""
        return self.description or self.name

    def raw_value(self, value: float) -> Value | int | None:
        """An original value of a case (`EncodedTable.values`) as in the table; None if it is missing or unseen.

        Examples
        --------
        >>> pain = Column("cp", "ordinal", "number", (1.0, 4.0), ("typical", "asymptomatic"))
        >>> pain.own_value(1), pain.raw_value(1)
        ('asymptomatic', 4)
        """
        value = float(value)
        if math.isnan(value) or (self.has_window and value == MISSING_NUMBER):
            return None
        if self.is_coded:
            if not (value.is_integer() and 0 <= value < len(self.values)):
                return None
            raw: Value = self.values[int(value)]
        else:
            raw = value
        if isinstance(raw, float) and self.family == "boolean":
            return bool(raw)
        return int(raw) if isinstance(raw, float) and raw.is_integer() and abs(raw) < 2**53 else raw

    def _own_number(self, number: float) -> str:
        if math.isnan(number):
            return MISSING
        if self.family == "boolean" and number in (0.0, 1.0):
            return str(bool(number))
        return f"{number_text(number)} {self.unit}" if self.unit else number_text(number)

    def _value_text(self, code: int) -> str:
        if self.labels:
            return self.labels[code]
        value = self.values[code]
        return number_text(value) if isinstance(value, float) else str(value)

    def _rank_text(self, code: float) -> str:
        last = 2 * len(self.knots)
        if not (code.is_integer() and 0 <= code <= last):
            raise ValueError(f"column {self.name!r} has no code {code!r}; its codes are the integers from 0 to {last}")
        knot, is_its_own = knot_of(self.knots, int(code))
        return number_text(knot) if is_its_own else f"about {number_text(knot)}"

    # Storage

    def to_dict(self) -> JSONObject:
        """JSON-ready data; `from_dict` restores the column from them."""
        return {name: list(part) if isinstance(part, tuple) else part for name, part in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: object) -> Column:
        """The column from the result of `to_dict`; anything else is rejected."""
        if not isinstance(data, dict) or set(data) != {part.name for part in fields(cls)}:
            raise ValueError("a stored column has missing or unexpected keys; store the schema again")
        parts: JSONObject = {name: tuple(part) if isinstance(part, list) else part for name, part in data.items()}
        return cls(**parts)


def _complaints(column: Column) -> list[str]:
    """Errors in a column, most basic first."""
    if not all(isinstance(text, str) for text in (column.name, column.description, column.unit)):
        return ["its name, description or unit is not a string"]
    if column.kind not in KINDS or column.family not in ("text", "number", "boolean"):
        return [f"unknown kind {column.kind!r} of {column.family!r}"]
    lists = (column.values, column.labels, column.phrases, column.edges, column.knots, column.usual, column.nested)
    if not all(isinstance(part, tuple) for part in lists):
        return ["its values, labels, phrases, edges, knots or usual range are not lists"]
    if not all(isinstance(text, str) for text in (*column.labels, *column.phrases)) or not all(
        isinstance(flag, bool) for flag in (column.missing_is_value, column.is_compared)
    ):
        return [
            "its labels or phrases are not strings, or it does not state whether missing is a value and whether it is "
            "compared"
        ]
    numbers = (*column.edges, *column.knots, *column.usual, *column.nested, column.window, column.low, column.high)
    if not all(type(number) is float and abs(number) <= LARGEST for number in numbers):
        return ["its edges, knots, window or range are not finite numbers"]
    complaints = []
    if column.usual and (len(column.usual) != 2 or column.usual[0] > column.usual[1]):
        complaints.append("its usual range is not a low and a high number")
    if column.is_coded:
        if not column.values or any(type(value) not in (str, bool, float) for value in column.values):
            return ["it has no values, or some that are not strings, booleans or numbers"]
        if {family_of(value) for value in column.values} != {column.family} or len(set(column.values)) < len(
            column.values
        ):
            complaints.append("its values are not distinct values of one type")
        if not all(abs(value) <= LARGEST for value in column.values if isinstance(value, float)):
            complaints.append("its values are not finite")
        if {len(part) for part in (column.labels, column.phrases) if part} - {len(column.values)}:
            complaints.append("the number of labels or phrases differs from the number of values")
    elif column.family == "text" or column.values or column.labels or column.phrases:
        complaints.append("only categorical and ordinal columns have text, values, labels or phrases")
    if column.edges and column.kind != "binned":
        complaints.append("only binned columns have edges")
    if any(low >= high for low, high in pairwise(column.edges)):
        complaints.append("its edges do not increase")
    if column.has_window != (column.window > 0) or column.low > column.high:
        complaints.append("a window above 0 and a range are required for windowed and ranked columns only")
    if column.kind == "ranked":
        for window in (column.window, *column.nested):
            complaints += rank_complaints(column.knots, window, column.low, column.high)
    elif column.knots or column.nested:
        complaints.append("only ranked columns have knots or nested windows")
    return complaints


def _example(column: PlainColumn) -> str:
    if column.family == "text":
        return repr(next(text for text in column.texts if text is not None))
    return number_text(float(column.numbers[~np.isnan(column.numbers)][0]))


def number_text(number: float) -> str:
    """A number as exact text in its natural form: 3, not 3.0.

    >>> number_text(3.0), number_text(0.1)
    ('3', '0.1')
    """
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(float(number))


def bin_text(edges: tuple[float, ...], code: int) -> str:
    """A bin as text. Edges are rounded to six digits if they remain distinct.

    >>> [bin_text((0.0, 1.5), code) for code in (0, 1, 2)]
    ['under 0', '0-1.5', '1.5 or more']
    >>> bin_text((-2.0, -1.0), 1)
    '-2 to -1'
    """
    if not edges:
        return "any value"
    texts = [number_text(float(f"{edge:.6g}")) for edge in edges]
    if len(set(texts)) < len(texts):
        texts = [number_text(edge) for edge in edges]
    if code == 0:
        return f"under {texts[0]}"
    if code == len(edges):
        return f"{texts[-1]} or more"
    between = " to " if edges[code - 1] < 0 or "e" in texts[code - 1] + texts[code] else "-"
    return f"{texts[code - 1]}{between}{texts[code]}"
