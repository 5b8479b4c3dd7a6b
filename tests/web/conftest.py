"""A small clinic, served; people of every role, signed in; programs with tokens."""

from __future__ import annotations

import re
from collections import OrderedDict
from contextlib import contextmanager

import pytest
from argon2 import PasswordHasher
from starlette.testclient import TestClient

from bayespatch.casebase import CaseBase
from bayespatch.web import Settings, create_app, passwords
from tests.casebase.clinic import Places
from tests.source.server import postgresql_server, why_no_server

HOST = "http://127.0.0.1:8000"
PASSWORD = "correct horse battery"
VALUES = {"age": 61, "pain": 1, "bp": 130.5, "smokes": True, "town": "Ulm"}
FORM = {"v:age": "61", "v:pain": "1", "v:bp": "130.5", "v:smokes": "true", "v:town": "Ulm"}
ROLES = ("viewer", "clinician", "steward")
REPORTS = OrderedDict()  # of models, by SHA-256: all clinics begin with the same one


@pytest.fixture(scope="session")
def clinics(tmp_path_factory):
    return Places(tmp_path_factory.mktemp("clinics"), None)


@pytest.fixture(scope="session", autouse=True)
def quick_passwords():
    """Hashes that take no time; test_attacks.py looks at the parameters of the real ones."""
    before = passwords._hasher, passwords._nobody
    passwords._hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    passwords._nobody = passwords._hasher.hash("nobody has this password")
    yield before
    passwords._hasher, passwords._nobody = before


@pytest.fixture(scope="session")
def password_hash(quick_passwords):
    return passwords.hashed(PASSWORD)


class Clinic:
    """A served case base."""

    def __init__(self, url: str, password_hash: str, **settings) -> None:
        self.url = url
        self.settings = Settings(url, **settings)
        self.app = create_app(self.settings)
        self.service = self.app.state.service
        self.service.reports = REPORTS
        self.base: CaseBase = self.service.base
        if self.settings.sign_in:
            for role in ROLES:
                self.base.people.accept(self.base.people.invite(role, role, by="tester"), password_hash)

    def browser(self, role: str | None = None) -> Browser:
        found = Browser(self.app)
        if role is not None:
            response = found.post("/sign-in", data={"name": role, "password": PASSWORD})
            assert response.status_code == 303, response.text
        return found

    def program(self, role: str) -> TestClient:
        secret = self.base.people.new_token(role, label="test", scope=role, days=1, by=role)
        headers = {"Authorization": f"Bearer {secret}"}
        return TestClient(self.app, base_url=HOST, headers=headers, raise_server_exceptions=False)


class Browser(TestClient):
    """A browser: keeps cookies, sends forms with what the page has put into them."""

    def __init__(self, app, address: str = "127.0.0.1") -> None:
        super().__init__(
            app, base_url=HOST, follow_redirects=False, raise_server_exceptions=False, client=(address, 50_000)
        )

    def csrf(self, path: str = "/cases") -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.get(path).text)
        return found[1] if found else ""

    def submit(self, path: str, **fields):
        return self.post(path, data={"csrf": self.csrf(), **fields})

    def confirmed(self, path: str, **fields):
        """As `submit`, with the person's password, as the confirmation page asks for it."""
        return self.submit(path, **fields, own_password=PASSWORD)


@contextmanager
def making(places, password_hash):
    """A function that serves a new clinic each time it is called."""
    made = []

    def make(**settings) -> Clinic:
        url = places.copy()
        made.append(Clinic(url, password_hash, folder=str(places.working or ""), **settings))
        return made[-1]

    yield make
    for one in made:
        one.service.close()


@pytest.fixture
def clinic(clinics, password_hash):
    with making(clinics, password_hash) as make:
        yield make


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def places(request, tmp_path_factory):
    """Where case bases are, on both databases."""
    if request.param == "sqlite":
        yield Places(tmp_path_factory.mktemp("sqlite"), None)
        return
    reason = why_no_server()
    if reason is not None:
        pytest.skip(reason)
    with postgresql_server() as url:
        yield Places(tmp_path_factory.mktemp("postgresql"), url)


@pytest.fixture
def clinic_on_both(places, password_hash):
    """As `clinic`, once on SQLite and once on PostgreSQL."""
    with making(places, password_hash) as make:
        yield make
    if places.server is not None:
        places.drop()


@pytest.fixture
def served(clinic):
    return clinic()


@pytest.fixture
def local(clinic):
    return clinic(sign_in=False)


@pytest.fixture(scope="session")
def shared(clinics, password_hash):
    """As `local`, but one for all tests that change nothing."""
    found = Clinic(clinics.copy(), password_hash, sign_in=False, rate=100_000)
    yield found
    found.service.close()
