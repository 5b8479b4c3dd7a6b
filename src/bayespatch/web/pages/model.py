"""The model: performance, subgroups, versions, refits, and performance over time."""

from __future__ import annotations

from markupsafe import Markup
from starlette.responses import Response

from bayespatch.casebase.drift import PERIODS
from bayespatch.casebase.people import CLINICIAN, STEWARD, VIEWER
from bayespatch.web.access import Ask, page_route
from bayespatch.web.languages import language_of


async def show(ask: Ask) -> Response:
    """The versions, and the report of the active one."""
    every = ask.request.query_params.get("every", "month")
    every = every if every in PERIODS else "month"
    versions = await ask.do(ask.base.models)
    drift = await ask.do(ask.base.drift, by=ask.by, every=every) if ask.person.may(CLINICIAN) else []
    report = await ask.service.queue.run(ask.service.report, ask.person, language_of(ask.request))
    return ask.page(
        "versions.html",
        versions=versions,
        refit=await ask.do(ask.service.refit_state),
        drift=drift,
        every=every,
        periods=tuple(PERIODS),
        report=None if report is None else Markup(report),
    )


async def monitoring(ask: Ask) -> Response:
    """Whether recent patients, outcomes and outcome lag differ from earlier ones."""
    return ask.page("monitoring.html", monitoring=await ask.do(ask.base.monitor, by=ask.by))


async def promote(ask: Ask) -> Response:
    """Make a version the active one; if it is worse on recent outcomes, a reason is required."""
    await ask.do(ask.base.promote, ask.number(), by=ask.by, reason=ask.text("reason", 1000))
    return ask.go("/model")


async def roll_back(ask: Ask) -> Response:
    """Reactivate the previously active version of the model."""
    await ask.do(ask.base.roll_back, by=ask.by)
    return ask.go("/model")


async def refit(ask: Ask) -> Response:
    """Train a new version of the model."""
    await ask.do(ask.service.start_refit, ask.by)
    return ask.go("/model")


async def cancel(ask: Ask) -> Response:
    """End a refit."""
    await ask.do(ask.service.cancel_refit)
    return ask.go("/model")


ROUTES = [
    page_route("/model", "GET", show, VIEWER),
    page_route("/monitoring", "GET", monitoring, CLINICIAN),
    page_route("/model/{id:int}/promote", "POST", promote, STEWARD),
    page_route("/model/roll-back", "POST", roll_back, STEWARD),
    page_route("/model/refit", "POST", refit, STEWARD),
    page_route("/model/refit/cancel", "POST", cancel, STEWARD),
]
