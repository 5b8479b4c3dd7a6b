"""Run migrations on the given connection, inside its open transaction."""

from __future__ import annotations

from alembic import context

from bayespatch.casebase.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
context.run_migrations()
