"""Writes docs/routes.md: every route, who may use it, and what it leaves in the audit log.

``make pages GENERATORS=routes_page``; the tables are those that tests/web holds the application against.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

HOME = Path(__file__).parents[1]
sys.path.insert(0, str(HOME))

PAGE = HOME / "docs" / "routes.md"
ROLES = ("viewer", "clinician", "steward")
BEFORE = """# Routes, roles and the audit log

<!-- Written by generators/routes_page.py: change the tables in tests/web, not this page. -->

Who may use each route of the [consulting page](serve.md) and the REST interface, and which actions a steward's request
leaves in the [audit log](casebase.md#the-log). `tests/web/test_routes.py` and `tests/web/test_routes_audit.py` send
every request and compare. Where the table has no action, the request of the test changed nothing and showed no case.

- Without a session or a token, pages lead to the sign-in page and everything else is answered with 401. A forged token
  leaves a `refuse` row.
- With a lesser role: 403 and a `refuse` row with person, route and address.
- `POST /cds-services/...` is for [record systems](fhir.md) with their own tokens; the table shows what their requests
  leave.
- A token has the lesser of its scope and the person's role.
"""


def page(least: Mapping[tuple[str, str], str], actions: Mapping[tuple[str, str], tuple[str, ...]]) -> str:
    """The page."""
    lines = [BEFORE, "| route | everybody | viewer | clinician | steward | audit log |", "|---|---|---|---|---|---|"]
    for (method, path), role in least.items():
        open_to = role == "everybody"
        first = 0 if role in ("everybody", "token") else len(ROLES) if role == "record system" else ROLES.index(role)
        marks = ["yes" if open_to else "", *("yes" if i >= first else "" for i in range(len(ROLES)))]
        said = ", ".join(actions.get((method, path), ()))
        lines.append(f"| `{method} {path}` | {' | '.join(marks)} | {said} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page."""
    from tests.web.test_routes import TABLE
    from tests.web.test_routes_audit import AUDIT

    PAGE.write_text(page(TABLE, {route: rows for route, (_, rows) in AUDIT.items()}), encoding="utf-8")


if __name__ == "__main__":
    main()
