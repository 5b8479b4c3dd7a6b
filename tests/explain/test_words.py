from itertools import combinations

import pytest

from bayespatch.explain import words
from tests.explain.answers import KINDS, answer
from tests.explain.fitted import explained, fitted, table


def test_percents_are_never_certain_without_being_so():
    shown = [words.percent(p) for p in (0, 0.0099, 0.01, 0.5, 0.99, 0.996, 1)]
    assert shown == ["0%", "<1%", "1%", "50%", "99%", ">99%", "100%"]
    assert words.points(-0.01234) == "−1.2"
    assert words.interval((0.004, 0.996)) == "<1% to >99%"


def test_the_headline_states_the_last_of_two_classes():
    why = answer("two")
    said = why["prediction"]
    p, ends = said["probabilities"]["sick <i>"], said["intervals"]["sick <i>"]
    ends = f"90% interval for patients with similar predictions: {words.interval(ends)}"
    assert words.headline(why) == f"{words.percent(p)} probability of sick <i>; {ends}"
    assert words.base_rate(why) == f"All patients: {words.percent(said['population']['sick <i>'])}"


@pytest.mark.parametrize(
    ("target", "label", "expected"),
    [
        ("heart disease", "heart disease", "risk of heart disease"),
        ("heart disease", "Presence of Heart Disease", "risk of Presence of Heart Disease"),
        ("relapse", "yes", "risk of relapse"),
        ("relapse", "no", "probability of no relapse"),
        ("tumor", "malignant", "probability of malignant"),
        ("", "yes", "probability of yes"),
    ],
)
def test_a_risk_is_one_of_what_the_target_names(target, label, expected):
    why = answer("two")
    why["case"]["target"] = target
    said = why["prediction"]
    said["probabilities"] = dict(zip(["other", label], said["probabilities"].values(), strict=True))
    assert words.of_what(why) == expected


def test_the_headline_states_the_predicted_of_several_classes_and_the_mean_of_a_number():
    why = answer("classes")
    assert words.focus(why) == why["prediction"]["class"]
    why = answer("number")
    said = why["prediction"]
    low, high = said["interval"]
    assert words.headline(why) == f"Outcome: {said['mean']:.4g}; 90% prediction interval {low:.4g} to {high:.4g}"


SAID = {
    "sex": {"value": "male", "close": None, "phrases": {"male": "men", "female": "women"}},
    "age": {"value": "61.5", "close": "58-64", "phrases": {}},
    "cp": {"value": "typical", "close": None, "phrases": {}, "description": "chest pain"},
    "scan": {"value": "normal", "close": None, "phrases": {"normal": "with a normal scan", "defect": "with a defect"}},
    "ca": {"value": "0", "close": None, "phrases": {"0": "without colored vessels"}},
    "angina": {"value": "yes", "close": None, "phrases": {}},
    "smokes": {"value": "no", "close": None, "phrases": {}, "description": "smoking"},
}


def members(size, common=(), most=(), differs=()):
    """How a group is described whose members share these values with the case, all of them or most, or differ."""
    shared = [{"feature": name, "value": SAID[name]["value"], "all": True} for name in common]
    shared += [{"feature": name, "value": SAID[name]["value"], "all": False} for name in most]
    other = [{"feature": name, "value": value} for name, value in differs]
    features = [{"name": name, "description": "", **said} for name, said in SAID.items()]
    return words.group_members({"features": features}, {"size": size, "shared": shared, "differs": other})


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"common": ["age", "cp"]}, "61 patients (age 58–64; chest pain: typical)"),
        ({"common": ["sex", "scan"]}, "61 men with a normal scan"),
        ({"common": ["angina", "ca", "smokes"]}, "61 patients with angina, without colored vessels or smoking"),
        ({"common": ["scan"], "most": ["sex", "age"]}, "61 patients with a normal scan, mostly men (age 58–64)"),
        ({"most": ["cp"]}, "61 patients, mostly chest pain: typical"),
        ({"common": ["angina"], "differs": [("scan", None)]}, "61 patients with angina, but without a normal scan"),
        (
            {"common": ["ca"], "differs": [("cp", None)]},
            "61 patients without colored vessels, but chest pain: not typical",
        ),
        ({"common": ["ca"], "differs": [("sex", "female")]}, "61 women without colored vessels"),
        (
            {"most": ["angina"], "differs": [("ca", None), ("age", None)]},
            "61 patients, mostly with angina, but with colored vessels (age not 58–64)",
        ),
        ({"differs": [("scan", "defect"), ("sex", "female")]}, "61 women with a defect, unlike this patient"),
        ({"differs": [("sex", None)]}, "61 patients (sex: not male), unlike this patient"),
        ({"differs": [("angina", None)]}, "61 patients (angina: no or missing), unlike this patient"),
        ({}, "61 patients with various findings"),
    ],
)
def test_a_group_is_described_by_what_its_members_have_in_common(parts, expected):
    assert members(61, **parts) == expected


