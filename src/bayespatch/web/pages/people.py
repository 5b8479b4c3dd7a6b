"""Signing in and out, people and their roles, tokens, and the audit log."""

from __future__ import annotations

from contextlib import suppress

from starlette.responses import Response

from bayespatch.casebase.audit import ACTIONS
from bayespatch.casebase.people import STEWARD, VIEWER
from bayespatch.language import gettext, languages, stored_text, stored_value, to_translate
from bayespatch.web import passwords
from bayespatch.web.access import (
    Ask,
    give_session,
    local_path,
    page_route,
    password_complaint,
    take_session,
    verify_password,
)
from bayespatch.web.fetching import ProviderError
from bayespatch.web.languages import remember
from bayespatch.web.refusals import Refusal, refusal_of

WRONG = to_translate("Name, password or code is wrong.")
PER_PAGE = 100
CHANGES = {
    "role": to_translate("Change the role of {name} to {role}"),
    "disable": to_translate("Disable the account of {name}"),
    "enable": to_translate("Enable the account of {name}"),
    "remove_factor": to_translate("Remove the second factor of {name}"),
    "unlink": to_translate("Unlink the single sign-on of {name}"),
    "withdraw": to_translate("Withdraw the invitation of {name}"),
}


async def sign_in_form(ask: Ask) -> Response:
    """The form."""
    onward = local_path(ask.request.query_params.get("next", "/"))
    address = None
    if ask.service.provider is not None and ask.request.query_params.get("ended") == "provider":
        with suppress(ProviderError):
            here = f"{str(ask.request.base_url).rstrip('/')}/sign-in"
            address = await ask.service.asking.run(ask.service.provider.sign_out_address, here)
    return ask.page("sign_in.html", onward=onward, problem="", name="", sign_out_address=address)


async def sign_in(ask: Ask) -> Response:
    """Begin a session, always with a new secret."""
    name, password = ask.text("name", 200), str(ask.form.get("password", ""))
    onward = local_path(ask.text("next"))
    _check_passwords(ask)
    person = await verify_password(ask.service, ask.request, name, password, ask.text("code", 40))
    if person is None:
        return ask.page("sign_in.html", 401, onward=onward, problem=gettext(WRONG), name=name, sign_out_address=None)
    if ask.session:
        await ask.do(ask.base.people.sign_out, ask.session)
    secret = await ask.do(ask.base.people.sign_in, person.name)
    response = ask.go(onward)
    give_session(ask.request, response, secret)
    return response


async def sign_out(ask: Ask) -> Response:
    """End the session."""
    elsewhere = ask.service.provider is not None and await ask.do(ask.base.people.by_provider, ask.session)
    await ask.do(ask.base.people.sign_out, ask.session)
    response = ask.go("/sign-in?ended=provider" if elsewhere else "/sign-in")
    response.headers["Clear-Site-Data"] = '"cache", "storage"'
    take_session(ask.request, response)
    return response


def _check_passwords(ask: Ask) -> None:
    provider = ask.service.single_sign_on
    if provider is not None and not provider.local_passwords:
        raise Refusal(403, "Passwords are turned off here; use single sign-on.")


async def join_form(ask: Ask) -> Response:
    """The page of an invitation link, for choosing a password."""
    return ask.page("join.html", name=await _invited(ask), problem="")


async def _invited(ask: Ask) -> str:
    """The user whom the link in the address invites."""
    _check_passwords(ask)
    name = await ask.do(ask.base.people.invited, ask.request.path_params["secret"])
    if name is None:
        raise Refusal(404, "This link has been used or has expired. Ask a steward for a new one.")
    return name


async def join(ask: Ask) -> Response:
    """Accept an invitation link and set the password."""
    secret, name = ask.request.path_params["secret"], await _invited(ask)
    password = str(ask.form.get("password", ""))
    problem = await password_complaint(ask.service, password, name)
    if problem is None and password != str(ask.form.get("again", "")):
        problem = gettext("The two passwords differ.")
    if problem is not None:
        return ask.page("join.html", 422, name=name, problem=problem)
    person = await ask.do(ask.base.people.accept, secret, await ask.service.hashing.run(passwords.hashed, password))
    if person.totp_secret is not None:  # a link replaces the password, not the second factor
        return ask.go("/sign-in")
    session = await ask.do(ask.base.people.sign_in, name)
    response = ask.go("/")
    give_session(ask.request, response, session)
    return response


async def choose_language(ask: Ask) -> Response:
    """Set the language of the pages for this browser."""
    code = ask.text("language", 20)
    if code not in languages():
        raise Refusal(422, "Choose one of the languages at the end of the page.")
    response = ask.go(local_path(ask.text("next", 2000)))
    remember(ask.request, response, code)
    return response


async def people(ask: Ask) -> Response:
    """Everyone."""
    return await _people(ask)


