"""Which past cases a case resembles, in what, how strongly, what became of them, and how far to trust it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from bayespatch.explain.notebook import as_html
from bayespatch.explain.parts import Findings
from bayespatch.explain.text import as_text


@dataclass(frozen=True)
class Explanation(Findings):
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
    mean, interval : float and pair of floats, or None
        Where the outcome is a number: its mean, and the interval in which it lies with the probability `level`. Classes
        are then ranges of outcomes.
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

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON.

        Examples
        --------
        >>> from bayespatch import PatchworkClassifier
        >>> X, y = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5, ["sick", "sick", "well", "well"] * 5
        >>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit(X, y)
        >>> clf.explain(["yes", 60]).to_dict()["prediction"]["class"]
        'sick'
        """
        return {
            "case": {"id": self.id, "values": dict(self.values), "outcome": self.outcome, "target": self.target},
            "prediction": {
                "class": self.predicted,
                "probabilities": dict(self.probabilities),
                "intervals": {name: list(ends) for name, ends in self.intervals.items()},
                "votes": dict(self.votes),
                "level": self.level,
                "mean": self.mean,
                "interval": None if self.interval is None else list(self.interval),
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
        """A pandas DataFrame with a row for each neighbor and feature: both values, do they agree, does it matter.

        Examples
        --------
        >>> from bayespatch import PatchworkClassifier
        >>> X, y = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5, ["sick", "sick", "well", "well"] * 5
        >>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit(X, y)
        >>> table = clf.explain(["yes", 60], top=2).to_frame()
        >>> table[["outcome", "feature", "case_value"]].iloc[0].tolist()
        ['sick', 'x0', 'yes']
        """
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

        Examples
        --------
        >>> from bayespatch import PatchworkClassifier
        >>> X, y = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5, ["sick", "sick", "well", "well"] * 5
        >>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit(X, y)
        >>> "sick" in clf.explain(["yes", 60]).to_text(width=80)
        True
        """
        return as_text(self, width)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return as_html(self)
