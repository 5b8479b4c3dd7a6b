"""Open cases and their next steps; each consultation has a page with the displayed answer."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.responses import Response

from bayespatch.casebase.consultations import WAITING
from bayespatch.casebase.people import CLINICIAN
from bayespatch.language import to_translate
from bayespatch.web import rendering
from bayespatch.web.access import Ask, page_number, page_route
from bayespatch.web.refusals import Refusal

PER_PAGE = 50
CODES = {
    "": "",
    "history": to_translate("the patient's history suggests otherwise"),
    "finding": to_translate("a finding that is not in the table"),
    "precedent": to_translate("the past cases are not comparable"),
    "value": to_translate("a value is doubtful"),
    "preference": to_translate("the patient's wish"),
    "other": to_translate("another reason, given below"),
}


async def browse(ask: Ask) -> Response:
    """The last consultation of each open case."""
    definition = await ask.definition()
    query = ask.request.query_params
    waiting, number = query.get("waiting", ""), page_number(query.get("page", "1"))
    risk_of = query.get("risk", "")
    page = await ask.do(
        ask.base.worklist,
        by=ask.by,
        waiting_for=waiting if waiting in WAITING else None,
        offset=(number - 1) * PER_PAGE,
        limit=PER_PAGE,
        risk_of=risk_of if risk_of in definition.classes else None,
    )
    n_pages = max(1, -(-page.total // PER_PAGE))
    sorted_by = risk_of if risk_of in definition.classes else ""

    def address(**changes: object) -> str:
        return f"/worklist?{urlencode({'waiting': waiting, 'risk': sorted_by, **changes})}"

    return ask.page(
        "worklist.html",
        results=page,
        waiting=waiting,
        sorted_by=sorted_by,
        number=number,
        n_pages=n_pages,
        definition=definition,
        address=address,
    )


async def show(ask: Ask) -> Response:
    """A consultation with the displayed explanation, and the decision."""
    definition = await ask.definition()
    seen, decision, case = await ask.do(ask.base.consultation, ask.number(), by=ask.by)
    outcome = None if case.outcome is None else definition.class_name(case.outcome)
    return ask.page(
        "consultation.html",
        seen=seen,
        decision=decision,
        case=case,
        outcome=outcome,
        definition=definition,
        codes=CODES,
        answer=rendering.explanation(seen.explanation, rendering.time_text(seen.at)),
    )


async def decide(ask: Ask) -> Response:
    """Record a decision."""
    definition = await ask.definition()
    decided, code = ask.text("decided"), ask.text("code")
    if decided not in definition.classes or code not in CODES:
        raise Refusal(422, "Choose the decision.")
    await ask.do(
        ask.base.decide,
        ask.number(),
        definition.classes[decided],
        by=ask.by,
        reason=ask.text("reason"),
        code=CODES[code],
    )
    return ask.go(f"/consultations/{ask.number()}")


ROUTES = [
    page_route("/worklist", "GET", browse, CLINICIAN),
    page_route("/consultations/{id:int}", "GET", show, CLINICIAN),
    page_route("/consultations/{id:int}/decide", "POST", decide, CLINICIAN),
]
