"""The overview of a model as plain data: features, past cases, performance, also by subgroup."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from bayespatch.encode.table import DataFrame
from bayespatch.explain import html, words
from bayespatch.metrics import CalibrationBin, Threshold
from bayespatch.subgroups import Subgroup
from bayespatch.types import JSONObject

_MOST_FEATURES = 10  # in the summary; all are in the report


@dataclass(frozen=True)
class FeatureSummary:
    """One feature: coding, missing values, importance, and importance by other methods.

    Attributes
    ----------
    name, description, kind : str
    values : tuple of str
        Its values or bins, as text.
    n_missing : int
        Among the past cases.
    importance : float
        For predictions: the share of the base rates' log loss that the feature removes.
    importance_interval : pair of floats
        Its 95 % interval.
    harmful : bool
        Whether predictions would be better without the feature: the whole interval of its gain is below 0.
    compared : bool
        Whether cases are compared in it; False if all past cases, or all but one, have the same value.
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
    """Performance on past cases, each predicted from the others as if it were new.

    Attributes
    ----------
    n : int
        Cases.
    scores, intervals : dict
        Accuracy, AUC, log loss and Brier score, and their 95 % bootstrap intervals; AUC is None with one class.
    reference : dict
        Log loss and Brier score of always predicting the class frequencies; accuracy of the most common class.
    average_precision : dict
        Of each class: area under the precision-recall curve; an uninformative model has the share of the class.
    decision : dict or None
        The flagged class, under "label", and its threshold, under "at".
    curves, thresholds, roc, precision_recall : dict
        Of each class: calibration (tuple of CalibrationBin), results of flagging it above a probability (tuple of
        Threshold), its ROC curve (points of 1 - specificity and sensitivity), and its precision-recall curve (corners,
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
        Of the past case.
    n_cases : float
        Expected number of cases of which it is a neighbor; nan if it is not a parent.
    percentile : float
        How typical it is among the past cases; nan if it has no leave-one-out votes.
    """

    index: int
    id: str
    outcome: str
    n_cases: float | None
    percentile: float | None


@dataclass(frozen=True)
class Overview:
    """A fitted model as a whole. Made by `PatchworkClassifier.overview`.

    Attributes
    ----------
    about : dict
        Estimator, package, model, likelihood, numbers of cases, parents and features, target.
    classes : dict
        Number of past cases of each class.
    parameters, hyper : dict
        The estimator's parameters other than defaults, and the model's constants, as strings and numbers.
    how_found : str
        How these constants were found.
    features : tuple of FeatureSummary
        In the order of the table.
    explained : float
        Share of the base rates' log loss that all features together remove: the sum of their gains.
    n_importance : int
        Past cases on which importances were measured.
    performance : Performance
    subgroups : tuple of Subgroup
    opinions : dict or None
        With a second opinion: its `weight`, and under `log_loss` and `auc` the scores of precedents, second opinion and
        pool on past cases, each predicted from all others.
    focus : str
        The class whose rates and curves are shown, which is the last one.
    influential, unusual : tuple of PastCase
        The past cases that are neighbors of most others, and those least like the others.
    n_without_precedent : int
        Number of past cases with leave-one-out votes that would be flagged.
    calibration : dict
        Slope and intercepts of the map from votes to probabilities.
    diagnostics : dict
        Whether the chains have mixed, and the numbers of the slowest quantities.
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
        PatchworkClassifier of 20 past cases and 2 features
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
        """What the text and the notebook show."""
        about, good = self.about, self.performance
        counts = words.listed(f"{name} ({count})" for name, count in self.classes.items())
        ends = {name: f" ({pair[0]:.3f}–{pair[1]:.3f})" if pair else "" for name, pair in good.intervals.items()}
        ranked = sorted(self.features, key=lambda feature: -feature.importance)[:_MOST_FEATURES]
        converged = self.diagnostics["converged"]
        return {
            "title": f"{about['estimator']} of {about['cases']} past cases and {about['features']} features",
            "notes": [
                f"Outcome{', in ranges' if about['is_number'] else ''}: {counts}",
                f"No adequate precedent: {self.n_without_precedent} of {good.n} past cases",
                f"Importances: {'converged' if converged else 'uncertain, see diagnostics_'}",
            ],
            "how": "Scores (95% interval), each past case predicted from all others",
            "scores": [(name, score, ends[name]) for name, score in good.scores.items() if score is not None],
            "most": "Share of the log loss that each feature removes (95% interval)",
            "features": [
                (part.description or part.name, part.importance, words.interval(part.importance_interval))
                for part in ranked
            ],
        }


def _listed(data: object) -> object:
    """Tuples as lists, as JSON has them."""
    if isinstance(data, dict):
        return {key: _listed(value) for key, value in data.items()}
    return [_listed(value) for value in data] if isinstance(data, list | tuple) else data
