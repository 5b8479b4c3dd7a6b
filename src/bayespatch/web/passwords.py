"""Passwords: Argon2id, at least twelve characters, not known from a breach or easy to guess."""

from __future__ import annotations

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from bayespatch.casebase.people import People, Person
from bayespatch.language import count, gettext, stored_text

LEAST, MOST = 12, 1000  # characters
GUESSES = 10  # powers of ten that a password must withstand
_JUDGED = 72  # characters by which it is judged; more only add to them
_hasher = PasswordHasher()  # Argon2id with the parameters of RFC 9106 for memory-constrained machines
_nobody = _hasher.hash("nobody has this password")


def complaint(password: str, name: str) -> str | None:
    """Why a password will not do; None: it will.

    zxcvbn knows 30,000 passwords from breaches, names and common words, and how people vary them; nothing is sent
    anywhere.

    Examples
    --------
    >>> complaint("short", "roe")
    'Use at least 12 characters.'
    >>> complaint("P@ssw0rd1234", "roe")
    'Someone could guess this password within 2 seconds. This is similar to a commonly used password. Use several \
uncommon words.'
    >>> complaint("correct horse battery", "roe") is None
    True
    """
    from zxcvbn import zxcvbn  # reads its lists when it is imported

    if len(password) < LEAST:
        return gettext("Use at least {n} characters.", n=LEAST)
    if len(password) > MOST:
        return gettext("Use at most {n} characters.", n=count(MOST))
    own = [name, *name.split(), "bayespatch"]
    rest = password
    for part in own:
        rest = rest.replace(part, part[:1])  # a name that is repeated is no longer than one
    found = min(
        (zxcvbn(text[:_JUDGED], own, max_length=_JUDGED) for text in {password, rest}),
        key=lambda judged: float(judged["guesses_log10"]),
    )
    if float(found["guesses_log10"]) >= GUESSES:
        return None
    time = stored_text(found["crack_times_display"]["offline_slow_hashing_1e4_per_second"])
    guessed = gettext("Someone could guess this password within {time}.", time=time)
    why, advice = stored_text(found["feedback"]["warning"]), gettext("Use several uncommon words.")
    return " ".join(text for text in (guessed, why, advice) if text)


def hashed(password: str) -> str:
    """The stored hash of a password."""
    return _hasher.hash(password)


def verified(people: People, name: str, password: str) -> Person | None:
    """The user with this name and password. The time does not depend on whether the user exists."""
    person = people.find(name)
    known = person is not None and person.password_hash is not None and person.disabled_at is None
    kept = person.password_hash if person is not None and person.password_hash is not None and known else _nobody
    try:
        _hasher.verify(kept, password if len(password) <= MOST else "")  # longer than any real one
    except (VerificationError, InvalidHashError):
        return None
    if person is None or not known:
        return None
    if _hasher.check_needs_rehash(kept):
        people.rehash(name, _hasher.hash(password))
    return person
