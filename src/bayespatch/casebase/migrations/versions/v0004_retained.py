"""When each case became a past case, and which of them each model has learned from."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0006"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the columns and fill them from the audit log."""
    op.add_column("cases", sa.Column("retained", _ID))
    op.create_index("ix_cases_retained", "cases", ["retained"])
    op.add_column("models", sa.Column("known_at", _ID, nullable=False, server_default="0"))
    connection = op.get_bind()
    retained = _retained(connection)
    statement = sa.text("UPDATE cases SET retained = :number WHERE id = :id")
    for case_id, number in retained.items():
        connection.execute(statement, {"number": number, "id": case_id})
    log = connection.execute(sa.text("SELECT number, details FROM audit WHERE action = 'refit'"))
    for number, details in log.all():
        version = json.loads(details)["version"]
        learned = sa.text("SELECT case_id FROM training WHERE version = :version")
        known = set(connection.execute(learned, {"version": version}).scalars())
        later = [at for case_id, at in retained.items() if case_id not in known and at < number]
        state = sa.text("UPDATE models SET known_at = :at WHERE version = :version")
        connection.execute(state, {"at": min([number, *later]) - 1, "version": version})
    if connection.dialect.name == "postgresql":
        op.alter_column("models", "known_at", server_default=None)


def _retained(connection: sa.Connection) -> dict[int, int]:
    """The audit row with which each past case became one."""
    past = set(connection.execute(sa.text("SELECT id FROM cases WHERE state = 'past'")).scalars())
    actions = sa.text(
        "SELECT number, action, case_id, details FROM audit WHERE action IN ('import', 'add', 'retain') ORDER BY number"
    )
    found: dict[int, int] = {}
    for number, action, case_id, text in connection.execute(actions):
        if action == "retain":
            members = [] if case_id is None else [case_id]
        else:
            details = json.loads(text)
            members = list(range(details["first"], details["first"] + details["cases"]))
        found |= {one: number for one in members if one in past}
    return found


def downgrade() -> None:
    """Remove the columns."""
    op.drop_index("ix_cases_retained", "cases")
    op.drop_column("cases", "retained")
    op.drop_column("models", "known_at")
