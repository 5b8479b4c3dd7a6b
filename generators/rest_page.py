"""Write docs/rest.md, the reference of the REST interface, from its OpenAPI description.

``make pages GENERATORS=rest_page``
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

PAGE = ROOT / "docs" / "rest.md"
METHODS = ("get", "post", "put", "patch", "delete")
INTRODUCTION = """# REST interface

<!-- Written by generators/rest_page.py from the OpenAPI description; edit the code instead. -->

All routes are below `/api/v1`. `GET /api/v1/openapi.json` is the complete OpenAPI 3.1 description.
[Running the service](serve.md#the-rest-interface) explains tokens, idempotency keys and logging.

- Authenticate with `Authorization: Bearer TOKEN`. Users create tokens on the account page.
- Errors are problem details (RFC 9457) with `status`, `title` and `detail`.
- Lists have `items` and `total`; the `Link` header contains the next page.
- A repeated `POST` with the same `Idempotency-Key` returns the first response.
- Every route can also respond with 400 (malformed request), 401 (no valid token), 403 (insufficient role), 413 (too
  large), 415 (not UTF-8), 422 (invalid values), 429 (too many requests) or 503 (busy; see `Retry-After`).
"""
EVERYWHERE = ("400", "401", "403", "413", "415", "422", "429", "503")


def description() -> dict[str, Any]:
    """The OpenAPI description of an empty case base."""
    from fastapi.testclient import TestClient

    from bayespatch.casebase import CaseBase
    from bayespatch.web import Settings, create_app

    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/clinic.db"
        CaseBase.open(url).close()
        with TestClient(create_app(Settings(url, sign_in=False)), base_url="http://127.0.0.1") as client:
            answer: dict[str, Any] = client.get("/api/v1/openapi.json").json()
            return answer


def page(openapi: dict[str, Any]) -> str:
    """The page: a section for each route."""
    sections = [INTRODUCTION]
    for path, operations in openapi["paths"].items():
        for method in METHODS:
            if method in operations:
                sections.append(section(f"{method.upper()} {path}", operations[method]))
    schemas = openapi["components"]["schemas"]
    sections += ["## Request bodies", ""]
    sections += [fields(name, schemas[name]) for name in bodies(openapi)]
    return "\n".join(sections)


def section(title: str, operation: dict[str, Any]) -> str:
    """A route: description, parameters, body and responses."""
    lines = [f"## {title}", "", one_line(operation.get("description") or operation.get("summary", "")), ""]
    parameters = [part for part in operation.get("parameters", []) if part["in"] != "header"]
    if parameters:
        lines += ["| parameter | in | type | |", "|---|---|---|---|"]
        for part in parameters:
            about = about_part(part, bool(part.get("required")))
            lines.append(f"| `{part['name']}` | {part['in']} | {kind(part['schema'])} | {about} |")
        lines.append("")
    body = body_of(operation)
    if body:
        lines += [f"Body: {kind(body)}", ""]
    responses = [
        f"{code} {one_line(part['description'].replace('Successful Response', 'Success'))}"
        for code, part in operation["responses"].items()
        if code not in EVERYWHERE
    ]
    return "\n".join([*lines, f"Responses: {', '.join(responses)}", ""])


def body_of(operation: dict[str, Any]) -> dict[str, Any]:
    """The schema of the JSON body; empty if there is no body."""
    body: dict[str, Any] = (
        operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    )
    return body


def bodies(openapi: dict[str, Any]) -> list[str]:
    """Names of the schemas of request bodies."""
    operations = [operation for path in openapi["paths"].values() for operation in path.values()]
    return sorted(
        {body_of(operation)["$ref"].rpartition("/")[2] for operation in operations if "$ref" in body_of(operation)}
    )


def fields(name: str, schema: dict[str, Any]) -> str:
    """A table of the fields of a request body."""
    required = schema.get("required", [])
    rows = [
        f"| `{field}` | {kind(part)} | {about_part(part, field in required)} |"
        for field, part in schema.get("properties", {}).items()
    ]
    return "\n".join([f"### {name}", "", "| field | type | |", "|---|---|---|", *rows, ""])


def about_part(part: dict[str, Any], is_required: bool) -> str:
    """The description of a parameter or a field, and whether it is required."""
    return " ".join(filter(None, [one_line(part.get("description", "")), "Required." if is_required else ""]))


def kind(schema: dict[str, Any]) -> str:
    """A short name for a schema."""
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "anyOf" in schema:
        return " or ".join(kind(part) for part in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {kind(schema['items'])}"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    return str(schema.get("type", "any"))


def one_line(text: str) -> str:
    """Text without line breaks, escaped for a table."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(description()), encoding="utf-8")
