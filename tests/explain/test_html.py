import re
import sys
from html.parser import HTMLParser

import pytest

from bayespatch.explain import html, words
from tests.explain.answers import KINDS, answer
from tests.explain.fitted import explained

VOID = {"meta", "br", "col"}


class Reader(HTMLParser):
    """Tags and texts; every tag is closed."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.open, self.texts = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).replace("\u2060", "").split())  # word joiners keep intervals on one line


def read(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


@pytest.mark.parametrize("kind", KINDS)
def test_names_and_values_are_texts_and_no_tags(kind):
    reader = read(html.answer(answer(kind)))
    assert not {"script", "style", "i"} & set(reader.tags)
    assert not [name for _, name, _ in reader.attributes if name == "style" or name.startswith("on")]
    assert "<script>alert(1)</script>" in reader.text
    if kind == "followed":
        assert "drug <i>" in reader.text
        assert "B <b>" in reader.text


@pytest.mark.parametrize("kind", KINDS)
def test_the_figures_are_those_of_the_explanation(kind):
    why = answer(kind)
    text = read(html.answer(why)).text
    for part in (words.figure, words.of_what, words.base_rate, words.verdict):
        assert part(why) in text
    assert words.sentence(words.within(why)) in text
    for check in words.checks(why):
        assert check.text in text
    for sentence in (*words.caveats(why), *words.warnings(why)):
        assert sentence in text
    for part in why["groups"]:
        who, had = words.group(why, part)
        assert f"{words.percent(part['vote_share'])} {who}: {had}" in text
        for label, share in part["outcomes"].items():
            assert f"{100 * part['vote_share'] * share:.1f}%" in text, label
    assert (words.votes(why) in text) is bool(why["groups"])
    for step in words.steps(why):
        assert f"{step.name} {step.value} {words.step_points(why, step.points)}".strip() in text
    if why["attribution"]:
        for part in why["attribution"]["features"]:
            assert words.step_points(why, part["points"]) in text
    for part in why["neighbors"]:
        assert f"#{part['id']}" in text
        for patch in part["features"].values():
            assert patch["value"] in text


def test_points_are_split_where_there_are_two_opinions():
    why = answer("two")
    text = read(html.answer(why)).text
    for part in why["attribution"]["features"]:
        split = " ".join(words.step_points(why, part[name]) for name in ("points", "precedents", "additive"))
        assert split in text
    assert "points from similar patients and from risk factors" in text
    assert "points from similar patients" not in read(html.answer(answer("alone"))).text


def test_bars_of_groups_show_their_weights():
    why = answer("two")
    widths = [float(width) for width in re.findall(r'class="fill" width="([\d.]+)" height="10"', html.answer(why))]
    shares = [*(part["vote_share"] for part in why["groups"]), words.others(why)]
    assert widths == pytest.approx([100 * share for share in shares], abs=0.051)
    assert sum(shares) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["two", "number"])
def test_an_answer_about_an_unknown_patient_names_no_similar_patients(kind):
    why = answer(kind)
    why["case"]["known"]["n"] = 0
    shown = read(html.answer(why))
    assert words.nothing_known(why) in shown.text
    for part in why["groups"]:
        assert words.group_members(why, part) not in shown.text
    assert not any(f"#{part['id']}" in shown.text for part in why["neighbors"])


def test_icons_show_as_many_dots_as_patients():
    why = answer("two")
    for p, rows in ((0.4, ["95.1"] * 4), (0.12, ["95.1", "15.1"]), (0.0, [])):
        why["prediction"]["probabilities"] = {"well": 1 - p, "sick <i>": p}
        on = html.answer(why).partition('class="on" d="')[2].partition('"')[0] if p else ""
        assert [one.partition("H")[2] for one in on.split("M")[1:]] == rows


def test_no_precedent_is_an_alert():
    page = html.answer(answer("odd"))
    assert 'role="alert"' in page
    assert words.NO_PRECEDENT in page
    assert 'role="alert"' not in html.answer(answer("alone"))


def test_past_cases_are_links_where_they_have_an_address():
    why = answer("two")
    page = html.answer(why, case_link="/cases/")
    for part in why["neighbors"]:
        assert f'<a href="/cases/{part["id"]}">#{part["id"]}</a>' in page
    assert "<a " not in html.answer(why)


def test_a_notebook_shows_the_same_answer():
    why = explained()
    page = why._repr_html_()
    assert page.endswith(html.answer(why.to_dict()))
    assert "<style>.bp {" in page
    assert ":root" not in page


def test_a_notebook_without_jinja2_shows_the_text(monkeypatch):
    html.environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert explained()._repr_html_() is None
    with pytest.raises(ImportError, match=r"bayespatch\[report\]"):
        html.answer(answer())
    html.environment.cache_clear()
