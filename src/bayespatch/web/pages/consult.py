"""Consult: a form, the answer next to it, and the effect of changed values."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.responses import JSONResponse, Response

from bayespatch.casebase.cases import Definition
from bayespatch.casebase.errors import CaseBaseError
from bayespatch.casebase.people import CLINICIAN
from bayespatch.dictionary import Dictionary, Value
from bayespatch.explain import words
from bayespatch.language import gettext, stored_text
from bayespatch.types import JSONObject, Parameters
from bayespatch.web import forms, rendering
from bayespatch.web.access import Ask, page_route
from bayespatch.web.changes import compare
from bayespatch.web.refusals import Refusal, refusal_of

Values = dict[str, Value]
FIRST = "f"  # prefix of the first version's values in the form
FOUND = "c"  # prefix of the values found by a counterfactual


class FormIds(NamedTuple):
    """The ids of the new case and its patient in the form; both may be empty."""

    case: str = ""
    patient: str = ""

    @classmethod
    def of(cls, ask: Ask) -> FormIds:
        """The ids in the form."""
        return cls(ask.text("external_id", 200), ask.text("patient", 200))


async def show(ask: Ask) -> Response:
    """An empty form or, with ``from``, a form with the values of a consultation as the first version."""
    definition = await ask.definition()
    dictionary = definition.features
    number = ask.request.query_params.get("from", "")
    if not number:
        return ask.page(
            "consult.html", **_form(dictionary, {}, {}, {}, FormIds()), example=ask.service.settings.example
        )
    if not number.isdecimal() or len(number) > 18:
        raise Refusal(404, "Consultation not found.")
    seen, _, case = await ask.do(ask.base.consultation, int(number), by=ask.by)
    entered = forms.filled(dictionary, seen.values)
    names = FormIds(case.external_id or "" if case.state == "open" else "", case.patient or "")
    content = await _answered(ask, dictionary, entered, entered, names.patient)
    return ask.page(
        "consult.html", **_form(dictionary, entered, entered, {}, names), **_choice(ask, definition), **content
    )


async def prefilled(ask: Ask, values: Mapping[str, Value], patient: str, notes: Sequence[str]) -> Response:
    """The form with values from a patient's record, to be checked first, and what the record lacks."""
    dictionary = (await ask.definition()).features
    entered = forms.filled(dictionary, values)
    return ask.page("consult.html", **_form(dictionary, entered, {}, {}, FormIds("", patient)), notes=notes)


async def asked(ask: Ask) -> Response:
    """Handle the form: ask, set the first version, go back, try a suggestion, or save a consultation."""
    definition = await ask.definition()
    dictionary = definition.features
    action = ask.text("action")
    entered, first = forms.sent(dictionary, ask.form), forms.sent(dictionary, ask.form, FIRST)
    if action == "back" and ask.text("has_first"):
        entered = first
    if action == "try":
        first, entered = entered, {**entered, **forms.given(dictionary, ask.form, FOUND)}
    if action == "first" or not ask.text("has_first"):
        first = entered
    names = FormIds.of(ask)
    values, problems = forms.read(dictionary, entered)
    if problems:
        return ask.page("consult.html", 422, **_form(dictionary, entered, first, problems, names))
    if action == "save":
        keeping: Parameters = {"by": ask.by, "external_id": names.case or None, "patient": names.patient or None}
        keeping |= {"error": ask.service.settings.error, "key": _key(ask, entered)}
        seen = await ask.service.queue.run(ask.base.consult, values, **keeping)
        return ask.go(f"/consultations/{seen.id}")
    content = await _answered(ask, dictionary, entered, first, names.patient)
    content |= _choice(ask, definition)
    if action == "counterfactual":
        content |= await _counterfactual(ask, definition, values, names.patient)
    return ask.page("consult.html", **_form(dictionary, entered, first, {}, names), **content)


def _key(ask: Ask, entered: dict[str, str]) -> str | None:
    """The idempotency key of this form with these values, so that repeated clicks store it only once."""
    key = ask.text("key", 100)
    content = json.dumps([entered, *FormIds.of(ask)])
    return hmac.new(key.encode(), content.encode(), hashlib.sha256).hexdigest() if key else None


