"""SMART on FHIR: access to the record of one patient, granted to a user who opens the page from the record."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from bayespatch import fhir
from bayespatch.casebase.identities import SignIn
from bayespatch.fhir.medications import KINDS as MEDICATION_KINDS
from bayespatch.types import JSONObject
from bayespatch.web.fetching import ProviderError, RefusedError, challenge, fetch, is_protected, redeem, with_query
from bayespatch.web.record_systems import RecordSystems, Server

_MOST_PAGES, _MOST_BYTES = 50, 20_000_000
_FHIR = {"Accept": "application/fhir+json"}


class LaunchError(Exception):
    """A launch failed; the message is for the audit log."""


class Access(NamedTuple):
    """A token for reading one patient's record."""

    token: str
    patient: str


def configuration(server: Server) -> JSONObject:
    """The SMART configuration of a FHIR server."""
    metadata = fetch(f"{server.address}/.well-known/smart-configuration")
    for name in ("authorization_endpoint", "token_endpoint"):
        if not is_protected(metadata.get(name)):
            raise ProviderError(f"the SMART configuration has no usable {name}")
    if "S256" not in (metadata.get("code_challenge_methods_supported") or []):
        raise ProviderError("the SMART configuration does not offer PKCE with S256")
    return metadata


def authorization_address(
    server: Server, systems: RecordSystems, launch: str, state: str, begun: SignIn, redirect: str
) -> str:
    """The URL for requesting access."""
    query = {
        "response_type": "code",
        "client_id": server.client_id,
        "redirect_uri": redirect,
        "launch": launch,
        "scope": server.scopes or default_scopes(systems),
        "state": state,
        "aud": server.address,
        **challenge(begun.verifier),
    }
    return with_query(configuration(server)["authorization_endpoint"], query)


def default_scopes(systems: RecordSystems) -> str:
    """The scopes for launching and for reading the resource types of the mapping."""
    kinds = {re.split(r"[/?]", template)[0] for template in systems.mapping.prefetch().values()}
    kinds |= {"Medication"} if kinds & set(MEDICATION_KINDS) else set()
    return " ".join(["launch", *(f"patient/{kind}.read" for kind in sorted(kinds))])


def access(server: Server, code: str, begun: SignIn, redirect: str, issuer: str | None) -> Access:
    """Exchange a code for an access token. `issuer` is the one in the callback, if any (RFC 9207)."""
    description = configuration(server)
    if issuer is not None and issuer != description.get("issuer"):
        raise LaunchError("the response came from a different issuer")
    try:
        client = server.client
    except ValueError as error:
        raise ProviderError(str(error)) from error
    try:
        tokens = redeem(description, client, code, begun.verifier, redirect)
    except RefusedError as error:
        raise LaunchError(f"the authorization server refused the code ({error})") from error
    token, patient = tokens.get("access_token"), tokens.get("patient")
    if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]{1,10000}", token):
        raise LaunchError("the authorization server sent no access token")
    if str(tokens.get("token_type")).lower() != "bearer":
        raise LaunchError("the access token is not a bearer token")
    if not isinstance(patient, str) or not re.fullmatch(r"[A-Za-z0-9\-.]{1,64}", patient):
        raise LaunchError("the authorization server did not name a patient; open the page from a patient's record")
    return Access(token, patient)


def read_case(server: Server, granted: Access, mapping: fhir.Mapping) -> fhir.MappedCase:
    """The values of the patient, from the FHIR server."""
    entries: list[fhir.BundleEntry] = []
    for name, template in mapping.prefetch().items():
        search = template.replace("{{context.patientId}}", granted.patient)
        kind = search.partition("?")[0]
        if kind in MEDICATION_KINDS:
            search += f"&_include={kind}:medication"
        for page in _pages(server, granted, f"{server.address}/{quote(search, safe='/?&=:,|')}"):
            entries += fhir.labeled({name: page}, server.address)
    case = mapping.case(entries)
    if case.patient != granted.patient:
        raise ProviderError("the FHIR server sent a different patient")
    return case


def _pages(server: Server, granted: Access, address: str) -> Iterator[JSONObject]:
    """A resource, or all pages of a search; the token is sent only to this FHIR server."""
    headers = {**_FHIR, "Authorization": f"Bearer {granted.token}"}
    for _ in range(_MOST_PAGES):
        page = fetch(address, headers=headers, most_bytes=_MOST_BYTES)
        yield page
        links = page.get("link") if isinstance(page.get("link"), list) else []
        following = [
            link.get("url") for link in links or [] if isinstance(link, dict) and link.get("relation") == "next"
        ]
        if not following:
            return
        try:
            address = urljoin(address, str(following[0]))
            elsewhere = urlsplit(address)[:2] != urlsplit(server.address)[:2]
        except ValueError as error:
            raise ProviderError("the next page of a search has no valid address") from error
        if elsewhere:
            raise ProviderError("the next page of a search is on another server")
    raise ProviderError(f"a search has more than {_MOST_PAGES} pages")
