"""A second factor for signing in: a shared secret for one-time codes, and recovery codes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Nobody has a second factor yet."""
    op.add_column("users", sa.Column("totp_secret", sa.Text))
    op.add_column("users", sa.Column("totp_step", sa.BigInteger().with_variant(sa.Integer(), "sqlite")))
    op.create_table(
        "recovery_codes",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("user", sa.Text, sa.ForeignKey("users.name"), nullable=False),
    )


def downgrade() -> None:
    """Everybody signs in with the password alone."""
    op.drop_table("recovery_codes")
    for name in ("totp_secret", "totp_step"):
        op.drop_column("users", name)
