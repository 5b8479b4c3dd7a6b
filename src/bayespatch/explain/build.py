"""From a posterior and the past cases to explanations of cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bayespatch.calibrate import Calibration
from bayespatch.encode.values import without_each_value
from bayespatch.explain import guards
from bayespatch.explain.attribution import Value, attribute
from bayespatch.explain.ballot import Ballot, ballot_of, closed_ballot, predict_without
from bayespatch.explain.cases import CaseTexts, TrainingCases
from bayespatch.explain.evidence import (
    agreement,
    close_range,
    comparison,
    effects,
    log_factors,
    mark,
    votes_without_values,
    weights,
)
from bayespatch.explain.exemplars import Crowds, exemplars_of
from bayespatch.explain.explanation import Explanation
from bayespatch.explain.groups import group_voters
from bayespatch.explain.like_this import like_this
from bayespatch.explain.parts import (
    Attribution,
    Closest,
    Distances,
    Exemplar,
    Feature,
    FeaturePoints,
    Group,
    Guard,
    Member,
    Neighbor,
    Opinions,
    Patch,
    Precedent,
    Stability,
    Tally,
    Ungrouped,
)
from bayespatch.fitted import FittedNumbers, OpinionOnCases
from bayespatch.model import HIDDEN, Data
from bayespatch.pool import disagreement
from bayespatch.predict import SubsetVoter, predict_batches, predict_cases
from bayespatch.sampling.posterior import Posterior

MOST_CANDIDATES = 400  # past cases that are looked at in detail, where all vote in closed form
OFTEN = 0.5  # a neighbor in more of the draws than this is taken out in draws of its own: too few are without it


_Importances = tuple[NDArray[np.float64], NDArray[np.float64]]


class _Reading(NamedTuple):
    """Votes into probabilities: calibrated, and pooled with the second opinion where there is one."""

    calibration: Calibration
    second: OpinionOnCases | None

    def of(self, votes: NDArray[np.float64], row: int) -> NDArray[np.float64]:
        """Probabilities, (k, M), of votes on one case, (k, M)."""
        return self.pooled(self.calibration.apply(votes), row)

    def pooled(self, precedents: NDArray[np.float64], row: int) -> NDArray[np.float64]:
        if self.second is None:
            return precedents
        other = np.broadcast_to(self.second.probabilities[row], precedents.shape)
        return self.second.pool.combine(other, precedents)

    def interval(
        self, votes: NDArray[np.float64], share: NDArray[np.float64], level: float, row: int
    ) -> NDArray[np.float64]:
        """Intervals of the probabilities of one case, (M, 2)."""
        ends = self.calibration.interval(votes[None], share[None], level)[0]
        if self.second is None:
            return ends
        second = self.second
        other = None if second.interval is None else second.interval[[row]]
        p = self.calibration.apply(votes)[None]
        return second.pool.interval(second.probabilities[[row]], other, p, ends[None], level)[0]


def explain_cases(
    posterior: Posterior,
    cases: Data,
    words: CaseTexts,
    past: TrainingCases,
    *,
    top: int = 4,
    level: float = 0.9,
    quantile: float = 0.05,
    second: OpinionOnCases | None = None,
    same: NDArray[np.int64] | None = None,
    reliance: bool = True,
    error: float = 0.005,
    n_threads: int = 1,
    engine: str = "auto",
) -> Iterator[Explanation]:
    """Explain cases, one after the other, batch by batch.

    Parameters
    ----------
    posterior : Posterior
        Under which they are predicted.
    cases : Data
        The coded cases, their outcomes hidden, or known and counted, and the parents. A case that is a parent itself
        (`own_parent`) is not among its own neighbors.
    words : CaseTexts
        The same cases in the user's words.
    past : TrainingCases
        The past cases in the user's words.
    top : int
        How many single neighbors to name; half as many contradicting ones are named beside them.
    level : float
        Of the credible intervals.
    quantile : float
        Cases that are less familiar than all but this share of the past cases have no adequate precedent.
    second : OpinionOnCases, optional
        On the same cases.
    same : int array of shape (n,), optional
        Which row of the training table each case is itself, -1: none. It is left out of its own neighbors, with a
        warning.
    reliance : bool
        Whether to find out what would be predicted without each neighbor and crowd, which takes most of the time.
    error : float
        Monte Carlo standard error of the probability that is good enough.
    n_threads : int
        Threads.
    engine : {"cpu", "cuda", "auto"}
        As in `predict_batches`.
    """
    of_precedents = error if second is None else error / max(1.0 - second.pool.weight, 0.5)
    run: dict[str, Any] = {
        "calibration": past.calibration,
        "error": of_precedents,
        "n_threads": n_threads,
        "engine": engine,
    }
    if same is None:
        same = np.full(len(cases.x), -1)
    place = {row: b for b, row in enumerate(past.parents.tolist())}
    own = np.array([place.get(row, -1) for row in same.tolist()], dtype=np.int64)
    cases = cases._replace(own_parent=np.where(own >= 0, own, cases.own_parent))
    reading = _Reading(past.calibration, second)
    if posterior.log_weights is not None:
        batches = _closed_batches(posterior, cases, past, run)
    else:
        batches = _sampled_batches(posterior, cases, past, run)
    first = 0
    for batch, shown, importances, ballot, plain, places in batches:
        rows = range(first, first + len(batch.x))
        first += len(rows)
        parts = [
            _CaseExplainer(
                posterior, cases, batch, words, shown, past, reading, *importances, ballot, plain, i, row, top, level
            )
            for i, row in enumerate(rows)
        ]
        wanted = _without(posterior, cases, rows, parts, places, run) if reliance else [{} for _ in parts]
        percentiles = past.percentiles(batch.x, plain.familiarity)
        for i, one in enumerate(parts):
            percentile = None if np.isnan(percentiles[i]) else float(percentiles[i])
            precedent = Precedent(percentile is not None and percentile > quantile, percentile, quantile)
            yield one.explanation(wanted[i], precedent, int(same[one.row]))


class _Batch(NamedTuple):
    """Some cases with those past cases of whom details are known."""

    cases: Data
    past: TrainingCases
    importances: _Importances
    ballot: Ballot
    plain: Ballot  # without knowing the outcome; single neighbors are those found with it
    places: NDArray[np.int64]  # of the detailed parents among all


def _sampled_batches(posterior: Posterior, cases: Data, past: TrainingCases, run: dict[str, Any]) -> Iterator[_Batch]:
    first, everyone = 0, np.arange(len(cases.x_parents))
    for seen in predict_batches(posterior, cases, detail=True, **run):
        rows = np.arange(first, first + len(seen.familiarity))
        first += len(rows)
        batch = cases._replace(x=cases.x[rows], y=cases.y[rows], own_parent=cases.own_parent[rows])
        ballot = plain = ballot_of(seen, posterior.n_chains, cases.y_parents)
        if np.any(batch.y != HIDDEN):
            hidden = batch._replace(y=np.full(len(rows), HIDDEN))
            plain = ballot_of(predict_cases(posterior, hidden, detail=True, **run), posterior.n_chains, cases.y_parents)
        yield _Batch(batch, past, _importances(posterior), ballot, plain, everyone)


def _closed_batches(posterior: Posterior, cases: Data, past: TrainingCases, run: dict[str, Any]) -> Iterator[_Batch]:
    """Case by case; of all past cases, which vote in closed form, the best candidates are looked at in detail."""
    _, q = _importances(posterior)
    for i in range(len(cases.x)):
        case = cases._replace(x=cases.x[[i]], y=cases.y[[i]], own_parent=cases.own_parent[[i]])
        hidden = case._replace(y=np.array([HIDDEN]))
        seen = predict_cases(posterior, hidden, detail="shares", n_threads=run["n_threads"])
        known = seen
        if case.y[0] != HIDDEN:
            known = predict_cases(posterior, case, detail="shares", n_threads=run["n_threads"])
        assert seen.neighbors is not None
        assert known.neighbors is not None
        share = seen.neighbors.share[0] + known.neighbors.share[0]
        places = np.argsort(-share, kind="stable")[:MOST_CANDIDATES]
        places = np.sort(places[share[places] > 0.0])
        few = case._replace(
            x_parents=case.x_parents[places], y_parents=case.y_parents[places], own_parent=np.array([-1])
        )
        plain, ballot = (closed_ballot(one, case, places, posterior.model, q) for one in (seen, known))
        importances = np.broadcast_to(q, (len(places), len(q))), q
        yield _Batch(few, replace(past, parents=past.parents[places]), importances, ballot, plain, places)


_known: WeakKeyDictionary[Posterior, _Importances] = WeakKeyDictionary()


def _importances(posterior: Posterior) -> _Importances:
    """Mean q-tilde, (S, P), and mean q, (P,): kept as long as the posterior is."""
    if posterior not in _known:
        q = posterior.q.reshape(-1, posterior.q.shape[2])
        each = posterior.q_tilde.mean(axis=(0, 1), dtype=np.float64) if posterior.log_weights is None else q[:0]
        _known[posterior] = each, q.mean(axis=0)
    return _known[posterior]


def _without(
    posterior: Posterior,
    cases: Data,
    rows: range,
    parts: Sequence[_CaseExplainer],
    places: NDArray[np.int64],
    run: dict[str, Any],
) -> list[dict[int | str, NDArray[np.float64]]]:
    """Votes on each case without each of its neighbors (by parent) and without each crowd (by "crowd k")."""
    wanted: list[tuple[int, int | str, NDArray[np.int64]]] = []
    found: list[dict[int | str, NDArray[np.float64]]] = [{} for _ in parts]
    for i, one in enumerate(parts):
        groups: dict[int | str, NDArray[np.int64]] = {b: np.array([b]) for b in [*one.neighbors, *one.contradicting]}
        groups |= {f"crowd {k}": members for k, members in enumerate(one.crowds.members)}
        for who, members in groups.items():
            if len(members) == 1 and one.plain.probability[i, members[0]] <= OFTEN:
                found[i][who] = one.plain.votes_without(i, int(members[0]))
            else:
                wanted.append((i, who, members))
    if not wanted:
        return found
    of = np.array([rows[i] for i, _, _ in wanted])
    excluded = np.zeros((len(wanted), len(cases.x_parents)), dtype=np.bool_)
    for k, (_, _, members) in enumerate(wanted):
        excluded[k, places[members]] = True
    each = cases._replace(x=cases.x[of], y=cases.y[of], own_parent=cases.own_parent[of])
    for (i, who, _), votes in zip(wanted, predict_without(posterior, each, excluded, run), strict=True):
        found[i][who] = votes
    return found


@dataclass(frozen=True, eq=False)
class _CaseExplainer:
    """One case of a batch, on its way to becoming an `Explanation`."""

    posterior: Posterior
    whole: Data  # all cases and all parents
    cases: Data
    words: CaseTexts
    past: TrainingCases  # its parents are those of whom details are known
    everyone: TrainingCases
    reading: _Reading
    parent_importance: NDArray[np.float64]  # (S, P)
    importance: NDArray[np.float64]  # (P,)
    ballot: Ballot
    plain: Ballot
    i: int  # in the batch
    row: int  # among all cases
    top: int
    level: float

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        return self.reading.of(self.plain.votes[[self.i]], self.row)[0]

    @property
    def best(self) -> int:
        return int(self.probabilities.argmax())

    @cached_property
    def crowds(self) -> Crowds:
        c = self.cases
        return exemplars_of(self.plain.share[self.i], c.x_parents, c.y_parents, c.windows, self.importance)

    @cached_property
    def _ranked(self) -> NDArray[np.int64]:
        influence = self.ballot.influence[self.i]
        order = np.argsort(-influence, kind="stable")
        return order[influence[order] > 0]

    @property
    def neighbors(self) -> list[int]:
        """The most influential parents."""
        return self._ranked[: self.top].tolist()

    @property
    def contradicting(self) -> list[int]:
        """The most influential of another class than the predicted one."""
        other = self._ranked[self.cases.y_parents[self._ranked] != self.best]
        return other[: max(1, self.top // 2)].tolist()

    @cached_property
    def agrees(self) -> NDArray[np.bool_]:
        return agreement(self.cases.x[self.i], self.cases)

    @cached_property
    def log_f(self) -> NDArray[np.float64]:
        c = self.cases
        return log_factors(c.x[self.i], self.agrees, c, self.posterior.model, self.parent_importance)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        return weights(self.log_f)

    @cached_property
    def worth(self) -> NDArray[np.float64]:
        """By how much the probability of the last class is higher because of each value, (P,).

        Where votes have a closed form, exactly: the case is predicted once more with each value missing in turn.
        """
        if self.posterior.log_weights is not None:
            return self._exact_worth()
        plain, i = self.plain, self.i
        votes = votes_without_values(
            self.log_f, plain.share[i], self.cases.y_parents, plain.votes[i], float(plain.probability[i].sum())
        )
        return np.asarray(self.probabilities[-1] - self.reading.of(votes, self.row)[:, -1])

    def _exact_worth(self) -> NDArray[np.float64]:
        past, own = self.past, self.whole.own_parent[self.row]
        x, values = without_each_value(past.schema, self.cases.x[self.i], self.words.values[self.row])
        hidden = np.full(len(x), HIDDEN)
        cases = self.whole._replace(x=x, y=hidden, own_parent=np.full(len(x), own))
        precedents = past.calibration.apply(predict_cases(self.posterior, cases).mean_votes())
        second = self.reading.second
        if second is None or second.of_values is None:
            without = self.reading.pooled(precedents, self.row)
        else:
            without = second.pool.combine(second.of_values(values), precedents)
        return np.asarray(self.probabilities[-1] - without[:, -1])

    @cached_property
    def beyond(self) -> NDArray[np.float64]:
        """By how much its numbers lie outside the past cases', (P,)."""
        return guards.outside(self.words.values[[self.row]], self.everyone.ranges)[0]

    def explanation(
        self, without: dict[int | str, NDArray[np.float64]], precedent: Precedent, same: int
    ) -> Explanation:
        past, votes, share = self.past, self.plain.votes[self.i], self.plain.everyone[self.i]
        ends = self.reading.interval(votes, share, self.level, self.row)
        known = None if self.cases.y[self.i] == HIDDEN else self.words.outcomes
        named = [self.neighbor(b, without.get(b)) for b in self.neighbors]
        by_index = {neighbor.index: neighbor for neighbor in named}
        others = [by_index.get(int(past.parents[b])) or self.neighbor(b, without.get(b)) for b in self.contradicting]
        exemplars = tuple(self.exemplar(k, without.get(f"crowd {k}")) for k in range(len(self.crowds.exemplars)))
        number = self.number()
        attribution = self.attribution(number)
        groups = self.groups(attribution)
        features = tuple(self.feature(j, [*named, *others], exemplars) for j in range(len(past.schema.columns)))
        left_out = past.rows != same
        return Explanation(
            id=self.words.named(self.row),
            values=dict(self.words.texts[self.row]),
            n_known=sum(text != "missing" for text in self.words.texts[self.row].values()),
            outcome=None if known is None else known[self.row],
            target=past.target,
            predicted=past.classes[self.best],
            probabilities=self.by_class(self.probabilities),
            population=self.by_class(past.counts / max(1, past.counts.sum())),
            intervals=self.ends_by_class(ends),
            votes=self.by_class(votes),
            error=self.error(),
            level=self.level,
            like_this=like_this(
                float(votes[self.best]),
                past.votes[left_out, self.best],
                past.y[past.rows[left_out]] == self.best,
                past.classes[self.best],
            ),
            attribution=attribution,
            opinions=self.opinions(),
            precedent=precedent,
            guards=tuple(self.guards(features, precedent, same)),
            groups=groups,
            ungrouped=self.ungrouped(groups),
            exemplars=exemplars,
            tally=self.tally(),
            distances=Distances(self.crowds.differing, self.crowds.usual),
            neighbors=tuple(named),
            contradicting=tuple(others),
            features=features,
            stability=self.stability(len(self.neighbors)),
            reliance_class=past.classes[-1],
            about=dict(past.about),
            follow_up=self.everyone.fitted.follow_up_among(share.astype(np.float64), self.level),
            **number,
        )

    def number(self) -> dict[str, Any]:
        """The outcome itself, where it is a number."""
        if self.past.read_number is None:
            return {}
        share = self.plain.everyone[[self.i]]
        second = self.reading.second
        if second is not None and second.number is not None:
            mean, low, high = second.number(share, self.level, self.row).tolist()
        else:
            mean, low, high = self.past.read_number(share, self.level)[0].tolist()
        return {"mean": mean, "interval": (low, high)}

    def attribution(self, number: dict[str, Any]) -> Attribution | None:
        """What each value adds to the prediction; None where that cannot be known."""
        second, fitted, row = self.reading.second, self.past.fitted, self.row
        if self.posterior.log_weights is None or (second is not None and second.of_known is None):
            return None
        case = self.whole._replace(x=self.whole.x[[row]], y=np.array([HIDDEN]), own_parent=self.whole.own_parent[[row]])
        known = ~np.isnan(case.x[0])
        if second is not None and second.uses is not None:
            known |= second.uses[row]
        players = np.flatnonzero(known)
        votes = self.plain.votes[[self.i]]
        if isinstance(fitted, FittedNumbers):
            label, scale, total = None, 1.0, float(number["mean"])
            voter = SubsetVoter.of(self.posterior, case, players, fitted.outcomes[fitted.parents])
            precedents = fitted.read_number(self.plain.everyone[[self.i]], self.level)[:, 0]
            value = Value.of_mean(fitted, second, row, players)
        else:
            m = len(votes[0]) - 1 if len(votes[0]) <= 2 else self.best
            label, scale, total = self.past.classes[m], 100.0, float(self.probabilities[m])
            voter = SubsetVoter.of(self.posterior, case, players)
            precedents = self.past.calibration.apply(votes)
            value = Value.of_class(m, fitted, second, row, players)
        found = attribute(voter, value, precedents, total)
        own, names = self.words.texts[row], self.past.schema.names
        parts = np.zeros((len(names), 2))
        parts[players] = scale * found.parts
        each = [
            FeaturePoints(name, own[name], float(part.sum()), float(part[0]), float(part[1]))
            for name, part in zip(names, parts, strict=True)
        ]
        error = scale * float(found.error.max(initial=0.0))
        return Attribution(label, found.base, total, error, tuple(sorted(each, key=lambda one: -abs(one.points))))

    def by_class(self, numbers: NDArray[np.float64]) -> dict[str, float]:
        return dict(zip(self.past.classes, numbers.tolist(), strict=True))

    def error(self) -> float | None:
        """Monte Carlo standard error of the probability, the largest over the classes."""
        batches = self.plain.batches[self.i]
        if len(batches) < 2:
            return None
        each = self.reading.of(batches, self.row)
        return float((each.std(axis=0, ddof=1) / np.sqrt(len(each))).max())

    def opinions(self) -> Opinions | None:
        second = self.reading.second
        if second is None:
            return None
        votes, share = self.plain.votes[[self.i]], self.plain.everyone[[self.i]]
        precedents = self.past.calibration.apply(votes[0])
        additive = second.probabilities[self.row]
        points = None
        if second.points is not None:
            points = tuple(zip(self.past.schema.names, second.points[self.row].tolist(), strict=True))
        return Opinions(
            precedents=self.by_class(precedents),
            additive=self.by_class(additive),
            weight=second.pool.weight,
            disagreement=float(disagreement(additive, precedents)),
            points=points,
            base=None if second.base is None or points is None else self.by_class(second.base),
            intervals={
                "precedents": self.ends_by_class(self.past.calibration.interval(votes, share, self.level)[0]),
                "additive": None if second.interval is None else self.ends_by_class(second.interval[self.row]),
            },
        )

    def ends_by_class(self, ends: NDArray[np.float64]) -> dict[str, tuple[float, float]]:
        return {name: (float(a), float(b)) for name, a, b in zip(self.past.classes, *ends.T, strict=True)}

    def guards(self, features: Sequence[Feature], precedent: Precedent, same: int) -> Iterator[Guard]:
        past, numbers = self.everyone, self.words.values[self.row]
        far = [column.name for column, by in zip(past.schema.columns, self.beyond.tolist(), strict=True) if by]
        yield from guards.guard_numbers(past.schema, numbers, past.ranges)
        yield from guards.guard_usual(past.schema, numbers, far)
        yield from guards.guard_unseen(features, far)
        if same >= 0 and past.may_be_shown(same):
            yield guards.guard_itself(past.named(same), self.words.named(self.row))
        yield from guards.guard_combination(precedent, features)
        mine = list(past.subgroups.of_case(self.cases.x[self.i], numbers))
        yield from guards.guard_subgroups(mine, past.accuracy)
        if past.read_number is None:
            voting = np.bincount(past.y[past.parents], minlength=len(past.classes))
            counts = np.bincount(past.y, minlength=len(past.classes))
            yield from guards.guard_rare(
                dict(zip(past.classes, counts.tolist(), strict=True)),
                [name for name, n in zip(past.classes, voting.tolist(), strict=True) if not n],
            )

    def tally(self) -> dict[str, Tally]:
        """The votes for each class, by who casts them."""
        y = self.cases.y_parents
        found = {}
        for m, name in enumerate(self.past.classes):
            mine = float(self.plain.cast[self.i, m])
            groups = zip(self.crowds.exemplars, self.crowds.shares.tolist(), strict=True)
            shown = sum(cast for b, cast in groups if y[b] == m)
            vote = float(self.plain.votes[self.i, m])
            found[name] = Tally(shown, max(0.0, mine - shown), max(0.0, vote - mine))
        return found

    def patches(self, b: int, matters: NDArray[np.float64]) -> dict[str, Patch]:
        """The values of a parent beside the case's."""
        past = self.past
        texts = self.everyone.texts_of(int(past.parents[b]))  # which keeps them
        marked = mark(self.weights[b], self.worth, self.agrees[b])
        own = self.words.texts[self.row]
        return {
            name: Patch(
                value=text,
                agrees=bool(self.agrees[b, j]),
                matters=float(matters[j]),
                comparison=comparison(bool(self.agrees[b, j]), own[name], text),
                weight=float(self.weights[b, j]),
                marked=bool(marked[j]) and own[name] != "missing" and not self.beyond[j],
            )
            for j, (name, text) in enumerate(texts.items())
        }

    def groups(self, attribution: Attribution | None) -> tuple[Group, ...]:
        """The voters, in groups that resemble the case in the same way."""
        whole, past = self.whole, self.everyone
        share = self.plain.everyone[self.i].astype(np.float64)
        agrees = agreement(self.cases.x[self.i], whole)
        own, names = self.words.texts[self.row], past.schema.names
        if attribution is None:
            counts_for = effects(self.posterior.model, whole.n_values, self.importance)
        else:
            points = {one.feature: abs(one.precedents) for one in attribution.features}
            counts_for = np.array([points[name] for name in names])
        counts_for = np.where([own[name] == "missing" for name in names], 0.0, counts_for)
        found = group_voters(share, agrees, whole.y_parents, whole.n_classes, counts_for)
        groups = []
        for group in found:
            rows = past.parents[group.members]
            counts = np.bincount(past.y[rows], minlength=len(past.classes)).tolist()
            groups.append(
                Group(
                    vote_share=group.vote_share,
                    size=len(rows),
                    counts=dict(zip(past.classes, counts, strict=True)),
                    outcomes=self.by_class(group.votes / group.votes.sum()),
                    shared=tuple((names[j], own[names[j]]) for j in group.shared),
                    closest=self.closest(rows),
                    rows=tuple(rows.tolist()),
                )
            )
        return tuple(groups)

    def closest(self, rows: NDArray[np.int64]) -> Closest | None:
        """The first of some past cases of whom details are known."""
        places = {row: b for b, row in enumerate(self.past.parents.tolist())}
        for row in rows.tolist():
            if row in places:
                b = places[row]
                probability = float(self.plain.probability[self.i, b])
                matters = np.minimum(self.plain.features[self.i, b] / max(probability, 1e-12), 1.0)
                return Closest(row, self.past.named(row), self.past.outcomes[row], self.patches(b, matters))
        return None

    def ungrouped(self, groups: Sequence[Group]) -> Ungrouped:
        """The votes of all past cases that are in no group."""
        grouped = np.zeros(len(self.past.classes))
        for group in groups:
            grouped += group.vote_share * np.array(list(group.outcomes.values()))
        rest = np.maximum(self.plain.cast[self.i] - grouped, 0.0)
        total = float(rest.sum())
        shares = rest / total if total > 0.0 else np.full(len(rest), 1.0 / len(rest))
        return Ungrouped(total, self.by_class(shares))

    def reliance(self, votes: NDArray[np.float64] | None) -> float | None:
        """Change of the probability of the last class from votes without somebody to the votes as they are."""
        if votes is None:
            return None
        return float(self.probabilities[-1] - self.reading.of(votes[None], self.row)[0, -1])

    def neighbor(self, b: int, without: NDArray[np.float64] | None) -> Neighbor:
        past, row = self.past, int(self.past.parents[b])
        probability = float(self.ballot.probability[self.i, b])
        matters = np.minimum(self.ballot.features[self.i, b] / max(probability, 1e-12), 1.0)
        return Neighbor(
            index=row,
            id=past.named(row),
            outcome=past.outcomes[row],
            label=past.classes[int(self.cases.y_parents[b])],
            probability=probability,
            influence=float(self.ballot.influence[self.i, b]),
            vote_share=float(self.ballot.share[self.i, b]),
            reliance=self.reliance(without),
            supports=bool(self.cases.y_parents[b] == self.best),
            features=self.patches(b, matters),
        )

    def exemplar(self, k: int, without: NDArray[np.float64] | None) -> Exemplar:
        past, crowds, share = self.past, self.crowds, self.plain.share[self.i]
        b, members, alike = int(crowds.exemplars[k]), crowds.members[k], crowds.alike[k]
        row = int(past.parents[b])
        votes = share[members] / share[members].sum()
        probability = np.maximum(self.plain.probability[self.i, members], 1e-12)[:, None]
        matters = votes @ np.minimum(self.plain.features[self.i, members] / probability, 1.0)
        rows = past.parents[members].tolist()
        crowd = zip(rows, share[members].tolist(), alike.tolist(), strict=True)
        return Exemplar(
            index=row,
            id=past.named(row),
            outcome=past.outcomes[row],
            label=past.classes[int(self.cases.y_parents[b])],
            stands_for=len(members),
            vote_share=float(crowds.shares[k]),
            reliance=self.reliance(without),
            supports=bool(self.cases.y_parents[b] == self.best),
            alike=float(votes @ alike),
            members=tuple(Member(r, past.named(r), past.outcomes[r], cast, like) for r, cast, like in crowd),
            features=self.patches(b, matters),
        )

    def feature(self, j: int, neighbors: Sequence[Neighbor], exemplars: Sequence[Exemplar]) -> Feature:
        column, share = self.past.schema.columns[j], self.plain.share[self.i]
        return Feature(
            name=column.name,
            value=self.words.texts[self.row][column.name],
            importance=float(self.everyone.importance.values[j]),
            importance_interval=tuple(self.everyone.importance.intervals[j].tolist()),
            explained=float(self.plain.explained[self.i, j]),
            weight=float(share @ self.weights[:, j] / max(float(share.sum()), 1e-12)),
            worth=float(self.worth[j]),
            neighbors=_most_relevant(column.name, {n.index: (n.features, n.vote_share) for n in neighbors}),
            exemplars=_most_relevant(column.name, {e.index: (e.features, e.vote_share) for e in exemplars}),
            close=close_range(column, float(self.cases.x[self.i, j]), float(self.words.values[self.row, j])),
            unseen=bool(self.words.unseen[self.row, j]),
            description=column.description,
            raw=column.raw_value(float(self.words.values[self.row, j])),
        )

    def stability(self, top: int) -> Stability:
        """Do the chains name the same past cases, and say the same?"""
        by_chain = self.ballot.share_by_chain[self.i]
        tops = [set(np.argsort(-influence, kind="stable")[:top].tolist()) for influence in by_chain]
        shared = [len(one & other) / max(1, top) for one, other in combinations(tops, 2)]
        each = self.reading.of(self.plain.by_chain[self.i], self.row)
        ends = zip(self.past.classes, each.min(axis=0).tolist(), each.max(axis=0).tolist(), strict=True)
        return Stability(float(np.mean(shared)) if shared else None, {name: (a, b) for name, a, b in ends})


def _most_relevant(name: str, shown: dict[int, tuple[dict[str, Patch], float]]) -> tuple[int, ...]:
    """Who agrees with the case in a feature, those through whom it counts most first."""
    counts = {
        index: patches[name].weight * share
        for index, (patches, share) in shown.items()
        if patches[name].agrees and patches[name].comparison != "missing"
    }
    return tuple(sorted(counts, key=lambda index: -counts[index]))
