"""Explanation: which past cases a case resembles, in what, how strongly, what became of them, and how far to trust it.

Plain data; every rendering (text, notebook, picture, page) shows these numbers and computes none of its own.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
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
class Explanation:
    """The patchwork of one case. Made by `PatchworkClassifier.explain`.

    Attributes
    ----------
    id : str or None
        What the case is called: its index in a data frame.
    values : dict
        The case in the user's own values, {feature: text}.
    outcome : str or None
        What became of the case, where that was known and counted in finding the neighbors (type III of the paper). The
        prediction is what would have been said without knowing it.
    target : str
        What the outcome is called; may be empty.
    predicted : str
        The most probable class.
    probabilities, votes : dict
        Calibrated probability, and plain share of the votes, of each class.
    intervals : dict
        Credible interval of each probability, (low, high), of this `level`.
    precedent : Precedent
    neighbors : tuple of Neighbor
        The most influential past cases, the strongest first.
    dissenting : tuple of Neighbor
        The most influential past cases with another outcome than the predicted one; they may be among `neighbors`.
    features : tuple of Feature
        In the order of the table.
    stability : Stability
    vote_share_others, vote_share_base : float
        Shares of the votes of the past cases that are not among `neighbors`, and of the base rates. With those of the
        neighbors they sum to 1.
    about : dict
        The model that says so: "model", "past_cases", "parents", "converged", "package".

    Examples
    --------
    >>> from bayespatch import PatchworkClassifier
    >>> X = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5
    >>> y = ["sick", "sick", "well", "well"] * 5
    >>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit(X, y)
    >>> why = clf.explain(["yes", 60], top=2)
    >>> why.predicted, [neighbor.outcome for neighbor in why.neighbors]
    ('sick', ['sick', 'sick'])
    >>> sorted(why.to_dict())
    ['about', 'case', 'dissenting', 'features', 'neighbors', 'precedent', 'prediction', 'stability', 'vote_shares']
    """

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

    @property
    def shown(self) -> tuple[Neighbor, ...]:
        """The neighbors, and after them the dissenting ones that are not among them."""
        there = {neighbor.index for neighbor in self.neighbors}
        return (*self.neighbors, *(other for other in self.dissenting if other.index not in there))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "case": {"id": self.id, "values": dict(self.values), "outcome": self.outcome, "target": self.target},
            "prediction": {
                "class": self.predicted,
                "probabilities": dict(self.probabilities),
                "intervals": {name: list(ends) for name, ends in self.intervals.items()},
                "votes": dict(self.votes),
                "level": self.level,
            },
            "precedent": asdict(self.precedent),
            "neighbors": [asdict(neighbor) for neighbor in self.neighbors],
            "dissenting": [asdict(neighbor) for neighbor in self.dissenting],
            "vote_shares": {
                "neighbors": sum(neighbor.vote_share for neighbor in self.neighbors),
                "other_past_cases": self.vote_share_others,
                "base_rates": self.vote_share_base,
            },
            "features": [{**asdict(feature), "neighbors": list(feature.neighbors)} for feature in self.features],
            "stability": {
                "overlap": self.stability.overlap,
                "probabilities": {name: list(ends) for name, ends in self.stability.probabilities.items()},
            },
            "about": dict(self.about),
        }

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each neighbor and feature: both values, do they agree, does it matter."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install pandas") from error
        numbers = ("index", "id", "outcome", "probability", "influence", "vote_share", "reliance", "dissents")
        rows = [
            {
                **{name: getattr(neighbor, name) for name in numbers},
                "feature": feature.name,
                "case_value": feature.value,
                **asdict(neighbor.features[feature.name]),
                "importance": feature.importance,
                "explained": feature.explained,
            }
            for neighbor in self.shown
            for feature in self.features
        ]
        return pandas.DataFrame(rows)

    def to_text(self, width: int = 120) -> str:
        """The patchwork for a terminal, without colors: marks say what agrees and matters.

        Parameters
        ----------
        width : int
            Columns of the terminal; neighbors that do not fit beside each other go below.
        """
        from bayespatch.explain.text import as_text

        return as_text(self, width)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        from bayespatch.explain.notebook import as_html

        return as_html(self)
