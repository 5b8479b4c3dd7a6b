"""Weighted curves, frequencies and quantiles against lifelines, scikit-survival and exact values."""

import numpy as np
import pytest
from lifelines import AalenJohansenFitter, KaplanMeierFitter
from sksurv.nonparametric import cumulative_incidence_competing_risks, kaplan_meier_estimator

from bayespatch.survival import (
    check_times,
    cumulative_incidence,
    effective_number,
    frequencies,
    harrell_concordance,
    kaplan_meier,
    weighted_quantiles,
)


def table(seed, n=60, censored=0.4, ties=True, zeros=True):
    rng = np.random.default_rng(seed)
    time = rng.exponential(5.0, n)
    if ties:
        time = time.round(0 if seed % 2 else 1)
    if zeros:
        time[:3] = 0.0
    event = rng.random(n) > censored
    event[0] = True
    return time, event, rng.random(n) + 0.01


@pytest.mark.parametrize("seed", range(12))
def test_equal_weights_give_the_curve_and_intervals_of_scikit_survival_and_lifelines(seed):
    time, event, _ = table(seed, censored=(0.0, 0.3, 0.8)[seed % 3])
    curve = kaplan_meier(time, event, level=0.95)
    at, survival, ends = kaplan_meier_estimator(event, time, conf_level=0.95, conf_type="log-log")
    np.testing.assert_allclose(curve.times, at, atol=0)
    np.testing.assert_allclose(curve.survival, survival, atol=1e-10)
    inside = (survival > 0) & (survival < 1)
    np.testing.assert_allclose(curve.lower[inside], ends[0][inside], atol=1e-10)
    np.testing.assert_allclose(curve.upper[inside], ends[1][inside], atol=1e-10)
    fitter = KaplanMeierFitter(alpha=0.05).fit(time, event)
    np.testing.assert_allclose(curve.at(time)[:, 0], fitter.predict(time).to_numpy(), atol=1e-10)
    counts = fitter.event_table.loc[curve.times, "at_risk"].to_numpy()
    assert curve.n_at_risk.tolist() == counts.tolist()
    np.testing.assert_allclose(curve.effective_at_risk, counts, rtol=1e-10)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(12))
def test_random_weights_give_the_curve_and_median_of_lifelines(seed):
    time, event, weights = table(seed)
    weights[5:10] = 0.0
    counts = weights > 0
    curve = kaplan_meier(time, event, weights)
    fitter = KaplanMeierFitter().fit(time[counts], event[counts], weights=weights[counts])
    # Where the last case at risk has the event, rounding keeps lifelines from reaching 0.
    there = curve.survival > 0
    expected = fitter.predict(curve.times[there]).to_numpy()
    np.testing.assert_allclose(curve.at(curve.times[there])[:, 0], expected, atol=1e-10)
    median = curve.median()[0]
    assert (np.inf if median is None else median) == fitter.median_survival_time_


@pytest.mark.parametrize("seed", range(6))
def test_whole_numbers_as_weights_are_repeated_cases_but_for_the_effective_number(seed):
    time, event, _ = table(seed)
    times = np.random.default_rng(seed).integers(1, 4, len(time))
    weighted = kaplan_meier(time, event, times)
    repeated = kaplan_meier(np.repeat(time, times), np.repeat(event, times))
    np.testing.assert_allclose(weighted.survival, repeated.survival, atol=1e-12)
    assert np.all(weighted.effective_at_risk <= weighted.n_at_risk + 1e-9)
    inside = (weighted.survival > 0) & (weighted.survival < 1)
    assert np.all(weighted.upper[inside] - weighted.lower[inside] > repeated.upper[inside] - repeated.lower[inside])


def test_the_scale_of_the_weights_does_not_matter():
    time, event, weights = table(3)
    one, other = kaplan_meier(time, event, weights), kaplan_meier(time, event, 1e-6 * weights)
    for part, same in zip(one[:-1], other[:-1], strict=True):
        np.testing.assert_allclose(part, same, rtol=1e-9)


