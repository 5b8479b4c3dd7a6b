"""Past cases: browse, filter and sort them; each case has a page."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.responses import Response

from bayespatch.casebase.cases import OPEN, OPERATORS, PAST, STATES, Case, Condition, condition
from bayespatch.casebase.errors import CaseBaseError, NotFoundError
from bayespatch.casebase.people import CLINICIAN, STEWARD, VIEWER
from bayespatch.dictionary import DictionaryError
from bayespatch.language import gettext, stored_text, stored_value
from bayespatch.types import Parameters
from bayespatch.web import forms, rendering
from bayespatch.web.access import Ask, page_number, page_route
from bayespatch.web.refusals import Refusal, sentence
from bayespatch.web.visibility import check_column, check_state, sees_all, shown_outcome, shown_values, sortable

PER_PAGE = 50
N_CONDITIONS = 3


async def browse(ask: Ask) -> Response:
    """A page of cases."""
    definition = await ask.definition()
    query = ask.request.query_params
    rows = [
        {"column": query.get(f"c{k}", ""), "operator": query.get(f"o{k}", "="), "value": query.get(f"w{k}", "").strip()}
        for k in range(N_CONDITIONS)
    ]
    state = query.get("state", PAST)
    order, descending = query.get("order", "id"), query.get("down", "") == "1"
    number = page_number(query.get("page", "1"))
    problem, page = "", None
    try:
        conditions: list[Condition] = []
        for row in rows:
            if row["column"] and row["value"]:
                check_column(definition, ask.person, row["column"])
                conditions.append(condition(row["column"], row["operator"], row["value"], definition))
        check_column(definition, ask.person, order)
        page = await ask.do(
            ask.base.search,
            conditions,
            by=ask.by,
            state=check_state(ask.person, state if state in STATES or not sees_all(ask.person) else None),
            order=order,
            descending=descending,
            offset=(number - 1) * PER_PAGE,
            limit=PER_PAGE,
        )
    except (CaseBaseError, DictionaryError) as error:
        problem = stored_text(sentence(error))
    kept = {key: value for key, value in query.items() if key[:1] in "cow" and len(key) == 2 and value}
    kept |= {"state": state, "order": order, "down": "1" if descending else "0"}

    def address(**changes: object) -> str:
        return f"/cases?{urlencode({**kept, **changes})}"

    content = {
        "definition": definition,
        "columns": sortable(definition, ask.person),
        "operators": OPERATORS,
        "states": STATES,
        "rows": rows,
        "state": state,
        "order": order,
        "descending": descending,
        "problem": problem,
        "results": page,
        "number": number,
        "n_pages": 0 if page is None else max(1, -(-page.total // PER_PAGE)),
        "address": address,
        "shown": {}
        if page is None
        else {case.id: _localized(shown_values(definition, case, ask.person)) for case in page.items},
        "outcomes": {}
        if page is None
        else {case.id: stored_value(shown_outcome(definition, case, ask.person)) for case in page.items},
    }
    return ask.page("cases.html", 422 if problem else 200, **content)


def _localized(texts: dict[str, str]) -> dict[str, str]:
    return {name: stored_value(text) for name, text in texts.items()}


async def find(ask: Ask) -> Response:
    """Find a case by its number or external id, without putting either into the browser's history."""
    text = ask.text("case", 200)
    name: int | str = int(text) if text.isdecimal() and len(text) < 18 else text
    try:
        case = await ask.do(ask.base.case, name, by=ask.by)
    except CaseBaseError:
        if isinstance(name, str):
            raise
        case = await ask.do(ask.base.case, text, by=ask.by)  # an external id may be a number
    return ask.go(f"/cases/{case.id}")


