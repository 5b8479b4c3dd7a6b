"""Before a model is promoted: whether it is worse than the active one on recent outcomes.

Both models predict the patients of the newest consultations whose outcome has become known, each without the votes of
the case and of other visits of the same patient; a case that a model learned from is predicted with importances learned
without it (`Fitted.loo_probabilities`). The Brier scores are compared in pairs by a one-sided t test. A Brier score is
bounded, so no single case can decide the test. The new model counts as worse if an equally good model would look this
bad in fewer than 5% of comparisons. With fewer than 30 outcomes, there is no test.
"""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_1samp
from sqlalchemy import Connection, func, select

from bayespatch.casebase import cases as case_rows
from bayespatch.casebase import models
from bayespatch.casebase.audit import ago
from bayespatch.casebase.cases import Definition
from bayespatch.casebase.comparison import leave_one_out
from bayespatch.casebase.database import Database
from bayespatch.casebase.errors import CaseBaseError, ConflictError
from bayespatch.casebase.retained import Answering, answering, state_of
from bayespatch.casebase.tables import Row, cases, consultations, training
from bayespatch.casebase.visits import visits_of, without_votes
from bayespatch.source.frame import frame_of

DAYS = 180  # an outcome is recent if it became known within this many days
MOST, LEAST = 300, 30  # maximum and minimum number of outcomes to compare
MOST_REASON = 1000  # characters
LEVEL = 0.05  # probability of rejecting an equally good model


@dataclass(frozen=True)
class RecentComparison:
    """The active and a new model on recent outcomes; None with fewer than 30 known outcomes.

    Attributes
    ----------
    active : int
        The active version.
    n : int
        Outcomes that both models predict.
    old_brier, new_brier : float or None
        Mean Brier scores of the active and the new model.
    p : float or None
        Probability that an equally good model looks at least this bad.
    """

    active: int
    n: int
    old_brier: float | None = None
    new_brier: float | None = None
    p: float | None = None

    @property
    def worse(self) -> bool:
        """Whether the new model is worse."""
        return self.p is not None and self.p < LEVEL

    @property
    def text(self) -> str:
        """The scores in one line."""
        return (
            f"Brier score {self.new_brier:.3f} instead of {self.old_brier:.3f} on {self.n} outcomes, p = {self.p:.2g}"
        )


def compare_recent(database: Database, version: int) -> RecentComparison | None:
    """Compare a version with the active one; None if no version is active or this one is already active."""
    with database.reading() as connection:
        new, old = models.find(connection, version), models.active(connection)
        if old is None or old.version == new.version or new.sha256 is None:
            return None
        definition = case_rows.required_definition(connection)
        rows = recent_outcomes(connection)
        if len(rows) < LEAST:
            return RecentComparison(old.version, len(rows))
        before = _probabilities(connection, definition, _answering(connection, old, database), rows)
        after = _probabilities(connection, definition, _answering(connection, new, database), rows)
    return paired(old.version, before, after, [definition.class_name(json.loads(row.outcome)) for row in rows])


def check_reason(reason: object) -> str:
    """A valid reason for promoting a model that is worse; may be empty."""
    if not isinstance(reason, str) or len(reason) > MOST_REASON or "\0" in reason:
        raise CaseBaseError(f"reason must be text of at most {MOST_REASON:,} characters; shorten it")
    return reason.strip()


def recent_outcomes(connection: Connection) -> list[Row]:
    """The last consultation of each case whose outcome became known recently, newest outcome first."""
    since = ago(timedelta(days=DAYS))
    last = select(func.max(consultations.c.id)).group_by(consultations.c.case_id)
    query = (
        select(consultations.c.case_id, consultations.c["values"], cases.c.outcome, cases.c.patient)
        .join(cases, cases.c.id == consultations.c.case_id)
        .where(cases.c.outcome.is_not(None), cases.c.outcome_at >= since, consultations.c.id.in_(last))
        .order_by(cases.c.outcome_at.desc(), cases.c.id.desc())
    )
    return list(connection.execute(query.limit(MOST)))


def paired(
    active: int,
    before: list[dict[str, float] | None],
    after: list[dict[str, float] | None],
    happened: list[str],
) -> RecentComparison:
    """Compare the class probabilities of two models with the outcomes; None: a model cannot predict the case.

    Examples
    --------
    >>> good, bad = [{"sick": 0.9, "well": 0.1}] * 40, [{"sick": 0.6, "well": 0.4}] * 40
    >>> found = paired(1, good, [bad[0], *good[1:20], *bad[20:]], ["sick"] * 40)
    >>> found.n, round(found.old_brier, 3), round(found.new_brier, 3), found.worse
    (40, 0.01, 0.089, True)
    """
    scores = np.array(
        [
            (_brier(old, name), _brier(new, name))
            for old, new, name in zip(before, after, happened, strict=True)
            if old is not None and new is not None
        ]
    ).reshape(-1, 2)
    if len(scores) < LEAST:
        return RecentComparison(active, len(scores))
    difference: NDArray[np.float64] = scores[:, 1] - scores[:, 0]
    old, new = scores.mean(axis=0).tolist()
    if math.isclose(float(np.ptp(difference)), 0.0, abs_tol=1e-12):
        p = 0.0 if float(difference[0]) > 1e-12 else 1.0
    else:
        p = float(ttest_1samp(difference, 0.0, alternative="greater").pvalue)
    return RecentComparison(active, len(scores), old, new, p)


def _brier(probabilities: dict[str, float], name: str) -> float:
    """Half the squared distance from the outcome; a class that the model does not know has probability 0."""
    names = {*probabilities, name}
    return 0.5 * sum((probabilities.get(one, 0.0) - (one == name)) ** 2 for one in names)


def _answering(connection: Connection, model: models.ModelVersion, database: Database) -> Answering:
    """A version with the past cases retained since, as it would answer now."""
    clf = models.read_model(connection, model.version, model.sha256, database.folder)
    return answering(connection, model, state_of(connection, model), clf)


def _probabilities(
    connection: Connection, definition: Definition, model: Answering, rows: list[Row]
) -> list[dict[str, float] | None]:
    """The probabilities of each class, without the patient's own past cases; None if these cannot be left out."""
    left_out = leave_one_out(model.clf.fitted_)
    place = {case: i for i, case in enumerate(left_out.case_ids)}
    query = select(training.c.case_id).where(training.c.version == model.state.version)
    learned = set(connection.execute(query).scalars())
    names = definition.features.names
    results: list[dict[str, float] | None] = []
    for row in rows:
        if row.case_id in place:
            p = left_out.probabilities[place[row.case_id]]
        elif row.case_id in learned:
            results.append(None)  # in a large table, only some past cases have leave-one-out predictions
            continue
        else:
            try:
                clf = without_votes(model.clf, [row.case_id, *visits_of(connection, row.patient)])
            except ConflictError:  # all past cases are visits of this patient
                results.append(None)
                continue
            X = frame_of("the case base", names, [[row.values[name] for name in names]])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the consultation reported them
                p = clf.predict_proba(X)[0]
        results.append(dict(zip(left_out.classes, p.tolist(), strict=True)))
    return results
