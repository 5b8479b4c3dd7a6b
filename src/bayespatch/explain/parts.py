"""The parts of an explanation, as plain data. Renderings only display these values; they compute nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

GuardKind = Literal["range", "unseen", "itself", "combination", "subgroup", "rare", "usual", "absent"]


@dataclass(frozen=True)
class Patch:
    """A value of a past case, compared with the case's value of the same feature.

    Attributes
    ----------
    value : str
        The past case's value, in the user's terms.
    agrees : bool
        Whether it agrees with the case's value: equal, in the same bin, or within the window.
    matters : float
        Probability that this feature of the past case matters for the case, given that they are neighbors (the paper's
        w).
    marked : bool
        Whether it is one of the few agreeing values that affect the prediction most (`evidence.mark`).
    """

    value: str
    agrees: bool
    matters: float
    marked: bool


@dataclass(frozen=True)
class Neighbor:
    """A past case that votes on this one.

    Attributes
    ----------
    index : int
        Its row of the training table.
    id : str
        Name of the row: its index label in a data frame, otherwise its number.
    outcome : str
        Its outcome.
    probability : float
        Probability of being a neighbor.
    influence : float
        Mean weight of its vote (kappa, the paper's degree of influence); neighbors are ranked by it.
    vote_share : float
        Its mean share of all votes.
    reliance : float or None
        Probability of the explained class with this past case minus the probability without it, all else equal: 0.04
        means that the past case raises the probability by 4 points. None if neighbors are sampled.
    features : dict
        Its values, {feature: Patch}.
    """

    index: int
    id: str
    outcome: str
    probability: float
    influence: float
    vote_share: float
    reliance: float | None
    features: dict[str, Patch]


@dataclass(frozen=True)
class Closest:
    """The member of a group with the most votes.

    Attributes
    ----------
    index, id, outcome
        Row, name and outcome of the past case.
    features : dict
        Its values, {feature: Patch}.
    """

    index: int
    id: str
    outcome: str
    features: dict[str, Patch]


class Shared(NamedTuple):
    """A value of the case shared by `all` members of a group, or by members with most of the group's votes."""

    feature: str
    value: str
    all: bool


class Differs(NamedTuple):
    """A feature in which no member of a group shares the case's value, with the members' value if it is the same."""

    feature: str
    value: str | None


@dataclass(frozen=True)
class Group:
    """Past cases that resemble the case in the same way, regardless of outcome.

    Attributes
    ----------
    vote_share : float
        Their share of all votes.
    size : int
        Number of members.
    counts : dict
        Number of members with each outcome, {class: n}.
    outcomes : dict
        Share of the group's votes for each class; the sum is 1.
    mean : float or None
        Mean outcome of the members; None for classes.
    shared : tuple of Shared
        Values that they share with the case, most distinctive first. Members who share all of these values cast
        at least 80 % of the group's votes.
    differs : tuple of Differs
        Features in which no member shares the case's value, but other groups do.
    closest : Closest or None
        The member with the most votes; None if no member may be shown.
    rows : tuple of int
        The members, as rows of the training table; not part of `Explanation.to_dict`.
    """

    vote_share: float
    size: int
    counts: dict[str, int]
    outcomes: dict[str, float]
    mean: float | None
    shared: tuple[Shared, ...]
    differs: tuple[Differs, ...]
    closest: Closest | None
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Ungrouped:
    """Past cases outside the groups; each has only a small share of the votes.

    Attributes
    ----------
    vote_share : float
        Their share of all votes.
    outcomes : dict
        Share of these votes for each class; the sum is 1.
    """

    vote_share: float
    outcomes: dict[str, float]


@dataclass(frozen=True)
class Feature:
    """One feature of the case: a patch of the patchwork.

    Attributes
    ----------
    name, value : str
        The feature, and the case's value.
    importance : float
        Importance of the feature for predictions: the share of the base rates' log loss that it removes
        (`bayespatch.feature_importance`).
    importance_interval : pair of floats
        Its 95 % interval.
    explained : float
        Mean probability of this value given the neighbors.
    neighbors : tuple of int
        The closest past cases that agree on it (their `index`), closest first.
    close : str or None
        Range of numbers close enough to the case's to agree with it; None if only equal values agree.
    unseen : bool
        Whether no past case can have this value.
    description : str
        Name of the feature in sentences; if empty, `name` is used.
    phrases : dict
        Phrases from the data dictionary for patients with a value, {value: phrase}: "men", "with a normal scan".
    raw : number, text, boolean or None
        The original value, without label and unit; None if it is missing or new.
    """

    name: str
    value: str
    importance: float
    importance_interval: tuple[float, float]
    explained: float
    neighbors: tuple[int, ...]
    close: str | None = None
    unseen: bool = False
    description: str = ""
    phrases: dict[str, str] = field(default_factory=dict)
    raw: object = None

    @property
    def called(self) -> str:
        """Display name."""
        return self.description or self.name


@dataclass(frozen=True)
class Precedent:
    """Whether the past cases contain adequate precedents of a case.

    Attributes
    ----------
    adequate : bool
        True if `percentile` is above `quantile`.
    percentile : float or None
        Share of the past cases that are at least as unusual as this one. Each past case is predicted from all the
        others with the features known for this case. None if too few features are known (`Fitted.percentiles`).
    quantile : float
        A case has no adequate precedent if `percentile` is at most this share.
    """

    adequate: bool
    percentile: float | None
    quantile: float


@dataclass(frozen=True)
class Stability:
    """Agreement between the independent chains on this case.

    Attributes
    ----------
    overlap : float or None
        Mean share of a chain's most influential past cases (as many as are shown) that are also in another chain's
        list; None for a single chain.
    """

    overlap: float | None


@dataclass(frozen=True)
class LikeThis:
    """Past cases with similar votes, and their outcomes: evidence of how votes relate to outcomes.

    Attributes
    ----------
    label : str
        The class whose share of the votes is compared: the predicted class.
    low, high : float
        Range of its share of the votes.
    n : int
        Number of past cases, each predicted from all the others, with votes in this range.
    n_class : int
        Number of these past cases that had the class.
    """

    label: str
    low: float
    high: float
    n: int
    n_class: int


@dataclass(frozen=True)
class Opinions:
    """Two opinions, the votes of similar past cases and the additive score, and how they are pooled.

    Attributes
    ----------
    precedents, additive : dict
        Probability of each class from the votes of past cases, and from the additive score.
    weight : float
        Weight of the additive score in the pool.
    disagreement : float
        Largest difference between the two probabilities over the classes.
    points : tuple of pairs of str and float, or None
        Percentage points that each feature adds to the additive score's probability of the last class, starting from
        the base rate. None if the second opinion has no points.
    base : dict or None
        The base rate of each class, if there are points.
    intervals : dict
        Credible intervals of both opinions, {"precedents": {class: (low, high)}, "additive": the same or None}.
    """

    precedents: dict[str, float]
    additive: dict[str, float]
    weight: float
    disagreement: float
    points: tuple[tuple[str, float], ...] | None = None
    base: dict[str, float] | None = None
    intervals: dict[str, dict[str, tuple[float, float]] | None] = field(default_factory=dict)


@dataclass(frozen=True)
class FeaturePoints:
    """Contribution of one value of the case to the prediction.

    Attributes
    ----------
    feature, value : str
    points : float
        Contribution in percentage points, or in the unit of a numeric outcome: `precedents` + `additive`.
    precedents, additive : float
        The parts that come from past cases and from the additive score.
    """

    feature: str
    value: str
    points: float
    precedents: float
    additive: float


@dataclass(frozen=True)
class Attribution:
    """The contributions of the values, from the base rate to the prediction: Shapley values.

    Attributes
    ----------
    label : str or None
        The class whose probability is explained: the last of two classes, or the predicted one of several; None for
        numeric outcomes.
    base : float
        The predicted probability or number for a case without known values.
    total : float
        The prediction.
    error : float
        Largest standard error of the points; 0 if they are exact.
    features : tuple of FeaturePoints
        The features with the largest effect on the prediction first. ``base * 100`` plus their points is ``total *
        100``; for numeric outcomes, ``base`` plus their points is ``total``.
    """

    label: str | None
    base: float
    total: float
    error: float
    features: tuple[FeaturePoints, ...]


@dataclass(frozen=True)
class Guard:
    """A warning.

    Attributes
    ----------
    kind : {"range", "unseen", "itself", "combination", "subgroup", "rare", "usual", "absent"}
        A number outside the range of the past cases; an unseen value; the case is a past case; an unusual combination
        of values; a subgroup with worse predictions; a class with few past cases; a number outside the usual range; a
        class without past cases that can vote.
    text : str
        The message.
    """

    kind: GuardKind
    text: str
