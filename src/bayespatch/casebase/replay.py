"""Checks the tables against the log: cases, models and accounts must match the actions in the log.

The log contains no patient's values. It contains seals of cases: a SHA-256 over values, outcome and a random salt,
which is stored with the case and deleted with it, so that a seal reveals nothing about a forgotten case.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection, select

from bayespatch.casebase import follow_up
from bayespatch.casebase.cases import PAST, WITHDRAWN, common_seal, seal
from bayespatch.casebase.models import ACTIVE, REMOVED
from bayespatch.casebase.tables import (
    audit,
    cases,
    consultations,
    identities,
    invitations,
    models,
    sessions,
    tokens,
    users,
)
from bayespatch.types import JSONObject

_ACTIONS = (
    *("import", "add", "consult", "outcome", "retain", "forget", "refit", "promote", "roll back", "follow up"),
    *("invite", "accept", "role", "disable", "enable", "password", "rehash", "second factor", "token", "revoke"),
    *("sign in", "sign out", "link", "unlink"),
)


class _Account(NamedTuple):
    role: str | None
    disabled: bool
    password: str  # digest of the hash
    factor: str | None = None  # digest of the second factor's secret


class _Log:
    """The state of the tables according to the log."""

    def __init__(self) -> None:
        self.batches: list[tuple[range, str]] = []  # cases that were added together, and their common seal
        self.seals: dict[int, str] = {}  # latest seal of individual cases
        self.entered: list[int] = []  # audit row of each batch
        self.retained: dict[int, int] = {}  # audit row in which individual cases became past cases
        self.forgotten: dict[int, int] = {}  # audit row
        self.follow_up: dict[int, str] = {}  # audit row -> common seal of the recordings
        self.models: dict[int, str] = {}
        self.known_at: dict[int, int] = {}  # of models
        self.active: int | None = None
        self.roles: dict[str, str] = {}  # of people who were invited
        self.accounts: dict[str, _Account] = {}
        self.identities: dict[str, str] = {}  # digests of linked identities -> person
        self.secrets: dict[str, str] = {}  # ids of tokens, sessions and links -> person

    def follow(self, number: int, action: str, case_id: int | None, details: JSONObject) -> None:
        """Apply one row of the log."""
        person = details.get("person", "")
        if action in ("import", "add"):
            first = details["first"]
            self.batches.append((range(first, first + details["cases"]), details["seals"]))
            self.entered.append(number)
        elif action in ("consult", "outcome") and case_id is not None:
            self.seals[case_id] = details["seal"]
        elif action == "follow up":
            self.follow_up[number] = details["seals"]
        elif action == "retain" and case_id is not None:
            self.retained[case_id] = number
        elif action == "forget" and case_id is not None:
            self.forgotten[case_id] = number
            self.models |= {version: details["hashes"][str(version)] for version in details["versions"]}
            for version in details["removed"]:
                self.models.pop(version, None)
                self.active = None if self.active == version else self.active
        elif action == "refit":
            self.models[details["version"]] = details["sha256"]
            self.known_at[details["version"]] = details["known_at"]
        elif action in ("promote", "roll back"):
            self.active = details["version"]
        elif person:
            self._follow_person(action, person, details)

    def _follow_person(self, action: str, person: str, details: JSONObject) -> None:
        now = self.accounts.get(person, _Account(None, False, digest(None)))
        if action in ("invite", "token", "sign in"):
            self.secrets[details["id"]] = person
        if action in ("revoke", "sign out"):
            self.secrets.pop(details.get("id", ""), None)
        if action in ("accept", "disable", "password", "unlink"):
            self.secrets = {one: whose for one, whose in self.secrets.items() if whose != person}
        if action == "invite":
            self.roles[person] = details["role"]
        elif action == "accept":
            role = now.role or self.roles.get(person)
            self.accounts[person] = now._replace(role=role, password=details["password"])
        elif action in ("password", "rehash"):
            self.accounts[person] = now._replace(password=details["password"])
        elif action == "second factor" and "secret" in details:
            self.accounts[person] = now._replace(factor=details["secret"])
        elif action == "link":
            self.identities[details["identity"]] = person
            if details.get("created"):
                self.accounts[person] = _Account(details["role"], False, digest(None))
        elif action == "unlink":
            self.identities = {one: whose for one, whose in self.identities.items() if whose != person}
        elif action == "role":
            self.accounts[person] = now._replace(role=details["role"])
        elif action in ("disable", "enable"):
            self.accounts[person] = now._replace(disabled=action == "disable")


def problems(connection: Connection) -> list[str]:
    """Differences between the tables and the log."""
    log = _Log()
    wanted = select(audit.c.number, audit.c.action, audit.c.case_id, audit.c.details)
    wanted = wanted.where(audit.c.action.in_(_ACTIONS))
    for row in connection.execute(wanted.order_by(audit.c.number).execution_options(yield_per=1000)):
        log.follow(row.number, row.action, row.case_id, json.loads(row.details))
    wrong = [
        *_cases(connection, log),
        *follow_up.problems(connection, log.follow_up),
        *_models(connection, log),
        *_people(connection, log),
    ]
    return wrong or list(_consultations(connection, log))


def _consultations(connection: Connection, log: _Log) -> Iterator[str]:
    """Consultations whose number of past cases differs from the log."""
    retained = dict(connection.execute(select(cases.c.id, cases.c.retained).where(cases.c.retained.is_not(None))).all())
    begun = np.sort(np.array(list(retained.values()), np.int64))
    ended = np.sort(np.array([at for case, at in log.forgotten.items() if case in retained], np.int64))
    about = consultations.c.explanation["about"]
    wanted = select(consultations.c.id, about["past_cases"].label("voted"), about["waiting"].label("waiting"))
    for row in connection.execute(wanted.where(about["version"].is_not(None)).execution_options(yield_per=1000)):
        n = int(np.searchsorted(begun, row.id) - np.searchsorted(ended, row.id))
        if row.waiting is not None and row.voted + row.waiting != n:
            yield f"consultation {row.id} used {row.voted + row.waiting} past cases, but the log says {n}"


def _cases(connection: Connection, log: _Log) -> Iterator[str]:
    entries: dict[int, str | None] = {}
    wanted = select(cases.c.id, cases.c.state, cases.c["values"], cases.c.outcome, cases.c.salt, cases.c.entry)
    wanted = wanted.add_columns(cases.c.retained, cases.c.patient)
    entered = {case: at for (batch, _), at in zip(log.batches, log.entered, strict=True) for case in batch}
    for row in connection.execute(wanted.order_by(cases.c.id).execution_options(yield_per=1000)):
        entries[row.id] = row.entry
        if (row.state == WITHDRAWN) != (row.id in log.forgotten):
            yield f"case {row.id} is {row.state}, but the log says otherwise"
        since = log.retained.get(row.id, entered.get(row.id) if row.state == PAST else row.retained)
        if row.retained != since:
            yield f"case {row.id} has been a past case since row {row.retained}, but the log says {since}"
        expected = log.seals.get(row.id, row.entry)
        sealed_now = None if row.salt is None else seal(row.id, row.salt, row.values, row.outcome, row.patient)
        if row.state != WITHDRAWN and sealed_now != expected:
            yield f"case {row.id} was changed after it was written"
    logged = {case for batch, _ in log.batches for case in batch} | set(log.seals)
    for case in sorted(logged - set(entries)):
        yield f"case {case} is missing"
    for case in sorted(set(entries) - logged):
        yield f"case {case} was added without a log entry"
    for batch, common in log.batches:
        if common_seal([entries.get(case) for case in batch]) != common:
            yield f"one of the cases {batch.start} to {batch.stop - 1} was changed after it was added"


def _models(connection: Connection, log: _Log) -> Iterator[str]:
    stored = {row.version: row for row in connection.execute(select(models))}
    for version, row in sorted(stored.items()):
        if log.known_at.get(version, row.known_at) != row.known_at:
            yield f"model version {version} learned from different cases than the log says"
        if row.state == REMOVED:
            continue
        if version not in log.models:
            yield f"model version {version} was added without a log entry"
        elif log.models[version] != row.sha256:
            yield f"model version {version} is not the one in the log"
    for version in sorted(set(log.models) - set(stored)):
        yield f"model version {version} is missing"
    active = next((version for version, row in stored.items() if row.state == ACTIVE), None)
    if active != log.active:
        yield f"the active model is version {active}, but the log says {log.active}"


def _people(connection: Connection, log: _Log) -> Iterator[str]:
    stored = {row.name: row for row in connection.execute(select(users))}
    for name, row in sorted(stored.items()):
        account = log.accounts.get(name)
        if account is None:
            yield f"the account of {name!r} was added without a log entry"
            continue
        if account.role != row.role:
            yield f"{name!r} is a {row.role}, but the log says {account.role}"
        if account.disabled != (row.disabled_at is not None):
            yield f"the account of {name!r} was {'enabled' if account.disabled else 'disabled'} without a log entry"
        if account.password != digest(row.password_hash):
            yield f"the password of {name!r} was changed without a log entry"
        if account.factor != (None if row.totp_secret is None else digest(row.totp_secret)):
            yield f"the second factor of {name!r} was changed without a log entry"
    for name in sorted(set(log.accounts) - set(stored)):
        yield f"the account of {name!r} is missing"
    linked = {identity_digest(row.issuer, row.subject): row.user for row in connection.execute(select(identities))}
    for one, whose in sorted(linked.items()):
        if log.identities.get(one) != whose:
            yield f"an identity of {whose!r} was linked without a log entry"
    for one in sorted(set(log.identities) - set(linked)):
        yield f"an identity of {log.identities[one]!r} is missing"
    for what, table in (("token", tokens), ("session", sessions), ("invitation", invitations)):
        for row in connection.execute(select(table.c.hash, table.c.user)):
            if log.secrets.get(row.hash[:16]) != row.user:
                yield f"{what} of {row.user!r} was added without a log entry"


def digest(password_hash: str | None) -> str:
    """A hash of a password hash, for the log."""
    return hashlib.sha256(str(password_hash).encode()).hexdigest()


def identity_digest(issuer: str, subject: str) -> str:
    """A hash of an identity, for the log."""
    return hashlib.sha256(json.dumps([issuer, subject]).encode()).hexdigest()
