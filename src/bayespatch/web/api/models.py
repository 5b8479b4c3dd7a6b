"""Versions of the model, refits, drift, and the audit log."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from bayespatch.casebase.audit import Verification
from bayespatch.casebase.models import ModelVersion
from bayespatch.casebase.monitoring import DAYS, Monitoring
from bayespatch.casebase.people import CLINICIAN
from bayespatch.web.api.asking import Clinician, Steward, Viewer, responses
from bayespatch.web.api.schemas import LARGEST, DriftList, Limit, LogEntryList, ModelList, Promotion, Version
from bayespatch.web.service import RefitState

router = APIRouter()


@router.get("/models", responses=responses(), summary="List the versions of the model")
async def versions(ask: Viewer) -> ModelList:
    models = await ask.do(ask.base.models)
    if not ask.person.may(CLINICIAN):
        models = [replace(model, metrics=None) for model in models]  # metrics name individual cases
    return ModelList(models)


@router.post("/models/{version}/promote", responses=responses(404, 409), summary="Activate a version")
async def promote(version: Version, ask: Steward, new: Promotion | None = None) -> ModelVersion:
    return await ask.do(ask.base.promote, version, by=ask.by, reason="" if new is None else new.reason)


@router.post("/models/roll-back", responses=responses(409), summary="Activate the previously active version")
async def roll_back(ask: Steward) -> ModelVersion:
    return await ask.do(ask.base.roll_back, by=ask.by)


@router.get("/refit", responses=responses(), summary="Show the state of the refit")
async def refit_state(ask: Steward) -> RefitState:
    return await ask.do(ask.service.refit_state)


@router.post("/refit", status_code=202, responses=responses(409), summary="Refit on all past cases")
async def refit(ask: Steward) -> RefitState:
    await ask.do(ask.service.start_refit, ask.by)
    return await ask.do(ask.service.refit_state)


@router.delete("/refit", responses=responses(404), summary="Cancel the refit; nothing changes")
async def cancel(ask: Steward) -> RefitState:
    await ask.do(ask.service.cancel_refit)
    return await ask.do(ask.service.refit_state)


@router.get("/drift", responses=responses(), summary="Compare predictions with outcomes")
async def drift(
    ask: Clinician,
    every: Annotated[
        Literal["year", "month", "day", "all"], Query(description="The period that each item covers.")
    ] = "month",
) -> DriftList:
    return DriftList(await ask.do(ask.base.drift, by=ask.by, every=every))


@router.get("/monitoring", responses=responses(), summary="Check recent patients and outcomes for changes")
async def monitoring(
    ask: Clinician, days: Annotated[int, Query(ge=1, le=3650, description="Number of past days to check.")] = DAYS
) -> Monitoring:
    return await ask.do(ask.base.monitor, by=ask.by, days=days)


@router.get("/audit", responses=responses(), summary="Read the audit log, newest rows first")
async def audit(
    ask: Steward,
    case: Annotated[int | None, Query(ge=1, le=LARGEST, description="Only rows about this case.")] = None,
    by: Annotated[str | None, Query(max_length=200, description="Only actions of this user.")] = None,
    action: Annotated[str | None, Query(max_length=50, description="Only this action.")] = None,
    before: Annotated[int | None, Query(ge=1, le=LARGEST, description="Only rows before this one.")] = None,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="Only rows after this one, oldest first.")] = 0,
    limit: Limit = 100,
) -> LogEntryList:
    chosen = {"case": case, "by": by, "action": action, "before": before, "after": after}
    entries = await ask.do(ask.base.audit, case=case, by=by, action=action, before=before, after=after, limit=limit)
    await ask.do(ask.base.record_audit, chosen, by=ask.by)
    return LogEntryList(entries)


@router.get("/audit/verification", responses=responses(), summary="Verify the hashes of the log and the models")
async def verification(
    ask: Steward,
    head: Annotated[
        str | None, Query(max_length=100, description="An end of the log that you recorded earlier.")
    ] = None,
) -> Verification:
    result = await ask.do(ask.base.verify_audit, head)
    await ask.do(ask.base.record_audit, {}, by=ask.by, verified=True)
    return result
