"""The regressor: neighbors vote with their outcomes, and leave-one-out predictions calibrate the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, column_or_1d

from bayespatch.calibrate import Calibration
from bayespatch.encode.bins import Cut, learn_edges
from bayespatch.encode.column import bin_text
from bayespatch.encode.schema import Bins, Windows
from bayespatch.estimator.explaining import Explaining
from bayespatch.estimator.learning import Learned, RandomState
from bayespatch.estimator.partitioned import by_partition
from bayespatch.fitted import FittedNumbers, outcome_classes, tails
from bayespatch.follow_up import FollowUpColumns
from bayespatch.kernel_density import KernelDensity, OutcomeGroups, calibrated_weights, class_weights, vote_weights
from bayespatch.leave_one_out import LeaveOneOutVotes, by_fold, cases_left_out, cases_of
from bayespatch.model import Hyperparameters
from bayespatch.persistence.registry import loadable
from bayespatch.pool import Pool
from bayespatch.predict import Prediction, predict_batches
from bayespatch.progress import Tell, progress_meter
from bayespatch.second_opinion import AdditiveMean, out_of_group
from bayespatch.types import Parameters, TableLike
from bayespatch.validation import (
    LARGEST_OUTCOME,
    check_choice,
    check_count,
    check_finite,
    check_level,
    refuse_masked,
    refuse_missing_outcomes,
)

_RANGE = 0.05  # half-width of the range around an outcome, in standard deviations of the outcomes


class PredictedNumbers(NamedTuple):
    """Predictions of a regressor for n cases: means, (n,), and intervals, (n, 2), if a level was given."""

    means: NDArray[np.float64]
    intervals: NDArray[np.float64] | None


@loadable
class PatchworkRegressor(RegressorMixin, Explaining[FittedNumbers]):  # type: ignore[misc]  # scikit-learn has no types
    """A Bayesian case-based regressor: past cases vote with their outcomes, weighted by similarity.

    To learn which cases are similar, the outcomes are divided into a few classes of about equal size. A prediction is
    a distribution of the neighbors' outcomes, with a mean, quantiles and intervals; see `bayespatch.kernel_density`.

    Parameters
    ----------
    model : {"I", "II", "III"}
        Influence of a neighbor on a case: equal for all neighbors, by the number of features that matter, or separate
        for each neighbor.
    likelihood : {"exact", "paper"}
        The exact likelihood, or the one printed in the paper.
    supervised : bool
        If False, neighbors are found without the outcomes of the training cases, which still vote.
    n_outcome_bins : int
        Number of outcome classes; fewer if many cases share an outcome.
    parents : {"auto", "all", "random", "balanced", "medoids"}, int, or array
        Which training cases may vote; see `bayespatch.parents.choose_parents`. "auto": all of them; with sampled votes,
        at most 2,000 drawn at random, with a `ManyCasesWarning`.
    n_parents : int or float, optional
        Number of parents, or their share of the training cases.
    shown : "all", int, or array
        Which voters may be named and shown: all, a number of them drawn at random, or these rows of the training table.
        Groups and other totals include all voters. Requires closed-form votes.
    hyper : "auto" or Hyperparameters
        The constants of the model; "auto" chooses them to suit the size of the table (`bayespatch.tune`).
    importances : {"predictive", "joint"}
        How importances are learned. "predictive": from their own posterior, a shrinkage prior times the leave-one-out
        predictive likelihood (`bayespatch.importances`). "joint": from the paper's joint posterior of features and
        labels, as in `bayespatch.sample`.
    second_opinion : "auto" or None
        "auto": an additive mean, pooled with the precedents; None: precedents alone.
    votes : {"auto", "closed", "sampled"}
        "closed": every past case votes, in closed form (`bayespatch.retrieval`). "sampled": the neighbors of a case are
        sampled, as in the paper. "auto": closed form if available, that is, for model "I" with the exact likelihood
        and predictive importances.
    error : float
        Sampled votes only: target Monte Carlo standard error of predicted probabilities. Votes are drawn until it is
        reached, or until all stored draws have been used 16 times, which gives a `PrecisionWarning`.
    bins, n_bins, windows, categorical, max_levels
        How columns are coded; see `bayespatch.encode.Schema.learn`. With ``bins="auto"``, tuning chooses whether
        numbers are compared in quantile bins or in windows, unless `windows` is given.
    missing : {"auto", "ignore", "category", "error"}
        Handling of missing values. "ignore": they are not compared. "category": missing is a value on which cases may
        agree, as in the paper. "auto": whichever of the two predicts the past cases better, by its evidence; in a row
        with more missing values than any past case, they are not compared. "error": they are rejected.
    transductive : bool
        If True, training and new cases are sampled together in each call, as in the paper, so a prediction depends
        slightly on the other rows of the call. If False, new cases are sampled from the fitted posterior.
    engine : str
        "auto" or the name of an engine.
    scheduler : str, optional
        Address of a Dask scheduler, such as "tcp://10.0.0.1:8786". Its workers read and predict partitions of Dask data
        frames, and compute sampled votes.
    chains, draws, warmup, thin : int
        Number of chains, draws kept per chain, sweeps before the first draw, and sweeps per draw.
    n_jobs : int, optional
        Number of threads; None and -1 use all available cores. Results do not depend on it.
    random_state : int, RandomState or None
        Pass a number for reproducible results.
    warm_start : bool
        Sampled votes only: whether a refit starts where the last fit ended, which shortens the warm-up after cases have
        been appended to the table.
    progress : bool or callable
        Whether fitting (and transductive prediction) shows a progress bar.
    checkpoint : path, optional
        Sampled votes only: a folder in which the state of the fit is saved about every 30 seconds. If it contains a
        state, the fit continues from there: after an interruption, repeating the fit with the same data and parameters,
        and a number as `random_state`, gives the same model as an uninterrupted fit. The folder is kept after the fit;
        with joint importances, a larger `draws` extends the run. Delete the folder once the model is saved. A
        checkpoint belongs to one fit and is rejected by any other.

    Attributes
    ----------
    n_features_in_, feature_names_in_
        As in scikit-learn.
    outcomes_ : array of shape (n,)
        The outcomes of the training cases.
    edges_ : array of shape (M - 1,)
        Edges of the M outcome classes; an edge belongs to the class above it.
    schema_, posterior_, diagnostics_, hyper_, tuning_, parents_, cases_, x_, y_, loo_, feature_importances_
        As in `PatchworkClassifier`; `tuning_`, `y_` and `loo_` refer to the outcome classes.
    calibration_ : Calibration
        The map from votes for the classes to probabilities.
    kernel_density_ : KernelDensity
        The map from the neighbors' outcomes to a distribution.
    values_, ids_, class_names_, target_
        As in `PatchworkClassifier`; the classes are named after their ranges.

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

    def __init__(
        self,
        *,
        model: str = "I",
        likelihood: str = "exact",
        supervised: bool = True,
        n_outcome_bins: int = 4,
        parents: str | int | ArrayLike = "auto",
        n_parents: int | float | None = None,
        shown: str | int | ArrayLike = "all",
        hyper: str | Hyperparameters = "auto",
        importances: str = "predictive",
        second_opinion: str | None = "auto",
        votes: str = "auto",
        error: float = 0.01,
        bins: Bins = "auto",
        n_bins: int = 4,
        windows: Windows = None,
        categorical: Sequence[object] = (),
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
        random_state: RandomState = None,
        warm_start: bool = False,
        progress: bool | Tell = False,
        checkpoint: str | PathLike[str] | None = None,
    ) -> None:
        self.model = model
        self.likelihood = likelihood
        self.supervised = supervised
        self.n_outcome_bins = n_outcome_bins
        self.parents = parents
        self.n_parents = n_parents
        self.shown = shown
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

    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        follow_up: FollowUpColumns = None,
        sample_weight: ArrayLike | None = None,
    ) -> PatchworkRegressor:
        """Learn the coding of the columns and the importances of the features from a training table.

        Parameters
        ----------
        X : data frame, array or list of rows, of shape (n, P)
            The raw training table: numbers, text, categories, booleans, missing values. A Dask data frame is read by
            its workers. If it has more than 100,000 rows, the model learns from a sample of 100,000 rows, with a
            `ManyCasesWarning`.
        y : sequence of length n
            Outcomes: finite numbers; with a Dask data frame, a Dask Series or the name of a column.
        groups : sequence of length n, optional
            Group of each row, such as the patient of each visit. Rows of a group never vote on each other, and are
            held out together in importances, calibration, pool and `loo_`. By default, rows that repeat each other more
            often than chance explains form groups, with a `RepeatedRowsWarning`.
        follow_up : list of str, or dict, optional
            Columns of X (a data frame) that are recorded for past cases but not compared, and that new cases do not
            need: ``["stay"]``, or with their kinds, ``{"drug": "treatment", "stay": "number", "days": ("time",
            "died")}``. Explanations summarize them among the past cases that vote; see `bayespatch.follow_up`.
        sample_weight : sequence of length n, optional
            Weight of each row in votes, importances, base rates, calibration, second opinion and pool. A whole number w
            counts like w copies of the row in one group; rows of weight 0 are ignored. Bins, ranks, percentiles and the
            scores in reports count every row once. Requires closed-form votes.

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
        training = self._read_training(X, y, groups, follow_up, sample_weight)
        outcomes = self._read_outcomes(training.y)
        edges = np.asarray(learn_edges(outcomes, Cut("quantile", n_bins)))
        learned = self._learn(training, outcome_classes(outcomes, edges), len(edges) + 1, outcomes=outcomes)
        with progress_meter(self.progress, "tables")(1) as report:
            report(0, "second opinion")
            opinion = self._learn_opinion(learned, outcomes)
            report(1, "second opinion")
        loo, calibration, kernel_density, density = self._leave_one_out_numbers(learned, outcomes)
        pool = None
        if opinion is not None:
            additive = opinion.density(opinion.loo[loo.rows], outcomes[loo.rows])
            pool = Pool.learn_densities(additive, density, learned.weights_of(loo.rows))
        self.fitted_ = FittedNumbers(
            **learned.fields(),
            loo=loo,
            calibration=calibration,
            opinion=opinion,
            pool=pool,
            class_names=tuple(bin_text(tuple(edges.tolist()), k) for k in range(len(edges) + 1)),
            target=str(getattr(training.y, "name", None) or ""),
            feature_names=training.names,
            follow_up=training.follow_up,
            outcomes=outcomes,
            edges=edges,
            kernel_density=kernel_density,
        )
        return self

    @property
    def outcomes_(self) -> NDArray[np.float64]:
        """Outcomes of the training table, (n,)."""
        return self._fitted().outcomes

    @property
    def edges_(self) -> NDArray[np.float64]:
        """Edges of the outcome classes, (M - 1,)."""
        return self._fitted().edges

    @property
    def kernel_density_(self) -> KernelDensity:
        """Maps the neighbors' outcomes to a distribution."""
        return self._fitted().kernel_density

    @by_partition
    def predict(self, X: TableLike) -> NDArray[np.float64]:
        """The mean of the predicted distribution of the outcome.

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> bool(regressor.predict([["yes", 60]])[0] > 4)
        True
        """
        fitted = self._fitted()
        encoded, parts = self._predictions(fitted, X, detail="shares")
        means, first = [], 0
        for part in parts:
            assert part.neighbors is not None
            rows = slice(first, first + len(part.neighbors.share))
            means.append(fitted.means(fitted.weights(part.neighbors.share), encoded.values[rows]))
            first = rows.stop
        return check_finite("the prediction", np.concatenate(means))

    @by_partition
    def predict_quantiles(self, X: TableLike, levels: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95)) -> NDArray[np.float64]:
        """Quantiles of the predicted distribution of the outcome.

        Parameters
        ----------
        X : data frame, array or list of rows
            The cases.
        levels : L numbers between 0 and 1
            Probabilities of the quantiles.

        Returns
        -------
        array of shape (n, L)

        Examples
        --------
        >>> low, middle, high = regressor.predict_quantiles([["yes", 60]], [0.1, 0.5, 0.9])[0]
        >>> bool(low < middle < high)
        True
        """
        probabilities = _read_levels(levels)
        fitted = self._fitted()
        weights, values = self._weights(fitted, X)
        return check_finite("the prediction", fitted.quantiles(weights, values, probabilities))

    @by_partition
    def predict_interval(self, X: TableLike, level: float = 0.9) -> NDArray[np.float64]:
        """Central prediction intervals, which contain the outcome with probability `level`.

        Returns
        -------
        array of shape (n, 2)
            Lower and upper limits.

        Examples
        --------
        >>> low, high = regressor.predict_interval([["yes", 61]], level=0.8)[0]
        >>> bool(low < 7 < high)
        True
        """
        return np.asarray(self.predict_quantiles(X, tails(check_level(level))))

    @by_partition
    def predict_all(self, X: TableLike, level: float | None = None) -> PredictedNumbers:
        """Means and intervals, from the same draws.

        Parameters
        ----------
        X : data frame, array or list of rows
            The cases.
        level : float, optional
            Probability of the intervals; None omits them.

        Returns
        -------
        PredictedNumbers

        Examples
        --------
        >>> seen = regressor.predict_all([["yes", 60]], level=0.8)
        >>> bool(seen.intervals[0, 0] < seen.means[0] < seen.intervals[0, 1])
        True
        """
        ends = None if level is None else tails(check_level(level))
        fitted = self._fitted()
        weights, values = self._weights(fitted, X)
        means = check_finite("the prediction", fitted.means(weights, values))
        if ends is None:
            return PredictedNumbers(means, None)
        return PredictedNumbers(means, check_finite("the prediction", fitted.quantiles(weights, values, ends)))

    def _weights(self, fitted: FittedNumbers, X: TableLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights of the parents' outcomes for each row, (n, S), and the values of the rows, (n, P)."""
        encoded, parts = self._predictions(fitted, X, detail="shares")
        shares = [part.neighbors.share for part in parts if part.neighbors is not None]
        return np.concatenate([fitted.weights(share) for share in shares]), encoded.values

    def _leave_one_out_numbers(
        self, learned: Learned, outcomes: NDArray[np.float64]
    ) -> tuple[LeaveOneOutVotes, Calibration, KernelDensity, NDArray[np.float64]]:
        """Leave-one-out votes of the past cases, the calibrations learned from them, and the density of each outcome.

        The density has shape (R,).
        """
        past = learned.past()
        chosen, hidden = cases_left_out(past)
        groups = OutcomeGroups.of(outcomes[learned.table.parents], past.y_parents, past.weights)
        n = len(chosen)
        votes, familiarity = np.empty((n, past.n_classes)), np.empty(n)
        plain = np.empty((n, len(groups.classes)))
        settings: Parameters = dict(max_passes=1, n_threads=self._n_threads(), engine=self._predicting())
        if learned.held_out:
            whole = Prediction.joined(list(predict_batches(learned.posterior, hidden, **settings)))
            familiarity = whole.familiarity
        for places, posterior in by_fold(learned.posterior, learned.held_out, chosen):
            done = 0
            for part in predict_batches(posterior, cases_of(hidden, places), detail="shares", **settings):
                assert part.neighbors is not None
                share = part.neighbors.share
                rows = places[done : done + len(share)]
                plain[rows] = groups.sums(vote_weights(share, hidden.own_parent[rows], past.weights))
                votes[rows] = part.mean_votes()
                if not learned.held_out:
                    familiarity[rows] = part.familiarity
                done += len(share)
        of_classes = class_weights(plain, groups.classes, past.n_classes)
        weights = learned.weights_of(chosen)
        calibration = Calibration.learn(of_classes, past.y[chosen], learned.fit.base, weights)
        calibrated = calibrated_weights(plain, groups.classes, calibration)
        left_out = outcomes[chosen]
        density = KernelDensity.learn(calibrated, groups.outcomes, left_out, groups.weights, weights)
        # Probability of a small range around each outcome, given the other cases.
        deviation = outcomes - np.average(outcomes, weights=learned.fit.weights)
        spread = float(np.sqrt(np.average(deviation**2, weights=learned.fit.weights)))
        half = max(_RANGE * spread, np.finfo(np.float64).tiny)
        ends = [density.below(calibrated, groups.outcomes, left_out + side) for side in (-half, half)]
        loo = LeaveOneOutVotes(chosen, votes, familiarity)
        return loo, calibration, density, (ends[1] - ends[0]) / (2.0 * half)

    def _learn_opinion(self, learned: Learned, outcomes: NDArray[np.float64]) -> AdditiveMean | None:
        """The second opinion."""
        if self.second_opinion is None:
            return None
        fit, values, schema = learned.fit, learned.table.encoded.values, learned.table.schema

        def learn(rows: NDArray[np.int64] | slice) -> AdditiveMean:
            return AdditiveMean.learn(
                schema, values[rows], outcomes[rows], None if fit.weights is None else fit.weights[rows]
            )

        opinion = learn(slice(None))
        if fit.groups is None:
            return opinion
        loo = out_of_group(
            learn,
            lambda model, rows: model.predict(values[rows]),
            fit.groups,
            np.asarray(opinion.base),
        )
        return replace(opinion, loo=loo)

    def _read_outcomes(self, y: ArrayLike) -> NDArray[np.float64]:
        """The outcomes as finite numbers."""
        refuse_masked("y", y)
        column = column_or_1d(y, warn=True)
        refuse_missing_outcomes(column)
        texts = [value for value in column.tolist() if isinstance(value, str)] if column.dtype.kind in "OU" else []
        if texts:
            text = texts[0]
            raise ValueError(f"y has texts, such as {text!r}; pass numbers, or predict classes (PatchworkClassifier)")
        numbers = check_array(column, ensure_2d=False, dtype=np.float64, input_name="y")
        if np.abs(numbers).max(initial=0.0) > LARGEST_OUTCOME:
            raise ValueError(f"y has outcomes beyond {LARGEST_OUTCOME:g}; pass them in a larger unit")
        return np.asarray(numbers)


def _read_levels(levels: ArrayLike) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(levels, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty((0, 0))
    if numbers.ndim != 1 or not numbers.size or not np.all((numbers > 0.0) & (numbers < 1.0)):
        raise ValueError(f"levels={levels!r} are not probabilities; pass numbers between 0 and 1, such as [0.1, 0.9]")
    return numbers
