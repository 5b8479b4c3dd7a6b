"""Any table in, plain columns out; what is neither text nor number is refused in plain words."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from bayespatch.encode.table import plain_values, read_table

NAN = float("nan")


def families(table) -> list[str]:
    return [column.family for column in read_table(table).columns]


def only(table):
    (column,) = read_table(table).columns
    return column


@pytest.mark.parametrize(
    ("values", "family"),
    [
        (pd.array([1, None, 3], dtype="Int64"), "number"),
        (pd.array([1.5, None, 3], dtype="Float64"), "number"),
        (pd.array([True, None, False], dtype="boolean"), "boolean"),
        (pd.Series([True, None, False], dtype=object), "boolean"),
        (pd.Series([1, None, Decimal("2.5")], dtype=object), "number"),
        (pd.Series(["a", NAN, "b"], dtype=object), "text"),
        (pd.array(["a", None, "b"], dtype="string"), "text"),
        (pd.Categorical(["a", None, "b"]), "text"),
        (pd.Categorical([1, None, 2]), "number"),
        (pl.Series([1, None, 2]), "number"),
        (pl.Series([1.0, None, NAN]), "number"),
        (pl.Series(["1.5", None, "2"]).cast(pl.Decimal(10, 2)), "number"),
        (pl.Series([True, None, False]), "boolean"),
        (pl.Series(["a", None, "b"]), "text"),
        (pl.Series(["a", None, "b"], dtype=pl.Categorical), "text"),
        (pl.Series(["a", None, "b"], dtype=pl.Enum(["b", "a"])), "text"),
    ],
)
def test_every_type_of_column_is_read_with_its_missing_values(values, family):
    frame = (pl if isinstance(values, pl.Series) else pd).DataFrame({"a": values})
    column = only(frame)
    assert column.family == family
    assert column.is_missing[1]
    assert not column.is_missing[0]


def test_lists_keep_numbers_beside_texts():
    assert families([[1, "a", True], [2.5, None, False]]) == ["number", "text", "boolean"]
    assert families(np.array([[1, "a"], [None, "b"]], dtype=object)) == ["number", "text"]
    assert families(np.zeros((2, 2), dtype=bool)) == ["boolean", "boolean"]
    assert read_table([[1, 2], [3, 4]]).names == ("x0", "x1")


def test_names_that_are_not_texts_become_texts():
    assert read_table(pd.DataFrame(np.zeros((2, 2)))).names == ("0", "1")


def test_declared_categories_are_kept_in_their_order():
    assert only(pd.DataFrame({"a": pd.Categorical([1, 2], categories=[5, 2, 1])})).declared == (5.0, 2.0, 1.0)
    enum = only(pl.DataFrame({"a": pl.Series(["x"], dtype=pl.Enum(["y", "x"]))}))
    assert enum.declared == ("y", "x")
    assert enum.ordered
    assert only(pl.DataFrame({"a": pl.Series(["x"], dtype=pl.Categorical)})).declared is None
    assert only(pd.DataFrame({"a": pd.Categorical([None, None], categories=["u"])})).texts == [None, None]


def test_plain_values_are_python_values():
    assert plain_values(only([[True], [None]])) == [True]
    assert type(plain_values(only([[1], [2]]))[0]) is float


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        (pd.DataFrame({"a": []}), "no rows"),
        (pd.DataFrame(index=[0, 1]), "no columns"),
        (np.zeros((0, 2)), "no rows"),
        (np.zeros((2, 0)), "no columns"),
        ([1, 2, 3], r"shape \(3,\).*Reshape your data"),
        (pd.Series([1, 2]), r"shape \(2,\)"),
        ([[1, 2], [3]], "all rows of equal length"),
        ({"a": [1]}, r"shape \(\)"),
        (sparse.eye(2), r"sparse.*toarray"),
        (pl.LazyFrame({"a": [1]}), "LazyFrame.*collect"),
        (pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"]), "more than one column is named 'a'"),
        (pd.DataFrame(np.zeros((2, 2)), columns=["1", 1]), "more than one column is named '1'"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), "column 'a' contains dates or times.*a year"),
        (pd.DataFrame({"a": pd.to_timedelta([1])}), "column 'a' contains dates or times"),
        (pd.DataFrame({"a": pd.Series([datetime.date(2020, 1, 1)], dtype=object)}), "dates or times"),
        (pl.DataFrame({"a": [datetime.date(2020, 1, 1)]}), "dates or times"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), "dates or times"),
        (pl.DataFrame({"a": [[1, 2]]}), "column 'a' holds List.*separate columns"),
        (pl.DataFrame({"a": [{"b": 1}]}), "column 'a' holds Struct"),
        (pd.DataFrame({"a": [[1], [2]]}), "column 'a' holds a value of type list"),
        (pd.DataFrame({"a": pd.cut([1, 2], 2)}), "type Interval.*to text"),
        (pd.DataFrame({"a": [{"b": 1}]}), "type dict"),
        (pd.DataFrame({"a": [b"x"]}), "type bytes"),
        (pd.DataFrame({"a": pd.Series(["x", 1], dtype=object)}), r"column 'a' mixes text \('x'\) and numbers \(1\)"),
        (pd.DataFrame({"a": pd.Series(["x", True], dtype=object)}), "mixes"),
        (np.array([[1j]]), "Complex data not supported"),
        (np.array([[1j], ["x"]], dtype=object), "Complex data not supported"),
        (np.array([[1.0], [np.inf]]), r"column 'x0' has 1 infinite \(inf\)"),
        (pl.DataFrame({"a": [1e26]}), "impossibly large"),
        (np.array([[10**400]], dtype=object), "a float cannot hold"),
    ],
)
def test_what_is_no_table_is_refused(table, complaint):
    with pytest.raises(ValueError, match=complaint):
        read_table(table)
