"""No statistics of patients' names and of follow-up: PostgreSQL's planner would keep copies of frequent values."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0005"

_COLUMNS = (("cases", "patient", "text"), ("follow_up", "values", "json"))


def upgrade() -> None:
    """Collect none from now on; changing a column's type, if only to the same one, drops those that are there."""
    if op.get_bind().dialect.name == "postgresql":
        for table, column, kind in _COLUMNS:
            op.execute(f'ALTER TABLE {table} ALTER COLUMN "{column}" TYPE {kind}')
            op.execute(f'ALTER TABLE {table} ALTER COLUMN "{column}" SET STATISTICS 0')


def downgrade() -> None:
    """Collect statistics again."""
    if op.get_bind().dialect.name == "postgresql":
        for table, column, _ in _COLUMNS:
            op.execute(f'ALTER TABLE {table} ALTER COLUMN "{column}" SET STATISTICS -1')
