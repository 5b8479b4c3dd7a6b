"""A FHIR server with SMART on FHIR for tests: it grants access with PKCE and answers searches page by page."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

CLIENT, SECRET = "bayespatch", "a secret of the client"


class FhirServer:
    """What it says can be changed: `about` its configuration, `grant` the token response, `found` the resources."""

    def __init__(self, origin: str) -> None:
        self.origin, self.address = origin, f"{origin}/fhir"
        self.about, self.grant = {}, {}
        self.found = {}  # resource type -> the entries of a search, or the resource
        self.codes, self.tokens, self.requests = {}, {}, []
        self.searches = []
        self.next_pages = self.origin  # where further pages are
        self.size = 1  # entries of a page

    def configuration(self):
        return {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "code_challenge_methods_supported": ["S256"],
            "capabilities": ["launch-ehr", "client-confidential-symmetric", "context-ehr-patient"],
            **self.about,
        }

    def authorize(self, address: str, **more) -> str:
        """The user is known and agrees: where the browser goes then."""
        query = dict(parse_qsl(urlsplit(address).query))
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT
        assert query["aud"] == self.address
        assert query["launch"] == "opaque-17"
        assert query["code_challenge_method"] == "S256"
        assert len(query["state"]) >= 43
        assert "launch" in query["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], **more})}"

    def token(self, form, authorization):
        self.requests.append(form)
        expected = base64.b64encode(f"{CLIENT}:{SECRET.replace(' ', '%20')}".encode()).decode()
        begun = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if authorization != f"Basic {expected}":
            return 401, {"error": "invalid_client"}
        if begun is None or begun["redirect_uri"] != form["redirect_uri"] or begun["code_challenge"] != challenge:
            return 400, {"error": "invalid_grant"}
        token = secrets.token_urlsafe(16)
        self.tokens[token] = begun["scope"]
        granted = {"access_token": token, "token_type": "Bearer", "expires_in": 300, "scope": begun["scope"]}
        return 200, {**granted, "patient": "p1", **self.grant}

    def read(self, path: str, query, authorization):
        token = (authorization or "").partition(" ")[2]
        kind = path.removeprefix("/fhir/").partition("/")[0]
        if f"patient/{kind}.read" not in self.tokens.get(token, "").split():
            return 403, {"resourceType": "OperationOutcome"}
        found = self.found.get(kind, [])
        if isinstance(found, dict):
            return (200, found) if path.endswith(f"/{found['id']}") else (404, {"resourceType": "OperationOutcome"})
        assert query["patient"] == ["p1"]
        first = int(query.get("_offset", ["0"])[0])
        page = {"resourceType": "Bundle", "type": "searchset", "entry": found[first : first + self.size]}
        if first + self.size < len(found):
            more = urlencode({**query, "_offset": first + self.size}, doseq=True)
            page["link"] = [{"relation": "next", "url": f"{self.next_pages}{path}?{more}"}]
        return 200, page


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def _send(self, status, body, **headers):
        data = json.dumps(body).encode()
        self.send_response(status)
        common = {"Content-Type": "application/fhir+json", "Content-Length": str(len(data))}
        for name, value in {**common, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        server, parts = self.server.fhir, urlsplit(self.path)
        if parts.path == "/fhir/.well-known/smart-configuration":
            self._send(200, server.configuration())
        elif parts.path == "/authorize":
            self._send(302, {}, Location=server.authorize(self.path))
        else:
            server.searches.append(self.path)
            self._send(*server.read(parts.path, parse_qs(parts.query), self.headers.get("Authorization")))

    def do_POST(self):
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        self._send(*self.server.fhir.token(form, self.headers.get("Authorization")))


@contextmanager
def serving():
    """A FHIR server that answers on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.fhir = FhirServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.fhir
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
