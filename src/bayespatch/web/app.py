"""The application: pages, REST interface, static files, health and metrics, behind the guard."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import ssl
import threading
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from bayespatch.casebase.people import CLINICIAN
from bayespatch.types import Parameters
from bayespatch.version import __version__
from bayespatch.web import access, api, cds_hooks, rendering
from bayespatch.web.api.asking import PREFIX, bearer
from bayespatch.web.connections import MOST_CONNECTIONS, trust
from bayespatch.web.guard import AppMiddleware
from bayespatch.web.logs import configure
from bayespatch.web.pages import account, cases, consult, model, people, single_sign_on, smart, worklist
from bayespatch.web.refusals import Refusal
from bayespatch.web.service import Service
from bayespatch.web.settings import Settings

ENVIRONMENT = "BAYESPATCH_SERVE"  # the settings, for processes that uvicorn starts
GRACE = 10  # seconds for which open requests may continue when the server is stopped


def create_app(settings: Settings) -> Starlette:
    """The application over one case base.

    Examples
    --------
    >>> from bayespatch import CaseBase
    >>> with CaseBase.demo() as base:
    ...     app = create_app(Settings(base._database.path.as_posix(), sign_in=False))
    ...     app.state.service.health()
    ...     app.state.service.close()
    {'status': 'ok', 'model': 1}
    """
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        service.close()

    app = Starlette(
        routes=routes(service),
        middleware=[Middleware(AppMiddleware, service=service)],
        exception_handlers={Refusal: _raise, HTTPException: _raise},
        lifespan=lifespan,
    )
    app.state.service = service
    return app


def routes(service: Service) -> list[BaseRoute]:
    """All routes; tests/web compares them with a table."""
    return [
        Route("/", home, methods=["GET"]),
        Route("/health", health, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
        Route("/static/{hash}/{name}", static, methods=["GET"]),
        Route("/.well-known/security.txt", security_contact, methods=["GET"]),
        *consult.ROUTES,
        *cases.ROUTES,
        *worklist.ROUTES,
        *model.ROUTES,
        *people.ROUTES,
        *account.ROUTES,
        *single_sign_on.ROUTES,
        *cds_hooks.ROUTES,
        *smart.ROUTES,
        Mount(PREFIX, api.create(service)),
    ]


async def _raise(_: Request, error: Exception) -> Response:
    """Pass the error on to the guard, which responds to it."""
    raise error


async def home(request: Request) -> Response:
    """Redirect to the start page of the user's role."""
    request.state.route = "/"
    person, _ = await access.person_of(request.app.state.service, request)
    return RedirectResponse("/cases" if person is not None and not person.may(CLINICIAN) else "/consult", 303)


async def health(request: Request) -> Response:
    """Health check for load balancers, without sign-in."""
    request.state.route = "/health"
    service: Service = request.app.state.service
    state = await service.do(service.health)
    return JSONResponse({**state, "version": __version__}, 200 if state["status"] == "ok" else 503)


async def metrics(request: Request) -> Response:
    """Metrics for Prometheus; with sign-in, a token is required."""
    request.state.route = "/metrics"
    service: Service = request.app.state.service
    person = await bearer(service, request)
    gauges = await service.do(service.gauges, person.name)
    return PlainTextResponse(service.metrics.text(gauges), media_type="text/plain; version=0.0.4")


async def static(request: Request) -> Response:
    """Style and scripts."""
    request.state.route = "/static"
    file = rendering.static_files().get(request.path_params["name"])
    if file is None or request.url.path != rendering.static_address(request.path_params["name"]):
        raise Refusal(404, "File not found.")
    return Response(file[0], media_type=file[1], headers={"Cache-Control": "public, max-age=31536000, immutable"})


async def security_contact(request: Request) -> Response:
    """The contact for vulnerability reports (RFC 9116)."""
    request.state.route = "/.well-known/security.txt"
    contact = request.app.state.service.settings.security_contact
    if not contact:
        raise Refusal(404, "There is no page at this address.")
    expires = (datetime.now(UTC) + timedelta(days=180)).strftime("%Y-%m-%dT00:00:00Z")
    return PlainTextResponse(f"Contact: {contact}\nExpires: {expires}\nPreferred-Languages: en\n")


def from_environment() -> Starlette:
    """The application in a process started by uvicorn."""
    settings = Settings.from_json(os.environ[ENVIRONMENT])
    configure(settings.json_log)
    trust(settings.proxies)
    warnings.simplefilter("ignore")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    return create_app(settings)


def _end_with_parent() -> None:
    """Shut down this process once its parent is gone; a killed parent cannot ask for it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def check_address(settings: Settings) -> None:
    """Raise an error if the address cannot be used or the certificate cannot be loaded."""
    if settings.certificate:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.certificate, settings.key)
        except OSError as error:  # ssl.SSLError is one
            raise ValueError(
                f"--certificate {settings.certificate!r} and --key {settings.key!r} cannot be used "
                f"({error.strerror or error}); pass PEM files that belong together"
            ) from error
    try:
        family, kind, _, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as listening:
            if os.name == "posix":  # as asyncio does; elsewhere the option would allow two servers
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
    except OSError as error:
        raise ValueError(
            f"the server cannot listen on port {settings.port} of {settings.host} ({error.strerror or error}); "
            "pass another --port or --host"
        ) from error


def serve(settings: Settings) -> None:
    """Serve until a signal arrives; then answer open requests and release all resources."""
    configure(settings.json_log)
    warnings.simplefilter("ignore")  # they contain values, and explanations include these warnings anyway
    trust(settings.proxies)
    options: Parameters = {
        "host": settings.host,
        "port": settings.port,
        "ssl_certfile": settings.certificate or None,
        "ssl_keyfile": settings.key or None,
        "proxy_headers": bool(settings.proxies),
        "forwarded_allow_ips": settings.proxies or None,
        "access_log": False,
        "log_config": None,  # all lines in one format
        "log_level": "warning",
        "server_header": False,
        "timeout_graceful_shutdown": GRACE,
        "timeout_keep_alive": 30,
        "limit_concurrency": MOST_CONNECTIONS,
        # Passed by name: with the class itself, a worker would import everything before it could answer its supervisor.
        "http": "bayespatch.web.connections:LimitedProtocol",
        "ws": "none",
        "h11_max_incomplete_event_size": 32_768,
    }
    if settings.workers == 1:
        uvicorn.run(create_app(settings), **options)
    else:
        os.environ[ENVIRONMENT] = settings.to_json()
        uvicorn.run("bayespatch.web.app:from_environment", factory=True, workers=settings.workers, **options)
