"""Authentication of requests to the REST interface, and the errors of its routes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request

from bayespatch.casebase.people import CLINICIAN, STEWARD, VIEWER, Person
from bayespatch.types import JSONObject
from bayespatch.web.access import Ask
from bayespatch.web.refusals import API, PROBLEM, Refusal
from bayespatch.web.service import LOCAL, Service

PREFIX = f"{API}v1"

_TITLES = {
    400: "Malformed request",
    401: "Missing or invalid token",
    403: "Insufficient role",
    404: "Not found",
    409: "Conflict with the current state",
    413: "Too large",
    415: "Not UTF-8",
    422: "Invalid request",
    429: "Too many requests",
    503: "Busy; try again",
}
_ALWAYS = (400, 401, 403, 413, 415, 422, 429, 503)


def responses(*statuses: int) -> dict[int | str, JSONObject]:
    """The error responses of a route for its OpenAPI description: the common ones and these."""
    content = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _TITLES[status], "content": content} for status in sorted({*_ALWAYS, *statuses})}


async def bearer(service: Service, request: Request, role: str = VIEWER) -> Person:
    """The user whose token a program sends, with at least this role; without sign-in, the default user."""
    person: Person | None = None if service.settings.sign_in else LOCAL
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    if person is None and kind.lower() == "bearer" and secret:
        person = await service.do(service.base.people.of_token, secret.strip()[:200])
    if person is None:
        raise Refusal(401, "A valid token is needed: Authorization: Bearer ...", {"WWW-Authenticate": "Bearer"})
    request.state.who = person.name
    wait = service.rate.wait(f"api {person.name}")
    if wait:
        raise Refusal(429, "Too many requests. Wait a moment.", {"Retry-After": str(wait)})
    if not person.may(role):
        raise Refusal(403, f"This requires the role {role}; the token belongs to a {person.role}.")
    return person


def _asking(role: str) -> Any:
    """The dependency that admits users with at least this role."""

    async def ask(request: Request) -> Ask:
        service: Service = request.app.state.service
        request.state.route = f"{PREFIX}{request.scope['route'].path}"
        return Ask(request, service, await bearer(service, request, role), "")

    return Depends(ask)


Viewer = Annotated[Ask, _asking(VIEWER)]
Clinician = Annotated[Ask, _asking(CLINICIAN)]
Steward = Annotated[Ask, _asking(STEWARD)]
