"""What a model file may hold without its past cases: the one place where that is said.

Every fitted attribute of an estimator, and every field of its posterior and of its leave-one-out votes, stands here.
A new one has to be entered: `where_stored` refuses a name that it does not know, and a test reads the names off fitted
models.

ALWAYS are totals over all rows: importances of the features, the constants, the calibration, names of columns and
classes. WITH_CASES is everything that belongs to single rows (who resembles whom, votes on a row, how many neighbors it
has) and everything that is a row's own value (edges of bins, knots of ranks, ranges, categories, cut points of the
outcome, texts made of these). DERIVED is computed from the rest and stored nowhere.
"""

from __future__ import annotations

from enum import Enum


class Stored(Enum):
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
    "posterior_.log_weights",
    "posterior_.compares_missing",
    "posterior_.model",
    "posterior_.settings",
    "posterior_.timing",
)
_WITH_CASES = (
    "salt_",
    "schema_",
    "class_names_",
    "edges_",
    "kernel_density_",
    "opinion_",
    "parents_",
    "cases_",
    "x_",
    "y_",
    "values_",
    "groups_",
    "ids_",
    "outcomes_",
    "posterior_.q_tilde",
    "posterior_.z_mean",
    "posterior_.votes_mean",
    "posterior_.n_neighbors",
    "posterior_.log_joint",
    "posterior_.kept_w_mean",
    "posterior_.kept_votes",
    "loo_.rows",
    "loo_.votes",
    "loo_.familiarity",
)
STORED: dict[str, Stored] = dict.fromkeys(_ALWAYS, Stored.ALWAYS) | dict.fromkeys(_WITH_CASES, Stored.WITH_CASES)


def where_stored(name: str) -> Stored:
    """Where an attribute (``"calibration_"``, ``"posterior_.q"``) is stored.

    Examples
    --------
    >>> where_stored("posterior_.votes_mean")
    <Stored.WITH_CASES: 'beside the past cases, in their part or in their file'>
    """
    if name not in STORED:
        raise ValueError(
            f"{name} is not in the table of contents.py, which says what may be stored without the past cases"
        )
    return STORED[name]
