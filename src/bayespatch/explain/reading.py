"""Conversion of the votes on a case to probabilities, intervals, opinions and, for numeric outcomes, a number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.explain.ballot import Ballot
from bayespatch.explain.parts import Opinions
from bayespatch.fitted import Fitted, FittedNumbers, OpinionOnCases, tails
from bayespatch.pool import disagreement

Array = NDArray[np.float64]


class Reading(NamedTuple):
    """Conversion of the votes on one case.

    Attributes
    ----------
    fitted : Fitted
    second : OpinionOnCases or None
    row : int
        The case's row in the second opinion.
    level : float
        Probability of the intervals.
    """

    fitted: Fitted
    second: OpinionOnCases | None
    row: int
    level: float

    def probabilities(self, votes: Array) -> Array:
        """Pooled probabilities, (k, M), for votes, (k, M)."""
        precedents = self.fitted.calibration.apply(votes)
        if self.second is None:
            return precedents
        other = np.broadcast_to(self.second.probabilities[self.row], precedents.shape)
        return self.second.pool.combine(other, precedents)

    def intervals(self, ballot: Ballot) -> Array:
        """Intervals of the probabilities, (M, 2)."""
        ends = self._of_precedents(ballot)
        if self.second is None:
            return ends
        second = self.second
        other = None if second.interval is None else second.interval[[self.row]]
        p = self.fitted.calibration.apply(ballot.votes)[None]
        return second.pool.interval(second.probabilities[[self.row]], other, p, ends[None], self.level)[0]

    def error(self, ballot: Ballot) -> float | None:
        """Monte Carlo standard error of the probability, the largest over the classes."""
        if len(ballot.batches) < 2:
            return None
        each = self.probabilities(ballot.batches)
        return float((each.std(axis=0, ddof=1) / np.sqrt(len(each))).max())

    def number(self, ballot: Ballot) -> tuple[float, tuple[float, float]] | None:
        """Mean and interval of a numeric outcome; None for classes."""
        if not isinstance(self.fitted, FittedNumbers):
            return None
        share = ballot.share[None].astype(np.float32)
        if self.second is not None and self.second.number is not None:
            mean, low, high = self.second.number(share, self.level, self.row).tolist()
        else:
            mean, low, high = self.fitted.read_number(share, self.level)[0].tolist()
        return mean, (low, high)

    def votes_mean(self, ballot: Ballot) -> float | None:
        """Mean outcome of the voters, weighted by their votes; None for classes, and without voters."""
        if not isinstance(self.fitted, FittedNumbers) or not ballot.share.any():
            return None
        return float(np.average(self.fitted.outcomes[self.fitted.parents], weights=ballot.share))

    def population_interval(self) -> tuple[float, float] | None:
        """The central interval that contains a share of `level` of all past cases' numbers; None for classes."""
        if not isinstance(self.fitted, FittedNumbers):
            return None
        low, high = np.quantile(self.fitted.outcomes[self.fitted.cases], tails(self.level)).tolist()
        return low, high

    def opinions(self, ballot: Ballot) -> Opinions | None:
        """The probabilities from precedents and from the second opinion."""
        second, fitted = self.second, self.fitted
        if second is None:
            return None
        precedents, additive = fitted.calibration.apply(ballot.votes), second.probabilities[self.row]
        points = None
        if second.points is not None:
            points = tuple(zip(fitted.schema.names, second.points[self.row].tolist(), strict=True))
        return Opinions(
            precedents=self.by_class(precedents),
            additive=self.by_class(additive),
            weight=second.pool.weight,
            disagreement=float(disagreement(additive, precedents)),
            points=points,
            base=None if second.base is None or points is None else self.by_class(second.base),
            intervals={
                "precedents": self.ends_by_class(self._of_precedents(ballot)),
                "additive": None if second.interval is None else self.ends_by_class(second.interval[self.row]),
            },
        )

    def by_class(self, numbers: Array) -> dict[str, float]:
        """Numbers, (M,), by class."""
        return dict(zip(self.fitted.class_names, numbers.tolist(), strict=True))

    def ends_by_class(self, ends: Array) -> dict[str, tuple[float, float]]:
        """Intervals, (M, 2), by class."""
        return {name: (low, high) for name, (low, high) in zip(self.fitted.class_names, ends.tolist(), strict=True)}

    def _of_precedents(self, ballot: Ballot) -> Array:
        return self.fitted.calibration.interval(ballot.votes[None], np.array([ballot.n_voters]), self.level)[0]
