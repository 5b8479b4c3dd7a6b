"""An OpenID provider for tests: it does what OpenID Connect asks of it, and on request something else."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from contextlib import contextmanager
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
CLIENT, SECRET = "bayespatch", "a secret of the client"
PEOPLE = {
    "roe": {"sub": "4711", "preferred_username": "Dr. Roe", "groups": ["staff", "doctors"]},
    "sam": {"sub": "4712", "preferred_username": "Sam Steward", "groups": ["doctors", "data-managers"]},
    "guest": {"sub": "4713", "preferred_username": "Guest", "groups": ["staff"]},
}
SETTINGS = """
issuer = "{issuer}"
client_id = "bayespatch"
client_secret_file = "{secret}"
label = "Clinic ID"
role_claim = "groups"
{more}
[roles]
doctors = "clinician"
data-managers = "steward"
"""


class OpenIDProvider:
    """What it says about people can be changed: `change` edits the claims, `sign` makes the token."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.key = KEY
        self.people = {name: dict(person) for name, person in PEOPLE.items()}
        self.codes, self.requests = {}, []  # what is known of each code; forms that came to the token endpoint
        self.change = lambda claims: claims
        self.sign = self.signed
        self.about, self.answer = {}, None  # more about itself; (status, headers, body) in place of a token
        self.signed_in = {}  # when each person last gave credentials

    def signed(self, claims, header=None, key=None) -> str:
        return jwt.encode({"alg": "RS256", "kid": "one", **(header or {})}, claims, key or self.key)

    def description(self):
        paths = {"authorization": "authorize", "token": "token", "end_session": "end"}
        places = {f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in paths.items()}
        return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys", **places, **self.about}

    def authorize(self, address: str, person: str) -> str:
        """A person signs in: where their browser goes then."""
        query = dict(parse_qsl(urlsplit(address).query))
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT
        assert query["code_challenge_method"] == "S256"
        assert len(query["nonce"]) >= 43
        assert len(query["state"]) >= 43
        if person not in self.signed_in or query.get("prompt") == "login":
            self.signed_in[person] = time.time()
        code = secrets.token_urlsafe(16)
        self.codes[code] = {**query, "person": person}
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, form, authorization):
        self.requests.append(form)
        expected = f"{CLIENT}:{SECRET.replace(' ', '%20')}"
        if authorization != f"Basic {base64.b64encode(expected.encode()).decode()}":
            return 401, {"error": "invalid_client"}
        begun = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if begun is None or begun["redirect_uri"] != form["redirect_uri"] or begun["code_challenge"] != challenge:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": begun["nonce"]}
        claims |= {"auth_time": int(self.signed_in[begun["person"]]), **self.people[begun["person"]]}
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": self.sign(self.change(claims))}


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def _send(self, status, body, kind="application/json", **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        provider, path = self.server.provider, urlsplit(self.path).path
        if path == "/.well-known/openid-configuration":
            self._send(200, provider.description())
        elif path == "/keys":
            public = provider.key.as_dict(private=False)
            self._send(200, {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "two"}, public]})
        elif path == "/authorize":
            buttons = "".join(f'<button name="person" value="{name}">{name}</button>' for name in provider.people)
            form = f'<form method="post" action="{escape(self.path)}">{buttons}</form>'
            self._send(200, f"<!doctype html><title>Clinic ID</title>{form}".encode(), "text/html")
        else:
            self._send(200, b"<!doctype html><title>Signed out</title>Signed out", "text/html")

    def do_POST(self):
        provider = self.server.provider
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        if urlsplit(self.path).path == "/authorize":
            self._send(302, b"", Location=provider.authorize(self.path, form["person"]))
        elif provider.answer is not None:
            status, headers, body = provider.answer
            self._send(status, body, **headers)
        else:
            self._send(*provider.token(form, self.headers.get("Authorization")))


@contextmanager
def serving():
    """A provider that answers on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.provider = OpenIDProvider(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def write_settings(folder, issuer: str, more: str = "") -> str:
    """A file with settings of the single sign-on."""
    (folder / "secret").write_text(f"{SECRET}\n")
    path = folder / "provider.toml"
    path.write_text(SETTINGS.format(issuer=issuer, secret=folder / "secret", more=more))
    return str(path)
