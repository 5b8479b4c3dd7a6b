"""What can go wrong with a case base."""

from __future__ import annotations


class CaseBaseError(ValueError):
    """Something was asked of a case base that it cannot do; nothing was changed. The message says the remedy."""
