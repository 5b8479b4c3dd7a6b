import datetime

import pandas as pd
import pytest

from bayespatch.source.dates import Interval
from bayespatch.source.roles import features_of, training_table


def table(**columns):
    n = 6
    base = {
        "who": [f"P{i}" for i in range(n)],
        "age": [61, 40, 52, 70, 33, 48],
        "pain": ["no", "yes", None, "no", "yes", "no"],
        "sick": ["yes", "no", "yes", "no", "yes", "no"],
    }
    return pd.DataFrame({**base, **columns})


def test_a_table_is_split():
    X, y, n_unknown, *_ = training_table(table(), "sick", id_column="who", drop=["pain"])
    assert list(X.columns) == ["age"]
    assert list(X.index) == ["P0", "P1", "P2", "P3", "P4", "P5"]
    assert y.name == "sick"
    assert n_unknown == 0
    assert y.tolist() == ["yes", "no"] * 3


def test_without_identifiers_rows_are_counted():
    frame = table()
    frame.index = [9, 8, 7, 6, 5, 4]
    assert list(training_table(frame, "sick", drop=["who"]).X.index) == list(range(6))


@pytest.mark.parametrize(
    ("wishes", "columns", "complaint"),
    [
        ({"target": "sik"}, {}, "--target 'sik' is not a column of the table; did you mean 'sick'?"),
        ({"target": "SICK"}, {}, "--target 'SICK' is not a column of the table; did you mean 'sick'?"),
        ({"target": "xyzw"}, {}, "the columns are 'who', 'age', 'pain', 'sick'"),
        ({"drop": ["pian"]}, {}, "--drop 'pian' is not a column of the table; did you mean 'pain'?"),
        ({"id_column": "nobody"}, {}, "--id 'nobody' is not a column"),
        ({"drop": ["sick"]}, {}, "is also named by --id, --group or --drop"),
        ({"drop": ["who", "age", "pain"]}, {}, "no column is left to learn from"),
        ({"id_column": "pain"}, {}, "1 cases have no identifier"),
        ({"id_column": "age"}, {"age": [1, 2, 3, 3, 4, 5]}, "'3' occurs in more than one row"),
        ({}, {"sick": [None] * 6}, "'sick' is missing in every row"),
        ({}, {"sick": ["yes"] * 6}, "'sick' is yes in every row"),
        ({}, {"sick": [0.5, 1.5, 0.5, 1.5, 2.5, 2.5]}, "3 different numbers; pass --regression"),
        ({}, {"sick": list("abcdef")}, "6 classes in 6 rows"),
        ({"regression": True}, {}, "'yes', which are not numbers; leave --regression out"),
        ({}, {"day": ["2024-01-05"] * 5 + [None]}, "'day' contains dates or times"),
        ({}, {"day": ["5.1.2024 10:30", *["31.12.2023"] * 5]}, "--drop 'day'"),
        ({}, {"day": pd.to_datetime(["2024-01-05"] * 6)}, "column 'day' contains dates"),
        ({}, {day: pd.to_datetime(["2024-01-05"] * 6) for day in ("a", "b")}, "columns 'a', 'b' contain dates"),
        ({}, {"day": [datetime.date(2024, 1, 5)] * 6}, "'day' contains dates"),
    ],
)
def test_what_nothing_can_be_learned_from_gets_one_sentence(wishes, columns, complaint):
    with pytest.raises(ValueError) as refused:
        training_table(table(**columns), **{"target": "sick", **wishes})
    assert complaint in str(refused.value)


def test_many_numbers_are_no_classes():
    frame = pd.DataFrame({"a": range(60), "n": [i % 30 for i in range(60)]})
    with pytest.raises(ValueError, match="30 different numbers; pass --regression"):
        training_table(frame, "n")
    assert training_table(frame, "n", regression=True).y.dtype == "float64"


def test_whole_numbers_are_classes_however_they_are_stored():
    assert training_table(table(sick=[0.0, 1.0] * 3), "sick").y.tolist() == [0, 1] * 3
    assert training_table(table(sick=[False, True] * 3), "sick").y.dtype.kind == "b"


def test_dates_may_be_dropped_and_versions_are_no_dates():
    frame = table(day=["2024-01-05"] * 6, version=["1.2", "1.3", "1.2", "2.0", "1.2", "1.3"])
    assert "version" in training_table(frame, "sick", drop=["day"]).X.columns


def test_features_are_found_by_name_among_others():
    X = features_of(table(), ["pain", "age"], id_column="who")
    assert list(X.columns) == ["pain", "age"]
    assert X.index[2] == "P2"
    with pytest.raises(ValueError, match="the table has no column 'weight', which the model needs"):
        features_of(table(), ["age", "weight"])


def test_rows_without_an_outcome_are_left_out_and_counted():
    X, y, n_unknown, *_ = training_table(table(sick=["yes", None, "no", None, "no", "yes"]), "sick", id_column="who")
    assert (list(X.index), y.tolist(), n_unknown) == (["P0", "P2", "P4", "P5"], ["yes", "no", "no", "yes"], 2)


def test_dates_become_intervals_which_new_cases_get_as_well():
    born = ["1960-01-01", "1980-06-15", None, "1950-03-03", "1991-12-31", "1972-02-29"]
    frame = table(born=born, seen=["2020-01-01"] * 6)
    X, *_ = training_table(frame, "sick", id_column="who", intervals=[Interval("years", "born", "seen")])
    assert list(X.columns) == ["age", "pain", "years from born to seen"]
    assert X["years from born to seen"].iloc[0] == 60.0
    new = features_of(frame, ["age", "years from born to seen"])
    assert new["years from born to seen"].iloc[1] == 39.5
    with pytest.raises(ValueError, match="there is no column 'birth'"):
        training_table(frame, "sick", intervals=[Interval("days", "birth", "seen")])


def test_a_column_says_whose_rows_they_are():
    frame = table(patient=["a", "a", "b", "b", "c", "c"], sick=["yes", None, "no", "no", "yes", "yes"])
    past = training_table(frame, "sick", group_column="patient")
    assert "patient" not in past.X.columns
    assert past.groups.tolist() == ["a", "b", "b", "c", "c"]
    with pytest.raises(ValueError, match=r"--id 'patient': 'a', 'b', 'c' occurs .* pass --group 'patient'"):
        training_table(frame, "sick", id_column="patient")
    with pytest.raises(ValueError, match="--group 'patient': 2 rows have no value"):
        training_table(table(patient=["a", "a", "b", "b", None, None]), "sick", group_column="patient")
    with pytest.raises(ValueError, match="--group 'who': no two rows share a value"):
        training_table(frame, "sick", group_column="who")
    with pytest.raises(ValueError, match="--group 'pateint' is not a column of the table; did you mean 'patient'"):
        training_table(frame, "sick", group_column="pateint")


def test_a_column_that_differs_in_case_is_suggested():
    with pytest.raises(ValueError, match="no column 'age', which the model needs; did you mean 'Age'"):
        features_of(table().rename(columns={"age": "Age"}), ["age", "pain"])
