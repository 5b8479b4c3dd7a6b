"""The classes that can be loaded from a model file, which register themselves."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, TypeVar

from bayespatch.types import Parameters

# What `load` returns: one of the classes in `LOADABLE`, which a later layer defines.
Estimator: TypeAlias = Any

LOADABLE: dict[str, type[Loadable]] = {}


class Loadable(Protocol):
    """An estimator: created from its parameters, then given its fitted attributes."""

    def __init__(self, **parameters: object) -> None: ...

    def get_params(self, deep: bool = True) -> Parameters:
        """Its parameters by name."""


Class = TypeVar("Class", bound=type[Loadable])


def loadable(cls: Class) -> Class:
    """Register an estimator's class under its own name, as a decorator."""
    LOADABLE[cls.__name__] = cls
    return cls
