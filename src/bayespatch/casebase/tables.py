"""The tables of a case base. The migrations create them; a test compares the two.

Times are stored as ISO 8601 strings in UTC, which compare and hash the same way on every database. Ids are assigned
under the write lock and never reused: a forgotten case keeps its id, and the id of a consultation is the number of its
audit row.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import sqlalchemy
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    CursorResult,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

VERSION = "0001"  # version of the newest migration

metadata = MetaData()

# SQLite uses its own row number only for the type INTEGER.
Id = BigInteger().with_variant(Integer(), "sqlite")


_JSON = JSON(none_as_null=True)

# The result of a statement: columns are attributes, and the statement determines their types.
Row: TypeAlias = sqlalchemy.Row[Any]
Result: TypeAlias = CursorResult[Any]

settings = Table(
    "settings",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", _JSON),
)

# One row: the end of the audit chain. Every writer locks it first, which serializes writes.
chain = Table(
    "chain",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("number", Id, nullable=False),
    Column("hash", Text, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("number", Id, primary_key=True, autoincrement=False),
    Column("at", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("case_id", Id, index=True),  # no foreign key: the log outlives the cases
    Column("details", Text, nullable=False),  # canonical JSON: exactly these bytes are hashed
    Column("hash", Text, nullable=False),
)

cases = Table(
    "cases",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("external_id", Text, unique=True),
    Column("state", Text, nullable=False, index=True),  # open, past, withdrawn
    Column("values", _JSON),
    Column("outcome", Text),  # JSON of one value
    Column("outcome_at", Text),
    Column("outcome_by", Text),
    Column("entered_at", Text, nullable=False),
    Column("entered_by", Text, nullable=False),
    Column("salt", Text),  # salt of its seals in the log; deleted with the values
    Column("entry", Text),  # its seal from when it was added
    Column("patient", Text, index=True),  # cases with the same value are visits of one patient
    Column("retained", Id, index=True),  # number of the audit row with which it became a past case
)

# Follow-up of a case; later rows override earlier values, and all rows are kept.
follow_up = Table(
    "follow_up",
    metadata,
    Column("number", Id, primary_key=True, autoincrement=False),  # of the audit row
    Column("case_id", Id, ForeignKey("cases.id"), primary_key=True, autoincrement=False, index=True),
    Column("values", _JSON),  # by column; deleted if the case is forgotten
    Column("seal", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("by", Text, nullable=False),
)

models = Table(
    "models",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),  # offered, active, retired, removed
    Column("sha256", Text),
    Column("n_cases", Integer, nullable=False),
    Column("n_forgotten", Integer, nullable=False),
    Column("known_at", Id, nullable=False),  # it learned from the past cases as of this audit row
    Column("based_on", Integer),
    Column("metrics", _JSON),
    Column("made_at", Text, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("promoted_at", Text),
    Column("promoted_by", Text),
)
Index(
    "one_active_model",
    models.c.state,
    unique=True,
    sqlite_where=text("state = 'active'"),
    postgresql_where=text("state = 'active'"),
)

model_parts = Table(
    "model_parts",
    metadata,
    Column("version", Integer, ForeignKey("models.version"), primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("bytes", LargeBinary, nullable=False),
)

training = Table(
    "training",
    metadata,
    Column("version", Integer, ForeignKey("models.version"), primary_key=True, autoincrement=False),
    Column("case_id", Id, ForeignKey("cases.id"), primary_key=True, autoincrement=False, index=True),
)

consultations = Table(
    "consultations",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("case_id", Id, ForeignKey("cases.id"), nullable=False, index=True),
    Column("version", Integer, ForeignKey("models.version"), nullable=False),
    Column("values", _JSON, nullable=False),
    Column("explanation", _JSON, nullable=False),
    Column("at", Text, nullable=False, index=True),
    Column("by", Text, nullable=False),
)

decisions = Table(
    "decisions",
    metadata,
    Column("consultation_id", Id, ForeignKey("consultations.id"), primary_key=True, autoincrement=False),
    Column("agrees", Boolean, nullable=False),
    Column("decided", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("by", Text, nullable=False),
)

users = Table(
    "users",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),  # viewer, clinician, steward
    Column("password_hash", Text),  # Argon2id
    Column("made_at", Text, nullable=False),
    Column("disabled_at", Text),
    Column("totp_secret", Text),  # of the second factor
    Column("totp_step", Id),  # time step of the last code used
)

# Recovery codes, each of which replaces the second factor once.
recovery_codes = Table(
    "recovery_codes",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("user", Text, ForeignKey("users.name"), nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("user", Text, ForeignKey("users.name"), nullable=False),
    Column("label", Text, nullable=False),  # its purpose
    Column("scope", Text, nullable=False),  # a role: its maximum rights
    Column("made_at", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("user", Text, ForeignKey("users.name"), nullable=False),
    Column("made_at", Text, nullable=False),
    Column("seen_at", Text, nullable=False),
    Column("issuer", Text),  # of the identity used to sign in; None: a password
    Column("confirmed_at", Text),  # when the provider last asked for credentials, if requested
)

# Accounts at an OpenID provider. An account is found by issuer and subject, never by a name or an address.
identities = Table(
    "identities",
    metadata,
    Column("issuer", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("user", Text, ForeignKey("users.name"), nullable=False),
    Column("made_at", Text, nullable=False),
    Column("seen_at", Text, nullable=False),
)

# Pending sign-ins at a provider, each usable once and only by the browser that began it.
sign_ins = Table(
    "sign_ins",
    metadata,
    Column("state", Text, primary_key=True),  # hash
    Column("browser", Text, nullable=False),  # hash of the browser's cookie
    Column("nonce", Text, nullable=False),
    Column("verifier", Text, nullable=False),  # of PKCE
    Column("onward", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("user", Text),  # the person who links an identity
    Column("made_at", Text, nullable=False),
)

# One-time links to create an account or set a new password.
invitations = Table(
    "invitations",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("user", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("made_at", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
)

# Requests executed under an idempotency key; they reveal no values.
repeats = Table(
    "repeats",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("request", Text, nullable=False),
    Column("result", Id, nullable=False),
    Column("at", Text, nullable=False),
)
