"""Single sign-on by OpenID Connect: authorization code with PKCE, state and nonce.

The settings are read from a TOML file; `Provider` sends requests to the provider and checks its responses. joserfc
checks signatures and claims. Only the algorithms listed below are accepted, whatever a token or the provider requests.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from bayespatch.casebase.identities import CONFIRM, Identity, SignIn
from bayespatch.casebase.people import ROLES
from bayespatch.language import to_translate
from bayespatch.types import JSONMapping, JSONObject, Parameters
from bayespatch.web.fetching import (
    OAuthClient,
    ProviderError,
    RefusedError,
    challenge,
    fetch,
    is_protected,
    read_secret,
    redeem,
    with_query,
)
from bayespatch.web.settings import read_toml

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519"]
LEEWAY = 60  # seconds by which clocks may differ
_KEPT = 3600.0  # seconds for which a provider's metadata are cached
_KEYS_AGAIN = 60.0  # seconds after which keys may be fetched again for a token with an unknown key


_FAILED = to_translate("The sign-in failed. Try again.")


class SignInError(Exception):
    """A sign-in at the provider failed; the audit log records `reason`, and the page shows `public`."""

    def __init__(self, reason: str, public: str = _FAILED) -> None:
        super().__init__(reason)
        self.reason, self.public = reason, public


@dataclass(frozen=True)
class SingleSignOn:
    """Settings for sign-in with an OpenID provider.

    Attributes
    ----------
    issuer : str
        The provider's issuer; its description is at ISSUER/.well-known/openid-configuration.
    client_id : str
        The provider's name for this server.
    client_secret_file : str
        File with the client's secret; empty for a public client.
    roles : dict
        Value of the role claim -> viewer, clinician or steward. The highest one applies; users without one cannot sign
        in.
    role_claim : str
        Claim of the ID token with the groups or roles of a person; dots lead into objects (realm_access.roles).
    name_claim : str
        Claim with the name of a new account.
    scopes : tuple of str
        Requested scopes.
    label : str
        Label of the button: "Sign in with LABEL".
    local_passwords : bool
        Whether people may also sign in with a password of this server.
    require_amr : tuple of str
        Authentication methods (claim "amr"), such as "mfa"; the provider must state one of them. Empty: any method.
    """

    issuer: str
    client_id: str
    client_secret_file: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)
    role_claim: str = "roles"
    name_claim: str = "preferred_username"
    scopes: tuple[str, ...] = ("openid", "profile")
    label: str = "single sign-on"
    local_passwords: bool = True
    require_amr: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.client_id:
            raise ValueError("client_id is empty; pass the id of this server at the provider")
        if self.issuer.rstrip("/") != self.issuer or not is_protected(self.issuer):
            raise ValueError(f"issuer={self.issuer!r} is not an https address without a final slash; correct it")
        if not self.roles:
            raise ValueError('roles is empty, so nobody could sign in; add lines such as "group" = "clinician"')
        for value, role in self.roles.items():
            if role not in ROLES:
                raise ValueError(f"roles: {value!r} = {role!r} is not a role; choose one of {', '.join(ROLES)}")
        if "openid" not in self.scopes:
            raise ValueError("scopes lacks 'openid'; add it")

    @classmethod
    def read(cls, path: str) -> SingleSignOn:
        """Read the settings from a TOML file."""
        given = read_toml(path)
        types = {"roles": dict, "scopes": list, "require_amr": list, "local_passwords": bool}
        for name, value in given.items():
            if name not in cls.__dataclass_fields__:
                raise ValueError(
                    f"{path}: {name!r} is not a setting; choose from {', '.join(cls.__dataclass_fields__)}"
                )
            parts = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
            if type(value) is not types.get(name, str) or not all(isinstance(part, str) for part in parts):
                raise ValueError(f"{path}: {name}={value!r} has the wrong type; compare it with the documentation")
        for name in ("issuer", "client_id"):
            if name not in given:
                raise ValueError(f"{path}: {name} is missing; add it")
        try:
            options: Parameters = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
            return cls(**options)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def role_of(self, claims: JSONMapping) -> str | None:
        """The highest role that a person's claims grant; None if they grant none.

        Examples
        --------
        >>> settings = SingleSignOn("https://id.example", "bayespatch", roles={"doctors": "clinician"})
        >>> settings.role_of({"roles": ["staff", "doctors"]}), settings.role_of({"roles": "staff"})
        ('clinician', None)
        """
        claim: object = claims.get(self.role_claim)
        if claim is None:
            claim = claims
            for part in self.role_claim.split("."):
                claim = claim.get(part) if isinstance(claim, Mapping) else None
        values = claim if isinstance(claim, list) else [claim]
        roles = [self.roles[value] for value in values if isinstance(value, str) and value in self.roles]
        return max(roles, key=ROLES.index, default=None)


class Provider:
    """An OpenID provider, accessed over HTTP. Its methods block: call them in a thread."""

    def __init__(self, settings: SingleSignOn) -> None:
        self.settings = settings
        self.client = OAuthClient(settings.client_id, read_secret(settings.client_secret_file))
        self._lock = threading.Lock()
        self._description: tuple[float, JSONObject] | None = None
        self._keys: tuple[float, list[JSONObject]] | None = None

    # Metadata of the provider

    def description(self) -> JSONObject:
        """Its metadata (OpenID Connect Discovery)."""
        with self._lock:
            if self._description is None or time.monotonic() - self._description[0] > _KEPT:
                metadata = fetch(f"{self.settings.issuer}/.well-known/openid-configuration")
                if metadata.get("issuer") != self.settings.issuer:
                    raise ProviderError("the provider's description names a different issuer")
                for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                    if not is_protected(metadata.get(name)):
                        raise ProviderError(f"the provider's description has no usable {name}")
                self._description = time.monotonic(), metadata
            return self._description[1]

    def keys(self, again: bool = False) -> list[JSONObject]:
        """The provider's public signing keys; with `again`, they are fetched again unless they are recent."""
        address = self.description()["jwks_uri"]
        with self._lock:
            age = None if self._keys is None else time.monotonic() - self._keys[0]
            if self._keys is None or age is None or age > (_KEYS_AGAIN if again else _KEPT):
                listed = fetch(address).get("keys")
                keys = [key for key in listed if isinstance(key, dict)] if isinstance(listed, list) else []
                wanted = [one for one in keys if one.get("kty") in ("RSA", "EC", "OKP") and one.get("use") != "enc"]
                self._keys = time.monotonic(), wanted
            return self._keys[1]

    # The steps of a sign-in

    def authorization_address(self, state: str, begun: SignIn, redirect: str) -> str:
        """The URL for signing in."""
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": redirect,
            "scope": " ".join(self.settings.scopes),
            "state": state,
            "nonce": begun.nonce,
            **challenge(begun.verifier),
        }
        if begun.purpose == CONFIRM:
            query |= {"prompt": "login", "max_age": "0"}
        return with_query(self.description()["authorization_endpoint"], query)

    def sign_out_address(self, redirect: str) -> str | None:
        """The URL for ending the session at the provider; None if the provider has none."""
        address = self.description().get("end_session_endpoint")
        if not isinstance(address, str) or not is_protected(address):
            return None
        return with_query(address, {"client_id": self.settings.client_id, "post_logout_redirect_uri": redirect})

    def claims(self, code: str, begun: SignIn, redirect: str, issuer: str | None) -> JSONObject:
        """The claims about the user, for the code in the callback.

        `issuer` is the one in the callback, if any (RFC 9207).
        """
        stated = self.description().get("authorization_response_iss_parameter_supported") is True
        if (issuer is not None or stated) and issuer != self.settings.issuer:
            raise SignInError("the response came from a different issuer")
        try:
            token = redeem(self.description(), self.client, code, begun.verifier, redirect).get("id_token")
        except RefusedError as error:
            raise SignInError(f"the provider refused the code ({error})") from error
        if not isinstance(token, str):
            raise SignInError("the provider sent no ID token")
        return self._checked(token, begun)

    def _checked(self, token: str, begun: SignIn) -> JSONObject:
        """The claims of an ID token (OpenID Connect Core, 3.1.3.7)."""
        try:
            claims = self._decoded(token)
            wanted = {"iss": self.settings.issuer, "aud": self.settings.client_id, "nonce": begun.nonce}
            options: Any = {name: {"essential": True, "value": value} for name, value in wanted.items()}
            options |= {name: {"essential": True} for name in ("exp", "iat", "sub")}
            jwt.JWTClaimsRegistry(leeway=LEEWAY, **options).validate(claims)
        except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise SignInError(f"the ID token is not valid ({type(error).__name__}: {str(error)[:100]})") from error
        audience, party = claims["aud"], claims.get("azp", self.settings.client_id)
        if party != self.settings.client_id or (
            isinstance(audience, list) and len(audience) > 1 and "azp" not in claims
        ):
            raise SignInError("the ID token is for a different client")
        if not claims["sub"] or len(claims["sub"]) > 255:
            raise SignInError("the ID token has no usable subject")
        if begun.purpose == CONFIRM and not _at_least(claims.get("auth_time"), begun.made_at):
            raise SignInError("the provider did not ask for credentials again")
        methods = claims.get("amr") if isinstance(claims.get("amr"), list) else []
        if self.settings.require_amr and not set(self.settings.require_amr) & {str(one) for one in methods or []}:
            raise SignInError("the authentication method is not sufficient", "Sign in with a second factor.")
        return claims

    def _decoded(self, token: str) -> JSONObject:
        """The claims of a token that the provider has signed."""
        for again in (False, True):
            keys = self.keys(again)
            try:
                return jwt.decode(token, KeySet.import_key_set({"keys": keys}), algorithms=ALGORITHMS).claims
            except (JoseError, ValueError):
                if again:
                    raise
        raise AssertionError

    def person_in(self, claims: JSONMapping) -> tuple[Identity, str, str]:
        """The user's identity, name and role."""
        role, name = self.settings.role_of(claims), claims.get(self.settings.name_claim)
        if role is None:
            public = "Your account has no role here. Contact the person who manages accounts in your organization."
            raise SignInError("no role in the claims", public)
        if not isinstance(name, str) or not name.strip() or len(name) > 200 or not name.isprintable():
            raise SignInError(f"no usable name in the claim {self.settings.name_claim!r}")
        return Identity(self.settings.issuer, str(claims["sub"])), name, role


def new_browser_secret() -> str:
    """The secret that a browser keeps during sign-in at the provider."""
    return secrets.token_urlsafe(32)


def _at_least(seconds: object, at: str) -> bool:
    """Whether a time in a claim is not before another time, allowing for clock differences."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return False
    return seconds >= datetime.fromisoformat(at).timestamp() - LEEWAY
