"""Accounts: people with a role, their sessions and tokens, and invitation links.

Passwords arrive as hashes. Sessions, tokens and links are stored as SHA-256 hashes; they are long and random, so no
salt is needed. Every change except the time of a session's last use writes an audit row.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from datetime import timedelta
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, update

from bayespatch.casebase.audit import LogEntry, Transaction, ago, check_by, now
from bayespatch.casebase.database import Database
from bayespatch.casebase.errors import CaseBaseError, ConflictError, NotFoundError
from bayespatch.casebase.replay import digest
from bayespatch.casebase.tables import Row, audit, identities, invitations, recovery_codes, sessions, tokens, users

VIEWER, CLINICIAN, STEWARD = ROLES = ("viewer", "clinician", "steward")  # each includes the rights of those before it
IDLE, ABSOLUTE = timedelta(minutes=30), timedelta(hours=12)  # session lifetime
LINK = timedelta(hours=72)  # lifetime of a link
PROVIDER_SEEN = timedelta(days=30)  # without a password, tokens work this long after a sign-in at the provider
CONFIRMED = timedelta(minutes=5)  # time for which a credential check at the provider confirms actions
_SEEN = timedelta(minutes=1)  # resolution of a session's time of last use
SYSTEM = "bayespatch"
# Actions of the log that change who can sign in to an account, and as what.
CHANGES = (
    *("invite", "accept", "password", "second factor", "token", "revoke", "link", "unlink"),
    *("role", "disable", "enable"),
)


class Person(NamedTuple):
    """A person with a role; `password_hash` is None until the invitation is accepted."""

    name: str
    role: str
    password_hash: str | None
    made_at: str
    disabled_at: str | None
    totp_secret: str | None = None
    totp_step: int | None = None

    def may(self, role: str) -> bool:
        """Whether the person's role includes this one."""
        return ROLES.index(self.role) >= ROLES.index(role)


class Token(NamedTuple):
    """An API token, without its secret."""

    id: str
    user: str
    label: str
    scope: str
    made_at: str
    expires_at: str


class Session(NamedTuple):
    """A session, without its secret."""

    id: str
    made_at: str
    seen_at: str
    current: bool
    issuer: str | None  # of the provider that was used to sign in; None: a password
    confirmed_at: str | None  # when the provider last asked for credentials


class Invitation(NamedTuple):
    """An invitation that has not been used yet, without its secret."""

    user: str
    role: str
    made_at: str
    expires_at: str


