import pandas as pd
import pytest

from bayespatch.datasets import load_breast

# tab:breast: the printed number of outcomes.
N_VALUES = {
    "age": 3,
    "menopause": 3,
    "tumor-size": 4,
    "inv-nodes": 2,
    "node-caps": 2,
    "deg-malig": 3,
    "breast": 2,
    "breast-quad": 4,
    "irradiat": 2,
}


def test_the_table_is_the_ljubljana_table():
    X, y = load_breast()
    assert X.shape == (286, 9)
    assert y.value_counts().to_dict() == {"no-recurrence-events": 201, "recurrence-events": 85}
    assert X.isna().any(axis=1).sum() == 9
    assert X.isna().sum()[lambda n: n > 0].to_dict() == {"node-caps": 8, "breast-quad": 1}
    assert X.iloc[0].tolist() == ["40-49", "premeno", "15-19", "0-2", "yes", 3, "right", "left_up", "no"]


def test_ranges_are_ordered_by_size_not_by_spelling():
    X, _ = load_breast()
    assert all(isinstance(X[name].dtype, pd.CategoricalDtype) for name in X.columns)
    assert list(X["tumor-size"].cat.categories)[:4] == ["0-4", "5-9", "10-14", "15-19"]
    assert list(X["inv-nodes"].cat.categories)[-2:] == ["15-17", "24-26"]
    assert [name for name in X.columns if X[name].cat.ordered] == ["age", "tumor-size", "inv-nodes", "deg-malig"]


def test_the_papers_bins_have_the_tables_number_of_values():
    X, y = load_breast(discretize="paper")
    assert {name: len(X[name].cat.categories) for name in X.columns} == N_VALUES
    assert X.nunique().to_dict() == N_VALUES
    assert X.isna().sum().sum() == 9
    assert (y == "recurrence-events").sum() == 85


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("age", {"<50": {"20-29", "30-39", "40-49"}, "50-59": {"50-59"}, ">=60": {"60-69", "70-79"}}),
        (
            "tumor-size",
            {
                "0-19": {"0-4", "5-9", "10-14", "15-19"},
                "20-29": {"20-24", "25-29"},
                "30-39": {"30-34", "35-39"},
                "40-59": {"40-44", "45-49", "50-54"},
            },
        ),
        ("inv-nodes", {"0-2": {"0-2"}, ">2": {"3-5", "6-8", "9-11", "12-14", "15-17", "24-26"}}),
        ("menopause", {"<40": {"lt40"}, ">=40": {"ge40"}, "premenopausal": {"premeno"}}),
        ("deg-malig", {"1": {1}, "2": {2}, "3": {3}}),
        (
            "breast-quad",
            {
                "left upper": {"left_up"},
                "left lower": {"left_low"},
                "right": {"right_up", "right_low"},
                "central": {"central"},
            },
        ),
    ],
)
def test_each_bin_holds_the_values_of_the_papers_table(name, members):
    raw, _ = load_breast()
    X, _ = load_breast(discretize="paper")
    assert {bin: set(raw[name][X[name] == bin]) for bin in X[name].cat.categories} == members
