"""The REST interface: the verbs of the case base for programs, described by OpenAPI 3.1.

A program brings a token (``Authorization: Bearer ...``); errors are problem details (RFC 9457); lists have ``offset``,
``limit`` and ``total``; what is done once under an ``Idempotency-Key`` is not done again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import Body, Depends, FastAPI, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from bayespatch.casebase.cases import OPEN, Definition, read_condition
from bayespatch.casebase.errors import CaseBaseError, NotFoundError
from bayespatch.casebase.people import CLINICIAN, STEWARD, VIEWER, Person
from bayespatch.dictionary import DictionaryError
from bayespatch.version import __version__
from bayespatch.web.queue import BusyError, LateError
from bayespatch.web.refusals import PROBLEM, Refusal, problem, refusal_of
from bayespatch.web.service import LOCAL, Service
from bayespatch.web.visibility import check_column, check_state, sees_all, shown_case

PREFIX = "/api/v1"
LARGEST = 2**63 - 1

PlainValue = Annotated[
    str | bool | int | float | None, Field(description="A number, a text, true or false; null: not known.")
]
Values = Annotated[dict[str, PlainValue], Field(description="A value for each feature of the dictionary.")]
Number = Annotated[int, Path(ge=1, le=LARGEST)]
Version = Annotated[int, Path(ge=1, le=2**31 - 1)]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1, description="How many to skip.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many to return.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="Random, such as a UUID. The same request under the same key is done once.",
    ),
]


class Strict(BaseModel):
    """What a program sends; a field that is not known is an error."""

    model_config = ConfigDict(extra="forbid")


class Question(Strict):
    """A case that the model is asked about."""

    values: Values
    reliance: bool = Field(
        True, description="Whether to say what would be predicted without each crowd; false: faster."
    )


class CounterfactualQuestion(Strict):
    """A case for which another answer is looked for."""

    values: Values
    change: list[Annotated[str, Field(max_length=1000)]] | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="Features that may change; without a list all that are not fixed.",
    )
    to: str | bool | int | float | None = Field(
        None, description="The class to reach, by its value or its label; null: any other than the predicted one."
    )
    most: int = Field(3, ge=1, le=3, description="How many features may change at the same time.")


class NewConsultation(Strict):
    """A consultation to be kept."""

    values: Values
    case: int | None = Field(None, ge=1, le=LARGEST, description="An open case that comes again.")
    external_id: str | None = Field(None, min_length=1, max_length=200, description="What others call the case.")
    reliance: bool = Field(True, description="As in a question.")


class NewDecision(Strict):
    """What was decided; to override the model needs a reason or a code."""

    decided: str | bool | int | float = Field(description="The class, by its value or its label.")
    reason: str = Field("", max_length=10_000)
    code: str = Field("", max_length=200)


class NewOutcome(Strict):
    """What became of a case."""

    outcome: str | bool | int | float = Field(description="The class, by its value or its label.")


class Retention(Strict):
    """Open cases that become past cases; without a list all whose outcome is known."""

    cases: list[Annotated[int, Field(ge=1, le=LARGEST)]] | None = Field(None, max_length=1000)


class Reason(Strict):
    """Why; it is kept, so that it must not hold the patient's values."""

    reason: str = Field(min_length=1, max_length=1000)


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


class Column(BaseModel):
    """What is known about a feature."""

    kind: str
    label: str
    unit: str
    levels: list[tuple[PlainValue, str]]
    usual: tuple[float, float] | None
    possible: tuple[float, float] | None
    coarse: float | None
    identifier: bool
    sensitive: bool
    fixed: bool


class About(BaseModel):
    """What the cases are."""

    target: str
    classes: dict[str, PlainValue]
    features: dict[str, Column]


class Answer(BaseModel):
    """What the model says, which is not kept; `explanation` is `Explanation.to_dict()`."""

    version: int
    explanation: dict[str, Any]


class Different(BaseModel):
    """What would have to be different, which is not kept: `Counterfactual.to_dict()`, with the changed "values"."""

    version: int
    counterfactual: dict[str, Any]


