"""Error responses: problem details (RFC 9457) for programs, pages for users."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from bayespatch.casebase.errors import CaseBaseError, ConflictError, DatabaseError, NotFoundError, UnavailableError
from bayespatch.dictionary import DictionaryError
from bayespatch.language import gettext, to_translate
from bayespatch.web.queue import RETRY, BusyError, LateError

log = logging.getLogger("bayespatch.web")
API = "/api/"
HOOKS_PREFIX = "/cds-services"
PROBLEM = "application/problem+json"
_TITLES = {
    400: to_translate("Invalid request"),
    401: to_translate("Please sign in"),
    403: to_translate("Not allowed"),
    404: to_translate("Not found"),
    405: to_translate("Not possible here"),
    408: to_translate("The request took too long"),
    409: to_translate("Conflict with the current state"),
    413: to_translate("The request is too large"),
    415: to_translate("Unknown format"),
    422: to_translate("Please correct the input"),
    429: to_translate("Too many requests"),
    500: to_translate("Internal error"),
    503: to_translate("Not available at the moment"),
}
_PLAIN = {
    404: to_translate("There is no page at this address."),
    405: to_translate("This is not possible at this address."),
}


class Refusal(Exception):
    """A rejected request, with the reason."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or {}

    @property
    def title(self) -> str:
        """The name of the status, for programs."""
        return HTTPStatus(self.status).phrase

    @property
    def heading(self) -> str:
        """The name of the status, for pages."""
        return gettext(_TITLES[self.status]) if self.status in _TITLES else self.title


def refusal_of(error: Exception) -> Refusal | None:
    """The response to an error; None if the error is a bug."""
    if isinstance(error, Refusal):
        return error
    later = {"Retry-After": str(RETRY)}
    if isinstance(error, BusyError):
        return Refusal(503, "The server is busy and did nothing. Try again in a moment.", later)
    if isinstance(error, LateError | TimeoutError):
        return Refusal(503, "This took too long and was stopped. Try again in a moment.", later)
    if isinstance(error, ClientDisconnect):
        return Refusal(400, "Invalid request")  # nobody reads it
    if isinstance(error, DatabaseError):
        log.error("database: %s", error.cause)
        return Refusal(503, sentence(Exception(error.public)), later)
    if isinstance(error, UnavailableError):
        return Refusal(503, sentence(error), later)
    if isinstance(error, NotFoundError):
        return Refusal(404, sentence(error))
    if isinstance(error, ConflictError):
        return Refusal(409, sentence(error))
    if isinstance(error, CaseBaseError | DictionaryError):
        return Refusal(422, sentence(error))
    if isinstance(error, HTTPException):
        detail = _PLAIN.get(error.status_code) or sentence(Exception(error.detail))
        return Refusal(error.status_code, detail, dict(error.headers or {}))
    return None


def sentence(error: Exception) -> str:
    """The message of an error, as a sentence."""
    text = " ".join(str(error).split())
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def problem(refusal: Refusal, **more: object) -> Response:
    """For programs."""
    content = {
        "type": "about:blank",
        "title": refusal.title,
        "status": refusal.status,
        "detail": refusal.detail,
        **more,
    }
    return Response(json.dumps(content), refusal.status, refusal.headers, media_type=PROBLEM)
