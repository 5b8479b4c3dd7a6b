"""CDS Hooks 2.0: record systems ask about the patient whose record is open, get a card, and report the decision."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bayespatch import fhir
from bayespatch.casebase.cases import Definition
from bayespatch.casebase.consultations import Consultation
from bayespatch.casebase.errors import ConflictError, NotFoundError, PastCaseError
from bayespatch.fhir.errors import refuse, shown
from bayespatch.fhir.resources import codings
from bayespatch.types import JSONObject
from bayespatch.web.cards import CARD, SUGGESTION, Source, card
from bayespatch.web.client_tokens import TokenError, check_token
from bayespatch.web.pages.worklist import CODES
from bayespatch.web.record_systems import HOOKS, ORDER_SELECT, Client, RecordSystems
from bayespatch.web.refusals import HOOKS_PREFIX, Refusal, refusal_of
from bayespatch.web.service import Service

NOT_STATED = "no reason stated"  # the code of an override without a reason
_CODES_OF_ORDERS = ("medicationCodeableConcept", "medication.concept", "code", "code.concept")
_MOST_FEEDBACK = 100
Model = TypeVar("Model", bound=BaseModel)

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9\-.]{1,64}$")]
User = Annotated[str, Field(pattern=r"^[A-Za-z]{1,64}/[A-Za-z0-9\-.]{1,64}$")]
Text = Annotated[str, Field(min_length=1, max_length=200)]


class Context(BaseModel):
    """The user's action and the patient."""

    userId: User
    patientId: Id
    encounterId: Id | None = None
    selections: list[Text] = Field([], max_length=1000)
    draftOrders: JSONObject | None = None


class Call(BaseModel):
    """A hook that has fired."""

    hook: str
    hookInstance: Text
    context: Context
    prefetch: dict[str, JSONObject | None] = {}


class Coding(BaseModel):
    """A chosen reason."""

    code: Text
    system: str = Field("", max_length=1000)
    display: str = Field("", max_length=1000)


class OverrideReason(BaseModel):
    """Why a card was overridden."""

    reason: Coding | None = None
    userComment: Annotated[str, Field(max_length=10_000)] = ""


class AcceptedSuggestion(BaseModel):
    """An accepted suggestion."""

    id: Text


class Feedback(BaseModel):
    """The outcome of a card."""

    card: Text
    outcome: Literal["accepted", "overridden"]
    acceptedSuggestions: list[AcceptedSuggestion] = Field([], max_length=10)
    overrideReason: OverrideReason = OverrideReason()
    outcomeTimestamp: AwareDatetime


class Report(BaseModel):
    """Feedback about some cards."""

    feedback: list[Feedback] = Field(max_length=_MOST_FEEDBACK)


# The routes


async def discover(request: Request) -> Response:
    """The services, and the FHIR searches whose results they need."""
    service: Service = request.app.state.service
    request.state.route = HOOKS_PREFIX
    systems = service.record_systems
    prefetch = systems.mapping.prefetch() if systems is not None else {}
    services = [
        {"hook": hook, "title": systems.label, "description": systems.description, "id": hook, "prefetch": prefetch}
        for hook in HOOKS
        if systems is not None and systems.clients
    ]
    return JSONResponse({"services": services})


async def call(service: Service, systems: RecordSystems, client: Client, request: Request) -> Response:
    """Answer a hook with the card about the patient."""
    hook = request.path_params["service"]
    called = await service.do(_read, Call, await request.body())
    if called.hook != hook:
        raise Refusal(422, f"hook: {shown(called.hook)} was sent to the service of {hook!r}; correct the address.")
    by = f"{client.name} {called.context.userId}"
    request.state.who = by
    wait = service.rate.wait(f"hook {by}")
    if wait:
        raise Refusal(429, "Too many requests. Wait a moment.", {"Retry-After": str(wait)})
    return JSONResponse({"cards": await service.queue.run(_cards, service, systems, called, by)})


async def feedback(service: Service, systems: RecordSystems, client: Client, request: Request) -> Response:
    """Record accepted or overridden cards as decisions on their consultations."""
    wait = service.rate.wait(f"feedback {client.name}")
    if wait:
        raise Refusal(429, "Too many requests. Wait a moment.", {"Retry-After": str(wait)})
    report = await service.do(_read, Report, await request.body())
    await service.do(_record, service, systems, client, report)
    return JSONResponse({})


