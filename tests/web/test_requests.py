"""Requests that are built to break the server: charsets, sizes, numbers, texts, slow connections."""

from __future__ import annotations

import time

import pytest

from tests.web.conftest import FORM

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


def test_forms_in_utf8_are_read(shared):
    browser = shared.browser()
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=UTF-8"}
    body = "&".join(f"{name}={value}" for name, value in {**FORM, "csrf": browser.csrf(), "action": "ask"}.items())
    assert browser.post("/consult", content=body.replace("Ulm", "K%C3%B6ln"), headers=headers).status_code == 200
    assert browser.post("/consult", content=b"csrf=\xff", headers=headers).status_code == 400
    assert browser.post("/consult", content="&".join(["a=b"] * 3001), headers=headers).status_code == 400