class Decided(BaseModel):
    """What was decided after a consultation."""

    consultation_id: int
    agrees: bool
    decided: str
    code: str
    reason: str
    at: str
    by: str


class Consulted(BaseModel):
    """A consultation as it was shown; `explanation` is `Explanation.to_dict()`."""

    id: int
    case_id: int
    version: int
    values: dict[str, PlainValue]
    explanation: dict[str, Any]
    at: str
    by: str
    decision: Decided | None = None


class Waiting(BaseModel):
    """An open case: its last consultation, and what it waits for."""

    id: int
    case_id: int
    external_id: str | None
    at: str
    by: str
    predicted: str
    probabilities: dict[str, float]
    adequate: bool
    decided: str | None
    agrees: bool | None
    outcome: PlainValue
    waiting_for: str


class WaitingPage(BaseModel):
    """Some of the open cases."""

    items: list[Waiting]
    total: int
    offset: int


class OneCase(BaseModel):
    """A case. Whoever may not see a value exactly gets a text in its place, and no external id."""

    id: int
    external_id: str | None
    state: str
    values: dict[str, PlainValue] | None
    outcome: PlainValue
    outcome_at: str | None
    outcome_by: str | None
    entered_at: str
    entered_by: str


class CasePage(BaseModel):
    """Some of the cases that were found."""

    items: list[OneCase]
    total: int
    offset: int


class Retained(BaseModel):
    """The cases that are past cases now."""

    cases: list[int]


class Forgotten(BaseModel):
    """What forgetting a case has done."""

    case_id: int
    consultations: int
    redacted: int
    versions: list[int]
    removed: list[int]
    erased: bool
    note: str | None


class ModelVersion(BaseModel):
    """A version of the model."""

    version: int
    state: str
    sha256: str | None
    n_cases: int
    n_forgotten: int
    known_at: int
    based_on: int | None
    metrics: dict[str, Any] | None
    made_at: str
    made_by: str
    promoted_at: str | None
    promoted_by: str | None
    refit_due: bool


class ModelList(BaseModel):
    """All versions, the newest first."""

    items: list[ModelVersion]


class RefitState(BaseModel):
    """Whether a refit runs, and how the last one ended."""

    running: bool
    result: str


class DriftList(BaseModel):
    """One row for each period."""

    items: list[dict[str, Any]]


class Entry(BaseModel):
    """A row of the audit log."""

    number: int
    at: str
    by: str
    action: str
    case_id: int | None
    details: dict[str, Any]
    hash: str


class EntryList(BaseModel):
    """Rows of the audit log, the newest first."""

    items: list[Entry]


class Verified(BaseModel):
    """Whether the audit log is as it was written."""

    intact: bool
    n_entries: int
    head: str
    problems: list[str]


def _answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How a route may refuse: what all routes share, and more."""
    titles = {
        400: "Cannot be read",
        401: "No token, or one that is not valid",
        403: "The role is not enough",
        404: "Not there",
        409: "What is there stands against it",
        413: "Too large",
        415: "Not in UTF-8",
        422: "Not valid",
        429: "Too many requests",
        503: "Busy; try again",
    }
    content = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    every = sorted({400, 401, 403, 413, 415, 422, 429, 503, *statuses})
    return {status: {"description": titles[status], "content": content} for status in every}


async def bearer(service: Service, request: Request) -> Person:
    """Whose token a program brings; where nobody signs in, everybody's."""
    if not service.settings.sign_in:
        return LOCAL
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    found = None
    if kind.lower() == "bearer" and secret:
        found = await service.do(service.base.people.of_token, secret.strip()[:200])
    if found is None:
        raise Refusal(401, "A valid token is needed: Authorization: Bearer ...", {"WWW-Authenticate": "Bearer"})
    return found


