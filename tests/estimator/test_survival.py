"""PatchworkSurvival: scikit-survival's conventions, censoring, pooling, bad input."""

import json
import sys
import warnings
from dataclasses import replace
from functools import cache
from html import escape

import numpy as np
import pandas as pd
import pytest
from sksurv.metrics import concordance_index_censored, integrated_brier_score

import bayespatch
from bayespatch import PatchworkSurvival
from bayespatch.estimator.survival import StepFunction
from bayespatch.explain import words
from bayespatch.explain.words import percent
from bayespatch.fitted_times import CaseVotes
from bayespatch.predict.closed import ClosedForm
from bayespatch.report import case_report
from bayespatch.survival import kaplan_meier

SHORT = dict(draws=20, chains=2, random_state=0)


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"age": rng.normal(60, 10, n), "stage": rng.choice(["I", "II", "III"], n), "noise": rng.integers(0, 3, n)}
    )
    rate = rate_of(X)
    time, end = rng.exponential(500.0, n) / rate, rng.exponential(900.0, n)
    return X, outcome(time <= end, np.minimum(time, end).round(1))


def rate_of(data):
    return np.exp(0.08 * (data.age - 60) + 1.5 * (data.stage == "III")).to_numpy()


def outcome(event, time):
    return np.array(list(zip(event, time, strict=True)), dtype=[("died", bool), ("days", float)])


X, Y = table()