class People:
    """The people of a case base.

    Examples
    --------
    >>> from bayespatch import CaseBase
    >>> with CaseBase.demo() as base:
    ...     link = base.people.invite("Dr. Roe", "clinician", by="steward")
    ...     person = base.people.accept(link, "hash of a password")
    ...     session = base.people.sign_in("Dr. Roe")
    ...     base.people.of_session(session).may("clinician"), base.people.of_session("forged")
    (True, None)
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    # People

    def listed(self) -> list[Person]:
        """All people, sorted by name."""
        with self._database.reading() as connection:
            return [Person(**row._mapping) for row in connection.execute(select(users).order_by(users.c.name))]

    def find(self, name: str) -> Person | None:
        """A person by name."""
        with self._database.reading() as connection:
            return find_person(connection, name)

    def invite(self, name: str, role: str, *, by: str) -> str:
        """Create a one-time link for a new or existing person to set a password."""
        check_by(name)
        if name == SYSTEM or name != name.strip():
            raise CaseBaseError(f"{name!r} is not a valid user name; choose another")
        check_role(role)
        secret = secrets.token_urlsafe(32)
        with self._database.writing(by) as transaction:
            existing = find_person(transaction.connection, name)
            if existing is not None and existing.role != role:
                raise ConflictError(f"{name!r} already exists with role {existing.role}; change the role instead")
            if existing is not None and existing.disabled_at is not None:
                raise ConflictError(f"{name!r} is disabled; enable the account first")
            linked = select(identities.c.user).where(identities.c.user == name)
            if transaction.execute(linked).first() is not None:  # they would not notice that a password was set
                raise ConflictError(f"{name!r} uses single sign-on; unlink it first")
            transaction.execute(delete(invitations).where(invitations.c.user == name))
            row = {"hash": hash_of(secret), "user": name, "role": role, "made_at": now(), "expires_at": now(LINK)}
            transaction.execute(insert(invitations).values(**row))
            transaction.record("invite", person=name, role=role, known=existing is not None, id=hash_of(secret)[:16])
        return secret

    def changes(self, name: str, most: int = 20) -> list[LogEntry]:
        """The changes to a person's account, with author and time, newest first."""
        quoted = json.dumps(name, ensure_ascii=False)
        wanted = select(audit).where(audit.c.action.in_(CHANGES), audit.c.details.contains(quoted, autoescape=True))
        entries = []
        with self._database.reading() as connection:
            for row in connection.execute(wanted.order_by(audit.c.number.desc())):
                details = json.loads(row.details)
                if details.get("person") == name:
                    entries.append(LogEntry(row.number, row.at, row.by, row.action, row.case_id, details, row.hash))
                if len(entries) == most:
                    break
        return entries

    def invitations(self) -> list[Invitation]:
        """Invitations that can still be used, by name."""
        wanted = select(invitations).where(invitations.c.expires_at >= now()).order_by(invitations.c.user)
        with self._database.reading() as connection:
            return [Invitation(*row[1:]) for row in connection.execute(wanted)]

    def withdraw(self, name: str, *, by: str) -> None:
        """Withdraw a person's unused invitation."""
        with self._database.writing(by) as transaction:
            done = transaction.execute(delete(invitations).where(invitations.c.user == name))
            if not done.rowcount:
                raise NotFoundError(f"there is no pending invitation for {name!r}")
            transaction.record("revoke", person=name, invitation=True)

    def invited(self, secret: str) -> str | None:
        """The person invited by a link; None if the link is invalid or has expired."""
        with self._database.reading() as connection:
            row = _invitation(connection, secret)
        return None if row is None else str(row.user)

    def accept(self, secret: str, password_hash: str) -> Person:
        """Accept an invitation: set the password, and end all sessions and tokens."""
        with self._database.writing(SYSTEM) as transaction:
            row = _invitation(transaction.connection, secret)
            if row is None:
                raise NotFoundError("this link has been used or has expired; ask a steward for a new one")
            transaction.execute(delete(invitations).where(invitations.c.user == row.user))
            if find_person(transaction.connection, row.user) is None:
                new = {"name": row.user, "role": row.role, "password_hash": password_hash, "made_at": now()}
                transaction.execute(insert(users).values(**new))
            else:
                changed = update(users).where(users.c.name == row.user)
                transaction.execute(changed.values(password_hash=password_hash))
            end_access(transaction, row.user)
            transaction.record("accept", person=row.user, password=digest(password_hash))
            person = find_person(transaction.connection, row.user)
        assert person is not None
        return person

    def rehash(self, name: str, password_hash: str) -> None:
        """Store a password hash with newer settings."""
        with self._database.writing(name) as transaction:
            transaction.execute(update(users).where(users.c.name == name).values(password_hash=password_hash))
            transaction.record("rehash", person=name, password=digest(password_hash))

    def set_role(self, name: str, role: str, *, by: str) -> None:
        """Give a person another role."""
        check_role(role)
        with self._database.writing(by) as transaction:
            self._there(transaction, name)
            if role != STEWARD:
                self._leave_a_steward(transaction, name)
            transaction.execute(update(users).where(users.c.name == name).values(role=role))
            transaction.record("role", person=name, role=role)

    def disable(self, name: str, *, by: str) -> None:
        """Disable an account: its sessions, tokens and invitations end at once."""
        with self._database.writing(by) as transaction:
            self._there(transaction, name)
            self._leave_a_steward(transaction, name)
            disable_in(transaction, name)

    def enable(self, name: str, *, by: str) -> None:
        """Enable an account again."""
        with self._database.writing(by) as transaction:
            self._there(transaction, name)
            transaction.execute(update(users).where(users.c.name == name).values(disabled_at=None))
            transaction.record("enable", person=name)

    @staticmethod
    def _there(transaction: Transaction, name: str) -> Person:
        person = find_person(transaction.connection, name)
        if person is None:
            raise NotFoundError(f"there is no account named {name!r}; invite the person first")
        return person

    @staticmethod
    def _leave_a_steward(transaction: Transaction, name: str) -> None:
        others = select(func.count()).select_from(users)
        others = others.where(users.c.role == STEWARD, users.c.disabled_at.is_(None), users.c.name != name)
        if not transaction.execute(others).scalar():
            raise ConflictError(f"{name!r} is the only steward; make another person a steward first")

    # Sessions

    def sign_in(self, name: str) -> str:
        """Begin a session; returns its secret."""
        with self._database.writing(name) as transaction:
            if self._there(transaction, name).disabled_at is not None:
                raise ConflictError(f"{name!r} is disabled; enable the account first")
            return begin_session(transaction, name)

    def refuse(self, why: str, *, by: str | None = None, **details: object) -> None:
        """Record that a request was refused: the reason, the person if known, and further details.

        A name typed to sign in may be a password by mistake, so it is kept only if it is the name of an account.
        """
        with self._database.writing(by or SYSTEM) as transaction:
            transaction.record("refuse", why=why, **details)

    def of_session(self, secret: str) -> Person | None:
        """The person of a session; None if the session does not exist or has ended."""
        with self._database.reading() as connection:
            row = connection.execute(select(sessions).where(sessions.c.hash == hash_of(secret))).first()
            person = None if row is None else find_person(connection, row.user)
        if row is None or person is None or person.disabled_at is not None:
            return None
        if row.seen_at < ago(IDLE) or row.made_at < ago(ABSOLUTE):
            return None
        if row.seen_at < ago(_SEEN):
            with self._database.unaudited() as connection:
                connection.execute(update(sessions).where(sessions.c.hash == row.hash).values(seen_at=now()))
        return person

    def sign_out(self, secret: str) -> None:
        """End a session."""
        with self._database.reading() as connection:
            row = connection.execute(select(sessions).where(sessions.c.hash == hash_of(secret))).first()
        if row is None:
            return
        with self._database.writing(row.user) as transaction:
            transaction.execute(delete(sessions).where(sessions.c.hash == row.hash))
            transaction.record("sign out", person=row.user, id=row.hash[:16])

    def sessions(self, name: str, current: str = "") -> list[Session]:
        """A person's live sessions, newest first; `current` is the secret of one of them."""
        live = (sessions.c.user == name, sessions.c.seen_at >= ago(IDLE), sessions.c.made_at >= ago(ABSOLUTE))
        with self._database.reading() as connection:
            rows = connection.execute(select(sessions).where(*live).order_by(sessions.c.made_at.desc())).all()
        return [
            Session(row.hash[:16], row.made_at, row.seen_at, row.hash == hash_of(current), row.issuer, row.confirmed_at)
            for row in rows
        ]

    def by_provider(self, secret: str) -> bool:
        """Whether a session began at an OpenID provider."""
        wanted = select(sessions.c.issuer).where(sessions.c.hash == hash_of(secret))
        with self._database.reading() as connection:
            return connection.execute(wanted).scalar() is not None

    def confirmed(self, secret: str) -> bool:
        """Whether the provider checked credentials for this session within the last minutes."""
        wanted = select(sessions.c.confirmed_at).where(sessions.c.hash == hash_of(secret))
        with self._database.reading() as connection:
            at = connection.execute(wanted).scalar()
        return at is not None and str(at) >= ago(CONFIRMED)

    def end_session(self, name: str, session: str) -> None:
        """End one of a person's own sessions, by its id."""
        with self._database.writing(name) as transaction:
            rows = transaction.execute(select(sessions).where(sessions.c.user == name)).all()
            matches = [row for row in rows if row.hash[:16] == session]
            if len(matches) != 1:
                raise NotFoundError("there is no such session")
            transaction.execute(delete(sessions).where(sessions.c.hash == matches[0].hash))
            transaction.record("sign out", person=name, id=session)

    def change_password(self, name: str, password_hash: str) -> None:
        """Change a person's own password; all sessions and tokens end."""
        with self._database.writing(name) as transaction:
            self._there(transaction, name)
            transaction.execute(update(users).where(users.c.name == name).values(password_hash=password_hash))
            transaction.execute(delete(invitations).where(invitations.c.user == name))
            end_access(transaction, name)
            transaction.record("password", person=name, password=digest(password_hash))

    # The second factor

    def set_factor(self, name: str, secret: str, step: int, codes: list[str]) -> None:
        """Turn the second factor on; `step` is the time step of the code just used, `codes` the recovery codes."""
        with self._database.writing(name) as transaction:
            self._there(transaction, name)
            new = {"totp_secret": secret, "totp_step": step}
            transaction.execute(update(users).where(users.c.name == name).values(**new))
            transaction.execute(delete(recovery_codes).where(recovery_codes.c.user == name))
            transaction.execute(insert(recovery_codes), [{"hash": hash_of(code), "user": name} for code in codes])
            transaction.record("second factor", person=name, secret=digest(secret))

    def remove_factor(self, name: str, *, by: str) -> None:
        """Turn the second factor off."""
        with self._database.writing(by) as transaction:
            if self._there(transaction, name).totp_secret is None:
                raise ConflictError(f"{name!r} has no second factor")
            transaction.execute(update(users).where(users.c.name == name).values(totp_secret=None, totp_step=None))
            transaction.execute(delete(recovery_codes).where(recovery_codes.c.user == name))
            transaction.record("second factor", person=name, secret=None)

    def use_step(self, name: str, step: int) -> bool:
        """Use the code of a time step; False if it or a later one was already used."""
        with self._database.unaudited() as connection:
            fresh = (users.c.name == name) & (users.c.totp_step < step)
            return bool(connection.execute(update(users).where(fresh).values(totp_step=step)).rowcount)

    def use_recovery_code(self, name: str, code: str) -> bool:
        """Use a recovery code; False if there is no such code."""
        mine = (recovery_codes.c.user == name) & (recovery_codes.c.hash == hash_of(code))
        with self._database.reading() as connection:
            if connection.execute(select(recovery_codes.c.hash).where(mine)).first() is None:
                return False
        with self._database.writing(name) as transaction:
            done = bool(transaction.execute(delete(recovery_codes).where(mine)).rowcount)
            left = transaction.execute(select(func.count()).where(recovery_codes.c.user == name)).scalar()
            transaction.record("second factor", person=name, recovery_codes_left=left, used=done)
        return done

    # Tokens

    def new_token(self, name: str, *, label: str, scope: str, days: int, by: str) -> str:
        """Create an API token for a person; its secret is returned once and not stored."""
        check_role(scope)
        if not label.strip() or len(label) > 200 or not label.isprintable():
            raise CaseBaseError("a token needs a label of at most 200 characters, such as its purpose")
        if not 1 <= days <= 366:
            raise CaseBaseError(f"days={days!r} is not allowed; pass a lifetime from 1 to 366 days")
        secret = f"bayespatch_{secrets.token_urlsafe(32)}"
        with self._database.writing(by) as transaction:
            person = self._there(transaction, name)
            if not person.may(scope):
                raise CaseBaseError(f"a {person.role} cannot have a token with the rights of a {scope}")
            row = {"hash": hash_of(secret), "user": name, "label": label, "scope": scope, "made_at": now()}
            transaction.execute(insert(tokens).values(**row, expires_at=now(timedelta(days=days))))
            transaction.record("token", person=name, label=label, scope=scope, days=days, id=hash_of(secret)[:16])
        return secret

    def of_token(self, secret: str) -> Person | None:
        """The person of a token, with the lesser of the person's role and the token's scope; None if it is invalid."""
        with self._database.reading() as connection:
            row = connection.execute(select(tokens).where(tokens.c.hash == hash_of(secret))).first()
            person = None if row is None else find_person(connection, row.user)
            by_provider = person is not None and person.password_hash is None
            gone = row is not None and by_provider and not recently_seen(connection, row.user, ago(PROVIDER_SEEN))
        if row is None or person is None or person.disabled_at is not None or row.expires_at < now() or gone:
            return None
        return person._replace(role=min(person.role, row.scope, key=ROLES.index))

    def tokens(self, name: str | None = None) -> list[Token]:
        """The tokens of a person, or all."""
        wanted = select(tokens).order_by(tokens.c.made_at)
        with self._database.reading() as connection:
            rows = connection.execute(wanted if name is None else wanted.where(tokens.c.user == name)).all()
        return [Token(row.hash[:16], row.user, row.label, row.scope, row.made_at, row.expires_at) for row in rows]

    def revoke(self, token: str, *, by: str, of: str | None = None) -> None:
        """Revoke a token by its id; with `of`, only if it is this person's."""
        with self._database.writing(by) as transaction:
            matches = [row for row in transaction.execute(select(tokens)) if row.hash[:16] == token]
            if len(matches) != 1 or (of is not None and matches[0].user != of):
                raise NotFoundError("there is no such token")
            transaction.execute(delete(tokens).where(tokens.c.hash == matches[0].hash))
            transaction.record("revoke", person=matches[0].user, label=matches[0].label, id=token)


