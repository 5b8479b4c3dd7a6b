"""Consult: a form, the answer beside it, and what changes when a value does."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from typing import Any

from starlette.responses import JSONResponse, Response

from bayespatch.casebase.people import CLINICIAN
from bayespatch.dictionary import Dictionary, Value
from bayespatch.explain import words
from bayespatch.web import forms, rendering
from bayespatch.web.access import Ask, page_route
from bayespatch.web.changes import compare
from bayespatch.web.refusals import Refusal, refusal_of

Values = dict[str, Value]
FIRST = "f"  # prefix of the first version's values in the form


async def show(ask: Ask) -> Response:
    """An empty form; or, with ``from``, the values of a consultation, as the first version."""
    dictionary = await _dictionary(ask)
    number = ask.request.query_params.get("from", "")
    if not number:
        return ask.page("consult.html", **_form(dictionary, {}, {}, {}, ""), example=ask.service.settings.example)
    if not number.isdecimal() or len(number) > 18:
        raise Refusal(404, "There is no such consultation.")
    seen, _, case = await ask.do(ask.base.consultation, int(number), by=ask.by)
    said = forms.filled(dictionary, seen.values)
    external_id = case.external_id or "" if case.state == "open" else ""
    content = await _answered(ask, dictionary, said, said)
    return ask.page("consult.html", **_form(dictionary, said, said, {}, external_id), **content)


async def asked(ask: Ask) -> Response:
    """The form was sent: ask, begin anew from here, go back, or keep it as a consultation."""
    dictionary = await _dictionary(ask)
    action = ask.text("action")
    said, first = forms.sent(dictionary, ask.form), forms.sent(dictionary, ask.form, FIRST)
    if action == "back" and ask.text("has_first"):
        said = first
    if action == "first" or not ask.text("has_first"):
        first = said
    external_id = ask.text("external_id", 200)
    values, problems = forms.read(dictionary, said)
    if problems:
        return ask.page("consult.html", 422, **_form(dictionary, said, first, problems, external_id))
    if action == "save":
        keeping: dict[str, Any] = {"by": ask.by, "external_id": external_id or None}
        keeping |= {"error": ask.service.settings.error, "key": _key(ask, said)}
        seen = await ask.service.queue.run(ask.base.consult, values, **keeping)
        return ask.go(f"/consultations/{seen.id}")
    content = await _answered(ask, dictionary, said, first)
    return ask.page("consult.html", **_form(dictionary, said, first, {}, external_id), **content)


def _key(ask: Ask, said: dict[str, str]) -> str | None:
    """Under which this form with these values is kept once, however often a button is pressed."""
    key = ask.text("key", 100)
    content = json.dumps([said, ask.text("external_id", 200)])
    return hmac.new(key.encode(), content.encode(), hashlib.sha256).hexdigest() if key else None


async def answer(ask: Ask) -> Response:
    """The answer alone, for a script that puts it into the page."""
    dictionary = await _dictionary(ask)
    said, first = forms.sent(dictionary, ask.form), forms.sent(dictionary, ask.form, FIRST)
    _, problems = forms.read(dictionary, said)
    if problems:
        return JSONResponse({"problems": {forms.key_of(name): text for name, text in problems.items()}})
    try:
        content = await _answered(
            ask, dictionary, said, first if ask.text("has_first") else said, quick=ask.text("full") != "1"
        )
    except Exception as error:
        found = refusal_of(error)
        if found is None:
            raise
        return JSONResponse({"detail": found.detail}, found.status, found.headers)
    html = ask.render("answer.html", **content)
    return JSONResponse({"html": html, "status": content["headline"], "problems": {}})


async def _dictionary(ask: Ask) -> Dictionary:
    known = await ask.do(lambda: ask.base.definition)
    return known.features


async def _answered(
    ask: Ask, dictionary: Dictionary, said: dict[str, str], first: dict[str, str], *, quick: bool = False
) -> dict[str, Any]:
    """What the model says now, and how that differs from what it said of the first version."""
    values, _ = forms.read(dictionary, said)
    before, problems = forms.read(dictionary, first)
    version, why = await ask.service.ask(values, ask.by, quick=quick)
    change = None
    if not problems and before != values:
        _, earlier = await ask.service.ask(before, ask.by, quick=quick, first=True)
        change = compare(dictionary, before, values, earlier, why)
    return {
        "why": why,
        "answer": rendering.explanation(why),
        "change": change,
        "version": version,
        "headline": words.headline(why),
    }


def _form(
    dictionary: Dictionary, said: dict[str, str], first: dict[str, str], problems: dict[str, str], external_id: str
) -> dict[str, Any]:
    hidden = {forms.key_of(name, FIRST): value for name, value in first.items()}
    fields = forms.fields(dictionary, said, problems)
    return {
        "fields": fields,
        "first": hidden,
        "problems": problems,
        "external_id": external_id,
        "key": secrets.token_urlsafe(16),
    }


ROUTES = [
    page_route("/consult", "GET", show, CLINICIAN),
    page_route("/consult", "POST", asked, CLINICIAN),
    page_route("/consult/answer", "POST", answer, CLINICIAN),
]
