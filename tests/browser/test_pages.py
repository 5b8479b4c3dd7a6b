"""The pages in a browser: the first screen answers, nothing scrolls sideways, nothing hinders, two sheets of paper.

``make test-browser`` runs these. Chromium is found on the path or through the variable CHROMIUM; axe-core, which finds
what hinders people who cannot see or use a mouse, through AXE (the path of axe.min.js). What is missing is skipped.
"""

import io
import os
import shutil
from pathlib import Path

import pytest

from bayespatch.report import case_page, model_page
from tests.explain.answers import KINDS, answer
from tests.explain.fitted import fitted

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
AXE = Path(os.environ.get("AXE", "build/axe/node_modules/axe-core/axe.min.js"))
if not CHROMIUM:
    pytest.skip("no chromium on the path: install it, or name it in CHROMIUM", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright to test pages in a browser")
NAMES = (*KINDS, "model")
SCREEN = {1280: 800, 390: 2 * 844}  # width of a window -> height in which all questions are answered


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    written = {kind: case_page(answer(kind)) for kind in KINDS}
    written["model"] = model_page(fitted().overview())
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


@pytest.mark.parametrize("name", KINDS)
def test_a_case_is_printed_on_two_sheets_with_its_findings(browser, pages, name):
    pypdf = pytest.importorskip("pypdf", reason="pip install pypdf to count printed pages")
    page = opened(browser, pages[name], scheme="dark", java_script_enabled=False)
    printed = pypdf.PdfReader(io.BytesIO(page.pdf(prefer_css_page_size=True)))
    text = " ".join(sheet.extract_text() for sheet in printed.pages)
    assert len(printed.pages) <= 2
    assert "Counts as close" in text
    assert "How the shares add up" not in text
    page.context.close()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("width", SCREEN)
def test_the_first_screen_answers_all_three_questions(browser, pages, name, width):
    """Two screens of a phone; where there are warnings, the groups and points may begin lower."""
    page = opened(browser, pages[name], width)
    parts = ["section[aria-label='How much?'], section[aria-label='How likely?']"]
    parts += ["section[aria-label='How far can I trust it?']", ".bp-groups", ".bp-points"]
    for part in parts:
        box = page.locator(part).first.bounding_box() if page.locator(part).count() else None
        assert box is not None or (part == ".bp-points" and answer(name)["attribution"] is None)
        assert box is None or box["y"] + box["height"] <= SCREEN[width], part
    page.context.close()


def test_bars_are_visible_at_every_width(browser, pages):
    for width in (390, 880, 1280):
        page = opened(browser, pages["two"], width)
        for part in (".bp-groups .bp-bar", ".bp-points .bp-step", ".bp-icons"):
            for box in [one.bounding_box() for one in page.locator(part).all()]:
                assert box["width"] >= 50
        page.context.close()


def test_dark_and_light(browser, pages):
    colors = []
    for scheme in ("light", "dark"):
        page = opened(browser, pages["two"], scheme=scheme)
        both = [f"getComputedStyle(document.querySelector('{part}')).backgroundColor" for part in ("body", ".bp")]
        colors.append([page.evaluate(color) for color in both])
        page.context.close()
    assert colors == [["rgb(255, 255, 255)"] * 2, ["rgb(20, 24, 27)"] * 2]


def test_details_open_by_keyboard(browser, pages):
    page = opened(browser, pages["two"])
    folded = page.locator("details").count()
    assert folded >= 4
    reached = []
    while len(reached) < folded:
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            page.keyboard.press("Enter")
            reached.append(page.evaluate("document.activeElement.parentElement.open"))
    assert all(reached)
    assert page.locator("details[open]").count() == folded
    page.context.close()


def test_everything_can_be_read_without_javascript(browser, pages):
    page = opened(browser, pages["two"], java_script_enabled=False)
    why = answer("two")
    assert "Counts as close" not in page.inner_text("main")
    for summary in page.query_selector_all("summary"):
        summary.click()
    text = page.inner_text("main")
    assert "Counts as close" in text
    for part in (*why["neighbors"], *(group["closest"] for group in why["groups"])):
        assert f"#{part['id']}" in text
    page.context.close()