def test_a_group_of_one_patient():
    assert members(1, common=["sex", "scan"]) == "1 patient with a normal scan (sex: male)"
    assert members(1, most=["angina"], differs=[("ca", None)]) == "1 patient with angina, but with colored vessels"


def test_a_group_has_the_counts_of_the_class_in_the_headline():
    why = answer("two")
    part = why["groups"][0] | {"counts": {"well": 50, "sick <i>": 11}}
    assert words.group(why, part) == (words.group_members(why, part), "11 had the outcome sick <i>")


def test_a_group_has_the_mean_of_numeric_outcomes():
    why = answer("number")
    for part in why["groups"]:
        assert words.group(why, part)[1] == f"mean outcome {part['mean']:.4g}"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "nobody"])
def test_groups_are_told_apart_by_what_is_stated(kind):
    """Any two groups: all members of one share a value with the case, and no member of the other does."""
    why = answer(kind)
    for one, other in combinations(why["groups"], 2):
        common = [{part["feature"] for part in group["shared"] if part["all"]} for group in (one, other)]
        differs = [{part["feature"] for part in group["differs"]} for group in (one, other)]
        assert common[0] & differs[1] or common[1] & differs[0]


def test_a_past_value_is_a_phrase_that_fits_one_patient():
    sex, scan = ({"name": name, "description": "", **SAID[name]} for name in ("sex", "scan"))
    assert words.past_value(sex, "female") == "sex: female"
    assert words.past_value(scan, "defect") == "with a defect"


def test_shares_stand_beside_the_base_rate_and_are_no_majority():
    why = answer("two")
    text = words.votes(why)
    said = why["prediction"]
    assert f"Weighted by similarity, {words.percent(said['votes']['sick <i>'])} of them had the outcome" in text
    assert f"(all patients: {words.percent(said['population']['sick <i>'])})" in text
    assert "most" not in text.lower()


def test_past_patients_with_similar_votes_are_counted_for_the_class_in_the_headline():
    why = answer("two")
    found = why["prediction"]["like_this"]
    for label, had in (("sick <i>", found["n_class"]), ("well", found["n"] - found["n_class"])):
        why["prediction"]["like_this"] = {**found, "class": label}
        expected = f"Of {found['n']} past patients for whom this share was similar, {had} had the outcome sick <i>."
        assert expected in words.votes(why)


def test_a_wide_interval_fails_a_check():
    why = answer("two")
    for ends, check in (
        ((0.16, 0.62), words.Check(False, "Wide interval: 46 points (limit: 40)")),
        ((0.2, 0.5), words.Check(True, "Interval: 30 points (limit: 40)")),
    ):
        why["prediction"]["intervals"]["sick <i>"] = list(ends)
        assert check in words.checks(why)


def test_an_interval_of_a_number_is_compared_with_that_of_all_patients():
    why = answer("number")
    said = why["prediction"]
    said["interval"], said["population_interval"] = [400.0, 500.0], [300.0, 700.0]
    assert words.Check(True, "Interval 25% as wide as for all patients (limit: 100%)") in words.checks(why)
    said["interval"] = [200.0, 700.0]
    assert words.Check(False, "Interval 125% as wide as for all patients (limit: 100%)") in words.checks(why)


