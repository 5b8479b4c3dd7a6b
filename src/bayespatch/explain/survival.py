"""The answer of a survival model about a case: the curve, the past cases behind it, and what affects the risk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.encode.column import MISSING
from bayespatch.explain import follow_up as course
from bayespatch.explain import guards, text, words
from bayespatch.explain.attribution import SETS_PER_FEATURE, Sets
from bayespatch.explain.evidence import agreement, close_range, common_value
from bayespatch.explain.groups import group_voters
from bayespatch.explain.html import survival_answer
from bayespatch.fitted_times import CaseVotes, FittedTimes
from bayespatch.follow_up import LEAST_CASES, N_TIMES, round_times, summary
from bayespatch.model import Data
from bayespatch.survival import effective_number
from bayespatch.types import JSONObject

Array = NDArray[np.float64]

MOST_KNOWN = 8  # up to this number of known values, the attribution evaluates all sets of them
INTERVAL = (0.05, 0.95)  # of the importances
FIRST_ROW = "No findings known"  # where the points start


class TimesCase(NamedTuple):
    """The case to explain.

    Attributes
    ----------
    id : str or None
    texts : dict
        Its values, {feature: text}.
    values, codes : arrays of shape (P,)
    unseen : bool array of shape (P,)
        Whether no past case can have the value.
    data : Data
        The case with the parents.
    same : int
        Row of the training table that is identical to the case; -1 for a new case.
    """

    id: str | None
    texts: dict[str, str]
    values: Array
    codes: Array
    unseen: NDArray[np.bool_]
    data: Data
    same: int


@dataclass(frozen=True)
class SurvivalExplanation:
    """The answer of a survival model about a case. Created by `PatchworkSurvival.explain`.

    Attributes
    ----------
    case : dict
        "id", "values", "known" (number of known values), "warnings", "warning_kinds", "target" (name of the time
        column).
    prediction : dict
        "event", "time" (the horizon), "probability" of the event by the horizon with its "interval" and "level", and
        "population" (the same for all past cases). Also the whole curve, in the format of `FollowUp.summaries` for a
        time: "median", "curve", "landmarks", the number "n" of past cases and their "effective" number.
    opinions : dict or None
        Probability of the event by the horizon: "precedents", "additive" (the Cox model), its "weight", and their
        "disagreement".
    attribution : dict
        "base" (without known values), "total", and "features": [{"feature", "value", "points", "precedents",
        "additive"}], largest first, in percentage points of the probability of the event by the horizon. The points add
        up to the difference between base and total.
    precedent : dict
        "adequate", "percentile", "quantile".
    neighbors : list
        The past cases with the largest votes: [{"index", "id", "outcome", "vote_share", "features"}].
    groups : list
        Past cases that resemble the case in the same way, as in `Explanation.to_dict`: [{"vote_share", "size",
        "shared", "differs", "outcome"}], where "outcome" summarizes their times up to the horizon, in the format of
        `FollowUp.summaries`, and is suppressed by the same rule.
    features : list
        [{"name", "description", "value", "close", "phrases", "importance", "importance_interval"}].
    follow_up : dict or None
    about : dict

    Examples
    --------
    >>> import numpy as np
    >>> from bayespatch import PatchworkSurvival
    >>> y = np.array([(k % 3 > 0, 2.0 + k) for k in range(30)], dtype=[("died", bool), ("days", float)])
    >>> survival = PatchworkSurvival(draws=20, random_state=0, second_opinion=None)
    >>> why = survival.fit([["yes", k] for k in range(30)], y).explain(["yes", 5])
    >>> why.prediction["event"]
    'died'
    """

    case: JSONObject
    prediction: JSONObject
    opinions: JSONObject | None
    attribution: JSONObject
    precedent: JSONObject
    neighbors: list[JSONObject]
    groups: list[JSONObject]
    features: list[JSONObject]
    follow_up: JSONObject | None
    about: JSONObject

    def to_dict(self) -> JSONObject:
        """Plain data, ready for JSON."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def to_text(self, width: int = 120) -> str:
        """The answer for a terminal."""
        return "\n".join(part for line in _lines(self.to_dict(), width) for part in text.fit_width(line, width))

    def to_html(self) -> str:
        """The answer as an HTML fragment."""
        why = self.to_dict()
        return survival_answer(
            why, heading=_raises(why), first_row=FIRST_ROW, reason=reason(why), groups=_groups_in_words(why)
        )

    def __str__(self) -> str:
        return self.to_text()


