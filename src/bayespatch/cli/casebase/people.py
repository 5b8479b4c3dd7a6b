"""The command that invites a person to the consulting page."""

from __future__ import annotations

from bayespatch.cli.casebase.opening import Opened, Person, open_base, person
from bayespatch.cli.casebase.options import PersonName, RoleOption
from bayespatch.cli.options import Json
from bayespatch.cli.shared import taking
from bayespatch.cli.terminal import show


@taking(opened=open_base, by=person)
def invite(opened: Opened, name: PersonName, by: Person, role: RoleOption = "clinician", json: Json = False) -> None:
    """Create a one-time link for setting a password for the consulting page. It is valid for 72 hours.

    Examples
    --------
    $ bayespatch casebase invite clinic.db 'Dr. Roe'
    $ bayespatch casebase invite clinic.db 'Sam Steward' --role steward
    """
    with opened() as base:
        secret = base.people.invite(name, role, by=by())
    show({"path": f"/join/{secret}"}, json, f"path on the consulting server: /join/{secret}")
