"""Take the screenshots in docs/figures with the bundled heart data; a server provides the consulting page.

``make pages GENERATORS=screenshots`` needs Chromium (on the path, or named in CHROMIUM) and Playwright.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import uvicorn
from playwright.sync_api import Page, sync_playwright

from bayespatch import PatchworkClassifier
from bayespatch.casebase import CaseBase
from bayespatch.datasets import load_heart
from bayespatch.report import case_report
from bayespatch.web import Settings, create_app, demo

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
Scheme = Literal["light", "dark"]
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")


def main() -> None:
    """Start the server and take the screenshots."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "heart.db")
        print("learning", file=sys.stderr)
        with CaseBase.open(path) as base:
            example = demo.fill(base, "Dr. Roe")
        app = create_app(Settings(path, sign_in=False, example=example))
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        try:
            look(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", example)
        finally:
            server.should_exit = True
            thread.join(30)


def look(address: str, example: int) -> None:
    """Take all screenshots."""
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

        def page(width: int = 1280, height: int = 800, scheme: Scheme = "light") -> Page:
            size = {"width": width, "height": height}
            return browser.new_context(viewport=size, color_scheme=scheme, base_url=address).new_page()

        consult(page(), example)
        answers(page)
        browser.close()


def consult(seen: Page, example: int) -> None:
    """The consulting page: an answer, a changed value, a rejected value."""
    seen.goto(f"/consult?from={example}")
    picture(seen, "serve_consult")
    seen.fill('[name="v:ca"]', "2")
    seen.wait_for_selector(".change")
    seen.wait_for_timeout(2500)  # until the answer is complete
    picture(seen, "serve_what_if")
    seen.fill('[name="v:age"]', "640")
    seen.wait_for_selector(".outdated")
    picture(seen, "serve_outdated")


def answers(page: Callable[..., Page]) -> None:
    """The page about the demo patient: on screen, light and dark, and on paper."""
    X, y = load_heart()
    others = X.index != demo.PATIENT
    clf = PatchworkClassifier(**demo.QUICK).fit(X[others], y[others])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.html"
        case_report(clf.explain(X.loc[demo.PATIENT]), path)
        for name, width, height, scheme in (
            ("answer", 1280, 800, "light"),
            ("answer_dark", 1280, 800, "dark"),
            ("answer_phone", 390, 2 * 844, "light"),
            ("answer_phone_dark", 390, 2 * 844, "dark"),
        ):
            seen = page(width, height, scheme)
            seen.goto(path.as_uri())
            picture(seen, name)
        paper = page(744, 1052)  # A4 without its margins
        paper.goto(path.as_uri())
        paper.emulate_media(media="print")
        paper.evaluate("document.querySelectorAll('details.bp-prints').forEach((part) => { part.open = true; })")
        picture(paper, "answer_print")


def picture(page: Page, name: str) -> None:
    """Save a screenshot of the window."""
    page.screenshot(path=FIGURES / f"{name}.png")
    print(FIGURES / f"{name}.png", file=sys.stderr)


if __name__ == "__main__":
    main()
