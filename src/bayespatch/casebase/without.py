"""A fitted model without one of its past cases.

Removing a past case removes its vote. The importances, the calibration and the coefficients of the second opinion do
not change: given these, predictions are exactly those of a model without the case. Only a refit removes what was
learned from it.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayespatch.dictionary import Value
from bayespatch.encode import Schema
from bayespatch.encode.column import MISSING_NUMBER, Column
from bayespatch.estimator import PatchworkClassifier
from bayespatch.leave_one_out import LeaveOneOutVotes
from bayespatch.sampling.posterior import Posterior
from bayespatch.second_opinion import AdditiveScore, ClassOpinion
from bayespatch.second_opinion.design import Term

GONE = "withdrawn"  # the name of a value that only the removed case had


def without_case(
    clf: PatchworkClassifier, row: int, levels: Mapping[str, Collection[Value]] | None = None
) -> PatchworkClassifier:
    """A fitted classifier without one past case: in its table, its parents and its leave-one-out results.

    Parameters
    ----------
    clf : PatchworkClassifier
        The fitted classifier, which is not changed.
    row : int
        Row of the training table.
    levels : dict, optional
        Public values by column, such as those in a data dictionary. Any other value that only this case had is also
        removed from the schema and the second opinion: a level loses its name, and an edge, a knot or an end of a
        range moves to a place determined by the remaining cases. The codes of the remaining cases do not change; a new
        number in the gap around the removed one may fall on the other side.

    Returns
    -------
    PatchworkClassifier

    Raises
    ------
    ValueError
        If too few cases would remain.

    Examples
    --------
    >>> len(without_case(clf, 3).parents_)
    19
    """
    old = clf.fitted_
    parents, cases = np.flatnonzero(old.parents == row), np.flatnonzero(old.cases == row)
    n_left = len(old.x) - 1, len(old.parents) - len(parents), len(old.cases) - len(cases)
    left_out = np.flatnonzero(old.loo.rows == row)
    if min(n_left) < 1 or len(old.loo.rows) - len(left_out) < 1 or n_left[0] < 2:
        raise ValueError(f"the model has {len(old.x)} past cases; too few would remain without row {row}")
    values = np.delete(old.values, row, axis=0)
    schema = _without_values(old.schema, old.values[row], values, levels or {})
    loo = LeaveOneOutVotes(
        _renumbered(np.delete(old.loo.rows, left_out), row),
        np.delete(old.loo.votes, left_out, axis=0),
        np.delete(old.loo.familiarity, left_out),
    )
    new = copy.copy(clf)
    new.fitted_ = replace(
        old,
        schema=schema,
        x=np.delete(old.x, row, axis=0),
        y=np.delete(old.y, row),
        values=values,
        groups=None if old.groups is None else np.delete(old.groups, row),
        sample_weight=None if old.sample_weight is None else np.delete(old.sample_weight, row),
        ids=None if old.ids is None else old.ids[:row] + old.ids[row + 1 :],
        parents=_renumbered(np.delete(old.parents, parents), row),
        cases=_renumbered(np.delete(old.cases, cases), row),
        loo=loo,
        posterior=posterior_without(old.posterior, parents, cases, n_left[1]),
        opinion=None if old.opinion is None else _opinion_without(old.opinion, row, old.values[row], values, schema),
        shown=None if old.shown is None else _renumbered(old.shown[old.shown != row], row),
        follow_up=None if old.follow_up is None else old.follow_up.without(row),
    )
    return new


def posterior_without(
    posterior: Posterior, parents: NDArray[np.int64], cases: NDArray[np.int64], n_left: int
) -> Posterior:
    """The draws without some parents and cases; with closed-form votes they do not depend on these."""
    if posterior.log_weights is not None:
        return replace(posterior)
    w_mean, votes = posterior.kept_w_mean, posterior.kept_votes
    return replace(
        posterior,
        q_tilde=np.delete(posterior.q_tilde, parents, axis=2),
        z_mean=np.delete(np.delete(posterior.z_mean, parents, axis=1), cases, axis=0),
        votes_mean=np.delete(posterior.votes_mean, cases, axis=0),
        # The draws with this neighbor are unknown; no case has more neighbors than there are parents.
        n_neighbors=np.minimum(np.delete(posterior.n_neighbors, cases, axis=2), n_left),
        kept_w_mean=None if w_mean is None else np.delete(np.delete(w_mean, parents, axis=1), cases, axis=0),
        kept_votes=None if votes is None else np.delete(votes, cases, axis=2),
    )


def _opinion_without(
    opinion: ClassOpinion, row: int, own: NDArray[np.float64], rest: NDArray[np.float64], schema: Schema
) -> ClassOpinion:
    """The second opinion without the case's leave-one-out row and without marks at its values."""
    opinion = replace(opinion, loo=np.delete(opinion.loo, row, axis=0))
    if not isinstance(opinion, AdditiveScore):  # a user's own second opinion has only coefficients
        return opinion
    terms = [
        _term_without(term, float(own[j]), rest[:, j], schema.columns[j]) for j, term in enumerate(opinion.design.terms)
    ]
    return replace(opinion, design=replace(opinion.design, terms=tuple(terms)))


