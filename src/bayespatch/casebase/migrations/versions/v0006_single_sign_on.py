"""Single sign-on: identities of an OpenID provider that belong to people, and sign-ins that are under way."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0003"


def upgrade() -> None:
    """Nobody has an identity yet, and every session began with a password."""
    op.create_table(
        "identities",
        sa.Column("issuer", sa.Text, primary_key=True),
        sa.Column("subject", sa.Text, primary_key=True),
        sa.Column("user", sa.Text, sa.ForeignKey("users.name"), nullable=False),
        sa.Column("made_at", sa.Text, nullable=False),
        sa.Column("seen_at", sa.Text, nullable=False),
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
    op.add_column("sessions", sa.Column("issuer", sa.Text))
    op.add_column("sessions", sa.Column("confirmed_at", sa.Text))


def downgrade() -> None:
    """Everybody signs in with a password."""
    for name in ("confirmed_at", "issuer"):
        op.drop_column("sessions", name)
    for name in ("sign_ins", "identities"):
        op.drop_table(name)
