"""The order of the classes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bayespatch.encode import class_order

STAGES = ["none", "mild", "severe"]
CLASSES = np.array(sorted(STAGES))  # mild, none, severe


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(["mild", "none", "severe"], dtype=pd.CategoricalDtype(STAGES, ordered=True)),
        pd.Categorical(["mild", "none", "severe"], STAGES, ordered=True),
        pl.Series(["mild", "none", "severe"], dtype=pl.Enum(STAGES)),
    ],
    ids=["pandas", "Categorical", "polars"],
)
def test_ordered_categories_have_an_order(y):
    assert class_order(y, CLASSES).tolist() == [1, 0, 2]


def test_categories_that_do_not_occur_are_left_out():
    y = pd.Series(["none", "severe"], dtype=pd.CategoricalDtype(STAGES, ordered=True))
    assert class_order(y, np.array(["none", "severe"])).tolist() == [0, 1]


def test_numbers_as_ordered_categories():
    y = pd.Series([3, 1, 2], dtype=pd.CategoricalDtype([3, 2, 1], ordered=True))
    assert class_order(y, np.array([1, 2, 3])).tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    "y",
    [["mild", "none"], np.array([0, 1]), pd.Series(["a", "b"]), pd.Series(["a", "b"], dtype="category"),
     pl.Series(["a", "b"]), pl.Series(["a", "b"], dtype=pl.Categorical)],
)  # fmt: skip
def test_all_else_has_none(y):
    assert class_order(y, np.unique(np.asarray(y))) is None
