"""Errors of the case base."""

from __future__ import annotations


class CaseBaseError(ValueError):
    """The request failed and nothing was changed. The message states the remedy."""


class NotFoundError(CaseBaseError):
    """Not found."""


class ConflictError(CaseBaseError):
    """Conflict with the current state: a second outcome, a forgotten case, an id already in use."""


class PastCaseError(ConflictError):
    """The case is a past case, and would be its own precedent."""


class UnavailableError(CaseBaseError):
    """The database or the model is not available."""


class DatabaseError(UnavailableError):
    """The database reports an error. The message is for its operator; `public` is safe to show to anyone.

    `cause` is the database's own message without values, for a log.
    """

    def __init__(self, message: str, public: str, cause: str) -> None:
        super().__init__(message)
        self.public, self.cause = public, cause
