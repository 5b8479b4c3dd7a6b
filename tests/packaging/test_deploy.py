"""The files for containers: their commands exist, nothing runs as root, secrets come from files.

`tests/statistical/test_deploy.py` runs the commands of compose.yaml, without a container runtime.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer
import yaml

from bayespatch.cli.commands import app
from bayespatch.web import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
OURS = [name for name, service in COMPOSE["services"].items() if service["image"] == "bayespatch"]


def options_of(*words):
    """The options of a command of the program, from its parameters."""
    command = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    return {option for parameter in command.params for option in parameter.opts}


def test_the_commands_and_their_options_exist():
    commands = {name: COMPOSE["services"][name]["command"] for name in OURS}
    assert set(commands) == {"setup", "app"}
    for words in commands.values():
        given = [word.partition("=")[0] for word in words if word.startswith("--")]
        names = words[:2] if words[0] == "casebase" else words[:1]
        assert given
        assert set(given) <= options_of(*names)


def test_the_documented_record_systems_fit_the_service():
    text = (ROOT / "docs" / "containers.md").read_text()
    [part] = re.findall(r"^```yaml\n(services:.*?)```", text, re.MULTILINE | re.DOTALL)
    added = yaml.safe_load(part)["services"]["app"]
    *command, last = added["command"]
    assert command == COMPOSE["services"]["app"]["command"]
    assert last.partition("=")[0] in options_of("serve")
    assert set(added["networks"]) <= set(COMPOSE["networks"])


def test_pages_open_before_a_model_is_active():
    # The app is unhealthy until then; a proxy that waited for it would never start on an empty case base.
    assert COMPOSE["services"]["proxy"]["depends_on"] == {"app": {"condition": "service_started"}}


def test_the_documented_commands_exist_and_restore_into_an_empty_database():
    text = (ROOT / "docs" / "containers.md").read_text().replace("\\\n", " ")
    commands = [line.split() for line in re.findall(r"^\$ docker compose run (.*)$", text, re.MULTILINE)]
    names = [words[words.index("app") + 1 :][:2] for words in commands]
    assert [name for _, name in names] == ["import", "refit", "promote", "backup", "restore"]
    for words, name in zip(commands, names, strict=True):
        own = words[words.index("app") :]
        assert {word for word in own if word.startswith("--")} <= options_of(*name)
        # Otherwise the services that the app depends on start, and `setup` creates a case base.
        assert ("--no-deps" in words) == (name[1] == "restore")
    assert "setup" in COMPOSE["services"]["app"]["depends_on"]


def test_up_uses_the_runtime_that_is_installed(tmp_path):
    script, podman = tmp_path / "up", tmp_path / "bin" / "podman"
    script.write_bytes((DEPLOY / "up").read_bytes())
    script.chmod(0o755)
    podman.parent.mkdir()
    for tool in ("bash", "dirname", "mkdir", "chmod", "od", "tr", "env"):
        (podman.parent / tool).symlink_to(shutil.which(tool))
    environment = {"PATH": str(podman.parent)}
    missing = subprocess.run([script], env=environment, capture_output=True, text=True)
    assert (missing.returncode, missing.stderr) == (1, "Install Docker or Podman, with Compose.\n")
    podman.write_text('#!/usr/bin/env bash\necho "podman $*"\n')
    podman.chmod(0o755)
    result = subprocess.run([script, "--detach"], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == "podman compose up --build --detach\n"


@pytest.mark.parametrize("name", OURS)
def test_our_containers_have_no_rights_to_lose(name):
    service = COMPOSE["services"][name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "ports" not in service
    assert list(service["networks"]) == ["inside"]
    assert COMPOSE["networks"]["inside"]["internal"]


def test_the_proxy_lets_hooks_through():
    found = re.search(r"max_size (\d+)MB", (DEPLOY / "Caddyfile").read_text())
    assert found is not None
    assert int(found[1]) * 10**6 >= 10 * Settings.most_bytes  # CDS Hooks may have ten times as much as pages


def test_secrets_come_from_files_that_git_ignores():
    for service in COMPOSE["services"].values():
        named = {key: value for key, value in service.get("environment", {}).items() if re.search("PASS|KEY", key)}
        assert all(value.startswith("/run/secrets/") for value in named.values())
    for secret in COMPOSE["secrets"].values():
        assert subprocess.run(["git", "check-ignore", "-q", DEPLOY / secret["file"]], cwd=ROOT).returncode in (0, 128)
    for name in OURS:
        service = COMPOSE["services"][name]
        for variable, path in service["environment"].items():
            assert variable.endswith("_FILE")
            assert path.removeprefix("/run/secrets/") in service["secrets"]


def test_the_proxy_alone_is_trusted_and_published():
    networks = COMPOSE["services"]["proxy"]["networks"]
    assert f"--proxy={networks['inside']['ipv4_address']}" in COMPOSE["services"]["app"]["command"]
    assert [name for name, service in COMPOSE["services"].items() if "ports" in service] == ["proxy"]


def test_the_image_has_locked_packages_and_an_ordinary_user():
    lines = (DEPLOY / "Dockerfile").read_text()
    final = lines.rpartition("\nFROM ")[2]
    commands = re.sub(r"\\\n\s*", "", lines)
    installs = re.findall(r"pip (?:install|wheel|download) ([^&\n]*)", commands)
    assert len(installs) == 4
    assert all(words.startswith(("--require-hashes --requirement", "--no-deps ")) for words in installs)
    assert "pip wheel --no-deps --no-build-isolation " in commands
    assert re.search(r"^USER 10001$", final, re.MULTILINE)
    assert "HEALTHCHECK" in final
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", lines, re.MULTILINE)
    sources = [source for words in copied for source in words.split()]
    allowed = (ROOT / ".dockerignore").read_text()
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}\n" in allowed


def test_secrets_are_created_once_and_for_the_owner_alone(tmp_path):
    script = tmp_path / "up"
    script.write_bytes((DEPLOY / "up").read_bytes())
    script.chmod(0o755)
    subprocess.run([script, "--secrets-only"], check=True)
    folder = tmp_path / "secrets"
    first = {file.name: file.read_text() for file in folder.iterdir()}
    assert set(first) == set(COMPOSE["secrets"])
    assert all(re.fullmatch(r"[0-9a-f]{64}", text) for text in first.values())
    assert len(set(first.values())) == 2
    assert folder.stat().st_mode & 0o777 == 0o700
    subprocess.run([script, "--secrets-only"], check=True)
    assert {file.name: file.read_text() for file in folder.iterdir()} == first
