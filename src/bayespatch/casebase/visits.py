"""Visits of one patient: they do not vote on each other, and are forgotten together."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from bayespatch.casebase.cases import WITHDRAWN, find_live
from bayespatch.casebase.errors import ConflictError
from bayespatch.casebase.tables import cases
from bayespatch.casebase.without import posterior_without
from bayespatch.estimator import PatchworkClassifier


def patient_of(connection: Connection, case: int | str | None, patient: str | None) -> str | None:
    """The patient of a consultation: that of the existing case, or the one passed."""
    if case is None:
        return patient
    own: str | None = find_live(connection, case).patient
    if patient is not None and own != patient:
        raise ConflictError(f"case {case} belongs to a different patient than {patient!r}; omit one of the two")
    return own


def visits_of(connection: Connection, patient: str | None) -> list[int]:
    """The cases of a patient that were not forgotten."""
    if patient is None:
        return []
    wanted = select(cases.c.id).where(cases.c.patient == patient, cases.c.state != WITHDRAWN).order_by(cases.c.id)
    return [int(number) for number in connection.execute(wanted).scalars()]


def groups_of(patients: Sequence[str | None]) -> NDArray[np.int64] | None:
    """Equal numbers for the visits of one patient; None if every patient has one visit.

    Examples
    --------
    >>> groups_of(["a", None, "b", "a", None]), groups_of(["a", None, "b"])
    (array([0, 1, 2, 0, 3]), None)
    """
    number: dict[object, int] = {}
    keys = [(patient,) if patient is not None else i for i, patient in enumerate(patients)]
    groups = np.array([number.setdefault(key, len(number)) for key in keys], np.int64)
    return groups if len(number) < len(keys) else None


def without_votes(clf: PatchworkClassifier, case_ids: Sequence[int]) -> PatchworkClassifier:
    """A fitted classifier in which some past cases do not vote and everything else is unchanged.

    Examples
    --------
    >>> without_votes(clf, []) is clf
    True
    """
    own = set(map(str, case_ids))
    fitted = clf.fitted_
    rows = [row for row, name in enumerate(fitted.ids or ()) if name in own]
    places = np.flatnonzero(np.isin(fitted.parents, rows))
    if not len(places):
        return clf
    n_left = len(fitted.parents) - len(places)
    if n_left < 1:
        raise ConflictError("all past cases are visits of this patient, so no case could vote")
    new = copy.copy(clf)
    posterior = posterior_without(fitted.posterior, places, np.array([], np.int64), n_left)
    new.fitted_ = replace(fitted, parents=np.delete(fitted.parents, places), posterior=posterior)
    # These describe the model, whoever votes on a case, and take seconds to compute.
    vars(new.fitted_).update(importance=fitted.importance, subgroups=fitted.subgroups)
    return new
