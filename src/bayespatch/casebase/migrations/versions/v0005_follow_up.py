"""What became of cases after their outcome."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0007"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Nothing has been recorded yet."""
    op.create_table(
        "follow_up",
        sa.Column("number", _ID, primary_key=True, autoincrement=False),
        sa.Column("case_id", _ID, sa.ForeignKey("cases.id"), primary_key=True, autoincrement=False),
        sa.Column("values", sa.JSON(none_as_null=True)),
        sa.Column("seal", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
    )
    op.create_index("ix_follow_up_case_id", "follow_up", ["case_id"])


def downgrade() -> None:
    """Remove the table."""
    op.drop_index("ix_follow_up_case_id", "follow_up")
    op.drop_table("follow_up")
