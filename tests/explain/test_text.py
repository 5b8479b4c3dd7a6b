import pytest

from bayespatch.explain import words
from bayespatch.explain.text import as_text
from tests.explain.answers import KINDS, answer
from tests.explain.fitted import explained, fitted, table


def flat(text):
    return " ".join(text.split())


@pytest.mark.parametrize("kind", KINDS)
def test_the_figures_are_those_of_the_explanation(kind):
    why = answer(kind)
    text = flat(as_text(why, 100))
    assert words.headline(why) in text
    assert words.verdict(why) in text
    for check in words.checks(why):
        assert f"! {check.text}" in text or check.passed
    passed = ", ".join(check.text for check in words.checks(why) if check.passed)
    assert f": {passed}." in text or not passed
    for part in why["groups"]:
        assert f"{words.percent(part['vote_share'])} {': '.join(words.group(why, part))}" in text
    if why["groups"]:
        assert words.votes(why) in text
    for step in words.steps(why):
        assert step.text in text
        assert words.step_points(why, step.points) in text
    for part in why["neighbors"]:
        assert f"#{part['id']} {part['outcome']}" in text
    assert words.NO_PRECEDENT in text or why["precedent"]["adequate"]


def test_an_explanation_prints_its_text():
    assert str(explained()) == explained().to_text() == as_text(explained().to_dict(), 120)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_it_fits_the_terminal_and_cuts_nothing(kind, width):
    why = answer(kind)
    text = as_text(why, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for part in why["neighbors"]:
        for feature in words.compared(why):
            patch = part["features"][feature["name"]]
            assert patch["agrees"] or words.past_value(feature, patch["value"]) in flat(text)


def test_long_names_and_values_are_wrapped():
    why = answer("two")
    for feature in why["features"]:
        feature["description"] = f"a rather long name of the feature {feature['name']}"
    for part in why["attribution"]["features"]:
        part["value"] = "a value in a great many words"
    text = as_text(why, 60)
    assert max(map(len, text.splitlines())) <= 60
    for part in why["attribution"]["features"]:
        assert part["feature"].split()[0] in flat(text)


def test_bars_are_as_long_as_the_points():
    why = answer("two")
    bars = [line for line in as_text(why, 100).splitlines() if "|" in line]
    steps = words.steps(why)
    most = max(abs(step.points) for step in steps)
    for line, step in zip(bars, steps, strict=True):
        left, right = line.split("|")
        assert (left if step.points < 0 else right).count("█") == round(10 * abs(step.points) / most)


def test_a_terminal_can_be_too_narrow():
    with pytest.raises(ValueError, match="width=20"):
        explained().to_text(width=20)


def test_no_precedent_comes_before_the_groups():
    text = as_text(answer("odd"), 100)
    assert text.index(words.NO_PRECEDENT) < text.index("Similar patients")


def test_nobody_votes():
    assert "No past patient contributes to this prediction." in as_text(answer("nobody"), 100)


def test_a_known_outcome_is_told():
    X, _ = table(20, seed=9)
    assert "Known outcome: well." in fitted().explain(X.iloc[0], y=0).to_text()
