"""compose.yaml without a container runtime: its commands as processes, with its environment and secrets.

From an empty folder to a signed-in answer; then a kill, a restart, a backup, an upgrade, and a roll-back: this version
restores the backup.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import yaml

import bayespatch
from bayespatch.casebase import CaseBase
from bayespatch.casebase.tables import VERSION
from tests.cli.test_serve import free_port
from tests.source.server import postgresql_server, why_no_server

DEPLOY = Path(__file__).parents[2] / "deploy"
PROGRAM = [sys.executable, "-c", "from bayespatch.cli import main; main()"]
PASSWORD = "seven wooden horses gallop"
MIGRATION = """import sqlalchemy as sa
from alembic import op

revision = "next"
down_revision = "{}"


def upgrade():
    op.create_table("notes", sa.Column("id", sa.Integer, primary_key=True))
"""
MINUTES = 5  # from the first command to a signed-in answer
pytestmark = pytest.mark.skipif(why_no_server() is not None, reason=str(why_no_server()))


class Compose:
    """The services of compose.yaml as processes: names of hosts, secrets and volumes are replaced, and nothing else."""

    def __init__(self, folder: Path, url: str) -> None:
        self.services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
        self.folder, self.url, self.port = folder, url, free_port()
        self.environment = {**os.environ, "HOME": str(folder), "STATE_DIRECTORY": str(folder / "state")}
        self.packages = ""  # where bayespatch is imported from; empty: this version
        (folder / "state").mkdir(exist_ok=True, mode=0o700)

    def command(self, name: str) -> list[str]:
        words = [self.replaced(word) for word in self.services[name]["command"]]
        return [*PROGRAM, *words, *([f"--port={self.port}"] if name == "app" else [])]

    def replaced(self, word: str) -> str:
        """A container's view of a word, as this machine sees it."""
        word = word.replace("postgresql://bayespatch@database/clinic", self.url).replace(
            "${SITE:-localhost}", "localhost"
        )
        if word.startswith(("--host=", "--proxy=")):
            word = f"{word.partition('=')[0]}=127.0.0.1"
        return word.replace("/run/secrets", str(self.folder / "secrets"))

    def environment_of(self, name: str) -> dict[str, str]:
        own = {key: self.replaced(value) for key, value in self.services[name]["environment"].items()}
        if self.packages:
            own["PYTHONPATH"] = self.packages
        return {**self.environment, **own}

    def run(self, *words: str, code: int = 0) -> str:
        """`docker compose run --rm app WORDS`, which must end with this code; what it prints."""
        environment = self.environment_of("app")
        result = subprocess.run([*PROGRAM, *words], env=environment, capture_output=True, text=True, timeout=300)
        assert result.returncode == code, result.stderr
        return result.stdout + result.stderr

    @contextmanager
    def up(self):
        """The app, healthy; its process, and a file with its log."""
        subprocess.run(self.command("setup"), env=self.environment_of("setup"), check=True, timeout=300)
        log = self.folder / "app.log"
        with open(log, "wb") as stream:
            process = subprocess.Popen(self.command("app"), env=self.environment_of("app"), stderr=stream)
        try:
            for _ in range(600):
                assert process.poll() is None, log.read_text()
                try:
                    if httpx.get(f"http://127.0.0.1:{self.port}/health", timeout=5).status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                time.sleep(0.1)
            else:
                raise AssertionError(f"not healthy within a minute: {log.read_text()}")
            yield process, log
        finally:
            process.kill()
            process.wait()


