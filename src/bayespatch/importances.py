"""Importances learned from predictions: the generalized posterior of q.

A feature matters if agreement in it helps to predict the outcome. The importances q have the posterior

    p(q, slope | data)  ∝  p(q) p(slope) prod_i p(y_i | x_i, all other past cases, q, slope),

a shrinkage prior times the leave-one-out predictive likelihood. (The paper's posterior, which ``sample`` draws from, is
the joint posterior of features and labels instead.) Case i is predicted by the model with exactly one neighbor, which
has a closed form (``engine/cpu/leave_one_out.py``). The prediction is calibrated with a slope that is learned at the
same time (``calibrate``):

    log p(y_i = m | ...) = slope log share_im + (1 - slope) log base_m + constant.

The prior is on the *effect* of a feature: the log odds ratio between a parent that agrees in this feature and one that
differs. Unlike q, the effect has the same meaning for a feature with two values and for one with ten. It ranges from 0
(q = 0) to log(1 + lam / lam0) (q = 1). Its logit is normal around a value that is common to all features and itself
uncertain:

    effect_j = log(1 + lam / lam0) expit(u_j),   u_j = common + apart_j,
    common ~ Normal(COMMON_MEAN, COMMON_SD),   apart_j ~ Normal(0, APART_SD).

The sampler then draws q-tilde, z and w given q. This is a *cut*, or modular, posterior (Plummer, Statistics and
Computing 25, 2015): the features of the cases do not feed back into q.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bayespatch.available_memory import shortage, shown_bytes
from bayespatch.model import Data, Model
from bayespatch.sampling.diagnostics import steps_converged
from bayespatch.sampling.metropolis import Array, Chain, Shape, find_shape
from bayespatch.sampling.posterior import PredictiveDraws

if TYPE_CHECKING:
    from bayespatch.engine.cpu.leave_one_out import Pairs

COMMON_MEAN, COMMON_SD, APART_SD = 0.0, 1.0, 0.5  # prior for the logit of an effect
LOG_SLOPE_MEAN, LOG_SLOPE_SD = math.log(1.4), 0.25
MIN_STEPS, MAX_STEPS = 2, 12  # steps of the sampler of q per stored draw
MAX_PAIRS = 2**25  # largest cases x parents x features
MAX_PARENTS = 1000  # largest number of parents if this is exceeded
_MOST = 30.0  # logits and log slope are between -30 and 30, because nothing changes beyond
_LEAST = 1e-12  # q is between this and 1 minus this


class Effects:
    """The prior of the effects of P features, and the conversion of effects to importances q.

    Parameters
    ----------
    model : Model
        The model, whose lam0 and lam determine the weight of a vote.
    n_values : array of shape (P,)
        The number of values of each feature.
    """

    def __init__(self, model: Model, n_values: Array) -> None:
        hyper, self.n_features = model.hyper, len(n_values)
        first = n_values * hyper.lam0  # total base votes of all values, before the first neighbor votes
        self.r_agree = n_values * (hyper.lam0 + hyper.lam) / (first + hyper.lam)
        self.r_differ = first / (first + hyper.lam)
        self.largest = math.log1p(hyper.lam / hyper.lam0)
        spread = APART_SD**2 * (APART_SD**2 + self.n_features * COMMON_SD**2)
        self.precision = np.eye(self.n_features) / APART_SD**2 - COMMON_SD**2 / spread

    def effect(self, logits: Array) -> Array:
        """The effects for these logits, (..., P)."""
        return self.largest * _share(logits)

    def importance(self, logits: Array) -> Array:
        """q for these logits of effects, (..., P)."""
        odds = np.exp(self.effect(logits))
        q = (odds - 1.0) / (self.r_agree - 1.0 + odds * (1.0 - self.r_differ))
        return np.minimum(np.maximum(q, _LEAST), 1.0 - _LEAST)

    def start(self) -> Array:
        """The mean of the prior, (P + 1,): logits and log slope."""
        return np.append(np.full(self.n_features, COMMON_MEAN), LOG_SLOPE_MEAN)

    def prior(self, position: Array) -> tuple[float, Array]:
        """Log prior density of logits and log slope, (P + 1,), and its gradient."""
        apart = position[:-1] - COMMON_MEAN
        pull = self.precision @ apart
        from_mean = (position[-1] - LOG_SLOPE_MEAN) / LOG_SLOPE_SD
        return -0.5 * float(apart @ pull + from_mean**2), np.append(-pull, -from_mean / LOG_SLOPE_SD)

    def prior_precision(self) -> Array:
        """The prior precision of logits and log slope, (P + 1, P + 1)."""
        precision = np.zeros((self.n_features + 1, self.n_features + 1))
        precision[:-1, :-1] = self.precision
        precision[-1, -1] = LOG_SLOPE_SD**-2
        return precision


class LeaveOneOut:
    """The log density, up to a constant, of a position (logits of the effects and log slope, P + 1 numbers).

    Parameters
    ----------
    data : Data
        Past cases and parents, with labels; an evenly spaced sample is used if there are too many.
    model : Model
        The model, whose lam0 and lam determine the weight of a vote.
    base : array of shape (M,)
        Base rates of the classes.
    class_weight : array of shape (M,), optional
        Weight of the cases of each class.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.integers(3, size=(60, 2)).astype(float)
    >>> y = (x[:, 0] > 0).astype(int)
    >>> past = Data(x, y, x, y, np.array([3.0, 3.0]), 2, np.zeros(2), np.arange(60))
    >>> density = LeaveOneOut(past, Model(), np.array([0.4, 0.6]))
    >>> shape = density.shape()
    >>> bool(shape.mode[0] > shape.mode[1])  # the first feature determines the class; the second is noise
    True
    """

    def __init__(self, data: Data, model: Model, base: Array, class_weight: Array | None = None) -> None:
        self.pairs = compared_pairs(data, base, class_weight)
        self.effects = Effects(model, data.n_values)

    def __call__(self, position: Array, with_gradient: bool = True) -> tuple[float, Array]:
        """Log density and gradient."""
        log_p, by_logit, by_slope = self.predict(position, with_gradient)
        log_prior, by_prior = self.effects.prior(position)
        weight = self.pairs.weight
        value = float(weight @ log_p) + log_prior
        if not with_gradient:
            return value, position
        return value, np.append(weight @ by_logit, weight @ by_slope) + by_prior

    def predict(self, position: Array, with_gradient: bool = True) -> tuple[Array, Array, Array]:
        """log p(y_i | all others), (n,), and its derivatives with respect to the logits, (n, P), and to log slope,
        (n,).
        """
        from bayespatch.engine.cpu import leave_one_out  # loads Numba

        effects = self.effects
        q = effects.importance(position[:-1])
        slope = math.exp(min(max(position[-1], -_MOST), _MOST))
        agree, differ = 1.0 - q + q * effects.r_agree, 1.0 - q + q * effects.r_differ
        n, n_features = self.pairs.codes.shape[:2]
        log_p, by_slope = np.empty(n), np.empty(n)
        pulls = np.empty((2, n if with_gradient else 0, n_features))
        relative = (differ / agree).astype(np.float32), (1.0 / agree).astype(np.float32)
        leave_one_out.predict_each(self.pairs, *relative, slope, log_p, pulls[0], pulls[1], by_slope)
        if not with_gradient:
            return log_p, pulls[0], by_slope
        of_agree, of_differ = (effects.r_agree - 1.0) / agree, (effects.r_differ - 1.0) / differ  # d log f / dq
        share = _share(position[:-1])
        per_logit = effects.largest * share * (1.0 - share) / (of_agree - of_differ)  # dq / d logit
        # The pulls of all parents on a case add up to 0, which determines the pull of the parents that differ.
        by_logit = per_logit * (of_agree * pulls[0] - of_differ * (pulls[0] + pulls[1]))
        return log_p, by_logit, slope * by_slope

    def importance(self, logits: Array) -> Array:
        """q for these logits of effects, (..., P)."""
        return self.effects.importance(logits)

    def shape(self) -> Shape:
        """The mode and the shape of the density there."""
        return find_shape(self, self.effects.start())


def compared_pairs(data: Data, base: Array, class_weight: Array | None = None) -> Pairs:
    """The past cases with their parents; an evenly spaced sample if there are too many."""
    from bayespatch.engine.cpu.leave_one_out import AGREES, DIFFERS, UNKNOWN, Pairs  # loads Numba

    n_cases, n_features = data.x.shape
    n_parents = len(data.x_parents)
    if n_cases * n_parents * n_features > MAX_PAIRS:
        n_parents = min(n_parents, MAX_PARENTS)
    parents = _spread(len(data.x_parents), n_parents)
    cases = _spread(n_cases, max(16, MAX_PAIRS // (n_parents * n_features)))
    parents = parents[np.argsort(data.y_parents[parents], kind="stable")]
    codes = np.empty((len(cases), n_features, n_parents), np.uint8)
    for j in range(n_features):
        distance = np.abs(data.x[cases, j, None] - data.x_parents[parents, j])
        codes[:, j] = np.where(np.isnan(distance), UNKNOWN, np.where(distance <= data.windows[j], AGREES, DIFFERS))
    place = np.full(len(data.x_parents), -1)
    place[parents] = np.arange(n_parents)
    own = data.own_parent[cases]
    frequencies = np.bincount(data.y_parents[parents], minlength=data.n_classes) / n_parents
    weight = np.ones(len(cases)) if class_weight is None else class_weight[data.y[cases]]
    return Pairs(
        codes,
        (codes == UNKNOWN).any(axis=(0, 2)),
        data.y[cases].astype(np.int64),
        np.where(own >= 0, place[np.maximum(own, 0)], -1).astype(np.int64),
        np.searchsorted(data.y_parents[parents], np.arange(data.n_classes + 1)).astype(np.int64),
        # Otherwise a class that is more frequent among the parents than among the cases (balanced parents) would be
        # overrepresented.
        base / np.maximum(frequencies, 0.5 / n_parents),
        base,
        weight / weight.mean(),
    )


def _share(logits: Array) -> Array:
    """The share of the largest effect that a logit represents. (For a few numbers, np.clip would double the time.)"""
    return np.asarray(expit(np.minimum(np.maximum(logits, -_MOST), _MOST)))


def _spread(n: int, most: int) -> NDArray[np.int64]:
    """0..n-1, or `most` of these numbers, evenly spaced."""
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)


def check_draws_fit(n_features: int, chains: int, warmup: int, draws: int) -> None:
    """Reject chains of importances that do not fit into memory before they start.

    Examples
    --------
    >>> check_draws_fit(13, chains=4, warmup=500, draws=500)
    """
    n_steps = chains * (MIN_STEPS * warmup + MAX_STEPS * draws)
    needed = 3 * 8 * (n_features + 2) * n_steps
    if (available := shortage(needed)) is not None:
        most = max(("warmup", warmup), ("draws*thin", draws), ("chains", chains), key=lambda part: part[1])
        raise MemoryError(
            f"{n_steps} steps of the importances of {n_features} features need {shown_bytes(needed)} of memory, and "
            f"{available} is available; {most[0]}={most[1]} is too large, pass a smaller number"
        )


def draw_importances(
    density: LeaveOneOut,
    shape: Shape,
    *,
    chains: int,
    warmup: int,
    draws: int,
    seed: int,
    n_threads: int = 1,
    report: Callable[[int], object] = lambda done: None,
) -> PredictiveDraws:
    """Sample the posterior of q with several independent chains, until the diagnostics are satisfactory.

    Chains take between `MIN_STEPS` and `MAX_STEPS` steps per stored draw, depending on R-hat and the effective sample
    sizes (`diagnostics`).

    Parameters
    ----------
    density, shape
        The density to sample, and its shape.
    chains, warmup, draws : int
        One q is drawn for each of the warmup + draws sweeps. Warm-up takes `MIN_STEPS` steps per sweep.
    seed, n_threads : int
        The seed, and the number of chains to run in parallel, which does not affect the result.
    report : callable
        Called with the number of finished steps per chain.
    """
    # The other parts of a fit do not use this generator; their streams are derived from keys.
    walks = [Chain(density, shape, np.random.default_rng([seed, chain])) for chain in range(chains)]

    stop = threading.Event()

    def advance(n_steps: int, adapt: bool) -> Array:
        with ThreadPoolExecutor(max(1, min(n_threads, chains))) as pool:
            try:
                parts = list(pool.map(lambda walk: walk.advance(n_steps, adapt, stop.is_set), walks))
            except BaseException:  # for example Ctrl-C; leaving the pool would wait for its threads
                stop.set()
                raise
        steps = np.stack([np.column_stack(part) for part in parts])
        return np.concatenate([density.importance(steps[:, :, :-2]), steps[:, :, -2:]], axis=2)

    before = advance(MIN_STEPS * warmup, adapt=True)
    report(MIN_STEPS * warmup)
    steps = advance(MIN_STEPS * draws, adapt=False)
    n_per_draw = MIN_STEPS
    report(MIN_STEPS * (warmup + draws))
    while n_per_draw < MAX_STEPS and not steps_converged(steps):
        steps = np.concatenate([steps, advance(draws, adapt=False)], axis=1)
        n_per_draw += 1
        report(MIN_STEPS * warmup + n_per_draw * draws)
    kept = [before[:, MIN_STEPS - 1 :: MIN_STEPS], steps[:, n_per_draw - 1 :: n_per_draw]]
    given = np.concatenate(kept, axis=1)[:, :, :-2]
    return PredictiveDraws(given, steps)
