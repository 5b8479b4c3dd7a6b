"""Fills the templates of the pages, which use those of `bayespatch.report`. The template engine escapes all text."""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import quote

from markupsafe import Markup

from bayespatch.explain import words
from bayespatch.language import moment, to_translate
from bayespatch.report import case_body, script, style, templates
from bayespatch.types import JSONObject
from bayespatch.web.service import CASES

if TYPE_CHECKING:
    from jinja2 import Environment

FORGOTTEN = to_translate("A past case shown here was forgotten later; its votes still count in the figures.")


@cache
def _environment() -> Environment:
    from jinja2 import ChoiceLoader, PackageLoader

    shared = templates()
    places = ("bayespatch.web", "bayespatch.report", "bayespatch.explain")
    environment = shared.overlay(loader=ChoiceLoader([PackageLoader(place) for place in places]))
    environment.filters.update(shared.filters, time=time_text, quoted=quoted, capitalized=words.sentence)
    environment.globals.update(shared.globals, words=words, case_link=CASES, static=static_address)
    return environment


def render(template: str, **content: object) -> str:
    """Render a template."""
    return str(_environment().get_template(template).render(**content))


def explanation(why: JSONObject, date: str = "") -> Markup:
    """The HTML of an explanation (`Explanation.to_dict`), with links to the past cases."""
    return Markup(case_body(presentable(why), case_link=CASES, date=date))


def presentable(why: JSONObject) -> JSONObject:
    """A stored explanation without past cases that have been forgotten since, with a warning if there were any."""
    neighbors = [part for part in why["neighbors"] if not part.get("forgotten")]
    gone = [(part["closest"] or {}).get("forgotten", False) for part in why["groups"]]
    if len(neighbors) == len(why["neighbors"]) and not any(gone):
        return why
    groups = [{**part, "closest": None} if lost else part for part, lost in zip(why["groups"], gone, strict=True)]
    case = {**why["case"], "warnings": [*why["case"]["warnings"], FORGOTTEN]}
    case["warning_kinds"] = [*why["case"]["warning_kinds"], "forgotten"]
    return {**why, "case": case, "neighbors": neighbors, "groups": groups}


def time_text(at: str | None) -> str:
    """A time as text in the current language.

    Examples
    --------
    >>> time_text("2026-11-15T22:48:42.710732Z")
    '2026-11-15 22:48'
    """
    return "–" if at is None else moment(datetime.fromisoformat(at))


def quoted(text: str) -> str:
    """A text quoted for use in a URL."""
    return quote(text, safe="/")


# Files that do not change while the program runs; their names contain a hash, so browsers may cache them.


@cache
def static_files() -> dict[str, tuple[bytes, str]]:
    """Static files: name -> content and media type."""
    own = files("bayespatch.web").joinpath("static")
    return {
        "style.css": ((style() + own.joinpath("web.css").read_text(encoding="utf-8")).encode(), "text/css"),
        "page.js": (script().encode(), "text/javascript"),
        "web.js": (own.joinpath("web.js").read_bytes(), "text/javascript"),
        "icon.svg": (own.joinpath("icon.svg").read_bytes(), "image/svg+xml; charset=utf-8"),
    }


@cache
def static_address(name: str) -> str:
    """The address of a static file."""
    return f"/static/{hashlib.sha256(static_files()[name][0]).hexdigest()[:12]}/{name}"
