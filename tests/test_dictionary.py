import json
import math

import pytest

from bayespatch.dictionary import Dictionary, DictionaryError, Entry, plain_value

CSV = """name,label,kind,unit,levels,phrases,usual,possible,identifier,sensitive
age,age at admission,number,years,,,30..80,0..120,,
cp,chest pain,number,,1=typical angina;2=atypical angina;4=asymptomatic,4=without chest pain,,,,
smokes,,boolean,,,,,,,yes
mrn,,text,,,,,,yes,
"""
YAML = """
age: {label: age at admission, unit: years, usual: [30, 80], possible: [0, 120]}
cp:
  label: chest pain
  levels: {1: typical angina, 2: atypical angina, 4: asymptomatic}
  phrases: {4: without chest pain}
smokes: {kind: boolean, sensitive: true}
mrn: {kind: text, identifier: true}
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "d.csv").write_text(CSV)
    (tmp_path / "d.yaml").write_text(YAML)
    (tmp_path / "d.json").write_text(json.dumps(Dictionary.read(tmp_path / "d.csv").to_dict()))
    return tmp_path


def test_the_three_formats_say_the_same(files):
    found = [Dictionary.read(files / name) for name in ("d.csv", "d.yaml", "d.json")]
    assert found[0] == found[1] == found[2]
    assert found[0]["age"] == Entry(
        "age", "number", "age at admission", "years", usual=(30.0, 80.0), possible=(0.0, 120.0)
    )
    assert found[0]["cp"].labels == {1: "typical angina", 2: "atypical angina", 4: "asymptomatic"}
    assert found[0]["cp"].phrases == ((4, "without chest pain"),)
    assert found[0]["mrn"].identifier
    assert found[0]["smokes"].sensitive


def test_levels_in_json_are_numbers_where_they_look_like_it(tmp_path):
    (tmp_path / "d.json").write_text(
        '{"cp": {"levels": {"1": "a", "2": "b"}}, "t": {"kind": "text", "levels": {"1": "a"}}}'
    )
    found = Dictionary.read(tmp_path / "d.json")
    assert found["cp"].levels == ((1, "a"), (2, "b"))
    assert found["t"].levels == (("1", "a"),)


def test_rows_are_checked_and_put_in_order(files):
    d = Dictionary.read(files / "d.csv").only(["age", "cp", "smokes"])
    row = d.check_row({"cp": "asymptomatic", "smokes": None, "age": 61.0})
    assert list(row.items()) == [("age", 61), ("cp", 4), ("smokes", None)]
    assert type(row["age"]) is int


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"age": 200, "cp": 1, "smokes": True}, "column 'age': 200 is outside the possible range, 0 to 120"),
        ({"age": "old", "cp": 1, "smokes": True}, "column 'age': 'old' is not a number"),
        ({"age": 1e300, "cp": 1, "smokes": True}, "is too large"),
        (
            {"age": 61, "cp": 3, "smokes": True},
            r"column 'cp': 3 is not one of its values; pass one of 1 \(typical angina\)",
        ),
        ({"age": 61, "cp": True, "smokes": True}, "column 'cp': True is not one of its values"),
        ({"age": 61, "cp": 1, "smokes": "yes"}, "column 'smokes': 'yes' is neither true nor false"),
        ({"age": 61, "cp": 1}, "column 'smokes' has no value"),
        ({"age": 61, "cp": 1, "smoke": True}, "there is no column 'smoke'; did you mean 'smokes'"),
        ({"age": [61], "cp": 1, "smokes": True}, r"column 'age': \[61\] is not a number, text, true or false"),
        ([61, 1, True], "is not a case"),
    ],
)
def test_bad_rows_are_refused(files, row, complaint):
    d = Dictionary.read(files / "d.csv").only(["age", "cp", "smokes"])
    with pytest.raises(DictionaryError, match=complaint):
        d.check_row(row)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({}, "is empty"),
        ({"age": 5}, "5 is not a description"),
        ({"age": {"units": "years"}}, "'units' is not a known key"),
        ({"age": {"kind": "integer"}}, "kind 'integer' is not known"),
        ({"age": {"usual": [80, 30]}}, "usual is not a range from low to high"),
        ({"age": {"usual": "30-80"}}, "usual '30-80' is not a range"),
        ({"age": {"usual": [0, math.inf]}}, "is not a range"),
        ({"pain": {"kind": "text", "usual": [1, 2]}}, "only a number has a range"),
        ({"pain": {"kind": "text", "levels": [1, 2]}}, "level 1 is not of kind text"),
        ({"pain": {"levels": {"a": "x", "b": "x"}}}, "two levels have the same label"),
        ({"pain": {"levels": [["a", "x"], ["a", "y"]]}}, "a level occurs twice"),
        ({"pain": {"levels": "a"}}, "levels 'a' are not a list"),
        ({"pain": {"phrases": "a"}}, "phrases 'a' are not a list"),
        ({"pain": {"levels": [1, 2], "phrases": {3: "women"}}}, "there is a phrase for 3, which is not a level"),
        ({"pain": {"phrases": {1: " "}}}, "the phrase for 1 is empty"),
        ({"pain": {"identifier": "perhaps"}}, "identifier 'perhaps' is neither yes nor no"),
        ({'a"b': {}}, "contain a quotation mark"),
    ],
)
def test_bad_dictionaries_are_refused(said, complaint):
    with pytest.raises(DictionaryError, match=complaint):
        Dictionary.from_dict(said)


def test_bad_files_are_refused(tmp_path):
    for name, content, complaint in (
        ("a.txt", "age", "ends in .csv, .yaml or .json"),
        ("a.json", "{", "is not JSON"),
        ("a.yaml", "a: [", "is not YAML"),
        ("a.yaml", "!!python/object/apply:os.system [ls]", "is not YAML"),
        ("a.yaml", "age: 2024-13-45", "is not YAML"),
        ("a.yaml", "age: !!bool x", "is not YAML"),
        ("a.yaml", "age: !!timestamp x", "is not YAML"),
        ("a.yml", "age: " + "9" * 5000, "is not YAML"),
        ("a.yaml", "age: 0x" + "f" * 9000, "is not YAML"),  # cannot be printed
        ("a.json", '{"age": ' + "9" * 5000 + "}", "is not JSON"),
        ("a.csv", "name,label\nage," + "x" * 200_000, "is not CSV"),
        ("a.csv", "column,label\nage,x\n", "needs a column 'name'"),
        ("a.csv", "name,label\nage,x\nage,y\n", "column 'age' occurs twice"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(DictionaryError, match=complaint):
            Dictionary.read(tmp_path / name)
    with pytest.raises(DictionaryError, match="cannot be read"):
        Dictionary.read(tmp_path / "nothing.csv")


def test_a_table_completes_what_is_described():
    d = Dictionary.from_dict({"age": {"label": "age in years"}, "mrn": {"identifier": True}})
    found = d.completed(["age", "pain"], [[61, "none"], [None, None]])
    assert found["age"] == Entry("age", "number", "age in years")
    assert found["pain"] == Entry("pain", "text")
    with pytest.raises(DictionaryError, match="describes column 'age', which the table does not have"):
        d.completed(["pain"], [["none"]])
    with pytest.raises(DictionaryError, match="values of different kinds, such as 1 and 'x'"):
        Dictionary.infer(["a"], [[1], ["x"]])
    with pytest.raises(DictionaryError, match="only missing values"):
        Dictionary.infer(["a"], [[None]])


def test_plain_values():
    import numpy as np
    import pandas

    for value, expected in (
        (np.float64(2.5), 2.5),
        (np.int32(7), 7),
        (np.bool_(True), True),
        (pandas.NA, None),
        (pandas.NaT, None),
        (float("nan"), None),
        (2.0**60, 2.0**60),
    ):
        found = plain_value(value, "a")
        assert found == expected or (found is None and expected is None)
        assert json.dumps(found) is not None
    with pytest.raises(DictionaryError, match="a date, for instance, into an age"):
        plain_value(pandas.Timestamp("2024-01-01"), "born")
    with pytest.raises(DictionaryError, match="too large"):
        plain_value(float("inf"), "a")


def test_everything_that_is_said_comes_back_from_csv(tmp_path):
    said = {
        "age": {"unit": "years", "coarse": 10, "usual": [20, 90], "sensitive": True, "fixed": True},
        "id": {"identifier": True},
    }
    written = Dictionary.from_dict(said)
    path = tmp_path / "d.csv"
    path.write_text(written.to_csv(), encoding="utf-8")
    assert Dictionary.read(path) == written


def test_follow_up_columns_have_a_role_and_times_an_event(tmp_path):
    path = tmp_path / "dictionary.csv"
    path.write_text("name,role,event\ndrug,treatment,\nstay,follow-up,\ndays,follow-up,died\ndied,follow-up,\nage,,\n")
    dictionary = Dictionary.read(path)
    assert dictionary.follow_up == {"drug": "treatment", "stay": None, "days": ("time", "died"), "died": None}
    assert Dictionary.from_dict(dictionary.to_dict()) == dictionary
    path.write_text(dictionary.to_csv())
    assert Dictionary.read(path) == dictionary


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"role": "therapy"}, "choose follow-up or treatment"),
        ({"event": "died"}, "an event belongs to a time with the role follow-up"),
        ({"role": "treatment", "event": "died"}, "an event belongs to a time"),
        ({"role": "follow-up", "identifier": True}, "an identifier has no role"),
    ],
)
def test_roles_that_contradict_are_refused(parts, complaint):
    with pytest.raises(DictionaryError, match=complaint):
        Dictionary.from_dict({"x": parts})
