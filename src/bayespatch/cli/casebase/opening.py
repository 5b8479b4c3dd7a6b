"""Common parts of the case base commands: opening it, identifying the person and the case, and printing results."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from bayespatch.cli.casebase.options import Base, By, Folder

if TYPE_CHECKING:
    from bayespatch.casebase import CaseBase

Opened = Callable[[], "AbstractContextManager[CaseBase]"]  # `open_base` with its options filled in
Person = Callable[[], str]  # `person` with its option filled in


@contextmanager
def open_base(base: Base, folder: Folder = None) -> Iterator[CaseBase]:
    """An existing case base."""
    from bayespatch.casebase import CaseBase

    with CaseBase.open(base, create=False, folder=folder) as opened:
        yield opened


def person(by: By = None) -> str:
    """The name for the audit log: the one passed, or the login name."""
    return by if by is not None else getpass.getuser()


def base_name(base: str) -> str:
    """The name of a case base for messages, without the password that a URL may contain."""
    return base.partition("://")[0] + "://..." if "://" in base and not base.startswith("sqlite") else base


def case_of(text: str) -> int | str:
    """A case number or, for any other text, an external id. "=17" stands for the external id 17."""
    if text.startswith("="):
        return text[1:]
    return int(text) if text.isascii() and text.isdecimal() else text


def counted(n: int, what: str) -> str:
    """A number with a noun, such as "1 case" or "3 cases"."""
    return f"{n} {what}{'' if n == 1 else 's'}"


def value_text(value: object) -> str:
    """A value as the text of a table cell."""
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
