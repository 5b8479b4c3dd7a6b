"""Seals of cases: a salt, and a digest of the case as it was entered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns; cases that are there already have no seal."""
    for name in ("salt", "entry"):
        op.add_column("cases", sa.Column(name, sa.Text))
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE cases ALTER COLUMN salt SET STATISTICS 0")


def downgrade() -> None:
    """Remove the columns."""
    for name in ("salt", "entry"):
        op.drop_column("cases", name)
