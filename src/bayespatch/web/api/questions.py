"""Questions to the model, consultations and decisions."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from bayespatch.casebase.consultations import Consultation, Decision, Worklist
from bayespatch.web.api.asking import PREFIX, Clinician, Viewer, responses
from bayespatch.web.api.schemas import (
    About,
    Answer,
    CounterfactualQuestion,
    DecidedConsultation,
    Different,
    Key,
    Limit,
    NewConsultation,
    NewDecision,
    Number,
    Offset,
    Question,
)

router = APIRouter()


@router.get("/dictionary", responses=responses(), summary="Describe the features and the outcome")
async def dictionary(ask: Viewer) -> About:
    definition = await ask.definition()
    features, follow_up = dict(definition.features.entries), dict(definition.follow_up.entries)
    return About(definition.target.name, definition.classes, features, follow_up)


@router.post("/answers", responses=responses(), summary="Predict a case without storing it")
async def answers(question: Question, ask: Clinician) -> Answer:
    return Answer(*await ask.service.ask(question.values, ask.by, patient=question.patient))


@router.post("/counterfactuals", responses=responses(), summary="Find the smallest change that changes the prediction")
async def counterfactuals(question: CounterfactualQuestion, ask: Clinician) -> Different:
    result = await ask.service.counterfactual(
        question.values, ask.by, question.change, to=question.to, most=question.most, patient=question.patient
    )
    return Different(*result)


@router.post("/consultations", status_code=201, responses=responses(404, 409), summary="Predict a case and store it")
async def consult(new: NewConsultation, response: Response, ask: Clinician, key: Key = None) -> DecidedConsultation:
    consultation: Consultation = await ask.service.queue.run(
        ask.base.consult,
        new.values,
        by=ask.by,
        case=new.case,
        external_id=new.external_id,
        patient=new.patient,
        error=ask.service.settings.error,
        key=key,
    )
    response.headers["Location"] = f"{PREFIX}/consultations/{consultation.id}"
    return DecidedConsultation(**vars(consultation))


@router.get("/consultations", responses=responses(), summary="List the last consultation of each open case")
async def worklist(
    ask: Clinician,
    waiting_for: Annotated[
        Literal["decision", "outcome", "retention"] | None, Query(description="Only cases whose next step is this one.")
    ] = None,
    offset: Offset = 0,
    limit: Limit = 50,
    risk_of: Annotated[
        str | None, Query(max_length=1000, description="A class; cases are sorted by its probability, highest first.")
    ] = None,
) -> Worklist:
    options = {"waiting_for": waiting_for, "offset": offset, "limit": limit, "risk_of": risk_of}
    return await ask.do(ask.base.worklist, by=ask.by, **options)


@router.get("/consultations/{number}", responses=responses(404), summary="Read a consultation as shown")
async def one_consultation(number: Number, ask: Clinician) -> DecidedConsultation:
    consultation, decision, _ = await ask.do(ask.base.consultation, number, by=ask.by)
    return DecidedConsultation(**vars(consultation), decision=decision)


@router.post(
    "/consultations/{number}/decision", status_code=201, responses=responses(404, 409), summary="Record a decision"
)
async def decide(number: Number, new: NewDecision, ask: Clinician, key: Key = None) -> Decision:
    return await ask.do(ask.base.decide, number, new.decided, by=ask.by, reason=new.reason, code=new.code, key=key)
