"""The survival model: similar past cases vote with their outcomes, including censored ones."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayespatch.calibrate import Calibration
from bayespatch.calibrate_times import TimesCalibration, held_out_log_ratios
from bayespatch.encode import is_partitioned, read_row
from bayespatch.encode.schema import Bins, Windows
from bayespatch.estimator.base import Patchwork
from bayespatch.estimator.explaining import QUANTILE
from bayespatch.estimator.learning import Learned, RandomState
from bayespatch.explain.cases import CaseTexts
from bayespatch.explain.survival import SurvivalExplanation, TimesCase, explain_times
from bayespatch.fitted_times import CaseVotes, EventTimes, FittedTimes, outcome_names, read_times
from bayespatch.follow_up import FollowUpColumns
from bayespatch.importances_of_times import LeaveOneOutTimes, TimeIntervals
from bayespatch.leave_one_out import LeaveOneOutVotes, by_fold, cases_left_out, cases_of
from bayespatch.model import HIDDEN, Hyperparameters
from bayespatch.persistence.registry import loadable
from bayespatch.pool import Pool
from bayespatch.predict import predict_batches, predict_cases
from bayespatch.progress import Tell, progress_meter
from bayespatch.second_opinion import CoxScore
from bayespatch.second_opinion.cox import check_installed
from bayespatch.survival import harrell_concordance
from bayespatch.types import AnyArray, Parameters, TableLike
from bayespatch.validation import check_choice, check_count, check_finite, check_flag, check_level

Array = NDArray[np.float64]


class StepFunction:
    """A step function; call it with a time or an array of times.

    Attributes
    ----------
    x, y : arrays of shape (T,)
        Times, and the values from each time on; before the first time, the value is `start`.
    start : float

    Examples
    --------
    >>> curve = StepFunction(np.array([2.0, 5.0]), np.array([0.8, 0.5]), 1.0)
    >>> curve([0.0, 2.0, 9.0])
    array([1. , 0.8, 0.5])
    """

    def __init__(self, x: Array, y: Array, start: float) -> None:
        self.x, self.y, self.start = x, y, start

    @property
    def domain(self) -> tuple[float, float]:
        """The range of times; beyond the last step, the last value applies."""
        return 0.0, float("inf")

    def __call__(self, times: ArrayLike) -> Array | float:
        """Values at a time or at an array of times."""
        at = np.asarray(times, dtype=np.float64)
        if np.isnan(at).any() or np.any(at < 0.0):
            raise ValueError("times must be nonnegative numbers")
        values = np.append(self.start, self.y)[np.searchsorted(self.x, at, side="right")]
        return values if at.ndim else float(values)


@loadable
class PatchworkSurvival(Patchwork[FittedTimes]):
    """A Bayesian case-based survival model: it predicts survival curves from similar past cases, whose
    times may be censored.

    The importances of the features are learned from a leave-one-out likelihood of the times, to which a censored case
    contributes for as long as it was followed (`bayespatch.importances_of_times`). The voters' weighted curve is pooled
    with the curve of a Cox model. The interface follows scikit-survival.

    Parameters
    ----------
    n_intervals : int
        Maximum number of time intervals in the likelihood; each has at least 10 events on average.
    second_opinion : {"auto", "cox"} or None
        A Cox model to pool with the precedents. "auto": only if lifelines is installed; None: precedents alone.
    parents, n_parents, hyper, bins, n_bins, windows, categorical, max_levels, missing, engine, chains, draws, n_jobs, \