def test_before_the_first_event_and_after_the_last_the_interval_keeps_its_width():
    curve = kaplan_meier(np.array([1.0, 2.0, 3.0]), np.array([False, True, True]), level=0.9)
    np.testing.assert_allclose(curve.lower[0], 0.05 ** (1 / 3))
    assert curve.survival[-1] == 0.0
    assert curve.lower[-1] == 0.0
    assert curve.upper[-1] == curve.upper[-2] > 0.5
    np.testing.assert_allclose(curve.at([0.5])[0], [1.0, 0.05 ** (1 / 3), 1.0])


def test_all_censored_has_a_curve_without_a_median():
    curve = kaplan_meier(np.array([1.0, 2.0]), np.array([False, False]))
    assert curve.survival.tolist() == [1.0, 1.0]
    assert curve.median()[0] is None
    np.testing.assert_allclose(curve.lower, [0.05**0.5, 0.05])


@pytest.mark.parametrize("seed", range(6))
def test_cumulative_incidence_is_that_of_scikit_survival(seed):
    time, event, _ = table(seed, n=80)
    event[time == time.max()] = False  # else the variance of scikit-survival is not a number
    cause = np.where(event, 1 + np.random.default_rng(seed).integers(2, size=len(time)), 0)
    curves = cumulative_incidence(time, cause)
    at, incidence = cumulative_incidence_competing_risks(cause, time)[:2]
    np.testing.assert_allclose(curves.times, at)
    np.testing.assert_allclose(curves.incidence, incidence[1:], atol=1e-10)
    np.testing.assert_allclose(curves.incidence.sum(axis=0), 1.0 - kaplan_meier(time, event).survival, atol=1e-10)
    _, _, ends = cumulative_incidence_competing_risks(
        cause, time, conf_level=0.9, conf_type="log-log", var_type="Dinse_Approx"
    )
    inside = (curves.incidence > 0) & (curves.incidence < 1)
    np.testing.assert_allclose(curves.lower[inside], ends[1:, 0][inside], atol=1e-8)
    np.testing.assert_allclose(curves.upper[inside], ends[1:, 1][inside], atol=1e-8)


@pytest.mark.filterwarnings("ignore")
def test_weighted_cumulative_incidence_is_that_of_lifelines_without_ties():
    time, event, weights = table(4, n=80, ties=False, zeros=False)
    cause = np.where(event, 1 + np.random.default_rng(4).integers(2, size=len(time)), 0)
    curves = cumulative_incidence(time, cause, weights)
    for k in (1, 2):
        fitter = AalenJohansenFitter(calculate_variance=False).fit(time, cause, event_of_interest=k, weights=weights)
        other = fitter.cumulative_density_.iloc[:, 0]
        np.testing.assert_allclose(curves.incidence[k - 1], other.loc[curves.times].to_numpy(), atol=1e-10)


@pytest.mark.parametrize(
    ("time", "event", "complaint"),
    [
        ([1.0, -2.0], [1, 0], "'days' has negative times: -2 in row 1"),
        ([1.0, np.nan], [0, 1], "'days' has no finite time in row 1 although the event happened"),
        ([1.0, np.inf], [1, 0], "'days' has no finite time in row 1 "),
        ([1.0, 2.0], [0, 0], "'died' has no event: all 2 times are censored"),
        ([1.0, 2.0], [1, 2], "'died' has 2 in row 1. Use 1"),
        ([1.0, 2.0], [1, np.nan], "'died' has nan in row 1"),
        ([1.0, 2.0], [1], r"'days' has shape \(2,\), but 'died' has shape \(1,\)"),
        (["soon", 2.0], [1, 0], "'days' has 'soon' in row 0; use a number"),
        ([3.0, 2.0], [1, "no"], "'died' has 'no' in row 1; use 0 or 1"),
        ([1.0, 2.0], [None, 1], "'died' has nan in row 0"),
        (np.array(["2024-01-01", "2024-02-01"], "datetime64[D]"), [1, 0], "'days' contains dates or durations"),
    ],
)
def test_bad_times_are_refused_by_column_and_row(time, event, complaint):
    with pytest.raises(ValueError, match=complaint):
        check_times(time, event, "days", "died")


