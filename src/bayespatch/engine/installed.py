"""Engines by name, from this package and from other installed packages.

A package adds an engine with an entry point:

    [project.entry-points."bayespatch.engines"]
    cuda = "bayespatch_cuda.engine:CudaEngine"

An entry point of the same name in the group "bayespatch.votes" refers to the module that computes closed-form votes
with this engine. An engine is imported when it is first requested.
"""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from bayespatch.engine import digest_of_sources
from bayespatch.engine.base import Engine, GivenEngine
from bayespatch.validation import check_choice

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

BUILT_IN: dict[str, str] = {
    "cpu": "bayespatch.engine.cpu:CpuEngine",
    "paper": "bayespatch.engine.paper:PaperEngine",
}
INSTALL = {"cuda": "pip install bayespatch-cuda"}  # known engines of other packages

# Cases x parents x features above which a GPU is worthwhile: at this size, a sweep on one core takes 0.1 s.
LARGE = 10**7


@cache
def added(group: str) -> dict[str, EntryPoint]:
    """The entry points of installed packages in a group, by name."""
    return {point.name: point for point in entry_points(group=group)}


def check_engine(name: object, *others: str) -> str:
    """The name of an engine, or one of `others`; known engines are accepted even if they are not installed."""
    if isinstance(name, str) and name in (*others, *BUILT_IN, *INSTALL):
        return name
    return check_choice("engine", name, (*others, *dict.fromkeys((*BUILT_IN, *INSTALL, *added("bayespatch.engines")))))


def load_engine(name: str) -> type[Engine[DataclassInstance]]:
    """The engine class of this name.

    Raises
    ------
    ImportError
        If the engine is part of a package that is not installed.

    Examples
    --------
    >>> load_engine("cpu").__name__
    'CpuEngine'
    """
    if check_engine(name) in BUILT_IN:
        module, _, class_name = BUILT_IN[name].partition(":")
        engine: type[Engine[DataclassInstance]] = getattr(import_module(module), class_name)
        return engine
    return _loaded("bayespatch.engines", name)


def takes_importances(name: str) -> bool:
    """Whether an engine can sample with given importances; "auto" chooses one that can.

    Examples
    --------
    >>> takes_importances("cpu"), takes_importances("paper")
    (True, False)
    """
    return name in ("auto", "cpu", *INSTALL) or issubclass(load_engine(name), GivenEngine)


def load_votes(name: str):
    """The module that computes closed-form votes with this engine."""
    return _loaded("bayespatch.votes", name)


def _loaded(group: str, name: str):
    point = added(group).get(name)
    if point is None:
        command = INSTALL.get(name, f"install the package that has the entry point {name!r} in the group {group!r}")
        raise ImportError(f"engine={name!r} is not installed: {command}, or pass engine='cpu'")
    return point.load()


def digest_of_engine(name: str) -> str:
    """A digest of an engine's code. It changes whenever the engine's draws might change."""
    engines = Path(__file__).parent
    folder = Path(inspect.getfile(load_engine(name))).parent
    return digest_of_sources(engines) + ("" if folder.is_relative_to(engines) else digest_of_sources(folder))


def gpu_is_present() -> bool:
    """Whether the GPU engine is installed and a GPU is available."""
    return "cuda" in added("bayespatch.engines") and load_engine("cuda").is_available()


def fastest_engine(n_cases: int, n_parents: int, n_features: int) -> str:
    """The engine for a problem of this size: "cuda" for large problems that fit on an available GPU, otherwise "cpu".

    Examples
    --------
    >>> fastest_engine(n_cases=300, n_parents=80, n_features=13)
    'cpu'
    """
    if n_cases * n_parents * n_features < LARGE or not gpu_is_present():
        return "cpu"
    return "cuda" if load_engine("cuda").fits(n_cases, n_parents, n_features) else "cpu"
