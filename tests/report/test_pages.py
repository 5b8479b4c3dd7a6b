"""The pages say what the data say, take no text for HTML, and need nothing from elsewhere."""

import hashlib
import json
import re
from base64 import b64encode

import pytest

from bayespatch.explain import words
from bayespatch.report import case_body, case_page, case_report, model_page, model_report, script, style
from tests.explain.answers import answer
from tests.explain.fitted import BAD, explained, fitted, table, without_precedent
from tests.explain.test_html import read


@pytest.fixture(scope="module")
def overview():
    return fitted().overview()


@pytest.fixture(scope="module")
def pages(overview):
    return {"case": case_page(explained()), "model": model_page(overview), "odd": case_page(without_precedent())}


@pytest.mark.parametrize("name", ["case", "model", "odd"])
def test_texts_from_the_data_stay_texts(pages, name):
    reader = read(pages[name])
    assert "i" not in reader.tags
    assert reader.tags.count("script") == 1  # our own
    assert BAD in reader.text
    assert pages[name].count("<script") == 1


@pytest.mark.parametrize("name", ["case", "model", "odd"])
def test_nothing_comes_from_elsewhere_and_nothing_else_runs(pages, name):
    reader = read(pages[name])
    assert not {"link", "img", "iframe", "object"} & set(reader.tags)
    for _, attribute, value in reader.attributes:
        assert not attribute.startswith("on")
        assert attribute not in ("href", "src", "style")
        assert "http" not in (value or "") or attribute in ("http-equiv", "xmlns")
    assert "@import" not in pages[name]
    assert "url(" not in pages[name]
    (policy,) = (v for t, a, v in reader.attributes if t == "meta" and a == "content" and "default-src" in v)
    for tag, text in (("script", script()), ("style", style())):
        digest = b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
        assert f"<{tag}>{text}</{tag}>" in pages[name]


@pytest.mark.parametrize("name", ["case", "model", "odd"])
def test_a_screen_reader_finds_its_way(pages, name):
    page, reader = pages[name], read(pages[name])
    assert ("html", "lang", "en") in reader.attributes
    assert reader.tags.count("h1") == 1
    assert reader.tags.count("main") == 1
    for svg in re.findall(r"<svg[^>]*>", page):
        assert 'aria-hidden="true"' in svg or ('role="img"' in svg and "aria-label=" in svg)
    assert re.findall(r"<th(?![^>]*scope)[ >]", page) == []


def test_the_order_is_that_of_a_reader(pages):
    order = ('aria-label="How likely?"', "<h1>", 'aria-label="How far can I trust it?"', 'aria-label="Why?"')
    places = [pages["case"].index(name) for name in order]
    assert places == sorted(places)


def test_a_stored_explanation_makes_the_same_page(pages):
    stored = json.loads(json.dumps(explained().to_dict()))
    assert case_page(stored) == pages["case"]
    assert case_body(stored) in pages["case"]


def test_no_precedent_is_an_alert(pages):
    assert words.NO_PRECEDENT in pages["odd"]
    assert 'role="alert"' in pages["odd"]
    assert "not seen before" in pages["odd"]
    assert words.NO_PRECEDENT not in pages["case"]
    for text in words.warnings(without_precedent().to_dict()):
        assert text in read(pages["odd"]).text


def test_the_model_page_has_the_figures_of_the_overview(pages, overview):
    text = read(pages["model"]).text
    good = overview.performance
    for name, score in good.scores.items():
        assert f"{score:.3f}" in text
        assert name in text
    for group in overview.subgroups:
        assert group.value in text
    for feature in overview.features:
        assert f"{100 * feature.importance:.1f}%" in text
        assert f"{feature.q:.2f}" in text
        assert f"{feature.n_missing} (" in text
    for name, count in overview.classes.items():
        assert name in text
        assert str(count) in text
    for case in (*overview.influential, *overview.unusual):
        assert f"#{case.id}" in text
    assert "Intended use: not specified" in text
    for name in overview.classes:
        for row in good.thresholds[name]:
            assert f"{row.net_benefit:.3f}" in text
        assert f"Calibration for {name}" in text
        assert f"{name}: predicted / observed" in text
    assert pages["model"].count('aria-label="ROC curve') == len(overview.classes)
    assert pages["model"].count('aria-label="Decision curve') == len(overview.classes)
    assert ("too few draws." in text or "have not mixed." in text) is not overview.diagnostics["converged"]


def test_the_intended_use_is_told_and_escaped(overview):
    page = model_page(overview, intended_use="For <b>adults</b>.")
    assert "For <b>adults</b>." in read(page).text
    assert "not specified" not in page


def test_files_are_written(tmp_path, pages):
    case_report(explained(), tmp_path / "case.html")
    assert (tmp_path / "case.html").read_text(encoding="utf-8") == pages["case"]
    fitted().report(tmp_path / "model.html")
    assert (tmp_path / "model.html").read_text(encoding="utf-8") == pages["model"]
    with pytest.raises(ValueError, match="there is no folder"):
        model_report(fitted(), tmp_path / "no" / "model.html")
    with pytest.raises(ValueError, match="is a folder"):
        case_report(explained(), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(ValueError, match="intended_use=3"):
        model_report(fitted(), tmp_path / "model.html", intended_use=3, overwrite=True)
    with pytest.raises(ValueError, match="already exists; pass overwrite=True"):
        case_report(explained(), tmp_path / "case.html")


def test_a_known_outcome_and_nobody_who_votes():
    X, _ = table(20, seed=9)
    why = fitted().explain(X.iloc[0], y=1)
    assert "Known outcome: sick <i>" in read(case_page(why)).text
    assert "No past patient contributes" in read(case_page(answer("nobody"))).text


def test_a_counterfactual_follows_the_answer():
    X, _ = table(20, seed=9)
    found = fitted().counterfactual(X.iloc[0], most=1).to_dict()
    page = case_page(explained(), found)
    assert page.index("What would change the prediction") > page.index('class="bp"')
    for text in found["sentences"]:
        assert text in read(page).text
