"""Wrong passwords slow down whoever sends them, and nobody else."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from bayespatch.web import passwords
from tests.web.conftest import PASSWORD, Browser


def browser_at(served, address):
    """A browser with an address of its own."""
    return Browser(served.app, address)


def sign_in(browser, name="clinician", password=PASSWORD):
    return browser.post("/sign-in", data={"name": name, "password": password}).status_code


def test_right_passwords_are_never_throttled(served):
    browser = served.browser()
    assert {sign_in(browser) for _ in range(40)} == {303}


def test_an_outsider_cannot_lock_a_person_out(served):
    outsider, person = browser_at(served, "203.0.113.9"), browser_at(served, "10.0.0.7")
    assert 429 in {sign_in(outsider, password="guess") for _ in range(20)}
    assert sign_in(person) == 303
    assert sign_in(outsider) == 429, "even with the right password, the address waits"


def test_a_person_who_errs_a_few_times_gets_in(served):
    browser = served.browser()
    for _ in range(3):
        assert [sign_in(browser, password="typo") for _ in range(5)] == [401] * 5
        assert sign_in(browser) == 303


def test_one_password_tried_with_many_names_is_throttled(served):
    outsider = browser_at(served, "203.0.113.9")
    codes = [sign_in(outsider, name=f"person {i}", password="Winter 2026!") for i in range(60)]
    assert codes[0] == 401
    assert codes[-1] == 429


def test_a_network_counts_as_one_address(served):
    codes = [sign_in(browser_at(served, f"2001:db8::{i:x}"), password="guess") for i in range(1, 12)]
    assert codes[-1] == 429
    assert sign_in(browser_at(served, "2001:db8:1::1")) == 303


def test_attempts_at_the_same_moment_are_counted(served, monkeypatch):
    """Those that begin before the first one is answered, too."""
    verified, gate = [], threading.Event()

    def slow(people, name, password):
        verified.append(password)
        gate.wait(5)

    monkeypatch.setattr(passwords, "verified", slow)
    with served.browser() as browser, ThreadPoolExecutor(12) as pool:  # one event loop, as in a server
        found = [pool.submit(sign_in, browser, "clinician", f"guess {i}") for i in range(12)]
        threading.Timer(1.0, gate.set).start()
        codes = [one.result() for one in found]
    assert codes.count(401) == 6
    assert codes.count(429) == 6
    assert len(verified) == 6


def test_the_wait_grows_and_ends():
    from bayespatch.web import throttle
    from bayespatch.web.throttle import Throttle

    slow, waits, now = Throttle(5, 900), [], 0.0
    for _ in range(20):
        wait = slow.begin("x", now)
        if wait:
            waits.append(wait)
            now += wait
            assert slow.begin("x", now) == 0
    assert waits[:4] == [2, 4, 8, 16]
    assert max(waits) == 900
    assert slow.begin("x", now + throttle.FORGOTTEN_AFTER + 1) == 0
    assert slow.begin("x", now + throttle.FORGOTTEN_AFTER + 1) == 0


def test_memory_is_bounded():
    from bayespatch.web.throttle import Throttle

    slow = Throttle(5, 900)
    for i in range(20_000):
        slow.begin(str(i), 0.0)
    assert len(slow._failures) == 10_000


def test_few_passwords_are_hashed_at_once(served, monkeypatch):
    """Each takes 64 MiB: as many as there are threads would be as many times that."""
    now, most, lock = [0], [0], threading.Lock()

    def count(*_):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        gate.wait(0.05)
        with lock:
            now[0] -= 1

    gate = threading.Event()
    monkeypatch.setattr(passwords, "verified", count)
    with served.browser() as browser, ThreadPoolExecutor(16) as pool:  # one event loop, as in a server
        codes = set(pool.map(lambda i: sign_in(browser, f"person {i}", "guess"), range(16)))
    assert codes == {401}
    assert most[0] <= 2