Endpoint = Callable[[Service, RecordSystems, Client, Request], Awaitable[Response]]


def _route(path: str, endpoint: Endpoint) -> Route:
    """A route for record systems that sign in with a token."""

    async def answer(request: Request) -> Response:
        service: Service = request.app.state.service
        request.state.route = path
        systems, name = service.record_systems, request.path_params["service"]
        if systems is None or name not in HOOKS:
            raise Refusal(404, f"There is no such service; {HOOKS_PREFIX} lists the services.")
        own = f"{service.settings.address}{HOOKS_PREFIX}/{name}"
        audiences = (own, f"{service.settings.address}{request.url.path}")
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        needed = {"WWW-Authenticate": "Bearer"}
        if kind.lower() != "bearer":
            raise Refusal(401, "A signed token is needed: Authorization: Bearer ...", needed)
        try:
            client = await service.do(check_token, token.strip(), systems.clients, audiences, service.base.identities)
        except TokenError as error:
            raise Refusal(401, f"The token is not valid: {error}.", needed) from error
        request.state.who = client.name
        try:
            return await endpoint(service, systems, client, request)
        except fhir.FhirError as error:
            raise Refusal(422, f"{error}.") from error
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise
            raise refusal from error

    return Route(path, answer, methods=["POST"])


ROUTES = [
    Route(HOOKS_PREFIX, discover, methods=["GET"]),
    _route(f"{HOOKS_PREFIX}/{{service}}", call),
    _route(f"{HOOKS_PREFIX}/{{service}}/feedback", feedback),
]


