import gzip
from types import SimpleNamespace

import pandas as pd
import pytest
import sklearn.datasets

from bayespatch.datasets import load_readmission
from bayespatch.datasets.readmission import DESCRIPTIONS, DRUGS, NUMBERS, OTHER_DESCRIPTIONS, OTHER_DRUGS

BASE = (
    dict.fromkeys(NUMBERS, "1")
    | dict.fromkeys([*DRUGS, *OTHER_DRUGS], "No")
    | {
        "encounter_id": "1",
        "patient_nbr": "10",
        "race": "Caucasian",
        "gender": "Female",
        "age": "[0-10)",
        "weight": "?",
        "admission_type_id": "1",
        "discharge_disposition_id": "1",
        "admission_source_id": "7",
        "payer_code": "?",
        "medical_specialty": "Cardiology",
        "diag_1": "250.83",
        "diag_2": "?",
        "diag_3": "?",
        "max_glu_serum": "None",
        "A1Cresult": "None",
        "change": "No",
        "diabetesMed": "No",
        "readmitted": "NO",
    }
)


@pytest.fixture
def write(tmp_path):
    """Write stays that differ from BASE in the given columns, as UCI's file would have them."""

    def write_file(name="diabetic_data.csv", **columns):
        n = max((len(values) for values in columns.values()), default=1)
        rows = pd.DataFrame({key: [value] * n for key, value in BASE.items()}).assign(**columns)
        path = tmp_path / name
        text = rows.to_csv(index=False)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write_file


@pytest.mark.parametrize("name", ["diabetic_data.csv", "diabetic_data.csv.gz"])
def test_a_file_is_read_as_it_is(write, name):
    path = write(
        name,
        encounter_id=["5", "6", "7"],
        patient_nbr=["10", "10", "11"],
        race=["Asian", "?", "Caucasian"],
        readmitted=["<30", ">30", "NO"],
        time_in_hospital=["1", "2", "14"],
        discharge_disposition_id=["1", "25", "3"],
    )
    X, y = load_readmission(path)
    assert X.shape == (3, 47)
    assert set(X.columns) == {*DESCRIPTIONS, *OTHER_DESCRIPTIONS} == set(X.attrs["descriptions"])
    assert y.tolist() == ["<30", ">30", "NO"]
    assert X.index.get_level_values("patient_nbr").tolist() == [10, 10, 11]
    assert X.index.equals(y.index)
    assert X["race"].isna().tolist() == [False, True, False]
    assert X["max_glu_serum"].tolist() == ["None"] * 3  # not measured is a value, not a missing one
    assert X["weight"].isna().all()
    assert X["time_in_hospital"].tolist() == [1, 2, 14]
    assert X["discharge_disposition_id"].cat.categories.tolist() == [1, 3, 25]


def test_the_papers_table_has_19_features(write):
    X, y = load_readmission(write(readmitted=["<30", ">30", "NO"]), discretize="paper")
    assert list(X.columns) == list(DESCRIPTIONS)
    assert X.shape == (3, 19)
    assert all(isinstance(dtype, pd.CategoricalDtype) for dtype in X.dtypes)
    assert y.tolist() == ["readmitted", "otherwise", "otherwise"]
    n_values = {name: len(X[name].cat.categories) for name in X.columns}
    assert n_values == dict.fromkeys(DRUGS, 3) | dict(
        race=3,
        gender=2,
        age=9,
        discharge_disposition_id=2,
        admission_source_id=3,
        time_in_hospital=3,
        medical_specialty=4,
        A1Cresult=4,
        diabetesMed=2,
        change=2,
        diag_1=6,
        admission_type_id=2,
    )