def fit(data=X, y=Y, groups=None, follow_up=None, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PatchworkSurvival(**{**SHORT, **given}).fit(data, y, groups, follow_up)


@cache
def fitted():
    return fit()


def test_predictions_follow_the_conventions_of_scikit_survival():
    model, (new, y) = fitted(), table(150, 1)
    times = model.unique_times_
    np.testing.assert_array_equal(times, np.unique(Y["days"][Y["died"]]))
    curves = model.predict_survival_function(new)
    array = model.predict_survival_function(new, return_array=True)
    assert array.shape == (150, len(times))
    np.testing.assert_allclose(np.vstack([curve(times) for curve in curves]), array)
    np.testing.assert_array_equal(curves[0].x, times)
    assert curves[0](0.0) == 1.0
    assert np.all(np.diff(array, axis=1) <= 1e-12)
    assert np.all((array > 0) & (array <= 1))
    hazard = model.predict_cumulative_hazard_function(new, return_array=True)
    np.testing.assert_allclose(hazard, -np.log(array))
    np.testing.assert_allclose(model.predict(new), 1.0 - array.mean(axis=1))
    medians = model.predict_median(new)
    reached = ~np.isnan(medians)
    assert all(curve(at) <= 0.5 < curve(at - 0.05) for curve, at in zip(curves[reached], medians[reached], strict=True))
    assert np.all(array[~reached, -1] > 0.5)
    concordance = concordance_index_censored(y["died"], y["days"], model.predict(new))[0]
    np.testing.assert_allclose(model.score(new, y), concordance)
    # 150 cases: the standard error of a concordance is about .03.
    assert concordance > concordance_index_censored(y["died"], y["days"], rate_of(new))[0] - 0.03
    grid = np.quantile(Y["days"], [0.2, 0.4, 0.6])
    alone = kaplan_meier(Y["days"], Y["died"]).at(grid)[:, 0]
    inside = y["days"] < Y["days"].max()
    own = integrated_brier_score(Y, y[inside], np.vstack([curve(grid) for curve in curves[inside]]), grid)
    assert own < integrated_brier_score(Y, y[inside], np.tile(alone, (inside.sum(), 1)), grid)


def test_the_features_that_matter_are_found():
    importance = dict(zip(X.columns, fitted().feature_importances_, strict=True))
    assert min(importance["age"], importance["stage"]) > importance["noise"]


def test_both_opinions_are_pooled_and_the_interval_holds_the_pool():
    model, new = fitted(), table(20, 2)[0]
    times = np.array([100.0, 300.0, 600.0])
    found = model.predict_opinions(new, times)
    weight = model.pool_.weight
    np.testing.assert_allclose(found["pool"], weight * found["additive"] + (1 - weight) * found["precedents"])
    ends = model.predict_survival_interval(new, times, level=0.8)
    assert np.all((ends[..., 0] <= found["pool"]) & (found["pool"] <= ends[..., 1]))
    wider = model.predict_survival_interval(new, times, level=0.95)
    assert np.all((wider[..., 0] <= ends[..., 0]) & (ends[..., 1] <= wider[..., 1]))


def test_the_interval_of_the_precedents_includes_the_uncertainty_of_the_importances():
    model = fitted()
    fitted_times, new = model.fitted_, table(15, 7)[0]
    (votes, _), *more = model._voted(fitted_times, new)
    assert not more
    posterior, cases, _ = model._new_cases(fitted_times, new)
    closed = ClosedForm.of(posterior, cases)
    ratios = []
    for chain, draw in np.ndindex(*closed.log_weights.shape[:2]):
        one = (slice(chain, chain + 1), slice(draw, draw + 1))
        single = replace(closed, log_weights=closed.log_weights[one], differ=closed.differ[one])
        share = single.predict(cases.x, cases.y, detail="shares").neighbors.share
        ratios.append(fitted_times.course(CaseVotes(share)).log_ratio)
    variance = [fitted_times.course(one).ratio_variance for one in (votes, CaseVotes(votes.share))]
    errors = np.sqrt(variance[0] - variance[1])
    # Past cases of one class count alike here, though they were followed for different times.
    np.testing.assert_allclose(errors, np.std(ratios, axis=0), rtol=0.35)
    np.testing.assert_allclose(errors.mean(), np.std(ratios, axis=0).mean(), rtol=0.05)
    times = np.array([100.0, 400.0])
    wide, narrow = (
        np.diff(fitted_times.precedents(one, times).interval(0.9), axis=2) for one in (votes, CaseVotes(votes.share))
    )
    assert np.all(wide > narrow)


def test_without_differences_the_curve_is_that_of_all_past_cases():
    n = 300
    noise = pd.DataFrame({"a": np.arange(n) % 2})
    time = np.random.default_rng(3).exponential(100.0, n).round()
    y = outcome(np.arange(n) % 3 > 0, time)
    model = fit(noise, y, second_opinion=None)
    at = np.quantile(time, [0.25, 0.5, 0.75])
    expected = kaplan_meier(time, y["died"]).at(at)[:, 0]
    found = np.vstack([curve(at) for curve in model.predict_survival_function(noise.iloc[:2])])
    np.testing.assert_allclose(found, np.tile(expected, (2, 1)), atol=0.06)


def test_the_order_of_rows_and_the_number_of_threads_do_not_matter():
    new = table(10, 4)[0]
    one, other = fit(n_jobs=1, second_opinion=None), fit(n_jobs=2, second_opinion=None)
    np.testing.assert_array_equal(one.predict(new), other.predict(new))
    np.testing.assert_allclose(one.predict(new), one.predict(new.iloc[::-1])[::-1])


def test_follow_up_and_groups_are_taken():
    more = X.assign(drug=np.where(np.arange(len(X)) % 2, "a", "b"))
    model = fit(more, follow_up={"drug": "treatment"}, groups=np.arange(len(X)) // 2, second_opinion=None)
    assert model.schema_.names == ("age", "stage", "noise")
    share = np.ones(len(X)) / len(X)
    treatments = model.fitted_.follow_up_among(share, 0.9)["drug"]["treatments"]
    assert [row["outcome"]["kind"] for row in treatments] == ["time", "time"]


def test_lifelines_is_asked_for_only_if_a_second_opinion_is_requested(monkeypatch):
    monkeypatch.setitem(sys.modules, "lifelines", None)
    with pytest.raises(ImportError, match=r"pip install 'bayespatch\[survival\]'"):
        fit(second_opinion="cox")
    assert fit(second_opinion=None).pool_ is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert fit(second_opinion="auto").pool_ is None


@pytest.mark.parametrize(
    ("y", "complaint"),
    [
        (outcome([True] * len(X), [-1.0] * len(X)), "'days' has negative times: -1 in row 0"),
        (outcome([True] * len(X), [np.nan] * len(X)), "'days' has no finite time in row 0 although the event happened"),
        (outcome([False] * len(X), Y["days"]), "'died' has no event: all 300 times are censored"),
        (Y["days"], "y must be a structured array"),
        (pd.DataFrame({"died": Y["died"], "days": Y["days"], "site": 1}), "with two fields"),
        (pd.DataFrame({"died": ["yes"] * len(X), "days": Y["days"]}), "'died' has 'yes' in row 0; use 0 or 1"),
        (pd.DataFrame({"died": pd.array([None, *Y["died"][1:]], "boolean"), "days": 2.0}), "'died' has nan in row 0"),
        (pd.DataFrame({"died": True, "days": pd.to_timedelta(Y["days"], "D")}), "'days' contains dates or durations"),
        (pd.DataFrame({"days": Y["days"], "died": Y["died"]}), "the event must come before the time"),
        (outcome(np.arange(len(X)) == 7, Y["days"]), r"'died' has only one event \(row 7\)"),
        (outcome(Y["died"], np.full(len(X), 30.0)), "'days' is 30 in all 300 rows; times must differ"),
        (Y[:50], "inconsistent numbers of samples"),
    ],
)
def test_bad_outcomes_are_refused(y, complaint):
    with pytest.raises(ValueError, match=complaint):
        fit(y=y)


def test_events_in_a_single_group_are_refused():
    groups = np.where(Y["died"], "P-1", [f"P-{k}" for k in range(2, len(X) + 2)])
    with pytest.raises(ValueError, match="events of column 'died' are in one group, 'P-1'"):
        fit(groups=groups)


@pytest.mark.parametrize("given", [{}, {"second_opinion": None}])
def test_two_events_are_enough(given):
    event = np.isin(np.arange(len(X)), (3, 40))
    risk = fit(y=outcome(event, Y["days"]), **given).predict(X.iloc[:5])
    assert np.all((risk > 0) & (risk < 1))


def test_bad_parameters_and_times_are_refused():
    with pytest.raises(ValueError, match="n_intervals"):
        fit(n_intervals=0)
    with pytest.raises(ValueError, match="second_opinion='forest'"):
        fit(second_opinion="forest")
    with pytest.raises(ValueError, match="nonnegative"):
        fitted().predict_survival_interval(X, [-1.0])
    with pytest.raises(ValueError, match="nonnegative"):
        StepFunction(np.array([1.0]), np.array([0.5]), 1.0)([np.nan])


@pytest.mark.parametrize("given", [{}, {"second_opinion": None}])
def test_a_stored_model_predicts_as_before(given, tmp_path):
    model, new = fit(X.iloc[:120], Y[:120], **given), table(12, 5)[0]
    whole, alone, cases = (tmp_path / name for name in ("whole.bpatch", "alone.bpatch", "cases.bpatch"))
    model.save(whole)
    model.save(alone, cases_path=cases)
    expected = model.predict_survival_function(new, return_array=True)
    for found in (bayespatch.load(whole), bayespatch.load(alone, cases=cases)):
        np.testing.assert_array_equal(found.predict_survival_function(new, return_array=True), expected)
        at = [200.0, 400.0]
        np.testing.assert_array_equal(
            found.predict_survival_interval(new, at), model.predict_survival_interval(new, at)
        )
    bayespatch.load(alone).save(tmp_path / "again.bpatch", with_cases=False)


def test_an_explanation_says_what_the_model_predicts():
    model, new = fitted(), table(3, 6)[0]
    for row in range(3):
        why = model.explain(new.iloc[[row]], time=400.0, level=0.8).to_dict()
        said = why["prediction"]
        opinions = model.predict_opinions(new.iloc[[row]], [400.0])
        np.testing.assert_allclose(said["probability"], 1.0 - opinions["pool"][0, 0], rtol=1e-6)
        for name in ("precedents", "additive"):
            np.testing.assert_allclose(why["opinions"][name], 1.0 - opinions[name][0, 0], rtol=1e-6)
        low, high = model.predict_survival_interval(new.iloc[[row]], [400.0], level=0.8)[0, 0]
        np.testing.assert_allclose(said["interval"], [1.0 - high, 1.0 - low], rtol=1e-6)
        found = why["attribution"]
        points = [one["points"] for one in found["features"]]
        np.testing.assert_allclose(100 * found["base"] + sum(points), 100 * found["total"])
        np.testing.assert_allclose(found["total"], said["probability"], rtol=1e-5)
        assert points == sorted(points, key=abs, reverse=True)
        curve = model.predict_survival_function(new.iloc[[row]])[0]
        np.testing.assert_allclose(said["curve"]["survival"], curve(said["curve"]["times"]), rtol=1e-5)
        json.dumps(why, allow_nan=False)


def test_a_value_that_matters_gets_the_points():
    model = fitted()
    worst = model.explain({"age": 80.0, "stage": "III", "noise": 1}).to_dict()["attribution"]["features"]
    assert {one["feature"] for one in worst[:2]} == {"age", "stage"}
    assert all(one["points"] > 0 for one in worst[:2])


def test_a_past_case_does_not_vote_on_itself():
    model = fitted()
    why = model.explain(X.iloc[[5]])
    assert 5 not in [one["index"] for one in why.neighbors]
    assert why.case["warning_kinds"] == ["itself"]
    assert 5 in [one["index"] for one in model.explain(X.iloc[[5]], exclude_self=False, top=len(X)).neighbors]


def test_a_case_without_known_values_gets_no_points(tmp_path):
    why = fitted().explain({"age": None, "stage": None, "noise": None})
    assert why.attribution["features"] == []
    assert not why.precedent["adequate"]
    assert "Only 0 of 3 findings known" in str(why)
    assert "closest patients" not in str(why)
    assert why.attribution["total"] == why.attribution["base"] == why.prediction["probability"]
    case_report(why, tmp_path / "case.html")
    assert f"<b>{percent(why.prediction['probability'])}</b>" in (tmp_path / "case.html").read_text("utf-8")


def test_groups_have_the_curves_of_their_members():
    model, new = fitted(), table(5, 9)[0]
    for row in range(5):
        why = model.explain(new.iloc[[row]], time=300.0)
        assert 0.9 < sum(part["vote_share"] for part in why.groups) <= 1 + 1e-6
        assert sum(part["size"] for part in why.groups) <= len(X)
        for part in why.groups:
            members = np.ones(len(X), dtype=bool)
            for shared in part["shared"]:
                if shared["all"] and shared["feature"] != "age":
                    members &= (X[shared["feature"]].astype(str) == shared["value"]).to_numpy()
            assert part["size"] <= members.sum()
            if not part["outcome"]["suppressed"]:
                assert [one["time"] for one in part["outcome"]["landmarks"]] in ([300.0], [])
    assert len(why.groups) > 1
    largest = max(why.groups, key=lambda part: part["size"])
    assert f"{largest['size']} patients" in str(why)


def test_a_group_of_few_past_cases_has_no_outcome():
    few = slice(0, 60)
    why = fit(X.iloc[few].assign(noise=0), Y[few], second_opinion=None).explain({"age": 60.0, "stage": "I", "noise": 0})
    small = [part for part in why.groups if part["size"] < 10]
    assert small
    for part in small:
        assert part["outcome"]["suppressed"] == "fewer than 10 past cases"
        assert "landmarks" not in part["outcome"]
    assert "not shown: too few" in str(why)


def test_the_unit_of_the_times_is_shown_and_stored(tmp_path):
    y = pd.DataFrame(Y[:120])
    y.attrs["unit"] = "days"
    fit(X.iloc[:120], y).save(tmp_path / "m.bpatch")
    why = bayespatch.load(tmp_path / "m.bpatch").explain(X.iloc[[200]], time=400.0)
    assert "by 400 days" in str(why)
    assert "by 400 days" in why.to_html()
    assert why.neighbors[0]["outcome"].endswith(" days")


def test_times_beyond_the_follow_up_are_refused():
    longest = Y["days"].max()
    with pytest.raises(ValueError, match=f"beyond the follow-up of the past cases; pass times up to {longest:g}"):
        fitted().explain(X.iloc[[0]], time=2 * longest)
    with pytest.raises(ValueError, match="beyond the follow-up"):
        fitted().predict_survival_interval(X.iloc[[0]], [10.0, 2 * longest])


def test_text_and_page_have_the_figures():
    new = pd.DataFrame({"age": [66.0], "stage": ["<b>IV</b>"], "noise": [1]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        why = fitted().explain(new)
    from bayespatch.report import case_page

    text, page = str(why), case_page(why)
    for one in why.prediction["landmarks"]:
        assert percent(one["survival"]) in text
        assert escape(percent(one["survival"])) in page
    assert "<b>IV</b>" not in page
    assert "No past case has stage" in text
    assert words.verdict(why.to_dict()) in text
    assert words.verdict(why.to_dict()) in page
    for check in words.checks(why.to_dict()):
        assert escape(check.text) in page
    assert "<svg" in page
