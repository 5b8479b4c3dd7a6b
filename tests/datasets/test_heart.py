import numpy as np
import pandas as pd
import pytest

from bayespatch.datasets import load_heart
from bayespatch.datasets.heart import LABELS, paper_bins

# tab:heart: the printed number of outcomes, but for chest pain, of which it lists three and counts two.
N_VALUES = dict(
    age=3, sex=2, cp=3, trestbps=3, chol=3, fbs=2, restecg=2, thalach=3, exang=2, oldpeak=2, slope=2, ca=2, thal=2
)


def test_the_table_is_the_cleveland_table():
    X, y = load_heart()
    assert X.shape == (303, 13)
    assert y.value_counts().to_dict() == {0: 164, 1: 139}
    assert X.isna().any(axis=1).sum() == 6
    assert X.isna().sum()[lambda n: n > 0].to_dict() == {"ca": 4, "thal": 2}
    assert X.iloc[0].tolist() == [63, 1, 1, 145, 233, 1, 2, 150, 0, 2.3, 3, 0, 6]


def test_codes_are_categories_with_labels_and_numbers_are_numbers():
    X, _ = load_heart()
    for name in X.columns:
        if name in LABELS:
            assert isinstance(X[name].dtype, pd.CategoricalDtype)
            assert set(X[name].cat.categories) == set(X.attrs["labels"][name])
            assert set(X[name].dropna()) == set(X.attrs["labels"][name])
        else:
            assert pd.api.types.is_numeric_dtype(X[name])
    assert X["slope"].cat.ordered
    assert np.asarray(X, dtype=float).shape == (303, 13)


def test_the_papers_bins_have_the_tables_number_of_values():
    X, y = load_heart(discretize="paper")
    assert {name: len(X[name].cat.categories) for name in X.columns} == N_VALUES
    assert X.isna().sum().sum() == 6
    assert y.sum() == 139
    occurring = X.nunique()
    assert occurring["thalach"] == 1
    assert occurring.drop("thalach").to_dict() == {k: v for k, v in N_VALUES.items() if k != "thalach"}


@pytest.mark.parametrize(
    ("name", "values", "bins"),
    [
        ("age", [29, 44, 45, 54, 55, 77], ["<45", "<45", "[45,55)", "[45,55)", ">=55", ">=55"]),
        ("trestbps", [94, 120, 121, 140, 141], ["<=120", "<=120", "(120,140]", "(120,140]", ">140"]),
        ("chol", [240, 241, 260, 261, 400, 564], ["<=240", "(240,260]", "(240,260]", ">260", ">260", ">260"]),
        ("thalach", [50, 51, 65, 66, 71, 202], ["<=50", "(50,65]", "(50,65]", ">65", ">65", ">65"]),
        ("oldpeak", [0.0, 0.5, 0.6, 6.2], ["<=0.5", "<=0.5", ">0.5", ">0.5"]),
        ("cp", [1, 2, 3, 4], ["typical or atypical angina"] * 2 + ["non-anginal pain", "asymptomatic"]),
        ("restecg", [0, 1, 2], ["normal", "abnormal", "abnormal"]),
        ("slope", [1, 2, 3], ["upsloping", "flat or downsloping", "flat or downsloping"]),
        ("ca", [0.0, 1.0, 2.0, 3.0], ["0", "1 to 3", "1 to 3", "1 to 3"]),
        ("thal", [3.0, 6.0, 7.0], ["normal", "defect", "defect"]),
        ("fbs", [0, 1], ["<=120 mg/dl", ">120 mg/dl"]),
        ("sex", [0, 1], ["female", "male"]),
        ("exang", [0, 1], ["no", "yes"]),
    ],
)
def test_the_edges_of_the_papers_bins(name, values, bins):
    table = pd.DataFrame({column: [0] * len(values) for column in N_VALUES}).assign(**{name: values})
    assert paper_bins(table)[name].tolist() == bins


def test_the_papers_bins_agree_with_a_direct_count():
    raw, _ = load_heart()
    X, _ = load_heart(discretize="paper")
    assert (X["age"] == "[45,55)").sum() == ((raw["age"] >= 45) & (raw["age"] < 55)).sum() == 88
    assert (X["chol"] == ">260").sum() == (raw["chol"] > 260).sum() == 107
    assert (X["oldpeak"] == "<=0.5").sum() == (raw["oldpeak"] <= 0.5).sum() == 135