@pytest.mark.parametrize(
    ("name", "values", "bins"),
    [
        ("race", ["Caucasian", "AfricanAmerican", "Asian", "Other"], ["Caucasian", "AfricanAmerican"] + ["others"] * 2),
        ("race", ["?"], [None]),
        ("gender", ["Male", "Female", "Unknown/Invalid"], ["male", "female", None]),
        ("age", ["[0-10)", "[70-80)", "[80-90)", "[90-100)"], ["[0-10)", "[70-80)", "[80-100)", "[80-100)"]),
        ("discharge_disposition_id", ["1", "6", "18"], ["home", "otherwise", "otherwise"]),
        (
            "admission_source_id",
            ["7", "1", "2", "3", "17"],
            ["emergency room"] + ["physician/clinic referral"] * 2 + ["otherwise"] * 2,
        ),
        ("time_in_hospital", ["1", "2", "7", "8", "14"], ["<2", "2-7", "2-7", ">7", ">7"]),
        (
            "medical_specialty",
            ["InternalMedicine", "Family/GeneralPractice", "Cardiology", "Surgery-General", "?"],
            ["InternalMedicine", "Family/GeneralPractice", "Cardiology", "others", "others"],
        ),
        ("A1Cresult", [">7", ">8", "None", "Norm"], [">7", ">8", "none", "other"]),
        ("diabetesMed", ["Yes", "No"], ["yes", "no"]),
        ("change", ["Ch", "No"], ["yes", "no"]),
        ("insulin", ["Up", "Down", "Steady", "No"], ["Up", "Down", "No or Steady", "No or Steady"]),
        ("admission_type_id", ["1", "2", "6"], ["emergency", "other", "other"]),
        ("diag_1", ["250", "250.83", "249", "?"], ["diabetes", "diabetes", "other", None]),
        ("diag_1", ["389", "390", "459", "785"], ["other"] + ["circulatory system"] * 3),
        ("diag_1", ["460", "519", "786"], ["respiratory system"] * 3),
        ("diag_1", ["520", "579", "787", "580"], ["digestive system"] * 3 + ["other"]),
        ("diag_1", ["799", "800", "999", "V27", "E909"], ["other"] + ["injury and poisoning"] * 2 + ["other"] * 2),
    ],
)
def test_the_papers_bins(write, name, values, bins):
    X, _ = load_readmission(write(**{name: values}), discretize="paper")
    assert X[name].astype(object).where(X[name].notna(), None).tolist() == bins


def test_without_a_file_the_table_comes_from_openml(write, monkeypatch):
    from_file = pd.read_csv(write(age=["[70-80)"], insulin=["Up"]), keep_default_na=False)
    from_file = from_file.mask(from_file == "?")
    # ARFF: names are categories, some of them quoted; codes come as categories too.
    frame = from_file.assign(age=["'[70-80)'"], admission_type_id=["1"]).astype(
        {"age": "category", "admission_type_id": "category"}
    )
    asked = {}

    def fetch_openml(**arguments):
        asked.update(arguments)
        return SimpleNamespace(frame=frame)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    X, y = load_readmission(discretize="paper")
    assert asked["data_id"] == 4541
    assert X.iloc[0][["age", "insulin", "admission_type_id"]].tolist() == ["[70-80)", "Up", "emergency"]
    assert y.tolist() == ["otherwise"]
    raw, _ = load_readmission()
    assert raw["race"].tolist() == ["Caucasian"]
    assert raw["weight"].isna().all()
    assert raw["admission_type_id"].tolist() == [1]


def test_a_file_that_is_not_there_names_the_remedy(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv.*doi\.org.*OpenML"):
        load_readmission(tmp_path / "nowhere.csv")


def test_another_table_is_refused_by_its_missing_columns(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("encounter_id,race\n1,Asian\n")
    with pytest.raises(ValueError, match=r"other\.csv has no column 'patient_nbr', 'gender'"):
        load_readmission(path)


def test_text_in_place_of_a_number_names_the_column(write):
    with pytest.raises(ValueError, match="column 'time_in_hospital' must contain numbers"):
        load_readmission(write(time_in_hospital=["three"]))
