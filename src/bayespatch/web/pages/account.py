"""The user's account: password, sessions and second factor."""

from __future__ import annotations

from starlette.responses import Response

from bayespatch.casebase.people import VIEWER
from bayespatch.language import gettext, to_translate
from bayespatch.web import passwords, second_factor
from bayespatch.web.access import (
    Ask,
    give_session,
    may_use_password,
    page_route,
    password_complaint,
    verify_password,
)
from bayespatch.web.refusals import Refusal

CHANGES = {  # actions of the audit log
    "invite": to_translate("link for a new password"),
    "accept": to_translate("password set with a link"),
    "password": to_translate("password changed"),
    "second factor": to_translate("second factor changed or recovery code used"),
    "token": to_translate("token created"),
    "revoke": to_translate("token or link withdrawn"),
    "link": to_translate("linked to single sign-on"),
    "unlink": to_translate("unlinked from single sign-on"),
    "role": to_translate("role changed"),
    "disable": to_translate("account disabled"),
    "enable": to_translate("account enabled"),
}


async def show(ask: Ask) -> Response:
    """The account page."""
    return await _page(ask)


async def _page(
    ask: Ask, status: int = 200, problem: str = "", secret: str = "", codes: list[str] | None = None
) -> Response:
    _check_sign_in(ask)
    return ask.page(
        "account.html",
        status,
        account=await ask.do(ask.base.people.find, ask.by),
        sessions=await ask.do(ask.base.people.sessions, ask.by, ask.session),
        problem=problem,
        secret=secret,
        address=second_factor.address(secret, ask.by) if secret else "",
        codes=codes or [],
        may_use_password=may_use_password(ask.service, ask.person),
        linked=await ask.do(ask.base.identities.of, ask.by),
        changes=[
            (row.at, row.by, gettext(CHANGES[row.action])) for row in await ask.do(ask.base.people.changes, ask.by)
        ],
    )


def _check_sign_in(ask: Ask) -> None:
    if not ask.service.settings.sign_in:
        raise Refusal(404, "Sign-in is turned off here, so there are no accounts.")


async def _own_password(ask: Ask) -> bool:
    """Whether the form contains the user's password."""
    password = str(ask.form.get("own_password", ""))
    return await verify_password(ask.service, ask.request, ask.by, password) is not None


async def change_password(ask: Ask) -> Response:
    """Change the password; all sessions and tokens end, and a new session begins."""
    _check_sign_in(ask)
    new = str(ask.form.get("password", ""))
    problem = None if await _own_password(ask) else gettext("The password is wrong.")
    if problem is None:
        problem = await password_complaint(ask.service, new, ask.by)
    if problem is None and new != str(ask.form.get("again", "")):
        problem = gettext("The two new passwords differ.")
    if problem is not None:
        return await _page(ask, 422, problem)
    kept = await ask.service.hashing.run(passwords.hashed, new)
    await ask.do(ask.base.people.change_password, ask.by, kept)
    response = ask.go("/account")
    give_session(ask.request, response, await ask.do(ask.base.people.sign_in, ask.by))
    return response


async def end_session(ask: Ask) -> Response:
    """End one of the user's sessions."""
    _check_sign_in(ask)
    page = await ask.unconfirmed(gettext("End the session"))
    if page is not None:
        return page
    await ask.do(ask.base.people.end_session, ask.by, ask.text("session", 64))
    return ask.go("/account")


async def change_factor(ask: Ask) -> Response:
    """Set up a second factor, or remove it."""
    _check_sign_in(ask)
    action = ask.text("action")
    if action == "begin":
        return await _page(ask, secret=second_factor.new_secret())
    if action not in ("confirm", "remove"):
        raise Refusal(422, "Choose what to change.")
    secret = ask.text("secret", 64)
    if action == "confirm" and not second_factor.is_secret(secret):
        raise Refusal(422, "Start setting up the second factor again.")
    if not await _own_password(ask):
        return await _page(ask, 422, gettext("The password is wrong."), secret)
    if action == "remove":
        await ask.do(ask.base.people.remove_factor, ask.by, by=ask.by)
        return ask.go("/account")
    step = second_factor.step_of(secret, ask.text("code", 20))
    if step is None:
        return await _page(ask, 422, gettext("The code is wrong. Check the time on your phone."), secret)
    codes = second_factor.recovery_codes()
    await ask.do(ask.base.people.set_factor, ask.by, secret, step, codes)
    return await _page(ask, codes=codes)


ROUTES = [
    page_route("/account", "GET", show, VIEWER),
    page_route("/account/password", "POST", change_password, VIEWER),
    page_route("/account/session", "POST", end_session, VIEWER),
    page_route("/account/second-factor", "POST", change_factor, VIEWER),
]
