"""A table into codes and back: the rules of kinds, missing and unseen values, names and order."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bayespatch.datasets import load_breast, load_heart
from bayespatch.encode import MISSING_NUMBER, Schema
from bayespatch.validation import check_data

NAN = float("nan")
rng = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": rng.integers(30, 80, 60),
        "sex": ["male", "female", "male"] * 20,
        "chol": rng.normal(240, 50, 60).round(1),
        "vessels": [0.0, 1, 2, NAN] * 15,
        "angina": [True, False] * 30,
        "stage": pd.Categorical(["I", "III"] * 30, categories=["I", "II", "III"], ordered=True),
    }
)


def kinds(schema) -> dict[str, str]:
    return {column.name: column.kind for column in schema.columns}


# Kinds


def test_the_kind_follows_from_the_type():
    schema = Schema.learn(TABLE)
    assert kinds(schema) == {
        "age": "binned",
        "sex": "categorical",
        "chol": "binned",
        "vessels": "ordinal",
        "angina": "categorical",
        "stage": "ordinal",
    }
    assert schema.n_values.tolist() == [4, 2, 4, 4, 2, 3]
    assert schema.windows.tolist() == [0] * 6
    assert schema.column("stage").values == ("I", "II", "III")  # declared, though nobody has II


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.arange(10) % 5, "ordinal"),
        (np.arange(10), "binned"),  # each value once: measurements, not levels
        (np.arange(22) % 11, "binned"),  # more than ten
        (np.arange(10) % 5 + 0.5, "binned"),  # not whole
        ([3, 4], "ordinal"),  # two values are always levels
        ([7, 7, 7], "ordinal"),
    ],
)
def test_few_whole_numbers_that_recur_are_levels(values, kind):
    assert Schema.learn(pd.DataFrame({"a": values})).columns[0].kind == kind


def test_max_levels_can_be_changed():
    assert kinds(Schema.learn(TABLE, max_levels=0))["vessels"] == "binned"


def test_bins_and_windows_column_by_column():
    schema = Schema.learn(TABLE, bins={"age": [45, 55], "vessels": 2, None: ("uniform", 3)})
    assert schema.column("age").edges == (45.0, 55.0)
    assert schema.column("vessels").kind == "binned"
    assert np.allclose(np.diff(schema.column("chol").edges), np.ptp(TABLE["chol"]) / 3)
    schema = Schema.learn(TABLE, windows={"chol": 20}, categorical=["age"])
    assert schema.column("chol").kind == "windowed"
    assert schema.windows[2] == 20
    assert schema.n_values[2] == pytest.approx(np.ptp(TABLE["chol"]) / 40)
    assert schema.column("age").kind == "categorical"
    assert schema.column("age").values == tuple(sorted(set(TABLE["age"].astype(float))))


def test_windows_for_all_numbers_are_in_standard_deviations():
    schema = Schema.learn(TABLE.assign(same=0.5), windows=0.5, bins={"age": 3})
    assert kinds(schema) == {**kinds(Schema.learn(TABLE)), "chol": "windowed", "same": "binned"}
    assert schema.windows[2] == pytest.approx(TABLE["chol"].std(ddof=0) / 2)


def test_windows_in_ranks():
    every = Schema.learn(TABLE.assign(same=0.5), windows="10%", bins={"age": 3})
    assert kinds(every) == {**kinds(Schema.learn(TABLE)), "chol": "ranked", "same": "ranked"}
    assert every.windows.tolist() == [0, 0, 6.5, 0, 0, 0, 6.5]  # 30 knots, 60 steps
    assert every.n_values[[2, 6]].tolist() == [61 / 13, 1]
    one = Schema.learn(TABLE, windows={"chol": "10 %", "age": 3})
    assert one.column("chol") == every.column("chol")
    assert one.column("age").kind == "windowed"
    assert Schema.learn(TABLE, windows={"vessels": "5%"}).column("vessels").kind == "ranked"


def test_supervised_bins_look_at_the_outcome():
    schema = Schema.learn(TABLE, np.where(TABLE["age"] < 50, "young", "old"), bins="supervised")
    assert schema.column("age").edges == (TABLE["age"][TABLE["age"] >= 50].min(),)
    with pytest.raises(ValueError, match="pass y"):
        Schema.learn(TABLE, bins="supervised")


def test_a_constant_column_has_one_value_and_is_not_compared():
    schema = Schema.learn(pd.DataFrame({"a": ["x"] * 3, "b": [1.5] * 3, "c": [2] * 3}))
    assert schema.n_values.tolist() == [1, 1, 1]
    assert schema.not_compared == ("a", "b", "c")
    encoded = schema.encode(pd.DataFrame({"a": ["y"], "b": [9.0], "c": [3]}))
    assert np.isnan(encoded.x).all()
    assert encoded.values.tolist() == [[1, 9.0, 1]]
    assert encoded.n_unseen == {"a": 1, "c": 1}


@pytest.mark.parametrize(
    ("column", "missing", "is_compared"),
    [
        (["x"] * 11 + ["y"], "category", False),
        (["x"] * 10 + ["y"] * 2, "category", True),
        (["x"] * 4 + ["y"], "category", True),  # too few rows to tell
        (["x"] * 10 + [None] * 2, "category", True),
        (["x"] * 10 + [None] * 2, "ignore", False),
        ([1.5] * 11 + [None], "category", False),
        ([1.5] * 11 + [7.25], "category", False),
    ],
)
def test_columns_that_tell_nothing_are_not_compared(column, missing, is_compared):
    schema = Schema.learn(pd.DataFrame({"a": column, "b": range(len(column))}), missing=missing)
    assert schema.columns[0].is_compared == is_compared
    assert Schema.from_dict(schema.to_dict()) == schema


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"bins": {"agee": 3}}, "bins names 'agee', but the columns are 'age', 'sex', 'chol', 'vessels', "),
        ({"windows": {"agee": 3}}, "windows names 'agee'"),
        ({"categorical": ["agee"]}, "categorical names 'agee'"),
        ({"labels": {"agee": {}}}, "labels names 'agee'"),
        ({"categorical": "age"}, r"pass a list of names: \['age'\]"),
        ({"bins": {"sex": 3}}, "bins names column 'sex', which is not numeric"),
        ({"windows": {"sex": 3}}, "windows names column 'sex', which is not numeric"),
        ({"bins": [45, 55]}, "name the column"),
        ({"bins": "octiles"}, "bins='octiles' is not valid; choose one of"),
        ({"bins": {"age": [55, 45]}}, r"bins\['age'\]=\[55, 45\] does not define bins"),
        ({"n_bins": 1}, "n_bins=1 is too small"),
        ({"windows": {"chol": 0}}, r"windows\['chol'\]=0 is not a distance"),
        ({"windows": "auto"}, "windows='auto' is not a distance; pass a finite number above 0, or a percentage"),
        (
            {"windows": {"chol": "50%"}},
            r"windows\['chol'\]='50%' is not a distance.* such as '10%', above 0 and under 50",
        ),
        ({"windows": {"sex": "10%"}}, "windows names column 'sex', which is not numeric"),
        (
            {"windows": {"chol": 20}, "bins": {"chol": 3}},
            "'chol' is named in more than one of bins, windows and categorical",
        ),
        ({"missing": "drop"}, "missing='drop' is not valid; choose one of 'category', 'ignore', 'error'"),
        ({"missing": "error"}, r"column 'vessels' has 15 missing values \(NaN\); pass missing='category'"),
    ],
)
def test_wrong_options_are_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        Schema.learn(TABLE, **options)


# Missing


def test_missing_as_a_category():
    schema = Schema.learn(TABLE, windows={"chol": 20})
    assert schema.decode(schema.encode(TABLE).x[3, 3], "vessels") == "missing"
    assert schema.least_known == len(TABLE.columns) - 1
    new = pd.concat([TABLE.head(1).assign(**{name: None}) for name in ("age", "sex", "chol", "vessels")])
    encoded = schema.encode(new)
    assert np.diag(encoded.x).tolist() == [4, 2, MISSING_NUMBER, 3]
    assert encoded.n_unseen == {"age": 1, "sex": 1, "chol": 1}


def test_a_row_with_more_gaps_than_any_past_case_had_is_compared_in_what_is_known_alone():
    """A form that nobody has filled in is not a pattern of gaps."""
    schema = Schema.learn(TABLE, windows={"chol": 20})
    emptier = schema.encode(TABLE.head(1).assign(age=NAN, chol=NAN, vessels=NAN))
    known = schema.encode(TABLE.head(1)).x[0]
    np.testing.assert_array_equal(
        emptier.x[0], np.where([n in ("age", "chol", "vessels") for n in schema.names], NAN, known)
    )
    assert not emptier.n_unseen
    assert schema.describe(emptier.x[0])["age"] == "missing"
    assert Schema.from_dict(schema.to_dict()).least_known == schema.least_known
    with pytest.raises(ValueError, match="least_known=99"):
        Schema.from_dict({**schema.to_dict(), "least_known": 99})


def test_missing_numbers_of_a_windowed_column_agree_with_each_other_alone():
    table = pd.DataFrame({"a": [1.0, 2.0, NAN, NAN]})
    schema = Schema.learn(table, windows={"a": 0.5})
    x = schema.encode(table).x[:, 0]
    agree = np.abs(x[:, None] - x) <= schema.windows[0]
    assert agree.tolist() == (np.eye(4, dtype=bool) | np.outer([0, 0, 1, 1], [0, 0, 1, 1]).astype(bool)).tolist()
    assert schema.n_values.tolist() == [2]


def test_missing_ignored():
    schema = Schema.learn(TABLE, missing="ignore")
    encoded = schema.encode(TABLE)
    assert np.isnan(encoded.x).sum(axis=0).tolist() == [0, 0, 0, 15, 0, 0]
    assert schema.n_values[3] == 3
    assert not encoded.unseen.any()


def test_missing_refused_later_too():
    schema = Schema.learn(TABLE.drop(columns="vessels"), missing="error")
    with pytest.raises(ValueError, match=r"column 'chol' has 1 missing values \(NaN\)"):
        schema.encode(TABLE.drop(columns="vessels").head(1).assign(chol=NAN))


def test_a_column_without_any_value_is_refused():
    for empty in (pd.DataFrame({"a": [1, 2], "b": [None, None]}), pl.DataFrame({"a": [1], "b": [None]})):
        with pytest.raises(ValueError, match="column 'b' has only missing values; drop it"):
            Schema.learn(empty)


# Other tables


def test_columns_are_found_by_name():
    schema = Schema.learn(TABLE)
    assert np.array_equal(schema.encode(TABLE[TABLE.columns[::-1]]).x, schema.encode(TABLE).x)
    with pytest.raises(ValueError, match="columns 'age' are missing; columns 'Age' are not in the training table"):
        schema.encode(TABLE.rename(columns={"age": "Age"}))
    with pytest.raises(ValueError, match="columns 'new' are not in the training table"):
        schema.encode(TABLE.assign(new=1))


def test_arrays_are_read_by_position():
    table = np.random.default_rng(0).normal(size=(30, 3))
    schema = Schema.learn(table)
    assert schema.names == ("x0", "x1", "x2")
    x = schema.encode(table).x
    assert np.array_equal(schema.encode(pd.DataFrame(table, columns=list("abc"))).x, x)
    assert np.array_equal(schema.encode(table.tolist()).x, x)
    named = Schema.learn(pd.DataFrame(table, columns=list("abc")))
    assert np.array_equal(named.encode(table).x, x)
    with pytest.raises(ValueError, match="the table has 2 columns and the training table had 3"):
        schema.encode(table[:, :2])


def test_a_column_may_not_change_its_type():
    with pytest.raises(ValueError, match="column 'sex' held text values"):
        Schema.learn(TABLE).encode(TABLE.assign(sex=1))


def test_unseen_values_are_reported_and_match_nobody():
    schema = Schema.learn(TABLE, windows={"chol": 20})
    encoded = schema.encode(
        TABLE.head(2).assign(sex=["other", "male"], vessels=[9, 1], chol=[9000, 240], age=[200, 50])
    )
    assert encoded.n_unseen == {"sex": 1, "chol": 1, "vessels": 1}
    assert encoded.unseen[0].tolist() == [False, True, True, True, False, False]
    past = schema.encode(TABLE).x
    agree = np.abs(past - encoded.x[0]) <= schema.windows
    assert agree.any(axis=0).tolist() == [True, False, False, False, True, True]
    assert schema.describe(encoded.x[0])["sex"] == "not seen before"


# Words


def test_words_of_codes_and_of_rows():
    schema = Schema.learn(TABLE, bins={"age": [45, 55]}, windows={"chol": 20}, descriptions={"sex": "gender"})
    row = TABLE.head(1).assign(age=50)
    codes = schema.encode(row).x[0]
    assert schema.describe(codes) == {
        "age": "45-55",
        "sex": "male",
        "chol": str(TABLE["chol"][0]),
        "vessels": "0",
        "angina": "True",
        "stage": "I",
    }
    assert schema.describe_rows(row) == [{**schema.describe(codes), "age": "50"}]
    for wrong in ([0], codes[None]):
        with pytest.raises(ValueError, match="pass one row of 6 codes"):
            schema.describe(wrong)
    for wrong in ("nobody", 6, -1):
        with pytest.raises(ValueError, match="there is no column"):
            schema.decode(0, wrong)


def test_labels_come_with_the_data():
    X, _ = load_heart()
    schema = Schema.learn(X)
    assert schema.describe_rows(X.head(1))[0]["cp"] == "typical angina"
    assert schema.decode(0, "ca") == "0"
    other = Schema.learn(X, labels={"cp": {4: "silent"}}, descriptions={"cp": "chest pain"})
    assert other.decode(0, "cp") == "1"


def test_phrases_come_with_the_data_and_are_stored():
    X, _ = load_heart()
    X.attrs["phrases"] = {"sex": {1: "men"}, "ca": {0: "without colored vessels"}, "age": {63: "aged 63"}}
    schema = Schema.learn(X)
    columns = {column.name: column for column in schema.columns}
    assert columns["sex"].phrases_of_values() == {"male": "men"}
    assert columns["ca"].phrases_of_values() == {"0": "without colored vessels"}
    assert columns["age"].phrases_of_values() == columns["cp"].phrases_of_values() == {}
    assert Schema.from_dict(schema.to_dict()) == schema


# The bundled tables, and the sampler's own checks


@pytest.mark.parametrize("load", [load_heart, load_breast])
@pytest.mark.parametrize("discretize", [None, "paper"])
@pytest.mark.parametrize("missing", ["category", "ignore"])
@pytest.mark.parametrize("windows", [None, 0.3, "10%"])
def test_what_is_learned_may_enter_the_sampler(load, discretize, missing, windows):
    X, y = load(discretize=discretize)
    y = np.unique(y, return_inverse=True)[1]
    schema = Schema.learn(X, missing=missing, windows=windows)
    encoded = schema.encode(X)
    assert not encoded.unseen.any()
    check_data(
        encoded.x,
        y,
        encoded.x,
        y,
        n_values=schema.n_values,
        n_classes=2,
        windows=schema.windows,
        missing="ignore" if missing == "ignore" or schema.not_compared else "error",
        exclude_self=True,
    )


# Storage


def test_a_schema_survives_json():
    schema = Schema.learn(TABLE, windows={"chol": 1 / 3, "age": "10%"}, labels={"sex": {"male": "m"}})
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    assert again == schema
    assert np.array_equal(again.encode(TABLE).x, schema.encode(TABLE).x)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"format": True},
        {"missing": "drop"},
        {"missing": "ignore"},
        {"missing": ["ignore"]},
        {"columns": []},
        {"columns": {}},
        {"named": 3},
        {"x": 1},
    ],
)
def test_a_damaged_schema_is_refused(change):
    with pytest.raises(ValueError):
        Schema.from_dict({**Schema.learn(TABLE).to_dict(), **change})
    with pytest.raises(ValueError):
        Schema.from_dict([change])
    double = Schema.learn(TABLE).to_dict()
    double["columns"] *= 2
    with pytest.raises(ValueError, match="distinct names"):
        Schema.from_dict(double)


def test_a_table_of_codes_alone_is_kept_once():
    coded = Schema.learn([["a", 1], ["b", 2], ["a", 1]])
    table = coded.encode([["a", 1], ["b", 2]])
    assert table.values is table.x
    binned = Schema.learn([[0.5 * i] for i in range(40)])
    assert not np.shares_memory(*(lambda table: (table.x, table.values))(binned.encode([[1.0]])))
