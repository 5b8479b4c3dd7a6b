"""A part of the study and its context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from study import cohorts
from study.cohorts import Cohort
from study.protocol import BALANCED, Patchwork, StudySizes
from study.tables import Table


@dataclass(frozen=True)
class Context:
    """The settings of a run.

    Attributes
    ----------
    seed : int
        Determines all folds, samples and chains.
    sizes : StudySizes
        The size of the computations.
    readmission : path or None
        The readmission table, if available.
    tell : function
        Called with a description of the current step.
    """

    seed: int
    sizes: StudySizes
    readmission: Path | None = None
    tell: Callable[[str], object] = lambda line: None

    @cached_property
    def both(self) -> tuple[Cohort, Cohort]:
        """The paper's two small cohorts."""
        return cohorts.heart(), cohorts.breast(self.seed)

    def scan(self, model: str, supervised: bool = True, **changes: Any) -> Patchwork:
        """A classifier with a single short chain, balanced parents, and the paper's constants except for changes."""
        return Patchwork(BALANCED, model, supervised, self.sizes, scan=True, **changes)


@dataclass(frozen=True)
class Part:
    """One experiment.

    Attributes
    ----------
    name, title : str
        Name for the command line and title for readers.
    labels : str
        The paper's labels of the results that it reproduces.
    compute : function
        Computes the tables.
    seconds : float
        Time of the full part on two idle cores, used only to estimate the remaining time.
    needs_readmission : bool
        Whether the part is skipped without the readmission table.
    """

    name: str
    title: str
    labels: str
    compute: Callable[[Context], list[Table]]
    seconds: float
    needs_readmission: bool = False
