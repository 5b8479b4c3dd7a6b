"""Drift: predictions compared with outcomes over time."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
from sqlalchemy import Connection, select

from bayespatch.casebase.cases import Definition
from bayespatch.casebase.comparison import LeaveOneOutPredictions, scores
from bayespatch.casebase.errors import CaseBaseError
from bayespatch.casebase.tables import Row, cases, consultations, decisions
from bayespatch.metrics import balance
from bayespatch.types import JSONObject

PERIODS = {"year": 4, "month": 7, "day": 10, "all": 0}  # length of the period's name in an ISO time


def drift(connection: Connection, definition: Definition, every: str) -> list[JSONObject]:
    """One row for each period, earliest first, from the last consultation of each case before its outcome.

    Returns
    -------
    list of dict
        "period"; "consultations"; "without_precedent", their share; "decisions" and "agreement", the share that
        agreed; "outcomes", the number of known outcomes, and for these "log_score", "brier", "accuracy",
        "calibration" and "classes": for each class the expected and observed numbers, and z, their difference
        in standard deviations.
    """
    if every not in PERIODS:
        raise CaseBaseError(f"every={every!r} is not a period; choose one of {', '.join(PERIODS)}")
    query = (
        select(
            consultations.c.id,
            consultations.c.case_id,
            consultations.c.at,
            consultations.c.explanation["prediction"]["probabilities"].label("probabilities"),
            consultations.c.explanation["precedent"]["adequate"].label("adequate"),
            cases.c.outcome,
            decisions.c.agrees,
        )
        .join(cases, cases.c.id == consultations.c.case_id)
        .outerjoin(decisions, decisions.c.consultation_id == consultations.c.id)
        .order_by(consultations.c.id)
    )
    rows: list[Row] = list(connection.execute(query))
    last = {row.case_id: row.id for row in rows}
    periods: dict[str, list[Row]] = {}
    for row in rows:
        periods.setdefault(row.at[: PERIODS[every]] or "all", []).append(row)
    return [_period(name, members, last, definition) for name, members in periods.items()]


def _period(name: str, rows: list[Row], last: dict[int, int], definition: Definition) -> JSONObject:
    decided = [row.agrees for row in rows if row.agrees is not None]
    ended = [row for row in rows if row.outcome is not None and last[row.case_id] == row.id]
    counts: JSONObject = {
        "period": name,
        "consultations": len(rows),
        "without_precedent": sum(not row.adequate for row in rows) / len(rows),
        "decisions": len(decided),
        "agreement": sum(decided) / len(decided) if decided else None,
        "outcomes": len(ended),
    }
    if not ended:
        return {**counts, **dict.fromkeys(("log_score", "brier", "accuracy")), "calibration": [], "classes": {}}
    classes = tuple(ended[0].probabilities)
    p = np.array([[row.probabilities.get(name, 0.0) for name in classes] for row in ended])
    names = [definition.class_name(json.loads(row.outcome)) for row in ended]
    p = np.column_stack([p, *(np.zeros(len(p)) for _ in set(names) - set(classes))])
    classes += tuple(sorted(set(names) - set(classes)))  # classes that no model predicts
    happened = np.array([classes.index(name) for name in names])
    results = LeaveOneOutPredictions(tuple(row.case_id for row in ended), p, happened, classes)
    by_class = {}
    for m, label in enumerate(classes):
        by_class[label] = asdict(balance(p[:, m], happened == m))
    measures = scores(results)
    del measures["n"]
    return {**counts, **measures, "classes": by_class}
