"""Tokens of record systems for the CDS Hooks services: signed JWTs, each for one request."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from pathlib import Path

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from bayespatch.casebase.identities import Identities
from bayespatch.web.record_systems import Client, read_keys
from bayespatch.web.single_sign_on import ALGORITHMS, LEEWAY

log = logging.getLogger("bayespatch.web")
LONGEST = 3600  # maximum lifetime of a token in seconds
_MOST_CHARACTERS = 10_000


class TokenError(Exception):
    """A token is not valid; the message is for the log of the record system."""


def check_token(token: str, clients: Sequence[Client], audiences: Sequence[str], seen: Identities) -> Client:
    """The record system that signed the token, which must be valid for one of the audiences and unused."""
    if len(token) > _MOST_CHARACTERS:
        raise TokenError("the token is too long")
    try:
        stated = json.loads(jws.extract_compact(token.encode()).payload)
        client = next((one for one in clients if isinstance(stated, dict) and one.issuer == stated.get("iss")), None)
        if client is None:
            raise TokenError("its issuer (iss) is not in the settings")
        claims = jwt.decode(token, _keys(client), algorithms=ALGORITHMS).claims
        essential = {name: {"essential": True} for name in ("iss", "aud", "exp", "iat", "jti")}
        jwt.JWTClaimsRegistry(leeway=LEEWAY, **essential).validate(claims)  # type: ignore[arg-type]
    except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise TokenError(f"{type(error).__name__}: {str(error)[:100]}") from error
    stated_audiences = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    if not set(audiences) & {one for one in stated_audiences if isinstance(one, str)}:
        raise TokenError(f"its audience (aud) is not {audiences[0]}")
    if claims["exp"] > time.time() + LONGEST + LEEWAY:
        raise TokenError(f"it is valid for more than {LONGEST} seconds (exp)")
    if not isinstance(claims["jti"], str) or not 0 < len(claims["jti"]) <= 1000:
        raise TokenError("its id (jti) is not text")
    if not seen.first_use(client.issuer, claims["jti"]):
        raise TokenError("it was used before (jti)")
    return client


def _keys(client: Client) -> KeySet:
    """The keys of a record system; the log says why they cannot be read, not the response."""
    try:
        return read_keys(client.keys, Path(client.keys).stat().st_mtime_ns)
    except (OSError, ValueError) as error:
        log.error("record system %s: %s", client.name, error)
        raise TokenError("the keys of its issuer cannot be read") from error
