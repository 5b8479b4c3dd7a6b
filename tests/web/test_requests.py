"""Requests that are built to break the server: charsets, sizes, numbers, texts, slow connections."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from contextlib import suppress

import pytest
import uvicorn

from bayespatch.casebase import CaseBaseError
from bayespatch.dictionary import Dictionary, DictionaryError
from bayespatch.web import Settings, connections, guard
from tests.casebase.clinic import BY
from tests.web.conftest import FORM, VALUES, making

BOUNDARY = "xyz"


def multipart(value: bytes) -> bytes:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="name"\r\n\r\n'.encode()
    return head + value + f"\r\n--{BOUNDARY}--\r\n".encode()


@pytest.mark.parametrize("charset", ["punycode", "idna", "undefined", "utf-7", "unicode_escape", "zlib", "x" * 5000])
@pytest.mark.parametrize("path", ["/sign-in", "/consult", "/api/v1/answers"])
def test_other_charsets_are_refused_before_they_are_decoded(shared, charset, path):
    body = multipart(b"".join(b"-%c%c" % (97 + i % 26, 97 + i // 26 % 26) for i in range(20_000)))
    for kind in ("multipart/form-data; boundary=xyz", "application/x-www-form-urlencoded", "application/json"):
        for name in ("charset", "CharSet", "charset*", "charset "):
            begin = time.perf_counter()
            headers = {"Content-Type": f'{kind}; {name}="{charset}"'}
            response = shared.browser().post(path, content=body, headers=headers)
            assert response.status_code == 415, response.text
            assert time.perf_counter() - begin < 1.0


@pytest.mark.parametrize("kind", ["charset" * 4600, "charset " * 4000], ids=["one word", "many words"])
def test_a_long_content_type_is_refused_before_it_is_read(shared, kind):
    browser = shared.browser()
    begin = time.process_time()
    response = browser.post("/sign-in", content=b"", headers={"Content-Type": kind})
    assert time.process_time() - begin < 0.3
    assert (response.status_code, "UTF-8" in response.text) == (415, True)


def test_forms_in_utf8_are_read(shared):
    browser = shared.browser()
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=UTF-8"}
    body = "&".join(f"{name}={value}" for name, value in {**FORM, "csrf": browser.csrf(), "action": "ask"}.items())
    assert browser.post("/consult", content=body.replace("Ulm", "K%C3%B6ln"), headers=headers).status_code == 200
    assert browser.post("/consult", content=b"csrf=\xff", headers=headers).status_code == 400
    assert browser.post("/consult", content="&".join(["a=b"] * 3001), headers=headers).status_code == 400


# Numbers and texts that nobody has


@pytest.fixture(scope="module")
def on_both(places, password_hash):
    """A clinic on each database, for tests that change little."""
    with making(places, password_hash) as make:
        found = make(sign_in=False, rate=10**6)
        places.made.clear()  # it stays while other tests drop theirs
        yield found


MANY = "9" * 5000
DEEP = "[" * 5000 + "]" * 5000


@pytest.mark.parametrize(
    "path",
    [
        f"/cases/{MANY}",
        f"/consultations/{MANY}",
        f"/consult?from={MANY}",
        f"/cases?page={MANY}",
        f"/cases?page=000000001{MANY}",
        f"/worklist?page={MANY}",
        f"/worklist?page=000000001{MANY}",
        "/cases?page=9999999",
        f"/cases?c0=id&o0==&w0={'9' * 30}",
        f"/cases?c0=age&o0==&w0={'9' * 24}",
        f"/cases?c0=age&o0==&w0={MANY}",
        f"/cases?c0=age&o0==&w0={DEEP}",
        "/cases?c0=age&o0==&w0=1e999",
        "/cases?c0=age&o0==&w0=NaN",
        "/cases?c0=external_id&o0==&w0=%00",
        "/cases?c0=town&o0==&w0=%00",
        f"/audit?case={MANY}&before={MANY}",
        "/audit?by=%00",
        f"/api/v1/cases/{MANY}",
        f"/api/v1/cases?where=id={'9' * 30}",
        f"/api/v1/cases?where=id=-{'9' * 30}",
        f"/api/v1/cases?where=bp={'9' * 24}",
        f"/api/v1/cases?where=age={DEEP}",
        "/api/v1/cases?where=external_id=%00",
        "/api/v1/cases?where=entered_by=%00",
        "/api/v1/cases?order=%00",
        f"/api/v1/cases?offset={MANY}",
        "/api/v1/audit?by=%00&action=%00",
        f"/api/v1/models/{MANY}/promote",
    ],
)
def test_addresses_that_make_no_sense(on_both, path):
    response = on_both.browser().get(path)
    assert response.status_code in (200, 303, 404, 405, 422), response.text


NUL, HALF = "\0", "\ud800"


@pytest.mark.parametrize("text", [NUL, HALF, f"a{HALF}b", "\udfff"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("answers", lambda t: {"values": {**VALUES, "town": t}}),
        ("answers", lambda t: {"values": {**VALUES, t: 1}}),
        ("counterfactuals", lambda t: {"values": VALUES, "change": [t]}),
        ("counterfactuals", lambda t: {"values": VALUES, "to": t}),
        ("consultations", lambda t: {"values": VALUES, "external_id": t}),
        ("consultations", lambda t: {"values": {**VALUES, "town": t}}),
        ("consultations/1/decision", lambda t: {"decided": t}),
        ("consultations/{n}/decision", lambda t: {"decided": "well", "reason": t, "code": t}),
        ("cases/3/outcome", lambda t: {"outcome": t}),
        ("cases/99999/forget", lambda t: {"reason": t}),
        ("cases/4/forget", lambda t: {"reason": f"asked {t}"}),
    ],
)
def test_texts_that_cannot_be_stored(on_both, path, body, text):
    if "{n}" in path:
        path = path.replace("{n}", str(on_both.base.consult(VALUES, by=BY).id))
    content = json.dumps(body(text))  # surrogates as escapes
    headers = {"Content-Type": "application/json"}
    response = on_both.browser().post(f"/api/v1/{path}", content=content, headers=headers)
    assert response.status_code in (404, 409, 422), response.text
    assert on_both.base.case(4, by=BY).state == "past"


@pytest.mark.parametrize("name", ["a%00b", "%ED%A0%80", "%FF"])
def test_names_that_cannot_be_stored(clinic_on_both, name):
    served = clinic_on_both()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    browser = served.browser()
    response = browser.post("/sign-in", content=f"name={name}&password=x", headers=headers)
    assert response.status_code in (400, 401, 422)
    token = {"Authorization": "Bearer a\x80\xff"}
    assert browser.get("/api/v1/cases", headers={k: v.encode("latin-1") for k, v in token.items()}).status_code == 401


@pytest.mark.parametrize("deep", [20_000, 200_000])
def test_deeply_nested_bodies(on_both, deep):
    for body in (f'{{"values": {"[" * deep}}}', f'{{"values": {{"age": {"[" * deep}1{"]" * deep}}}}}', "[" * deep):
        headers = {"Content-Type": "application/json"}
        response = on_both.browser().post("/api/v1/answers", content=body, headers=headers)
        assert response.status_code in (400, 422)


def test_unknown_keys_are_not_echoed_whole(on_both):
    browser, begin = on_both.browser(), time.perf_counter()
    key = "secret" * 50_000
    for body in ({"values": {**VALUES, key: 1}}, {"values": VALUES, key: 1}, {"values": {key: [1]}}):
        response = browser.post("/api/v1/answers", json=body)
        assert response.status_code == 422
        assert len(response.text) < 3000
        assert key[:200] not in response.text
    assert time.perf_counter() - begin < 5


# Whom to tell


def test_security_contact(clinic):
    page = clinic(security_contact="mailto:security@clinic.example").browser().get("/.well-known/security.txt")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/plain")
    fields = dict(line.split(": ", 1) for line in page.text.splitlines())
    assert fields["Contact"] == "mailto:security@clinic.example"
    assert fields["Expires"] > time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    assert clinic().browser().get("/.well-known/security.txt").status_code == 404


@pytest.mark.parametrize("contact", ["security@clinic.example", "http://clinic.example", "mailto:a\nContact: b"])
def test_a_security_contact_is_a_uri(contact):
    with pytest.raises(ValueError, match="is not a URI"):
        Settings("clinic.db", security_contact=contact)


# Data dictionaries

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_a_yaml_bomb_is_refused(tmp_path):
    path = tmp_path / "bomb.yaml"
    path.write_text(f"{BOMB}age: {{label: *i}}\n", encoding="utf-8")
    begin = time.perf_counter()
    with pytest.raises(DictionaryError, match="alias"):
        Dictionary.read(path)
    assert time.perf_counter() - begin < 2


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_a_deeply_nested_dictionary_is_refused(tmp_path, ending):
    path = tmp_path / f"deep.{ending}"
    path.write_text('{"age": ' + "[" * 100_000 + "]" * 100_000 + "}", encoding="utf-8")
    with pytest.raises(DictionaryError, match="nested too deeply"):
        Dictionary.read(path)


def test_case_numbers_beyond_every_case(on_both):
    with pytest.raises(CaseBaseError, match="is not a case number"):
        on_both.base.search([("id", "=", 10**30)], by=BY)
    assert on_both.base.search([("bp", "<", 10**24)], by=BY).total > 0


# Slow and idle connections


@pytest.fixture
def listening(local, monkeypatch):
    """A real server, with little patience."""
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(connections, "HEADER_SECONDS", 1.0)
    config = uvicorn.Config(
        local.app,
        host="127.0.0.1",
        port=0,
        log_level="error",
        lifespan="off",
        http=connections.LimitedProtocol,
        ws="none",
        limit_concurrency=connections.MOST_CONNECTIONS,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(10)


def connected(port):
    return socket.create_connection(("127.0.0.1", port), timeout=10)


@pytest.mark.parametrize("first", [b"", b"GET / HT", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "])
def test_connections_that_send_no_request_are_closed(listening, first):
    with connected(listening) as wire:
        begin = time.monotonic()
        wire.sendall(first)
        for _ in range(4):  # a byte now and then does not help
            time.sleep(0.2)
            if first:
                wire.sendall(b"x")
        wire.settimeout(5)
        with suppress(ConnectionResetError):
            assert wire.recv(100) == b""
        assert 0.5 < time.monotonic() - begin < 4


@pytest.mark.parametrize("path", ["/sign-in", "/api/v1/answers"])
def test_a_client_that_leaves_in_the_middle_of_a_body_is_no_fault(local, listening, path, caplog):
    kind = "application/json" if path.startswith("/api") else "application/x-www-form-urlencoded"
    with connected(listening) as wire:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: 5\r\n\r\na"
        wire.sendall(head.encode())
        time.sleep(0.2)
    deadline = time.monotonic() + 10
    while not local.service.metrics.requests and time.monotonic() < deadline:
        time.sleep(0.02)
    assert {status for _, _, status in local.service.metrics.requests} == {400}
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_second_request_on_a_connection_has_its_time(listening):
    request = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with connected(listening) as wire:
        for _ in range(3):
            wire.sendall(request)
            answer = b""
            while b"}" not in answer:
                answer += wire.recv(4096)
            assert b" 200 " in answer.partition(b"\r\n")[0]
            time.sleep(0.5)
        wire.sendall(request[:20])
        begin = time.monotonic()
        assert wire.recv(100) == b""
        assert time.monotonic() - begin < 4


def test_floods_do_not_slow_down_others(listening):
    """300 connections that send nothing, or heads without end, or other charsets, beside honest requests."""
    idle = [connected(listening) for _ in range(300)]
    for wire in idle[:150]:
        wire.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
    end = threading.Event()

    def flood():
        body = b"--xyz" + b"-a" * 50_000
        head = b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; charset=punycode; "
        head += b"boundary=xyz\r\nContent-Length: %d\r\n\r\n" % len(body)
        while not end.is_set():
            with connected(listening) as wire:
                wire.sendall(head + body)
                wire.recv(4096)

    thread = threading.Thread(target=flood)
    thread.start()
    seconds = []
    for _ in range(100):
        begin = time.perf_counter()
        with connected(listening) as wire:
            wire.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert b" 200 " in wire.recv(4096).partition(b"\r\n")[0]
        seconds.append(time.perf_counter() - begin)
    end.set()
    thread.join()
    for wire in idle:
        wire.close()
    assert sorted(seconds)[98] < 1.0


@pytest.mark.parametrize(
    ("framing", "statuses"),
    [
        ("Content-Length: 4\r\nTransfer-Encoding: chunked", [b"415", b"404"]),
        ("Transfer-Encoding: chunked", [b"415", b"404"]),
        ("Content-Length: 5\r\nContent-Length: 4", [b"400"]),
        ("Transfer-Encoding: chunked, identity", [b"400"]),
        ("Transfer-Encoding: xchunked", [b"400"]),
        ("Content-Length: +5", [b"400"]),
    ],
)
def test_no_request_hides_in_the_body_of_another(listening, framing, statuses):
    """Both sides of a proxy must agree on where a request ends."""
    sent = f"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\n{framing}\r\n\r\n0\r\n\r\n"
    sent += "GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    with connected(listening) as connection:
        connection.sendall(sent.encode())
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert re.findall(rb"HTTP/1.1 (\d+) ", received) == statuses


def test_idle_connections_make_room(listening, monkeypatch):
    """Connections beyond the limit that send nothing end, the oldest first; honest requests are answered."""
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 60)
    monkeypatch.setattr(connections, "HEADER_SECONDS", 60.0)
    held = []
    for i in range(80):
        held.append(connected(listening))
        if i % 2:  # a whole request first, then nothing
            held[-1].sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b" 200 " in held[-1].recv(4096).partition(b"\r\n")[0]
    with connected(listening) as wire:
        wire.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert b" 200 " in wire.recv(4096).partition(b"\r\n")[0]
    held[0].settimeout(5)
    with suppress(ConnectionResetError):
        assert held[0].recv(100) == b""
    for wire in held:
        wire.close()


def test_connections_of_one_address_are_limited():
    """But not those of this machine, or of a proxy that is trusted."""

    class Transport:
        def __init__(self, address):
            self.address, self.aborted = address, False

        def get_extra_info(self, name, default=None):
            return {"peername": (self.address, 1), "sockname": ("127.0.0.1", 2)}.get(name, default)

        def abort(self):
            self.aborted = True

        def close(self):
            pass

        def is_closing(self):
            return False

    import asyncio

    async def connect(address, n):
        config = uvicorn.Config(lambda: None, http=connections.LimitedProtocol, log_config=None)
        config.load()
        state = uvicorn.server.ServerState()
        made = []
        for _ in range(n):
            protocol = connections.LimitedProtocol(config, state, {}, asyncio.get_running_loop())
            transport = Transport(address)
            protocol.connection_made(transport)
            made.append((protocol, transport))
        aborted = sum(transport.aborted for _, transport in made)
        for protocol, _ in made:
            protocol.connection_lost(None)
        return aborted

    connections.trust("10.0.0.2")
    n = connections.MOST_OF_ONE + 5
    assert asyncio.run(connect("203.0.113.9", n)) == 5
    assert asyncio.run(connect("203.0.113.9", 10)) == 0, "those that were closed do not count"
    assert asyncio.run(connect("10.0.0.2", n)) == 0
    assert asyncio.run(connect("127.0.0.1", n)) == 0
    assert not connections.LimitedProtocol.counts
    connections.trust("")


def test_workers_are_given_the_protocol_by_name(monkeypatch):
    """The class itself would make a worker import everything before it answers its supervisor, which then ends it."""
    from bayespatch.web import app

    given = {}
    monkeypatch.setattr(app.uvicorn, "run", lambda *_, **options: given.update(options))
    monkeypatch.setattr(app, "configure", lambda _: None)
    monkeypatch.delenv(app.ENVIRONMENT, raising=False)
    app.serve(Settings("clinic.db", workers=2))
    monkeypatch.delenv(app.ENVIRONMENT)
    module, _, name = given["http"].partition(":")
    assert (module, name) == (connections.__name__, connections.LimitedProtocol.__name__)
