"""From a posterior and the past to explanations of cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespatch.calibrate import Calibration
from bayespatch.encode import Schema, describe_values
from bayespatch.explain.explanation import Explanation
from bayespatch.explain.parts import Feature, Neighbor, Patch, Precedent, Stability
from bayespatch.model import HIDDEN, Data
from bayespatch.posterior import Posterior
from bayespatch.predict import Prediction, predict_batches, predict_cases


@dataclass(frozen=True, eq=False)
class Past:
    """What is known of the past cases, in the user's words.

    Attributes
    ----------
    schema : Schema
    values : array of shape (n, P)
        The training table, as `EncodedTable.values`.
    ids : sequence of n texts, or None
        What its rows are called; None: their numbers.
    outcomes : sequence of n texts
        What became of them.
    parents : int array of shape (S,)
        Which rows are parents.
    classes : tuple of M texts
        What the classes are called.
    target : str
        What the outcome is called.
    calibration : Calibration
    familiarity : array of shape (R,)
        Of past cases as if they were new.
    about : dict
        The model.
    read_number : function, optional
        Where the outcome is a number: from shares of the votes of the parents, (n, S), and a level to mean, lower and
        upper end, (n, 3).
    """

    schema: Schema
    values: NDArray[np.float64]
    ids: Sequence[str] | None
    outcomes: Sequence[str]
    parents: NDArray[np.int64]
    classes: tuple[str, ...]
    target: str
    calibration: Calibration
    familiarity: NDArray[np.float64]
    about: dict[str, Any]
    read_number: Callable[[NDArray[np.float32], float], NDArray[np.float64]] | None = None

    def percentile(self, familiarity: NDArray[np.float64]) -> NDArray[np.float64]:
        """Share of past cases no more familiar than each of these, the case itself counted among them.

        Under exchangeability a case has a percentile of at most u with probability at most u.
        """
        ordered = np.sort(self.familiarity)
        n_below = np.searchsorted(ordered, familiarity, side="right").astype(np.float64)
        return (1.0 + n_below) / (1.0 + len(ordered))

    def named(self, row: int) -> str:
        """What a row of the training table is called."""
        return str(row) if self.ids is None else self.ids[row]


@dataclass(frozen=True, eq=False)
class Told:
    """Cases as the user has told them: what they are called, their values, their outcomes where known."""

    ids: Sequence[str] | None
    values: Sequence[dict[str, str]]
    unseen: NDArray[np.bool_]  # (n, P)
    outcomes: Sequence[str] | None = None


def explain_cases(
    posterior: Posterior,
    cases: Data,
    told: Told,
    past: Past,
    *,
    top: int = 4,
    level: float = 0.9,
    quantile: float = 0.05,
    n_threads: int = 1,
    engine: str = "auto",
) -> Iterator[Explanation]:
    """Explain cases, one after the other, batch by batch.

    Parameters
    ----------
    posterior : Posterior
        Under which they are looked at.
    cases : Data
        The coded cases, their outcomes hidden, or known and counted, and the parents. None of them may be a parent
        (`own_parent` is -1): taking a past case away uses that place.
    told : Told
        The same cases in the user's words.
    past : Past
        The past in the user's words.
    top : int
        How many neighbors to name; half as many dissenting ones are named beside them.
    level : float
        Of the credible intervals.
    quantile : float
        Cases that are less familiar than all but this share of the past cases have no adequate precedent.
    n_threads : int
        Threads.
    engine : {"cpu", "cuda", "auto"}
        As in `predict_batches`.
    """
    run: dict[str, Any] = {"n_threads": n_threads, "engine": engine}
    first = 0
    for seen in predict_batches(posterior, cases, detail=True, **run):
        rows = np.arange(first, first + len(seen.familiarity))
        first += len(rows)
        hidden = _part(cases, rows)
        # What would be said without knowing the outcome; the neighbors are those found with it.
        plain = seen
        if np.any(cases.y[rows] != HIDDEN):
            plain = predict_cases(posterior, hidden, detail=True, **run)
        votes = plain.mean_votes()
        probabilities = past.calibration.apply(votes)
        percentiles = past.percentile(plain.familiarity)
        chosen = [
            _chosen(influence, cases.y_parents, best, top)
            for influence, best in zip(_influence(seen), probabilities.argmax(axis=1).tolist(), strict=True)
        ]
        without = _without(posterior, hidden, plain, chosen, past.calibration, run)
        for i, row in enumerate(rows.tolist()):
            precedent = Precedent(bool(percentiles[i] > quantile), float(percentiles[i]), quantile)
            one = _One(posterior, cases, told, past, seen, plain, i, row, votes[i], probabilities[i], without[i], level)
            yield one.explanation(*chosen[i], precedent)


def _part(cases: Data, rows: NDArray[np.int64], own_parent: NDArray[np.int64] | None = None) -> Data:
    """Some of the cases, their outcomes hidden, each without one of the parents, or with all of them."""
    without = np.full(len(rows), -1) if own_parent is None else own_parent
    return cases._replace(x=cases.x[rows], y=np.full(len(rows), HIDDEN), own_parent=without)


def _influence(seen: Prediction) -> NDArray[np.float32]:
    assert seen.company is not None
    return seen.company.influence


def _chosen(
    influence: NDArray[np.float32], y_parents: NDArray[np.int64], best: int, top: int
) -> tuple[list[int], list[int]]:
    """The most influential parents, and the most influential of those that speak for another class than the best."""
    order = np.argsort(-influence, kind="stable")
    order = order[influence[order] > 0]
    other = order[y_parents[order] != best]
    return order[:top].tolist(), other[: max(1, top // 2)].tolist()


def _without(
    posterior: Posterior,
    hidden: Data,
    plain: Prediction,
    chosen: Sequence[tuple[list[int], list[int]]],
    calibration: Calibration,
    run: dict[str, Any],
) -> list[dict[int, NDArray[np.float64]]]:
    """Class probabilities of each case without each of its chosen parents, by parent.

    Such a parent is given the place of the case's own: it is never a neighbor, and nothing else changes. These are the
    votes given that it is no neighbor, of which the draws of `plain` without it are draws as well: both together,
    beside the draws with it, tell its effect far more precisely than the difference of two runs.
    """
    pairs = [(i, b) for i, (neighbors, other) in enumerate(chosen) for b in dict.fromkeys([*neighbors, *other])]
    found: list[dict[int, NDArray[np.float64]]] = [{} for _ in chosen]
    if not pairs:
        return found
    assert plain.company is not None
    cases, parents = np.array(pairs).T
    votes = plain.mean_votes()[cases]
    apart = predict_cases(posterior, _part(hidden, cases, parents), **run).mean_votes()
    p = plain.company.probability[cases, parents].astype(np.float64)[:, None]
    beside = plain.company.votes_beside[cases, parents].astype(np.float64)
    without = (votes - beside + apart) / (2.0 - p)  # 1 - p of these draws have no such neighbor, and all of the others
    effect = beside - p * without  # p * (votes with it - votes without it)
    for (i, b), probabilities in zip(pairs, calibration.apply(votes - effect), strict=True):
        found[i][b] = probabilities
    return found


@dataclass(frozen=True, eq=False)
class _One:
    """One case among those of a batch, on its way to becoming an `Explanation`."""

    posterior: Posterior
    cases: Data
    told: Told
    past: Past
    seen: Prediction
    plain: Prediction
    i: int  # in the batch
    row: int  # among all cases
    votes: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    without: dict[int, NDArray[np.float64]]
    level: float

    def explanation(self, neighbors: list[int], dissenting: list[int], precedent: Precedent) -> Explanation:
        past, company = self.past, self.seen.company
        assert company is not None
        assert self.plain.company is not None
        ends = past.calibration.interval(self.votes[None], self.plain.company.share[[self.i]], self.level)[0]
        share = company.share[self.i].astype(np.float64)
        known = None if self.cases.y[self.row] == HIDDEN else self.told.outcomes
        named = [self.neighbor(b) for b in neighbors]
        by_index = {neighbor.index: neighbor for neighbor in named}
        others = [by_index.get(int(past.parents[b])) or self.neighbor(b) for b in dissenting]
        return Explanation(
            id=None if self.told.ids is None else self.told.ids[self.row],
            values=dict(self.told.values[self.row]),
            outcome=None if known is None else known[self.row],
            target=past.target,
            predicted=past.classes[int(self.probabilities.argmax())],
            probabilities=self.by_class(self.probabilities),
            intervals={name: (float(a), float(b)) for name, a, b in zip(past.classes, *ends.T, strict=True)},
            votes=self.by_class(self.votes),
            level=self.level,
            precedent=precedent,
            neighbors=tuple(named),
            dissenting=tuple(others),
            features=tuple(self.feature(j, [*named, *others]) for j in range(len(past.schema.columns))),
            stability=self.stability(len(neighbors)),
            vote_share_others=float(max(0.0, share.sum() - share[neighbors].sum())),
            vote_share_base=float(max(0.0, 1.0 - share.sum())),
            about=dict(past.about),
            **self.number(),
        )

    def number(self) -> dict[str, Any]:
        """The outcome itself, where it is a number."""
        if self.past.read_number is None:
            return {}
        assert self.plain.company is not None
        mean, low, high = self.past.read_number(self.plain.company.share[[self.i]], self.level)[0].tolist()
        return {"mean": mean, "interval": (low, high)}

    def by_class(self, numbers: NDArray[np.float64]) -> dict[str, float]:
        return dict(zip(self.past.classes, numbers.tolist(), strict=True))

    def neighbor(self, b: int) -> Neighbor:
        past, company = self.past, self.seen.company
        assert company is not None
        row = int(past.parents[b])
        probability = float(company.probability[self.i, b])
        matters = np.minimum(company.features[self.i, b] / max(probability, 1e-12), 1.0)
        with np.errstate(invalid="ignore"):
            agrees = np.abs(self.cases.x_parents[b] - self.cases.x[self.row]) <= self.cases.windows
        texts = describe_values(past.schema, past.values[row])
        patches = zip(texts.items(), agrees.tolist(), matters.tolist(), strict=True)
        best = int(self.probabilities.argmax())
        return Neighbor(
            index=row,
            id=past.named(row),
            outcome=past.outcomes[row],
            probability=probability,
            influence=float(company.influence[self.i, b]),
            vote_share=float(company.share[self.i, b]),
            reliance=float(self.probabilities[best] - self.without[b][best]),
            dissents=bool(self.cases.y_parents[b] != best),
            features={name: Patch(text, agree, p) for (name, text), agree, p in patches},
        )

    def feature(self, j: int, neighbors: Sequence[Neighbor]) -> Feature:
        assert self.seen.company is not None
        column = self.past.schema.columns[j]
        speaking = {
            neighbor.index: neighbor.influence * neighbor.features[column.name].matters
            for neighbor in neighbors
            if neighbor.features[column.name].marked
        }
        return Feature(
            name=column.name,
            value=self.told.values[self.row][column.name],
            importance=float(self.posterior.q[:, :, j].mean()),
            explained=float(self.seen.company.explained[self.i, j]),
            neighbors=tuple(sorted(speaking, key=lambda index: -speaking[index])),
            unseen=bool(self.told.unseen[self.row, j]),
            description=column.description,
        )

    def stability(self, top: int) -> Stability:
        """Do the chains name the same past cases, and say the same?"""
        assert self.seen.company is not None
        by_chain = self.seen.company.by_chain[self.i]
        tops = [set(np.argsort(-influence, kind="stable")[:top].tolist()) for influence in by_chain]
        shared = [len(one & other) / max(1, top) for one, other in combinations(tops, 2)]
        n_chains = len(by_chain)
        votes = self.plain.votes[:, self.i].reshape(n_chains, -1, len(self.past.classes)).mean(axis=1)
        each = self.past.calibration.apply(votes)
        ends = zip(self.past.classes, each.min(axis=0).tolist(), each.max(axis=0).tolist(), strict=True)
        return Stability(float(np.mean(shared)) if shared else None, {name: (a, b) for name, a, b in ends})
