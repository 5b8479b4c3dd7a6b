"""The consulting page in a browser: what people do there, by mouse and by keyboard, without scripts, on a phone.

``make test-browser`` runs these; see test_pages.py for what is needed.
"""

import os
import re
import shutil
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
AXE = Path(os.environ.get("AXE", "build/axe/node_modules/axe-core/axe.min.js"))
if not CHROMIUM:
    pytest.skip("no chromium on the path: install it, or name it in CHROMIUM", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright to test pages in a browser")

import uvicorn  # noqa: E402

from bayespatch.casebase.refit import learn  # noqa: E402
from bayespatch.web import Settings, create_app, passwords  # noqa: E402
from tests.casebase.clinic import QUICK, Places  # noqa: E402

expect = playwright.expect
CONSULT = re.compile(r":\d+/consult$")
PASSWORD = "correct horse battery"
PEOPLE = {"Dr. Roe": "clinician", "Sam Steward": "steward"}
PATIENT = {"v:age": "61", "v:bp": "130.5", "v:town": "Ulm"}


@contextmanager
def running(app):
    """The application, served at a free port."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    app.state.address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield app
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A clinic with people, and a version of the model that waits to be promoted."""
    app = create_app(Settings(Places(tmp_path_factory.mktemp("clinic"), None).copy(), rate=100_000))
    base = app.state.service.base
    for name, role in PEOPLE.items():
        base.people.accept(base.people.invite(name, role, by="tester"), passwords.hashed(PASSWORD))
    learn(base._database, "tester", {**QUICK, "draws": 12})
    seen = base.consult({"age": 70, "pain": 2, "bp": None, "smokes": True, "town": "Jena"}, by="Dr. Roe")
    app.state.seen = seen
    with running(app):
        yield app


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def opened(browser, served, name=None, width=1280, scheme="light", **options):
    """A page, signed in as someone."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, base_url=served.state.address, **options
    )
    page = context.new_page()
    page.errors = []
    page.on("console", lambda message: page.errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.goto("/")
    if name is not None:
        page.fill("#name", name)
        page.fill("#password", PASSWORD)
        page.click("button.main")
        page.wait_for_url(CONSULT)
    return page


def fill(page):
    for key, value in PATIENT.items():
        page.fill(f'[name="{key}"]', value)
    page.get_by_role("group", name="chest pain").get_by_label("atypical").check()
    page.get_by_role("group", name="smokes").get_by_label("yes").check()


def probability(page):
    return int(re.search(r"(\d+)%", page.inner_text("#answer h1"))[1])


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_patient_s_life(browser, served, width, scheme):
    """Sign in, consult, what-if, undo, save, override, outcome, search, promote, forget, sign out."""
    name = f"H-{width}"
    page = opened(browser, served, "Dr. Roe", width, scheme)
    fill(page)
    page.click("button:has-text('Get prediction')")
    before = page.inner_text("#answer h1")
    page.get_by_role("group", name="chest pain").get_by_label("none").check()
    page.wait_for_selector(".change")
    table = page.inner_text(".change table")
    assert "atypical" in table
    assert "none" in table
    assert "changed" in page.evaluate(
        "getComputedStyle(document.querySelector('.field.moved legend'), '::after').content"
    )
    assert page.inner_text("#answer h1") != before or "+0" in table or "-0" in table
    page.fill('[name="v:age"]', "30")
    expect(page.locator(".change .changed")).to_have_count(2)
    page.click("#undo")
    expect(page.locator(".change .changed")).to_have_count(1)
    assert page.input_value('[name="v:age"]') == "61"
    page.fill('[name="v:age"]', "610")
    page.wait_for_selector("text=outside the possible range")
    page.fill('[name="v:age"]', "62")
    page.wait_for_selector("text=62 years")
    page.click("#undo")
    page.click("#undo")
    page.click("text=Restore original values")
    assert page.inner_text("#answer h1") == before
    page.fill("#external_id", name)
    page.click("button[value=save]")
    page.wait_for_url("**/consultations/*")
    place = page.url
    answer = page.inner_text(".as-shown h1")
    decided = "sick" if int(re.search(r"(\d+)%", answer)[1]) < 50 else "well"
    page.get_by_label(decided, exact=True).first.check()
    page.select_option("[name=code]", "history")
    page.fill("[name=reason]", "his cousin saw the attack")
    page.click("text=Record the decision")
    assert "override" in page.inner_text(".revise")
    page.locator("section", has_text="Outcome").get_by_label("sick", exact=True).check()
    page.click("text=Record the outcome")
    page.wait_for_url("**/cases/*")
    page.click("nav >> text=Past cases")
    page.fill("[name=case]", name)
    page.click("text=Open")
    case = page.url
    assert name in page.inner_text("main")
    page.goto("/cases?c0=age&o0=>=&w0=70")
    rows = page.inner_text("table.cases tbody")
    assert all(int(age) >= 70 for age in re.findall(r"(\d+) years", rows))
    page.goto(place)
    assert "his cousin saw the attack" in page.inner_text("main"), "the link opens it again"
    page.click("text=Sign out")
    page.wait_for_url("**/sign-in")
    page.goto(place)
    assert "/sign-in" in page.url
    assert page.errors == []
    page.context.close()

    page = opened(browser, served, "Sam Steward", width, scheme)
    page.goto("/model")
    page.click("button:has-text('Promote')")
    page.wait_for_url("**/model")
    assert served.state.service.active().version == 2
    page.click("text=Roll back")
    page.wait_for_selector("td:has-text('active')")
    assert served.state.service.active().version == 1
    page.goto(case)
    page.click("text=Make it a past case")
    page.click("text=Forget this patient")
    page.fill("[name=reason]", "asked for it")
    page.check("[name=sure]")
    page.click("button.danger")
    page.fill("[name=own_password]", PASSWORD)
    page.click("button:has-text('Confirm')")
    assert "was forgotten" in page.inner_text("h1")
    page.goto("/audit")
    page.click("text=Verify the log")
    assert "Intact" in page.inner_text("main")
    # The browser notes that the password was asked for before the patient was forgotten.
    assert [text for text in page.errors if "422" not in text] == []
    page.context.close()


def test_a_rejected_value_makes_the_answer_out_of_date(browser, served):
    """It is dimmed, cannot be used, saved or printed, until the form has values that the model can read."""
    page = opened(browser, served, "Dr. Roe", width=390)
    fill(page)
    page.click("button:has-text('Get prediction')")
    notice, answer = page.locator("#outdated"), page.locator("#answer")
    expect(notice).to_be_hidden()
    page.fill('[name="v:age"]', "610")
    expect(notice).to_have_text("The answer below is out of date. Correct the marked value.")
    assert answer.evaluate("(one) => one.inert")
    assert float(answer.evaluate("(one) => getComputedStyle(one).opacity")) <= 0.5
    expect(page.locator("#glance")).to_have_text("Out of date")
    expect(page.locator("button[value=save]")).to_be_disabled()
    expect(page.locator("[data-print]")).to_be_disabled()
    page.emulate_media(media="print")
    expect(answer).to_be_hidden()
    expect(notice).to_be_visible()
    page.emulate_media(media="screen")
    page.fill('[name="v:age"]', "62")
    expect(notice).to_be_hidden()
    assert not answer.evaluate("(one) => one.inert")
    expect(page.locator("button[value=save]")).to_be_enabled()
    page.context.close()


def test_the_first_screen_answers_all_three_questions(browser, served):
    for width, height in ((1280, 800), (390, 2 * 844)):
        page = opened(browser, served, "Dr. Roe", width)
        page.goto(f"/consult?from={served.state.seen.id}")
        top = page.locator("#answer").bounding_box()["y"] if width < 1280 else 0  # a phone shows the form first
        for part in ("How likely?", "How far can I trust it?"):
            box = page.locator(f"section[aria-label='{part}']").bounding_box()
            assert box["y"] + box["height"] - top <= height, part
        for part in (".bp-groups", ".bp-points"):
            box = page.locator(part).bounding_box()
            assert box["y"] + box["height"] - top <= height, part
        page.context.close()


def test_what_would_change_the_answer(browser, served):
    """Choose what may change, find the smallest change, try it, go back."""
    page = opened(browser, served, "Dr. Roe", width=390)
    fill(page)
    page.click("button:has-text('Get prediction')")
    before = page.inner_text("#answer h1")
    page.click("summary:has-text('What would change the answer?')")
    page.get_by_role("checkbox", name="town").uncheck()
    page.click("text=Find the smallest change")
    page.wait_for_url("**/consult#counterfactual")
    found = page.locator("#counterfactual")
    expect(found).to_be_in_viewport()
    assert not page.get_by_role("checkbox", name="town").is_checked()
    n_changed = found.locator(".changed").count()
    assert n_changed >= 1
    assert "town" not in found.locator("table").inner_text()
    page.click("text=Try this")
    page.wait_for_selector("#change")
    expect(page.locator(".change .changed")).to_have_count(n_changed)
    assert page.inner_text("#answer h1") != before
    page.click("text=Restore original values")
    assert page.inner_text("#answer h1") == before
    assert page.errors == []
    page.context.close()


def test_by_keyboard_alone(browser, served):
    page = opened(browser, served)
    page.keyboard.type("Dr. Roe")
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(CONSULT)
    page.wait_for_load_state()
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.name || document.activeElement.textContent")
        if not reached or reached[-1] != name:
            reached.append(name)
        if name == "v:age":
            page.keyboard.type("61")
        if name == "v:pain":
            page.keyboard.press("ArrowLeft")
        if name == "action":
            break
    assert [name for name in reached if name.startswith("v:")] == ["v:age", "v:pain", "v:bp", "v:smokes", "v:town"]
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer h1")
    assert "90% interval" in page.inner_text("#answer h1")
    page.focus('[name="v:age"]')
    page.keyboard.press("Control+A")
    page.keyboard.type("30")
    page.wait_for_selector(".change")
    page.focus("#undo")
    page.keyboard.press("Enter")
    page.wait_for_selector(".change", state="detached")
    outline = page.evaluate(
        "(() => { const a = document.querySelector('nav a'); a.focus(); return getComputedStyle(a).outlineStyle; })()"
    )
    assert outline == "solid"
    press(page, "button[value=save]")
    page.wait_for_url("**/consultations/*")
    answer = page.inner_text(".as-shown h1")
    reach(page, "[name=decided]")
    predicted = "sick" if int(re.search(r"(\d+)%", answer)[1]) >= 50 else "well"
    if page.evaluate("document.activeElement.value") == predicted:
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    reach(page, "[name=reason]")
    page.keyboard.type("seen by hand")
    press(page, "button:has-text('Record the decision')")
    page.wait_for_selector("text=seen by hand")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    press(page, "button:has-text('Sign out')")
    page.wait_for_url("**/sign-in")
    page.context.close()


def reach(page, selector):
    """Press Tab until the focus is there."""
    for _ in range(120):
        page.keyboard.press("Tab")
        if page.evaluate("(one) => one !== null && one === document.activeElement", page.query_selector(selector)):
            return
        if selector == "[name=decided]" and page.evaluate("document.activeElement.name") == "decided":
            return
    raise AssertionError(f"Tab does not lead to {selector}")


def press(page, selector):
    reach(page, selector)
    page.keyboard.press("Enter")


def test_without_scripts(browser, served):
    page = opened(browser, served, "Dr. Roe", java_script_enabled=False)
    fill(page)
    page.click("button:has-text('Get prediction')")
    assert "Similar patients, in groups" in page.inner_text("#answer")
    assert not page.is_visible("#undo")
    page.fill('[name="v:age"]', "30")
    page.click("button:has-text('Update')")
    assert "61 years" in page.inner_text(".change")
    page.click("text=Restore original values")
    assert page.input_value('[name="v:age"]') == "61"
    page.click("summary:has-text('What would change the answer?')")
    page.click("text=Find the smallest change")
    page.click("text=Try this")
    assert page.locator(".change .changed").count() >= 1
    page.click("text=Restore original values")
    page.click("button[value=save]")
    page.wait_for_url("**/consultations/*")
    page.get_by_label("sick", exact=True).first.check()
    page.fill("[name=reason]", "because")
    page.click("text=Record the decision")
    assert "because" in page.inner_text(".revise")
    page.context.close()


PATHS = (
    *("/sign-in", "/consult", "/consult?from={seen}", "/worklist", "/consultations/{seen}", "/cases", "/cases/7"),
    *("/model", "/monitoring", "/people", "/account", "/tokens", "/audit?verify=1", "/nowhere"),
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("path", PATHS)
def test_pages_fit_and_hinder_nobody(browser, served, signed_in, path, width, scheme):
    """No sideways scrolling, no error in the console; where axe-core is, it finds nothing."""
    page = signed_in(width, scheme)
    page.errors.clear()
    visit(page, served, path, width)


def visit(page, served, path, width):
    page.goto(path.format(seen=served.state.seen.id))
    if path.startswith("/consult?"):
        page.click("details:has(button[value=counterfactual]) > summary")
        page.click("button[value=counterfactual]")
        page.wait_for_selector("#counterfactual")
        look(page, width)
        page.click("button[value=try]")
        page.fill('[name="v:age"]', "30")
        page.wait_for_selector("text=30 years")
        page.wait_for_selector("#answer:not([aria-busy])")
    look(page, width)


def look(page, width):
    """The page as it stands: how wide it is, what the console says, what axe-core finds."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert [error for error in page.errors if "404" not in error] == []
    if AXE.exists():
        page.evaluate("document.querySelectorAll('details').forEach((part) => part.open = true)")
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate(
            "axe.run().then((r) => r.violations.map((v) => `${v.impact} ${v.id}: ${v.nodes[0].html}`))"
        )
        assert found == []


@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_in_german(browser, served, width):
    """Words are longer; nothing scrolls sideways, with everything unfolded."""
    page = opened(browser, served, "Sam Steward", width, locale="de-DE", bypass_csp=True)
    link = served.state.service.base.people.invite(f"Dr. Neu {width}", "clinician", by="tester")
    for path in (*PATHS, f"/join/{link}"):
        visit(page, served, path, width)
        assert page.evaluate("document.documentElement.lang") == "de", path
        page.evaluate("document.querySelectorAll('details').forEach((part) => part.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    page.context.close()


def test_a_person_switches_the_language(browser, served):
    page = opened(browser, served, "Dr. Roe", width=390)
    page.goto(f"/consult?from={served.state.seen.id}")
    page.click("button:has-text('Deutsch')")
    page.wait_for_selector("html[lang=de]")
    assert page.url.endswith(f"/consult?from={served.state.seen.id}")
    assert "Wie weit kann ich der Antwort vertrauen?" in page.inner_text("#answer")
    page.fill('[name="v:age"]', "610")
    expect(page.locator("#outdated")).to_have_text(
        "Die Antwort unten ist nicht mehr aktuell. Korrigieren Sie den markierten Wert."
    )
    expect(page.locator("#glance")).to_have_text("Nicht mehr aktuell")
    page.fill('[name="v:bp"]', "130,5")
    page.fill('[name="v:age"]', "61,5")
    page.wait_for_selector("text=Wirkung Ihrer Änderungen")
    expect(page.locator(".change .changed")).to_have_count(2)
    assert "61,5 years" in page.inner_text(".change")
    label = "getComputedStyle(document.querySelector('.field.moved label'), '::after').content"
    assert "geändert" in page.evaluate(label)
    page.click("button:has-text('English')")
    page.wait_for_selector("html[lang=en]")
    assert page.errors == []
    page.context.close()


@pytest.fixture(scope="module")
def signed_in(browser, served):
    pages = {}

    def page(width, scheme):
        if (width, scheme) not in pages:
            pages[width, scheme] = opened(browser, served, "Sam Steward", width, scheme, bypass_csp=True)
        return pages[width, scheme]

    yield page
    for one in pages.values():
        one.context.close()


def test_a_consultation_is_printed_without_the_form(browser, served):
    pypdf = pytest.importorskip("pypdf", reason="pip install pypdf to count printed pages")
    import io

    page = opened(browser, served, "Dr. Roe", scheme="dark")
    page.goto(f"/consult?from={served.state.seen.id}")
    printed = pypdf.PdfReader(io.BytesIO(page.pdf(prefer_css_page_size=True)))
    text = " ".join(part.extract_text() for part in printed.pages)
    assert len(printed.pages) <= 2
    assert "90% interval" in text
    assert "Update" not in text
    page.context.close()
