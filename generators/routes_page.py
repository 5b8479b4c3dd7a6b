"""Write docs/routes.md: every route, the roles that may use it, and its rows in the audit log.

``make pages GENERATORS=routes_page``. The tables come from tests/web, which compares the application with them.
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

This page lists who may use each route of the [consulting page](serve.md) and the REST interface, and which rows a
steward's request adds to the [audit log](casebase.md#the-log). `tests/web/test_routes.py` and
`tests/web/test_routes_audit.py` send every request and compare the result with the table. If the table lists no action,
the test's request changed nothing and showed no case.

- Without a session or a token, pages redirect to the sign-in page, and all other requests get 401. A forged token adds
  a `refuse` row.
- If the role is not sufficient, the response is 403, and a `refuse` row records user, route and address.
- `POST /cds-services/...` is for [record systems](fhir.md) with their own tokens; the table shows the rows that their
  requests add.
- A token has the lesser of its scope and the user's role.
"""


def page(least: Mapping[tuple[str, str], str], actions: Mapping[tuple[str, str], tuple[str, ...]]) -> str:
    """The page."""
    lines = [BEFORE, "| route | everyone | viewer | clinician | steward | audit log |", "|---|---|---|---|---|---|"]
    for (method, path), role in least.items():
        open_to = role == "everybody"
        first = 0 if role in ("everybody", "token") else len(ROLES) if role == "record system" else ROLES.index(role)
        marks = ["yes" if open_to else "", *("yes" if i >= first else "" for i in range(len(ROLES)))]
        names = ", ".join(actions.get((method, path), ()))
        lines.append(f"| `{method} {path}` | {' | '.join(marks)} | {names} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page."""
    from tests.web.test_routes import TABLE
    from tests.web.test_routes_audit import AUDIT

    PAGE.write_text(page(TABLE, {route: rows for route, (_, rows) in AUDIT.items()}), encoding="utf-8")


if __name__ == "__main__":
    main()