random_state, progress
        As in `PatchworkClassifier`; votes are always in closed form.

    Attributes
    ----------
    unique_times_ : array of shape (T,)
        Times of the events in the training table.
    n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn.
    schema_, posterior_, diagnostics_, hyper_, tuning_, parents_, cases_, x_, values_, loo_, ids_, opinion_, pool_
        As in `PatchworkClassifier`.

    Examples
    --------
    >>> from bayespatch import PatchworkSurvival
    >>> X = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 10
    >>> rng = np.random.default_rng(0)
    >>> days = np.where([row[0] == "yes" for row in X], 20.0, 200.0) * rng.exponential(size=40)
    >>> y = np.array(list(zip(days < 300, np.minimum(days, 300))), dtype=[("died", bool), ("days", float)])
    >>> survival = PatchworkSurvival(draws=20, random_state=0, second_opinion=None).fit(X, y)
    >>> risk = survival.predict([["yes", 60], ["no", 42]])
    >>> bool(risk[0] > risk[1])
    True
    >>> curve = survival.predict_survival_function([["no", 42]])[0]
    >>> bool(1.0 >= curve(10.0) > curve(200.0) > 0.0)
    True
    """

    # Settings required for closed-form votes
    model, likelihood, importances, votes = "I", "exact", "predictive", "closed"
    supervised, transductive, warm_start = True, False, False
    warmup, thin, error, checkpoint, scheduler = 20, 1, 0.05, None, None
    _leave_one_out_density = LeaveOneOutTimes

    def __init__(
        self,
        *,
        n_intervals: int = 8,
        second_opinion: str | None = "auto",
        parents: str | int | ArrayLike = "auto",
        n_parents: int | float | None = None,
        shown: str | int | ArrayLike = "all",
        hyper: str | Hyperparameters = "auto",
        bins: Bins = "auto",
        n_bins: int = 4,
        windows: Windows = None,
        categorical: Sequence[object] = (),
        max_levels: int = 10,
        missing: str = "auto",
        engine: str = "auto",
        chains: int = 4,
        draws: int = 100,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        progress: bool | Tell = False,
    ) -> None:
        self.n_intervals = n_intervals
        self.second_opinion = second_opinion
        self.parents = parents
        self.n_parents = n_parents
        self.shown = shown
        self.hyper = hyper
        self.bins = bins
        self.n_bins = n_bins
        self.windows = windows
        self.categorical = categorical
        self.max_levels = max_levels
        self.missing = missing
        self.engine = engine
        self.chains = chains
        self.draws = draws
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def fit(
        self, X: TableLike, y: EventTimes, groups: ArrayLike | None = None, follow_up: FollowUpColumns = None
    ) -> PatchworkSurvival:
        """Learn the coding of the columns, the importances of the features, and the calibration of the votes.

        Parameters
        ----------
        X : data frame, array or list of rows, of shape (n, P)
            The raw training table.
        y : structured array of length n, or data frame with two columns
            The event (True if it happened, False if follow-up ended without it) and the time, in this order. A data
            frame may have the unit of the times in ``y.attrs["unit"]``.
        groups, follow_up
            As in `PatchworkClassifier.fit`.

        Returns
        -------
        PatchworkSurvival
            Itself.

        Examples
        --------
        >>> from bayespatch import PatchworkSurvival
        >>> y = np.array([(True, 2.0), (False, 9.0)] * 15, dtype=[("died", bool), ("days", float)])
        >>> X = [["yes"], ["no"]] * 15
        >>> PatchworkSurvival(draws=20, random_state=0, second_opinion=None).fit(X, y).unique_times_
        array([2.])
        """
        self._check_parameters()
        most = check_count("n_intervals", self.n_intervals, at_least=1)
        if self.second_opinion is not None:
            check_choice("second_opinion", self.second_opinion, ("auto", "cox"))
        if self.second_opinion == "cox":
            check_installed()
        if is_partitioned(X):
            raise ValueError("a survival model needs a table in memory; pass X.compute()")
        time, event = read_times(y)
        event_name, time_name = outcome_names(y)
        _check_learnable(time, event, groups, time_name, event_name)
        training = self._read_training(X, y, groups, follow_up)
        intervals = TimeIntervals.learn(time, event, most)
        codes, excess = intervals.codes(time, event), event - _expected_events(time, event)
        learned = self._learn(training, codes, 2 * intervals.n, outcomes=excess)
        opinion = self._learn_cox(learned, time, event, intervals, training.seed)
        fitted = FittedTimes(
            **learned.fields(),
            loo=LeaveOneOutVotes(np.empty(0, np.int64), np.empty((0, 2 * intervals.n)), np.empty(0)),
            calibration=Calibration.none(2 * intervals.n),
            opinion=opinion,
            pool=None,
            class_names=_class_names(intervals, event_name),
            target=time_name,
            feature_names=training.names,
            follow_up=training.follow_up,
            time=time,
            event=event,
            time_intervals=intervals,
            times_calibration=TimesCalibration(1.0, 0.0, np.zeros((2, 2)), np.ones(intervals.n)),
            event_name=event_name,
            unit=str(getattr(y, "attrs", {}).get("unit") or ""),
        )
        self.fitted_ = self._calibrated(fitted, learned)
        return self

    @property
    def unique_times_(self) -> Array:
        """Times of the events in the training table, (T,)."""
        return self._fitted().event_times

    def predict(self, X: TableLike) -> Array:
        """Risk scores: the probability that the event has happened, averaged over the event times.

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> survival.predict(X[:2]).shape
        (2,)
        """
        fitted = self._fitted()
        return np.asarray(1.0 - self._survival(fitted, X, fitted.event_times).mean(axis=1))

    def predict_survival_function(self, X: TableLike, return_array: bool = False) -> AnyArray:
        """Predicted survival curves.

        Returns
        -------
        array of n StepFunction, or array of shape (n, T)
            With `return_array`, the probabilities of being event-free at `unique_times_`.

        Examples
        --------
        >>> survival.predict_survival_function(X[:2], return_array=True).shape[0]
        2
        """
        fitted = self._fitted()
        survival = self._survival(fitted, X, fitted.event_times)
        return survival if return_array else _functions(fitted.event_times, survival, 1.0)

    def predict_cumulative_hazard_function(self, X: TableLike, return_array: bool = False) -> AnyArray:
        """Cumulative hazards, ``-log`` of the survival curves.

        Returns
        -------
        array of n StepFunction, or array of shape (n, T)

        Examples
        --------
        >>> bool(survival.predict_cumulative_hazard_function(X[:1])[0](0.0) >= 0.0)
        True
        """
        fitted = self._fitted()
        hazard = -np.log(np.maximum(self._survival(fitted, X, fitted.event_times), np.finfo(np.float64).tiny))
        return hazard if return_array else _functions(fitted.event_times, hazard, 0.0)

    def predict_median(self, X: TableLike) -> Array:
        """Median time: the first time at which the curve is at most 0.5; NaN if it never is.

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> survival.predict_median(X[:2]).shape
        (2,)
        """
        fitted = self._fitted()
        reached = self._survival(fitted, X, fitted.event_times) <= 0.5
        return np.where(reached.any(axis=1), fitted.event_times[reached.argmax(axis=1)], np.nan)

    def predict_survival_interval(self, X: TableLike, times: ArrayLike, level: float = 0.9) -> Array:
        """Intervals of the probability of being event-free at given times.

        They include the uncertainty from the number of voters, the importances and the calibration, and the second
        opinion's uncertainty from the number of events. If the two opinions differ, the intervals span both.

        Returns
        -------
        array of shape (n, T, 2)

        Examples
        --------
        >>> survival.predict_survival_interval(X[:2], [100.0]).shape
        (2, 1, 2)
        """
        level, fitted = check_level(level), self._fitted()
        at = read_at(times, fitted)
        parts = [fitted.survival_interval(votes, values, at, level) for votes, values in self._voted(fitted, X)]
        return np.concatenate(parts)

    def predict_opinions(self, X: TableLike, times: ArrayLike) -> dict[str, Array]:
        """Probability of being event-free at given times, from each opinion alone and from the pool.

        Returns
        -------
        dict of arrays of shape (n, T)
            "precedents", "additive" (the Cox model) and "pool".

        Examples
        --------
        >>> survival.predict_opinions(X[:2], [100.0])["pool"].shape
        (2, 1)
        """
        fitted = self._fitted()
        at = read_at(times, fitted)
        if fitted.pool is None:
            raise ValueError("the model has no second opinion; fit it with second_opinion='cox'")
        curves: dict[str, list[Array]] = {"precedents": [], "additive": [], "pool": []}
        for votes, values in self._voted(fitted, X):
            additive = fitted.additive(values, at)
            assert additive is not None
            curves["precedents"].append(fitted.precedents(votes, at).survival)
            curves["additive"].append(additive.survival)
            curves["pool"].append(fitted.survival(votes, values, at))
        return {name: np.concatenate(parts) for name, parts in curves.items()}

    def explain(
        self,
        row: TableLike,
        top: int = 4,
        *,
        time: float | None = None,
        level: float = 0.9,
        quantile: float = QUANTILE,
        exclude_self: bool = True,
    ) -> SurvivalExplanation:
        """Explain one case: its survival curve, the past cases that vote on it, and what raises or lowers the risk.

        Parameters
        ----------
        row : dict, Series, sequence of values, or table with one row
            The case.
        top : int
            Number of past cases to show.
        time : float, optional
            The horizon: the probability of the event by this time is explained. By default, a round time about halfway
            to the end of follow-up.
        level : float
            Probability of the intervals.
        quantile : float
            A case has no adequate precedent if at most this share of past cases is as unusual.
        exclude_self : bool
            Whether a case that is itself a past case is prevented from voting on itself.

        Returns
        -------
        SurvivalExplanation

        Examples
        --------
        >>> survival.explain(X[0]).to_dict()["case"]["target"]
        'days'
        """
        fitted = self._fitted()
        at = None if time is None else float(read_at(time, fitted)[0])
        table = read_row(row, fitted.schema)
        posterior, new, encoded = self._new_cases(fitted, table)
        texts = CaseTexts(encoded.ids, fitted.schema.describe_rows(table), encoded.values, encoded.unseen)
        same = int(texts.rows_in(fitted)[0]) if check_flag("exclude_self", exclude_self) else -1
        place = np.flatnonzero(fitted.parents == same)
        own = int(place[0]) if len(place) else -1

        def vote(codes: Array) -> tuple[CaseVotes, Array]:
            cases = new._replace(x=codes, y=np.full(len(codes), HIDDEN), own_parent=np.full(len(codes), own))
            part = predict_cases(posterior, cases, detail="spread", n_threads=self._n_threads())
            assert part.neighbors is not None
            return CaseVotes(part.neighbors.share, part.covariance), part.familiarity

        case = TimesCase(texts.named(0), texts.texts[0], encoded.values[0], encoded.x[0], encoded.unseen[0], new, same)
        options: Parameters = {"level": check_level(level), "quantile": check_level(quantile)}
        return explain_times(fitted, case, vote, horizon=at, top=check_count("top", top, at_least=1), **options)

    def score(self, X: TableLike, y: EventTimes) -> float:
        """Harrell's concordance index.

        Returns
        -------
        float

        Examples
        --------
        >>> bool(survival.score(X, times) > 0.5)
        True
        """
        return harrell_concordance(*read_times(y), self.predict(X))

    def _voted(self, fitted: FittedTimes, X: TableLike) -> Iterator[tuple[CaseVotes, Array]]:
        """Shares of the votes, and the values of the rows of X, in batches."""
        encoded, parts = self._predictions(fitted, X, detail="spread")
        first = 0
        for part in parts:
            assert part.neighbors is not None
            last = first + len(part.neighbors.share)
            yield CaseVotes(part.neighbors.share, part.covariance), encoded.values[first:last]
            first = last

    def _survival(self, fitted: FittedTimes, X: TableLike, times: Array) -> Array:
        parts = [fitted.survival(votes, values, times) for votes, values in self._voted(fitted, X)]
        return np.asarray(check_finite("the survival probability", np.concatenate(parts)))

    def _learn_cox(
        self, learned: Learned, time: Array, event: NDArray[np.bool_], intervals: TimeIntervals, seed: int
    ) -> CoxScore | None:
        if self.second_opinion is None:
            return None
        if self.second_opinion == "auto" and importlib.util.find_spec("lifelines") is None:
            return None
        with progress_meter(self.progress, "tables")(1) as report:
            report(0, "second opinion")
            values, schema = learned.table.encoded.values, learned.table.schema
            cox = CoxScore.learn(schema, values, time, event, intervals.cuts, learned.fit.groups, seed=seed)
            report(1, "second opinion")
        return cox

    def _calibrated(self, fitted: FittedTimes, learned: Learned) -> FittedTimes:
        """The model with everything learned from leave-one-out votes: familiarity, calibration, pool."""
        chosen, hidden = cases_left_out(learned.past())
        predicted = partial(predict_batches, detail="shares", n_threads=self._n_threads(), engine=self._predicting())
        votes, familiarity = [], []
        shares = np.empty((len(chosen), len(fitted.parents)), np.float32)
        for part in predicted(fitted.posterior, hidden):
            votes.append(part.mean_votes())
            familiarity.append(part.familiarity)
        folds = list(by_fold(fitted.posterior, learned.held_out, chosen))
        for places, own in folds:
            parts = predicted(own, cases_of(hidden, places))
            shares[places] = np.concatenate([part.neighbors.share for part in parts if part.neighbors is not None])
        events, expected = fitted.outcomes_by_interval
        course, expected, events = fitted.course(CaseVotes(shares)), expected[chosen], events[chosen]
        calibration = TimesCalibration.learn(course, expected, events)
        loo = LeaveOneOutVotes(chosen, np.concatenate(votes), np.concatenate(familiarity))
        fitted = replace(fitted, loo=loo, times_calibration=calibration)
        if fitted.opinion is None:
            return fitted
        log_ratio = calibration.log_hazard_ratio(course)
        if learned.held_out:
            log_ratio = held_out_log_ratios(course, expected, events, [places for places, _ in folds])
        both = fitted.opinion.loo[chosen], np.exp(log_ratio) * fitted.base_exposure(np.array([np.inf]))
        each = [np.exp(fitted.time_intervals.log_likelihood(h, learned.fit.y[chosen])) for h in both]
        return replace(fitted, pool=Pool.learn_densities(*each))

    def _read_outcomes(self, y: EventTimes) -> EventTimes:
        return y


def _functions(times: Array, values: Array, start: float) -> AnyArray:
    functions = np.empty(len(values), dtype=object)
    functions[:] = [StepFunction(times, row, start) for row in values]
    return functions


def _check_learnable(
    time: Array, event: NDArray[np.bool_], groups: ArrayLike | None, time_name: str, event_name: str
) -> None:
    """Check that there are events to predict from other events, at different times."""
    n = int(event.sum())
    if n < 2:
        raise ValueError(
            f"column {event_name!r} has only one event (row {int(event.argmax())}); a survival model needs at least "
            f"two events"
        )
    if len(np.unique(time)) == 1:
        raise ValueError(
            f"column {time_name!r} is {time[0]:g} in all {len(time)} rows; times must differ. To predict whether an "
            f"event happens by a fixed time, use PatchworkClassifier"
        )
    members = np.arange(len(time)) if groups is None else np.asarray(groups)
    if len(members) == len(time) and len(set(members[event].tolist())) < 2:
        raise ValueError(
            f"all {n} events of column {event_name!r} are in one group, {str(members[event][0])!r}; a survival model "
            f"needs events in at least two groups"
        )


def read_at(times: ArrayLike, fitted: FittedTimes) -> Array:
    """Times at which to predict, within the follow-up of the past cases."""
    at = np.atleast_1d(np.asarray(times, dtype=np.float64))
    if at.ndim != 1 or not np.isfinite(at).all() or np.any(at < 0.0):
        raise ValueError(f"times={times!r} are not valid times; pass finite, nonnegative numbers")
    longest = float(fitted.time.max())
    if at.max(initial=0.0) > longest:
        raise ValueError(f"time {at.max():g} is beyond the follow-up of the past cases; pass times up to {longest:g}")
    return at


def _expected_events(time: Array, event: NDArray[np.bool_]) -> Array:
    """Cumulative hazard of all cases at each time, (n,): the expected number of events."""
    times, counts = np.unique(time[event], return_counts=True)
    at_risk = len(time) - np.searchsorted(np.sort(time), times, side="left")
    return np.append(0.0, np.cumsum(counts / at_risk))[np.searchsorted(times, time, side="right")]


def _class_names(intervals: TimeIntervals, event_name: str) -> tuple[str, ...]:
    """Names of the classes: the pairs of interval and event."""
    ends = [f"by {cut:g}" for cut in intervals.cuts.tolist()] + ["later"]
    return tuple(f"{event} {end}" for end in ends for event in (f"no {event_name}", event_name))
