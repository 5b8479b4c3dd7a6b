import numpy as np
import pandas as pd
import pytest

from bayespatch.encode import Schema, codes_of, describe_values

TABLE = pd.DataFrame(
    {
        "age": [61.5, 58, np.nan, 44, 39.25, 70] * 3,
        "cp": pd.Categorical([1, 4, 1, 4, 1, 4] * 3),
        "sex": ["m", None, "f"] * 6,
        "smokes": [True, False] * 9,
    }
)
TABLE.attrs["labels"] = {"cp": {1: "typical", 4: "none"}}


@pytest.mark.parametrize("missing", ["category", "ignore"])
@pytest.mark.parametrize("windows", [None, 0.5, "20%"])
def test_values_are_told_as_they_were_and_give_the_codes_again(missing, windows):
    schema = Schema.learn(TABLE, missing=missing, windows=windows)
    encoded = schema.encode(TABLE)
    np.testing.assert_array_equal(codes_of(schema, encoded.values), encoded.x)
    assert [describe_values(schema, row) for row in encoded.values] == schema.describe_rows(TABLE)