class Asked:
    """A request of a program."""

    def __init__(self, service: Service, person: Person) -> None:
        self.service, self.person = service, person
        self.base: Any = service.base

    @property
    def by(self) -> str:
        """The name of who asks."""
        return self.person.name

    async def do(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`Service.do`."""
        return await self.service.do(work, *args, **kwargs)

    async def known(self) -> Definition:
        """What the cases are."""
        return await self.do(lambda: self.base.definition)


def _may(service: Service, role: str) -> Any:
    """Who asks, if the role is enough."""

    async def asked(request: Request) -> Asked:
        request.state.route = f"{PREFIX}{request.scope['route'].path}"
        person = await bearer(service, request)
        request.state.who = person.name
        wait = service.rate.wait(f"api {person.name}")
        if wait:
            raise Refusal(429, "Too many requests; wait a moment.", {"Retry-After": str(wait)})
        if not person.may(role):
            raise Refusal(403, f"This is for a {role}; the token is a {person.role}'s.")
        return Asked(service, person)

    return Depends(asked)


def create(service: Service) -> FastAPI:
    """The interface over one case base."""
    app = FastAPI(
        title="bayespatch",
        version=__version__,
        description="Past cases, consultations and models. Every look at a case is written to the audit log.",
        openapi_url="/openapi.json",
        docs_url=None,  # these pages would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    _refusals(app)
    _describe(app)

    viewer, clinician, steward = (_may(service, role) for role in (VIEWER, CLINICIAN, STEWARD))

    @app.get("/dictionary", responses=_answers(), summary="What the cases are")
    async def dictionary(ask: Asked = viewer) -> About:
        known = await ask.known()
        features = {name: Column(**entry.to_dict()) for name, entry in known.features.entries.items()}
        return About(target=known.target.name, classes=known.classes, features=features)

    # Questions

    @app.post("/answers", responses=_answers(), summary="Ask the model without keeping anything: what if")
    async def answers(question: Question, ask: Asked = clinician) -> Answer:
        version, why = await service.ask(question.values, ask.by, quick=not question.reliance)
        return Answer(version=version, explanation=why)

    @app.post("/counterfactuals", responses=_answers(), summary="The smallest change that changes the prediction")
    async def counterfactuals(question: CounterfactualQuestion, ask: Asked = clinician) -> Different:
        version, found = await service.counterfactual(
            question.values, ask.by, question.change, to=question.to, most=question.most
        )
        return Different(version=version, counterfactual=found)

    @app.post("/consultations", status_code=201, responses=_answers(404, 409), summary="Consult: ask, and keep it")
    async def consult(new: NewConsultation, response: Response, key: Key = None, ask: Asked = clinician) -> Consulted:
        seen = await service.queue.run(
            ask.base.consult,
            new.values,
            by=ask.by,
            case=new.case,
            external_id=new.external_id,
            error=service.settings.error,
            reliance=new.reliance,
            key=key,
        )
        response.headers["Location"] = f"{PREFIX}/consultations/{seen.id}"
        return Consulted(**seen.to_dict())

    @app.get("/consultations", responses=_answers(), summary="The last consultation of each open case")
    async def worklist(
        waiting_for: Literal["decision", "outcome", "retention"] | None = None,
        offset: Offset = 0,
        limit: Limit = 50,
        ask: Asked = clinician,
    ) -> WaitingPage:
        found = await ask.do(ask.base.worklist, by=ask.by, waiting_for=waiting_for, offset=offset, limit=limit)
        items = [Waiting(**item.to_dict()) for item in found.items]
        return WaitingPage(items=items, total=found.total, offset=found.offset)

    @app.get("/consultations/{number}", responses=_answers(404), summary="A consultation as it was shown")
    async def consultation(number: Number, ask: Asked = clinician) -> Consulted:
        seen, decision, _ = await ask.do(ask.base.consultation, number, by=ask.by)
        decided = None if decision is None else Decided(**decision.to_dict())
        return Consulted(**seen.to_dict(), decision=decided)

    @app.post("/consultations/{number}/decision", status_code=201, responses=_answers(404, 409), summary="Decide")
    async def decide(number: Number, new: NewDecision, key: Key = None, ask: Asked = clinician) -> Decided:
        said = await ask.do(ask.base.decide, number, new.decided, by=ask.by, reason=new.reason, code=new.code, key=key)
        return Decided(**said.to_dict())

    # Cases

    @app.get("/cases", responses=_answers(), summary="Search for cases")
    async def cases(
        response: Response,
        request: Request,
        where: Annotated[
            list[str] | None, Query(max_length=10, description="Conditions such as age>=60; all of them must hold.")
        ] = None,
        state: Literal["open", "past", "withdrawn"] | None = None,
        order: Annotated[str, Query(max_length=200)] = "id",
        descending: bool = False,
        offset: Offset = 0,
        limit: Limit = 50,
        ask: Asked = viewer,
    ) -> CasePage:
        known = await ask.known()
        conditions = [read_condition(text, known) for text in where or ()]
        for name in (*(name for name, _, _ in conditions), order):
            check_column(known, ask.person, name)
        found = await ask.do(
            ask.base.search,
            conditions,
            by=ask.by,
            state=check_state(ask.person, state),
            order=order,
            descending=descending,
            offset=offset,
            limit=limit,
        )
        if offset + limit < found.total:
            onward = request.url.include_query_params(offset=offset + limit, limit=limit)
            response.headers["Link"] = f'<{onward.path}?{onward.query}>; rel="next"'
        items = [OneCase(**shown_case(known, case, ask.person)) for case in found.cases]
        return CasePage(items=items, total=found.total, offset=offset)

    @app.get("/cases/{number}", responses=_answers(404), summary="One case")
    async def case(number: Number, ask: Asked = viewer) -> OneCase:
        found = await ask.do(ask.base.case, number, by=ask.by)
        if found.state == OPEN and not sees_all(ask.person):
            raise NotFoundError(f"there is no case {number}; search for it")
        return OneCase(**shown_case(await ask.known(), found, ask.person))

    @app.get("/cases/{number}/explanation", responses=_answers(404, 409), summary="A past case by all others")
    async def explanation(number: Number, ask: Asked = clinician) -> Answer:
        why = await service.queue.run(ask.base.explain_past, number, by=ask.by, error=service.settings.error)
        if why is None:
            raise Refusal(404, f"The active model has not learned from case {number}, or may not show it.")
        model = await ask.do(service.active)
        return Answer(version=model.version, explanation=why)

    @app.post("/cases/{number}/outcome", status_code=201, responses=_answers(404, 409), summary="Record an outcome")
    async def outcome(number: Number, new: NewOutcome, key: Key = None, ask: Asked = clinician) -> OneCase:
        return OneCase(**(await ask.do(ask.base.outcome, number, new.outcome, by=ask.by, key=key)).to_dict())

    @app.post("/retentions", status_code=201, responses=_answers(404, 409), summary="Make open cases past cases")
    async def retain(new: Annotated[Retention, Body()], ask: Asked = steward) -> Retained:
        return Retained(cases=await ask.do(ask.base.retain, new.cases, by=ask.by))

    @app.post("/cases/{number}/forget", responses=_answers(404, 409), summary="Forget a patient")
    async def forget(number: Number, new: Reason, ask: Asked = steward) -> Forgotten:
        return Forgotten(**(await ask.do(ask.base.forget, number, new.reason, by=ask.by)).to_dict())

    # Models

    @app.get("/models", responses=_answers(), summary="All versions of the model")
    async def models(ask: Asked = viewer) -> ModelList:
        found = [model.to_dict() for model in await ask.do(ask.base.models)]
        if not ask.person.may(CLINICIAN):
            found = [{**model, "metrics": None} for model in found]  # these name single cases
        return ModelList(items=[ModelVersion(**model) for model in found])

    @app.post("/models/{version}/promote", responses=_answers(404, 409), summary="Make a version the active one")
    async def promote(version: Version, ask: Asked = steward) -> ModelVersion:
        return ModelVersion(**(await ask.do(ask.base.promote, version, by=ask.by)).to_dict())

    @app.post("/models/roll-back", responses=_answers(409), summary="Go back to the version that was active before")
    async def roll_back(ask: Asked = steward) -> ModelVersion:
        return ModelVersion(**(await ask.do(ask.base.roll_back, by=ask.by)).to_dict())

    @app.get("/refit", responses=_answers(), summary="Whether a refit runs")
    async def refit_state(ask: Asked = steward) -> RefitState:
        return RefitState(**await ask.do(service.refit_state))

    @app.post("/refit", status_code=202, responses=_answers(409), summary="Learn anew from all past cases")
    async def refit(ask: Asked = steward) -> RefitState:
        await ask.do(service.start_refit, ask.by)
        return RefitState(**await ask.do(service.refit_state))

    @app.delete("/refit", responses=_answers(404), summary="End a refit; nothing has changed")
    async def cancel(ask: Asked = steward) -> RefitState:
        await ask.do(service.cancel_refit)
        return RefitState(**await ask.do(service.refit_state))

    @app.get("/drift", responses=_answers(), summary="What the model said against what happened")
    async def drift(every: Literal["year", "month", "day", "all"] = "month", ask: Asked = clinician) -> DriftList:
        return DriftList(items=await ask.do(ask.base.drift, by=ask.by, every=every))

    # Audit

    @app.get("/audit", responses=_answers(), summary="The audit log, the newest rows first")
    async def audit(
        case: Annotated[int | None, Query(ge=1, le=LARGEST)] = None,
        by: Annotated[str | None, Query(max_length=200)] = None,
        action: Annotated[str | None, Query(max_length=50)] = None,
        before: Annotated[int | None, Query(ge=1, le=LARGEST, description="Only rows before this one.")] = None,
        after: Annotated[
            int, Query(ge=0, le=LARGEST, description="Only rows after this one, the oldest first: to go on from there.")
        ] = 0,
        limit: Limit = 100,
        ask: Asked = steward,
    ) -> EntryList:
        chosen = {"case": case, "by": by, "action": action, "before": before, "after": after}
        found = await ask.do(ask.base.audit, **chosen, limit=limit)
        await ask.do(ask.base.record_audit, chosen, by=ask.by)
        return EntryList(items=[Entry(**entry.to_dict()) for entry in found])

    @app.get("/audit/verification", responses=_answers(), summary="Hold the log and the models against their hashes")
    async def verification(
        head: Annotated[str | None, Query(max_length=100, description="An end of the log that was noted.")] = None,
        ask: Asked = steward,
    ) -> Verified:
        found = await ask.do(ask.base.verify_audit, head)
        await ask.do(ask.base.record_audit, {}, by=ask.by, verified=True)
        return Verified(intact=found.intact, n_entries=found.n_entries, head=found.head, problems=list(found.problems))

    return app


def _refusals(app: FastAPI) -> None:
    """Every error as a problem."""

    async def refused(_: Request, error: Exception) -> Response:
        cause = error.__cause__
        found = refusal_of(cause if isinstance(cause, Refusal) else error)
        assert found is not None
        return problem(found)

    async def not_valid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        # Where and what is wrong, and not what was sent: it may be a patient's.
        errors = [
            {"at": ".".join(str(part)[:60] for part in one["loc"])[:300], "problem": str(one["msg"])[:300]}
            for one in error.errors()[:20]
        ]
        said = "; ".join(f"{one['at']}: {one['problem']}" for one in errors)
        return problem(Refusal(422, f"Not valid: {said}."), errors=errors)

    async def failed(_: Request, error: Exception) -> Response:
        return problem(Refusal(500, "Something went wrong here; it is in the log."))

    kinds: tuple[type[Exception], ...]
    kinds = (Refusal, HTTPException, CaseBaseError, DictionaryError, BusyError, LateError, TimeoutError)
    for kind in kinds:
        app.add_exception_handler(kind, refused)
    app.add_exception_handler(RequestValidationError, not_valid)
    app.add_exception_handler(Exception, failed)


def _describe(app: FastAPI) -> None:
    """The OpenAPI description, with tokens, problems, and nothing that is never answered."""

    def description() -> dict[str, Any]:
        if app.openapi_schema is None:
            said = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            said["servers"] = [{"url": PREFIX}]
            parts = said["components"]
            parts["schemas"]["Problem"] = Problem.model_json_schema()
            for name in ("HTTPValidationError", "ValidationError"):
                parts["schemas"].pop(name, None)
            parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            said["security"] = [{"token": []}]
            app.openapi_schema = said
        return app.openapi_schema

    app.openapi = description  # type: ignore[method-assign]
