"""Requests to other servers: whatever these answer, and whatever addresses they name, is a `ProviderError`."""

from __future__ import annotations

import socket
import threading

import pytest

from bayespatch.web.fetching import ProviderError, fetch

OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def answering():
    """Start a server that sends these bytes once; the result is its address."""
    listening = []

    def start(content: bytes) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        listening.append(server)

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(content)

        threading.Thread(target=answer, daemon=True).start()
        return f"http://127.0.0.1:{server.getsockname()[1]}/"

    yield start
    for server in listening:
        server.close()


def test_an_object_is_read(answering):
    assert fetch(answering(OK + b'\r\n{"a": 1}')) == {"a": 1}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 x y\r\n\r\n{}",
        OK + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}",
        OK + b"X: y\r\n" * 200 + b"\r\n{}",
        OK + b"X: " + b"y" * 70_000 + b"\r\n\r\n{}",
        OK + b"\r\n[1]",
        OK + b"\r\n\xff",
    ],
    ids=["nothing", "no HTTP", "no status", "no chunk", "many headers", "a long header", "no object", "no text"],
)
def test_other_answers_are_refused(answering, content):
    with pytest.raises(ProviderError):
        fetch(answering(content))


@pytest.mark.parametrize("address", ["", "x", "http://127.0.0.1:x/", "http://[::1", "http://127.0.0.1:1/a b"])
def test_addresses_that_are_none_are_refused(address):
    with pytest.raises(ProviderError):
        fetch(address)