Vote = Callable[[Array], tuple[CaseVotes, Array]]  # codes (K, P) to votes on K cases and familiarity (K,)


def explain_times(
    fitted: FittedTimes,
    case: TimesCase,
    vote: Vote,
    *,
    horizon: float | None,
    top: int,
    level: float,
    quantile: float,
) -> SurvivalExplanation:
    """Explain one case.

    Parameters
    ----------
    fitted : FittedTimes
    case : TimesCase
    vote : callable
        From codes of cases, (K, P), to the votes on them and their familiarity, (K,).
    horizon : float or None
        The horizon; None: a round time about halfway to the end of follow-up.
    top : int
        Number of past cases to show.
    level : float
        Probability of the intervals.
    quantile : float
        A case has no adequate precedent if at most this share of past cases is as unusual.
    """
    votes, familiarity = vote(case.codes[None])
    weights = votes.share[0].astype(np.float64)
    end = float(np.sort(fitted.time)[-min(LEAST_CASES, len(fitted.time))])
    end = max(end, float(fitted.event_times[0]))
    marks = round_times(end) or [end]
    at = float(marks[(len(marks) - 1) // 2]) if horizon is None else float(horizon)
    marks = sorted({*marks, at})
    about_case = _case(fitted, case)
    percentile = float(fitted.percentile(familiarity)[0]) if about_case["known"]["n"] else None
    attribution = _attribution(fitted, case, vote, at)
    ends = 1.0 - fitted.survival_interval(votes, case.values[None], np.array([at]), level)[0, 0, ::-1]
    return SurvivalExplanation(
        case=about_case,
        prediction={
            "event": fitted.event_name or "event",
            "time": at,
            "probability": attribution["total"],
            "interval": ends.tolist(),
            "population": 1.0 - float(_population(fitted, np.array([at]))[0]),
            **_curve(fitted, case, votes, weights, np.linspace(0.0, end, N_TIMES), marks, level),
        },
        opinions=_opinions(fitted, case, votes, at),
        attribution=attribution,
        precedent={
            "adequate": percentile is not None and percentile > quantile,
            "percentile": percentile,
            "quantile": quantile,
        },
        neighbors=_neighbors(fitted, case, weights, top),
        groups=_groups(fitted, case, weights, attribution, at, level),
        features=_features(fitted, case),
        follow_up=fitted.follow_up_among(weights, level, [at]),
        about={
            "model": fitted.posterior.model.kind,
            "past_cases": len(fitted.cases),
            "parents": len(fitted.parents),
            "converged": bool(fitted.posterior.diagnostics().converged),
        },
    )


def _population(fitted: FittedTimes, times: Array) -> Array:
    """Probability of being event-free among all past cases, (T,)."""
    hazard = np.append(0.0, np.cumsum(fitted.base_hazard))
    return np.exp(-hazard[np.searchsorted(fitted.event_times, times, side="right")])


def _curve(
    fitted: FittedTimes,
    case: TimesCase,
    votes: CaseVotes,
    weights: Array,
    times: Array,
    marks: list[float],
    level: float,
) -> JSONObject:
    """The pooled curve, in the format of a follow-up summary of times."""
    values, events = case.values[None], fitted.event_times
    survival = fitted.survival(votes, values, times)[0]
    ends = fitted.survival_interval(votes, values, times, level)[0]
    whole = fitted.survival(votes, values, events)[0]
    around = fitted.survival_interval(votes, values, events, level)[0]
    median = [next(iter(events[curve <= 0.5].tolist()), None) for curve in (whole, around[:, 0], around[:, 1])]
    at_marks = np.array(marks)
    low_high = fitted.survival_interval(votes, values, at_marks, level)[0].tolist()
    numbers = zip(
        marks,
        fitted.survival(votes, values, at_marks)[0].tolist(),
        low_high,
        _population(fitted, at_marks),
        strict=True,
    )
    return {
        "kind": "time",
        "label": "",
        "unit": fitted.unit,
        "level": level,
        "n": int((weights > 0.0).sum()),
        "effective": effective_number(weights),
        "suppressed": None,
        "median": dict(zip(("value", "low", "high"), median, strict=True)),
        "curve": {
            "times": times.tolist(),
            "survival": survival.tolist(),
            "low": ends[:, 0].tolist(),
            "high": ends[:, 1].tolist(),
            "population": _population(fitted, times).tolist(),
        },
        "landmarks": [
            {"time": t, "survival": s, "low": low, "high": high, "population": float(of_all)}
            for t, s, (low, high), of_all in numbers
        ],
    }


def _opinions(fitted: FittedTimes, case: TimesCase, votes: CaseVotes, at: float) -> JSONObject | None:
    times = np.array([at])
    additive = fitted.additive(case.values[None], times)
    if additive is None or fitted.pool is None:
        return None
    of_precedents = 1.0 - float(fitted.precedents(votes, times).survival[0, 0])
    of_additive = 1.0 - float(additive.survival[0, 0])
    return {
        "precedents": of_precedents,
        "additive": of_additive,
        "weight": fitted.pool.weight,
        "disagreement": abs(of_precedents - of_additive),
    }


def _attribution(fitted: FittedTimes, case: TimesCase, vote: Vote, at: float) -> JSONObject:
    """Shapley values of the known values for the probability of the event by a time, in percentage points.

    The pool is a mixture, so the points are the weighted sum of the Shapley values of the two opinions.
    """
    columns, times = fitted.schema.columns, np.array([at])
    players = np.flatnonzero([case.texts[column.name] != MISSING for column in columns])
    p = len(players)
    sets = (
        Sets.every(p)
        if p <= MOST_KNOWN
        else Sets.sampled(p, SETS_PER_FEATURE * p, np.random.default_rng(len(fitted.x)))
    )
    codes = np.full((len(sets.known), len(columns)), np.nan)
    codes[:, players] = np.where(sets.known, case.codes[players], np.nan)
    precedents = 1.0 - fitted.precedents(vote(codes)[0], times).survival[:, 0]
    weight, additive = 0.0, np.zeros(len(precedents))
    if fitted.opinion is not None and fitted.pool is not None:
        weight = fitted.pool.weight
        log_hazard = sets.known @ fitted.opinion.points(case.values[None])[0, players]
        baseline = float(fitted.opinion.baseline(times)[0])
        additive = -np.expm1(-baseline * np.exp(log_hazard))
    parts = 100.0 * np.column_stack([(1.0 - weight) * precedents, weight * additive])
    each = sets.solver @ parts if p else np.zeros((0, 2))
    total = (1.0 - weight) * precedents + weight * additive
    rows: list[JSONObject] = [
        {
            "feature": columns[j].name,
            "value": case.texts[columns[j].name],
            "points": float(one.sum()),
            "precedents": float(one[0]),
            "additive": float(one[1]),
        }
        for j, one in zip(players.tolist(), each, strict=True)
    ]
    rows.sort(key=lambda row: -abs(row["points"]))
    return {"base": float(total[0]), "total": float(total[-1]), "features": rows}


def _case(fitted: FittedTimes, case: TimesCase) -> JSONObject:
    warnings = guards.guard_values(fitted.schema, case.values, case.texts, case.unseen, fitted.ranges)
    if case.same >= 0 and fitted.may_be_shown(case.same):
        warnings.append(guards.guard_itself(fitted.named(case.same), case.id))
    return {
        "id": case.id,
        "values": dict(case.texts),
        "known": {"n": sum(value != MISSING for value in case.texts.values()), "of": len(case.texts)},
        "warnings": [guard.text for guard in warnings],
        "warning_kinds": [guard.kind for guard in warnings],
        "target": fitted.target or "time",
    }


def _neighbors(fitted: FittedTimes, case: TimesCase, weights: Array, top: int) -> list[JSONObject]:
    weights = np.where(np.isin(fitted.parents, fitted.may_show), weights, 0.0)
    best = np.argsort(-weights, kind="stable")[:top]
    best = best[weights[best] > 0.0]
    agrees = agreement(case.codes, case.data)
    neighbors = []
    for b in best.tolist():
        row = int(fitted.parents[b])
        patches = {
            name: {"value": value, "agrees": bool(agrees[b, j])}
            for j, (name, value) in enumerate(fitted.texts_of(row).items())
        }
        neighbors.append(
            {
                "index": row,
                "id": fitted.named(row),
                "outcome": fitted.outcome_texts[row],
                "vote_share": float(weights[b]),
                "features": patches,
            }
        )
    return neighbors


def _groups(
    fitted: FittedTimes, case: TimesCase, weights: Array, attribution: JSONObject, at: float, level: float
) -> list[JSONObject]:
    """The voters in groups, with the times of each group."""
    columns, agrees = fitted.schema.columns, agreement(case.codes, case.data)
    points = {row["feature"]: abs(row["points"]) for row in attribution["features"]}
    importance = np.array([points.get(column.name, 0.0) for column in columns])
    outcome, groups = fitted.outcome_column, []
    for group in group_voters(weights, agrees, np.zeros(len(weights), np.int64), 1, importance):
        groups.append(
            {
                "vote_share": group.vote_share,
                "size": len(group.members),
                "shared": [
                    {
                        "feature": columns[j].name,
                        "value": case.texts[columns[j].name],
                        "all": bool(agrees[group.members, j].all()),
                    }
                    for j in group.shared
                ],
                "differs": [
                    {
                        "feature": columns[j].name,
                        "value": common_value(columns[j], case.data.x_parents[group.members, j]),
                    }
                    for j in group.differs
                ],
                "outcome": summary(outcome.at(fitted.parents[group.members]), weights[group.members], level, [at]),
            }
        )
    return groups


def _features(fitted: FittedTimes, case: TimesCase) -> list[JSONObject]:
    q = fitted.posterior.q.reshape(-1, fitted.posterior.q.shape[2])
    mean, ends = q.mean(axis=0), np.quantile(q, INTERVAL, axis=0)
    return [
        {
            "name": column.name,
            "description": column.description,
            "value": case.texts[column.name],
            "close": close_range(column, float(case.codes[j]), float(case.values[j])),
            "phrases": column.phrases_of_values(),
            "importance": float(mean[j]),
            "importance_interval": [float(ends[0, j]), float(ends[1, j])],
        }
        for j, column in enumerate(fitted.schema.columns)
    ]


def headline(why: JSONObject) -> str:
    """``34% probability of relapse by 1000 days (90% interval 28–41%)``."""
    prediction = why["prediction"]
    ends = words.interval(prediction["interval"])
    p, level = words.percent(prediction["probability"]), words.percent(prediction["level"])
    return f"{p} probability of {prediction['event']} by {_horizon(why)} ({level} interval {ends})"


def _horizon(why: JSONObject) -> str:
    """``1000 days``."""
    return course.with_unit(course.number(why["prediction"]["time"]), why["prediction"])


def _raises(why: JSONObject) -> str:
    return f"What raises or lowers the risk by {_horizon(why)}"


def _groups_in_words(why: JSONObject) -> list[tuple[str, str]]:
    """The members of each group, and the share of them who were event-free at the horizon."""
    if not why["case"]["known"]["n"]:
        return []
    return [(words.group_members(why, part), course.brief(part["outcome"])) for part in why["groups"]]


def reason(why: JSONObject) -> str:
    """What the curve is based on."""
    prediction, both = why["prediction"], why["opinions"]
    if not why["case"]["known"]["n"]:
        return "No findings are known, so no past patient is more similar than another."
    basis = f"{course.basis(prediction)}."
    if both is None:
        return basis
    return (
        f"{basis} Similar patients alone suggest {words.percent(both['precedents'])} by {_horizon(why)}, the Cox model "
        f"alone {words.percent(both['additive'])}; combined, they give {words.percent(prediction['probability'])}."
    )


def _lines(why: JSONObject, width: int) -> Iterator[str]:
    prediction = why["prediction"]
    everybody, median = words.percent(prediction["population"]), course.median(prediction)
    yield f"{words.title(why)}: {headline(why)}; all patients: {everybody}; {median}"
    yield from text.trust(why, width)
    yield ""
    yield "Probability of being event-free, with interval and compared with all patients:"
    for one in prediction["landmarks"]:
        ends = words.interval((one["low"], one["high"]))
        of_all = words.percent(one["population"])
        when = course.with_unit(course.number(one["time"]), prediction)
        yield f"  at {when} {words.percent(one['survival'])} ({ends}); {of_all} of all"
    yield ""
    groups = _groups_in_words(why)
    if groups:
        yield text.GROUPS
    for part, group in zip(why["groups"], groups, strict=False):
        yield f"  {words.percent(part['vote_share']):>4} {': '.join(group)}"
    yield reason(why)
    if why["attribution"]["features"]:
        yield ""
        yield from text.points(why, width, f"{_raises(why)}, from", f"with {FIRST_ROW.lower()}")
    if why["neighbors"] and words.compared(why):
        yield ""
        yield from text.closest(why)
    if why["follow_up"]:
        yield ""
        yield from course.as_text(why["follow_up"], None)
    yield f"{words.DISCLAIMER}."
