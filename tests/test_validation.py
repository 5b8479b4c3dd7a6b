"""What may enter the sampler, and in which words the rest is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bayespatch.model import Hyperparameters
from bayespatch.sampling.sampler import sample
from bayespatch.validation import check_data, check_model

NAN, INF = float("nan"), float("inf")
GOOD = {
    "x": [[0, 1], [1, 2], [0, 0]],
    "y": [0, 1, -1],
    "x_parents": [[0, 1], [1, 0]],
    "y_parents": [0, 1],
    "n_values": [2, 3],
    "n_classes": 2,
}


def refused(match: str, **changes) -> None:
    """`sample` refuses the good problem with these changes, by a ValueError that matches, before it loads an engine."""
    with pytest.raises(ValueError, match=match):
        sample(**{**GOOD, "draws": 10**6, "warmup": 10**6, **changes})


# Shapes


def test_x_must_be_two_dimensional():
    refused(r"x has shape \(3,\); pass a two-dimensional array of shape \(cases, features\)", x=[0, 1, 0])
    refused(r"x_parents has shape \(2,\); .*\(parents, features\)", x_parents=[0, 1])
    refused("x is not a rectangular array", x=[[0, 1], [1]])


def test_there_must_be_cases_parents_and_features():
    refused(r"x has shape \(0, 2\): there are no cases; pass at least one row", x=np.empty((0, 2)), y=[])
    refused(
        r"x_parents has shape \(0, 2\): there are no parents; pass at least one row",
        x_parents=np.empty((0, 2)),
        y_parents=[],
    )
    refused("there are no features; pass at least one column", x=np.empty((3, 0)), x_parents=np.empty((2, 0)))


def test_cases_and_parents_have_the_same_features():
    refused("x has 2 columns and x_parents has 1; pass the same features", x_parents=[[0], [1]])


def test_one_class_per_row():
    refused(r"y has shape \(2,\) for 3 rows of x; pass one class per row", y=[0, 1])
    refused(r"y has shape \(3, 1\) for 3 rows of x", y=[[0], [1], [0]])
    refused(r"y_parents has shape \(3,\) for 2 rows of x_parents", y_parents=[0, 1, 1])


def test_one_number_of_values_per_feature():
    refused(r"n_values has shape \(3,\) for 2 features; pass one number of values per feature", n_values=[2, 3, 2])
    refused(r"n_values has shape \(\) for 2 features", n_values=3)


def test_one_window_per_feature():
    refused(r"windows has shape \(1,\) for 2 features; pass one number per feature, or None", windows=[0])


def test_exclude_self_needs_as_many_cases_as_parents():
    refused("exclude_self=True means that case i is parent i, but there are 3 cases and 2 parents", exclude_self=True)


# Values


def test_codes_stay_below_the_number_of_values():
    refused(
        r"x column 1 holds 3, 7, but its codes are the integers from 0 to n_values\[1\] - 1 = 2; pass codes",
        x=[[0, 3], [1, 7], [0, 0]],
    )
    refused("x_parents column 0 holds -1, but its codes", x_parents=[[-1, 1], [1, 0]])


def test_codes_are_integers():
    refused("x column 1 holds 0.5, but its codes are the integers", x=[[0, 0.5], [1, 2], [0, 0]])


def test_many_wrong_codes_are_cut_short():
    refused(r"x column 0 holds 9, 8, 7, 6, \.\.\., but", x=[[9], [8], [7], [6], [5]], y=[0] * 5, x_parents=[[0], [1]],
            n_values=[2])  # fmt: skip


def test_missing_values_are_refused_with_column_count_and_remedy():
    refused(
        r"x has missing values \(NaN\) in column 1 \(2 of them\); pass missing='ignore'",
        x=[[0, NAN], [1, NAN], [0, 0]],
    )
    refused(r"x_parents has missing values \(NaN\) in column 0 \(1 of them\)", x_parents=[[None, 1], [1, 0]])


def test_many_missing_columns_are_cut_short():
    wide = np.full((1, 7), NAN)
    with pytest.raises(ValueError, match=r"column 3 \(1 of them\) and 3 more columns; pass missing"):
        check_data(wide, [0], np.zeros((1, 7)), [0], n_values=[2] * 7, n_classes=1)


def test_missing_values_may_be_ignored():
    data = check_data(
        **{**GOOD, "x": [[0, NAN], [NAN, NAN], [0, 0]], "x_parents": [[0, None], [1, 0]]}, missing="ignore"
    )
    assert np.isnan(data.x).sum() == 3
    assert np.isnan(data.x_parents).sum() == 1


@pytest.mark.parametrize("missing", ["error", "ignore"])
def test_infinite_values_are_refused(missing):
    refused(
        r"x has infinite values in column 0 \(1 of them\); pass finite codes",
        x=[[INF, 1], [1, 2], [0, 0]],
        missing=missing,
    )


def test_infinite_values_are_refused_beside_a_window():
    refused("x_parents has infinite values in column 1", x_parents=[[0, -INF], [1, 0]], windows=[0, 1])


def test_text_is_refused():
    refused("x holds values that are not numbers .*; pass an array of codes", x=[["a", "b"], ["c", "d"], ["e", "f"]])
    refused("y holds values that are not numbers .*; pass integers", y=["yes", "no", "no"])
    refused("x holds values that are not numbers .dtype object.", x=np.array([[0, "a"], [1, 1], [0, 0]], dtype=object))
    refused("x holds values that are not numbers .dtype complex", x=np.zeros((3, 2), dtype=complex))


def test_classes_stay_in_range():
    refused(r"y holds 2 \(row 1 first\); pass integers from 0 to n_classes - 1 = 1 \(-1 if", y=[0, 2, 1])
    refused("y holds -2 .row 0 first", y=[-2, 0, 1])
    refused("y holds 0.5 .row 2 first", y=[0, 1, 0.5])
    refused("y holds nan .row 0 first.; .*-1 if the class is not known", y=[NAN, 1, 0])


@pytest.mark.parametrize("supervised", [True, False])
def test_parents_must_have_a_class(supervised):
    refused(
        r"y_parents holds -1 \(row 1 first\); pass integers from 0 to n_classes - 1 = 1$",
        y_parents=[0, -1],
        supervised=supervised,
    )


def test_n_values_are_whole_numbers_of_at_least_one():
    refused(r"n_values\[1\]=0 is not a finite number of at least 1; a feature has at least one value", n_values=[2, 0])
    refused(r"n_values\[0\]=nan is not a finite number", n_values=[NAN, 3])
    refused(r"n_values\[1\]=2.5 is not an integer; pass how many codes column 1 has, or windows", n_values=[2, 2.5])


def test_a_window_must_be_narrower_than_the_range():
    refused(r"n_values\[1\]=0.5 is not a finite number of at least 1; pass a smaller window", n_values=[2, 0.5],
            windows=[0, 9])  # fmt: skip


def test_windows_are_distances():
    refused(r"windows\[1\]=-1 is not a distance; pass finite numbers of at least 0", windows=[0, -1])
    refused(r"windows\[0\]=nan is not a distance", windows=[NAN, 0])
    refused(r"windows\[0\]=inf is not a distance", windows=[INF, 0])


# Words and counts


@pytest.mark.parametrize(
    ("name", "value", "choices"),
    [
        ("engine", "gpu", "'auto', "),
        ("model", "IV", "'I', 'II', 'III'"),
        ("model", 1, "'I', 'II', 'III'"),
        ("likelihood", "approximate", "'exact', 'paper'"),
        ("missing", "category", "'error', 'ignore'"),
    ],
)
def test_unknown_words_are_answered_with_the_known_ones(name, value, choices):
    refused(f"{name}={value!r} is not valid; choose one of {choices}", **{name: value})


@pytest.mark.parametrize("name", ["chains", "draws", "thin", "n_threads", "n_classes"])
def test_counts_start_at_one(name):
    refused(f"{name}=0 is too small; pass an integer of at least 1", **{name: 0})


@pytest.mark.parametrize("name", ["warmup", "seed"])
def test_warmup_and_seed_start_at_zero(name):
    refused(f"{name}=-1 is too small; pass an integer of at least 0", **{name: -1})


@pytest.mark.parametrize("name", ["chains", "draws", "thin", "n_threads", "n_classes", "warmup", "seed"])
@pytest.mark.parametrize("value", [2.0, True, "2", np.array([2])])
def test_counts_are_integers(name, value):
    refused(rf"{name}=.* is not an integer; pass an integer", **{name: value})


@pytest.mark.parametrize("name", ["chains", "draws", "thin", "warmup", "seed"])
def test_none_is_not_a_count(name):
    refused(f"{name}=None is not an integer", **{name: None})


def test_a_seed_fits_64_bits():
    refused(r"seed=9223372036854775808 is too large; pass an integer of at most 2\*\*63 - 1", seed=2**63)


def test_more_draws_than_can_be_counted():
    refused(r"chains\*draws=20000000 is above 2\*\*24; pass fewer draws", chains=20, draws=10**6)


@pytest.mark.parametrize("name", ["supervised", "exclude_self", "keep_w", "keep_votes", "progress"])
def test_flags_are_true_or_false(name):
    refused(f"{name}='yes' is neither True nor False; pass one of them", **{name: "yes"})


# Constants


def test_hyper_must_be_hyperparameters():
    refused(
        r"hyper=\{'alpha': 0.1\} is not a Hyperparameters object; pass hyper=Hyperparameters\(", hyper={"alpha": 0.1}
    )


def test_one_vote_weight_per_class():
    refused(r"hyper.mu=\(1.0, 2.0, 3.0\) has 3 numbers, one per class", hyper=Hyperparameters(mu=(1.0, 2.0, 3.0)))
    refused(
        r"hyper.gamma=\(1.0, 2.0, .*\) has 9 numbers, one per feature",
        hyper=Hyperparameters(gamma=(1.0, 2.0) + (3.0,) * 7),
    )


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, NAN])
def test_alpha_is_a_probability(alpha):
    with pytest.raises(ValueError, match="alpha"):
        Hyperparameters(alpha=alpha)


@pytest.mark.parametrize("name", ["lam0", "lam", "mu0", "mu", "gamma", "sigma1", "sigma2", "tau", "sigma3"])
@pytest.mark.parametrize("value", [-1.0, NAN, INF])
def test_other_constants_are_positive(name, value):
    with pytest.raises(ValueError, match=name):
        Hyperparameters(**{name: value})


# What passes


def test_what_passes_has_the_types_of_the_contract():
    data = check_data(**GOOD)
    assert data.x.dtype == data.x_parents.dtype == data.n_values.dtype == data.windows.dtype == np.float64
    assert data.y.dtype == data.y_parents.dtype == data.own_parent.dtype == np.int64
    assert data.y.tolist() == [0, 1, -1]
    assert data.windows.tolist() == [0, 0]
    assert data.own_parent.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float32, np.float64])
def test_any_numbers_will_do(dtype):
    data = check_data(**{**GOOD, "x": np.array(GOOD["x"], dtype=dtype), "y": np.array([0, 1, 1], dtype=dtype)})
    assert data.x.tolist() == GOOD["x"]


def test_truth_values_are_codes():
    data = check_data([[True], [False]], [True, False], [[False]], [True], n_values=[2], n_classes=2)
    assert data.x.tolist() == [[1], [0]]
    assert data.y.tolist() == [1, 0]


def test_later_changes_of_the_callers_arrays_do_not_reach_the_data():
    x = np.array(GOOD["x"], dtype=float)
    data = check_data(**{**GOOD, "x": x})
    x[:] = 1
    assert data.x.tolist() == GOOD["x"]


def test_unsupervised_hides_every_class_of_the_cases():
    data = check_data(**GOOD, supervised=False)
    assert data.y.tolist() == [-1, -1, -1]
    assert data.y_parents.tolist() == [0, 1]


def test_exclude_self_names_each_case_as_its_own_parent():
    data = check_data(**{**GOOD, "x": GOOD["x_parents"], "y": GOOD["y_parents"]}, exclude_self=True)
    assert data.own_parent.tolist() == [0, 1]


def test_values_beside_a_window_need_not_be_codes():
    data = check_data(**{**GOOD, "x": [[0, -1.5], [1, 99.25], [0, 0]], "n_values": [2, 12.5]}, windows=[0, 4])
    assert data.x[1, 1] == 99.25
    assert data.n_values.tolist() == [2, 12.5]


def test_model_defaults_to_the_default_constants():
    assert check_model("II", "paper", None, 2, 3).hyper == Hyperparameters()
    assert check_model("I", "exact", Hyperparameters(mu=(1.0, 2.0)), 2, 3).hyper.mu == (1.0, 2.0)


@given(
    x=arrays(np.float64, (2, 2), elements=st.floats(-2, 4) | st.just(NAN) | st.just(INF)),
    y=arrays(np.float64, 2, elements=st.sampled_from([-2, -1, 0, 1, 2, 0.5])),
)
def test_nothing_wrong_passes(x, y):
    """Either a ValueError, or codes and classes within their ranges."""
    try:
        data = check_data(x, y, [[0, 0]], [0], n_values=[2, 3], n_classes=2)
    except ValueError:
        return
    assert ((data.x >= 0) & (data.x < [2, 3]) & (data.x == data.x.astype(int))).all()
    assert set(data.y) <= {-1, 0, 1}
