"""The parts of an explanation: plain data, of which every rendering shows the numbers and computes none of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MARKED = 0.5  # a value stands out where it agrees and matters with at least this probability


@dataclass(frozen=True)
class Patch:
    """One value of a past case, beside the same feature of the case.

    Attributes
    ----------
    value : str
        The past case's value, in the user's own words.
    agrees : bool
        Whether it is the same as the case's: equal, in the same bin, or within the window.
    matters : float
        Probability that this feature of this past case matters to the case, given that they are neighbors (the paper's
        w; it prints such values in bold).
    """

    value: str
    agrees: bool
    matters: float

    @property
    def marked(self) -> bool:
        """Whether the value stands out: it agrees, and more probably than not it matters."""
        return self.agrees and self.matters >= MARKED


@dataclass(frozen=True)
class Neighbor:
    """A past case that speaks on this one.

    Attributes
    ----------
    index : int
        Its row of the training table.
    id : str
        What that row is called: its index in a data frame, else its number.
    outcome : str
        What became of it.
    probability : float
        Probability of being a neighbor.
    influence : float
        Mean weight of its vote, kappa: the paper's degree of influence, by which neighbors are ranked.
    vote_share : float
        Its mean share in all that is voted for the classes.
    reliance : float
        Probability of the predicted class with this past case minus that without it, all else as it is: 0.04 means
        that the prediction would be 4 points less sure had this past case not been there.
    dissents : bool
        Whether it speaks for another class than the predicted one.
    features : dict
        Its values, {feature: Patch}.
    """

    index: int
    id: str
    outcome: str
    probability: float
    influence: float
    vote_share: float
    reliance: float
    dissents: bool
    features: dict[str, Patch]


@dataclass(frozen=True)
class Feature:
    """One feature of the case: a patch of the patchwork.

    Attributes
    ----------
    name, value : str
        The feature, and the case's own value.
    importance : float
        Posterior mean of the feature's importance over all cases (q).
    explained : float
        Mean probability of this value given the neighbors: how well the past explains it.
    neighbors : tuple of int
        Which of the neighbors shown have the same value and matter through it (their `index`), the strongest first.
    unseen : bool
        Whether no past case can have this value.
    description : str
        What the feature is called in a sentence; empty: its name.
    """

    name: str
    value: str
    importance: float
    explained: float
    neighbors: tuple[int, ...]
    unseen: bool = False
    description: str = ""


@dataclass(frozen=True)
class Precedent:
    """Whether a case is like the past at all.

    Attributes
    ----------
    adequate : bool
        False where `percentile` is not above `quantile`: there is no adequate precedent.
    percentile : float
        Share of the past cases, each looked at as if it were new, that their neighbors explain no better than this one.
    quantile : float
        The share below which a case counts as without precedent.
    """

    adequate: bool
    percentile: float
    quantile: float


@dataclass(frozen=True)
class Stability:
    """How far the chains, which know nothing of each other, agree on this case.

    Attributes
    ----------
    overlap : float or None
        Mean share of a chain's most influential past cases (as many as are shown) that another chain's list has too;
        None where there is one chain.
    probabilities : dict
        Lowest and highest probability of each class over the chains.
    """

    overlap: float | None
    probabilities: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Findings:
    """Everything that is found out about a case; `Explanation`, which can show it, says what the attributes are."""

    id: str | None
    values: dict[str, str]
    outcome: str | None
    target: str
    predicted: str
    probabilities: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    votes: dict[str, float]
    level: float
    precedent: Precedent
    neighbors: tuple[Neighbor, ...]
    dissenting: tuple[Neighbor, ...]
    features: tuple[Feature, ...]
    stability: Stability
    vote_share_others: float
    vote_share_base: float
    about: dict[str, Any] = field(default_factory=dict)
    mean: float | None = None
    interval: tuple[float, float] | None = None

    @property
    def shown(self) -> tuple[Neighbor, ...]:
        """The neighbors, and after them the dissenting ones that are not among them."""
        there = {neighbor.index for neighbor in self.neighbors}
        return (*self.neighbors, *(other for other in self.dissenting if other.index not in there))
