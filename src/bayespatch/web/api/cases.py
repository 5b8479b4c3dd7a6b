"""Cases: search, show, record outcomes, retain and forget."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Body, Query, Request, Response

from bayespatch.casebase.cases import OPEN, Case, Page, read_condition
from bayespatch.casebase.errors import NotFoundError
from bayespatch.casebase.follow_up import Recording
from bayespatch.casebase.forget import Forgotten
from bayespatch.web.api.asking import Clinician, Steward, Viewer, responses
from bayespatch.web.api.schemas import (
    Answer,
    Key,
    Limit,
    NewFollowUp,
    NewOutcome,
    Number,
    Offset,
    Reason,
    Recordings,
    Retained,
    Retention,
)
from bayespatch.web.refusals import Refusal
from bayespatch.web.visibility import check_column, check_state, sees_all, shown_case

router = APIRouter()


@router.get("/cases", responses=responses(), summary="Search for cases")
async def search(
    response: Response,
    request: Request,
    ask: Viewer,
    where: Annotated[
        list[str] | None, Query(max_length=10, description="Conditions such as age>=60; a case must meet all of them.")
    ] = None,
    state: Annotated[
        Literal["open", "past", "withdrawn"] | None, Query(description="Only cases in this state.")
    ] = None,
    order: Annotated[str, Query(max_length=200, description="The column to sort by.")] = "id",
    descending: Annotated[bool, Query(description="Whether to sort in descending order.")] = False,
    offset: Offset = 0,
    limit: Limit = 50,
) -> Page:
    definition = await ask.definition()
    conditions = [read_condition(text, definition) for text in where or ()]
    for name in (*(name for name, _, _ in conditions), order):
        check_column(definition, ask.person, name)
    page = await ask.do(
        ask.base.search,
        conditions,
        by=ask.by,
        state=check_state(ask.person, state),
        order=order,
        descending=descending,
        offset=offset,
        limit=limit,
    )
    if offset + limit < page.total:
        onward = request.url.include_query_params(offset=offset + limit, limit=limit)
        response.headers["Link"] = f'<{onward.path}?{onward.query}>; rel="next"'
    return Page(tuple(shown_case(definition, case, ask.person) for case in page.items), page.total, page.offset)


@router.get("/cases/{number}", responses=responses(404), summary="Show a case")
async def one_case(number: Number, ask: Viewer) -> Case:
    case = await ask.do(ask.base.case, number, by=ask.by)
    if case.state == OPEN and not sees_all(ask.person):
        raise NotFoundError(f"there is no case {number}; search for it")
    return shown_case(await ask.definition(), case, ask.person)


@router.get("/cases/{number}/explanation", responses=responses(404, 409), summary="Predict a past case from all others")
async def explanation(number: Number, ask: Clinician) -> Answer:
    shown = await ask.service.queue.run(ask.base.explain_past, number, by=ask.by, error=ask.service.settings.error)
    model = await ask.do(ask.service.active)
    if shown is None or model is None:
        raise Refusal(404, f"The active model was not trained on case {number}, or must not show it.")
    return Answer(model.version, shown)


@router.post("/cases/{number}/outcome", status_code=201, responses=responses(404, 409), summary="Record an outcome")
async def outcome(number: Number, new: NewOutcome, ask: Clinician, key: Key = None) -> Case:
    return await ask.do(ask.base.outcome, number, new.outcome, by=ask.by, key=key)


@router.get("/cases/{number}/follow-up", responses=responses(404), summary="List the follow-up recordings of a case")
async def recordings(number: Number, ask: Clinician) -> Recordings:
    return Recordings(await ask.do(ask.base.follow_up, number, by=ask.by))


@router.post(
    "/cases/{number}/follow-up", status_code=201, responses=responses(404, 409), summary="Record follow-up values"
)
async def record_follow_up(number: Number, new: NewFollowUp, ask: Clinician) -> Recording:
    return await ask.do(ask.base.record_follow_up, number, new.values, by=ask.by)


@router.post("/retentions", status_code=201, responses=responses(404, 409), summary="Turn open cases into past cases")
async def retain(new: Annotated[Retention, Body()], ask: Steward) -> Retained:
    return Retained(await ask.do(ask.base.retain, new.cases, by=ask.by))


@router.post("/cases/{number}/forget", responses=responses(404, 409), summary="Forget a patient")
async def forget(number: Number, new: Reason, ask: Steward) -> Forgotten:
    return await ask.do(ask.base.forget, number, new.reason, by=ask.by)
