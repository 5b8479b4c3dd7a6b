"""What can go wrong with a case base."""

from __future__ import annotations


class CaseBaseError(ValueError):
    """A case base cannot do what was requested; nothing was changed. The message states the remedy."""


class NotFoundError(CaseBaseError):
    """Not found."""


class ConflictError(CaseBaseError):
    """Conflict with the current state: a second outcome, a forgotten case, an id that is taken."""


class UnavailableError(CaseBaseError):
    """The database or the model is not available."""


class DatabaseError(UnavailableError):
    """The database reports an error. The message names it, for its operator; `public` may be shown to anyone.

    `cause` is the database's own message without values, for a log.
    """

    def __init__(self, message: str, public: str, cause: str) -> None:
        super().__init__(message)
        self.public, self.cause = public, cause
