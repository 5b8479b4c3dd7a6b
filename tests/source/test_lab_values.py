import random
import warnings

import pandas as pd
import pytest

from bayespatch.source.delimited import read_delimited
from bayespatch.source.lab_values import LabValueWarning, lab_values, with_lab_values


def numbers(n=300, seed=0):
    rng = random.Random(seed)
    return [f"{rng.uniform(0.3, 10):.1f}" for _ in range(n)]


def quietly(*args, **wishes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return lab_values(*args, **wishes)


def test_limits_and_remarks_among_numbers():
    values = [*numbers(), "<0.3", "<0.3", "> 10", "haemolytic", None]
    with pytest.warns(LabValueWarning) as told:
        found = lab_values("crp", values)
    assert found[:300] == [float(value) for value in values[:300]]
    assert found[300:] == [0.3, 0.3, 10.0, None, None]
    text = str(told[0].message)
    assert "column 'crp': 304 values are read as numbers: 3 at a detection limit" in text
    assert "(such as '<0.3'), 1 text as missing ('haemolytic'); to keep the text" in text


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["12 mg/dl", "7.5mg/dl", "8 mg/dL"], [12.0, 7.5, 8.0]),
        (["98 %", "97%"], [98.0, 97.0]),
        (["1 year", "2 Years"], [1.0, 2.0]),
        (["3 μmol/l", "4 µmol/L"], [3.0, 4.0]),
        (["5.4 x10^9/l", "6 x10^9/l"], [5.4, 6.0]),
        (["0,3", "1,25", "2"], [0.3, 1.25, 2.0]),
        (["1,234", "1,5"], [1.234, 1.5]),
        ([12, "13 kg", 14.5], [12.0, 13.0, 14.5]),
        (["-1,5", ".5", "1e3"], [-1.5, 0.5, 1000.0]),
    ],
)
def test_units_and_decimal_commas(values, expected):
    with pytest.warns(LabValueWarning, match="values are read as numbers"):
        assert lab_values("x", values) == expected


@pytest.mark.parametrize(
    "values",
    [
        ["<50", ">=50"] * 50,  # groups of age
        ["1", "2", "2a", "3b"] * 50,
        ["10-19", "20-29", "30-39"] * 20,
        [*map(str, range(100, 400)), "V57", "V58"],  # codes of diagnoses
        [*numbers(), *["never"] * 30],  # too many to be remarks
        ["1", "2", "3", *["2"] * 200, "unknown"],  # codes
        [*numbers(10), "<0.3"],  # too few to tell
        ["120/80", "130/85", "115/75"],
        ["2024-01-05", "2023-12-31"],
        ["10:30", "9:15"],
        ["1a", "2a", "3a"],
        ["5 mg/day of this", "nothing", "2 ml/day of that", "none"],
        ["a", "b", "c"],
        [True, "1"],
        [None, None],
    ],
)
def test_categories_stay_texts(values):
    assert quietly("x", values) is None


def test_what_may_be_read_in_two_ways_is_left_with_a_warning():
    with pytest.warns(LabValueWarning, match="'1,234' is ambiguous: the comma may separate thousands or decimals"):
        assert lab_values("platelets", ["1,234", "2,500"]) is None
    with pytest.warns(LabValueWarning, match=r"different units \('mg/dl', 'mmol/l'\)"):
        assert lab_values("glucose", [*(f"{n} mg/dl" for n in numbers()), "5 mmol/l"]) is None


def test_the_dictionary_decides():
    few = ["<0.3", "haemolytic", "lost", "2.0"]
    with pytest.warns(LabValueWarning, match="1 at a detection limit.*2 texts as missing"):
        assert lab_values("crp", few, unit="") == [0.3, None, None, 2.0]
    with pytest.raises(ValueError, match="column 'crp' has values in 'mg/l', but should be in 'mg/dl'; convert them"):
        lab_values("crp", ["3 mg/l", "4"], unit="mg/dl")
    with pytest.raises(ValueError, match="different units: 'mg/l', 'mg/dl'"):
        lab_values("crp", ["3 mg/l", "4 mg/dl"], unit="mg/dl")
    frame = pd.DataFrame({"crp": few, "note": few})
    with pytest.warns(LabValueWarning):
        read = with_lab_values(frame, texts=["note"], numbers={"crp": ""})
    assert read["crp"].dtype == "float64"
    assert read["note"].tolist() == few


def test_decimal_commas_of_a_file_are_told():
    with pytest.warns(LabValueWarning, match="column 'kg': 2 values are read as numbers: 2 with a decimal comma"):
        frame = read_delimited("a.csv", b"kg;note\n70,125;a\n80,500;b\n")
    assert frame["kg"].tolist() == [70.125, 80.5]
