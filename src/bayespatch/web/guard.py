"""Early rejection of invalid requests, headers of every response, and the request log.

The log has the time, the method, the pattern of the route (never the URL itself, which may contain search terms), the
status, the milliseconds, the user, the address, and a number that an error page also shows. It contains no patient
values, queries, bodies or headers.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
import traceback
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bayespatch.language import using
from bayespatch.web import rendering
from bayespatch.web.languages import language_of
from bayespatch.web.refusals import API, HOOKS_PREFIX, Refusal, problem, refusal_of
from bayespatch.web.service import Service

log = logging.getLogger("bayespatch.web")
BODY_SECONDS = 10.0  # time limit for a body to arrive
_LONGEST_TYPE = 500  # characters of a Content-Type: reading the charset takes quadratic time
_HOST = re.compile(r"(?:\[(?P<address>[^]]*)]|(?P<name>[^:]*))(?::\d{0,5})?")
_TOO_LARGE = re.compile(r"\d{19}")  # longer than any case number; Python refuses to parse very long numbers
SAFE = ("GET", "HEAD", "OPTIONS")
POLICY = (
    "default-src 'none'; object-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class AppMiddleware:
    """The ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service
        self.settings, self.metrics = service.settings, service.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        begin, number = time.perf_counter(), secrets.token_hex(6)
        scope.setdefault("state", {})["number"] = number
        status = 0

        async def answering(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._add_headers(scope, MutableHeaders(scope=message))
            await send(message)

        try:
            refusal = self._complaint(scope)
            if refusal is not None:
                raise refusal
            if scope["method"] == "OPTIONS" and self._page_of_record_system(scope):
                await Response(status_code=204)(scope, receive, answering)
                return
            async with asyncio.timeout(self.settings.seconds + BODY_SECONDS + 5.0):
                await self.app(scope, self._limited(scope, receive), answering)
        except Exception as error:
            reply = refusal_of(error)
            if reply is None:
                # Only the frames and the type of the error: its message could contain a value.
                frames = traceback.extract_tb(error.__traceback__)[-6:]
                where = " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames))
                log.error("%s %s at %s", number, type(error).__name__, where)
                reply = Refusal(500, f"Something went wrong. See the log entry with the number {number}.")
            if not status:
                await respond(scope, reply)(scope, receive, answering)
        finally:
            self._log(scope, status, time.perf_counter() - begin)
            await self._audit(scope, status)

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        """Log one line about a request."""
        method = scope["method"] if scope["method"] in METHODS else "OTHER"
        self.metrics.count(route_of(scope), method, status, seconds)
        fields = {
            "request": scope["state"]["number"],
            "method": method,
            "route": route_of(scope),
            "status": status,
            "ms": round(1000 * seconds),
            "who": scope["state"].get("who", "-"),
            "address": address_in(scope),
        }
        log.info("%(request)s %(method)s %(route)s %(status)d %(ms)d ms %(who)s %(address)s", fields)

    async def _audit(self, scope: Scope, status: int) -> None:
        """Add an audit row for a rejected request; wrong passwords already have one."""
        why = {403: "not allowed", 429: "throttled"}.get(status)
        if status == 401 and Headers(scope=scope).get("authorization"):
            why = "token"
        if why is not None:
            who = scope["state"].get("who", "-")
            place = {"route": route_of(scope), "method": scope["method"][:10], "address": address_in(scope)}
            await self.service.record_refusal(why, None if who == "-" else who, **place)

    def _complaint(self, scope: Scope) -> Refusal | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if host_name(host) not in self.settings.names:
            return Refusal(400, "This host name is not allowed; allow it with --name.")
        if _TOO_LARGE.search(scope["path"]):
            return Refusal(404, "There is no page at this address.")
        if scope["method"] in SAFE:
            return None
        most = self._most_bytes(scope)
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        foreign = (origin is not None and origin.lower() != f"{scope['scheme']}://{host}") or site in (
            "cross-site",
            "same-site",
        )
        if foreign and not self._page_of_record_system(scope):
            return Refusal(403, "Requests from other sites are rejected.")
        if not is_utf8(";".join(headers.getlist("content-type"))):
            return Refusal(415, "Send text in UTF-8.")
        length = headers.get("content-length")
        if length is not None and (not length.isdecimal() or len(length) > 12 or int(length) > most):
            return Refusal(413, f"Requests may have at most {most} bytes.")
        return None

    def _most_bytes(self, scope: Scope) -> int:
        """The largest body of a request; a record system sends whole resources."""
        return self.settings.most_bytes * (10 if scope["path"].startswith(HOOKS_PREFIX) else 1)

    def _page_of_record_system(self, scope: Scope) -> str:
        """The origin of a record system's web page that may call the CDS Hooks services; empty if there is none."""
        systems, origin = self.service.record_systems, Headers(scope=scope).get("origin", "")
        is_allowed = systems is not None and origin in {client.origin for client in systems.clients if client.origin}
        return origin if is_allowed and scope["path"].startswith(HOOKS_PREFIX) else ""

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """Limit the size of a body and the time until it arrives."""
        most = self._most_bytes(scope)
        n_bytes, end, whole = 0, time.monotonic() + BODY_SECONDS, False

        async def receiving() -> Message:
            nonlocal n_bytes, whole
            if whole:  # the only remaining message is the disconnect, which may come at any time
                return await receive()
            try:
                async with asyncio.timeout(max(0.0, end - time.monotonic())):
                    message = await receive()
            except TimeoutError:
                raise Refusal(408, "The request took too long to arrive.", {"Connection": "close"}) from None
            n_bytes += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if n_bytes > most:
                raise Refusal(413, f"Requests may have at most {most} bytes.", {"Connection": "close"})
            return message

        return receiving

    def _add_headers(self, scope: Scope, headers: MutableHeaders) -> None:
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
        origin = self._page_of_record_system(scope)
        if origin:
            allowed = {"Origin": origin, "Methods": "GET, POST", "Headers": "Authorization, Content-Type"}
            for name, value in allowed.items():
                headers[f"Access-Control-Allow-{name}"] = value
            headers["Vary"] = "Origin"
        if scope["scheme"] == "https":
            headers["Strict-Transport-Security"] = "max-age=31536000"


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def host_name(host: str) -> str:
    """The name in a Host header, without its port; empty if it is malformed.

    Examples
    --------
    >>> host_name("127.0.0.1:8000"), host_name("[::1]:8000"), host_name("evil.example")
    ('127.0.0.1', '::1', 'evil.example')
    >>> host_name("localhost:80@evil.example")
    ''
    """
    match = _HOST.fullmatch(host)
    return (match["address"] or match["name"] or "") if match else ""


def address_in(scope: Scope) -> str:
    """The address of the client, or the one reported by a trusted proxy."""
    return str(scope["client"][0]) if scope.get("client") else "-"


def is_utf8(content_type: str) -> bool:
    """Whether a Content-Type names no charset other than UTF-8. Some of Python's codecs take quadratic time.

    Examples
    --------
    >>> is_utf8("application/json"), is_utf8("text/plain; charset=UTF-8"), is_utf8("text/plain; charset=punycode")
    (True, True, False)
    """
    if len(content_type) > _LONGEST_TYPE:
        return False
    charsets = re.findall(r"charset[^=;]*=\s*\"?([^\";]*)", content_type.lower())
    return all(charset.strip() in ("utf-8", "utf8") for charset in charsets)


def route_of(scope: Scope) -> str:
    """The pattern of the route that answered."""
    pattern = scope["state"].get("route")
    return str(pattern) if pattern else "other"


def respond(scope: Scope, refusal: Refusal) -> Response:
    """An error response, as JSON or as a page."""
    if scope["path"].startswith((API, HOOKS_PREFIX)):
        return problem(refusal)
    page: Any = scope["state"].get("refuse")
    if page is not None:
        return page(refusal)
    frame = {"person": None, "here": "", "onward_here": "/", "csrf": "", "sign_in": True, "roles": ()}
    with using(language_of(Request(scope))):
        text = rendering.render("refusal.html", refusal=refusal, **frame)
    return HTMLResponse(text, refusal.status, refusal.headers)