async def _people(ask: Ask, link: str = "", invited: str = "") -> Response:
    listed = await ask.do(ask.base.people.listed)
    tokens = await ask.do(ask.base.people.tokens)
    pending = await ask.do(ask.base.people.invitations)
    linked = await ask.do(ask.base.identities.users)
    return ask.page(
        "people.html", people=listed, tokens=tokens, pending=pending, linked=linked, link=link, invited=invited
    )


async def invite(ask: Ask) -> Response:
    """Create a link for a new user or a new password."""
    name = ask.text("name", 200)
    _check_passwords(ask)
    page = await ask.unconfirmed(gettext("Create a link with which {name} can choose a password", name=name))
    if page is not None:
        return page
    secret = await ask.do(ask.base.people.invite, name, ask.text("role"), by=ask.by)
    base = str(ask.request.base_url).rstrip("/")
    return await _people(ask, f"{base}/join/{secret}", name)


async def change(ask: Ask) -> Response:
    """Change a role, disable or enable an account, or withdraw an invitation."""
    name, action = ask.text("name", 200), ask.text("action")
    if action not in CHANGES:
        raise Refusal(422, "Choose what to change.")
    page = await ask.unconfirmed(gettext(CHANGES[action], name=name, role=stored_value(ask.text("role"))))
    if page is not None:
        return page
    if action == "role":
        await ask.do(ask.base.people.set_role, name, ask.text("role"), by=ask.by)
    elif action == "unlink":
        await ask.do(ask.base.identities.unlink, name, by=ask.by)
    else:
        await ask.do(getattr(ask.base.people, action), name, by=ask.by)
    return ask.go("/people")


async def tokens(ask: Ask) -> Response:
    """The user's tokens."""
    return await _tokens(ask)


async def _tokens(ask: Ask, secret: str = "") -> Response:
    if not ask.service.settings.sign_in:
        raise Refusal(404, "Sign-in is turned off here, so programs need no token.")
    return ask.page("tokens.html", tokens=await ask.do(ask.base.people.tokens, ask.by), secret=secret)


async def new_token(ask: Ask) -> Response:
    """Create a token, which is shown once."""
    if not ask.service.settings.sign_in:
        raise Refusal(404, "Sign-in is turned off here, so programs need no token.")
    page = await ask.unconfirmed(gettext("Create a token"))
    if page is not None:
        return page
    days = ask.text("days")
    secret = await ask.do(
        ask.base.people.new_token,
        ask.by,
        label=ask.text("label", 200),
        scope=ask.text("scope"),
        days=int(days) if days.isdecimal() and len(days) < 5 else 0,
        by=ask.by,
    )
    return await _tokens(ask, secret)


async def revoke(ask: Ask) -> Response:
    """Revoke a token: the user's own or, for stewards, any."""
    own = None if ask.person.may(STEWARD) else ask.by
    await ask.do(ask.base.people.revoke, ask.text("token", 64), by=ask.by, of=own)
    return ask.go("/people" if ask.text("from") == "people" else "/tokens")


async def audit(ask: Ask) -> Response:
    """The audit log and, on request, the verification of its hash chain."""
    query = ask.request.query_params
    action, by, case = (
        query.get("action", "")[:50],
        query.get("by", "").strip()[:200],
        query.get("case", "").strip()[:18],
    )
    before = query.get("before", "")
    chosen = {
        "action": action if action in ACTIONS else None,
        "by": by or None,
        "case": int(case) if case.isdecimal() and len(case) < 18 else None,
        "before": int(before) if before.isdecimal() and len(before) < 18 else None,
    }
    entries = await ask.do(ask.base.audit, **chosen, limit=PER_PAGE)
    await ask.do(ask.base.record_audit, chosen, by=ask.by, verified=bool(query.get("verify")))
    verification, problem = None, ""
    if query.get("verify"):
        try:
            verification = await ask.do(ask.base.verify_audit, query.get("head", "").strip() or None)
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise
            problem = stored_text(refusal.detail)
    return ask.page(
        "audit.html",
        entries=entries,
        actions=sorted(ACTIONS),
        action=action,
        by=by,
        case=case,
        verification=verification,
        problem=problem,
        more=entries[-1].number if len(entries) == PER_PAGE else None,
    )


ROUTES = [
    page_route("/sign-in", "GET", sign_in_form, None),
    page_route("/sign-in", "POST", sign_in, None),
    page_route("/sign-out", "POST", sign_out, VIEWER),
    page_route("/join/{secret}", "GET", join_form, None),
    page_route("/join/{secret}", "POST", join, None),
    page_route("/language", "POST", choose_language, None),
    page_route("/people", "GET", people, STEWARD),
    page_route("/people/invite", "POST", invite, STEWARD),
    page_route("/people/change", "POST", change, STEWARD),
    page_route("/tokens", "GET", tokens, VIEWER),
    page_route("/tokens", "POST", new_token, VIEWER),
    page_route("/tokens/revoke", "POST", revoke, VIEWER),
    page_route("/audit", "GET", audit, STEWARD),
]
