"""Passwords: Argon2id, at least twelve characters, none of the commonest."""

from __future__ import annotations

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from bayespatch.casebase.people import People, Person

LEAST, MOST = 12, 128  # characters
_COMMON = ("password", "passwort", "123456", "qwerty", "letmein", "welcome", "bayespatch", "abcdef", "iloveyou")
_hasher = PasswordHasher()  # Argon2id with the parameters of RFC 9106 for memory-constrained machines
_nobody = _hasher.hash("nobody has this password")


def complaint(password: str, name: str) -> str | None:
    """Why a password will not do; None: it will.

    Examples
    --------
    >>> complaint("short", "roe")
    'A password has at least 12 characters.'
    >>> complaint("correct horse battery", "roe") is None
    True
    """
    if len(password) < LEAST:
        return f"A password has at least {LEAST} characters."
    if len(password) > MOST:
        return f"A password has at most {MOST} characters."
    rest = password.lower()
    for part in (*_COMMON, name.lower()):
        rest = rest.replace(part, "")
    if len(set(rest)) < 5:
        return "This password is too easy to guess: use several words, not a common one or your name."
    return None


def hashed(password: str) -> str:
    """What is kept of a password."""
    return _hasher.hash(password)


def verified(people: People, name: str, password: str) -> Person | None:
    """The person who has this name and password. It takes the same time whether or not there is such a person."""
    person = people.find(name)
    known = person is not None and person.password_hash is not None and person.disabled_at is None
    kept = person.password_hash if person is not None and person.password_hash is not None and known else _nobody
    try:
        _hasher.verify(kept, password[:MOST])
    except (VerificationError, InvalidHashError):
        return None
    if person is None or not known:
        return None
    if _hasher.check_needs_rehash(kept):
        people.rehash(name, _hasher.hash(password))
    return person
