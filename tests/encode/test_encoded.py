"""A coded table keeps the numbers that codes hide."""

import numpy as np
import pandas as pd
import pytest

from bayespatch.encode import MISSING_NUMBER, EncodedTable, Schema

TABLE = pd.DataFrame(
    {"age": [41.5, np.nan, 63.25, 52.0, 47.0, 70.0], "sex": ["f", "m", "m", "f", "m", "f"]}, list("uvwxyz")
)


@pytest.mark.parametrize("missing", ["category", "ignore"])
@pytest.mark.parametrize("windows", [None, "10%", {"age": 5}])
def test_values_are_the_users_and_codes_can_be_made_of_them(windows, missing):
    schema = Schema.learn(TABLE, windows=windows, missing=missing)
    encoded = schema.encode(TABLE)
    assert encoded.ids == tuple("uvwxyz")
    texts = [schema.describe_values(row)["age"] for row in encoded.values]
    assert texts == ["41.5", "missing", "63.25", "52", "47", "70"]
    assert [row["age"] for row in schema.describe_rows(TABLE)] == texts
    np.testing.assert_array_equal(schema.codes_of(encoded.values), encoded.x)
    if schema.columns[0].hides_numbers:
        np.testing.assert_array_equal(encoded.values[:, 0], TABLE["age"])
        assert not np.array_equal(encoded.values[:, 0], encoded.x[:, 0], equal_nan=True)
    elif missing == "category":
        assert encoded.values[1, 0] == MISSING_NUMBER


def test_unseen_values_are_counted_by_column():
    nobody = np.array([[True, False], [True, False]])
    assert EncodedTable(np.zeros((2, 2)), nobody, ("a", "b"), np.zeros((2, 2))).n_unseen == {"a": 2}
