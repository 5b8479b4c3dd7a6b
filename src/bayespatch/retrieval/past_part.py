"""A part of the past cases: codes, original values and names, in memory or mapped from a file.

A file contains the arrays as safetensors. Mapped arrays are read from disk on access, so a process needs memory only
for the arrays that it uses: the codes for a vote, the values and names of a few past cases for an explanation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.persistence.atomic import ANOTHER_COPY, refuse
from bayespatch.persistence.mapped_arrays import map_arrays, write_arrays
from bayespatch.retrieval.index import CaseIndex
from bayespatch.types import AnyArray

Array = NDArray[np.float64]

_OF_INDEX = ("codes", "levels", "level_ends", "start", "rows", "columns", "reach")


class PastCases(NamedTuple):
    """Some of the past cases.

    Attributes
    ----------
    x : array of shape (k, P)
        Their codes.
    y : int array of shape (k,)
        Their classes.
    values : array of shape (k, P)
        Their original values, as in `EncodedTable.values`.
    ids : list of k strings, or None
        Their names.
    """

    x: Array
    y: NDArray[np.int64]
    values: Array
    ids: list[str] | None


class Names(NamedTuple):
    """Names of n past cases: the concatenated names in UTF-8, and the end of each."""

    letters: NDArray[np.uint8]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Names:
        """Store a sequence of strings.

        Examples
        --------
        >>> Names.of(["ab", "c"]).at(np.array([1, 0]))
        ['c', 'ab']
        """
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), ends)

    def places_of(self, text: str) -> NDArray[np.int64]:
        """Positions of this name.

        Examples
        --------
        >>> Names.of(["ab", "c", "b"]).places_of("b")
        array([2])
        """
        letters_of_text = np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)
        starts = np.append(0, self.ends)[:-1]
        places = np.flatnonzero(self.ends - starts == len(letters_of_text))
        letters = self.letters[starts[places, None] + np.arange(len(letters_of_text))]
        return places[(letters == letters_of_text).all(axis=1)]

    def at(self, places: NDArray[np.int64]) -> list[str]:
        """The names at some positions."""
        starts = np.where(places > 0, self.ends[places - 1], 0)
        ends = self.ends[places]
        return [
            self.letters[a:b].tobytes().decode("utf-8", "surrogatepass")
            for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
        ]


@dataclass(frozen=True, eq=False)
class PastPart:
    """A part of the past cases.

    Attributes
    ----------
    index : CaseIndex
        Their codes.
    own : CaseIndex or None
        Their original values, stored in the same way and order, without comparisons. None if only the codes are known.
    names : Names or None
        The name of each row of the part; None if the rows are numbered.
    """

    index: CaseIndex
    own: CaseIndex | None = None
    names: Names | None = None

    @classmethod
    def build(
        cls,
        x: Array,
        y: NDArray[np.int64],
        values: Array | None,
        ids: Sequence[str] | None,
        n_classes: int,
        windows: Sequence[Sequence[float]],
        has_missing: NDArray[np.bool_] | None = None,
    ) -> PastPart:
        """Build a part from coded rows, (n, P), with classes, (n,), original values, (n, P), and names."""
        index = CaseIndex.build(x, y, n_classes, windows, has_missing)
        nothing: list[tuple[float, ...]] = [()] * x.shape[1]
        no_comparison = np.zeros(x.shape[1], dtype=np.bool_)
        own = None if values is None else CaseIndex.build(values, y, n_classes, nothing, no_comparison)
        return cls(index, own, None if ids is None else Names.of(ids))

    def cases(self, rows: NDArray[np.int64]) -> PastCases:
        """The cases in k rows of the part."""
        places = self.index.positions()[rows]
        x = self.index.values(places)
        values = x if self.own is None else self.own.values(places)
        names = None if self.names is None else self.names.at(rows)
        return PastCases(x, self.index.classes[places], values, names)

    def rows_with(self, values: Array) -> NDArray[np.int64]:
        """Rows of the part with exactly these original values, (P,)."""
        stored = self.index if self.own is None else self.own
        same = np.ones(stored.n_cases, dtype=np.bool_)
        for codes, levels, value in zip(stored.codes, stored.levels, values.tolist(), strict=True):
            place = int(np.searchsorted(levels, value))
            if np.isnan(value):
                same &= codes == 0
            elif place < len(levels) and levels[place] == value:
                same &= codes == place + 1
            else:
                return np.empty(0, np.int64)
        return np.sort(stored.rows[same])

    # Files

    def write(self, path: str) -> str:
        """Write a file, which gets its final name once it is complete and on disk; returns its SHA-256."""
        arrays = _arrays_of(self.index, "index.")
        if self.own is not None:
            arrays |= _arrays_of(self.own, "own.")
        if self.names is not None:
            arrays |= {"names.letters": self.names.letters, "names.ends": self.names.ends}
        return write_arrays(path, arrays)

    @classmethod
    def read(cls, path: str) -> PastPart:
        """Map a file written by `write`; inconsistent content raises a StorageError."""
        try:
            arrays = map_arrays(path)
            names = None
            if "names.letters" in arrays:
                names = Names(arrays.pop("names.letters"), arrays.pop("names.ends"))
            own = _index_of(arrays, "own.") if "own.codes" in arrays else None
            part = cls(_index_of(arrays, "index."), own, names)
            if arrays:
                raise ValueError(f"unknown array {next(iter(arrays))!r}")
            part._check()
        except OSError as error:
            wrong = f"past cases cannot be read ({error.strerror or error})"
            raise refuse(path, wrong, "put the folder with the past cases back next to the model file") from error
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise refuse(path, f"this is not a file of past cases: {error}", ANOTHER_COPY) from error
        return part

    def _check(self) -> None:
        index, own, names, n = self.index, self.own, self.names, self.index.n_cases
        if own is not None and (own.n_cases != n or len(own.levels) != len(index.levels)):
            raise ValueError("codes and values belong to different cases")
        if own is not None and not (np.array_equal(own.rows, index.rows) and np.array_equal(own.start, index.start)):
            raise ValueError("codes and values are in different orders")
        if names is not None:
            ends = np.append(0, names.ends)
            if names.ends.shape != (n,) or np.any(np.diff(ends) < 0) or ends[-1] != len(names.letters):
                raise ValueError("the names overlap or have gaps")
            names.letters.tobytes().decode("utf-8", "surrogatepass")
            inner = names.ends[names.ends < len(names.letters)]
            if np.any(names.letters[inner] & 0xC0 == 0x80):
                raise ValueError("a name ends within a letter")


def _arrays_of(index: CaseIndex, prefix: str) -> dict[str, AnyArray]:
    ends = np.cumsum([len(values) for values in index.levels], dtype=np.int64)
    levels = np.concatenate([np.empty(0), *index.levels])
    parts = (index.codes, levels, ends, index.start, index.rows, index.columns, index.reach)
    return {prefix + name: part for name, part in zip(_OF_INDEX, parts, strict=True)}


def _index_of(arrays: dict[str, AnyArray], prefix: str) -> CaseIndex:
    codes, levels, ends, start, rows, columns, reach = (arrays.pop(prefix + name) for name in _OF_INDEX)
    n_features, n = codes.shape
    if (
        any(array.dtype != np.float64 or array.ndim != 1 for array in (levels, reach))
        or any(array.dtype != np.int64 or array.ndim != 1 for array in (ends, start, rows, columns))
        or codes.dtype.kind != "u"
    ):
        raise ValueError("arrays have unexpected types")
    if len(start) < 2 or start[0] != 0 or start[-1] != n or np.any(np.diff(start) < 0):
        raise ValueError("the classes overlap or have gaps")
    if len(rows) != n or (n and (rows.min() < 0 or rows.max() >= n or np.any(np.bincount(rows) != 1))):
        raise ValueError("the rows are not numbered from 0")
    if ends.shape != (n_features,) or np.any(np.diff(ends, prepend=0) < 0) or (n_features and ends[-1] != len(levels)):
        raise ValueError("the levels overlap or have gaps")
    if columns.shape != reach.shape or (len(columns) and (columns.min() < 0 or columns.max() >= n_features)):
        raise ValueError("a comparison uses a column that does not exist")
    by_column = tuple(np.split(levels, ends[:-1])) if n_features else ()
    for each, values in zip(codes, by_column, strict=True):
        if not np.all(np.isfinite(values)) or np.any(np.diff(values) <= 0):
            raise ValueError("the levels of a column are not increasing numbers")
        if n and int(each.max()) > len(values):
            raise ValueError("a code has no value")
    return CaseIndex(codes, by_column, start, rows, columns, reach)
