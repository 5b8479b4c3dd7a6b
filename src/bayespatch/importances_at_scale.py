"""Importances for large tables: mode and Laplace approximation of the posterior in `importances`.

The density is the same, shrinkage prior times leave-one-out predictive likelihood, and every past case votes on every
left-out case. With many past cases, the density is narrow and nearly normal, so chains are not needed:

- *Mode.* Stochastic gradient ascent (Adam; Kingma and Ba, 2015): each step predicts a mini-batch of left-out cases from
  *all* others, and the mode is the mean of the last positions (Polyak and Juditsky, 1992). With at most `MOST_AT_ONCE`
  past cases, L-BFGS predicts all of them in each step.
- *Covariance.* The inverse of the curvature at the mode. With at most `MOST_AT_ONCE` past cases, the curvature is the
  negative Hessian, from differences of gradients; with more, it is the sum of the outer products of the cases'
  gradients, which is positive and has the same expectation (the information equality). A Hessian estimated from a
  sample of the cases would be too noisy: in directions with little information, it would not even be positive. Draws
  are normal.

Numbers may be compared at several nested windows (`Column.nested`). The effect of a feature is then divided among its
windows: ``effect_jw = effect_j softmax(0, v_j)_w``, ``v ~ Normal(0, 1)``. q_j is still the importance of full
agreement.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, softmax

from bayespatch.importances import Effects
from bayespatch.model import Data, Model
from bayespatch.retrieval import CaseIndex, LeaveOneOutScores, LeftOut, PartitionedIndex, Ranges, leave_one_out

Array = NDArray[np.float64]

MOST_AT_ONCE = 4000
N_STEPS = 300  # steps of Adam
PAIRS_PER_STEP = 2**25  # pairs of a left-out case and another past case
LEAST_BATCH, MOST_BATCH = 512, 1024  # left-out cases per step
PAIRS_OF_HESSIAN, PAIRS_OF_PRODUCTS = 2**23, 2**30  # pairs for estimating the curvature, with a minimum number of
LEAST_CURVED, CURVED_PER_NUMBER = 1000, 10  # left-out cases: in total, and per learned parameter
LEAST_DRAWS = 1000  # of each chain, for diagnostics
N_CHECKED, PAIRS_CHECKED = 50, 2**26  # draws compared with the exact density, unless this takes more pairs
_DIFFERENCE = 1e-2  # step of the finite differences
_LEAST_CURVATURE = 0.1  # smaller curvatures of the density are replaced by this value
STEP_SIZE = 0.1  # of Adam; it decreases to 0 over
FALLING, AVERAGED = 0.6, 0.3  # this last share of the steps; positions are averaged over the second share
MOMENTUM, SECOND_MOMENT = 0.9, 0.99
_NEAR_MODE = 0.1  # tolerance, in posterior standard deviations, for the mode without some rows


class LargeTable(NamedTuple):
    """Joint mode and covariance of logits of effects, (P,), splits among nested windows, (E,), and log slope."""

    mode: Array  # (P + E + 1,)
    factor: Array  # (P + E + 1, P + E + 1), factor @ factor.T is the covariance
    log_density: float  # at the mode, an estimate

    def log_evidence(self, n_splits: int) -> float:
        """Laplace approximation of the integral of prior times likelihood, up to a constant that depends on the table.

        The prior of the splits among nested windows is normalized, because the number of splits depends on the coding.
        """
        log_volume = float(np.linalg.slogdet(self.factor)[1])
        return self.log_density + log_volume + 0.5 * (len(self.mode) - n_splits) * math.log(2.0 * math.pi)


class NestedEffects:
    """The map from positions to log weights of comparisons, with its gradient."""

    def __init__(self, effects: Effects, index: CaseIndex | PartitionedIndex) -> None:
        self.effects, self.index = effects, index
        self.unknown = np.isnan(index.reach)
        n_windows = np.bincount(index.columns[~self.unknown], minlength=effects.n_features)
        # The windows of a column have consecutive comparisons; each except the first has a separate split.
        first = np.append(True, index.columns[1:] != index.columns[:-1])
        self.has_split = ~first & ~self.unknown
        self.n_features, self.n_splits = effects.n_features, int(self.has_split.sum())
        assert self.n_splits == int((n_windows - 1).sum())

    def shares(self, splits: Array) -> Array:
        """Each comparison's share of the effect of its column, (D, K), from splits, (D, E)."""
        logits = np.zeros((len(splits), len(self.unknown)))
        logits[:, self.has_split] = splits
        shares = np.ones_like(logits)
        for j in np.unique(self.index.columns[self.has_split]):
            own = (self.index.columns == j) & ~self.unknown
            shares[:, own] = softmax(logits[:, own], axis=1)
        return shares

    def log_weights(self, positions: Array) -> tuple[Array, Array]:
        """Log weights of comparisons, (D, K), and q, (D, P), at positions (D, P + E + 1)."""
        logits, splits = positions[:, : self.n_features], positions[:, self.n_features : -1]
        effect = self.effects.effect(logits)
        q = self.effects.importance(logits)
        columns = self.index.columns
        differ = 1.0 - q + q * self.effects.r_differ
        weights = np.where(self.unknown, -np.log(differ)[:, columns], effect[:, columns] * self.shares(splits))
        return weights, q

    def gradient(self, position: Array, by_comparison: Array) -> Array:
        """Derivatives with respect to the position without log slope, (n, P + E), from derivatives with respect to
        log weights, (n, K).
        """
        logits, splits = position[: self.n_features], position[self.n_features : -1]
        share = np.asarray(expit(logits))
        per_logit = self.effects.largest * share * (1.0 - share)  # d effect / d logit
        effect = self.effects.effect(logits)
        q = self.effects.importance(logits)
        of_agree = (self.effects.r_agree - 1.0) / (1.0 - q + q * self.effects.r_agree)
        of_differ = (self.effects.r_differ - 1.0) / (1.0 - q + q * self.effects.r_differ)
        absence = -of_differ * per_logit / (of_agree - of_differ)
        columns, shares = self.index.columns, self.shares(splits[None])[0]
        scaled = by_comparison * np.where(self.unknown, absence[columns], shares * per_logit[columns])
        by_logit = np.zeros((len(by_comparison), self.n_features))
        for k, j in enumerate(columns.tolist()):
            by_logit[:, j] += scaled[:, k]
        by_split = np.empty((len(by_comparison), self.n_splits))
        for at, k in enumerate(np.flatnonzero(self.has_split).tolist()):
            own = np.flatnonzero((columns == columns[k]) & ~self.unknown)
            centered = (by_comparison[:, own] * shares[own]).sum(axis=1)
            by_split[:, at] = effect[columns[k]] * shares[k] * (by_comparison[:, k] - centered)
        return np.hstack([by_logit, by_split])


