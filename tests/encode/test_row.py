import numpy as np
import pandas as pd
import pytest

from bayespatch.encode import Schema, changed_row, read_row

TABLE = pd.DataFrame({"age": [61.5, 58, 40, 44] * 3, "cp": pd.Categorical([1, 4, 1, 4] * 3), "sex": ["m", "f"] * 6})
TABLE.attrs["labels"] = {"cp": {1: "typical", 4: "none"}}
SCHEMA = Schema.learn(TABLE)
EXPECTED = SCHEMA.encode(TABLE.iloc[[1]]).x


@pytest.mark.parametrize(
    "row",
    [
        TABLE.iloc[1],
        TABLE.iloc[[1]],
        {"sex": "f", "cp": 4, "age": 58},
        {"sex": "f", "cp": "none", "age": 58},
        [58, 4, "f"],
        (58, "none", "f"),
        np.array([58, 4, "f"], dtype=object),
        [[58, 4, "f"]],
    ],
)
def test_a_case_however_it_is_at_hand(row):
    table = read_row(row, SCHEMA)
    assert table.n_rows == 1
    np.testing.assert_array_equal(SCHEMA.encode(table).x, EXPECTED)
    assert SCHEMA.describe_rows(table) == [{"age": "58", "cp": "none", "sex": "f"}]


def test_a_row_of_a_frame_keeps_its_name():
    assert read_row(TABLE.iloc[7], SCHEMA).ids == ("7",)
    assert read_row(TABLE.iloc[[7]], SCHEMA).ids == ("7",)
    assert read_row([58, 4, "f"], SCHEMA).ids is None


def test_some_values_are_changed():
    table = read_row(TABLE.iloc[1], SCHEMA)
    other = changed_row(table, {"cp": "typical", "age": None}, SCHEMA)
    assert SCHEMA.describe_rows(other) == [{"age": "missing", "cp": "typical", "sex": "f"}]
    assert SCHEMA.describe_rows(table) == [{"age": "58", "cp": "none", "sex": "f"}]
    by_position = changed_row(read_row([[58, 4, "f"]], SCHEMA), {"sex": "m"}, SCHEMA)
    assert SCHEMA.describe_rows(by_position)[0]["sex"] == "m"
    in_other_order = changed_row(read_row(TABLE[["sex", "age", "cp"]].iloc[[1]], SCHEMA), {"sex": "m"}, SCHEMA)
    assert SCHEMA.describe_rows(in_other_order) == [{"age": "58", "cp": "none", "sex": "m"}]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"age": 58}, "no value for 'cp', 'sex'"),
        ({"age": 58, "cp": 4, "sex": "f", "weight": 80}, "no feature 'weight'"),
        ([58, 4], "2 values for 3 features"),
        (TABLE, "12 rows"),
        ("abc", "Reshape your data"),
        ([[58], [4]], "2 rows"),
    ],
)
def test_what_is_no_case_is_refused(row, complaint):
    with pytest.raises(ValueError, match=complaint):
        read_row(row, SCHEMA)
