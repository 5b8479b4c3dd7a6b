"""The REST interface of the case base, described by OpenAPI 3.1.

Programs send a token (``Authorization: Bearer ...``). Errors are problem details (RFC 9457); lists have ``offset``,
``limit`` and ``total``; requests with the same ``Idempotency-Key`` take effect once.
"""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException

from bayespatch.casebase.errors import CaseBaseError
from bayespatch.dictionary import DictionaryError
from bayespatch.types import JSONObject
from bayespatch.version import __version__
from bayespatch.web.api import cases, models, questions
from bayespatch.web.api.asking import PREFIX
from bayespatch.web.api.schemas import Problem
from bayespatch.web.queue import BusyError, LateError
from bayespatch.web.refusals import Refusal, problem, refusal_of
from bayespatch.web.service import Service


class Interface(FastAPI):
    """The REST interface, with tokens and error responses in its description."""

    def openapi(self) -> JSONObject:
        """The OpenAPI description."""
        if self.openapi_schema is None:
            schema = get_openapi(
                title=self.title, version=self.version, description=self.description, routes=self.routes
            )
            components = schema["components"]
            components["schemas"]["Problem"] = Problem.model_json_schema()
            for name in ("HTTPValidationError", "ValidationError"):  # never sent
                components["schemas"].pop(name, None)
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            self.openapi_schema = {**schema, "servers": [{"url": PREFIX}], "security": [{"token": []}]}
        return self.openapi_schema


def create(service: Service) -> FastAPI:
    """The REST interface of one case base."""
    app = Interface(
        title="bayespatch",
        version=__version__,
        description="Past cases, consultations and models. The audit log records every access to a case.",
        openapi_url="/openapi.json",
        docs_url=None,  # these pages would load external scripts
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    for router in (questions.router, cases.router, models.router):
        app.include_router(router)
    refused = (Refusal, HTTPException, CaseBaseError, DictionaryError, BusyError, LateError, TimeoutError)
    for kind in refused:
        app.add_exception_handler(kind, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _failed)
    return app


async def _refused(_: Request, error: Exception) -> Response:
    cause = error.__cause__
    refusal = refusal_of(cause if isinstance(cause, Refusal) else error)
    assert refusal is not None
    return problem(refusal)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    # Location and kind of the error, but never the input, which may be a patient's data.
    errors = [
        {"at": ".".join(str(part)[:60] for part in one["loc"])[:300], "problem": str(one["msg"])[:300]}
        for one in error.errors()[:20]
    ]
    text = "; ".join(f"{one['at']}: {one['problem']}" for one in errors)
    return problem(Refusal(422, f"Invalid request: {text}."), errors=errors)


async def _failed(_: Request, error: Exception) -> Response:
    return problem(Refusal(500, "Internal error; see the log."))
