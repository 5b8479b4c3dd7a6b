"""Attribution: how much each value of a case adds to the probability, from the base rate to the prediction.

The points of a feature are its Shapley value in the game whose value v(S) is the pooled probability if only the values
of the features S are known: v(none) is the base rate, v(all) the prediction. In other words, the points are the change
in the probability when the value becomes known, averaged over all orders in which the values can become known.

Each v(S) is split between precedents and additive opinion in the same way. Let w(S, T) be the pool if the precedents
use the values S and the additive opinion the values T. The change from w(none, none) to w(S, S) is averaged over the
two orders in which the opinions can learn S. Shapley values are linear, so the parts of a feature add up to its
points.

All sets of values are evaluated if that is affordable. Otherwise the Shapley values are the solution of a weighted
least squares problem over sampled sets and their complements (kernel SHAP with paired sampling: Lundberg and Lee 2017,
Covert and Lee 2021), and add up exactly. As a control variate, a surrogate in which the log odds of each opinion are a
sum over the features is evaluated on many more sets, and the sampled sets only estimate its error. If votes are
thinned, the sum differs slightly from the prediction; the difference is distributed by regression on the sum. The
standard error of each approximation comes from replicates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from bayespatch.explain.ballot import Ballot
from bayespatch.explain.parts import Attribution, FeaturePoints
from bayespatch.explain.reading import Reading
from bayespatch.fitted import Fitted, FittedNumbers, OpinionOnCases
from bayespatch.model import Data
from bayespatch.predict import SubsetVoter, all_subsets
from bayespatch.sampling.posterior import Posterior

Array = NDArray[np.float64]

SETS_PER_FEATURE = 8  # fewest sets to evaluate per feature, unless all sets are evaluated
MOST_SETS = 600  # most sets to evaluate in total, unless all sets are evaluated
ENOUGH_DRAWS = 100  # draws of the importances to use before more sets are evaluated
N_GROUPS = 8  # number of groups of sampled sets for the jackknife
SURROGATE_SETS = 4000  # sets on which the surrogate is evaluated in each of `N_GROUPS` replicates
_LEAST = 1e-9  # lower bound of a probability before taking its logarithm


class Sets(NamedTuple):
    """Sets of p values, and the matrices that compute Shapley values from the values of these sets.

    Attributes
    ----------
    known : bool array of shape (K, p)
        The known values of each set; the empty set is first and the full set last.
    solver : array of shape (p, K)
        Maps the values of the sets to the Shapley values.
    without : array of shape (G, p, K)
        The same matrices, each without one group of the sampled sets; G = 0 if all sets are evaluated.
    """

    known: NDArray[np.bool_]
    solver: Array
    without: Array

    @classmethod
    def every(cls, p: int) -> Sets:
        """All 2^p sets.

        Examples
        --------
        >>> Sets.every(2).solver @ [0.0, 1.0, 2.0, 6.0]
        array([3.5, 2.5])
        """
        known = all_subsets(p)
        if not p:
            return cls(known, np.empty((0, 1)), np.empty((0, 0, 1)))
        size = known.sum(axis=1)
        weight = np.array([1.0 / (p * math.comb(p - 1, s)) for s in range(p)])
        with_it, without_it = weight[np.maximum(size - 1, 0)], weight[np.minimum(size, p - 1)]
        return cls(known, np.where(known.T, with_it, -without_it), np.empty((0, p, len(known))))

    @classmethod
    def sampled(cls, p: int, n_sets: int, rng: np.random.Generator) -> Sets:
        """About `n_sets` sets: all sets of the smallest and largest sizes, and sampled pairs of complementary sets."""
        mass = {s: (p - 1) / (s * (p - s)) * (1 if 2 * s == p else 2) for s in range(1, p // 2 + 1)}
        left, rest = float(n_sets), sum(mass.values())
        sets, weights = [], []
        for s in range(1, p // 2 + 1):
            n = math.comb(p, s) * (1 if 2 * s == p else 2)
            if s > 1 and left * mass[s] / rest < n:
                break
            own = np.zeros((math.comb(p, s), p), dtype=np.bool_)
            for k, members in enumerate(combinations(range(p), s)):
                own[k, members] = True
            sets.append(own if 2 * s == p else np.concatenate([own, ~own]))
            weights.append(np.full(n, mass[s] / n))
            left, rest = left - n, rest - mass.pop(s)
        group = np.full(sum(map(len, sets)), -1)
        if mass:
            n_pairs = max(N_GROUPS, int(left) // 2)
            sizes = rng.choice(list(mass), size=n_pairs, p=np.array(list(mass.values())) / rest)
            ranks = rng.random((n_pairs, p)).argsort(axis=1).argsort(axis=1)
            half = ranks < sizes[:, None]
            sets.append(np.concatenate([half, ~half]))
            weights.append(np.full(2 * n_pairs, rest / (2 * n_pairs)))
            group = np.concatenate([group, np.tile(np.arange(n_pairs) % N_GROUPS, 2)])
        inner, weight = np.concatenate(sets), np.concatenate(weights)
        known = np.concatenate([np.zeros((1, p), np.bool_), inner, np.ones((1, p), np.bool_)])
        n_groups = N_GROUPS if mass else 0
        scale = N_GROUPS / (N_GROUPS - 1)
        without = [_solver(inner, np.where(group < 0, weight, weight * scale * (group != g))) for g in range(n_groups)]
        return cls(known, _solver(inner, weight), np.reshape(without, (n_groups, p, len(known))))


def _solver(inner: NDArray[np.bool_], weight: Array) -> Array:
    """Weighted least squares under the constraint that the points add up, as a matrix on the values of all sets."""
    z = inner.astype(np.float64)
    p = z.shape[1]
    inverse = np.linalg.inv(z.T @ (weight[:, None] * z))
    free = inverse @ (z.T * weight)
    share = inverse.sum(axis=1) / inverse.sum()
    solution = np.empty((p, len(z) + 2))
    solution[:, 1:-1] = free - np.outer(share, free.sum(axis=0))
    solution[:, -1] = share
    solution[:, 0] = -solution[:, 1:].sum(axis=1)
    return solution


def attribution_of(
    reading: Reading, ballot: Ballot, posterior: Posterior, case: Data, own: Mapping[str, str]
) -> Attribution | None:
    """Contribution of each value of a case to the prediction; None if it cannot be computed.

    Parameters
    ----------
    reading : Reading
    ballot : Ballot
        The votes on the case.
    posterior : Importances
        The importances that predicted the case.
    case : Data
        The case alone, its outcome hidden, and the past cases.
    own : dict
        The case's values as text, {feature: text}.
    """
    fitted, second, row = reading.fitted, reading.second, reading.row
    if posterior.log_weights is None or (second is not None and second.of_known is None):
        return None
    known = ~np.isnan(case.x[0])
    if second is not None and second.uses is not None:
        known |= second.uses[row]
    players = np.flatnonzero(known)
    if isinstance(fitted, FittedNumbers):
        label, scale, value = None, 1.0, Value.of_mean(fitted, second, row, players)
        voter = SubsetVoter.of(posterior, case, players, fitted.outcomes[fitted.parents])
        precedents = fitted.read_number(ballot.share[None].astype(np.float32), reading.level)[:, 0]
        number = reading.number(ballot)
        assert number is not None
        total = number[0]
    else:
        p = reading.probabilities(ballot.votes[None])[0]
        m = focus(p)
        label, scale, value = fitted.class_names[m], 100.0, Value.of_class(m, fitted, second, row, players)
        voter = SubsetVoter.of(posterior, case, players)
        precedents, total = fitted.calibration.apply(ballot.votes[None]), float(p[m])
    points = attribute(voter, value, precedents, total)
    parts = np.zeros((len(own), 2))
    parts[players] = scale * points.parts
    each = [
        FeaturePoints(name, text, float(part.sum()), float(part[0]), float(part[1]))
        for (name, text), part in zip(own.items(), parts, strict=True)
    ]
    each.sort(key=lambda one: -abs(one.points))
    return Attribution(label, points.base, total, scale * float(points.error.max(initial=0.0)), tuple(each))


def focus(p: Array) -> int:
    """The class to explain, given the probabilities, (M,): the last of two classes, or the most probable of several."""
    return len(p) - 1 if len(p) <= 2 else int(p.argmax())


class Value(NamedTuple):
    """How votes and the additive opinion are converted to the number that is explained.

    Attributes
    ----------
    precedents : function
        Predictions of the precedents, (K, M) or (K,), from votes by class, (K, M), and sums of outcomes.
    additive : function
        Predictions of the additive opinion, (K, M) or (K,), for sets of known features, (K, p).
    pooled : function
        The explained number, (K,), from the additive opinion and the precedents, in this order.
    """

    precedents: Callable[[Array, Array | None], Array]
    additive: Callable[[NDArray[np.bool_]], Array]
    pooled: Callable[[Array, Array], Array]

    @classmethod
    def of_class(
        cls, m: int, fitted: Fitted, second: OpinionOnCases | None, row: int, players: NDArray[np.int64]
    ) -> Value:
        """The probability of class m of the case in this row."""

        def precedents(cast: Array, outcomes: Array | None) -> Array:
            rest = 1.0 - cast.sum(axis=1, keepdims=True)
            base = fitted.hyper.mu0_per_class(fitted.n_classes)
            return fitted.calibration.apply(cast + rest * base / base.sum())

        def pooled(additive: Array, own: Array) -> Array:
            return (own if second is None else second.pool.combine(additive, own))[:, m]

        return cls(precedents, _additive(second, row, players, fitted.n_classes), pooled)

    @classmethod
    def of_mean(
        cls, fitted: FittedNumbers, second: OpinionOnCases | None, row: int, players: NDArray[np.int64]
    ) -> Value:
        """The mean outcome of the case in this row."""

        def precedents(cast: Array, outcomes: Array | None) -> Array:
            assert outcomes is not None
            return fitted.means_of_classes(cast, outcomes)

        def pooled(additive: Array, own: Array) -> Array:
            return own if second is None else second.pool.combine(additive, own)

        return cls(precedents, _additive(second, row, players, None), pooled)


def _additive(
    second: OpinionOnCases | None, row: int, players: NDArray[np.int64], n_classes: int | None
) -> Callable[[NDArray[np.bool_]], Array]:
    """Predictions of the second opinion for sets of players; zeros without a second opinion."""

    def of_sets(known: NDArray[np.bool_]) -> Array:
        if second is None or second.of_known is None:
            return np.zeros(len(known) if n_classes is None else (len(known), n_classes))
        n_features = second.uses.shape[1] if second.uses is not None else len(players)
        everywhere = np.zeros((len(known), n_features), np.bool_)
        everywhere[:, players] = known
        return second.of_known(row, everywhere)

    return of_sets


class Points(NamedTuple):
    """Shapley values of p features.

    Attributes
    ----------
    base : float
        The number for a case without known values.
    parts : array of shape (p, 2)
        Contribution of each feature through precedents and through the additive opinion.
    error : array of shape (p,)
        Standard error of their sum.
    """

    base: float
    parts: Array
    error: Array


def attribute(voter: SubsetVoter, value: Value, precedents: Array, total: float) -> Points:
    """Distribute the difference between base rate and prediction among the features with known values.

    Parameters
    ----------
    voter : SubsetVoter
        Votes on the case given some of its values.
    value : Value
    precedents : array of shape (1, M) or (1,)
        Predictions of the precedents if all values are known, from all draws.
    total : float
        The prediction.
    """
    if not voter.n_players:
        return Points(total, np.zeros((0, 2)), np.zeros(0))
    sets = _sets_for(voter)
    seen = voter.vote_on_all() if voter.affords_all() else voter.vote_on(sets.known)
    additive = value.additive(sets.known)

    def by_precedents(batches: NDArray[np.bool_]) -> Array:
        """Predictions of the precedents for each set, from some batches of the votes."""
        sums = None if seen.outcomes is None else seen.outcomes[batches].mean(axis=0)
        return value.precedents(seen.cast[batches].mean(axis=0), sums)

    n = len(seen.cast)
    own = by_precedents(np.ones(n, np.bool_))
    base, game = _split(value.pooled, additive, own)
    surrogate, rest, by_sets = np.zeros((voter.n_players, 2)), game, np.zeros((0, voter.n_players))
    if len(sets.without):
        surrogate, fitted, replicates = _surrogate(sets, value.pooled, additive, own, voter.seed)
        rest = game - fitted
        left_out = (sets.without @ rest).sum(axis=2)
        of_rest = np.sqrt((N_GROUPS - 1) / N_GROUPS) * (left_out - left_out.mean(axis=0))
        by_sets = np.concatenate([of_rest, replicates.sum(axis=2)])
    points = surrogate + sets.solver @ rest
    exact = _split(value.pooled, additive[[0, -1]], np.concatenate([own[:1], precedents]))[1][-1]
    exact[0] += total - base - exact.sum()  # by rounding
    moves = np.zeros((0, *points.shape))
    if n > 1:
        each = [sets.solver @ _split(value.pooled, additive, by_precedents(np.arange(n) != k))[1] for k in range(n)]
        moves = np.sqrt((n - 1) / n * seen.omitted) * (np.array(each) - np.mean(each, axis=0))
    share = _shares_of_sum(points, moves)
    by_draws = (moves - share * moves.sum(axis=1, keepdims=True)).sum(axis=2)
    error = np.sqrt((by_draws**2).sum(axis=0) + (by_sets**2).sum(axis=0))
    return Points(base, points + share * (exact - points.sum(axis=0)), error)


def _surrogate(
    sets: Sets, pooled: Callable[[Array, Array], Array], additive: Array, precedents: Array, seed: int
) -> tuple[Array, Array, Array]:
    """Shapley values, (p, 2), of a surrogate in which the log odds of each opinion are sums over the known features.

    Also returns the surrogate's values of the sampled sets, (K, 2), and deviations whose squares add up to the variance
    of the Shapley values, (G, p, 2). The last axis is precedents, additive.
    """
    near = [_additive_fit(sets.known, opinion) for opinion in (additive, precedents)]
    each = np.empty((N_GROUPS, sets.known.shape[1], 2))
    for k, many in enumerate(_replicates(sets.known.shape[1], seed)):
        each[k] = many.solver @ _split(pooled, *(predict(many.known) for predict in near))[1]
    mean = each.mean(axis=0)
    by_sets = _split(pooled, *(predict(sets.known) for predict in near))[1]
    return mean, by_sets, (each - mean) / np.sqrt(N_GROUPS * (N_GROUPS - 1))


def _additive_fit(known: NDArray[np.bool_], opinion: Array) -> Callable[[NDArray[np.bool_]], Array]:
    """Fit an opinion, (K, M) probabilities or (K,) means, by a sum over the known features; probabilities as logits."""
    design = np.column_stack([np.ones(len(known)), known])
    if opinion.ndim == 1:
        coefficients = np.linalg.lstsq(design, opinion, rcond=None)[0]
        return lambda sets: coefficients[0] + sets @ coefficients[1:]
    logs = np.log(np.maximum(opinion, _LEAST))
    coefficients = np.linalg.lstsq(design, logs - logs[:, -1:], rcond=None)[0]
    return lambda sets: softmax(coefficients[0] + sets @ coefficients[1:], axis=1)


def _split(pooled: Callable[[Array, Array], Array], additive: Array, precedents: Array) -> tuple[float, Array]:
    """The value of the first set, and how much each opinion adds to it for every set, (K, 2): precedents, additive."""
    both = pooled(additive, precedents)
    first = pooled(np.broadcast_to(additive[:1], additive.shape), precedents)
    second = pooled(additive, np.broadcast_to(precedents[:1], precedents.shape))
    gap = first - second
    return float(both[0]), 0.5 * (both - both[0] + np.stack([gap, -gap])).T


def _shares_of_sum(points: Array, moves: Array) -> Array:
    """Each feature's share, (p, 2), of a difference in the sum over features, by regression on the sum.

    Without replicates the difference is only rounding error, and is distributed in proportion to the points.
    """
    total = moves.sum(axis=1, keepdims=True)
    spread = (total**2).sum(axis=0)
    size = np.abs(points) + 1e-300
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(spread > 0.0, (moves * total).sum(axis=0) / spread, size / size.sum(axis=0))


def _sets_for(voter: SubsetVoter) -> Sets:
    p = voter.n_players
    affordable = voter.affordable_sets(ENOUGH_DRAWS)
    n_sets = min(max(affordable, SETS_PER_FEATURE * p), MOST_SETS)
    if voter.affords_all() or 2**p <= n_sets:
        return _every(p)
    return _sampled(p, n_sets, voter.seed)


@lru_cache(maxsize=8)
def _every(p: int) -> Sets:
    return Sets.every(p)


@lru_cache(maxsize=8)
def _sampled(p: int, n_sets: int, seed: int) -> Sets:
    return Sets.sampled(p, n_sets, np.random.default_rng(seed))


@lru_cache(maxsize=2)
def _replicates(p: int, seed: int) -> tuple[Sets, ...]:
    """Independent samples of sets for the surrogate."""
    rng = np.random.default_rng([seed, 1])
    return tuple(Sets.sampled(p, SURROGATE_SETS, rng)._replace(without=np.empty((0, p, 0))) for _ in range(N_GROUPS))