async def answer(ask: Ask) -> Response:
    """Only the answer, for the script that inserts it into the page."""
    dictionary = (await ask.definition()).features
    entered, first = forms.sent(dictionary, ask.form), forms.sent(dictionary, ask.form, FIRST)
    _, problems = forms.read(dictionary, entered)
    if problems:
        return JSONResponse({"problems": {forms.key_of(name): text for name, text in problems.items()}})
    try:
        content = await _answered(
            ask, dictionary, entered, first if ask.text("has_first") else entered, FormIds.of(ask).patient
        )
    except Exception as error:
        refusal = refusal_of(error)
        if refusal is None:
            raise
        return JSONResponse({"detail": stored_text(refusal.detail)}, refusal.status, refusal.headers)
    html = ask.render("answer.html", **content)
    return JSONResponse({"html": html, "status": content["headline"], "problems": {}})


def _choice(ask: Ask, definition: Definition) -> JSONObject:
    """The features that may change in a counterfactual: the chosen ones, initially all that are not fixed."""
    entries = definition.features.entries
    chosen = set(map(str, ask.form.getlist("may_change")))
    if not ask.text("has_choice"):
        chosen = {name for name, entry in entries.items() if not entry.fixed}
    return {
        "changeable": [(name, entry.label or name, name in chosen) for name, entry in entries.items()],
        "classes": list(definition.classes),
        "to": ask.text("to", 1000),
    }


async def _counterfactual(ask: Ask, definition: Definition, values: Values, patient: str) -> JSONObject:
    """The smallest change that changes the prediction, in the form that the page shows."""
    dictionary = definition.features
    chosen = [name for name, _, may in _choice(ask, definition)["changeable"] if may]
    if not chosen:
        return {"counterfactual": {"rows": [], "sentence": gettext("No feature may change; choose at least one.")}}
    try:
        to = ask.text("to", 1000) or None
        _, answer = await ask.service.counterfactual(values, ask.by, chosen, to=to, patient=patient or None)
    except CaseBaseError as error:  # the class to reach is already predicted
        refusal = refusal_of(error)
        if refusal is None or refusal.status != 422:
            raise
        return {"counterfactual": {"rows": [], "sentence": stored_text(refusal.detail)}}
    before, after = (answer[when]["prediction"]["probabilities"] for when in ("before", "after"))
    filled = forms.filled(dictionary, answer["values"])
    return {
        "counterfactual": {
            "reached": answer["found"],
            "sentence": gettext("No change of the chosen features brings the answer closer."),
            "rows": [
                {
                    "label": dictionary[name].label or name,
                    "before": dictionary[name].text(values[name]),
                    "after": dictionary[name].text(new),
                }
                for name, new in answer["values"].items()
            ],
            "fields": {forms.key_of(name, FOUND): filled[name] for name in answer["values"]},
            "classes": [{"name": name, "before": p, "after": after[name]} for name, p in before.items()],
            "why": answer["after"],
            "n_tried": answer["n_tried"],
            "proven": answer["proven"],
        }
    }


async def _answered(
    ask: Ask, dictionary: Dictionary, entered: dict[str, str], first: dict[str, str], patient: str
) -> JSONObject:
    """The prediction, and how it differs from that of the first version."""
    values, _ = forms.read(dictionary, entered)
    before, problems = forms.read(dictionary, first)
    version, why = await ask.service.ask(values, ask.by, patient=patient or None)
    change = None
    if not problems and before != values:
        _, earlier = await ask.service.ask(before, ask.by, first=True, patient=patient or None)
        change = compare(dictionary, before, values, earlier, why)
    return {
        "why": why,
        "answer": rendering.explanation(why),
        "change": change,
        "version": version,
        "headline": words.answer(why),
    }


def _form(
    dictionary: Dictionary, entered: dict[str, str], first: dict[str, str], problems: dict[str, str], names: FormIds
) -> JSONObject:
    hidden = {forms.key_of(name, FIRST): value for name, value in first.items()}
    fields = forms.fields(dictionary, entered, problems)
    return {
        "fields": fields,
        "first": hidden,
        "problems": problems,
        "names": names,
        "key": secrets.token_urlsafe(16),
    }


ROUTES = [
    page_route("/consult", "GET", show, CLINICIAN),
    page_route("/consult", "POST", asked, CLINICIAN),
    page_route("/consult/answer", "POST", answer, CLINICIAN),
]
