"""Authentication, permissions and CSRF tokens of requests."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import TypeVar
from urllib.parse import parse_qsl

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from bayespatch.casebase import CaseBase
from bayespatch.casebase.cases import Definition
from bayespatch.casebase.people import ROLES, Person
from bayespatch.language import gettext, using
from bayespatch.web import passwords, rendering
from bayespatch.web.guard import address_in
from bayespatch.web.languages import language_of
from bayespatch.web.refusals import Refusal, refusal_of
from bayespatch.web.second_factor import passed
from bayespatch.web.service import LOCAL, Service
from bayespatch.web.throttle import network_of

T = TypeVar("T")

COOKIE, SECURE_COOKIE = "bayespatch_session", "__Host-bayespatch_session"
MOST_FIELDS = 3000  # fields in a form
WITHOUT_FACTOR = ("/account", "/account/password", "/account/second-factor", "/sign-out")  # always open


class Ask:
    """A user's request, and everything a page or a route of the REST interface needs to answer it."""

    def __init__(self, request: Request, service: Service, person: Person | None, session: str) -> None:
        self.request, self.service, self.session = request, service, session
        self._person = person
        self.csrf = service.csrf(session)
        self.form: FormData = FormData()

    @property
    def person(self) -> Person:
        """Who asks."""
        if self._person is None:
            raise Refusal(401, "Please sign in.")
        return self._person

    @property
    def by(self) -> str:
        """The name of the user."""
        return self.person.name

    @property
    def base(self) -> CaseBase:
        """The case base."""
        return self.service.base

    async def do(self, work: Callable[..., T], *args: object, **kwargs: object) -> T:
        """`Service.do`."""
        return await self.service.do(work, *args, **kwargs)

    async def definition(self) -> Definition:
        """The definition of the cases."""
        return await self.do(lambda: self.base.definition)

    def number(self, name: str = "id") -> int:
        """A number from the path."""
        return int(self.request.path_params[name])

    def text(self, name: str, most: int = 10_000) -> str:
        """The text of a form field."""
        text = self.form.get(name, "")
        if not isinstance(text, str) or len(text) > most or "\0" in text:
            raise Refusal(422, f"The field {name!r} must be text of at most {most} characters.")
        return text.strip()

    def page(self, template: str, status: int = 200, **content: object) -> HTMLResponse:
        """A page."""
        return HTMLResponse(self.render(template, **content), status)

    def render(self, template: str, **content: object) -> str:
        """Render a page, or a part of a page."""
        frame = {
            "person": self._person,
            "sign_in": self.service.settings.sign_in,
            "csrf": self.csrf,
            "here": self.request.url.path,
            "onward_here": self._onward_here(),
            "roles": ROLES,
            "single_sign_on": self.service.single_sign_on,
        }
        with using(language_of(self.request)):
            return rendering.render(template, **{**frame, **content})

    def _onward_here(self) -> str:
        """The address to which the browser returns after a change of language on this page."""
        if self.request.method != "GET":
            return "/"
        query = self.request.url.query
        return f"{self.request.url.path}?{query}" if query else self.request.url.path

    async def unconfirmed(self, what: str) -> Response | None:
        """None if the form contains the user's password; otherwise the page that asks for it, with the same form.

        A stolen session must not be enough for changes that outlive it. A user without a password confirms at the
        provider; the confirmation is valid for a few minutes.
        """
        if not self.service.settings.sign_in:
            return None
        if not may_use_password(self.service, self.person):
            if await self.do(self.base.people.confirmed, self.session):
                return None
            return self.page("confirm.html", 422, what=what, fields=[], problem="", provider=True)
        password = str(self.form.get("own_password", ""))
        problem = ""
        if password:
            if await verify_password(self.service, self.request, self.by, password) is not None:
                return None
            problem = gettext("The password is wrong.")
        fields = [(name, value) for name, value in self.form.multi_items() if name != "own_password"]
        return self.page("confirm.html", 422, what=what, fields=fields, problem=problem, provider=False)

    def go(self, path: str) -> RedirectResponse:
        """Redirect to another page of this site after an action."""
        return RedirectResponse(path, 303)


def may_use_password(service: Service, person: Person) -> bool:
    """Whether a user can sign in with a password here."""
    provider = service.single_sign_on
    return person.password_hash is not None and (provider is None or provider.local_passwords)


Endpoint = Callable[[Ask], Awaitable[Response]]


def is_secure(request: Request) -> bool:
    """Whether the browser uses TLS."""
    return request.url.scheme == "https"


def session_of(request: Request) -> str:
    """The session secret in the browser's cookie; may be empty or invalid."""
    return request.cookies.get(SECURE_COOKIE if is_secure(request) else COOKIE, "")[:200]


def give_session(request: Request, response: Response, secret: str) -> None:
    """Set the session cookie, which scripts cannot read and other sites cannot send."""
    secure = is_secure(request)
    response.set_cookie(
        SECURE_COOKIE if secure else COOKIE, secret, secure=secure, httponly=True, samesite="lax", path="/"
    )


def take_session(request: Request, response: Response) -> None:
    """Delete the session cookie."""
    secure = is_secure(request)
    response.delete_cookie(SECURE_COOKIE if secure else COOKIE, secure=secure, httponly=True, samesite="lax", path="/")


