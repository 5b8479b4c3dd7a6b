"""The overview of a model as plain data: features, past cases, and performance overall and by subgroup."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from bayespatch.encode.table import DataFrame
from bayespatch.explain import html, words
from bayespatch.metrics import CalibrationBin, Threshold
from bayespatch.subgroups import Subgroup
from bayespatch.types import JSONObject

_MOST_FEATURES = 10  # listed in the summary; the report lists all


@dataclass(frozen=True)
class FeatureSummary:
    """One feature: coding, missing values, importance, and importance by other methods.

    Attributes
    ----------
    name, description, kind : str
    values : tuple of str
        Its values or bins, as text.
    n_missing : int
        Number of past cases with a missing value.
    importance : float
        Importance for predictions: the share of the base rates' log loss that the feature removes.
    importance_interval : pair of floats
        Its 95 % interval.
    harmful : bool
        Whether predictions would be better without the feature: the whole interval of its gain is below 0.
    compared : bool
        Whether cases are compared on it; False if all past cases, or all but one, have the same value.
    q, q_interval : float and pair of floats
        Posterior mean and 90 % interval of the model's importance parameter.
    ranks : dict
        Its rank, from 1, by this model's importance and by other measures.
    """

    name: str
    description: str
    kind: str
    values: tuple[str, ...]
    n_missing: int
    importance: float
    importance_interval: tuple[float, float]
    harmful: bool
    compared: bool
    q: float
    q_interval: tuple[float, float]
    ranks: dict[str, int]


@dataclass(frozen=True)
class Performance:
    """Performance on past cases, each predicted from all the others as if it were new.

    Attributes
    ----------
    n : int
        Number of cases.
    scores, intervals : dict
        Accuracy, AUC, log loss and Brier score, and their 95 % bootstrap intervals; AUC is None with one class.
    reference : dict
        Log loss and Brier score of always predicting the class frequencies; accuracy of always predicting the most
        common class.
    average_precision : dict
        Area under the precision-recall curve of each class; for an uninformative model, it is the share of the class.
    decision : dict or None
        The flagged class, under "label", and its threshold, under "at".
    curves, thresholds, roc, precision_recall : dict
        For each class: calibration (tuple of CalibrationBin), results of flagging cases above a probability (tuple of
        Threshold), ROC curve (points of 1 - specificity and sensitivity), and precision-recall curve (its corners as
        recall and precision).
    """

    n: int
    scores: dict[str, float | None]
    intervals: dict[str, tuple[float, float] | None]
    reference: dict[str, float]
    average_precision: dict[str, float | None]
    decision: JSONObject | None
    curves: dict[str, tuple[CalibrationBin, ...]]
    thresholds: dict[str, tuple[Threshold, ...]]
    roc: dict[str, tuple[tuple[float, float], ...]]
    precision_recall: dict[str, tuple[tuple[float, float], ...]]


@dataclass(frozen=True)
class PastCase:
    """A past case that deserves attention.

    Attributes
    ----------
    index, id, outcome
        Row, name and outcome of the past case.
    n_cases : float or None
        Expected number of cases of which it is a neighbor; None if it is not a parent.
    percentile : float or None
        How typical it is among the past cases; None if it has no leave-one-out votes.
    """

    index: int
    id: str
    outcome: str
    n_cases: float | None
    percentile: float | None


@dataclass(frozen=True)
class Overview:
    """A fitted model as a whole. Created by `PatchworkClassifier.overview`.

    Attributes
    ----------
    about : dict
        Estimator, package version, model, likelihood, target, and numbers of cases, parents and features.
    classes : dict
        Number of past cases of each class.
    parameters, hyper : dict
        The estimator's parameters that differ from their defaults, as text, and the model's constants.
    how_found : str
        How these constants were chosen.
    features : tuple of FeatureSummary
        In the order of the table.
    explained : float
        Share of the base rates' log loss that all features together remove: the sum of their gains.
    n_importance : int
        Number of past cases on which importances were measured.
    performance : Performance
    subgroups : tuple of Subgroup
    opinions : dict or None
        With a second opinion: its "weight", and under "log_loss" and "auc" the scores of precedents, second opinion and
        pool on past cases, each predicted from all the others.
    focus : str
        The class whose rates and curves are shown: the last one.
    influential, unusual : tuple of PastCase
        The past cases that are neighbors of the most cases, and the past cases least like the others.
    n_without_precedent : int
        Number of past cases with leave-one-out votes that would be flagged as lacking an adequate precedent.
    calibration : dict
        Slope and intercepts of the map from votes to probabilities.
    diagnostics : dict
        Whether the chains have mixed, and the diagnostics of the slowest-mixing quantities.
    """

    about: JSONObject
    classes: dict[str, int]
    parameters: dict[str, str]
    hyper: JSONObject
    how_found: str
    features: tuple[FeatureSummary, ...]
    explained: float
    n_importance: int
    performance: Performance
    subgroups: tuple[Subgroup, ...]
    opinions: JSONObject | None
    focus: str
    influential: tuple[PastCase, ...]
    unusual: tuple[PastCase, ...]
    n_without_precedent: int
    calibration: JSONObject
    diagnostics: JSONObject = field(default_factory=dict)

    def to_dict(self) -> JSONObject:
        """Plain data, ready for JSON."""
        return {name: _listed(value) for name, value in asdict(self).items()}

    def to_frame(self) -> DataFrame:
        """The features as a pandas DataFrame: importance and q with their intervals, and the ranks."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install pandas") from error
        rows = [
            {
                **dict(
                    zip(
                        ("importance", "2.5%", "97.5%"), (feature.importance, *feature.importance_interval), strict=True
                    )
                ),
                **dict(zip(("q", "q 5%", "q 95%"), (feature.q, *feature.q_interval), strict=True)),
                **{f"rank by {name}": rank for name, rank in feature.ranks.items()},
                "n_missing": feature.n_missing,
            }
            for feature in self.features
        ]
        return pandas.DataFrame(rows, index=pandas.Index([feature.name for feature in self.features], name="feature"))

    def to_text(self) -> str:
        """A summary for a terminal: past cases, scores, and the most important features.

        Examples
        --------
        >>> print(clf.overview().to_text().splitlines()[0])
        PatchworkClassifier with 20 past cases and 2 features
        """
        summary = self._summary()
        scores = (f"  {name}: {score:.3f}{ends}" for name, score, ends in summary["scores"])
        features = (f"  {name}: {words.percent(share)} ({ends})" for name, share, ends in summary["features"])
        return "\n".join(
            [summary["title"], *summary["notes"], "", summary["how"], *scores, "", summary["most"], *features]
        )

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str | None:
        try:
            summary = html.environment().get_template("overview.html").render(**self._summary())
        except ImportError:
            return None
        return html.with_style(summary)

    def _summary(self) -> JSONObject:
        """The contents of the summary in a terminal and in a notebook."""
        about, good = self.about, self.performance
        counts = words.listed(f"{name} ({count})" for name, count in self.classes.items())
        ends = {name: f" ({pair[0]:.3f}–{pair[1]:.3f})" if pair else "" for name, pair in good.intervals.items()}
        ranked = sorted(self.features, key=lambda feature: -feature.importance)[:_MOST_FEATURES]
        converged = self.diagnostics["converged"]
        return {
            "title": f"{about['estimator']} with {about['cases']} past cases and {about['features']} features",
            "notes": [
                f"Outcome{', in ranges' if about['is_number'] else ''}: {counts}",
                f"No adequate precedent: {self.n_without_precedent} of {good.n} past cases",
                f"Importances: {'converged' if converged else 'uncertain, see diagnostics_'}",
            ],
            "how": "Scores (95% interval), each past case predicted from all the others",
            "scores": [(name, score, ends[name]) for name, score in good.scores.items() if score is not None],
            "most": "Share of the log loss that each feature removes (95% interval)",
            "features": [
                (part.description or part.name, part.importance, words.interval(part.importance_interval))
                for part in ranked
            ],
        }


def _listed(data: object) -> object:
    """Convert tuples to lists, as JSON has no tuples."""
    if isinstance(data, dict):
        return {key: _listed(value) for key, value in data.items()}
    return [_listed(value) for value in data] if isinstance(data, list | tuple) else data
