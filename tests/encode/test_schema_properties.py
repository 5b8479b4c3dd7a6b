"""Properties of any table: what is coded comes back, however the columns are mixed."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayespatch.encode import EncodedTable, Schema

NAN = float("nan")

TEXTS = st.sampled_from(["a", "b", "", "missing", "ä"])
WHOLE = st.integers(-5, 30)
REAL = st.floats(-1e6, 1e6)
COLUMNS = {"text": TEXTS, "whole": WHOLE, "real": REAL, "bool": st.booleans()}
RULES = st.sampled_from(["category", "ignore"])
WINDOWS = st.sampled_from([None, 0.5, "10%", "0.01%", "49.9%"])


@st.composite
def tables(draw):
    """Columns of one type each, with missing values but not nothing else; as {name: list}."""
    n = draw(st.integers(1, 25))
    table = {}
    for j, name in enumerate(draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4))):
        values = draw(st.lists(st.none() | COLUMNS[name], min_size=n, max_size=n))
        values[draw(st.integers(0, n - 1))] = draw(COLUMNS[name])
        table[f"{name}{j}"] = values
    return table


def as_polars(table: dict) -> pl.DataFrame:
    types = {"text": pl.String, "whole": pl.Int64, "real": pl.Float64, "bool": pl.Boolean}
    return pl.DataFrame({k: pl.Series(v, dtype=types[k.rstrip("0123456789")]) for k, v in table.items()})


def as_pandas(table: dict) -> pd.DataFrame:
    types = {"text": "string", "whole": "Int64", "real": "float64", "bool": "boolean"}
    return pd.DataFrame({k: pd.Series(v, dtype=types[k.rstrip("0123456789")]) for k, v in table.items()})


@given(tables(), RULES, WINDOWS, st.sampled_from(["quantile", "uniform"]))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_decoding_gives_the_value_or_its_bin(table, missing, windows, bins):
    schema = Schema.learn(as_pandas(table), missing=missing, windows=windows, bins=bins)
    x, unseen, *_ = schema.encode(as_pandas(table))
    assert not unseen.any()
    for column, codes in zip(schema.columns, x.T, strict=True):
        if not column.is_compared:
            assert np.isnan(codes).all()
            continue
        assert np.isnan(codes).any() == (missing == "ignore" and None in table[column.name])
        for value, code in zip(table[column.name], codes, strict=True):
            text = column.decode(code)
            if value is None:
                assert text == "missing"
            elif column.kind == "binned":
                bounds = [-np.inf, *column.edges, np.inf]
                assert bounds[int(code)] <= value < bounds[int(code) + 1]
            elif column.kind == "ranked":
                assert column.low <= float(text.removeprefix("about ")) <= column.high
                assert (float(text) == value) if value in column.knots else text.startswith("about ")
            elif isinstance(value, str | bool):
                assert text == str(value)
            else:
                assert float(text) == value
    for row, texts in zip(zip(*table.values(), strict=True), schema.describe_rows(as_pandas(table)), strict=True):
        for value, text in zip(row, texts.values(), strict=True):
            assert text == ("missing" if value is None else str(value)) or float(text) == value


@given(tables(), RULES, WINDOWS)
@settings(deadline=None)
def test_pandas_polars_and_lists_agree_and_schemas_survive_json(table, missing, windows):
    schema = Schema.learn(as_pandas(table), missing=missing, windows=windows)
    assert Schema.learn(as_polars(table), missing=missing, windows=windows) == schema
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    x = schema.encode(as_pandas(table)).x
    assert np.array_equal(schema.encode(as_polars(table)).x, x, equal_nan=True)
    assert np.array_equal(schema.encode(list(zip(*table.values(), strict=True))).x, x, equal_nan=True)


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=2),
    st.dates(),
    st.datetimes(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.complex_numbers(),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=1), st.integers(), max_size=1),
)
SIMPLE = st.one_of(st.none(), st.sampled_from([True, 0, 1, 2.5, NAN, 10**30, "a", "b"]))


@st.composite
def strange_tables(draw):
    """Any values at all, as a pandas frame of objects, a polars frame where it can be made, an array or a list."""
    n, width = draw(st.integers(0, 6)), draw(st.integers(0, 3))
    values = draw(st.sampled_from([ANYTHING, SIMPLE]))
    names = draw(st.lists(st.sampled_from(["a", "b", "c", 1, "1"]), min_size=width, max_size=width))
    columns = [draw(st.lists(values, min_size=n, max_size=n)) for _ in range(width)]
    make = draw(st.sampled_from(["pandas", "polars", "array", "list"]))
    rows = [list(row) for row in zip(*columns, strict=True)]
    if make == "list":
        return rows
    if make == "array":
        array = np.empty((n, width), dtype=object)
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                array[i, j] = value
        return array
    if make == "pandas":
        frame = pd.concat([pd.Series(c, dtype=object) for c in columns], axis=1) if columns else pd.DataFrame()
        frame.columns = names
        return frame.infer_objects() if draw(st.booleans()) else frame
    try:
        return pl.DataFrame([pl.Series(str(k), c) for k, c in zip(names, columns, strict=True)])
    except (Exception, pl.exceptions.PanicException):  # polars refuses many mixtures itself
        return pl.DataFrame({str(k): pl.Series([repr(v) for v in c]) for k, c in zip(names, columns, strict=True)})


def check_words(error: ValueError) -> None:
    """Our own messages say what to do, after a semicolon or a colon."""
    assert "; " in str(error) or "Reshape" in str(error) or "columns of the training table" in str(error), error


@given(strange_tables(), strange_tables(), st.sampled_from(["category", "ignore", "error"]))
@settings(deadline=None, max_examples=400)
@pytest.mark.filterwarnings("ignore")
def test_any_table_is_coded_or_refused_in_our_words(first, second, missing):
    try:
        schema = Schema.learn(first, missing=missing)
    except ValueError as error:
        check_words(error)
        return
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    refused = []
    for table in (first, second):
        try:
            encoded = schema.encode(table)
        except ValueError as error:
            check_words(error)
            refused.append(table)
            continue
        assert isinstance(encoded, EncodedTable)
        assert encoded.x.shape == encoded.unseen.shape == (len(schema.describe_rows(table)), len(schema.columns))
        assert not np.isinf(encoded.x).any()
        # Under "category" a row with more gaps than any row of the first table is compared in what is known alone.
        compared = np.array([column.is_compared for column in schema.columns])
        gaps = np.isnan(encoded.x)
        assert gaps[:, ~compared].all()
        assert missing == "ignore" or (table is second and missing == "category") or not gaps[:, compared].any()
        assert all(schema.describe(row) for row in encoded.x)
    assert all(table is second for table in refused)
    assert not schema.encode(first).unseen.any()
