"""``make sign`` signs files with an SSH key, and the documented command verifies them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if shutil.which("ssh-keygen") is None:
    pytest.skip("needs ssh-keygen (OpenSSH)", allow_module_level=True)


def run(*command, folder, check=True):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=check, timeout=60)


@pytest.fixture
def signed(tmp_path):
    """A folder with a signed SBOM, and with allowed_signers as SECURITY.md says to write it."""
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "pharmacy", "-f", "key", folder=tmp_path)
    public = (tmp_path / "key.pub").read_text()
    (tmp_path / "allowed_signers").write_text(f"builds@hospital {public}")
    (tmp_path / "sbom.cdx.json").write_text('{"bomFormat": "CycloneDX"}')
    run("make", "sign", f"KEY={tmp_path / 'key'}", f"FILES={tmp_path / 'sbom.cdx.json'}", folder=ROOT)
    return tmp_path


def verify(folder, signer="builds@hospital"):
    [command] = re.findall(r"^\$ (ssh-keygen -Y verify .*)$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE)
    command = command.replace("builds@hospital", signer).replace("build/", "")
    return subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, timeout=60).returncode == 0


def test_a_signed_file_verifies(signed):
    assert verify(signed)


def test_signing_again_replaces_the_signature(signed):
    (signed / "sbom.cdx.json").write_text('{"bomFormat": "CycloneDX", "version": 2}')
    assert not verify(signed)
    run("make", "sign", f"KEY={signed / 'key'}", f"FILES={signed / 'sbom.cdx.json'}", folder=ROOT)
    assert verify(signed)


def test_a_changed_file_does_not_verify(signed):
    with (signed / "sbom.cdx.json").open("a") as file:
        file.write(" ")
    assert not verify(signed)


def test_another_key_or_signer_does_not_verify(signed):
    assert not verify(signed, signer="somebody@else")
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "other", folder=signed)
    (signed / "allowed_signers").write_text(f"builds@hospital {(signed / 'other.pub').read_text()}")
    assert not verify(signed)


def test_the_key_must_be_named():
    result = run("make", "sign", folder=ROOT, check=False)
    assert result.returncode != 0
    assert "make sign KEY=path" in result.stdout
