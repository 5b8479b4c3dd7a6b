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
