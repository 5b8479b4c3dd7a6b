"""Cells of a CSV file that a spreadsheet would run as formulas."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # also their full-width forms


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would run text as a formula; a number is not one.

    Examples
    --------
    >>> is_formula("=HYPERLINK(1)"), is_formula("-5"), is_formula("a-b")
    (True, False, False)
    """
    if not text.lstrip().startswith(_FORMULA):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False


def plain_cell(value: object) -> object:
    """A value as a safe cell: a formula is prefixed with an apostrophe, a missing value is empty.

    Examples
    --------
    >>> plain_cell("=HYPERLINK(1)"), plain_cell(-5), plain_cell(None)
    ("'=HYPERLINK(1)", -5, '')
    """
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and is_formula(value) else value
