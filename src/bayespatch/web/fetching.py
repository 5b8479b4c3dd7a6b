"""Requests of this server to others: an OpenID provider, a record system. They go to addresses of settings only."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

_SECONDS, _MOST_BYTES = 10.0, 1_000_000  # for an answer


class ProviderError(Exception):
    """The other server cannot be reached, or does not answer as it should."""


class RefusedError(Exception):
    """The other server answers with an error of OAuth."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A provider that moves is an error: a code and a secret go to the stated address only."""


_opener = urllib.request.build_opener(_NoRedirects)


def fetch(
    address: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The JSON object at an address."""
    body = None if form is None else urlencode(form).encode()
    request = urllib.request.Request(address, body, {"Accept": "application/json", **(headers or {})})
    try:
        with _opener.open(request, timeout=_SECONDS) as response:
            found = json.loads(response.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        if form is not None and error.code in (400, 401):
            raise RefusedError(f"status {error.code}") from error
        raise ProviderError(f"the provider answers with status {error.code}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ProviderError(f"the provider cannot be reached, or sends no JSON ({type(error).__name__})") from error
    if not isinstance(found, dict):
        raise ProviderError("the provider sends no JSON object")
    return found


def is_protected(address: object) -> bool:
    """Whether an address is https, or this machine's."""
    if not isinstance(address, str):
        return False
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    return bool(parts.hostname) and (parts.scheme == "https" or local)


def with_query(address: str, query: Mapping[str, str]) -> str:
    """An address with a query."""
    return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(query)}"
