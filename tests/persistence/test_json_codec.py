import json
import math
import tracemalloc

import numpy as np
import pandas
import polars
import pytest

from bayespatch import Hyperparameters
from bayespatch.persistence.json_codec import (
    array_from_json,
    array_to_json,
    classes_from_json,
    from_json,
    hyper_from_json,
    hyper_to_json,
    parameters_to_json,
    to_json,
)

VALUES = [
    None,
    True,
    0,
    -3,
    1.0,
    0.1,
    -0.0,
    1e-310,
    "",
    "é☹",
    [1, "a", [None]],
    (1.5, (2, 3)),
    {"a", "b"},
    frozenset([3]),
    {"age": [45, 55], None: ("uniform", 5), 3: 1.0, True: {"x": ()}, 2.5: 1},
    Hyperparameters(alpha=0.3, lam=2, mu=(1.0, 2.5)),
    math.inf,
    -math.inf,
]


def there_and_back(value):
    return from_json(json.loads(json.dumps(to_json(value), allow_nan=False)))


@pytest.mark.parametrize("value", VALUES)
def test_values_come_back_with_their_types(value):
    assert repr(there_and_back(value)) == repr(value)


def test_not_a_number_comes_back():
    assert math.isnan(there_and_back(math.nan))


@pytest.mark.parametrize(
    ("value", "becomes"),
    [(np.float64(0.5), 0.5), (np.int32(3), 3), (np.bool_(True), True), (np.str_("a"), "a"), (np.float32(0.1), None)],
)
def test_numpy_scalars_become_pythons(value, becomes):
    found = there_and_back(value)
    assert type(found) in (float, int, bool, str)
    assert found == (value.item() if becomes is None else becomes)


@pytest.mark.parametrize(
    "array",
    [
        np.array([3, 1]),
        np.array([True, False]),
        np.array([0.1, math.nan, -math.inf], dtype=np.float32),
        np.array(["a", "bcd"], dtype="<U9"),
        np.array(["é", None, 1, 2.5, True], dtype=object),
        np.array([], dtype=np.int64),
        np.arange(6).reshape(2, 3),
        np.array(5),
        np.array([2**64 - 1], dtype=np.uint64),
        np.array([1, 2], dtype=">i2"),
        np.empty(0, dtype="<U9"),
    ],
    ids=repr,
)
def test_arrays_come_back_with_their_types(array):
    found = there_and_back(array)
    assert found.dtype == array.dtype
    assert repr(found) == repr(array)


@pytest.mark.parametrize("series", [pandas.Index(["a", "b"]), pandas.Series([1, 2]), polars.Series([True, False])])
def test_what_offers_itself_as_an_array_becomes_one(series):
    found = there_and_back(series)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == list(series)


def test_texts_of_variable_width_and_absurdly_wide_ones():
    assert there_and_back(np.array(["a", "bc"], dtype=np.dtypes.StringDType())).tolist() == ["a", "bc"]
    assert there_and_back(np.array(["a"], dtype="<U100000")).dtype == "<U256"
    assert there_and_back(np.array(["a" * 5000])).tolist() == ["a" * 5000]


@pytest.mark.parametrize(
    "value",
    [
        object(),
        print,
        1j,
        b"a",
        [object()],
        np.array([1j]),
        np.array(["2020"], dtype="M8[D]"),
        np.array([[1], None], dtype=object),
    ],
    ids=["object", "function", "complex", "bytes", "list", "complex array", "dates", "array of objects"],
)
def test_what_cannot_be_stored_is_named(value):
    with pytest.raises(ValueError, match=r"parameter bins=.*cannot be stored"):
        parameters_to_json({"bins": value})


def test_generators_and_functions_have_a_rule():
    given = {"random_state": np.random.default_rng(0), "progress": print, "checkpoint": "run", "chains": 3}
    assert parameters_to_json(given) == {"random_state": None, "progress": False, "checkpoint": None, "chains": 3}