def _term_without(term: Term, own: float, rest: NDArray[np.float64], column: Column) -> Term:
    remaining = np.unique(rest[~np.isnan(rest) & (rest != MISSING_NUMBER)])
    if np.isnan(own) or own == MISSING_NUMBER or own in remaining:
        return term
    if column.is_coded:
        place = int(own) if own.is_integer() and 0 <= own < len(term.scores) else -1
        if place < 0 or column.values[place] == term.scores[place]:  # its name is kept, so its number may be too
            return term
        own = term.scores[place]
        remaining = np.array(sorted({score for code, score in enumerate(term.scores) if code in remaining}))
        scores = tuple(term.center if code == place else score for code, score in enumerate(term.scores))
        term = replace(term, scores=scores)
    low, high = (_moved((end,), own, remaining)[0] for end in (term.low, term.high))
    return replace(term, low=low, high=high, knots=_moved(term.knots, own, remaining))


def _renumbered(rows: NDArray[np.int64], gone: int) -> NDArray[np.int64]:
    return np.where(rows > gone, rows - 1, rows)


def _without_values(
    schema: Schema, own: NDArray[np.float64], rest: NDArray[np.float64], levels: Mapping[str, Collection[Value]]
) -> Schema:
    """The schema without values that only the removed case had."""
    columns = [
        _without_value(column, float(own[j]), rest[:, j], levels.get(column.name, ()))
        for j, column in enumerate(schema.columns)
    ]
    return replace(schema, columns=tuple(columns))


def _without_value(column: Column, own: float, rest: NDArray[np.float64], levels: Collection[Value]) -> Column:
    remaining = np.unique(rest[~np.isnan(rest) & (rest != MISSING_NUMBER)])
    if np.isnan(own) or own == MISSING_NUMBER or own in remaining:
        return column
    if column.is_coded:
        return _without_level(column, own, levels)
    ends = {name: _moved((getattr(column, name),), own, remaining)[0] for name in ("low", "high")}
    if column.kind == "windowed":
        return replace(column, low=min(ends.values()), high=max(ends.values()))
    if column.kind == "ranked":
        knots = _moved(column.knots, own, remaining)
        return replace(column, knots=knots, low=min(ends["low"], *knots), high=max(ends["high"], *knots))
    return replace(column, edges=_moved(column.edges, own, remaining))


def _without_level(column: Column, code: float, levels: Collection[Value]) -> Column:
    """An unused level keeps its code, so that other codes do not change, but loses its name."""
    place = int(code) if code.is_integer() and 0 <= code < len(column.values) else -1
    if place < 0 or column.family == "boolean" or column.values[place] in levels:
        return column
    values, labels, phrases = list(column.values), list(column.labels), list(column.phrases)
    # A number that no measurement has, different each time.
    values[place] = f"{GONE} {place}" if column.family == "text" else -1e24 - place * 1e20
    if labels:
        labels[place] = f"{GONE} {place}"
    if phrases:
        phrases[place] = ""
    return replace(column, values=tuple(values), labels=tuple(labels), phrases=tuple(phrases))


def _moved(marks: tuple[float, ...], own: float, remaining: NDArray[np.float64]) -> tuple[float, ...]:
    """Move marks (edges, knots, ends) at the removed value within the gap between the remaining values.

    The new place depends only on the remaining values, and none lies between the old place and the new, so that no
    code changes.
    """
    n_own = marks.count(own)
    if not n_own or not remaining.size:
        return marks
    step = (remaining[-1] - remaining[0]) / len(remaining) or 1.0
    above = int(np.searchsorted(remaining, own))
    low = remaining[above - 1] if above > 0 else remaining[0] - step
    high = remaining[above] if above < len(remaining) else remaining[-1] + step
    # Other marks in the same gap stay in place and in order.
    inside = [mark for mark in marks if low < mark < high and mark != own]
    low = max([low, *(mark for mark in inside if mark < own)])
    high = min([high, *(mark for mark in inside if mark > own)])
    places = iter(low + (high - low) * np.arange(1, n_own + 1) / (n_own + 1))
    return tuple(float(next(places)) if mark == own else mark for mark in marks)
