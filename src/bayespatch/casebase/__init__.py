"""The case base: past cases, consultations, decisions and models in SQLite or PostgreSQL.

`base` has the public class `CaseBase`, composed of `retrieve`, `reuse` and `revise`. Behind it, `cases`,
`consultations`, `models`, `refit`, `forget`, `drift`, `backup` and `export` work within a transaction of `database`,
and `audit` records each change in the log.
"""

try:
    import alembic as alembic
    import sqlalchemy as sqlalchemy
except ImportError as error:
    raise ImportError('a case base needs SQLAlchemy and Alembic: pip install "bayespatch[casebase]"') from error

from bayespatch.casebase.base import CaseBase
from bayespatch.casebase.errors import CaseBaseError

__all__ = ["CaseBase", "CaseBaseError"]
