"""What a part of the study is, and what it is given."""

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
        From which all folds, samples and chains follow.
    sizes : StudySizes
        How much work.
    readmission : path or None
        The readmission table, where there is one.
    tell : function
        Called with what is being done.
    """

    seed: int
    sizes: StudySizes
    readmission: Path | None = None
    tell: Callable[[str], object] = lambda line: None

    @cached_property
    def both(self) -> tuple[Cohort, Cohort]:
        """The two small cohorts of the paper."""
        return cohorts.heart(), cohorts.breast(self.seed)

    def scan(self, model: str, supervised: bool = True, **changes: Any) -> Patchwork:
        """A classifier with one short chain: the paper's constants but for some, balanced parents."""
        return Patchwork(BALANCED, model, supervised, self.sizes, scan=True, **changes)


@dataclass(frozen=True)
class Part:
    """One experiment.

    Attributes
    ----------
    name, title : str
        For the command line and for people.
    labels : str
        What it reproduces, by the paper's labels.
    compute : function
        Does the work.
    seconds : float
        What the full part took on two quiet cores: for the estimate that is shown, nothing else.
    needs_readmission : bool
        Whether it is skipped where there is no readmission table.
    """

    name: str
    title: str
    labels: str
    compute: Callable[[Context], list[Table]]
    seconds: float
    needs_readmission: bool = False
