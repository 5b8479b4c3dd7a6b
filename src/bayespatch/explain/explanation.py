"""The explanation of a case: similar past cases, shared features, outcomes, and how far to trust the prediction."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, cast

from bayespatch.encode.table import DataFrame
from bayespatch.explain.html import for_notebook
from bayespatch.explain.parts import (
    Attribution,
    Feature,
    Group,
    Guard,
    LikeThis,
    Neighbor,
    Opinions,
    Patch,
    Precedent,
    Stability,
    Ungrouped,
)
from bayespatch.explain.text import as_text
from bayespatch.types import JSONObject

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

DIGITS = 4  # decimal places of the probabilities that features matter


@dataclass(frozen=True)
class Explanation:
    """The patchwork of a case. Created by `PatchworkClassifier.explain`.

    All renderings (text, notebook, page, figure) use `to_dict`.

    Attributes
    ----------
    id : str or None
        Name of the case: its index in a data frame.
    values : dict
        The case in the user's own values, {feature: text}.
    n_known : int
        Number of known values.
    outcome : str or None
        The case's outcome, if it was used to find the neighbors (type III of the paper). The prediction and the groups
        do not use it.
    target : str
        Name of the outcome; may be empty.
    predicted : str
        The most probable class.
    probabilities, votes : dict
        Probability of each class, calibrated and pooled with the second opinion, if any; and the uncalibrated share of
        the votes.
    votes_mean : float or None
        Mean of a numeric outcome, weighted by the votes; None for classes.
    population : dict
        Share of each class among the past cases.
    intervals : dict
        Credible interval of each probability, (low, high), with probability `level`.
    error : float or None
        Monte Carlo standard error of the probability, the largest over the classes.
    like_this : LikeThis or None
        Past cases with similar votes, and their outcomes.
    attribution : Attribution or None
        How much each value adds to the base rate. None if neighbors are sampled, or if the second opinion cannot
        predict cases with missing values.
    opinions : Opinions or None
        The probabilities from the votes and from the second opinion.
    precedent : Precedent
    guards : tuple of Guard
        Warnings.
    groups : tuple of Group
        Groups of past cases that resemble the case in the same way; the group with the most votes comes first.
    ungrouped : Ungrouped
        All other past cases.
    base_rates : float
        Share of the votes reserved for the base rates.
    neighbors : tuple of Neighbor
        The closest past cases: those with the most influence.
    features : tuple of Feature
        The features, in the order of the table.
    stability : Stability
    mean, interval : float and pair of floats, or None
        For numeric outcomes: the mean, and the prediction interval of probability `level`. Classes are then ranges of
        outcomes.
    population_interval : pair of floats or None
        For numeric outcomes: the central interval that contains a share of `level` of all past cases' outcomes.
    follow_up : dict or None
        Follow-up of the past cases that vote, {column: summary} (`FollowUp.summaries`); None without follow-up columns.
    about : dict
        Facts about the model: "model", "past_cases", "parents", "converged".

    Examples
    --------
    >>> why = clf.explain(["yes", 60])  # with the classifier fitted in the docstring of `PatchworkClassifier`
    >>> why.predicted, why.neighbors[0].outcome
    ('sick', 'sick')
    >>> list(why.to_dict())[:5]
    ['case', 'prediction', 'attribution', 'opinions', 'precedent']
    """

    id: str | None
    values: dict[str, str]
    n_known: int
    outcome: str | None
    target: str
    predicted: str
    probabilities: dict[str, float]
    population: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    votes: dict[str, float]
    votes_mean: float | None
    error: float | None
    level: float
    like_this: LikeThis | None
    attribution: Attribution | None
    opinions: Opinions | None
    precedent: Precedent
    guards: tuple[Guard, ...]
    groups: tuple[Group, ...]
    ungrouped: Ungrouped
    base_rates: float
    neighbors: tuple[Neighbor, ...]
    features: tuple[Feature, ...]
    stability: Stability
    about: JSONObject = field(default_factory=dict)
    mean: float | None = None
    interval: tuple[float, float] | None = None
    population_interval: tuple[float, float] | None = None
    follow_up: JSONObject | None = None

    def to_dict(self) -> JSONObject:
        """Plain data, ready for JSON.

        Examples
        --------
        >>> clf.explain(["yes", 60]).to_dict()["prediction"]["class"]
        'sick'
        """
        like = self.like_this
        return {
            "case": {
                "id": self.id,
                "values": dict(self.values),
                "warnings": [guard.text for guard in self.guards],
                "warning_kinds": [guard.kind for guard in self.guards],
                "outcome": self.outcome,
                "target": self.target,
                "known": {"n": self.n_known, "of": len(self.values)},
            },
            "prediction": {
                "class": self.predicted,
                "probabilities": dict(self.probabilities),
                "intervals": {name: list(ends) for name, ends in self.intervals.items()},
                "votes": dict(self.votes),
                "votes_mean": self.votes_mean,
                "error": self.error,
                "like_this": None
                if like is None
                else {"class": like.label, "low": like.low, "high": like.high, "n": like.n, "n_class": like.n_class},
                "level": self.level,
                "mean": self.mean,
                "interval": None if self.interval is None else list(self.interval),
                "population": dict(self.population),
                "population_interval": None if self.population_interval is None else list(self.population_interval),
            },
            "attribution": None if self.attribution is None else _attribution(self.attribution),
            "opinions": None if self.opinions is None else _opinions(self.opinions),
            "precedent": _plain(self.precedent),
            "groups": [_group(group) for group in self.groups],
            "ungrouped": _plain(self.ungrouped),
            "base_rates": self.base_rates,
            "neighbors": [_neighbor(neighbor) for neighbor in self.neighbors],
            "features": [
                {
                    **_fields(feature),
                    "importance_interval": list(feature.importance_interval),
                    "neighbors": list(feature.neighbors),
                }
                for feature in self.features
            ],
            "follow_up": _plain(self.follow_up),
            "stability": _plain(self.stability),
            "about": dict(self.about),
        }

    def to_frame(self) -> DataFrame:
        """A pandas DataFrame with a row for each pair of a closest past case and a feature.

        Examples
        --------
        >>> table = clf.explain(["yes", 60], top=2).to_frame()
        >>> table[["outcome", "feature", "case_value"]].iloc[0].tolist()
        ['sick', 'x0', 'yes']
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install pandas") from error
        numbers = ("index", "id", "outcome", "probability", "influence", "vote_share", "reliance")
        rows = [
            {
                **{name: getattr(part, name) for name in numbers},
                "feature": feature.name,
                "case_value": feature.value,
                **asdict(part.features[feature.name]),
                "importance": feature.importance,
                "explained": feature.explained,
            }
            for part in self.neighbors
            for feature in self.features
        ]
        return pandas.DataFrame(rows)

    def to_text(self, width: int = 120) -> str:
        """The answer for a terminal.

        Parameters
        ----------
        width : int
            Width of the terminal in columns.

        Examples
        --------
        >>> "sick" in clf.explain(["yes", 60]).to_text(width=80)
        True
        """
        return as_text(self.to_dict(), width)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str | None:
        return for_notebook(self.to_dict())


