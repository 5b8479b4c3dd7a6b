"""Errors of mapping files and of health records."""

from __future__ import annotations


class FhirError(ValueError):
    """A mapping file, a resource or a bundle is malformed; the message names element, value and remedy."""


def refuse(where: str, wrong: str) -> FhirError:
    """An error that begins with a pointer, such as ``Bundle.entry[3].resource.status``."""
    return FhirError(f"{where}: {wrong}")


def shown(value: object) -> str:
    """A value for messages: shortened, and without control characters.

    Examples
    --------
    >>> shown("a" * 100) == repr("a" * 57 + "...")
    True
    """
    text = repr(value[:57] + "..." if isinstance(value, str) and len(value) > 60 else value)
    return text if len(text) <= 64 else f"{text[:60]}..."
