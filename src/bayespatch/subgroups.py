"""Subgroups of past cases that share a value, and whether predictions for them are worse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, norm

from bayespatch.encode import MISSING_NUMBER, Column, Schema
from bayespatch.encode.column import bin_text
from bayespatch.metrics import accuracy, auc, log_loss, rate_interval

MIN_GROUP = 10  # fewest cases of a subgroup
MAX_VALUES = 8  # features with more values do not form subgroups
GAP = 0.1  # smallest deviation in accuracy, or in a predicted probability, that is reported as worse
ERROR = 0.05  # probability of reporting any subgroup as worse if none is (Bonferroni)


@dataclass(frozen=True)
class Subgroup:
    """Performance of predictions for past cases that share a value.

    Attributes
    ----------
    feature, label, value : str
        Name and label of the feature, and its value or range.
    n : int
        Number of past cases.
    accuracy : float
    accuracy_interval : pair of floats
        Wilson's 95 % interval.
    auc : float or None
    stated, actual : dict
        Mean predicted probability and observed frequency of each class.
    flagged : float
        Share of cases without an adequate precedent.
    worse : str or None
        "accuracy" if it is at least 10 points lower than over all cases, "calibration" if a mean predicted probability
        differs from the observed frequency by at least 10 points, otherwise None. In both cases, the deviation must
        exceed what chance explains over all subgroups (Bonferroni).
    log_loss : dict
        Log loss of each opinion alone and of the pool; empty without a second opinion.
    """

    feature: str
    label: str
    value: str
    n: int
    accuracy: float
    accuracy_interval: tuple[float, float]
    auc: float | None
    stated: dict[str, float]
    actual: dict[str, float]
    flagged: float
    worse: str | None
    log_loss: dict[str, float]


@dataclass(frozen=True)
class Grouping:
    """Grouping of cases by a feature: by value, by bin, or by terciles of a number compared in windows."""

    texts: tuple[str, ...]
    edges: tuple[float, ...] | None

    @classmethod
    def of(cls, column: Column, numbers: NDArray[np.float64]) -> Grouping:
        """The groups of a column; `numbers` are the past cases' values."""
        if not column.has_window:
            n_values = int(column.n_values)
            return cls(tuple(column.decode(k) for k in range(n_values)) if n_values <= MAX_VALUES else (), None)
        known = numbers[np.isfinite(numbers) & (numbers > MISSING_NUMBER)]
        if not known.size:
            return cls((), None)
        edges = tuple(np.unique(np.quantile(known, [1 / 3, 2 / 3])).tolist())
        return cls((*(bin_text(edges, k) for k in range(len(edges) + 1)), "missing"), edges)

    def places(self, codes: NDArray[np.float64], numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        """The group of each case; -1 if it is in none."""
        if self.edges is None:
            known = np.isfinite(codes) & (codes < len(self.texts)) & (codes >= 0)
            return np.where(known, np.nan_to_num(codes, nan=-1.0), -1).astype(np.int64)
        known = np.isfinite(numbers) & (numbers > MISSING_NUMBER)
        third = np.searchsorted(self.edges, np.where(known, numbers, 0.0), side="right")
        return np.where(known, third, len(self.texts) - 1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Subgroups:
    """All subgroups of the past cases, and how to assign cases to them."""

    schema: Schema
    groupings: tuple[Grouping, ...]
    found: dict[tuple[int, int], Subgroup]  # by feature and group

    @classmethod
    def learn(
        cls,
        schema: Schema,
        codes: NDArray[np.float64],
        numbers: NDArray[np.float64],
        p: NDArray[np.float64],
        y: NDArray[np.int64],
        classes: Sequence[str],
        flagged: NDArray[np.bool_],
        opinions: Mapping[str, NDArray[np.float64]] | None = None,
    ) -> Subgroups:
        """Subgroups of past cases with classes y and leave-one-out probabilities p, (R, M).

        With a second opinion, `opinions` has the probabilities of each opinion alone and of the pool.
        """
        groupings = tuple(Grouping.of(column, numbers[:, j]) for j, column in enumerate(schema.columns))
        rows = {
            (j, place): members
            for j, grouping in enumerate(groupings)
            for place in range(len(grouping.texts))
            if len(members := np.flatnonzero(grouping.places(codes[:, j], numbers[:, j]) == place)) >= MIN_GROUP
        }
        overall = accuracy(p, y)
        by_group = {}
        for (j, place), members in rows.items():
            mine, outcomes = p[members], y[members]
            right = int((mine.argmax(axis=1) == outcomes).sum())
            by_group[j, place] = Subgroup(
                feature=schema.columns[j].name,
                label=schema.columns[j].called,
                value=groupings[j].texts[place],
                n=len(members),
                accuracy=accuracy(mine, outcomes),
                accuracy_interval=rate_interval(right, len(members)),
                auc=auc(mine, outcomes),
                stated=dict(zip(classes, mine.mean(axis=0).tolist(), strict=True)),
                actual={name: float((outcomes == m).mean()) for m, name in enumerate(classes)},
                flagged=float(flagged[members].mean()),
                worse=_worse(mine, outcomes, overall, len(rows)),
                log_loss={name: log_loss(each[members], outcomes) for name, each in (opinions or {}).items()},
            )
        return cls(schema, groupings, by_group)

    def of_case(self, codes: NDArray[np.float64], numbers: NDArray[np.float64]) -> Iterator[Subgroup]:
        """The subgroups that a case, (P,), belongs to."""
        for j, grouping in enumerate(self.groupings):
            place = int(grouping.places(codes[[j]], numbers[[j]])[0])
            if (j, place) in self.found:
                yield self.found[j, place]


def _worse(p: NDArray[np.float64], y: NDArray[np.int64], overall: float, n_groups: int) -> str | None:
    """How predictions for a subgroup are worse than chance explains: "accuracy", "calibration" or None."""
    n, right = len(y), int((p.argmax(axis=1) == y).sum())
    level = ERROR / (2 * n_groups)  # two tests per subgroup
    if right / n <= overall - GAP and binomtest(right, n, overall, alternative="less").pvalue < level:
        return "accuracy"
    classes = range(1, 2) if p.shape[1] == 2 else range(p.shape[1])
    for m in classes:
        gap = float(p[:, m].mean() - (y == m).mean())
        error = float(np.sqrt((p[:, m] * (1.0 - p[:, m])).sum()) / n)
        if abs(gap) >= GAP and 2.0 * norm.sf(abs(gap) / max(error, 1e-12)) < level / len(classes):
            return "calibration"
    return None