def _neighbor(neighbor: Neighbor) -> JSONObject:
    return {**_fields(neighbor), "features": {name: _patch(patch) for name, patch in neighbor.features.items()}}


def _patch(patch: Patch) -> JSONObject:
    return {**_fields(patch), "matters": round(patch.matters, DIGITS)}


def _group(group: Group) -> JSONObject:
    closest = group.closest
    shown = None
    if closest is not None:
        patches = {name: _patch(patch) for name, patch in closest.features.items()}
        for patch in patches.values():
            del patch["marked"]
        shown = {"index": closest.index, "id": closest.id, "outcome": closest.outcome, "features": patches}
    return {
        "vote_share": group.vote_share,
        "size": group.size,
        "counts": dict(group.counts),
        "outcomes": dict(group.outcomes),
        "mean": group.mean,
        "shared": [part._asdict() for part in group.shared],
        "differs": [part._asdict() for part in group.differs],
        "closest": shown,
    }


def _attribution(points: Attribution) -> JSONObject:
    data = _fields(points)
    return {"class": data.pop("label"), **data, "features": list(data["features"])}


def _opinions(both: Opinions) -> JSONObject:
    points = None if both.points is None else [{"feature": name, "points": number} for name, number in both.points]
    intervals = {
        name: None if ends is None else {label: list(pair) for label, pair in ends.items()}
        for name, ends in both.intervals.items()
    }
    return {**_fields(both), "points": points, "intervals": intervals}


def _fields(data: DataclassInstance) -> JSONObject:
    """Like `dataclasses.asdict`, but ten times as fast because strings and numbers are not copied."""
    kind = type(data)
    if kind not in _names:
        _names[kind] = tuple(field.name for field in fields(kind))
    return {name: _plain(getattr(data, name)) for name in _names[kind]}


def _plain(value: object) -> object:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, dict):
        return {name: part if type(part) in _PLAIN else _plain(part) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return type(value)([part if type(part) in _PLAIN else _plain(part) for part in value])
    return _fields(cast("DataclassInstance", value))


_PLAIN = frozenset((str, float, int, bool, type(None)))
_names: dict[type, tuple[str, ...]] = {}  # field names of each dataclass
