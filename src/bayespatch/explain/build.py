"""Builds explanations from a posterior and the past cases: votes, attribution, groups, closest past cases, warnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.encode.column import MISSING
from bayespatch.explain import guards
from bayespatch.explain.attribution import attribution_of, focus
from bayespatch.explain.ballot import Ballot
from bayespatch.explain.cases import CaseTexts
from bayespatch.explain.evidence import agreement, close_range, common_value, effects, mark
from bayespatch.explain.explanation import Explanation
from bayespatch.explain.groups import group_voters
from bayespatch.explain.like_this import like_this
from bayespatch.explain.parts import (
    Attribution,
    Closest,
    Differs,
    Feature,
    Group,
    Guard,
    Neighbor,
    Patch,
    Precedent,
    Shared,
    Stability,
    Ungrouped,
)
from bayespatch.explain.reading import Reading
from bayespatch.fitted import MOST_AROUND, Fitted, FittedNumbers, OpinionOnCases
from bayespatch.model import HIDDEN, Data
from bayespatch.predict import predict_batches, predict_cases
from bayespatch.sampling.posterior import Posterior
from bayespatch.types import Parameters

Array = NDArray[np.float64]
Rows = NDArray[np.int64]


class ExplanationOptions(NamedTuple):
    """Options of an explanation.

    Attributes
    ----------
    top : int
        Number of closest past cases to show.
    level : float
        Probability of the credible intervals.
    quantile : float
        A case has no adequate precedent if at most this share of the past cases is as unusual.
    error : float
        Target Monte Carlo standard error of the probability.
    n_threads : int
        Number of threads.
    engine : {"cpu", "cuda", "auto"}
        As in `predict_batches`.
    """

    top: int = 5
    level: float = 0.9
    quantile: float = 0.05
    error: float = 0.005
    n_threads: int = 1
    engine: str = "auto"


def explain_cases(
    fitted: Fitted,
    posterior: Posterior,
    cases: Data,
    words: CaseTexts,
    options: ExplanationOptions = ExplanationOptions(),  # noqa: B008  # immutable
    *,
    second: OpinionOnCases | None = None,
    same: Rows | None = None,
) -> Iterator[Explanation]:
    """Explain cases one at a time.

    Parameters
    ----------
    fitted : Fitted
        The model, with the past cases in the user's terms.
    posterior : Posterior
        The posterior that predicts the cases.
    cases : Data
        The coded cases, with hidden or known outcomes, and the parents. A case that is itself a parent
        (`own_parent`) is not among its own neighbors.
    words : CaseTexts
        The same cases in the user's terms.
    options : ExplanationOptions
    second : OpinionOnCases, optional
        The second opinion on the same cases.
    same : int array of shape (n,), optional
        The past case to which each case is identical, or -1. A case does not vote on itself, and a warning says so.
    """
    if same is None:
        same = np.full(len(cases.x), -1)
    place = {row: b for b, row in enumerate(fitted.parents.tolist())}
    own = np.array([place.get(row, -1) for row in same.tolist()], dtype=np.int64) if cases.elsewhere is None else same
    cases = cases._replace(own_parent=np.where(own >= 0, own, cases.own_parent))
    top, level, quantile, error, n_threads, engine = options
    if posterior.log_weights is not None:
        ballots = _closed_ballots(fitted, posterior, cases, n_threads)
    else:
        of_precedents = error if second is None else error / max(1.0 - second.pool.weight, 0.5)
        run = {"calibration": fitted.calibration, "error": of_precedents, "n_threads": n_threads, "engine": engine}
        ballots = _sampled_ballots(fitted, posterior, cases, run)
    for row, (near, case, plain, informed) in enumerate(ballots):
        reading = Reading(near, second, row, level)
        one = _Case(posterior, case, words, reading, plain, informed, top)
        share = float(fitted.percentiles(cases.x[[row]], np.array([plain.familiarity]))[0])
        percentile = None if np.isnan(share) else share
        precedent = Precedent(percentile is not None and percentile > quantile, percentile, quantile)
        yield one.explanation(precedent, int(same[row]))


def _only(cases: Data, row: int, hidden: bool = False) -> Data:
    """One of the cases, with its outcome hidden if `hidden`."""
    y = np.array([HIDDEN]) if hidden else cases.y[[row]]
    return cases._replace(x=cases.x[[row]], y=y, own_parent=cases.own_parent[[row]])


def beside(fitted: Fitted, cases: Data, row: int, k: int, n_threads: int) -> tuple[Fitted, Data]:
    """One of the cases, and the model with the past cases that matter to the case, at least k, as parents."""
    case = _only(cases, row)
    near = fitted.around(case, k, n_threads)
    if near is fitted:
        return fitted, case
    return near, near.past._replace(x=case.x, y=case.y, own_parent=case.own_parent)


# A model, a case, the votes on the case, and the votes if its outcome is used
_Voted = tuple[Fitted, Data, Ballot, Ballot]


def _closed_ballots(fitted: Fitted, posterior: Posterior, cases: Data, n_threads: int) -> Iterator[_Voted]:
    """The votes on each case without and with its outcome, if known."""
    q = posterior.q.mean(axis=(0, 1))

    def ballot(case: Data) -> Ballot:
        seen = predict_cases(posterior, case, detail="shares", n_threads=n_threads)
        return Ballot.closed(seen, case, posterior.model, q)

    if fitted.elsewhere is not None:
        fitted.compute_once()
    for row in range(len(cases.x)):
        near, case = beside(fitted, cases, row, MOST_AROUND, n_threads)
        plain = ballot(_only(case, 0, hidden=True))
        yield near, case, plain, plain if cases.y[row] == HIDDEN else ballot(case)


def _sampled_ballots(fitted: Fitted, posterior: Posterior, cases: Data, run: Parameters) -> Iterator[_Voted]:
    hidden = cases._replace(y=np.full(len(cases.x), HIDDEN))
    first = 0
    for seen in predict_batches(posterior, hidden, detail=True, **run):
        rows = slice(first, first + len(seen.familiarity))
        first = rows.stop
        informed = seen
        if np.any(cases.y[rows] != HIDDEN):
            some = cases._replace(x=cases.x[rows], y=cases.y[rows], own_parent=cases.own_parent[rows])
            informed = predict_cases(posterior, some, detail=True, **run)
        for i in range(len(seen.familiarity)):
            plain = Ballot.sampled(seen, i, cases)
            case = _only(cases, rows.start + i)
            yield fitted, case, plain, plain if informed is seen else Ballot.sampled(informed, i, cases)


@dataclass(frozen=True, eq=False)
class _Case:
    """A case for which an `Explanation` is being built."""

    posterior: Posterior
    case: Data  # alone, with all parents
    words: CaseTexts
    reading: Reading
    plain: Ballot  # without its outcome
    informed: Ballot  # with its outcome, if known
    top: int

    @property
    def fitted(self) -> Fitted:
        return self.reading.fitted

    @property
    def own(self) -> dict[str, str]:
        return self.words.texts[self.reading.row]

    @property
    def numbers(self) -> Array:
        return self.words.values[self.reading.row]

    @cached_property
    def probabilities(self) -> Array:
        return self.reading.probabilities(self.plain.votes[None])[0]

    @cached_property
    def may_show(self) -> NDArray[np.bool_]:
        return np.isin(self.fitted.parents, self.fitted.may_show)

    @cached_property
    def agrees(self) -> NDArray[np.bool_]:
        return agreement(self.case.x[0], self.case)

    @cached_property
    def beyond(self) -> Array:
        """Distance of numbers from the past cases' range, (P,)."""
        return guards.outside(self.numbers[None], self.fitted.ranges)[0]

    def explanation(self, precedent: Precedent, same: int) -> Explanation:
        fitted, reading, plain = self.fitted, self.reading, self.plain
        attribution = attribution_of(reading, plain, self.posterior, self.attributed(), self.own)
        counts = self.counts(attribution)
        groups = self.groups(counts)
        neighbors = self.neighbors(counts)
        features = tuple(self.feature(j, neighbors) for j in range(len(fitted.schema.columns)))
        best = int(self.probabilities.argmax())
        others = (fitted.loo.rows if fitted.rows is None else fitted.rows[fitted.loo.rows]) != same
        number = reading.number(plain)
        outcomes = None if self.case.y[0] == HIDDEN else self.words.outcomes
        return Explanation(
            id=self.words.named(reading.row),
            values=dict(self.own),
            n_known=sum(text != MISSING for text in self.own.values()),
            outcome=None if outcomes is None else outcomes[reading.row],
            target=fitted.target,
            predicted=fitted.class_names[best],
            probabilities=reading.by_class(self.probabilities),
            population=reading.by_class(fitted.class_shares),
            intervals=reading.ends_by_class(reading.intervals(plain)),
            votes=reading.by_class(plain.votes),
            votes_mean=reading.votes_mean(plain),
            error=reading.error(plain),
            level=reading.level,
            like_this=like_this(
                float(plain.votes[best]),
                fitted.loo.votes[others, best],
                fitted.y[fitted.loo.rows[others]] == best,
                fitted.class_names[best],
            ),
            attribution=attribution,
            opinions=reading.opinions(plain),
            precedent=precedent,
            guards=tuple(self.guards(features, precedent, same)),
            groups=groups,
            ungrouped=self.ungrouped(groups),
            base_rates=max(0.0, 1.0 - float(plain.cast.sum())),
            neighbors=neighbors,
            features=features,
            stability=Stability(self.informed.overlap(len(neighbors))),
            about={
                "model": fitted.posterior.model.kind,
                "past_cases": fitted.n_past_cases,
                "parents": fitted.n_voting,
                "converged": fitted.posterior.diagnostics().converged,
            },
            mean=None if number is None else number[0],
            interval=None if number is None else number[1],
            population_interval=reading.population_interval(),
            follow_up=fitted.follow_up_among(plain.share, reading.level),
        )

    def attributed(self) -> Data:
        """The case, its outcome hidden, with the past cases used for the attribution.

        If the past cases are not in this process, the sample on which the model was trained is used.
        """
        hidden = _only(self.case, 0, hidden=True)
        if self.case.elsewhere is None:
            return hidden
        sample, rows = self.fitted.sample_past, self.fitted.rows
        assert rows is not None
        itself = np.flatnonzero(rows[self.fitted.cases] == hidden.own_parent[0])
        return sample._replace(x=hidden.x, y=hidden.y, own_parent=np.append(itself, -1)[:1])

    def counts(self, attribution: Attribution | None) -> Array:
        """Weight of each value, (P,): the size of its points from precedents, or its effect on the votes.

        Missing and out-of-range values have weight 0.
        """
        if attribution is None:
            weights = effects(self.posterior.model, self.case.n_values, self.posterior.q.mean(axis=(0, 1)))
        else:
            points = {one.feature: abs(one.precedents) for one in attribution.features}
            weights = np.array([points[name] for name in self.own])
        return np.where([text == MISSING for text in self.own.values()] | (self.beyond != 0.0), 0.0, weights)

    def patches(self, places: Rows, ballot: Ballot, counts: Array) -> list[dict[str, Patch]]:
        """The values of some parents, compared with the case's."""
        patches = []
        for b, matters in zip(places.tolist(), ballot.matters(places), strict=True):
            texts, agrees = self.fitted.texts_of(int(self.fitted.parents[b])), self.agrees[b]
            parts = zip(texts.items(), agrees.tolist(), matters.tolist(), mark(agrees, counts).tolist(), strict=True)
            patches.append({name: Patch(text, *rest) for (name, text), *rest in parts})
        return patches

    def groups(self, counts: Array) -> tuple[Group, ...]:
        """The voters in groups; the members of a group resemble the case in the same way."""
        fitted, case = self.fitted, self.case
        voters = group_voters(self.plain.share, self.agrees, case.y_parents, case.n_classes, counts)
        named = list(self.own.items())
        groups = []
        for group in voters:
            rows = fitted.parents[group.members].tolist()
            had = np.bincount(fitted.y[rows], minlength=fitted.n_classes).tolist()
            groups.append(
                Group(
                    vote_share=group.vote_share,
                    size=len(rows),
                    counts=dict(zip(fitted.class_names, had, strict=True)),
                    outcomes=self.reading.by_class(group.votes / group.votes.sum()),
                    mean=float(fitted.outcomes[rows].mean()) if isinstance(fitted, FittedNumbers) else None,
                    shared=tuple(Shared(*named[j], bool(self.agrees[group.members, j].all())) for j in group.shared),
                    differs=tuple(self.differs(j, group.members) for j in group.differs),
                    closest=self.closest(group.members, counts),
                    rows=tuple(map(fitted.number_of, rows)),
                )
            )
        return tuple(groups)

    def differs(self, j: int, members: Rows) -> Differs:
        """A feature in which no member shares the case's value, with the members' value if it is the same."""
        column = self.fitted.schema.columns[j]
        return Differs(column.name, common_value(column, self.case.x_parents[members, j]))

    def closest(self, members: Rows, counts: Array) -> Closest | None:
        """The first of some parents that may be shown."""
        fitted, shown = self.fitted, members[self.may_show[members]][:1]
        if not len(shown):
            return None
        (row,), (patches,) = fitted.parents[shown].tolist(), self.patches(shown, self.plain, counts)
        return Closest(fitted.number_of(row), fitted.named(row), fitted.outcome_texts[row], patches)

    def ungrouped(self, groups: Sequence[Group]) -> Ungrouped:
        """The votes of all past cases outside the groups."""
        grouped = [group.vote_share * np.array(list(group.outcomes.values())) for group in groups]
        rest = np.maximum(self.plain.cast - np.sum(grouped, axis=0), 0.0)
        total = float(rest.sum())
        shares = rest / total if total > 0.0 else np.full(len(rest), 1.0 / len(rest))
        return Ungrouped(total, self.reading.by_class(shares))

    def neighbors(self, counts: Array) -> tuple[Neighbor, ...]:
        """The closest past cases."""
        fitted, ballot = self.fitted, self.informed
        places = ballot.closest(self.top, self.may_show)
        each = zip(places.tolist(), self.reliance(places), self.patches(places, ballot, counts), strict=True)
        return tuple(
            Neighbor(
                index=fitted.number_of(int(fitted.parents[b])),
                id=fitted.named(int(fitted.parents[b])),
                outcome=fitted.outcome_texts[int(fitted.parents[b])],
                probability=float(ballot.probability[b]),
                influence=float(ballot.influence[b]),
                vote_share=float(ballot.share[b]),
                reliance=reliance,
                features=patches,
            )
            for b, reliance, patches in each
        )

    def reliance(self, places: Rows) -> list[float | None]:
        """Change in the explained probability due to each of some parents, if votes are exact."""
        if self.posterior.log_weights is None or isinstance(self.fitted, FittedNumbers) or not len(places):
            return [None] * len(places)
        n = len(places)
        excluded = np.zeros((n, len(self.case.x_parents)), dtype=np.bool_)
        excluded[np.arange(n), places] = True
        repeated = self.case._replace(
            x=np.repeat(self.case.x, n, axis=0),
            y=np.full(n, HIDDEN),
            own_parent=np.repeat(self.case.own_parent, n),
        )
        votes = predict_cases(self.posterior, repeated, excluded=excluded).mean_votes()
        m = focus(self.probabilities)
        return list((self.probabilities[m] - self.reading.probabilities(votes)[:, m]).tolist())

    def feature(self, j: int, neighbors: Sequence[Neighbor]) -> Feature:
        column, number, name = self.fitted.schema.columns[j], float(self.numbers[j]), self.fitted.schema.names[j]
        low, high = self.fitted.importance.intervals[j].tolist()
        return Feature(
            name=name,
            value=self.own[name],
            importance=float(self.fitted.importance.values[j]),
            importance_interval=(low, high),
            explained=float(self.plain.explained[j]),
            neighbors=tuple(one.index for one in neighbors if one.features[name].agrees),
            close=close_range(column, float(self.case.x[0, j]), number),
            unseen=bool(self.words.unseen[self.reading.row, j]),
            description=column.description,
            phrases=column.phrases_of_values(),
            raw=column.raw_value(number),
        )

    def guards(self, features: Sequence[Feature], precedent: Precedent, same: int) -> Iterator[Guard]:
        fitted, numbers = self.fitted, self.numbers
        unseen = self.words.unseen[self.reading.row]
        yield from guards.guard_values(fitted.schema, numbers, self.own, unseen, fitted.ranges)
        if same >= 0 and fitted.may_be_shown(same):
            yield guards.guard_itself(fitted.name_of(same), self.words.named(self.reading.row))
        yield from guards.guard_combination(precedent, features)
        mine = list(fitted.subgroups.of_case(self.case.x[0], numbers))
        yield from guards.guard_subgroups(mine, fitted.loo_accuracy)
        if not isinstance(fitted, FittedNumbers):
            voting, sizes = fitted.class_sizes()
            yield from guards.guard_rare(
                dict(zip(fitted.class_names, sizes.tolist(), strict=True)),
                [name for name, n in zip(fitted.class_names, voting.tolist(), strict=True) if not n],
            )
