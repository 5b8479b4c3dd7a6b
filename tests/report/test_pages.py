"""The pages say what the data say, take no text for HTML, and need nothing from elsewhere."""

import re
from html.parser import HTMLParser

import pytest

from bayespatch.explain import words
from bayespatch.report import case_page, case_report, model_page, model_report
from tests.explain.fitted import BAD, explained, fitted, table, without_precedent

VOID = {"meta", "br", "rect", "line", "circle"}


class Reader(HTMLParser):
    """Tags, texts, and whether every tag is closed."""

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
        return re.sub(r"\s+", " ", " ".join(self.texts))


def read(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def overview():
    return fitted().overview()


@pytest.fixture(scope="module")
def pages(overview):
    return {"case": case_page(explained()), "model": model_page(overview), "odd": case_page(without_precedent())}


@pytest.mark.parametrize("name", ["case", "model", "odd"])
def test_texts_from_the_data_stay_texts(pages, name):
    reader = read(pages[name])
    assert not {"script", "i"} & set(reader.tags)
    assert BAD in reader.text
    assert "<script" not in pages[name]


@pytest.mark.parametrize("name", ["case", "model", "odd"])
def test_nothing_comes_from_elsewhere_and_nothing_runs(pages, name):
    reader = read(pages[name])
    assert not {"link", "img", "iframe", "object", "script"} & set(reader.tags)
    for _, attribute, value in reader.attributes:
        assert not attribute.startswith("on")
        assert attribute not in ("href", "src")
        assert "http" not in (value or "") or attribute in ("http-equiv", "xmlns")
    assert "@import" not in pages[name]
    assert "url(" not in pages[name]


@pytest.mark.parametrize("name", ["case", "model", "odd"])
def test_a_screen_reader_finds_its_way(pages, name):
    page, reader = pages[name], read(pages[name])
    assert ("html", "lang", "en") in reader.attributes
    assert reader.tags.count("h1") == 1
    assert reader.tags.count("main") == 1
    assert reader.tags.count("caption") == reader.tags.count("table")
    for svg in re.findall(r"<svg[^>]*>", page):
        assert 'aria-hidden="true"' in svg or ('role="img"' in svg and "aria-label=" in svg)
    assert re.findall(r"<th(?![^>]*scope)[ >]", page) == []


def test_the_case_page_has_the_figures_of_the_explanation(pages):
    why, text = explained(), read(pages["case"]).text
    for sentence in (words.prediction, words.precedent, words.stability, words.reliance, words.vote_shares):
        assert sentence(why) in text
    for neighbor in why.shown:
        assert f"#{neighbor.id}" in text
        assert f"{neighbor.influence:.2f}" in text
        assert words.points(neighbor.reliance) in text
        assert words.percent(neighbor.vote_share) in text
    for feature in why.features:
        assert f"{feature.importance:.2f}" in text
        assert feature.value in text
    cells = re.findall(r'<td class="(marked|agrees|differs)">', pages["case"])
    states = [words.state(patch) for n in why.shown for patch in n.features.values()]
    assert sorted(cells) == sorted(states)


def test_no_precedent_is_an_alert(pages):
    assert words.NO_PRECEDENT in pages["odd"]
    assert 'role="alert"' in pages["odd"]
    assert "not seen before" in pages["odd"]
    assert words.NO_PRECEDENT not in pages["case"]


def test_the_model_page_has_the_figures_of_the_overview(pages, overview):
    text = read(pages["model"]).text
    good = overview.performance
    for name, score in good.scores.items():
        assert f"{score:.3f}" in text
        assert name in text
    for group in overview.subgroups:
        assert group.value in text
    for feature in overview.features:
        assert f"{feature.mean:.2f}" in text
        assert f"{feature.n_missing} (" in text
    for name, count in overview.classes.items():
        assert name in text
        assert str(count) in text
    for case in (*overview.influential, *overview.unusual):
        assert f"#{case.id}" in text
    assert "Nobody has stated what this model is for" in text
    assert "has not fully mixed" in text


def test_the_intended_use_is_told_and_escaped(overview):
    page = model_page(overview, intended_use="For <b>adults</b>.")
    assert "For <b>adults</b>." in read(page).text
    assert "Nobody has stated" not in page


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
        model_report(fitted(), tmp_path / "model.html", intended_use=3)


def test_a_known_outcome_and_nobody_who_speaks():
    X, _ = table(20, seed=9)
    why = fitted().explain(X.iloc[0], y=1)
    assert "Known outcome: sick <i>" in read(case_page(why)).text
    alone = type(why)(**{**vars(why), "neighbors": (), "dissenting": ()})
    assert "No past case speaks" in read(case_page(alone)).text
