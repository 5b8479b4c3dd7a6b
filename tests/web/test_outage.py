"""When the database cannot be used, nobody learns where it is, and /health says so."""

from __future__ import annotations

import resource
import shutil

import pytest

from bayespatch.casebase import CaseBase, CaseBaseError
from bayespatch.casebase.database import Database
from bayespatch.web import Settings, create_app, service
from tests.casebase.clinic import Places
from tests.source.server import postgresql_server, why_no_server
from tests.web.conftest import PASSWORD, Browser

PAGES = ("/health", "/sign-in", "/join/forged", "/", "/cases", "/api/v1/cases", "/metrics")


def answers(browser, monkeypatch):
    """What someone without an account is told."""
    monkeypatch.setattr(service, "_HEALTH", 0.0, raising=False)
    found = {path: browser.get(path, headers={"Authorization": "Bearer x"}) for path in PAGES}
    found["POST"] = browser.post("/sign-in", data={"name": "steward", "password": PASSWORD})
    return found


@pytest.fixture
def full_disk():
    """No file of this process may grow any more."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))

    yield fill
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk(served, full_disk, monkeypatch, caplog):
    browser = served.browser()
    path = str(served.base._database.path)
    assert browser.get("/health").status_code == 200
    full_disk()
    found = answers(browser, monkeypatch)
    assert found["/health"].status_code == 503
    assert found["POST"].status_code == 503
    assert found["/sign-in"].status_code == 200
    for response in found.values():
        assert path not in response.text
        assert ".db" not in response.text
    assert "disk" in caplog.text, "whoever runs it finds the cause in the log"


def test_a_database_that_may_only_be_read(served, monkeypatch):
    path = served.base._database.path
    copy = path.with_name("read-only.db")
    shutil.copy(path, copy)
    copy.chmod(0o600)
    app = create_app(Settings(f"sqlite:///file:{copy}?mode=ro&uri=true"))
    found = answers(Browser(app), monkeypatch)
    app.state.service.close()
    assert found["/health"].json()["status"] == "the database cannot be used"
    assert found["/health"].status_code == 503
    assert not [path for path, response in found.items() if "read-only.db" in response.text]


@pytest.mark.skipif(why_no_server() is not None, reason=str(why_no_server()))
def test_a_server_that_is_down(tmp_path, monkeypatch, caplog):
    with postgresql_server() as server:
        places = Places(tmp_path, server)
        url = places.copy()
        app = create_app(Settings(f"{url}&password=hunter2", folder=str(tmp_path / "work")))
        browser = Browser(app)
        assert browser.get("/health").status_code == 200
    found = answers(browser, monkeypatch)
    app.state.service.close()
    assert found["/health"].status_code == 503
    folder = server.partition("host=")[2]
    for path, response in found.items():
        assert response.status_code in (200, 303, 401, 503), path
        for secret in ("hunter2", "tester", "clinic_", folder, "socket"):
            assert secret not in response.text
    assert "OperationalError" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.skipif(why_no_server() is not None, reason=str(why_no_server()))
def test_a_password_file_that_is_gone(tmp_path, monkeypatch, caplog):
    password = tmp_path / "database-password"
    password.write_text("hunter2")
    with postgresql_server() as server:
        url = Places(tmp_path, server).copy()
        monkeypatch.setenv("BAYESPATCH_DATABASE_PASSWORD_FILE", str(password))
        app = create_app(Settings(url, folder=str(tmp_path / "work")))
        password.unlink()
        app.state.service.base._database.engine.dispose()
        found = answers(Browser(app), monkeypatch)
        app.state.service.close()
    assert found["/health"].status_code == 503
    for path, response in found.items():
        assert response.status_code in (200, 303, 401, 503), path
        assert "database-password" not in response.text
    assert "database-password" in caplog.text, "the operator learns the reason"


@pytest.mark.parametrize("secret", ["password=hunter2", "sslpassword=hunter2", "passfile=%2Fhome%2Fhunter2"])
def test_secrets_in_a_url_are_masked(secret):
    url = f"postgresql://roe@127.0.0.1:9/clinic?{secret}&connect_timeout=1"
    assert "hunter2" not in Database(url).name
    with pytest.raises(CaseBaseError) as caught:
        CaseBase.open(url)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(CaseBase(Database(url)))


def test_health_is_looked_at_once_in_a_while(served, monkeypatch):
    n = []
    monkeypatch.setattr(type(served.base), "check_writable", lambda self: n.append(1))
    browser = served.browser()
    assert {browser.get("/health").status_code for _ in range(20)} == {200}
    assert len(n) == 1
