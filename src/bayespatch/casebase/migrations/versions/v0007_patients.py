"""Several visits of one patient: a name of the patient beside each case."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0004"


def upgrade() -> None:
    """Every case is a patient of its own."""
    op.add_column("cases", sa.Column("patient", sa.Text))
    op.create_index("ix_cases_patient", "cases", ["patient"])


def downgrade() -> None:
    """Nobody knows which cases are of one patient."""
    op.drop_index("ix_cases_patient", "cases")
    op.drop_column("cases", "patient")