def _read(kind: type[Model], body: bytes) -> Model:
    """Parse a request; an invalid element is rejected with a pointer to it."""
    data = fhir.parse_json(body, "request")
    try:
        return kind.model_validate(data, strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        pointer = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise refuse(pointer.lstrip(".") or "request", f"{first['msg'][:200]}; correct it") from error


# Hooks


def _cards(service: Service, systems: RecordSystems, called: Call, by: str) -> list[JSONObject]:
    """The card; none if the settings exclude the selected orders, or if the outcome is already known."""
    context, definition = called.context, service.base.definition
    if called.hook == ORDER_SELECT and not _concerned(systems, context):
        return []
    case = _mapped(systems, called, definition)
    unmapped = [name for name in definition.features.names if name not in case.values]
    notes = [*case.warnings, *(f"column {name!r}: the mapping has no rule for it" for name in unmapped)]
    # One case per encounter or, without encounters, per day.
    visit = f"Encounter/{context.encounterId}" if context.encounterId else f"{context.patientId} {datetime.now(UTC):%F}"
    try:
        seen = service.base.consult(
            {**dict.fromkeys(unmapped), **case.values},
            by=by,
            external_id=f"{by.partition(' ')[0]} {visit}",
            patient=context.patientId,
            error=service.settings.error,
        )
    except PastCaseError:
        return []
    return [card(source_of(service, systems), seen, list(definition.classes), notes)]


def source_of(service: Service, systems: RecordSystems) -> Source:
    """The source of the cards."""
    return Source(service.settings.address, systems.label, bool(systems.servers))


def _mapped(systems: RecordSystems, called: Call, definition: Definition) -> fhir.MappedCase:
    """The values of the patient in the prefetched resources."""
    for key in systems.mapping.prefetch():
        if key not in called.prefetch:
            raise Refusal(412, f"prefetch.{key}: is missing; send the result of its template.")
        bundle = called.prefetch[key] or {}
        if fhir.next_page(bundle) is not None:
            raise Refusal(412, f"prefetch.{key}.link: has a next page; send all pages as one Bundle.")
        if bundle.get("resourceType") == "OperationOutcome":
            raise Refusal(412, f"prefetch.{key}: is an OperationOutcome; send the result of its template.")
    sent = {key: resource for key, resource in called.prefetch.items() if resource is not None}
    try:
        mapping = systems.mapping.with_dictionary(definition.features)
    except fhir.FhirError as error:
        raise Refusal(503, f"This service does not match the case base: {error}.") from error
    if "patient" not in sent:
        raise Refusal(412, "prefetch.patient: is null; send the Patient of context.patientId.")
    case = mapping.case(fhir.labeled(sent, "prefetch"))
    if case.patient != called.context.patientId:
        wrong = f"{shown(case.patient)} is not the patient of the context, {shown(called.context.patientId)}"
        raise refuse("prefetch.patient.id", f"{wrong}; send one patient")
    return case


def _concerned(systems: RecordSystems, context: Context) -> bool:
    """Whether one of the selected orders is among those of the settings."""
    if context.draftOrders is None:
        raise refuse("context.draftOrders", "is missing; send the Bundle of the unsigned orders")
    if not context.selections:
        raise refuse("context.selections", "is missing or empty; send the ids of the selected orders")
    orders = {}
    for entry in fhir.labeled({"draftOrders": context.draftOrders}, "context"):
        orders[f"{entry.resource['resourceType']}/{entry.resource.get('id')}"] = entry
    concerned = False
    for j, name in enumerate(context.selections):
        order = orders.get(name)
        if order is None:
            raise refuse(f"context.selections[{j}]", f"{shown(name)} is not in draftOrders; send the order")
        ordered = set(codings(order.resource, _CODES_OF_ORDERS, order.where)) if systems.orders else set()
        concerned = concerned or not systems.orders or bool(ordered & set(systems.orders))
    return concerned


# Feedback


def _record(service: Service, systems: RecordSystems, client: Client, report: Report) -> None:
    """Record decisions on the consultations of the cards; nothing is recorded if one of them is rejected."""
    definition, source = service.base.definition, source_of(service, systems)
    decisions: dict[int, tuple[int, object, str, str]] = {}
    for j, one in enumerate(report.feedback):
        where = f"feedback[{j}]"
        number = source.consultation(one.card, CARD)
        try:
            seen, decision, _ = service.base.consultation(number or 0, by=client.name)
        except NotFoundError:
            seen = None
        is_own = seen is not None and seen.by.partition(" ")[0] == client.name
        if (
            seen is None or not is_own or service.base.people.find(seen.by) is not None
        ):  # a person may have the same name
            raise refuse(f"{where}.card", f"{shown(one.card)} is not a card that was sent to you; send its uuid")
        decided, code = _decided(one, seen, definition, source, where)
        if decision is None:
            new = (seen.id, decided, one.overrideReason.userComment, code)
            if decisions.setdefault(seen.id, new) != new:
                raise ConflictError(f"{where}.card: the report has another decision for this card; send one")
        elif decision.decided != definition.class_name(definition.outcome(decided)):
            raise ConflictError(f"{where}.card: the decision {decision.decided!r} was already recorded for this card")
    service.base.decide_together(list(decisions.values()), by=client.name)


def _decided(
    one: Feedback, seen: Consultation, definition: Definition, source: Source, where: str
) -> tuple[object, str]:
    """The decided class, and the code of the reason."""
    classes = definition.classes
    if one.outcome == "accepted":
        expected = source.identifier(seen.id, SUGGESTION)
        if not one.acceptedSuggestions:
            raise refuse(f"{where}.acceptedSuggestions", "is missing or empty; send the suggestion that was accepted")
        for k, accepted in enumerate(one.acceptedSuggestions):
            if accepted.id.lower() != expected:
                pointer = f"{where}.acceptedSuggestions[{k}].id"
                raise refuse(pointer, f"{shown(accepted.id)} is not a suggestion of this card; send its uuid")
        return classes[seen.predicted], ""
    others = [name for name in classes if name != seen.predicted]
    reason = one.overrideReason.reason
    if reason is not None and reason.system == source.reasons:
        place, _, key = reason.code.partition("-")
        names = list(classes)
        name = names[int(place)] if place.isascii() and place.isdecimal() and int(place) < len(names) else ""
        if name not in others or key not in CODES:
            pointer = f"{where}.overrideReason.reason.code"
            raise refuse(pointer, f"{shown(reason.code)} is not a reason of this card; send one of overrideReasons")
        return classes[name], CODES[key]
    if len(others) != 1:
        pointer = f"{where}.overrideReason.reason"
        raise refuse(pointer, "does not say which class was decided; send one of the card's overrideReasons")
    stated = (reason.display or reason.code)[:200] if reason is not None else ""
    return classes[others[0]], stated or ("" if one.overrideReason.userComment.strip() else NOT_STATED)
