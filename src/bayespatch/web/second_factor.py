"""The second factor: one-time codes of an authenticator app (TOTP, RFC 6238), and recovery codes if it is lost."""

from __future__ import annotations

import base64
import secrets
import time

import pyotp
from pyotp.totp import TOTP

from bayespatch.casebase.people import People, Person

N_RECOVERY = 10
STEP = 30  # seconds for which a code is valid
_WINDOW = 1  # number of steps by which the clock of a phone may be off


def new_secret() -> str:
    """A secret for an authenticator app: 160 random bits."""
    return pyotp.random_base32()


def is_secret(text: str) -> bool:
    """Whether a text can be a secret for an authenticator app.

    Examples
    --------
    >>> is_secret(new_secret()), is_secret("short"), is_secret("1" * 32)
    (True, False, False)
    """
    return len(text) == 32 and set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


def address(secret: str, name: str) -> str:
    """The otpauth URI for an authenticator app."""
    return TOTP(secret, interval=STEP).provisioning_uri(name=name, issuer_name="bayespatch")


def step_of(secret: str, code: str, now: float | None = None) -> int | None:
    """The time step for which a code is valid; None if it is not valid now.

    Examples
    --------
    >>> secret = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
    >>> step_of(secret, TOTP(secret).at(59), now=59.0), step_of(secret, TOTP(secret).at(59), now=500.0)
    (1, None)
    """
    code = "".join(code.split())
    if len(code) != 6 or not (code.isascii() and code.isdecimal()):
        return None
    totp, step = TOTP(secret, interval=STEP), int((time.time() if now is None else now) // STEP)
    near = range(step - _WINDOW, step + _WINDOW + 1)
    return next((one for one in near if secrets.compare_digest(totp.at(one * STEP), code)), None)


def recovery_codes() -> list[str]:
    """Recovery codes, each valid once: 120 random bits, in groups."""
    texts = [base64.b32encode(secrets.token_bytes(15)).decode().lower() for _ in range(N_RECOVERY)]
    return ["-".join(text[i : i + 4] for i in range(0, 24, 4)) for text in texts]


def passed(people: People, person: Person, code: str) -> bool:
    """Whether the code matches a user's second factor. Every code is valid once."""
    if person.totp_secret is None:
        return True
    step = step_of(person.totp_secret, code)
    if step is not None:
        return people.use_step(person.name, step)
    return people.use_recovery_code(person.name, code.strip().lower())
