"""The tables of a case base: cases, consultations, decisions, models, audit, people."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_JSON = sa.JSON(none_as_null=True)
# Table -> columns with patient data, of which PostgreSQL's planner must not store samples.
_PERSONAL = {
    "cases": ("external_id", "values", "outcome", "salt", "patient"),
    "follow_up": ("values",),
    "consultations": ("values", "explanation"),
    "decisions": ("reason", "code", "decided"),
    "model_parts": ("bytes",),
}
# Each table follows those that it references.
_TABLES = (
    *("settings", "chain", "audit", "cases", "follow_up", "models", "model_parts", "training", "consultations"),
    *("decisions", "users", "recovery_codes", "tokens", "sessions", "identities", "sign_ins", "invitations", "repeats"),
)


def upgrade() -> None:
    """Create the tables."""
    _log()
    _cases()
    _models()
    _consultations()
    _people()
    _access()
    if op.get_bind().dialect.name == "postgresql":
        for table, columns in _PERSONAL.items():
            for column in columns:
                op.execute(f'ALTER TABLE {table} ALTER COLUMN "{column}" SET STATISTICS 0')


def downgrade() -> None:
    """Drop the tables."""
    for table in reversed(_TABLES):
        op.drop_table(table)


def _log() -> None:
    op.create_table("settings", sa.Column("key", sa.Text, primary_key=True), sa.Column("value", _JSON))
    chain = op.create_table(
        "chain",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("number", _ID, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.bulk_insert(chain, [{"id": 1, "number": 0, "hash": ""}])
    op.create_table(
        "audit",
        sa.Column("number", _ID, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("case_id", _ID, index=True),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )


def _cases() -> None:
    op.create_table(
        "cases",
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("external_id", sa.Text, unique=True),
        sa.Column("state", sa.Text, nullable=False, index=True),
        sa.Column("values", _JSON),
        sa.Column("outcome", sa.Text),
        sa.Column("outcome_at", sa.Text),
        sa.Column("outcome_by", sa.Text),
        sa.Column("entered_at", sa.Text, nullable=False),
        sa.Column("entered_by", sa.Text, nullable=False),
        sa.Column("salt", sa.Text),
        sa.Column("entry", sa.Text),
        sa.Column("patient", sa.Text, index=True),
        sa.Column("retained", _ID, index=True),
    )
    op.create_table(
        "follow_up",
        sa.Column("number", _ID, primary_key=True, autoincrement=False),
        sa.Column("case_id", _ID, sa.ForeignKey("cases.id"), primary_key=True, autoincrement=False, index=True),
        sa.Column("values", _JSON),
        sa.Column("seal", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
    )


def _models() -> None:
    op.create_table(
        "models",
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("sha256", sa.Text),
        sa.Column("n_cases", sa.Integer, nullable=False),
        sa.Column("n_forgotten", sa.Integer, nullable=False),
        sa.Column("known_at", _ID, nullable=False),
        sa.Column("based_on", sa.Integer),
        sa.Column("metrics", _JSON),
        sa.Column("made_at", sa.Text, nullable=False),
        sa.Column("made_by", sa.Text, nullable=False),
        sa.Column("promoted_at", sa.Text),
        sa.Column("promoted_by", sa.Text),
    )
    active = sa.text("state = 'active'")
    op.create_index("one_active_model", "models", ["state"], unique=True, sqlite_where=active, postgresql_where=active)
    op.create_table(
        "model_parts",
        sa.Column("version", sa.Integer, sa.ForeignKey("models.version"), primary_key=True, autoincrement=False),
        sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("bytes", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "training",
        sa.Column("version", sa.Integer, sa.ForeignKey("models.version"), primary_key=True, autoincrement=False),
        sa.Column("case_id", _ID, sa.ForeignKey("cases.id"), primary_key=True, autoincrement=False, index=True),
    )


def _consultations() -> None:
    op.create_table(
        "consultations",
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("case_id", _ID, sa.ForeignKey("cases.id"), nullable=False, index=True),
        sa.Column("version", sa.Integer, sa.ForeignKey("models.version"), nullable=False),
        sa.Column("values", _JSON, nullable=False),
        sa.Column("explanation", _JSON, nullable=False),
        sa.Column("at", sa.Text, nullable=False, index=True),
        sa.Column("by", sa.Text, nullable=False),
    )
    op.create_table(
        "decisions",
        sa.Column("consultation_id", _ID, sa.ForeignKey("consultations.id"), primary_key=True, autoincrement=False),
        sa.Column("agrees", sa.Boolean, nullable=False),
        sa.Column("decided", sa.Text, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
    )
    op.create_table(
        "repeats",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("result", _ID, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
    )


def _people() -> None:
    op.create_table(
        "users",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("password_hash", sa.Text),
        sa.Column("made_at", sa.Text, nullable=False),
        sa.Column("disabled_at", sa.Text),
        sa.Column("totp_secret", sa.Text),
        sa.Column("totp_step", _ID),
    )
    op.create_table(
        "recovery_codes",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("user", sa.Text, sa.ForeignKey("users.name"), nullable=False),
    )
    op.create_table(
        "identities",
        sa.Column("issuer", sa.Text, primary_key=True),
        sa.Column("subject", sa.Text, primary_key=True),
        sa.Column("user", sa.Text, sa.ForeignKey("users.name"), nullable=False),
        sa.Column("made_at", sa.Text, nullable=False),
        sa.Column("seen_at", sa.Text, nullable=False),
    )


def _access() -> None:
    op.create_table(
        "tokens",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("user", sa.Text, sa.ForeignKey("users.name"), nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("made_at", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Text, nullable=False),
    )
    op.create_table(
        "sessions",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("user", sa.Text, sa.ForeignKey("users.name"), nullable=False),
        sa.Column("made_at", sa.Text, nullable=False),
        sa.Column("seen_at", sa.Text, nullable=False),
        sa.Column("issuer", sa.Text),
        sa.Column("confirmed_at", sa.Text),
    )
    op.create_table(
        "sign_ins",
        sa.Column("state", sa.Text, primary_key=True),
        sa.Column("browser", sa.Text, nullable=False),
        sa.Column("nonce", sa.Text, nullable=False),
        sa.Column("verifier", sa.Text, nullable=False),
        sa.Column("onward", sa.Text, nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("user", sa.Text),
        sa.Column("made_at", sa.Text, nullable=False),
    )
    op.create_table(
        "invitations",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("made_at", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Text, nullable=False),
    )
