"""Past cases that were retained since the active model was fitted vote at once, without a refit.

A new past case votes with the importances, the coding and the calibration of the active model, exactly as if it had
been in the training table, given these. Calibration and pool are learned from leave-one-out predictions of the
training table and do not change until the next refit.

The database shows which past cases voted at any time: those retained before it, minus those forgotten before it.
Follow-up columns of these cases are used from the next refit on.
Nothing else is stored, so that all processes, including one started after a crash, use the same cases.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, func, select

from bayespatch.casebase.cases import PAST
from bayespatch.casebase.models import ModelVersion
from bayespatch.casebase.tables import Row, cases
from bayespatch.dictionary import Value
from bayespatch.encode import EncodedTable, Schema, read_rows
from bayespatch.encode.table import PlainTable
from bayespatch.estimator import PatchworkClassifier
from bayespatch.fitted import FittedClasses
from bayespatch.predict import ClosedForm


class State(NamedTuple):
    """The past cases of the active model; answers with equal states come from the same past cases."""

    version: int
    sha256: str
    n_retained: int  # past cases retained since the model was fitted
    last: int  # audit row of the newest one


def state_of(connection: Connection, model: ModelVersion) -> State:
    """The current state of the active model."""
    since = select(func.count(), func.max(cases.c.retained)).where(_since(model.known_at))
    n, last = connection.execute(since).one()
    return State(model.version, str(model.sha256), n, last or model.known_at)


class Answering(NamedTuple):
    """The active model with the past cases retained since it was fitted.

    Attributes
    ----------
    state : State
    clf : PatchworkClassifier
    n_waiting : int
        Retained cases that vote only after a refit, because their class is new to the model or the model samples
        neighbors.
    """

    state: State
    clf: PatchworkClassifier
    n_waiting: int

    def about(self, voters: PatchworkClassifier) -> dict[str, int]:
        """Numbers of past cases behind an answer of `asked`, for `Explanation.to_dict()["about"]`."""
        fitted = self.clf.fitted_
        n_retained = self.state.n_retained - self.n_waiting
        n_own = len(fitted.parents) - len(voters.fitted_.parents)
        return {
            "version": self.state.version,
            "past_cases": len(fitted.x) - n_own,
            "own_visits": n_own,
            "retained": n_retained,
            "waiting": self.n_waiting,
        }

    def updated(self, connection: Connection, state: State) -> Answering | None:
        """The model with newly retained cases; None if past cases were forgotten and it must be read again."""
        if state[:2] != self.state[:2] or state.last < self.state.last:
            return None
        new = _read(connection, self.state.last)
        if self.state.n_retained + len(new) != state.n_retained:
            return None
        clf, n_waiting = _with_retained(connection, self.clf, new)
        return Answering(state, clf, self.n_waiting + n_waiting)


def answering(connection: Connection, model: ModelVersion, state: State, clf: PatchworkClassifier) -> Answering:
    """A stored model with newly retained cases."""
    clf, n_waiting = _with_retained(connection, clf, _read(connection, model.known_at))
    return Answering(state, clf, n_waiting)


def _since(number: int) -> ColumnElement[bool]:
    return (cases.c.retained > number) & (cases.c.state == PAST)


def _read(connection: Connection, after: int) -> list[Row]:
    wanted = select(cases.c.id, cases.c["values"], cases.c.outcome, cases.c.patient).where(_since(after))
    return list(connection.execute(wanted.order_by(cases.c.retained, cases.c.id)))


def _with_retained(
    connection: Connection, clf: PatchworkClassifier, new: Sequence[Row]
) -> tuple[PatchworkClassifier, int]:
    """The model with the new past cases that can vote, and the number of those that cannot."""
    fitted = clf.fitted_
    assert isinstance(fitted, FittedClasses)
    code_of = {outcome: code for code, outcome in enumerate(fitted.classes.tolist())}
    codes = [code_of.get(json.loads(row.outcome), -1) for row in new]
    able = [i for i, code in enumerate(codes) if code >= 0] if fitted.votes_are_closed else []
    if able:
        rows = [new[i] for i in able]
        outcomes = np.array([codes[i] for i in able], np.int64)
        ids = [str(row.id) for row in rows]
        clf = with_cases(clf, [row.values for row in rows], outcomes, ids, _same(connection, clf, rows))
    return clf, len(new) - len(able)


def _same(connection: Connection, clf: PatchworkClassifier, new: Sequence[Row]) -> dict[str, str]:
    """An earlier case of the same patient for each new case, if the table has one."""
    named = {row.patient for row in new if row.patient is not None}
    if not named:
        return {}
    wanted = select(cases.c.id, cases.c.patient).where(cases.c.patient.is_not(None))
    patients = {str(row.id): row.patient for row in connection.execute(wanted) if row.patient in named}
    first: dict[str, str] = {}
    for name in clf.fitted_.ids or ():
        if name in patients:
            first.setdefault(patients[name], name)
    same = {}
    for row in new:
        if row.patient is not None and first.setdefault(row.patient, str(row.id)) != str(row.id):
            same[str(row.id)] = first[row.patient]
    return same


def with_cases(
    clf: PatchworkClassifier,
    rows: Sequence[Mapping[str, Value]],
    y: NDArray[np.int64],
    ids: Sequence[str],
    same: Mapping[str, str] | None = None,
) -> PatchworkClassifier:
    """A fitted classifier in which further past cases vote; closed-form votes only.

    Parameters
    ----------
    clf : PatchworkClassifier
        The fitted classifier, which is not changed.
    rows : sequence of k dicts
        Values by feature.
    y : int array of shape (k,)
        Their classes, as indices into `classes_`.
    ids : sequence of k strings
    same : dict, optional
        Id of a new case -> id of another case of the same patient, earlier in the table.

    Returns
    -------
    PatchworkClassifier
        Its last k rows are the new cases. A value that does not occur in the training table matches no case.

    Examples
    --------
    >>> more = with_cases(clf, [{"x0": "yes", "x1": 59}], np.array([0]), ["new"])
    >>> len(clf.parents_), len(more.parents_), more.ids_[-1]
    (20, 21, 'new')
    """
    old = clf.fitted_
    table = read_rows(rows, old.schema, ids)
    encoded = old.schema.encode(table)
    n, k = len(old.x), len(rows)
    names = tuple(map(str, range(n))) if old.ids is None else old.ids
    groups = old.groups
    if groups is not None or same:
        before = np.arange(n) if groups is None else groups
        groups = np.concatenate([before, before.max(initial=-1) + 1 + np.arange(k)])
        place = {name: i for i, name in enumerate((*names, *ids))}
        for name in ids:
            if name in (same or {}):
                groups[place[name]] = groups[place[(same or {})[name]]]
    x, values = _as_past(table, encoded, old.schema)
    opinion = old.opinion
    if opinion is not None:  # it was not fitted to the new cases, so its predictions for them are out of fold
        assert isinstance(old, FittedClasses)
        opinion_on_new = old.opinion_on(table, encoded.values)
        opinion = replace(opinion, loo=np.concatenate([opinion.loo, opinion_on_new]))
    fitted = replace(
        old,
        x=np.concatenate([old.x, x]),
        values=np.concatenate([old.values, values]),
        y=np.concatenate([old.y, y]),
        groups=groups,
        sample_weight=None if old.sample_weight is None else np.append(old.sample_weight, np.ones(k)),
        ids=names + tuple(ids),
        parents=np.concatenate([old.parents, n + np.arange(k)]),
        posterior=replace(old.posterior),
        opinion=opinion,
        follow_up=None if old.follow_up is None else old.follow_up.extended(k),
    )
    # Anything learned from leave-one-out predictions stays the same until the next refit.
    vars(fitted).update({name: getattr(old, name) for name in ("importance", "subgroups") if name in vars(old)})
    ClosedForm.of(old.posterior, old.past).add_cases(fitted.posterior, fitted.past)
    new = copy.copy(clf)
    new.fitted_ = fitted
    return new


def _as_past(
    table: PlainTable, encoded: EncodedTable, schema: Schema
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Codes and values of new past cases: values unknown to the schema must not agree with each other."""
    columns = [table.columns[table.names.index(name)] for name in schema.names]
    gone = encoded.unseen & np.column_stack([column.is_missing for column in columns])
    unequal = encoded.unseen & ~gone & np.array([not column.has_window for column in schema.columns])
    x = np.where(gone, np.nan, np.where(unequal, schema.n_values + 1.0, encoded.x))
    return x, np.where(gone, np.nan, encoded.values)
