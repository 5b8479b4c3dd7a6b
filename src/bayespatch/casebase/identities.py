"""Identities at an OpenID provider: their accounts, and pending sign-ins.

An account is found by the provider's issuer and subject alone. Names and addresses from a provider can be chosen by
its users, so they never select an existing account.
"""

from __future__ import annotations

import json
import secrets
from datetime import timedelta
from typing import NamedTuple

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from bayespatch.casebase.audit import Transaction, ago, check_by, now
from bayespatch.casebase.database import Database
from bayespatch.casebase.errors import CaseBaseError, ConflictError
from bayespatch.casebase.people import SYSTEM, begin_session, check_role, end_access, find_person, hash_of
from bayespatch.casebase.repeats import KEPT
from bayespatch.casebase.replay import identity_digest
from bayespatch.casebase.tables import identities, invitations, repeats, sign_ins, users

UNDER_WAY = timedelta(minutes=10)  # time limit for a sign-in at the provider
SIGN_IN, CONFIRM, LINK, LAUNCH = PURPOSES = ("sign in", "confirm", "link", "launch")


class SignIn(NamedTuple):
    """A pending sign-in."""

    nonce: str
    verifier: str
    onward: str
    purpose: str
    user: str | None
    made_at: str


class Identity(NamedTuple):
    """An identity at a provider."""

    issuer: str
    subject: str