async def person_of(service: Service, request: Request) -> tuple[Person | None, str]:
    """The user of the browser's session, and its secret."""
    if not service.settings.sign_in:
        return LOCAL, ""
    secret = session_of(request)
    person = await service.do(service.base.people.of_session, secret) if secret else None
    return person, secret if person is not None else ""


async def verify_password(
    service: Service, request: Request, name: str, password: str, code: str | None = None
) -> Person | None:
    """The user with this name and password and, if a `code` is given, this second factor.

    Failures are logged, and slow down further attempts.

    They are counted by name and address together, so that nobody can lock out a user from another address, and less
    strictly by address alone, to stop one password from being tried with many names.
    """
    where = network_of(address_in(request.scope))
    who = f"{where} {name}"
    for throttle, key in ((service.by_address, where), (service.by_name, who)):
        wait = throttle.begin(key)
        if wait:
            raise Refusal(429, f"Too many failed attempts. Wait {wait} seconds.", {"Retry-After": str(wait)})
    person = await service.hashing.run(passwords.verified, service.base.people, name, password)
    if person is not None and code is not None and not await service.do(passed, service.base.people, person, code):
        person = None
    if person is None:
        details = {**await service.do(service.known_name, name), "address": address_in(request.scope)}
        await service.do(service.base.people.refuse, "password", **details)
    else:
        service.by_name.succeeded(who)
        service.by_address.take_back(where)
    return person


async def password_complaint(service: Service, password: str, name: str) -> str | None:
    """`passwords.complaint`, in a thread: judging a password made for it takes seconds."""
    return await service.hashing.run(copy_context().run, passwords.complaint, password, name)


def page_route(path: str, methods: str, endpoint: Endpoint, role: str | None) -> Route:
    """The route of a page for people with at least this role; None: for everyone."""

    async def answer(request: Request) -> Response:
        with using(language_of(request)):
            return await answer_in_language(request)

    async def answer_in_language(request: Request) -> Response:
        service: Service = request.app.state.service
        request.state.route = path
        person, session = await person_of(service, request)
        ask = Ask(request, service, person, session)
        request.state.who = person.name if person is not None else "-"
        request.state.refuse = _refusing(ask)
        if role is not None:
            if person is None:
                if request.method == "GET":
                    query = f"?{request.url.query}" if request.url.query else ""
                    return ask.go(f"/sign-in?next={rendering.quoted(request.url.path + query)}")
                raise Refusal(401, "The session has ended. Sign in and try again.")
            wait = service.rate.wait(person.name)
            if wait:
                raise Refusal(429, "Too many requests. Wait a moment.", {"Retry-After": str(wait)})
            if not person.may(role):
                raise Refusal(403, f"This requires the role {role}; you are a {person.role}.")
            if path not in WITHOUT_FACTOR and await _lacks_factor(service, person, session):
                if request.method == "GET":
                    return ask.go("/account")
                raise Refusal(403, "Set up a second factor first: click your name.")
        if request.method == "POST":
            ask.form = await read_form(service, request)
            if role is not None and not hmac.compare_digest(str(ask.form.get("csrf", "")).encode(), ask.csrf.encode()):
                raise Refusal(403, "This form has expired or was not sent from this page. Reload the page.")
        try:
            return await endpoint(ask)
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise
            raise refusal from error

    return Route(path, answer, methods=methods.split(), name=f"{methods} {path}")


async def _lacks_factor(service: Service, person: Person, session: str) -> bool:
    """Whether a person must set up a second factor first; for sign-ins at a provider, the provider decides."""
    settings = service.settings
    if not (settings.sign_in and settings.require_second_factor) or person.totp_secret is not None:
        return False
    return not await service.do(service.base.people.by_provider, session)


async def read_form(service: Service, request: Request) -> FormData:
    """The fields of a form. Only the default encoding of browsers is accepted, so files cannot be sent."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refusal(415, "Send the form as application/x-www-form-urlencoded.")
    return await service.do(_parse_form, await request.body())


def _parse_form(body: bytes) -> FormData:
    try:
        fields = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise Refusal(400, f"The form cannot be read; send at most {MOST_FIELDS} fields in UTF-8.") from error
    return FormData([*fields])


def _refusing(ask: Ask) -> Callable[[Refusal], Response]:
    def page(refusal: Refusal) -> Response:
        text = ask.render("refusal.html", refusal=refusal, onward_here="/")
        return HTMLResponse(text, refusal.status, refusal.headers)

    return page


def local_path(path: str) -> str:
    """A path on this site; other targets are replaced.

    Examples
    --------
    >>> local_path("/cases/7"), local_path("//evil.example"), local_path("https://evil.example")
    ('/cases/7', '/', '/')
    """
    if not path.startswith("/") or path.startswith(("//", "/\\")) or any(c in path for c in "\\\r\n\t\0"):
        return "/"
    return path


def page_number(text: str) -> int:
    """The requested page of a list; 1 if it is not a number or too large.

    Examples
    --------
    >>> page_number("3"), page_number("x"), page_number("9" * 5000)
    (3, 1, 1)
    """
    return max(1, int(text)) if text.isascii() and text.isdecimal() and len(text) <= 7 else 1