class LeaveOneOutBatches:
    """The leave-one-out density of a large table, estimated from a subset of its cases at a time.

    Parameters
    ----------
    data : Data
        All past cases, both as cases and as parents. If past cases are partitioned, the cases are a random sample, and
        all past cases vote.
    model : Model
        The model, whose lam0 and lam determine the weight of agreement.
    base : array of shape (M,)
        Base rates of the classes.
    class_weight : array of shape (M,), optional
        Weight of the cases of each class.
    n_threads : int
        Number of threads; it does not affect the result.
    engine : {"cpu", "cuda", "auto"}
        As in `bayespatch.retrieval.leave_one_out`.
    case_weight : array of shape (n,), optional
        Weight of each case; `data.weights` has the weights of the parents' votes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.integers(3, size=(3000, 2)).astype(float)
    >>> y = (x[:, 0] > 0).astype(int)
    >>> past = Data(x, y, x, y, np.array([3.0, 3.0]), 2, np.zeros(2), np.arange(3000))
    >>> found = LeaveOneOutBatches(past, Model(), np.array([0.4, 0.6])).learn(seed=0)
    >>> bool(found.mode[0] > found.mode[1])  # the first feature determines the class; the second is noise
    True
    """

    def __init__(
        self,
        data: Data,
        model: Model,
        base: Array,
        class_weight: Array | None = None,
        n_threads: int = 1,
        engine: str = "cpu",
        case_weight: Array | None = None,
    ) -> None:
        windows = data.every_window()
        self.data, self.model, self.base, self.class_weight = data, model, base, class_weight
        self.n_threads, self.engine, self.case_weight = n_threads, engine, case_weight
        self.index: CaseIndex | PartitionedIndex
        if data.elsewhere is None:
            self.index = CaseIndex.build(data.x_parents, data.y_parents, data.n_classes, windows, weights=data.weights)
        else:
            assert isinstance(data.elsewhere, PartitionedIndex)
            self.index = data.elsewhere
        self.effects = NestedEffects(Effects(model, data.n_values), self.index)
        self.weight = weights_of_cases(data.y, class_weight, case_weight)
        n_parents = max(np.finfo(np.float64).tiny, self.index.total_weight)
        # Otherwise a class that is more frequent among the parents than among the cases would be overrepresented.
        self.heard = base / np.maximum(self.index.weight_by_class / n_parents, 0.5 / n_parents)

    @property
    def index_here(self) -> CaseIndex:
        """The past cases, which must be in this process."""
        assert isinstance(self.index, CaseIndex)
        return self.index

    @cached_property
    def _ranges(self) -> Ranges:
        """The codes that agree with each case."""
        return self.index_here.ranges(self.data.x)

    def _ranges_of(self, rows: NDArray[np.int64]) -> Ranges:
        """The codes that agree with some of the cases; small tables look them up."""
        if len(self.data.x) > MOST_AT_ONCE:
            return self.index_here.ranges(self.data.x[rows])
        return self._ranges.part(rows)

    def _left_out(self, rows: NDArray[np.int64], log_weights: Array, slope: float) -> LeaveOneOutScores:
        """Predict some of the cases from all others, given the log weights of the comparisons, (K,)."""
        data, index = self.data, self.index
        own = data.own_parent[rows]
        how: dict[str, Any] = dict(slope=slope, heard=self.heard, base=self.base)  # for both calls below
        how |= dict(n_threads=self.n_threads, engine=self.engine)
        if isinstance(index, PartitionedIndex):
            return index.leave_one_out(data.x[rows], data.y[rows], LeftOut.of_rows(own), log_weights, **how)
        members = LeftOut.members(index, own, data.groups)
        return leave_one_out(index, self._ranges_of(rows), data.y[rows], members, log_weights, **how)

    def scores(self, position: Array, rows: NDArray[np.int64]) -> tuple[Array, Array]:
        """Weighted log p(y_i | all others), (n,), of some cases, and its gradient, (n, P + E + 1)."""
        weights, _ = self.effects.log_weights(position[None])
        left_out = self._left_out(rows, weights[0], math.exp(position[-1]))
        by_position = self.effects.gradient(position, left_out.by_comparison)
        weight = self.weight[rows]
        return weight * left_out.log_p, weight[:, None] * np.column_stack([by_position, left_out.by_log_slope])

    def learn(
        self, seed: int, report: Callable[[int], object] = lambda done: None, near: LargeTable | None = None
    ) -> LargeTable:
        """Compute the mode and the covariance.

        Parameters
        ----------
        seed : int
            Seed for drawing rows.
        report : callable
            Called with the number of finished steps, up to `N_STEPS`.
        near : LargeTable, optional
            Result for a subset of the rows. For a table with at most `MOST_AT_ONCE` rows, the search for the mode
            starts there.
        """
        n = len(self.data.y)
        rng = np.random.default_rng([seed, 31])
        if n <= MOST_AT_ONCE:
            mode = self._mode_of_all(self._start()) if near is None else self._mode_of_all(near.mode, near.factor)
            report(N_STEPS)
            return self._shape(mode, rng)
        size = min(n, int(np.clip(PAIRS_PER_STEP // self.index.n_cases, LEAST_BATCH, MOST_BATCH)))
        position = self._start()
        mean, second, average = np.zeros_like(position), np.zeros_like(position), np.zeros_like(position)
        order, n_averaged = np.empty(0, np.int64), 0
        for step in range(N_STEPS):
            if len(order) < size:
                order = np.concatenate([order, rng.permutation(n)])
            rows, order = np.sort(order[:size]), order[size:]
            gradient = self.scores(position, rows)[1].mean(axis=0) + self._prior(position)[1] / n
            mean = MOMENTUM * mean + (1.0 - MOMENTUM) * gradient
            second = SECOND_MOMENT * second + (1.0 - SECOND_MOMENT) * gradient**2
            scale = min(1.0, (N_STEPS - step) / (FALLING * N_STEPS))
            move = (mean / (1.0 - MOMENTUM ** (step + 1))) / (
                np.sqrt(second / (1.0 - SECOND_MOMENT ** (step + 1))) + 1e-8
            )
            position = position + STEP_SIZE * scale * move
            if step >= (1.0 - AVERAGED) * N_STEPS:
                average, n_averaged = average + position, n_averaged + 1
            report(step + 1)
        return self._shape(average / n_averaged, rng)

    def _start(self) -> Array:
        """The mean of the prior."""
        start = self.effects.effects.start()
        return np.concatenate([start[:-1], np.zeros(self.effects.n_splits), start[-1:]])

    def without(self, found: LargeTable, rows: NDArray[np.int64]) -> LargeTable:
        """The mode without some rows, which neither vote nor are predicted, with the covariance for all rows.

        The search starts at the mode for all rows and scales its steps with the covariance, so it needs few steps.

        Parameters
        ----------
        found : LargeTable
            The result of `learn`, for at most `MOST_AT_ONCE` cases.
        rows : int array
            Cases to leave out. Leave out all rows of a group together.
        """
        part = type(self)(
            *(_without(self.data, rows), self.model, self.base, self.class_weight, self.n_threads, self.engine),
            case_weight=None if self.case_weight is None else np.delete(self.case_weight, rows),
        )
        return found._replace(mode=part._mode_of_all(found.mode, found.factor, _NEAR_MODE))

    def _mode_of_all(self, start: Array, factor: Array | None = None, tolerance: float = 1e-5) -> Array:
        """The mode, from all cases at once; steps are in units of the columns of `factor`."""
        all_cases = np.arange(len(self.data.y))
        scale = np.eye(len(start)) if factor is None else factor

        def loss(steps: Array) -> tuple[float, Array]:
            position = start + scale @ steps
            log_p, gradient = self.scores(position, all_cases)
            value, by_prior = self._prior(position)
            return -float(log_p.sum()) - value, -(gradient.sum(axis=0) + by_prior) @ scale

        result = minimize(loss, np.zeros(len(start)), jac=True, method="L-BFGS-B", options={"gtol": tolerance})
        return np.asarray(start + scale @ result.x)

    def _prior(self, position: Array) -> tuple[float, Array]:
        """Log prior density and its gradient."""
        n_features = self.effects.n_features
        plain = np.append(position[:n_features], position[-1])
        value, gradient = self.effects.effects.prior(plain)
        splits = position[n_features:-1]
        return value - 0.5 * float(splits @ splits), np.concatenate([gradient[:-1], -splits, gradient[-1:]])

    def _shape(self, mode: Array, rng: np.random.Generator) -> LargeTable:
        """The Laplace approximation at the mode."""
        n, n_features = len(self.data.y), self.effects.n_features
        at_once = n <= MOST_AT_ONCE
        pairs = PAIRS_OF_HESSIAN if at_once else PAIRS_OF_PRODUCTS
        n_used = min(n, max(LEAST_CURVED, CURVED_PER_NUMBER * len(mode), pairs // self.index.n_cases))
        rows = np.sort(rng.choice(n, n_used, replace=False))
        n_times = float(self.weight.sum() / self.weight[rows].sum())
        log_p, gradients = self.scores(mode, rows)
        information = self._negative_hessian(mode, rows) if at_once else _products(gradients, self.weight[rows])
        prior = np.eye(len(mode))
        features = np.append(np.arange(n_features), len(mode) - 1)
        prior[np.ix_(features, features)] = self.effects.effects.prior_precision()
        curvature, directions = np.linalg.eigh(information * n_times + prior)
        log_density = float(log_p.sum()) * n_times + self._prior(mode)[0]
        return LargeTable(mode, directions / np.sqrt(np.maximum(curvature, _LEAST_CURVATURE)), log_density)

    def _negative_hessian(self, mode: Array, rows: NDArray[np.int64]) -> Array:
        """The negative Hessian of the log likelihood of some cases, from differences of gradients."""
        hessian = np.empty((len(mode), len(mode)))
        for k, step in enumerate(_DIFFERENCE * np.eye(len(mode))):
            ends = [self.scores(mode + sign * step, rows)[1].sum(axis=0) for sign in (-1.0, 1.0)]
            hessian[k] = (ends[0] - ends[1]) / (2.0 * _DIFFERENCE)
        return 0.5 * (hessian + hessian.T)

    def efficiency(self, found: LargeTable, seed: int) -> float | None:
        """Effective share of the draws after reweighting to the exact density; None if the table is too large to check.

        If it is near 1, the normal approximation is as good as exact draws; if it is near 0, it is inaccurate.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> x = rng.integers(3, size=(300, 2)).astype(float)
        >>> past = Data(x, (x[:, 0] > 0).astype(int), x, (x[:, 0] > 0).astype(int), np.array([3.0, 3.0]), 2,
        ...     np.zeros(2), np.arange(300))
        >>> density = LeaveOneOutBatches(past, Model(), np.array([0.4, 0.6]))
        >>> 0.0 < density.efficiency(density.learn(seed=0), seed=0) <= 1.0
        True
        """
        n = len(self.data.y)
        if n * self.index.n_cases * N_CHECKED > PAIRS_CHECKED:
            return None
        all_cases, noise = np.arange(n), np.random.default_rng([seed, 33]).standard_normal((N_CHECKED, len(found.mode)))
        positions = found.mode + np.einsum("nk,jk->nj", noise, found.factor)
        exact = [float(self.scores(one, all_cases)[0].sum()) + self._prior(one)[0] for one in positions]
        log_ratio = np.array(exact) + 0.5 * (noise**2).sum(axis=1)
        ratio = np.exp(log_ratio - log_ratio.max())
        return float(ratio.sum() ** 2 / (ratio**2).sum() / N_CHECKED)

    def draw(self, found: LargeTable, chains: int, draws: int, seed: int) -> tuple[Array, Array, Array]:
        """Draws of q, (C, D, P), of log weights, (C, D, K), and of the quantities for diagnostics, (C, k D, P + 2)."""
        rng = np.random.default_rng([seed, 32])
        per_draw = max(1, -(-LEAST_DRAWS // draws))
        noise = rng.standard_normal((chains * draws * per_draw, len(found.mode)))
        # Without BLAS, because its sums depend on the number of threads.
        positions = found.mode + np.einsum("nk,jk->nj", noise, found.factor)
        log_weights, q = self.effects.log_weights(positions)
        log_density = found.log_density - 0.5 * (noise**2).sum(axis=1)
        steps = np.column_stack([q, positions[:, -1], log_density]).reshape(chains, draws * per_draw, -1)
        kept = slice(per_draw - 1, None, per_draw)
        weights = log_weights.reshape(chains, draws * per_draw, -1)[:, kept]
        return steps[:, kept, : self.effects.n_features].copy(), weights.copy(), steps


def _products(gradients: Array, weight: Array) -> Array:
    """Weighted sum of outer products of the cases' gradients around their mean, from weighted gradients, (n, K).

    >>> _products(np.array([[2.0], [-2.0]]), np.array([2.0, 2.0])).round(9)  # 1 and -1, each counted twice
    array([[4.]])
    """
    counted = weight > 0.0
    weight = weight[counted, None]
    apart = (gradients[counted] / weight - gradients.sum(axis=0) / weight.sum()) * np.sqrt(weight)
    return np.einsum("nj,nk->jk", apart, apart)  # without BLAS, because its sums depend on the number of threads


def _without(data: Data, rows: NDArray[np.int64]) -> Data:
    """The table without some cases and their votes."""
    cases = np.delete(np.arange(len(data.y)), rows)
    voters = np.setdiff1d(np.arange(len(data.y_parents)), data.own_parent[rows])
    place = np.full(len(data.y_parents) + 1, -1)  # the last entry is for cases that are not parents, -1
    place[voters] = np.arange(len(voters))
    return data._replace(
        x=data.x[cases],
        y=data.y[cases],
        x_parents=data.x_parents[voters],
        y_parents=data.y_parents[voters],
        own_parent=place[data.own_parent[cases]],
        groups=None if data.groups is None else data.groups[voters],
        weights=None if data.weights is None else data.weights[voters],
    )


def weights_of_cases(y: NDArray[np.int64], class_weight: Array | None, case_weight: Array | None) -> Array:
    """Weight of each case, (n,). Class weights redistribute weight between classes without changing the total.

    Examples
    --------
    >>> weights_of_cases(np.array([0, 0, 0, 1]), np.array([1.0, 3.0]), None).round(2)
    array([0.67, 0.67, 0.67, 2.  ])
    """
    own = np.ones(len(y)) if case_weight is None else case_weight
    if class_weight is None:
        return own
    weight = own * class_weight[y]
    return np.asarray(weight * (own.sum() / weight.sum()))
