"""Passwords: Argon2id hashes; at least twelve characters, neither known from a breach nor easy to guess."""

from __future__ import annotations

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from bayespatch.casebase.people import People, Person
from bayespatch.language import count, gettext, stored_text

LEAST, MOST = 12, 1000  # characters
GUESSES = 10  # a password must withstand 10 to this power guesses
_JUDGED = 72  # characters that are checked; any others only make it stronger
_hasher = PasswordHasher()  # Argon2id with the parameters of RFC 9106 for memory-constrained machines
_nobody = _hasher.hash("nobody has this password")


def complaint(password: str, name: str) -> str | None:
    """Why a password is rejected; None if it is accepted.

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
        rest = rest.replace(part, part[:1])  # repetitions of a name count once
    result = min(
        (zxcvbn(text[:_JUDGED], own, max_length=_JUDGED) for text in {password, rest}),
        key=lambda judged: float(judged["guesses_log10"]),
    )
    if float(result["guesses_log10"]) >= GUESSES:
        return None
    time = stored_text(result["crack_times_display"]["offline_slow_hashing_1e4_per_second"])
    guessed = gettext("Someone could guess this password within {time}.", time=time)
    why, advice = stored_text(result["feedback"]["warning"]), gettext("Use several uncommon words.")
    return " ".join(text for text in (guessed, why, advice) if text)


def hashed(password: str) -> str:
    """The stored hash of a password."""
    return _hasher.hash(password)


def verified(people: People, name: str, password: str) -> Person | None:
    """The user with this name and password. The time does not depend on whether the user exists."""
    person = people.find(name)
    is_known = person is not None and person.password_hash is not None and person.disabled_at is None
    kept = person.password_hash if person is not None and person.password_hash is not None and is_known else _nobody
    try:
        _hasher.verify(kept, password if len(password) <= MOST else "")  # longer than any real one
    except (VerificationError, InvalidHashError):
        return None
    if person is None or not is_known:
        return None
    if _hasher.check_needs_rehash(kept):
        people.rehash(name, _hasher.hash(password))
    return person
