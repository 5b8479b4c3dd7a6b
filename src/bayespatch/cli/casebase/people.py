"""The command that invites a person to the consulting page."""

from __future__ import annotations

from bayespatch.cli.casebase.opening import open_base, person
from bayespatch.cli.casebase.options import Base, By, Folder, PersonName, Role, RoleOption
from bayespatch.cli.options import Json
from bayespatch.cli.terminal import show


def invite(
    base: Base,
    name: PersonName,
    role: RoleOption = Role.clinician,
    by: By = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Make a link by which a person chooses a password for the consulting page; it can be used once, for 72 hours.

    Examples
    --------
    $ bayespatch casebase invite clinic.db 'Dr. Roe'
    $ bayespatch casebase invite clinic.db 'Sam Steward' --role steward
    """
    with open_base(base, folder) as opened:
        secret = opened.people.invite(name, role.value, by=person(by))
    show({"path": f"/join/{secret}"}, json, f"after the address of the consulting page: /join/{secret}")