class Identities:
    """The identities of the people of a case base.

    Examples
    --------
    >>> from bayespatch import CaseBase
    >>> with CaseBase.demo() as base:
    ...     roe = Identity("https://id.example", "4711")
    ...     session = base.identities.sign_in(roe, "Dr. Roe", "clinician")
    ...     base.people.of_session(session).name, base.identities.of("Dr. Roe")
    ('Dr. Roe', ['https://id.example'])
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    # Pending sign-ins

    def begin(self, browser: str, onward: str, purpose: str, user: str | None = None) -> tuple[str, SignIn]:
        """Begin a sign-in in a browser, identified by the secret in its cookie; returns the state and the sign-in."""
        assert purpose in PURPOSES
        state = secrets.token_urlsafe(32)
        new = SignIn(secrets.token_urlsafe(32), secrets.token_urlsafe(48), onward, purpose, user, now())
        with self._database.unaudited() as connection:
            connection.execute(delete(sign_ins).where(sign_ins.c.made_at < ago(UNDER_WAY)))
            row = {"state": hash_of(state), "browser": hash_of(browser), **new._asdict()}
            connection.execute(insert(sign_ins).values(**row))
        return state, new

    def take(self, state: str, browser: str) -> SignIn | None:
        """Use the sign-in with this state, once and only from the browser that began it."""
        mine = (sign_ins.c.state == hash_of(state)) & (sign_ins.c.browser == hash_of(browser))
        with self._database.unaudited() as connection:
            row = connection.execute(select(sign_ins).where(mine)).first()
            mine_alone = (
                connection.execute(delete(sign_ins).where(mine)).rowcount == 1
            )  # several requests may read the row
        if row is None or not mine_alone or row.made_at < ago(UNDER_WAY):
            return None
        return SignIn(row.nonce, row.verifier, row.onward, row.purpose, row.user, row.made_at)

    def record_launch(self, server: str, by: str) -> None:
        """Record that a person opened the consulting page from a patient's record on a FHIR server."""
        with self._database.writing(by) as transaction:
            transaction.record("launch", server=server)

    def first_use(self, issuer: str, token: str) -> bool:
        """Whether the issuer's token with this id is used for the first time within two days."""
        digest = hash_of(json.dumps(["token", issuer, token]))
        with self._database.unaudited() as connection:
            if digest.startswith("00"):  # only occasionally, because this reads the whole table
                connection.execute(delete(repeats).where(repeats.c.at < ago(KEPT)))
            try:
                with connection.begin_nested():
                    connection.execute(insert(repeats).values(hash=digest, request="", result=0, at=now()))
            except IntegrityError:
                return False
        return True

    # Accounts

    def sign_in(self, identity: Identity, name: str, role: str, *, confirmed: bool = False) -> str:
        """Begin a session for a person authenticated by a provider; returns its secret.

        The first sign-in creates an account. Each later one updates the role to the one from the provider.

        Parameters
        ----------
        identity : Identity
            The authenticated identity.
        name, role : str
            The name from the provider, for a new account, and the role.
        confirmed : bool
            Whether the provider has just asked for credentials.
        """
        check_role(role)
        here = (identities.c.issuer == identity.issuer) & (identities.c.subject == identity.subject)
        with self._database.reading() as connection:
            account = connection.execute(select(identities.c.user).where(here)).scalar()
        by = str(account) if account is not None else _new_name(name)
        with self._database.writing(by) as transaction:
            user = transaction.execute(select(identities.c.user).where(here)).scalar()
            if user is None:
                self._create(transaction, identity, by, role)
            else:
                person = find_person(transaction.connection, str(user))
                if person is None or person.disabled_at is not None or user != by:
                    raise ConflictError(f"{by!r} is disabled; ask a steward to enable the account")
                if person.role != role:
                    transaction.execute(update(users).where(users.c.name == by).values(role=role))
                    transaction.record("role", person=by, role=role, provider=True)
                transaction.execute(update(identities).where(here).values(seen_at=now()))
            return begin_session(transaction, by, identity.issuer, now() if confirmed else None)

    @staticmethod
    def _create(transaction: Transaction, identity: Identity, name: str, role: str) -> None:
        taken = select(invitations.c.user).where(invitations.c.user == name)
        if find_person(transaction.connection, name) is not None or transaction.execute(taken).first() is not None:
            raise ConflictError(
                f"the name {name!r} is taken here; sign in to that account and link the identity under 'Your account'"
            )
        transaction.execute(insert(users).values(name=name, role=role, made_at=transaction.at))
        _insert(transaction, identity, name)
        transaction.record("link", person=name, role=role, created=True, identity=identity_digest(*identity))

    def link(self, identity: Identity, name: str) -> None:
        """Link an identity to the account of a signed-in person."""
        with self._database.writing(name) as transaction:
            here = (identities.c.issuer == identity.issuer) & (identities.c.subject == identity.subject)
            user = transaction.execute(select(identities.c.user).where(here)).scalar()
            if user is not None:
                raise ConflictError("this identity already belongs to an account; unlink it there first")
            person = find_person(transaction.connection, name)
            if person is None or person.disabled_at is not None:
                raise ConflictError(f"{name!r} is disabled; ask a steward to enable the account")
            _insert(transaction, identity, name)
            transaction.execute(delete(invitations).where(invitations.c.user == name))
            transaction.record("link", person=name, identity=identity_digest(*identity))

    def unlink(self, name: str, *, by: str) -> None:
        """Remove all identities of a person; all sessions and tokens end."""
        with self._database.writing(by) as transaction:
            done = transaction.execute(delete(identities).where(identities.c.user == name))
            if not done.rowcount:
                raise ConflictError(f"{name!r} has no single sign-on")
            end_access(transaction, name)
            transaction.record("unlink", person=name)

    def users(self) -> set[str]:
        """The names of all people with an identity."""
        with self._database.reading() as connection:
            return set(connection.execute(select(identities.c.user)).scalars())

    def of(self, name: str) -> list[str]:
        """The issuers of a person's identities."""
        wanted = select(identities.c.issuer).where(identities.c.user == name).order_by(identities.c.issuer)
        with self._database.reading() as connection:
            return list(connection.execute(wanted).scalars())


def _insert(transaction: Transaction, identity: Identity, name: str) -> None:
    at = transaction.at
    transaction.execute(insert(identities).values(**identity._asdict(), user=name, made_at=at, seen_at=at))


def _new_name(name: str) -> str:
    """A valid name for a new account."""
    check_by(name)
    if name == SYSTEM or name != name.strip():
        raise CaseBaseError(f"{name!r} is not a valid user name; change it at the provider")
    return name
