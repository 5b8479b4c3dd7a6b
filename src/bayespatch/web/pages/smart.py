"""The consulting page opened from a patient's record (SMART on FHIR, EHR launch)."""

from __future__ import annotations

from starlette.responses import Response

from bayespatch import fhir
from bayespatch.casebase.identities import LAUNCH as PURPOSE
from bayespatch.casebase.people import CLINICIAN
from bayespatch.language import to_translate
from bayespatch.web import smart
from bayespatch.web.access import Ask, page_route
from bayespatch.web.cards import LAUNCH
from bayespatch.web.fetching import ProviderError
from bayespatch.web.guard import address_in
from bayespatch.web.pages import consult
from bayespatch.web.record_systems import RecordSystems, Server
from bayespatch.web.refusals import Refusal
from bayespatch.web.throttle import network_of

CALLBACK = "/smart/callback"
_MOST = 4000  # maximum length of a parameter
_AGAIN = to_translate("Open the page from the patient's record again.")
_UNREACHABLE = to_translate("The record system cannot be reached at the moment. Try again later.")


def _systems(ask: Ask) -> RecordSystems:
    systems = ask.service.record_systems
    if systems is None or not systems.servers:
        raise Refusal(404, "Opening this page from a record system is not set up here.")
    return systems


def _parameter(ask: Ask, name: str) -> str:
    value = ask.request.query_params.get(name, "")
    if len(value) > _MOST:
        raise Refusal(400, f"{name} is too long.")
    return value


def _server(systems: RecordSystems, address: str) -> Server | None:
    return next((server for server in systems.servers if server.address == address.rstrip("/")), None)


def _redirect(ask: Ask) -> str:
    return f"{str(ask.request.base_url).rstrip('/')}{CALLBACK}"


async def launch(ask: Ask) -> Response:
    """Handle a launch: redirect to the authorization server, which knows the user and the patient."""
    systems = _systems(ask)
    server = _server(systems, _parameter(ask, "iss"))
    if server is None:
        raise Refusal(403, "This record system (iss) is not in the settings of this server.")
    opaque = _parameter(ask, "launch")
    if not opaque:
        raise Refusal(400, f"The parameter launch is missing. {_AGAIN}")
    wait = ask.service.provider_rate.wait(network_of(address_in(ask.request.scope)))
    if wait:
        raise Refusal(429, "Too many launches. Wait a moment.", {"Retry-After": str(wait)})
    state, begun = await ask.do(ask.base.identities.begin, ask.session, server.address, PURPOSE, ask.by)
    try:
        address = await ask.service.asking.run(
            smart.authorization_address, server, systems, opaque, state, begun, _redirect(ask)
        )
    except ProviderError as error:
        raise await _unreachable(ask, error) from error
    # A page instead of a redirect: after the sign-in form, the content security policy forbids redirects to other
    # sites.
    return ask.page("launch.html", address=address)


async def callback(ask: Ask) -> Response:
    """Handle the callback from the authorization server: show the form with values from the patient's record."""
    systems = _systems(ask)
    code, issuer = _parameter(ask, "code"), ask.request.query_params.get("iss")
    begun = await ask.do(ask.base.identities.take, _parameter(ask, "state"), ask.session)
    if begun is None or begun.purpose != PURPOSE or begun.user != ask.by:
        raise Refusal(403, f"This launch has expired or was used before. {_AGAIN}")
    server = _server(systems, begun.onward)
    if server is None or ask.request.query_params.get("error") or not code:
        raise Refusal(403, f"The record system did not grant access. {_AGAIN}")
    definition = await ask.do(lambda: ask.base.definition)
    try:
        granted = await ask.service.asking.run(smart.access, server, code, begun, _redirect(ask), issuer)
        mapping = systems.mapping.with_dictionary(definition.features)
        case = await ask.service.asking.run(smart.read_case, server, granted, mapping)
    except smart.LaunchError as error:
        await ask.service.record_refusal("launch", ask.by, reason=str(error), address=address_in(ask.request.scope))
        raise Refusal(403, f"The record system did not grant access. {_AGAIN}") from error
    except ProviderError as error:
        raise await _unreachable(ask, error) from error
    except fhir.FhirError as error:
        raise Refusal(422, f"The record cannot be read: {error}.") from error
    await ask.do(ask.base.identities.record_launch, server.address, ask.by)
    return await consult.prefilled(ask, case.values, granted.patient, case.warnings)


async def _unreachable(ask: Ask, error: ProviderError) -> Refusal:
    """The error page for a record system that fails; the failure is recorded."""
    await ask.service.record_refusal("launch", ask.by, reason=str(error), address=address_in(ask.request.scope))
    return Refusal(503, _UNREACHABLE, {"Retry-After": "30"})


ROUTES = [page_route(LAUNCH, "GET", launch, CLINICIAN), page_route(CALLBACK, "GET", callback, CLINICIAN)]
