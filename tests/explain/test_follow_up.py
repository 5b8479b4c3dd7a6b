"""What became of similar patients, as text and on pages."""

import re

import pytest

from bayespatch.explain import follow_up as words
from bayespatch.explain import html
from bayespatch.explain.text import as_text
from bayespatch.explain.words import interval, percent
from tests.explain.answers import answer, follow_up


def unspaced(text):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


@pytest.mark.parametrize("render", [lambda why: as_text(why, 120), html.answer])
def test_every_rendering_has_the_figures_and_the_caveat(render):
    why = answer("followed")
    found = follow_up()
    text = unspaced(render(why))
    assert "Treatments were not assigned at random" in text
    for one in found["days"]["landmarks"]:
        assert percent(one["survival"]) in text
        assert interval((one["low"], one["high"])) in text
        assert f"{one['at_risk']:.0f}" in text
    for one in found["ward"]["shares"]:
        assert percent(one["share"]) in text
    assert words.median(found["stay"]) in text.replace("Median", "median")
    assert "length of stay" in text.lower()
    assert "not shown: fewer than 10 past cases" in text


def test_treatments_are_in_alphabetical_order_and_compared_at_the_same_time():
    found = follow_up()["treatment <b>"]
    rows = [words.treatment_cells(row, ["days"], "sick") for row in found["treatments"][:2]]
    when = {re.search(r"at (\d+) days", row[2]).group(1) for row in rows}
    assert len(when) == 1
    names = [row["treatment"] for row in found["treatments"]]
    assert names == sorted(names)
    assert all(row[1].startswith("sick") for row in rows)


def test_without_follow_up_nothing_is_said():
    why = answer()
    assert "What happened" not in as_text(why, 120)
    assert "What happened" not in html.answer(why)


def test_the_curve_is_that_of_the_summary():
    summary = follow_up()["days"]
    points = [tuple(map(float, pair.split(","))) for pair in words.curve_points(summary)["survival"].split()]
    assert points[0] == (0.0, 0.0)
    assert points[-1] == (320.0, round(120.0 * (1.0 - summary["curve"]["survival"][-1]), 1))
    assert len(words.curve_points(summary)["band"].split()) == 2 * len(points)


def test_medians_that_are_not_reached_are_said_to_be_so():
    summary = {**follow_up()["days"], "median": {"value": None, "low": 310.0, "high": None}}
    assert words.median(summary) == "median not reached (above 310)"
    assert words.median({**summary, "median": dict.fromkeys(("value", "low", "high"))}) == "median not reached"
