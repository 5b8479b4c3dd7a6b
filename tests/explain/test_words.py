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
    expected = f"{words.percent(p)} probability of sick <i> (90% interval {words.interval(ends)})"
    assert words.headline(why) == expected
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
    assert words.headline(why) == f"Outcome: {said['mean']:.4g} (90% interval {low:.4g} to {high:.4g})"


def test_a_group_is_described_by_shared_values_and_counts():
    why = answer("two")
    part = why["groups"][0]
    part |= {"size": 61, "counts": {"well": 50, "sick <i>": 11}}
    part["shared"] = [{"feature": "age", "value": "61.5"}, {"feature": "pain", "value": "none"}]
    age = next(feature for feature in why["features"] if feature["name"] == "age")
    who, had = words.group(why, part)
    assert who == f"61 patients with age in years {age['close']} and pain none"
    assert had == "11 were sick <i>"
    part["shared"] = [{"feature": "pain", "value": "no"}]
    assert words.group(why, part)[0] == "61 patients with no pain"
    part |= {"shared": [], "size": 1}
    assert words.group(why, part)[0] == "1 patient of other kinds"


def test_votes_stand_beside_the_base_rate_and_are_no_majority():
    why = answer("two")
    text = words.votes(why)
    said = why["prediction"]
    assert f"{words.percent(said['votes']['sick <i>'])} of their votes are for sick <i>" in text
    assert f"base rate among all patients is {words.percent(said['population']['sick <i>'])}" in text
    assert "most" not in text.lower()


def test_past_patients_with_similar_votes_are_counted_for_the_class_in_the_headline():
    why = answer("two")
    found = why["prediction"]["like_this"]
    for label, had in (("sick <i>", found["n_class"]), ("well", found["n"] - found["n_class"])):
        why["prediction"]["like_this"] = {**found, "class": label}
        verb = "was" if had == 1 else "were"
        assert f"Of {found['n']} past patients with votes like these, {had} {verb} sick <i>." in words.votes(why)


def test_opinions_that_differ_fail_a_check():
    why = answer("two")
    why["opinions"] |= {"disagreement": 0.3, "precedents": {"well": 0.7, "sick <i>": 0.3}}
    assert "differ by 30 points: find out why" in words.opinions(why)
    assert words.Check(False, "Similar patients and risk factors differ by 30 points") in words.checks(why)
    why["opinions"]["disagreement"] = 0.05
    assert "differ" not in words.opinions(why)
    assert words.Check(True, "Similar patients and risk factors agree within 5 points") in words.checks(why)
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
        assert len(steps) == min(most + 1, len(attribution["features"]))
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


def test_a_case_is_named():
    assert words.title(explained().to_dict()) == "Case patient-0"
    assert words.title(answer("odd")) == "The case"
    X, _ = table(20, seed=9)
    assert fitted().explain(X.iloc[0], y=0).to_dict()["case"]["outcome"] == "well"
