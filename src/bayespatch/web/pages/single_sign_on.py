"""Sign-in with an OpenID provider, and linking of accounts to identities."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from bayespatch.casebase.errors import CaseBaseError
from bayespatch.casebase.identities import CONFIRM, LAUNCH, LINK, SIGN_IN, SignIn
from bayespatch.casebase.people import VIEWER
from bayespatch.language import gettext, stored_text, to_translate
from bayespatch.web.access import Ask, give_session, is_secure, local_path, may_use_password, page_route
from bayespatch.web.fetching import ProviderError
from bayespatch.web.guard import address_in
from bayespatch.web.refusals import Refusal
from bayespatch.web.single_sign_on import Provider, SignInError, new_browser_secret
from bayespatch.web.throttle import network_of

CALLBACK = "/sign-in/provider/callback"
_COOKIE, _SECURE_COOKIE = "bayespatch_provider", "__Host-bayespatch_provider"
_MOST = 4000  # maximum length of a parameter from a provider
_UNREACHABLE = to_translate("The provider cannot be reached at the moment. Try again later.")


def _provider(ask: Ask) -> Provider:
    provider = ask.service.provider
    if provider is None:
        raise Refusal(404, "Single sign-on is not set up here.")
    return provider


def _redirect_address(ask: Ask) -> str:
    return f"{str(ask.request.base_url).rstrip('/')}{CALLBACK}"


async def _leave(ask: Ask, onward: str, purpose: str, user: str | None = None) -> tuple[str, str]:
    """The provider's address for a new sign-in, and the secret that the browser keeps."""
    provider = _provider(ask)
    wait = ask.service.provider_rate.wait(network_of(address_in(ask.request.scope)))
    if wait:
        raise Refusal(429, "Too many sign-ins. Wait a moment.", {"Retry-After": str(wait)})
    name = _SECURE_COOKIE if is_secure(ask.request) else _COOKIE
    browser = ask.request.cookies.get(name, "")[:100] or new_browser_secret()
    state, begun = await ask.do(ask.base.identities.begin, browser, onward, purpose, user)
    redirect = _redirect_address(ask)
    try:
        address = await ask.service.asking.run(provider.authorization_address, state, begun, redirect)
    except ProviderError as error:
        await _note(ask, str(error))
        raise Refusal(503, _UNREACHABLE, {"Retry-After": "30"}) from error
    return address, browser


def _remember(ask: Ask, response: Response, browser: str) -> None:
    secure = is_secure(ask.request)
    name = _SECURE_COOKIE if secure else _COOKIE
    response.set_cookie(name, browser, max_age=600, secure=secure, httponly=True, samesite="lax", path="/")


async def begin(ask: Ask) -> Response:
    """Redirect to the provider. With `confirm`, it asks for credentials even if the user is already signed in there."""
    query = ask.request.query_params
    purpose = CONFIRM if query.get("confirm") else SIGN_IN
    address, browser = await _leave(ask, local_path(query.get("next", "/")[:4000]), purpose)
    response = RedirectResponse(address, 303)
    _remember(ask, response, browser)
    return response


async def callback(ask: Ask) -> Response:
    """Handle the callback from the provider, with a code."""
    provider, query = _provider(ask), ask.request.query_params
    code, state, issuer = (query.get(name) for name in ("code", "state", "iss"))
    if any(len(part or "") > _MOST for part in (code, state, issuer)):
        raise Refusal(400, "This response is not from a provider.")
    browser = ask.request.cookies.get(_SECURE_COOKIE if is_secure(ask.request) else _COOKIE, "")[:100]
    begun = await ask.do(ask.base.identities.take, state or "", browser)
    try:
        if begun is None or begun.purpose == LAUNCH:
            raise SignInError("no sign-in with this state", "This sign-in has expired or was used before. Try again.")
        if query.get("error") or not code:
            raise SignInError("the provider reports an error", "The provider rejected the sign-in. Try again.")
        redirect = _redirect_address(ask)
        claims = await ask.service.asking.run(provider.claims, code, begun, redirect, issuer)
        identity, name, role = provider.person_in(claims)
        if begun.purpose == LINK:
            if begun.user != ask.person.name:
                raise SignInError("a different user began to link an identity")
            await ask.do(ask.base.identities.link, identity, ask.by)
            return ask.go("/account")
        confirmed = begun.purpose == CONFIRM
        secret = await ask.do(ask.base.identities.sign_in, identity, name, role, confirmed=confirmed)
    except SignInError as error:
        return await _failed(ask, error.reason, error.public, begun)
    except CaseBaseError as error:
        return await _failed(ask, "the account", str(error), begun)
    except ProviderError as error:
        await _note(ask, str(error))
        raise Refusal(503, _UNREACHABLE, {"Retry-After": "30"}) from error
    if ask.session:
        await ask.do(ask.base.people.sign_out, ask.session)
    response = ask.go(begun.onward)
    give_session(ask.request, response, secret)
    return response


async def _note(ask: Ask, reason: str) -> None:
    by = None if ask.request.state.who == "-" else ask.request.state.who
    await ask.service.record_refusal("single sign-on", by, reason=reason, address=address_in(ask.request.scope))


async def _failed(ask: Ask, reason: str, public: str, begun: SignIn | None) -> Response:
    await _note(ask, reason)
    onward = begun.onward if begun else "/"
    return ask.page("sign_in.html", 401, onward=onward, problem=stored_text(public), name="", sign_out_address=None)


async def change_link(ask: Ask) -> Response:
    """Link the user's account to an identity at the provider, or unlink it."""
    action = ask.text("action")
    if action not in ("link", "unlink"):
        raise Refusal(422, "Choose what to change.")
    page = await ask.unconfirmed(gettext("Link your account") if action == "link" else gettext("Unlink your account"))
    if page is not None:
        return page
    if action == "unlink":
        if not may_use_password(ask.service, ask.person):
            raise Refusal(409, "You could no longer sign in without single sign-on.")
        await ask.do(ask.base.identities.unlink, ask.by, by=ask.by)
        return ask.go("/sign-in")
    address, browser = await _leave(ask, "/account", LINK, ask.by)
    response = ask.page("link.html", address=address)
    _remember(ask, response, browser)
    return response


ROUTES = [
    page_route("/sign-in/provider", "GET", begin, None),
    page_route(CALLBACK, "GET", callback, None),
    page_route("/account/provider", "POST", change_link, VIEWER),
]
