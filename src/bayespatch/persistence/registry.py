"""Which classes a model file may be loaded as: those that have registered themselves, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

LOADABLE: dict[str, type[Loadable]] = {}


class Loadable(Protocol):
    """An estimator: made of its parameters, and then given its fitted attributes."""

    def __init__(self, **parameters: object) -> None: ...

    def get_params(self, deep: bool = True) -> Mapping[str, Any]:
        """Its parameters by name."""


Class = TypeVar("Class", bound=type[Loadable])


def loadable(cls: Class) -> Class:
    """Register an estimator's class under its own name, as a decorator."""
    LOADABLE[cls.__name__] = cls
    return cls
