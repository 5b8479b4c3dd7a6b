"""Windows in ranks: who agrees with whom."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bayespatch.encode.column import Column
from bayespatch.encode.ranks import (
    MOST_KNOTS,
    Share,
    knot_of,
    learn_knots,
    n_rank_values,
    rank_codes,
    rank_window,
    read_share,
)

# few values with many ties, or any numbers
NUMBERS = st.lists(st.sampled_from([0.0, 0.5, 1.0, 7.0]) | st.floats(-1e6, 1e6), min_size=1, max_size=60)
PERCENT = st.decimals("0.0001", "49.9999", places=4)


def as_column(numbers, percent):
    knots = learn_knots(np.array(numbers))
    window = rank_window(Share(Decimal(percent)), len(knots))
    return Column("a", "ranked", "number", window=window, low=min(numbers), high=max(numbers), knots=knots)


def codes_of(column, numbers):
    return rank_codes(column.knots, np.clip(np.array(numbers), column.low, column.high))


@pytest.mark.parametrize(
    ("text", "percent"), [("10%", "10"), ("10 %", "10"), (" 0.5% ", "0.5"), ("49.999%", "49.999"), ("1e-3%", "0.001")]
)
def test_shares_are_read(text, percent):
    assert read_share("windows", text) == Share(Decimal(percent))


@pytest.mark.parametrize(
    "text", ["", "%", "10", "0%", "-1%", "50%", "1e99%", "nan%", "inf%", "sNaN%", "10%%", "10%x", "ten%", "1/3%", "%10"]
)
def test_what_is_no_share_is_refused(text):
    with pytest.raises(
        ValueError, match=r"windows=.* is not a distance; pass a finite number above 0, or a percentage"
    ):
        read_share("windows", text)


@given(PERCENT, st.integers(1, MOST_KNOTS))
@example(Decimal(29), 100)  # 0.29 * 200 is 57.99... in floating point
@example(Decimal("49." + "9" * 60), 1)
@example(Decimal("1e-99999"), 50)
def test_the_window_is_the_share_of_all_steps_rounded_down(percent, n_knots):
    window = rank_window(Share(percent), n_knots)
    steps = 2 * n_knots * (Fraction(percent) if percent > Decimal("1e-9") else Fraction(0)) / 100
    assert window == steps.numerator // steps.denominator + 0.5
    assert 0.5 <= window < n_knots
    assert n_rank_values(n_knots, window) > 1


def test_with_many_knots_the_number_of_values_is_half_over_the_share():
    for percent in (1, 5, 10, 25, 40):
        ratio = n_rank_values(MOST_KNOTS, rank_window(Share(Decimal(percent)), MOST_KNOTS)) / (50 / percent)
        half_a_code = 0.5 / (2 * MOST_KNOTS * percent / 100)  # what rounding may take from the window, or add to it
        one_code = 1 + 0.5 / MOST_KNOTS  # there is one code more than steps
        assert 1 / (1 + half_a_code) <= ratio <= one_code / (1 - half_a_code)


@given(NUMBERS)
def test_knots_are_values_in_order_and_not_all(numbers):
    knots = learn_knots(np.array(numbers))
    assert len(knots) == max(1, len(numbers) // 2)
    assert list(knots) == sorted(knots)
    assert set(knots) <= set(numbers)
    assert all(knots.count(knot) <= numbers.count(knot) for knot in knots)
    assert learn_knots(np.array(numbers[::-1])) == knots


@pytest.mark.parametrize("n", [1, 2, 3, 10, 101, 150, 201])
def test_the_ranks_of_up_to_two_hundred_cases_are_told_apart(n):
    numbers = np.random.default_rng(n).normal(size=n)
    assert len(set(rank_codes(learn_knots(numbers), numbers))) == n


@pytest.mark.parametrize("n", [300, 5000])
def test_a_large_column_has_a_hundred_and_one_knots_whose_codes_are_ranks(n):
    numbers = np.random.default_rng(0).lognormal(size=n)
    numbers[: n // 3] = 1.0  # a third share one value
    knots = learn_knots(numbers)
    assert len(knots) == MOST_KNOTS
    below, not_above = ((numbers[:, None] > numbers).mean(1), (numbers[:, None] >= numbers).mean(1))
    found = rank_codes(knots, numbers) / (2 * MOST_KNOTS)
    # either count among the knots is off by at most one half of a knot, and by one case
    assert np.abs(found - (below + not_above) / 2).max() <= 0.5 / MOST_KNOTS + 1 / n


@given(NUMBERS, st.lists(st.floats(-1e7, 1e7), max_size=10), PERCENT)
@settings(deadline=None)
def test_agreement(numbers, others, percent):
    column = as_column(numbers, percent)
    values = np.sort(np.array(numbers + others))
    codes = codes_of(column, values)
    assert np.all(codes == np.floor(codes))
    assert codes.min() >= 0
    assert codes.max() <= 2 * len(column.knots)
    assert np.all(np.diff(codes) >= 0)  # a larger number has no smaller rank
    agree = np.abs(codes[:, None] - codes) <= column.window
    assert agree[values[:, None] == values].all()
    share = np.abs(codes[:, None] - codes) / (2 * len(column.knots))
    sure = np.abs(share - float(percent) / 100) > 1e-9
    assert np.array_equal(agree[sure], (share <= float(percent) / 100)[sure])
    low, high = codes_of(column, [column.low, column.high])
    assert np.all(codes[values < column.low] == low)
    assert np.all(codes[values > column.high] == high)


@given(NUMBERS)
def test_a_knot_has_its_own_code_and_no_other_number_has_it(numbers):
    knots = learn_knots(np.array(numbers))
    for number, code in zip(numbers, rank_codes(knots, np.array(numbers)), strict=True):
        knot, is_its_own = knot_of(knots, int(code))
        assert knot in knots
        assert is_its_own == (number in knots)
        assert not is_its_own or knot == number


def test_a_share_means_the_same_in_any_unit():
    numbers = np.random.default_rng(0).normal(size=80)
    column, other = as_column(numbers.tolist(), 10), as_column(np.exp(3 * numbers).tolist(), 10)
    assert column.window == other.window
    assert column.n_values == other.n_values
    assert np.array_equal(codes_of(column, numbers), codes_of(other, np.exp(3 * numbers)))


def test_ten_percent_of_past_cases_to_either_side_agree():
    numbers = np.arange(1000.0)
    column = as_column(numbers.tolist(), 10)
    codes = codes_of(column, numbers)
    agree = np.abs(codes - codes[500]) <= column.window
    assert agree.sum() == pytest.approx(200, abs=2 * 1000 / MOST_KNOTS)  # a knot on either side
    assert np.ptp(np.flatnonzero(agree)) + 1 == agree.sum()
