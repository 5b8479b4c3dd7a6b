"""What a model file may hold without its past cases: the one place where that is said.

Every fitted attribute of an estimator, and every field of its posterior and of its leave-one-out review, stands here.
A new one has to be entered: `kept_of` refuses a name that it does not know, and a test reads the names off fitted
models.

ALWAYS are totals over all rows: importances of the features, the constants, the calibration, names of columns and
classes. WITH_CASES is everything that belongs to single rows (who resembles whom, votes on a row, how many neighbors it
has) and everything that is a row's own value (edges of bins, knots of ranks, ranges, categories, cut points of the
outcome, texts made of these). DERIVED is computed from the rest and stored nowhere.
"""

from __future__ import annotations

from enum import Enum


class Kept(Enum):
    """Where an attribute of a model is stored."""

    ALWAYS = "in every model file"
    WITH_CASES = "beside the past cases, in their part or in their file"
    DERIVED = "nowhere"


_ALWAYS = (
    "classes_",
    "target_",
    "n_features_in_",
    "feature_names_in_",
    "hyper_",
    "tuning_",
    "calibration_",
    "pool_",
    "posterior_.q",
    "posterior_.steps",
    "posterior_.model",
    "posterior_.settings",
    "posterior_.timing",
)
_WITH_CASES = (
    "salt_",
    "schema_",
    "class_names_",
    "edges_",
    "dressing_",
    "opinion_",
    "parents_",
    "cases_",
    "x_",
    "y_",
    "values_",
    "ids_",
    "outcomes_",
    "posterior_.q_tilde",
    "posterior_.z_mean",
    "posterior_.votes_mean",
    "posterior_.n_neighbors",
    "posterior_.log_joint",
    "posterior_.kept_w_mean",
    "posterior_.kept_votes",
    "review_.rows",
    "review_.votes",
    "review_.familiarity",
)
KEPT: dict[str, Kept] = dict.fromkeys(_ALWAYS, Kept.ALWAYS) | dict.fromkeys(_WITH_CASES, Kept.WITH_CASES)


def kept_of(name: str) -> Kept:
    """Where an attribute (``"calibration_"``, ``"posterior_.q"``) is stored.

    Examples
    --------
    >>> kept_of("posterior_.votes_mean")
    <Kept.WITH_CASES: 'beside the past cases, in their part or in their file'>
    """
    if name not in KEPT:
        raise ValueError(f"nobody has said whether {name} may be stored without the past cases; enter it in kept.py")
    return KEPT[name]