async def show(ask: Ask) -> Response:
    """One case: its values, outcome, consultations and patchwork."""
    definition = await ask.definition()
    number = ask.number()
    case: Case = await ask.do(ask.base.case, number, by=ask.by)
    if case.state == OPEN and not sees_all(ask.person):
        raise NotFoundError(f"there is no case {number}; search for it")
    content: Parameters = {"definition": definition, "case": case, "why": None, "visits": [], "neighbor_of": []}
    content |= {"follow_up": {}, "recordings": (), "fields": []}
    if case.state != "withdrawn" and sees_all(ask.person) and definition.follow_up.names:
        recorded = await ask.do(ask.base.follow_up, number, by=ask.by)
        now: Parameters = {}
        for one in recorded:
            now |= one.values or {}
        content["recordings"] = recorded
        content["follow_up"] = {name: entry.text(now.get(name)) for name, entry in definition.follow_up.entries.items()}
        content["fields"] = forms.fields(definition.follow_up, {}, {})
    if case.state != "withdrawn" and sees_all(ask.person):
        content["visits"] = await ask.do(ask.base.consultations, number, by=ask.by)
        if case.state == "past" and await ask.do(ask.service.active) is not None:
            why = await ask.service.queue.run(
                ask.base.explain_past, number, by=ask.by, error=ask.service.settings.error
            )
            if why is not None:
                content["why"] = rendering.explanation(why)
                content["neighbor_of"] = await ask.do(ask.base.neighbor_of, number, by=ask.by)
    content["shown"] = _localized(shown_values(definition, case, ask.person))
    content["outcome"] = stored_value(shown_outcome(definition, case, ask.person))
    return ask.page("one_case.html", **content)


async def outcome(ask: Ask) -> Response:
    """Record the outcome of a case."""
    definition = await ask.definition()
    label = ask.text("outcome")
    if label not in definition.classes:
        raise Refusal(422, "Choose an outcome.")
    await ask.do(ask.base.outcome, ask.number(), definition.classes[label], by=ask.by)
    return ask.go(f"/cases/{ask.number()}")


async def record_follow_up(ask: Ask) -> Response:
    """Record follow-up values of a case; empty fields change nothing."""
    definition = await ask.definition()
    entered = forms.sent(definition.follow_up, ask.form)
    values, problems = forms.read(definition.follow_up, {name: text for name, text in entered.items() if text})
    if problems:
        name, problem = next(iter(problems.items()))
        raise Refusal(422, f"{definition.follow_up[name].label or name}: {problem}.")
    changed = {name: value for name, value in values.items() if value is not None}
    if not changed:
        raise Refusal(422, "Fill in at least one field.")
    await ask.do(ask.base.record_follow_up, ask.number(), changed, by=ask.by)
    return ask.go(f"/cases/{ask.number()}")


async def retain(ask: Ask) -> Response:
    """Make a case a past case or, without a number, all cases with a known outcome."""
    which = ask.request.path_params.get("id")
    await ask.do(ask.base.retain, None if which is None else [int(which)], by=ask.by)
    return ask.go("/worklist" if which is None else f"/cases/{which}")


async def forget(ask: Ask) -> Response:
    """Forget a patient."""
    if ask.text("sure") != "yes":
        raise Refusal(422, "Forgetting cannot be undone. Confirm that you are sure.")
    page = await ask.unconfirmed(gettext("Forget case #{id}", id=ask.number()))
    if page is not None:
        return page
    done = await ask.do(ask.base.forget, ask.number(), ask.text("reason", 1000), by=ask.by)
    return ask.page("forgotten.html", done=done)


ROUTES = [
    page_route("/cases", "GET", browse, VIEWER),
    page_route("/cases/find", "POST", find, CLINICIAN),
    page_route("/cases/{id:int}", "GET", show, VIEWER),
    page_route("/cases/{id:int}/outcome", "POST", outcome, CLINICIAN),
    page_route("/cases/{id:int}/follow-up", "POST", record_follow_up, CLINICIAN),
    page_route("/cases/{id:int}/retain", "POST", retain, STEWARD),
    page_route("/cases/{id:int}/forget", "POST", forget, STEWARD),
    page_route("/retain", "POST", retain, STEWARD),
]
