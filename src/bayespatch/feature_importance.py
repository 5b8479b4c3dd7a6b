"""Importance of features for predictions.

As features become known, the log loss of past cases, each predicted from all the others, falls from the loss of the
base rates to the loss of the pooled prediction. The importance of a feature is its Shapley value: the decrease in the
loss when the feature becomes known, averaged over all orders in which features can become known, as a share of the base
rates' log loss. The shares of all features add up to the model's McFadden pseudo-R2. Two columns with the same content
share their joint importance. A feature without which the model would predict better has importance 0.

- An unknown feature is withheld from the fitted model, without refitting: it does not affect the weights of past cases
  and adds nothing to the additive opinion. The log weights are the means of their draws.
- No case is predicted with parameters learned from it. The past cases are split into folds, with all cases of a patient
  in the same fold. When a fold is left out, the importances q are updated by one Newton step, and the additive opinion
  is refitted.
- Intervals come from the delete-a-group jackknife over the folds, plus the Monte Carlo error of the sampled orders. The
  jackknife covers both the choice of the cases and the parameters learned from them.
- In a large table, an evenly spread sample of past cases is predicted from all the others. With more than `MOST_FOLDED`
  past cases, a single case hardly affects the model, so the interval covers only the choice of the cases.

Sampled votes are replaced with separately calibrated closed-form votes under the posterior mean of q, because sampling
a prediction for each subset of features would take minutes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats import t as student

from bayespatch.calibrate import Calibration
from bayespatch.importances import Effects
from bayespatch.model import Data
from bayespatch.pool import Pool
from bayespatch.predict import ClosedForm
from bayespatch.retrieval import CaseIndex, LeftOut, leave_one_out, vote
from bayespatch.retrieval.sums import LEAST
from bayespatch.sampling.posterior import Posterior
from bayespatch.second_opinion import AdditiveMean, AdditiveScore
from bayespatch.types import AnyArray

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

LEVEL = 0.95  # probability of the intervals
N_FOLDS, MOST_FOLDED = 20, 4000
N_WEIGHINGS = 2**31  # upper limit on weight computations over all cases and subsets of features
LEAST_CASES, MOST_CASES = 200, 2000  # limits on the number of past cases predicted
N_GROUPS, N_SHIFTS = 4, 2  # groups of orders; shifts of the random order in each group, each with its reverse
MOST_EXACT = 4  # up to this number of features, all orders are used


@dataclass(frozen=True, eq=False)
class FeatureImportance:
    """Importance of each of P features for predictions.

    Attributes
    ----------
    gains : array of shape (P,)
        Decrease in the leave-one-out log loss due to each feature, as a share of the base rates' log loss. Negative if
        the model would predict better without the feature.
    gain_intervals : array of shape (P, 2)
        Intervals of the gains, with probability `LEVEL`.
    loss_without, loss : float
        Log loss without features and with all features, in nats per case.
    n_cases : int
        Number of past cases predicted.

    Examples
    --------
    >>> found = clf.fitted_.importance
    >>> bool(np.isclose(found.gains.sum(), 1 - found.loss / found.loss_without))
    True
    """

    gains: Array
    gain_intervals: Array
    loss_without: float
    loss: float
    n_cases: int

    @property
    def values(self) -> Array:
        """Importances, (P,): the gains, or 0 for negative gains."""
        return np.maximum(self.gains, 0.0)

    @property
    def intervals(self) -> Array:
        """Intervals of the importances, (P, 2)."""
        return np.maximum(self.gain_intervals, 0.0)

    @property
    def certain(self) -> NDArray[np.bool_]:
        """Whether each feature clearly reduces the log loss: its whole interval is above 0, (P,)."""
        return self.gain_intervals[:, 0] > 0.0

    @property
    def harmful(self) -> NDArray[np.bool_]:
        """Whether the model would predict better without each feature: its whole interval is below 0, (P,)."""
        return self.gain_intervals[:, 1] < 0.0


class PooledModel(NamedTuple):
    """The parts of a model that predict past cases, and the past cases.

    Attributes
    ----------
    posterior : Posterior
    past : Data
        n past cases with their classes, and the parents that vote on them.
    calibration : Calibration
        Calibration of the votes.
    opinion : AdditiveScore, AdditiveMean, array of shape (T, M), or None
        The second opinion. A user's model is represented by its leave-one-out probabilities, which are the same
        whatever features are known.
    pool : Pool or None
    values : array of shape (T, P)
        The training table as `EncodedTable.values`.
    outcomes : array of shape (T,)
        Outcomes for the additive opinion: classes or numbers.
    cases : int array of shape (n,)
        Rows of the past cases in the training table.
    edges : array
        Edges at which numbers are cut into classes.
    weights : array of shape (T,), or None
        Weight of each row of the training table in the fit.
    """

    posterior: Posterior
    past: Data
    calibration: Calibration
    opinion: AdditiveScore | AdditiveMean | Array | None
    pool: Pool | None
    values: Array
    outcomes: AnyArray
    cases: Rows
    edges: Array
    weights: Array | None = None


def measure_importance(model: PooledModel, *, n_threads: int = 1, seed: int = 0) -> FeatureImportance:
    """Importance of each feature for the pooled prediction, with intervals.

    Parameters
    ----------
    model : PooledModel
    n_threads : int
        Number of threads; it does not affect the result.
    seed : int
        Seed of the orders and the folds.
    """
    rng = np.random.default_rng([seed, 41])
    n, n_features = model.past.x.shape
    groups = drawn_orders(n_features, rng)
    n_subsets = sum(len(orders) for orders in groups) * max(1, n_features - 1) + 2
    n_used = int(np.clip(N_WEIGHINGS // (len(model.past.x_parents) * n_subsets), LEAST_CASES, MOST_CASES))
    rows = np.linspace(0, n - 1, min(n, n_used)).round().astype(np.int64)
    folds = _folds(model.past, rng) if n <= MOST_FOLDED else np.zeros(n, np.int64)
    predictor = _Predictor.of(model, rows, n_threads)
    n_folds = int(folds.max()) + 1
    versions = [predictor.without(folds == k) for k in range(n_folds)] if n_folds > 1 else [predictor]
    mine = folds[rows]
    gains, ends = np.zeros((len(groups), len(rows), n_features)), np.empty((len(rows), 2))
    for k, version in enumerate(versions):
        own = np.flatnonzero(mine == k)
        ends[own], gains[:, own] = version.gains(own, groups)
    each = gains.mean(axis=0)
    loss_without, loss = (-ends.mean(axis=0)).tolist()
    variance, reach = each.var(axis=0) / max(1, len(rows) - 1), float(norm.ppf(0.5 + LEVEL / 2.0))
    if n_folds > 1:
        parts = [version.gains(np.flatnonzero(mine != k), groups[:1])[1][0] for k, version in enumerate(versions)]
        variance = (n_folds - 1) * np.var([part.mean(axis=0) for part in parts], axis=0)
        reach = float(student.ppf(0.5 + LEVEL / 2.0, n_folds - 1))
    if len(groups) > 1:
        variance = variance + gains.mean(axis=1).var(axis=0, ddof=1) / len(groups)
    half = reach * np.sqrt(variance)
    shares = each.mean(axis=0)
    unused = np.isnan(model.past.x_parents).all(axis=0)
    shares[unused] = half[unused] = 0.0
    intervals = np.stack([shares - half, shares + half], axis=1)
    return FeatureImportance(shares / loss_without, intervals / loss_without, loss_without, loss, len(rows))


def drawn_orders(n_features: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Groups of orders in which the features become known, each of shape (O, P).

    For up to `MOST_EXACT` features, all orders form one group. Otherwise, a group has a random order, cyclic shifts of
    it in which each feature comes both early and late, and the reverse of each.

    Examples
    --------
    >>> [orders.shape for orders in drawn_orders(3, np.random.default_rng(0))]
    [(6, 3)]
    >>> [orders.shape for orders in drawn_orders(9, np.random.default_rng(0))]
    [(4, 9), (4, 9), (4, 9), (4, 9)]
    """
    if n_features <= MOST_EXACT:
        return [np.array(list(permutations(range(n_features))))]
    groups = []
    for _ in range(N_GROUPS):
        first = rng.permutation(n_features)
        shifted = [np.roll(first, n_features * k // N_SHIFTS) for k in range(N_SHIFTS)]
        groups.append(np.array([*shifted, *(order[::-1] for order in shifted)]))
    return groups


@dataclass(frozen=True, eq=False)
class _Predictor:
    """Log probabilities of past cases if only some of their features are known."""

    model: PooledModel
    closed: ClosedForm
    calibration: Calibration
    log_weights: Array  # (K,)
    covariance: Array  # (K, K) of the log weights
    slope: float
    opinion: AdditiveScore | AdditiveMean | Array | None
    rows: Rows  # past cases to predict
    n_threads: int

    @classmethod
    def of(cls, model: PooledModel, rows: Rows, n_threads: int) -> _Predictor:
        posterior, past = model.posterior, model.past
        sampled = posterior.log_weights is None
        if sampled:
            posterior = _in_closed_form(posterior, past)
        closed = ClosedForm.of(posterior, past)
        assert posterior.log_weights is not None
        weights = posterior.log_weights.reshape(-1, posterior.log_weights.shape[2])
        # Leaving out past cases changes only importances that were learned from their outcomes.
        learned = posterior.steps is not None
        covariance = (
            np.atleast_2d(np.cov(weights.T)) if learned and len(weights) > 1 else np.zeros((weights.shape[1],) * 2)
        )
        slope = math.exp(float(posterior.steps[:, :, -2].mean())) if posterior.steps is not None else 1.0
        predictor = cls(
            model, closed, model.calibration, weights.mean(axis=0), covariance, slope, model.opinion, rows, n_threads
        )
        if not sampled and not posterior.settings.feature_subsets:
            return predictor
        votes = predictor._votes(np.arange(len(rows)), np.ones((1, past.x.shape[1])))[:, 0]
        base = np.array(model.calibration.base)
        return replace(
            predictor, calibration=Calibration.learn(votes, past.y[rows], base, anchor=model.calibration.anchor)
        )

    def without(self, left_out: NDArray[np.bool_]) -> _Predictor:
        """The predictor without some of the past cases, (n,), by one Newton step."""
        past, rows = self.model.past, self.rows
        opinion = self.opinion
        if isinstance(opinion, AdditiveScore | AdditiveMean):
            of_table = np.zeros(len(self.model.values), dtype=np.bool_)
            of_table[self.model.cases[left_out]] = True
            opinion = opinion.without(self.model.values, self.model.outcomes, of_table, self.model.weights)
        if not self.covariance.any():
            return replace(self, opinion=opinion)
        keep = np.ones(len(past.x_parents), dtype=np.bool_)
        keep[np.isin(_units_of_parents(past), _units_of_cases(past)[left_out])] = False
        all_cases = self._gradient(rows, np.ones_like(keep))
        others = self._gradient(rows[~left_out[rows]], keep)
        step = self.covariance @ ((others - all_cases) * (len(past.x) / len(rows)))
        return replace(self, opinion=opinion, log_weights=np.maximum(self.log_weights + step, 0.0))

    def _gradient(self, rows: Rows, keep: NDArray[np.bool_]) -> Array:
        """Gradient of the log likelihood of some cases, on which some parents vote, in the log weights, (K,)."""
        past, closed = self.model.past, self.closed
        if not len(rows) or not keep.any():
            return np.zeros_like(self.log_weights)
        windows = past.every_window()
        index = CaseIndex.build(
            *(past.x_parents[keep], past.y_parents[keep], past.n_classes, windows, closed.index.compares_missing),
            weights=None if past.weights is None else past.weights[keep],
        )
        own, places = past.own_parent[rows], np.cumsum(keep) - 1
        own = np.where((own >= 0) & keep[own], places[own], -1)
        scores = leave_one_out(
            index,
            index.ranges(past.x[rows]),
            past.y[rows],
            LeftOut.members(index, own, None if past.groups is None else past.groups[keep]),
            self.log_weights,
            slope=self.slope,
            heard=closed.heard,
            base=closed.base,
            n_threads=self.n_threads,
        )
        weights = self.model.weights
        if weights is None:
            return scores.by_comparison.sum(axis=0)
        return np.asarray(weights[self.model.cases[rows]] @ scores.by_comparison)

    def gains(self, places: Rows, groups: list[NDArray[np.int64]]) -> tuple[Array, Array]:
        """Log probabilities of the outcomes of some cases (positions in `rows`), and the contribution of each feature.

        Returns
        -------
        array of shape (n, 2)
            Log probabilities with no known features and with all.
        array of shape (G, n, P)
            For each group of orders, the increase in the log probability when a feature becomes known.
        """
        n_features = groups[0].shape[1]
        prefix = np.tril(np.ones((n_features, n_features)), -1)[1:]
        masks = [np.zeros((1, n_features)), np.ones((1, n_features))]
        for order in np.concatenate(groups):
            known = np.zeros_like(prefix)
            known[:, order] = prefix
            masks.append(known)
        log_p = self._log_probabilities(places, np.concatenate(masks))
        gains, first = np.zeros((len(groups), len(places), n_features)), 2
        for part, orders in zip(gains, groups, strict=True):
            for order in orders:
                between = log_p[:, first : first + n_features - 1]
                first += n_features - 1
                part[:, order] += np.diff(np.column_stack([log_p[:, 0], between, log_p[:, 1]]), axis=1) / len(orders)
        return log_p[:, :2], gains

    def _votes(self, places: Rows, masks: Array) -> Array:
        """Shares of the votes, (n, C, M), if the features in each of the C rows of `masks` are known."""
        past, closed, rows = self.model.past, self.closed, self.rows[places]
        sums = vote(
            closed.index,
            closed.index.ranges(past.x[rows]),
            self.log_weights * masks[:, closed.index.columns],
            left_out=LeftOut.members(closed.index, past.own_parent[rows], past.groups),
            n_threads=self.n_threads,
        )
        return (1.0 - LEAST) * sums.shares(closed.heard) + LEAST * closed.base

    def _log_probabilities(self, places: Rows, masks: Array) -> Array:
        """Log probabilities of the observed classes, (n, C)."""
        model, rows = self.model, self.rows[places]
        p = self.calibration.apply(self._votes(places, masks))
        additive = _additive(self.opinion, model, model.cases[rows], masks)
        if additive is not None and model.pool is not None:
            p = model.pool.combine(additive, p)
        own = np.take_along_axis(p, model.past.y[rows][:, None, None], axis=2)[:, :, 0]
        return np.log(np.maximum(own, 1e-12))


def _additive(
    opinion: AdditiveScore | AdditiveMean | Array | None, model: PooledModel, rows: Rows, masks: Array
) -> Array | None:
    """Probabilities from the second opinion, (n, C, M), for rows of the training table with some features known."""
    if opinion is None:
        return None
    if isinstance(opinion, AdditiveScore):
        return opinion.from_contributions(np.einsum("npk,cp->nck", opinion.contributions(model.values[rows]), masks))
    if isinstance(opinion, AdditiveMean):
        means = opinion.base + opinion.points(model.values[rows]) @ masks.T
        below = [opinion.below(means, np.full_like(means, edge)) for edge in model.edges.tolist()]
        return np.diff(np.stack([np.zeros_like(means), *below, np.ones_like(means)], axis=2), axis=2)
    return opinion[rows][:, None]


def _in_closed_form(posterior: Posterior, past: Data) -> Posterior:
    """A posterior with sampled votes, converted to closed-form weights under the mean of its importances."""
    effects = Effects(posterior.model, past.n_values)
    q = posterior.q.mean(axis=(0, 1))[None, None]
    agree, differ = np.log(1.0 - q + q * effects.r_agree), np.log(1.0 - q + q * effects.r_differ)
    missing: NDArray[np.bool_] = np.asarray(np.isnan(past.x_parents).any(axis=0))
    columns = [[agree[..., j] - differ[..., j], *([-differ[..., j]] * bool(gap))] for j, gap in enumerate(missing)]
    weights = np.stack([weight for column in columns for weight in column], axis=-1)
    return replace(posterior, q=q, log_weights=weights, compares_missing=missing, steps=None)


def _units_of_parents(past: Data) -> Rows:
    """A number for each parent; parents of the same patient share it."""
    return np.arange(len(past.x_parents)) if past.groups is None else past.groups


def _units_of_cases(past: Data) -> Rows:
    """A number for each case; cases and parents of the same patient share it."""
    units = _units_of_parents(past)
    new = units.max(initial=0) + 1 + np.arange(len(past.x))
    return np.where(past.own_parent >= 0, units[past.own_parent], new)


def _folds(past: Data, rng: np.random.Generator) -> Rows:
    """The fold of each past case; all cases of a patient are in the same fold."""
    units, place = np.unique(_units_of_cases(past), return_inverse=True)
    return rng.permutation(np.arange(len(units)) % min(N_FOLDS, len(units)))[place]
