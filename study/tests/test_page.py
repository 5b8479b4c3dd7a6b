import pytest

from study.page import write_page
from study.parts import Context
from study.protocol import QUICK
from study.results import Results
from study.tests.tiny import TINY, part, tables_of

PARTS = ("heart", "breast", "others", "sample-patient", "full", "importance")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    results = Results(tmp_path_factory.mktemp("page"))
    context = Context(seed=0, sizes=TINY)
    for name in PARTS:
        results.store(part(name), context, list(tables_of(name).values()), seconds=1.0)
    results.draw(set(), context)
    return results, write_page(results, context).read_text()


def test_it_follows_the_paper(page):
    _, text = page
    places = [text.index(label) for label in ("(tab:result1)", "(tab:result2)", "(fig:estpr)", "(tab:comparison1)")]
    assert places == sorted(places)
    assert "quick study" not in text


def test_the_paper_s_number_ours_and_the_difference_stand_side_by_side(page):
    results, text = page
    (record,) = results["heart-summary"].where(setting="paper", model="I", learning="supervised").records()
    line = next(line for line in text.splitlines() if line.startswith("| supervised | I | 0.829 |"))
    assert f"| {record['accuracy']:.3f} (" in line
    assert f"| {record['accuracy'] - 0.8288:.3f} |" in line


def test_claims_without_results_say_so(page):
    _, text = page
    assert "| More parents help | subsec:sensS | **not run** |  |" in text
    line = next(line for line in text.splitlines() if line.startswith("| Model II is better than Model I |"))
    assert "not run" not in line
    assert "±" in line


def test_every_link_leads_somewhere(page):
    import re

    results, text = page
    links = re.findall(r"\]\(((?:tables|figures)/[^)]+)\)", text)
    assert len(links) > 8
    for link in links:
        assert (results.folder / link).exists(), link


def test_the_quick_study_warns(tmp_path):
    text = write_page(Results(tmp_path), Context(seed=0, sizes=QUICK)).read_text()
    assert "Do not draw conclusions from them" in text
    assert "not run" in text
