"""Requests from this server to an OpenID provider or a record system. They go only to addresses in the settings."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from bayespatch.types import JSONMapping, JSONObject

_SECONDS, _MOST_BYTES = 10.0, 1_000_000  # limits for a response


class ProviderError(Exception):
    """The other server cannot be reached, or its response is invalid."""


class RefusedError(Exception):
    """The other server responds with an OAuth error."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Reject redirects: a code and a secret must go only to the address in the settings."""


_opener = urllib.request.build_opener(_NoRedirects)


def fetch(
    address: str,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    most_bytes: int = _MOST_BYTES,
) -> JSONObject:
    """The JSON object at an address."""
    body = None if form is None else urlencode(form).encode()
    try:
        request = urllib.request.Request(address, body, {"Accept": "application/json", **(headers or {})})
        with _opener.open(request, timeout=_SECONDS) as response:
            document = json.loads(response.read(most_bytes))
    except urllib.error.HTTPError as error:
        if form is not None and error.code in (400, 401):
            raise RefusedError(f"status {error.code}") from error
        raise ProviderError(f"the provider responded with status {error.code}") from error
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        raise ProviderError(f"the provider cannot be reached, or did not send JSON ({type(error).__name__})") from error
    if not isinstance(document, dict):
        raise ProviderError("the provider did not send a JSON object")
    return document


class OAuthClient(NamedTuple):
    """The registration of this server at an authorization server (OAuth 2.0); a public client has no secret."""

    id: str
    secret: str = ""


def challenge(verifier: str) -> dict[str, str]:
    """The parameters of a request for a code that depend on the verifier (PKCE)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return {
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }


def redeem(description: JSONMapping, client: OAuthClient, code: str, verifier: str, redirect: str) -> JSONObject:
    """Exchange a code at the token endpoint of an authorization server."""
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect, "code_verifier": verifier}
    headers: dict[str, str] = {}
    methods = description.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    if not client.secret:
        form["client_id"] = client.id
    elif "client_secret_basic" in methods:
        pair = f"{quote(client.id, safe='')}:{quote(client.secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    else:
        form |= {"client_id": client.id, "client_secret": client.secret}
    return fetch(description["token_endpoint"], form, headers)


def read_secret(path: str) -> str:
    """The client's secret in a file; empty without one."""
    if not path:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"client_secret_file cannot be read ({error}); correct it") from error


def is_protected(address: object) -> bool:
    """Whether an address uses https or is on this machine."""
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
