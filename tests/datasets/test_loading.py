import sys

import pandas as pd
import pytest

from bayespatch.datasets import load_breast, load_heart, load_readmission
from bayespatch.datasets.loading import cut, group


def test_an_edge_belongs_to_the_side_that_is_closed():
    values = pd.Series([-1e9, 44.999, 45, 54.999, 55, 1e9])
    assert list(cut(values, [45, 55], ["a", "b", "c"], closed="left")) == ["a", "a", "b", "b", "c", "c"]
    assert list(cut(values, [45, 55], ["a", "b", "c"], closed="right")) == ["a", "a", "a", "b", "b", "c"]


def test_missing_stays_missing_when_cut_or_grouped():
    values = pd.Series([1.0, None])
    assert cut(values, [2], ["low", "high"], closed="left").isna().tolist() == [False, True]
    assert group(values, {"one": [1]}).isna().tolist() == [False, True]
    assert group(values, {"two": [2]}, otherwise="other").isna().tolist() == [False, True]


def test_a_value_in_no_group_is_otherwise_or_missing():
    values = pd.Series(["a", "b"], index=[7, 9], name="letter")
    named = group(values, {"A": ["a"]}, otherwise="other")
    assert named.tolist() == ["A", "other"]
    assert list(named.cat.categories) == ["A", "other"]
    assert named.index.tolist() == [7, 9]
    assert named.name == "letter"
    assert group(values, {"A": ["a"]}).isna().tolist() == [False, True]


@pytest.mark.parametrize("load", [load_heart, load_breast, load_readmission])
def test_an_unknown_discretize_names_the_remedy(load):
    with pytest.raises(ValueError, match=r'discretize must be None .* or "paper"'):
        load(discretize="quartiles")


@pytest.mark.parametrize("load", [load_heart, load_breast])
def test_without_pandas_the_install_command_is_named(load, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'bayespatch\[datasets\]'"):
        load()


@pytest.mark.parametrize("load", [load_heart, load_breast])
@pytest.mark.parametrize("discretize", [None, "paper"])
def test_every_column_is_described_and_loads_do_not_share_state(load, discretize):
    X, y = load(discretize=discretize)
    assert list(X.attrs["descriptions"]) == list(X.columns)
    assert y.attrs["description"]
    X.attrs["descriptions"].clear()
    X.iloc[0, 0] = None
    again, _ = load(discretize=discretize)
    assert list(again.attrs["descriptions"]) == list(again.columns)
    assert again.iloc[0, 0] is not None
    assert y.index.equals(again.index)
