"""The regressor: neighbors vote for their own outcomes, and leave-one-out says how far to trust them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, check_random_state, column_or_1d

from bayespatch.calibrate import Calibration
from bayespatch.encode.bins import Cut, learn_edges
from bayespatch.encode.column import bin_text, number_text
from bayespatch.estimator.base import Learning, Patchwork
from bayespatch.estimator.partitioned import by_partition
from bayespatch.estimator.snapshot import built_aside
from bayespatch.explain import OpinionOnCases, TrainingCases
from bayespatch.kernel_density import (
    KernelDensity,
    OutcomeGroups,
    calibrated_weights,
    class_weights,
    quantile_between,
    vote_weights,
)
from bayespatch.leave_one_out import LeaveOneOutVotes, cases_left_out
from bayespatch.model import Hyperparameters
from bayespatch.persistence.registry import loadable
from bayespatch.pool import Pool
from bayespatch.predict import predict_batches
from bayespatch.sampling.posterior import Posterior
from bayespatch.second_opinion import AdditiveMean, out_of_group
from bayespatch.validation import LARGEST_OUTCOME, check_choice, check_count, check_finite, check_level, refuse_masked

_RANGE = 0.05  # of the outcomes' standard deviation: how exactly an outcome is asked for


class PredictedNumbers(NamedTuple):
    """What a regressor says of n cases: means, (n,), and intervals, (n, 2), where a level was given."""

    means: NDArray[np.float64]
    intervals: NDArray[np.float64] | None


@loadable
class PatchworkRegressor(RegressorMixin, Patchwork):  # type: ignore[misc]  # scikit-learn has no types
    """A Bayesian case-based regressor: past cases that resemble a new one in what matters vote with their outcomes.

    To find out who resembles whom, outcomes are cut into a few classes of about equal size. A prediction is made from
    the neighbors' outcomes themselves: a distribution, with mean, quantiles and intervals; see
    `bayespatch.kernel_density`.

    Parameters
    ----------
    model : {"I", "II", "III"}
        How much a neighbor influences a case: all alike, by the number of features that matter, or freely.
    likelihood : {"exact", "paper"}
        The exact likelihood, or the one that the paper prints.
    supervised : bool
        False finds neighbors without the outcomes of the training cases; these still vote.
    n_outcome_bins : int
        Into how many classes outcomes are cut; fewer come out where many cases share an outcome.
    parents : {"auto", "all", "random", "balanced", "medoids"}, int, or array
        Which training cases may vote, and be shown; see `bayespatch.parents.choose_parents`. "auto": all of them. Where
        votes are sampled, 2,000 at random of a longer table, and a `ManyCasesWarning` says so.
    n_parents : int or float, optional
        How many parents, or which share of the training cases.
    hyper : "auto" or Hyperparameters
        The constants of the model; "auto" takes those of `bayespatch.tune`, which suit the size of the table.
    importances : {"predictive", "joint"}
        Where the features' importances come from: "predictive", a posterior of their own, shrinkage prior times
        leave-one-out predictive likelihood (`bayespatch.importances`), given which all else is sampled; "joint", the
        paper's posterior of features and labels together, as `bayespatch.sample` gives it.
    second_opinion : "auto" or None
        An additive mean beside the precedents, with whose distribution theirs is pooled; None: precedents alone.
    votes : {"auto", "closed", "sampled"}
        "closed": every past case votes, in closed form (`bayespatch.retrieval`). "sampled": several neighbors of a case
        are sampled at a time, as in the paper. "auto": closed form wherever there is one, which is for model "I", the
        exact likelihood and predictive importances.
    error : float
        Of sampled votes: Monte Carlo standard error of a predicted probability that is good enough. Votes are drawn
        until it is reached, or all stored draws have been used 16 times, which gives a `PrecisionWarning`.
    bins, n_bins, windows, categorical, max_levels
        How columns are coded; see `bayespatch.encode.Schema.learn`. ``bins="auto"`` lets tuning choose how numbers are
        compared, in quantile bins or in windows, unless `windows` says so.
    missing : {"auto", "ignore", "category", "error"}
        What becomes of missing values. "ignore": nothing is compared there. "category": a value like any other, on
        which cases may agree (as in the paper). "auto": whichever predicts the past cases better, by its evidence. In
        a row that has more gaps than any past case had they are not compared. "error": they are refused.
    transductive : bool
        True predicts as the paper does: training and new cases are sampled together, in each call anew, so that a
        prediction depends a little on the other rows. False samples the new cases under the fitted posterior.
    engine : str
        "auto" or the name of an engine.
    scheduler : str, optional
        With engine "dask": the address of a Dask scheduler whose workers sample and predict. None starts `n_jobs`
        workers on this machine to sample, and predicts without them.
    chains, draws, warmup, thin : int
        Chains, draws that are kept of each (of all importances, for predictions), sweeps before the first, and sweeps
        for each.
    n_jobs : int, optional
        Threads; None and -1: all cores that this process may use. Results do not depend on it.
    random_state : int, RandomState or None
        Pass a number for results that can be repeated.
    warm_start : bool
        Of sampled votes: True begins a refit where the last fit ended, which saves warm-up when cases were added at the
        table's end.
    progress : bool or callable
        Whether fitting (and transductive prediction) shows a progress bar.
    checkpoint : path, optional
        Of sampled votes, whose fits take longer: a folder in which a fit is written down as it goes, every half minute
        or so. Where it holds one already, that one goes on: after a kill at any moment the same fit (same data and
        parameters, a number for `random_state`) gives the very model that it would have given undisturbed. The folder
        stays after a fit, which is then done again at once; where the importances are sampled jointly, more `draws`
        continue it. Delete it when the model is saved. It is for one fit: another one is refused.

    Attributes
    ----------
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    outcomes_ : array of shape (n,)
        The outcomes of the training cases.
    edges_ : array of shape (M - 1,)
        Where outcomes are cut into M classes; an edge belongs to the class above it.
    schema_, posterior_, diagnostics_, hyper_, tuning_, parents_, cases_, x_, y_, loo_, feature_importances_
        As in `PatchworkClassifier`; tuning_, y_ and loo_ have the classes.
    calibration_ : Calibration
        How votes for the classes are read as probabilities.
    kernel_density_ : KernelDensity
        How the neighbors' outcomes are read as a distribution.
    values_, ids_, class_names_, target_
        As in `PatchworkClassifier`; the classes are named by their ranges.

    Examples
    --------
    >>> from bayespatch import PatchworkRegressor
    >>> X = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5
    >>> y = [7.0, 6.0, 1.0, 2.0] * 5
    >>> regressor = PatchworkRegressor(draws=50, warmup=50, random_state=0).fit(X, y)
    >>> bool(regressor.predict([["yes", 61]])[0] > 5 > regressor.predict([["no", 40]])[0])
    True
    >>> regressor.predict_quantiles(X[:4], [0.1, 0.5, 0.9]).shape, regressor.predict_interval(X[:4]).shape
    ((4, 3), (4, 2))
    """

    outcomes_: NDArray[np.float64]
    edges_: NDArray[np.float64]
    calibration_: Calibration
    kernel_density_: KernelDensity

    def __init__(
        self,
        *,
        model: str = "I",
        likelihood: str = "exact",
        supervised: bool = True,
        n_outcome_bins: int = 4,
        parents: str | int | ArrayLike = "auto",
        n_parents: int | float | None = None,
        hyper: str | Hyperparameters = "auto",
        importances: str = "predictive",
        second_opinion: Any = "auto",
        votes: str = "auto",
        error: float = 0.01,
        bins: Any = "auto",
        n_bins: int = 4,
        windows: Any = None,
        categorical: Any = (),
        max_levels: int = 10,
        missing: str = "auto",
        transductive: bool = False,
        engine: str = "auto",
        scheduler: str | None = None,
        chains: int = 4,
        draws: int = 100,
        warmup: int = 20,
        thin: int = 1,
        n_jobs: int | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        progress: Any = False,
        checkpoint: str | PathLike[str] | None = None,
    ) -> None:
        self.model = model
        self.likelihood = likelihood
        self.supervised = supervised
        self.n_outcome_bins = n_outcome_bins
        self.parents = parents
        self.n_parents = n_parents
        self.hyper = hyper
        self.importances = importances
        self.second_opinion = second_opinion
        self.votes = votes
        self.error = error
        self.bins = bins
        self.n_bins = n_bins
        self.windows = windows
        self.categorical = categorical
        self.max_levels = max_levels
        self.missing = missing
        self.transductive = transductive
        self.engine = engine
        self.scheduler = scheduler
        self.chains = chains
        self.draws = draws
        self.warmup = warmup
        self.thin = thin
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.progress = progress
        self.checkpoint = checkpoint

    @built_aside
    def fit(self, X: Any, y: ArrayLike, groups: ArrayLike | None = None) -> PatchworkRegressor:
        """Learn how columns are coded, which features matter, and who resembles whom.

        Parameters
        ----------
        X : data frame, array or list of rows, of shape (n, P)
            The training table as it is: numbers, texts, categories, booleans, missing values. A Dask data frame is read
            where its partitions lie; of more than 100,000 rows a sample of that size is learned from, and a
            `ManyCasesWarning` says so.
        y : sequence of length n
            Outcomes: finite numbers. Beside a Dask data frame a Dask Series, or the name of a column.
        groups : sequence of length n, optional
            Which rows belong together: the patient of each visit. Rows of one group never vote on each other, and are
            held out together in importances, calibration, pool and `loo_`. Without it, rows that repeat others beyond
            chance are taken for groups, with a `RepeatedRowsWarning`.

        Returns
        -------
        PatchworkRegressor
            Itself.

        Examples
        --------
        >>> from bayespatch import PatchworkRegressor
        >>> X, y = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5, [7.0, 6.0, 1.0, 2.0] * 5
        >>> regressor = PatchworkRegressor(draws=50, warmup=50, random_state=0).fit(X, y)
        >>> len(regressor.outcomes_), len(regressor.edges_) + 1
        (20, 4)
        """
        self._check_parameters()
        if self.second_opinion is not None:
            check_choice("second_opinion", self.second_opinion, ("auto",))
        n_bins = check_count("n_outcome_bins", self.n_outcome_bins, at_least=2)
        seed = int(check_random_state(self.random_state).randint(2**31))
        sample = self._sampled(X, y, seed, classes=False)
        whole = None if sample is None else sample.summary
        if sample is not None:
            X, y = sample.X, sample.y
        self._check_table(X, y)
        outcomes = _read_outcomes(y)
        members = self._groups_of(groups, sample, len(outcomes))
        edges = np.asarray(learn_edges(outcomes, Cut("quantile", n_bins)))
        classes, n_classes = _classes_of(outcomes, edges), len(edges) + 1
        learned = self._learn(X, classes, n_classes, seed, outcomes=outcomes, whole=whole, groups=members)
        density, opinion = learned.pop("density"), learned["opinion_"]
        learned["pool_"] = None
        if opinion is not None:
            rows = learned["loo_"].rows
            learned["pool_"] = Pool.learn_densities(opinion.density(opinion.loo[rows], outcomes[rows]), density)
        self.outcomes_, self.edges_ = outcomes, edges
        self.class_names_ = tuple(bin_text(tuple(edges.tolist()), k) for k in range(len(edges) + 1))
        self.target_ = str(getattr(y, "name", None) or "")
        for name, value in learned.items():
            setattr(self, name, value)
        return self

    @by_partition
    def predict(self, X: Any) -> NDArray[np.float64]:
        """The mean of the outcome.

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> bool(regressor.predict([["yes", 60]])[0] > 4)
        True
        """
        precedents = [
            self.kernel_density_.mean(weights, self.outcomes_[self.parents_]) for weights in self._weights_of(X)
        ]
        return check_finite(
            "the prediction", self._pooled_mean(np.concatenate(precedents), self.schema_.encode(X).values)
        )

    @by_partition
    def predict_quantiles(self, X: Any, levels: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95)) -> NDArray[np.float64]:
        """Quantiles of the outcome.

        Parameters
        ----------
        X : data frame, array or list of rows
            The cases.
        levels : L numbers between 0 and 1
            Which quantiles.

        Returns
        -------
        array of shape (n, L)

        Examples
        --------
        >>> low, middle, high = regressor.predict_quantiles([["yes", 60]], [0.1, 0.5, 0.9])[0]
        >>> bool(low < middle < high)
        True
        """
        asked = _read_levels(levels)
        weights = np.concatenate(list(self._weights_of(X)))
        found = self._quantiles(weights, self.parents_, self.schema_.encode(X).values, asked)
        return check_finite("the prediction", found)

    @by_partition
    def predict_interval(self, X: Any, level: float = 0.9) -> NDArray[np.float64]:
        """Intervals in which the outcome lies with the probability `level`, and on either side with the same.

        Returns
        -------
        array of shape (n, 2)
            Lower and upper end.

        Examples
        --------
        >>> low, high = regressor.predict_interval([["yes", 61]], level=0.8)[0]
        >>> bool(low < 7 < high)
        True
        """
        return self.predict_quantiles(X, _tails(check_level(level)))

    @by_partition
    def predict_all(self, X: Any, level: float | None = None) -> PredictedNumbers:
        """Means and intervals, from the same draws, taken once.

        Parameters
        ----------
        X : data frame, array or list of rows
            The cases.
        level : float, optional
            Probability of the intervals; without it there are none.

        Returns
        -------
        PredictedNumbers

        Examples
        --------
        >>> seen = regressor.predict_all([["yes", 60]], level=0.8)
        >>> bool(seen.intervals[0, 0] < seen.means[0] < seen.intervals[0, 1])
        True
        """
        tails = None if level is None else _tails(check_level(level))
        weights, values = np.concatenate(list(self._weights_of(X))), self.schema_.encode(X).values
        means = check_finite("the prediction", self._means(weights, values))
        if tails is None:
            return PredictedNumbers(means, None)
        return PredictedNumbers(
            means, check_finite("the prediction", self._quantiles(weights, self.parents_, values, tails))
        )

    def _means(self, weights: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Means of the pooled distribution, (n,), from weights of the parents' outcomes, (n, S)."""
        return self._pooled_mean(self.kernel_density_.mean(weights, self.outcomes_[self.parents_]), values)

    def _pooled_mean(self, precedents: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
        return precedents if self.pool_ is None else self.pool_.combine(self.opinion_.predict(values), precedents)

    def _weights_of(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """The weights of the parents' outcomes in rows of a table, batch by batch."""
        for part in self._predictions(X, detail="shares"):
            assert part.neighbors is not None
            yield self._weights(part.neighbors.share, self.parents_)

    def _quantiles(
        self,
        weights: NDArray[np.float64],
        parents: NDArray[np.int64],
        values: NDArray[np.float64],
        levels: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Quantiles of the pooled distribution, (n, L): the mixture of the two opinions'."""
        outcomes = self.outcomes_[parents]
        precedents, pool = self.kernel_density_.quantiles(weights, outcomes, levels), self.pool_
        if pool is None:
            return precedents
        additive, means = self.opinion_.predict_quantiles(values, levels), self.opinion_.predict(values)
        low, high = np.minimum(precedents, additive), np.maximum(precedents, additive)

        def below(at: NDArray[np.float64]) -> NDArray[np.float64]:
            return pool.combine(self.opinion_.below(means, at), self.kernel_density_.below(weights, outcomes, at))

        found = [quantile_between(low[:, k], high[:, k], level, below) for k, level in enumerate(levels.tolist())]
        return np.column_stack(found)

    def _weights(self, share: NDArray[np.float32], parents: NDArray[np.int64]) -> NDArray[np.float64]:
        """The weights of the parents' outcomes, (n, S)."""
        weights = vote_weights(share, np.full(len(share), -1))
        return calibrated_weights(weights, self.y_[parents], self.calibration_)

    def _leave_one_out(self, posterior: Posterior, found: Learning, n_threads: int) -> dict[str, Any]:
        past, outcomes = found.past(), found.outcomes
        assert outcomes is not None
        chosen, hidden = cases_left_out(past)
        groups = OutcomeGroups.of(outcomes[found.parents], past.y_parents)
        votes, familiarity, weights, done = [], [], [], 0
        seen = predict_batches(
            posterior, hidden, detail="shares", max_passes=1, n_threads=n_threads, engine=self._predicting()
        )
        for part in seen:
            assert part.neighbors is not None
            share = part.neighbors.share
            weights.append(groups.sums(vote_weights(share, hidden.own_parent[done : done + len(share)])))
            votes.append(part.mean_votes())
            familiarity.append(part.familiarity)
            done += len(share)
        plain = np.concatenate(weights)
        calibration = Calibration.learn(
            class_weights(plain, groups.classes, past.n_classes), past.y[chosen], found.base
        )
        calibrated = calibrated_weights(plain, groups.classes, calibration)
        known = outcomes[chosen]
        density = KernelDensity.learn(calibrated, groups.outcomes, known)
        # What the others' votes made of each outcome that came: the probability of a small range around it.
        half = max(_RANGE * float(outcomes.std()), np.finfo(np.float64).tiny)
        ends = [density.below(calibrated, groups.outcomes, known + side) for side in (-half, half)]
        return {
            "loo_": LeaveOneOutVotes(chosen, np.concatenate(votes), np.concatenate(familiarity)),
            "calibration_": calibration,
            "kernel_density_": density,
            "density": (ends[1] - ends[0]) / (2.0 * half),
        }

    def _opinion(self, found: Learning) -> dict[str, Any]:
        assert found.outcomes is not None
        if self.second_opinion is None:
            return {"opinion_": None}
        values, outcomes = found.encoded.values, found.outcomes
        opinion = AdditiveMean.learn(found.schema, values, outcomes)
        if found.groups is not None:
            loo = out_of_group(
                lambda rows: AdditiveMean.learn(found.schema, values[rows], outcomes[rows]),
                lambda model, rows: model.predict(values[rows]),
                found.groups,
                np.asarray(opinion.base),
            )
            opinion = replace(opinion, loo=loo)
        return {"opinion_": opinion}

    def _second_opinion(self, X: Any, level: float) -> OpinionOnCases | None:
        return None if self.pool_ is None else self._opinion_of_values(self.schema_.encode(X).values)

    def _second_opinion_of_past(self, rows: NDArray[np.int64]) -> OpinionOnCases | None:
        return None if self.pool_ is None else self._opinion_of_values(self.values_[rows])

    def _opinion_of_values(self, values: NDArray[np.float64]) -> OpinionOnCases:
        """The additive mean as probabilities of the ranges, and the pooled number."""
        assert self.pool_ is not None
        means = self.opinion_.predict(values)
        ends = [self.opinion_.below(means, np.full(len(means), edge)) for edge in self.edges_.tolist()]
        below = np.column_stack([np.zeros(len(values)), *ends, np.ones(len(values))])
        pool = self.pool_

        def number(share: NDArray[np.float32], level: float, row: int) -> NDArray[np.float64]:
            weights = self._weights(share, self.parents_)
            mean = self._means(weights, values[[row]])
            return np.append(mean, self._quantiles(weights, self.parents_, values[[row]], _tails(level))[0])

        return OpinionOnCases(np.diff(below, axis=1), pool, number=number)

    def loo_probabilities(self) -> NDArray[np.float64]:
        """Probabilities of the ranges of the outcome of past cases, each predicted from all others, (R, M).

        Examples
        --------
        >>> regressor.loo_probabilities().shape
        (20, 4)
        """
        return self.calibration_.apply(self.loo_.votes)

    def loo_opinions(self) -> None:
        """None: the second opinion on a number has no probabilities of its ranges.

        Returns
        -------
        None

        Examples
        --------
        >>> regressor.loo_opinions() is None
        True
        """

    def _n_classes(self) -> int:
        return len(self.edges_) + 1

    def _outcomes(self) -> list[str]:
        return self._outcomes_of(self.y_, self.outcomes_)

    def _outcomes_of(self, codes: NDArray[np.int64], y: Any) -> list[str]:
        return [number_text(outcome) for outcome in _read_outcomes(y).tolist()]

    def _training_cases(self, parents: NDArray[np.int64]) -> TrainingCases:
        def read_number(share: NDArray[np.float32], level: float) -> NDArray[np.float64]:
            weights = self._weights(share, parents)
            ends = self.kernel_density_.quantiles(weights, self.outcomes_[parents], _tails(level))
            return np.column_stack([self.kernel_density_.mean(weights, self.outcomes_[parents]), ends])

        return replace(super()._training_cases(parents), read_number=read_number)

    def _codes_of(self, y: ArrayLike, n: int) -> NDArray[np.int64]:
        outcomes = _read_outcomes(y)
        if len(outcomes) != n:
            raise ValueError(f"y has {len(outcomes)} outcomes for {n} rows; pass one for each row, or leave y out")
        return _classes_of(outcomes, self.edges_)


def _tails(level: float) -> NDArray[np.float64]:
    """The quantiles between which an interval lies."""
    return np.array([(1.0 - level) / 2.0, (1.0 + level) / 2.0])


def _read_outcomes(y: ArrayLike) -> NDArray[np.float64]:
    """Finite numbers, one after the other."""
    refuse_masked("y", y)
    numbers = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=np.float64, input_name="y")
    if np.abs(numbers).max(initial=0.0) > LARGEST_OUTCOME:
        raise ValueError(f"y has outcomes beyond {LARGEST_OUTCOME:g}; pass them in a larger unit")
    return np.asarray(numbers)


def _classes_of(outcomes: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.int64]:
    """The class of each outcome; an edge belongs to the class above it."""
    return np.searchsorted(edges, outcomes, side="right").astype(np.int64)


def _read_levels(levels: ArrayLike) -> NDArray[np.float64]:
    try:
        asked = np.asarray(levels, dtype=np.float64)
    except (TypeError, ValueError):
        asked = np.empty((0, 0))
    if asked.ndim != 1 or not asked.size or not np.all((asked > 0.0) & (asked < 1.0)):
        raise ValueError(f"levels={levels!r} are not probabilities; pass numbers between 0 and 1, such as [0.1, 0.9]")
    return asked