@pytest.mark.parametrize(
    "data",
    [
        [],
        {},
        {"type": "list"},
        {"value": [], "type": "list"},
        {"type": "object", "value": 1},
        {"type": "float", "value": "1"},
        {"type": "list", "value": 1},
        {"type": "dict", "value": [["a", 1], ["a", 2]]},
        {"type": "dict", "value": [["a"]]},
        {"type": "dict", "value": [[{"type": "tuple", "value": [1, 2]}, 1]]},
        {"type": "dict", "value": [[{"type": "list", "value": []}, 1]]},
        {"type": [], "value": 1},
        {"type": "Hyperparameters", "value": {}},
        {"type": "array", "value": []},
    ],
)
def test_what_is_no_stored_parameter(data):
    with pytest.raises((ValueError, TypeError)):
        from_json(data)


def wrong_array(**parts):
    return {"dtype": "<i8", "shape": [2], "values": [1, 2], **parts}


@pytest.mark.parametrize(
    "data",
    [
        None,
        wrong_array(dtype="|V8"),
        wrong_array(dtype="<M8[D]"),
        wrong_array(dtype=8),
        wrong_array(dtype="|b1"),
        wrong_array(dtype="<f8"),
        wrong_array(dtype="<U1"),
        wrong_array(dtype="|i1", values=[1, 300]),
        wrong_array(dtype="<U2", values=["abc", "a"]),
        wrong_array(dtype="<U9999999", values=["abc", "a"]),
        wrong_array(values=[1, True]),
        wrong_array(values=[1, 2.0]),
        wrong_array(values=[1, None]),
        wrong_array(values=[1]),
        wrong_array(shape=[-1, -2]),
        wrong_array(shape=[2.0]),
        wrong_array(shape=[True, 2]),
        wrong_array(shape=[1] * 9 + [2]),
        wrong_array(dtype="|O", values=[{"type": "list", "value": [1, 2]}, 1]),
        wrong_array(more=1),
    ],
)
def test_what_is_no_stored_array(data):
    with pytest.raises((ValueError, TypeError, OverflowError)):
        array_from_json(data)


@pytest.mark.parametrize(("dtype", "n"), [("<U4096", 100_000), ("<U9999999", 1000), ("<U4096", 450)])
def test_an_array_far_larger_than_its_values_takes_no_memory(dtype, n):
    """A manifest of a few hundred kilobytes could ask for hundreds of gigabytes."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="far larger than its values"):
            array_from_json({"dtype": dtype, "shape": [n], "values": [""] * (n - 1) + ["a" * 50]})
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("values", [[2, 1], [1, 1], [], [[1], [2]]])
def test_classes_are_in_order_each_once(values):
    with pytest.raises(ValueError, match="classes"):
        classes_from_json(array_to_json(np.array(values, dtype=np.int64)))


@pytest.mark.parametrize("values", [[1], ["a", "b"], [False, True], [-1.5, 0.0, 2.0]])
def test_classes_come_back(values):
    found = classes_from_json(array_to_json(np.array(values)))
    assert found.tolist() == values
    assert found.dtype == np.array(values).dtype


def test_constants_come_back_and_nothing_else():
    hyper = Hyperparameters(mu=(1.0, np.float64(2.0)), lam=3)
    assert hyper_from_json(hyper_to_json(hyper)) == hyper
    stored = hyper_to_json(hyper)
    for wrong in (
        {**stored, "alpha": "0.1"},
        {**stored, "alpha": True},
        {**stored, "mu": []},
        {**stored, "mu": [1.0, None]},
        {**stored, "lam": [1.0, 2.0]},
        {**stored, "alpha": 2.0},
        {**stored, "more": 1.0},
        dict(reversed(stored.items())),
        None,
    ):
        with pytest.raises(ValueError):
            hyper_from_json(wrong)
