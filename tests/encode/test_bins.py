"""Where numbers are cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayespatch.encode.bins import Cut, learn_edges, read_cut, read_outcome

DEFAULT = Cut("quantile", 4)


def counts(numbers, edges) -> list[int]:
    return np.bincount(np.searchsorted(edges, numbers, side="right"), minlength=len(edges) + 1).tolist()


def test_quantile_bins_hold_equally_many():
    numbers = np.random.default_rng(0).normal(size=1000)
    assert counts(numbers, learn_edges(numbers, DEFAULT)) == [250] * 4
    assert counts(numbers, learn_edges(numbers, Cut("quantile", 5))) == [200] * 5


def test_the_unit_does_not_matter():
    numbers = np.random.default_rng(0).normal(size=1000)
    for unit in (1e-12, 1e12):
        assert np.allclose(np.array(learn_edges(numbers * unit, DEFAULT)) / unit, learn_edges(numbers, DEFAULT))


def test_uniform_bins_are_equally_wide():
    edges = learn_edges(np.array([0.0, 0.1, 10.0]), Cut("uniform", 4))
    assert edges == (2.5, 5.0, 7.5)


def test_supervised_bins_lie_where_the_outcome_changes():
    numbers = np.random.default_rng(0).permutation(np.arange(200.0))
    outcome = ((numbers >= 50) & (numbers < 120)).astype(float)
    assert learn_edges(numbers, Cut("supervised", 4), outcome) == (50.0, 120.0)
    assert learn_edges(numbers, Cut("supervised", 2), numbers / 7 + (numbers >= 90) * 1e6) == (90.0,)  # a regression
    assert learn_edges(numbers, Cut("supervised", 4), np.zeros(200)) == ()


def test_supervised_bins_do_not_depend_on_the_scale():
    numbers = 1e12 + np.arange(100.0)  # single precision would not tell them apart
    assert learn_edges(numbers, Cut("supervised", 2), (np.arange(100) >= 30).astype(float)) == (1e12 + 30,)


def test_a_value_that_most_cases_share_is_a_bin_of_its_own():
    numbers = np.repeat([0.0, 1.0, 2.0, 3.0, 9.0], [90, 3, 3, 2, 2])
    edges = learn_edges(numbers, DEFAULT)
    assert edges[0] == 1.0
    assert counts(numbers, edges)[0] == 90
    middle = np.repeat([-4.0, -3.0, 0.0, 5.0, 6.0], [2, 2, 90, 3, 3])
    assert 90 in counts(middle, learn_edges(middle, DEFAULT))


def test_few_values_are_a_bin_each_and_a_constant_is_one():
    assert learn_edges(np.array([0.5, 1.5, 1.5, 2.5]), DEFAULT) == (1.5, 2.5)
    assert learn_edges(np.full(5, 3.3), DEFAULT) == ()


def test_quantiles_that_are_all_at_the_ends():
    """Terciles of a column most of whose values are its smallest or its largest one."""
    assert learn_edges(np.repeat([-1.0, 0.0, 0.5, 1.0], [3, 1, 1, 3]), Cut("quantile", 3)) == (0.0,)


def test_edges_of_whole_numbers_are_whole():
    assert all(edge == int(edge) for edge in learn_edges(np.arange(0.0, 30.0), Cut("uniform", 7)))


@given(
    st.lists(st.floats(-1e25, 1e25), min_size=1, max_size=60),
    st.sampled_from(["quantile", "uniform", "supervised"]),
    st.integers(2, 8),
)
def test_edges_increase_and_every_bin_between_them_can_be_reached(numbers, strategy, n_bins):
    values = np.array(numbers)
    edges = learn_edges(values, Cut(strategy, n_bins), np.arange(len(values)) % 2.0)
    assert list(edges) == sorted(set(edges))
    assert len(edges) <= n_bins + 1
    assert all(values.min() < edge <= values.max() for edge in edges)
    if strategy == "quantile":
        assert len(edges) > 0 or len(set(numbers)) == 1


@pytest.mark.parametrize(
    "wish", [[], [2, 1], [1, 1], ["a"], [1, float("nan")], None, True, 2.5, {}, 1, "deciles", ("uniform", 1), (1, None)]
)
def test_what_says_no_bins_is_refused(wish):
    with pytest.raises(ValueError, match=r"bins\['age'\]="):
        read_cut("bins['age']", wish, DEFAULT)


def test_outcomes_are_read_as_classes_or_numbers():
    assert read_outcome(["b", "a", "b"], 3).tolist() == [1, 0, 1]
    assert read_outcome([0.5, 1.5], 2).tolist() == [0.5, 1.5]
    for y, complaint in [
        (None, "pass y"),
        ([1, 2], r"shape \(2,\) for 3 rows"),
        ([1.0, 2.0, np.nan], "missing or infinite"),
        (np.array([1, "a", None], dtype=object), "mixes types"),
    ]:
        with pytest.raises(ValueError, match=complaint):
            read_outcome(y, 3)
