"""The language of a page: the user's choice, otherwise the browser's preference."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from bayespatch.language import languages, preferred

COOKIE = "bayespatch_language"
_SECONDS = 365 * 24 * 3600  # seconds for which a browser keeps the choice


def language_of(request: Request) -> str:
    """The code of the language for a response."""
    chosen = request.cookies.get(COOKIE, "")
    return chosen if chosen in languages() else preferred(request.headers.get("accept-language", ""))


def remember(request: Request, response: Response, code: str) -> None:
    """Store the chosen language in a cookie. It is not secret, but scripts do not need it."""
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, code, max_age=_SECONDS, secure=secure, httponly=True, samesite="lax", path="/")