@contextmanager
def through_caddy(compose: Compose):
    """The address of a proxy with TLS and the Caddyfile of the repository; None where Caddy is not installed."""
    program = shutil.which("caddy")
    if program is None:
        yield None
        return
    port = free_port()
    config = compose.folder / "Caddyfile"
    # A port that everybody may use, no attempt to install Caddy's certificate, and no redirect from port 80.
    options = "admin off\n\tskip_install_trust\n\tauto_https disable_redirects"
    config.write_text((DEPLOY / "Caddyfile").read_text().replace("admin off", options))
    environment = {
        **compose.environment,
        "SITE": f"localhost:{port}",
        "APP": f"127.0.0.1:{compose.port}",
        "XDG_DATA_HOME": str(compose.folder),
    }
    process = subprocess.Popen(
        [program, "run", "--config", str(config), "--adapter", "caddyfile"], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        yield f"https://localhost:{port}"
    finally:
        process.terminate()
        process.wait(20)


class Person(httpx.Client):
    """A browser behind the proxy, or with the headers that the proxy sets."""

    def __init__(self, compose: Compose, proxy: str | None) -> None:
        headers = {} if proxy else {"Host": "localhost", "X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7"}
        super().__init__(
            base_url=proxy or f"http://127.0.0.1:{compose.port}", headers=headers, verify=False, timeout=60
        )
        self.proxied = proxy is not None

    def request(self, method, url, **options):
        """Secure cookies are sent although this client speaks HTTP to what is in place of the proxy."""
        if not self.proxied:
            options["headers"] = {"Cookie": "; ".join(f"{c.name}={c.value}" for c in self.cookies.jar)}
        return super().request(method, url, **options)

    def submit(self, path: str, **fields: str) -> None:
        response = self.post(path, data=fields)
        assert response.status_code == 303, response.text

    def sign_in(self) -> None:
        self.opened("/sign-in")
        self.submit("/sign-in", name="steward", password=PASSWORD)

    def first_answer(self) -> str:
        """The address of the demo's consultation, and its headings."""
        found = re.search(r"/consultations/\d+", self.opened("/worklist"))
        assert found is not None
        page = self.opened(found[0])
        assert "How likely?" in page
        return found[0] + " ".join(re.findall(r"<h\d.*?</h\d>", page)) + " ".join(re.findall(r"\d+%", page))

    def opened(self, path: str) -> str:
        for _ in range(100):
            try:
                response = self.get(path)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        assert response.status_code == 200, (path, response.status_code, response.text[:300])
        return response.text


def test_from_nothing_to_an_answer_and_back_after_every_accident(tmp_path):
    began = time.monotonic()
    shutil.copy(DEPLOY / "up", tmp_path / "up")
    subprocess.run([tmp_path / "up", "--secrets-only"], check=True)
    password = (tmp_path / "secrets" / "database_password").read_text()
    with postgresql_server(password=password) as url:
        compose = Compose(tmp_path, url)
        with compose.up() as (process, log), through_caddy(compose) as proxy:
            link = re.search(r"https://localhost(/join/[\w-]+)", log.read_text())
            assert link is not None, log.read_text()
            person = Person(compose, proxy)
            person.opened(link[1])
            person.submit(link[1], password=PASSWORD, again=PASSWORD)
            person.sign_in()
            answer = person.first_answer()
            assert time.monotonic() - began < 60 * MINUTES
            assert process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()

        # After a kill everything is there.
        with compose.up() as (process, log), through_caddy(compose) as proxy:
            assert "/join/" not in log.read_text()
            assert answer_of(compose, proxy) == answer
            backup = tmp_path / f"clinic-{datetime.now(UTC):%Y-%m-%d}.db"
            compose.run("casebase", "backup", url, str(backup), "--by", "operator")
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0

        # The next version changes the tables when it opens them; this version then refuses them.
        compose.packages = next_version(tmp_path / "next")
        with compose.up() as (process, log), through_caddy(compose) as proxy:
            assert answer_of(compose, proxy) == answer
        assert "intact" in compose.run("casebase", "verify", url)
        compose.packages = ""
        assert "newer bayespatch" in compose.run("casebase", "verify", url, code=1)

    # Roll back: a new server, and nothing but secrets and backup.
    with postgresql_server(password=password) as url:
        compose = Compose(tmp_path, url)
        shutil.rmtree(tmp_path / "state")
        (tmp_path / "state").mkdir(mode=0o700)
        compose.run("casebase", "restore", url, str(backup), "--by", "operator")
        with compose.up(), through_caddy(compose) as proxy:
            assert answer_of(compose, proxy) == answer
            assert "intact" in compose.run("casebase", "verify", url)


def answer_of(compose: Compose, proxy: str | None) -> str:
    """The demo's consultation, to a person who signs in."""
    person = Person(compose, proxy)
    person.sign_in()
    return person.first_answer()


def next_version(folder: Path) -> str:
    """A copy of bayespatch whose case bases have one more table."""
    package = folder / "bayespatch"
    shutil.copytree(Path(bayespatch.__file__).parent, package)
    tables = package / "casebase" / "tables.py"
    text = tables.read_text()
    assert text.count(f'VERSION = "{VERSION}"') == 1
    tables.write_text(text.replace(f'VERSION = "{VERSION}"', 'VERSION = "next"'))
    (package / "casebase" / "migrations" / "versions" / "next.py").write_text(MIGRATION.format(VERSION))
    return str(folder)


def test_a_wrong_or_missing_password_file_is_an_error_with_its_name(tmp_path, monkeypatch):
    from bayespatch.casebase.errors import CaseBaseError

    missing, empty = tmp_path / "missing", tmp_path / "empty"
    empty.write_text("\n")
    with postgresql_server(password="a password") as url:
        for path, complaint in ((missing, "cannot be read"), (empty, "is empty")):
            monkeypatch.setenv("BAYESPATCH_DATABASE_PASSWORD_FILE", str(path))
            with pytest.raises(CaseBaseError, match=complaint):
                CaseBase.open(url, folder=tmp_path / "work")
        empty.write_text("another password")
        with pytest.raises(CaseBaseError, match="password authentication failed"):
            CaseBase.open(url, folder=tmp_path / "work")
        empty.write_text("a password\n")
        with CaseBase.open(url, folder=tmp_path / "work") as base:
            assert base.dictionary is None
