"""Random requests: every route of the application, with parts that are nearly right or not right at all."""

from __future__ import annotations

import copy
import json
import random
from urllib.parse import quote, urlencode

from starlette.routing import Mount, Route

from bayespatch.web.cards import CARD, SUGGESTION, Source
from tests.fhir.records import bundle
from tests.web.conftest import FORM, HOST, PASSWORD, VALUES
from tests.web.record_system import hook, order, token

TEXTS = [
    *("", "0", "-1", "1", "3", "1" * 18, "9" * 19, "9" * 5000, "1e308", "NaN", "null", "true", "yes"),
    *("\0", "\x7f", "é" * 300, "\u202e", "\ud800", "'\"--;", "%s%n", "../" * 20, "{{7*7}}", "#", "\r\nX: y"),
    *("[]", "{}", "[" * 300, "age>=1", "id=1", "id=" + "9" * 30, "town=\0", "=", "<=", "past", "open", "month"),
    *("clinician", "steward", "role", "disable", "confirm", "begin", "link", "2026-01-01", "0:" + "0" * 64),
]
VALUES_OF_JSON = [None, True, 0, -1, 3, 1e300, 10**30, 10**400, "x", "\0", "\ud800", [], [[]], {}, {"a": {"b": []}}]
NAMES = [
    *(
        "c0",
        "o0",
        "w0",
        "page",
        "risk",
        "state",
        "order",
        "down",
        "where",
        "offset",
        "limit",
        "case",
        "by",
        "before",
        "after",
    ),
    *(
        "action",
        "from",
        "waiting_for",
        "descending",
        "every",
        "verify",
        "head",
        "next",
        "confirm",
        "code",
        "iss",
        "error",
    ),
    *("name", "password", "again", "own_password", "role", "label", "scope", "days", "token", "session", "secret"),
    *("outcome", "decided", "reason", "sure", "key", "id", "consultation", "external_id", "ended"),
]
KEYS = [
    *("values", "change", "to", "most", "case", "external_id", "decided", "reason", "code", "outcome"),
    *("cases", "follow_up", "group", "extra"),
]
SKIPPED = {("POST", "/sign-out"), ("POST", "/model/refit"), ("POST", "/api/v1/refit")}  # the last two start processes


def routes_of(routes, prefix=""):
    """Method, path and query names of every route."""
    for route in routes:
        if isinstance(route, Mount):
            yield from routes_of(route.routes, prefix + route.path)
        elif hasattr(route, "original_router"):  # newer versions of FastAPI keep included routers apart
            yield from routes_of(route.original_router.routes, prefix)
        elif isinstance(route, Route):
            dependant = getattr(route, "dependant", None)
            names = [one.alias for one in dependant.query_params] if dependant is not None else []
            for method in sorted((route.methods or set()) - {"HEAD"}):
                if (method, prefix + route.path) not in SKIPPED:
                    yield method, prefix + route.path, names


class Forger:
    """Random requests from one seed."""

    def __init__(self, app, seed: int) -> None:
        self.routes = sorted(routes_of(app.routes))
        self.rng = random.Random(seed)

    def address(self, path: str) -> str:
        """The path with something in place of its parameters; mostly a number that could be right."""
        parts = []
        for part in path.split("/"):
            if part.startswith("{"):
                number = "int" in part or part in ("{number}", "{version}")
                text = str(self.rng.randint(1, 30)) if number and self.rng.random() < 0.7 else self.rng.choice(TEXTS)
                part = quote(text.encode("utf-8", "replace")[:6000], safe="")
            parts.append(part)
        return "/".join(parts)

    def request(self, csrf: str):
        """Method, address, headers and body."""
        rng = self.rng
        method, path, names = rng.choice(self.routes)
        address = self.address(path)
        query = {rng.choice([*names * 3, *NAMES]): rng.choice(TEXTS) for _ in range(rng.randint(0, 3))}
        if query:
            address += "?" + urlencode(query, errors="replace")
        if method == "GET":
            return method, path, address, {}, None
        if path.startswith("/cds-services/"):
            service = rng.choice(["patient-view", "order-select"])
            address = path.replace("{service}", service)
            body = self._of_record_system("" if path.endswith("/feedback") else service)
            return method, path, address, {"Authorization": f"Bearer {token(address)}"}, body
        if path.startswith("/api/"):
            return method, path, address, {"Content-Type": "application/json"}, self._json()
        names = rng.sample([*FORM, *NAMES], rng.randint(0, 5))
        fields = {**(FORM if rng.random() < 0.5 else {}), **{name: rng.choice(TEXTS) for name in names}}
        if rng.random() < 0.2:
            fields["own_password"] = PASSWORD
        kind = "application/x-www-form-urlencoded"
        kind += rng.choice(["", "", "", "; charset=utf-8", "; charset=punycode", "; charset=utf-16"])
        return method, path, address, {"Content-Type": kind}, urlencode({**fields, "csrf": csrf}, errors="replace")

    def _json(self) -> bytes:
        rng = self.rng
        if rng.random() < 0.1:
            return rng.choice([b"", b"{", b"[" * 50_000, b"\xff\xfe", b"null", b"1", b'"x"', b"NaN", b"[]"])
        body = {}
        for key in rng.sample(KEYS, rng.randint(1, 4)):
            body[key] = rng.choice(VALUES_OF_JSON)
        if rng.random() < 0.7:
            body["values"] = {**VALUES, rng.choice([*VALUES, "strange", "\0"]): rng.choice(VALUES_OF_JSON)}
        return json.dumps(body).encode()

    def _of_record_system(self, service: str) -> bytes:
        """A hook, or feedback without a service, in which some elements are exchanged or missing."""
        rng = self.rng
        body = {"feedback": [self._feedback() for _ in range(rng.randint(0, 3))]}
        if service:
            orders = {"selections": ["MedicationRequest/m1"], "draftOrders": bundle(order())}
            body = copy.deepcopy(hook(service, **orders))
        for _ in range(rng.randint(0, 3)):
            part, key = rng.choice([(body, "extra"), *_places(body)])
            if key in part and rng.random() < 0.2:
                del part[key]
            else:
                part[key] = copy.deepcopy(rng.choice([*VALUES_OF_JSON, *TEXTS]))
        return json.dumps(body).encode()

    def _feedback(self):
        rng = self.rng
        source, number = Source(HOST, ""), rng.randint(1, 300)
        one = {"card": source.identifier(number, CARD), "outcome": rng.choice(["accepted", "overridden"])}
        accepted = [{"id": source.identifier(number, SUGGESTION)}]
        return one | {"outcomeTimestamp": "2026-11-19T12:00:00Z", "acceptedSuggestions": accepted}


def _places(part):
    """Every object or list within a part, with each of its keys."""
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, inner in list(items):
        yield part, key
        yield from _places(inner)
