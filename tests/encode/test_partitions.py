"""Tables that lie in parts: what is known of all rows, and the sample of them."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from bayespatch.encode import Schema
from bayespatch.encode.partitions import MOST_CLASSES, Part, Partitions
from bayespatch.encode.summary import merged, summarise
from bayespatch.encode.table import read_table

RNG = np.random.default_rng(3)
N = 240
TABLE = pd.DataFrame(
    {
        "age": RNG.normal(60, 10, N).round(1),
        "sex": RNG.choice(["f", "m"], N),
        "vessels": np.where(RNG.random(N) < 0.1, np.nan, RNG.integers(0, 4, N)),
        "pain": pd.Categorical(RNG.choice(["none", "some"], N), categories=["some", "none", "much"]),
        "smokes": RNG.random(N) < 0.3,
    }
)
Y = pd.Series(np.where(RNG.random(N) < 0.3, "sick", "well"), name="outcome")


def in_parts(X, y, *cuts):
    """The same table in parts, read one after the other in this process."""
    ends = [0, *cuts, len(X)]
    pieces = [slice(low, high) for low, high in pairwise(ends)]
    return Partitions(
        tuple(pieces),
        tuple(f"part {k}" for k in range(len(pieces))),
        lambda rows: Part(X.iloc[rows].reset_index(drop=True), y.iloc[rows].reset_index(drop=True)),
        lambda function, arguments: [function(*each) for each in arguments],
    )


def test_the_summary_of_parts_is_that_of_the_table():
    pieces = [TABLE[:50], TABLE[50:51], TABLE[51:]]
    parts = [summarise(read_table(piece)) for piece in pieces]
    assert merged(parts, ["a", "b", "c"]) == summarise(read_table(TABLE))


@pytest.mark.parametrize(
    "how",
    [{}, {"missing": "ignore"}, {"windows": "10%"}, {"windows": 0.5}, {"categorical": ["vessels"]}, {"max_levels": 2}],
)
def test_a_short_table_in_parts_is_coded_as_it_is_in_one(how):
    wanted = {"categorical": how.get("categorical", ()), "max_levels": how.get("max_levels", 10)}
    sample = in_parts(TABLE, Y, 100, 100, 170).sample(0, classes=True, **wanted)
    assert sample.is_all
    pd.testing.assert_frame_equal(sample.X, TABLE, check_index_type=False)
    assert sample.y.tolist() == Y.tolist()
    assert sample.counts == Y.value_counts().to_dict()
    assert Schema.learn(sample.X, whole=sample.summary, **how) == Schema.learn(TABLE, **how)


def test_a_sample_does_not_depend_on_how_the_table_is_cut():
    one, other = (in_parts(TABLE, Y, *cuts).sample(5, classes=True, most=40) for cuts in ((7, 90), (30, 31, 32, 200)))
    pd.testing.assert_frame_equal(one.X, other.X)
    assert len(one.X) == 40
    assert one.X.index.is_monotonic_increasing  # rows are called by their numbers in the whole table
    pd.testing.assert_frame_equal(one.X, TABLE.loc[one.X.index], check_index_type=False)
    assert one.y.tolist() == Y.loc[one.X.index].tolist()
    assert not one.X.index.equals(in_parts(TABLE, Y, 7, 90).sample(6, classes=True, most=40).X.index)


def test_a_schema_knows_more_than_the_sample():
    """Levels, ranges and gaps that only rows beside the sample have."""
    X = pd.DataFrame({"site": ["A"] * 500, "dose": [1.0] * 500, "grade": [1, 2] * 250, "many": [3.0] * 500})
    y = pd.Series(["no"] * 500)
    drawn = in_parts(X, y).sample(0, classes=True, most=50).X.index
    aside = np.setdiff1d(np.arange(500), drawn)
    X.loc[aside[0], ["site", "dose", "grade", "many"]] = ["Z", 900.5, 7, np.nan]
    X.loc[aside[1:20], "many"] = np.arange(19.0)
    y[aside[1]] = "yes"
    sample = in_parts(X, y, 100, 300).sample(0, classes=True, most=50)
    assert len(sample.X) == 51  # with the one case of the rare class
    assert sample.y[aside[1]] == "yes"
    assert sample.counts == {"no": 499, "yes": 1}
    schema = Schema.learn(sample.X, whole=sample.summary, windows={"dose": 1.0})
    site, dose, grade, many = schema.columns
    assert site.values == ("A", "Z")
    assert (dose.low, dose.high) == (1.0, 900.5)
    assert grade.values == (1.0, 2.0, 7.0)
    assert (many.kind, many.missing_is_value, schema.least_known) == ("binned", True, 3)
    with pytest.raises(ValueError, match="column 'many' has 1 missing values"):
        Schema.learn(sample.X, whole=sample.summary, missing="error")


def test_a_column_of_which_the_sample_has_nothing():
    X = pd.DataFrame({"age": np.arange(500.0), "rare": np.nan})
    drawn = in_parts(X, Y.reindex(range(500), fill_value="well")).sample(0, classes=False, most=50).X.index
    X.loc[np.setdiff1d(np.arange(500), drawn)[0], "rare"] = 1.0
    sample = in_parts(X, Y.reindex(range(500), fill_value="well")).sample(0, classes=False, most=50)
    with pytest.raises(ValueError, match="column 'rare' has too few values: it is empty in all 50 sampled rows"):
        Schema.learn(sample.X, whole=sample.summary)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda frame: frame.drop(columns="age"), "part 1 has no column 'age', unlike part 0"),
        (lambda frame: frame.assign(bmi=1), "part 1 has 'bmi', unlike part 0"),
        (
            lambda frame: frame.assign(age="old"),
            "column 'age' holds text values in part 1 and number values in part 0",
        ),
        (lambda frame: frame.assign(age=pd.Timestamp("2024-01-01")), "part 1: column 'age' contains dates"),
        (
            lambda frame: frame.assign(pain=frame["pain"].cat.as_ordered()),
            "column 'pain' has different ordered categories in part 1",
        ),
    ],
)
def test_parts_that_are_not_of_one_table(change, complaint):
    table = in_parts(TABLE, Y, 100)
    read = table.read

    def changed(rows):
        part = read(rows)
        return part._replace(X=change(part.X)) if rows.start else part

    with pytest.raises(ValueError, match=complaint):
        Partitions(table.parts, table.labels, changed, table.each).sample(0, classes=True)


def test_columns_in_another_order_and_empty_parts():
    table = in_parts(TABLE, Y, 0, 100)  # the first part has no rows
    read = table.read
    turned = lambda rows: read(rows)._replace(X=read(rows).X.iloc[:, ::-1] if rows.start else read(rows).X)  # noqa: E731
    sample = Partitions(table.parts, table.labels, turned, table.each).sample(0, classes=True)
    pd.testing.assert_frame_equal(sample.X[list(TABLE)], TABLE, check_index_type=False)


def test_nothing_to_learn_from():
    with pytest.raises(ValueError, match=r"no rows \(0 samples\)"):
        in_parts(TABLE[:0], Y[:0]).sample(0, classes=True)
    empty = Partitions((0,), ("a",), lambda _: Part(TABLE[:0], Y[:0], 12), lambda f, each: [f(*one) for one in each])
    with pytest.raises(ValueError, match="none of the 12 rows has an outcome"):
        empty.sample(0, classes=True)
    numbers = pd.Series(np.arange(MOST_CLASSES + 1.0))
    with pytest.raises(ValueError, match="more than 10,000 different values"):
        in_parts(pd.DataFrame({"a": numbers}), numbers, 5000).sample(0, classes=True)
