"""The pages in a browser: no sideways scrolling, nothing for an accessibility checker to find, two sheets of paper.

``make test-browser`` runs these. Chromium is found on the path or through the variable CHROMIUM; axe-core, which finds
what hinders people who cannot see or use a mouse, through AXE (the path of axe.min.js). What is missing is skipped.
"""

import io
import os
import shutil
from pathlib import Path

import pytest

from bayespatch.report import case_page, model_page
from tests.explain.fitted import explained, fitted, without_precedent

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
AXE = Path(os.environ.get("AXE", "build/axe/node_modules/axe-core/axe.min.js"))
if not CHROMIUM:
    pytest.skip("no chromium on the path: install it, or name it in CHROMIUM", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright to test pages in a browser")
NAMES = ("case", "odd", "opinions", "model")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    both = explained().to_dict()
    one, other = both["prediction"]["probabilities"]
    both["opinions"] = {
        "precedents": {one: 0.61, other: 0.39},
        "additive": {one: 0.27, other: 0.73},
        "weight": 0.4,
        "base": {one: 0.54, other: 0.46},
        "disagreement": 0.34,
        "points": [{"feature": f["name"], "points": k - 1.5} for k, f in enumerate(both["features"])],
    }
    written = {
        "case": case_page(explained()),
        "odd": case_page(without_precedent()),
        "opinions": case_page(both),
        "model": model_page(fitted().overview()),
    }
    for name, page in written.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in written}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def opened(browser, address, width=1280, scheme="light", **options):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
    page = context.new_page()
    page.errors = []
    page.on("console", lambda message: page.errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.goto(address)
    return page


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_does_not_scroll_sideways(browser, pages, name, width):
    page = opened(browser, pages[name], width)
    for details in page.query_selector_all("summary"):
        details.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.errors == []
    page.context.close()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.skipif(
    not AXE.exists(), reason="no axe-core: make test-browser fetches it with npm; or name axe.min.js in AXE"
)
def test_an_accessibility_checker_finds_nothing(browser, pages, name, width, scheme):
    page = opened(browser, pages[name], width, scheme, bypass_csp=True)
    page.evaluate("document.querySelectorAll('details').forEach((part) => part.open = true)")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run().then((r) => r.violations.map((v) => `${v.id}: ${v.nodes[0].html}`))")
    assert found == []
    page.context.close()


@pytest.mark.parametrize("name", ["case", "odd", "opinions"])
def test_a_case_is_printed_on_two_sheets(browser, pages, name):
    pypdf = pytest.importorskip("pypdf", reason="pip install pypdf to count printed pages")
    page = opened(browser, pages[name], scheme="dark")
    printed = pypdf.PdfReader(io.BytesIO(page.pdf(prefer_css_page_size=True)))
    assert len(printed.pages) <= 2
    page.context.close()


def test_dark_and_light(browser, pages):
    colors = []
    for scheme in ("light", "dark"):
        page = opened(browser, pages["case"], scheme=scheme)
        colors.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.context.close()
    assert colors == ["rgb(255, 255, 255)", "rgb(20, 24, 27)"]


def test_features_can_be_ordered_by_keyboard(browser, pages):
    page = opened(browser, pages["case"])
    rows = "[...document.querySelectorAll('.patchwork tbody tr')].map((row) => Number(row.dataset.importance))"
    before = page.evaluate(rows)
    page.focus('button[data-sort="importance"]')
    page.keyboard.press("Enter")
    assert page.evaluate(rows) == sorted(before, reverse=True)
    assert page.get_attribute('button[data-sort="importance"]', "aria-pressed") == "true"
    page.focus('button[data-sort="place"]')
    page.keyboard.press("Enter")
    assert page.evaluate(rows) == before
    page.focus(".exemplars summary")
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector('.exemplars details').open")
    page.context.close()


def test_everything_can_be_read_without_javascript(browser, pages):
    page = opened(browser, pages["case"], java_script_enabled=False)
    text = page.inner_text("main")
    assert "Order the features by" not in text  # buttons that would do nothing
    for part in explained().exemplars:
        assert f"#{part.id}" in text
    page.click(".exemplars summary >> nth=0")
    for member in explained().exemplars[0].members:
        assert f"#{member.id}" in page.inner_text("main")
    page.context.close()
