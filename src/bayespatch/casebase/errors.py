"""What can go wrong with a case base."""

from __future__ import annotations


class CaseBaseError(ValueError):
    """Something was asked of a case base that it cannot do; nothing was changed. The message says the remedy."""


class NotFoundError(CaseBaseError):
    """What was asked for is not there."""


class ConflictError(CaseBaseError):
    """What already exists stands against it: a second outcome, a case that was forgotten, an id that is taken."""


class UnavailableError(CaseBaseError):
    """The database, or a model, cannot be used at the moment."""


class DatabaseError(UnavailableError):
    """The database refuses. The message names it, for whoever runs it; `public` does not, and can be shown to anybody.

    `cause` is what the database says, without values: a line for a log.
    """

    def __init__(self, message: str, public: str, cause: str) -> None:
        super().__init__(message)
        self.public, self.cause = public, cause
