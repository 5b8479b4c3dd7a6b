"""A registry of the classes that can be loaded from a model file."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, TypeVar

from bayespatch.types import Parameters

# The type that `load` returns: one of the classes in `LOADABLE`, which a higher layer defines.
Estimator: TypeAlias = Any

LOADABLE: dict[str, type[Loadable]] = {}


class Loadable(Protocol):
    """An estimator, which is created from its parameters before its fitted attributes are set."""

    def __init__(self, **parameters: object) -> None: ...

    def get_params(self, deep: bool = True) -> Parameters:
        """The parameters by name."""


Class = TypeVar("Class", bound=type[Loadable])


def loadable(cls: Class) -> Class:
    """Class decorator that registers an estimator under the name of its class."""
    LOADABLE[cls.__name__] = cls
    return cls