def test_failed_checks_come_first():
    why = answer("two")
    why["prediction"]["intervals"]["sick <i>"] = [0.0, 1.0]
    assert not words.checks(why)[0].passed


def test_opinions_that_differ_fail_a_check():
    why = answer("two")
    why["opinions"] |= {"disagreement": 0.3, "precedents": {"well": 0.7, "sick <i>": 0.3}}
    assert "The two disagree: find out why" in words.opinions(why)
    assert words.Check(False, "Similar patients and risk factors differ by 30 points (limit: 20)") in words.checks(why)
    why["opinions"]["disagreement"] = 0.05
    assert "disagree" not in words.opinions(why)
    assert words.Check(True, "Similar patients and risk factors differ by 5 points (limit: 20)") in words.checks(why)
    assert words.opinions(answer("alone")) is None


def test_nothing_is_said_about_precedent_where_little_is_known():
    why = answer("few")
    assert why["case"]["known"] == {"n": 1, "of": 4}
    for percentile in (None, 0.5):
        why["precedent"] |= {"adequate": percentile is not None, "percentile": percentile}
        checks = words.checks(why)
        assert words.Check(False, "Only 1 of 4 findings known") in checks
        assert not any("precedent" in check.text.lower() for check in checks)
    why["case"]["known"] = {"n": 2, "of": 4}
    checks = words.checks(why)
    assert words.Check(True, "Adequate precedent") in checks
    assert words.Check(True, "2 of 4 findings known") in checks


def test_no_precedent_fails_a_check_and_is_not_repeated_as_a_warning():
    why = answer("odd")
    assert words.Check(False, words.NO_PRECEDENT) in words.checks(why)
    assert "combination" in why["case"]["warning_kinds"]
    assert len(words.warnings(why)) == len(why["case"]["warnings"]) - 1
    assert words.precedent(why) in words.caveats(why)


@pytest.mark.parametrize("kind", KINDS)
def test_the_verdict_counts_the_checks(kind):
    why = answer(kind)
    checks = words.checks(why)
    failed = [check for check in checks if not check.passed]
    expected = f"{len(failed)} of {len(checks)} checks failed" if failed else f"All {len(checks)} checks passed"
    assert words.verdict(why) == expected


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("unattributed", "nobody")])
def test_the_steps_lead_from_all_patients_to_this_one(kind):
    why = answer(kind)
    attribution = why["attribution"]
    for most in (1, 2, 6):
        steps = words.steps(why, most)
        assert len(steps) == min(most + 1, sum(part["points"] != 0.0 for part in attribution["features"]))
        unit = 1 if words.is_number(why) else 100
        total = attribution["base"] + sum(step.points for step in steps) / unit
        assert total == pytest.approx(attribution["total"])
    sizes = [abs(step.points) for step in words.steps(why) if step.name]
    assert sizes == sorted(sizes, reverse=True)


def test_closest_patients_are_compared_in_what_moves_the_answer_most():
    why = answer("two")
    names = [feature["name"] for feature in words.compared(why, 2)]
    assert names == [part["feature"] for part in why["attribution"]["features"][:2]]
    why["attribution"] = None
    ranked = sorted(why["features"], key=lambda feature: -feature["importance"])
    assert words.compared(why, 2) == ranked[:2]


def test_closest_patients_are_compared_in_known_findings():
    why = answer("few")
    assert [feature["name"] for feature in words.compared(why)] == ["age"]
    why["attribution"] = None
    assert [feature["name"] for feature in words.compared(why)] == ["age"]


def test_a_case_is_named():
    assert words.title(explained().to_dict()) == "Case patient-0"
    assert words.title(answer("odd")) == "The case"
    X, _ = table(20, seed=9)
    assert fitted().explain(X.iloc[0], y=0).to_dict()["case"]["outcome"] == "well"
