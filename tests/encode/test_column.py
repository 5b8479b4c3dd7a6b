"""One column: codes and words."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from bayespatch.encode.column import MISSING_NUMBER, Column, bin_text, number_text
from bayespatch.encode.table import read_table

NAN = float("nan")
AGE = Column("age", "binned", "number", edges=(45.0, 55.0))
PAIN = Column("pain", "categorical", "text", values=("none", "typical"), missing_is_value=True)
CHOL = Column("chol", "windowed", "number", window=20.0, low=100.0, high=300.0)
RANKED = Column("bmi", "ranked", "number", window=1.5, low=16.0, high=60.0, knots=(20.0, 25.0, 25.0, 30.0))
CODED = Column("ca", "ordinal", "number", values=(3.0, 0.0, 1.5), labels=("three", "zero", "one and a half"))


def encode(column, values, ignore_missing=False):
    codes, unseen = column.encode(read_table([[value] for value in values]).columns[0], ignore_missing)
    return codes.tolist(), np.flatnonzero(unseen).tolist()


def test_a_number_on_an_edge_belongs_to_the_bin_above():
    assert encode(AGE, [44.9, 45, 54, 55, -100, 1e6]) == ([0, 1, 1, 2, 0, 2], [])


def test_values_are_coded_by_their_place():
    assert encode(CODED, [0, 3, 1.5, 2]) == ([1, 0, 2, 3], [3])
    assert encode(PAIN, ["typical", "none", "other"]) == ([1, 0, 3], [2])


def test_missing_is_a_value_where_it_was_seen_and_unseen_where_not():
    assert PAIN.n_values == 3
    assert encode(PAIN, ["none", None]) == ([0, 2], [])
    assert encode(AGE, [50, None]) == ([1, 3], [1])
    assert encode(AGE, [None, None]) == ([3, 3], [0, 1])
    codes, unseen = encode(AGE, [50, None], ignore_missing=True)
    assert np.isnan(codes[1])
    assert unseen == []


def test_windowed_numbers_are_their_own_codes():
    assert CHOL.n_values == 5
    assert encode(CHOL, [150, 321, 80, None]) == ([150, 321, 80, MISSING_NUMBER], [1, 3])
    with_missing = replace(CHOL, missing_is_value=True)
    assert with_missing.n_values == 6
    assert encode(with_missing, [None]) == ([MISSING_NUMBER], [])
    assert replace(CHOL, window=1000.0).n_values == 1
    assert CHOL.decode(233.5) == "233.5"
    assert CHOL.decode(MISSING_NUMBER) == "missing"


def test_ranked_numbers_have_their_middle_rank_as_code():
    assert encode(RANKED, [16, 20, 22, 25, 26, 30, 60, None]) == ([0, 1, 2, 4, 6, 7, 8, MISSING_NUMBER], [7])
    assert RANKED.n_values == 9 / 3  # nine codes, of which three agree with one
    with_missing = replace(RANKED, missing_is_value=True)
    assert with_missing.n_values == 4
    assert encode(with_missing, [None, None]) == ([MISSING_NUMBER] * 2, [])
    codes, unseen = encode(with_missing, [25, None], ignore_missing=True)
    assert codes[0] == 4
    assert np.isnan(codes[1])
    assert unseen == []


def test_a_number_beyond_the_range_of_a_ranked_column_has_the_rank_of_the_extreme():
    assert encode(RANKED, [-1e20, 1e20]) == ([0, 8], [])
    tied = Column("a", "ranked", "number", window=0.5, low=0.0, high=5.0, knots=(0.0, 0.0, 0.0, 5.0))
    assert encode(tied, [-3, 0, 5, 9]) == ([3, 3, 7, 7], [])


def test_a_ranked_column_of_one_number_has_one_value():
    same = Column("a", "ranked", "number", window=0.5, low=2.5, high=2.5, knots=(2.5,) * 5)
    assert same.n_values == 1
    assert encode(same, [2.5, 0, 7]) == ([5, 5, 5], [])
    assert same.decode(5) == "2.5"


def test_ranks_in_words():
    assert [RANKED.decode(code) for code in (0, 1, 4, 6, 8)] == ["about 20", "20", "25", "about 30", "about 30"]
    assert RANKED.decode(MISSING_NUMBER) == RANKED.decode(NAN) == "missing"
    for wrong in (-1, 9, 0.5):
        with pytest.raises(ValueError, match=r"column 'bmi' has no code .* integers from 0 to 8"):
            RANKED.decode(wrong)


def test_codes_in_words():
    assert [PAIN.decode(code) for code in (0, 1, 2, 3, NAN)] == [
        "none",
        "typical",
        "missing",
        "not seen before",
        "missing",
    ]
    assert CODED.decode(2) == "one and a half"
    assert Column("b", "categorical", "boolean", values=(False, True)).decode(1) == "True"
    assert Column("c", "binned", "number").decode(0) == "any value"
    for wrong in (-1, 4, 0.5, 99):
        with pytest.raises(ValueError, match="column 'pain' has no code"):
            PAIN.decode(wrong)


def test_edges_that_round_to_the_same_are_written_out():
    assert bin_text((1.00000001, 1.00000002), 1) == "1.00000001-1.00000002"
    assert bin_text((0.1 + 0.2, 1.0), 0) == "under 0.3"
    assert number_text(-0.0) == "0"
    assert number_text(1e20) == "1e+20"


def test_own_words_are_the_values_themselves():
    def words(column, values):
        return column.own_words(read_table([[value] for value in values]).columns[0])

    assert words(AGE, [52, 0.5, None]) == ["52", "0.5", "missing"]
    assert words(RANKED, [26, 99, None]) == ["26", "99", "missing"]
    assert words(CODED, [0, 7, None]) == ["zero", "7", "missing"]
    assert words(PAIN, ["typical", "new", None]) == ["typical", "new", "missing"]


def test_a_column_keeps_its_type():
    with pytest.raises(ValueError, match=r"'pain' held text values .* now holds number values, such as 1; convert"):
        encode(PAIN, [1, 2])
    with pytest.raises(ValueError, match=r"'age' held number values .* now holds text values, such as '50'"):
        encode(AGE, ["50"])
    assert encode(Column("b", "categorical", "boolean", values=(False, True)), [0, 1, 2]) == ([0, 1, 2], [2])


@pytest.mark.parametrize("column", [AGE, PAIN, CHOL, RANKED, CODED])
def test_columns_survive_json(column):
    assert Column.from_dict(json.loads(json.dumps(column.to_dict()))) == column


@pytest.mark.parametrize(
    ("column", "change"),
    [
        (AGE, {"kind": "other"}),
        (AGE, {"kind": ["binned"]}),
        (AGE, {"family": "text"}),
        (AGE, {"edges": [55.0, 45.0]}),
        (AGE, {"edges": [45]}),
        (AGE, {"edges": [NAN]}),
        (AGE, {"edges": "45"}),
        (AGE, {"window": 1.0}),
        (AGE, {"values": ["a"]}),
        (AGE, {"name": 3}),
        (AGE, {"missing_is_value": 1}),
        (AGE, {"extra": 1}),
        (AGE, {"knots": [45.0]}),
        (RANKED, {"kind": "windowed"}),
        (RANKED, {"knots": []}),
        (RANKED, {"knots": None}),
        (RANKED, {"knots": [20.0, 30.0, 25.0, 25.0]}),
        (RANKED, {"knots": [20.0, 25.0, 30, 30.0]}),
        (RANKED, {"knots": [20.0, NAN, 30.0]}),
        (RANKED, {"knots": [25.0] * 102}),
        (RANKED, {"low": 21.0}),
        (RANKED, {"high": 29.0}),
        (RANKED, {"window": 0.0}),
        (RANKED, {"window": 1.0}),
        (RANKED, {"window": 4.5}),
        (RANKED, {"family": "text"}),
        (RANKED, {"edges": [1.0]}),
        (CHOL, {"window": 0.0}),
        (CHOL, {"low": 400.0}),
        (CHOL, {"high": float("inf")}),
        (PAIN, {"values": []}),
        (PAIN, {"values": ["a", "a"]}),
        (PAIN, {"values": ["a", 1.0]}),
        (PAIN, {"values": ["a", ["b"]]}),
        (PAIN, {"values": ["a", None]}),
        (PAIN, {"labels": ["a"]}),
        (PAIN, {"labels": [1, 2]}),
        (PAIN, {"edges": [1.0]}),
        (CODED, {"values": [NAN, 1.0, 2.0]}),
    ],
)
def test_a_damaged_column_is_refused(column, change):
    with pytest.raises(ValueError, match="again"):
        Column.from_dict({**column.to_dict(), **change})


def test_a_column_keeps_its_unit_and_usual_range_and_its_raw_values():
    age = Column(
        "age", "binned", "number", edges=(45.0,), description="age at admission", unit="years", usual=(30.0, 80.0)
    )
    assert Column.from_dict(age.to_dict()) == age
    assert (age.called, age.own_value(61.0), age.raw_value(61.0)) == ("age at admission", "61 years", 61)
    assert (CODED.own_value(0), CODED.raw_value(0), CODED.raw_value(3), CODED.raw_value(np.nan)) == (
        "three",
        3,
        None,
        None,
    )
    with pytest.raises(ValueError, match="usual range"):
        Column("age", "binned", "number", usual=(80.0, 30.0))


def test_what_is_no_column_is_refused():
    for data in (None, [], {}, "age"):
        with pytest.raises(ValueError, match="store the schema again"):
            Column.from_dict(data)