def test_bad_weights_are_refused():
    time, event, _ = table(0)
    for weights in (np.full(len(time), -1.0), np.zeros(len(time)), np.ones(3), np.full(len(time), np.nan)):
        with pytest.raises(ValueError, match="weight"):
            kaplan_meier(time, event, weights)


def test_quantiles_with_equal_weights_are_the_usual_ones():
    values = np.array([5.0, 1.0, 4.0, 2.0, 3.0])
    found = weighted_quantiles(values, [0.25, 0.5, 0.75], np.ones(5))
    assert found.value.tolist() == [2.0, 3.0, 4.0]
    assert np.all(found.lower <= found.value)
    assert np.all(found.value <= found.upper)
    for seed in range(5):
        many = np.random.default_rng(seed).normal(size=40 + seed)
        np.testing.assert_allclose(weighted_quantiles(many, [0.5], np.ones(len(many))).value, np.median(many))


def test_quantiles_and_frequencies_follow_the_weights():
    values, weights = np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 9.0])
    assert weighted_quantiles(values, [0.05, 0.5], weights).value.tolist() == [2.0, 3.0]
    found = frequencies(np.array([0, 1, 1]), 3, weights)
    np.testing.assert_allclose(found.share, [0.0, 1.0, 0.0])
    assert (found.lower[0], found.upper[1], found.lower[2]) == (0.0, 1.0, 0.0)
    np.testing.assert_allclose(found.effective, 100 / 82)
    assert effective_number([]) == 0.0


def test_frequency_intervals_cover_with_random_weights():
    # 1,500 tables: the standard error of a coverage of .9 is .0077; Jeffreys intervals vary by about .02 around it.
    rng, hits = np.random.default_rng(0), 0
    for _ in range(1500):
        weights = rng.exponential(size=80)
        found = frequencies((rng.random(80) < 0.3).astype(int), 2, weights)
        hits += found.lower[1] <= 0.3 <= found.upper[1]
    assert abs(hits / 1500 - 0.9) < 0.02 + 4 * 0.0077


def test_median_intervals_cover_with_random_weights():
    rng, hits = np.random.default_rng(1), 0
    for _ in range(1500):
        found = weighted_quantiles(rng.normal(size=80), [0.5], rng.exponential(size=80))
        hits += found.lower[0] <= 0.0 <= found.upper[0]
    assert abs(hits / 1500 - 0.9) < 0.02 + 4 * 0.0077


@pytest.mark.parametrize("censoring", [0.0, 0.3, 0.6])
def test_survival_intervals_cover_with_random_weights(censoring):
    # Exponential times with rate 1; exponential censoring with the rate that censors this share.
    rng, hits, n_tables = np.random.default_rng(2), 0, 1500
    for _ in range(n_tables):
        time = rng.exponential(size=100)
        end = rng.exponential(size=100) * (1 - censoring) / censoring if censoring else np.full(100, np.inf)
        curve = kaplan_meier(np.minimum(time, end), time <= end, rng.exponential(size=100))
        _, low, high = curve.at([0.5])[0]
        hits += low <= np.exp(-0.5) <= high
    assert abs(hits / n_tables - 0.9) < 0.02 + 4 * np.sqrt(0.09 / n_tables)


@pytest.mark.parametrize("seed", range(4))
def test_concordance_is_that_of_scikit_survival(seed):
    from sksurv.metrics import concordance_index_censored

    time, event, risk = table(seed)
    risk = risk.round(1)
    expected = concordance_index_censored(event, time, risk)[0]
    np.testing.assert_allclose(harrell_concordance(time, event, risk), expected, atol=1e-12)