def find_person(connection: Connection, name: str) -> Person | None:
    """A person by name."""
    row = connection.execute(select(users).where(users.c.name == name)).first()
    return None if row is None else Person(**row._mapping)


def _invitation(connection: Connection, secret: str) -> Row | None:
    """A valid invitation: not expired, and not for a disabled account."""
    row = connection.execute(select(invitations).where(invitations.c.hash == hash_of(secret))).first()
    if row is None or row.expires_at < now():
        return None
    person = find_person(connection, row.user)
    return None if person is not None and person.disabled_at is not None else row


def begin_session(
    transaction: Transaction, name: str, issuer: str | None = None, confirmed_at: str | None = None
) -> str:
    """Begin a session for an authenticated person; returns its secret."""
    secret, at = secrets.token_urlsafe(32), now()
    transaction.execute(delete(sessions).where(sessions.c.made_at < ago(ABSOLUTE)))
    row = {"hash": hash_of(secret), "user": name, "made_at": at, "seen_at": at}
    transaction.execute(insert(sessions).values(**row, issuer=issuer, confirmed_at=confirmed_at))
    provider = {} if issuer is None else {"provider": True}
    transaction.record("sign in", person=name, id=hash_of(secret)[:16], **provider)
    return secret


def recently_seen(connection: Connection, name: str, since: str) -> bool:
    """Whether a provider has confirmed the person since this time."""
    seen = select(identities.c.seen_at).where(identities.c.user == name, identities.c.seen_at >= since)
    return connection.execute(seen).first() is not None


def disable_in(transaction: Transaction, name: str) -> None:
    """Disable an account within a transaction."""
    transaction.execute(update(users).where(users.c.name == name).values(disabled_at=now()))
    transaction.execute(delete(invitations).where(invitations.c.user == name))
    end_access(transaction, name)
    transaction.record("disable", person=name)


def end_access(transaction: Transaction, name: str) -> None:
    """End every session and token of a person."""
    transaction.execute(delete(sessions).where(sessions.c.user == name))
    transaction.execute(delete(tokens).where(tokens.c.user == name))


def check_role(role: str) -> None:
    """Reject an unknown role."""
    if role not in ROLES:
        raise CaseBaseError(f"role={role!r} is not known; choose one of {', '.join(ROLES)}")


def hash_of(secret: str) -> str:
    """The stored hash of a long random secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
