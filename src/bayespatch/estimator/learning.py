"""From a table to a posterior: parameters, codings, parents, importances."""

from __future__ import annotations

import math
import secrets
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from os import PathLike
from typing import NamedTuple, TypeAlias, cast

import numpy as np
from joblib import cpu_count
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state
from sklearn.utils.validation import _num_samples, validate_data

from bayespatch.calibrate import Calibration
from bayespatch.duplicates import RepeatedRowsWarning, duplicates_text, group_labels
from bayespatch.encode import EncodedTable, Partitions, Sample, Schema, is_partitioned
from bayespatch.encode.schema import Bins, Windows
from bayespatch.encode.table import column_names, read_table, split_columns
from bayespatch.engine.installed import check_engine, takes_importances
from bayespatch.fitted import Fitted, data_elsewhere, past_data
from bayespatch.follow_up import FollowUp, FollowUpColumns, columns_of, follow_up_roles
from bayespatch.importances import MAX_STEPS, LeaveOneOut, check_draws_fit, draw_importances
from bayespatch.importances_at_scale import (
    MOST_AT_ONCE,
    N_STEPS,
    LargeTable,
    LeaveOneOutBatches,
    weights_of_cases,
)
from bayespatch.leave_one_out import HeldOut, LeaveOneOutVotes, leave_one_out_votes, n_left_out
from bayespatch.model import HIDDEN, Data, Hyperparameters, Likelihood, Model, ModelKind
from bayespatch.parents import choose_parents, choose_shown
from bayespatch.persistence.checkpoint_folder import check_folder
from bayespatch.predict import PREDICTING, blank_votes
from bayespatch.predict.closed import SUBSETS
from bayespatch.progress import Report, Tell, progress_meter
from bayespatch.retrieval import PartitionedIndex
from bayespatch.sampling.metropolis import Shape
from bayespatch.sampling.posterior import Posterior, SamplingSettings, Timing
from bayespatch.sampling.sampler import check_size, chosen_engine, run_chains
from bayespatch.second_opinion.user import N_FOLDS, Classifier, content_folds
from bayespatch.tune import Trial, Tuning, base_rates, constants, tune
from bayespatch.types import AnyArray, JSONObject, Parameters, TableLike
from bayespatch.validation import (
    MOST_THREADS,
    check_chain_lengths,
    check_choice,
    check_count,
    check_flag,
    check_model,
    check_sweeps,
    read_sample_weight,
)
from bayespatch.workers import active_scheduler, check_scheduler

# Ways to compare numbers, among which tuning chooses if bins="auto", as parameters of `Schema.learn`.
CODINGS: dict[str, Parameters] = {"quantile bins": {"bins": "quantile"}, "rank windows": {"windows": "10%"}}
# With closed-form votes, numbers may agree at several nested windows.
NESTED = ("4%", "22%", "40%")
CLOSED_CODINGS: dict[str, Parameters] = {
    "quantile bins": {"bins": "quantile"},
    "nested rank windows": {"windows": "10%", "nested": NESTED},
}
MOST_HERE = 100_000  # partitioned tables with up to this number of rows are read into this process completely
MOST_TUNED = 2000  # number of rows on which codings of a large table are compared
MOST_AUTO = 2000  # number of parents with "auto" if votes are sampled
# If missing="auto", tuning also chooses whether missing is a value, with these log prior odds in favor. In medicine, a
# missing measurement is often informative (and the paper uses it), so missing values are only ignored if that is at
# least 20 times as likely.
GAPS_COUNT, GAPS_LOG_PRIOR = "missing is a value", math.log(20.0)
# Parameters with the same name in `Schema.learn`
_CODING = ("bins", "n_bins", "windows", "categorical", "missing", "max_levels")


RandomState: TypeAlias = int | np.random.RandomState | None


class WeighedRows(NamedTuple):
    """Weights of the rows of a table, (n,), and their row numbers in the user's table if rows of weight 0 were
    dropped.
    """

    weights: NDArray[np.float64]
    rows: NDArray[np.int64] | None


class TrainingData(NamedTuple):
    """The arguments of `fit` without follow-up columns and rows of weight 0; for a partitioned table, a sample."""

    X: TableLike
    y: ArrayLike
    groups: ArrayLike | None
    weighed: WeighedRows | None
    sample: Sample | None  # for a partitioned table: the sample, with a summary of all rows
    follow_up: FollowUp | None
    names: tuple[str, ...] | None  # names of the columns, if any
    seed: int


class Parts(NamedTuple):
    """A partitioned table whose rows stay in their partitions and vote there; this process has a sample of them.

    Attributes
    ----------
    table : Partitions
    rows : int array of shape (n,)
        Row numbers of the sample in the whole table.
    n_rows : int
        Number of rows of the whole table.
    classes : tuple
        The classes as they occur in the table.
    scheduler : str or None
        Address of the scheduler of the Dask workers that store the partitions.
    """

    table: Partitions
    rows: NDArray[np.int64]
    n_rows: int
    classes: tuple[object, ...]
    scheduler: str | None

    def indexed(self, schema: Schema, named: bool) -> PartitionedIndex:
        """Code all rows, on the workers or in files."""
        read, arguments = self.table.coding(schema, self.classes, named)
        of_table = read, arguments, len(self.classes), schema.every_window
        if self.scheduler is None:
            return PartitionedIndex.build(*of_table, each=self.table.each, in_files=True)
        return PartitionedIndex.build(*of_table, scheduler=self.scheduler)

    def names(self, ids: tuple[str, ...] | None) -> tuple[tuple[str, ...], bool]:
        """The labels of the sample's rows, and whether these are names rather than row numbers."""
        numbers = tuple(map(str, self.rows.tolist()))
        if ids is None or ids in (numbers, tuple(map(str, range(len(numbers))))):
            return numbers, False
        return ids, True


class _TrainingTable(NamedTuple):
    """The training table under one coding."""

    schema: Schema
    encoded: EncodedTable
    parents: NDArray[np.int64]
    cases: NDArray[np.int64]
    elsewhere: PartitionedIndex | None = None  # all past cases, once coded, if the table is a sample

    def past(self, fit: _Fit, cases: NDArray[np.int64] | None = None) -> Data:
        """The parents, together with the cases or the given rows."""
        rows = self.cases if cases is None else cases
        if self.elsewhere is not None and fit.parts is not None:
            return data_elsewhere(self.encoded.x, fit.y, fit.parts.rows, self.schema, self.elsewhere)
        of_table = self.schema, fit.n_classes, fit.groups, fit.weights
        return past_data(self.encoded.x, fit.y, self.parents, rows, *of_table)

    def part(self, rows: NDArray[np.int64], fit: _Fit) -> Data:
        """Some of the rows as both cases and parents."""
        everyone, x = np.arange(len(rows)), self.encoded.x[rows]
        groups = None if fit.groups is None else fit.groups[rows]
        weights = None if fit.weights is None else fit.weights[rows]
        return past_data(x, fit.y[rows], everyone, everyone, self.schema, fit.n_classes, groups, weights)


class _Fit(NamedTuple):
    """The options of a fit, and everything known before it starts."""

    y: NDArray[np.int64]
    n_classes: int
    model: Model
    given: Hyperparameters | None  # passed by the user
    base: NDArray[np.float64]
    class_weight: NDArray[np.float64] | None
    groups: NDArray[np.int64] | None  # (n,) rows of a group never vote on each other
    seed: int
    n_threads: int
    weights: NDArray[np.float64] | None = None  # (n,) weight of each row
    rows: NDArray[np.int64] | None = None  # (n,) row numbers in the user's table if rows are left out; None: all rows
    parts: Parts | None = None  # the partitions, if the rows are a sample of the past cases

    def case_weight(self, rows: NDArray[np.int64], past: Data) -> NDArray[np.float64] | None:
        """Weights of some rows, (k,); None means 1. If all rows of a table vote, its sample represents them."""
        if self.parts is not None and past.elsewhere is not None:
            return np.full(len(rows), self.parts.n_rows / len(self.parts.rows))
        return None if self.weights is None else self.weights[rows]


class Learned(NamedTuple):
    """The result of the first half of a fit: a coding, the parents, and the posterior of the importances."""

    fit: _Fit
    table: _TrainingTable  # under the coding that suits it best
    tuning: Tuning | None
    posterior: Posterior
    held_out: tuple[HeldOut, ...]  # importances without each fold; empty if folds are not used
    shown: NDArray[np.int64] | None = None  # parents that may be shown; None: all

    def past(self) -> Data:
        """All rows, including the parents, together with the parents: chosen parents may differ from the rest."""
        return self.table.past(self.fit, np.arange(len(self.fit.y)))

    def posteriors(self) -> list[Posterior]:
        """The importances, followed by those without each fold."""
        return [self.posterior, *(fold.posterior for fold in self.held_out)]

    def weights_of(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The weight of each of some rows, including class weights, (k,)."""
        own = None if self.fit.weights is None else self.fit.weights[rows]
        return weights_of_cases(self.fit.y[rows], self.fit.class_weight, own)

    def fields(self) -> JSONObject:
        """Fields of `Fitted` that are known at this stage."""
        fit, table, encoded = self.fit, self.table, self.table.encoded
        rows = None if fit.parts is None else fit.parts.rows
        numbered = rows is None and encoded.ids == tuple(map(str, range(len(encoded.x))))
        return {
            "schema": table.schema,
            "x": encoded.x,
            "y": fit.y,
            "values": encoded.values,
            "groups": fit.groups,
            "parents": table.parents,
            "shown": self.shown,
            "cases": table.cases,
            "tuning": self.tuning,
            "posterior": self.posterior,
            "sample_weight": fit.weights,
            "elsewhere": table.elsewhere,
            "rows": rows,
            "ids": None if numbered else encoded.ids,
            "salt": secrets.token_bytes(32),
        }


class ManyCasesWarning(UserWarning):
    """Only a random sample of the past cases is used, because there are too many."""


class ConstantColumnWarning(UserWarning):
    """Columns with the same value in all rows, or in all rows but one, carry no information."""


class NumbersAsTextWarning(UserWarning):
    """Most values of a text column look like numbers, but texts are compared as categories."""


class _Names(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Lets scikit-learn read the column names of a table without touching an estimator."""


class Learner(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The part of an estimator that learns a posterior from a table."""

    model: str
    likelihood: str
    parents: str | int | ArrayLike
    n_parents: int | float | None
    shown: str | int | ArrayLike
    hyper: str | Hyperparameters
    importances: str
    second_opinion: str | Classifier | None
    votes: str
    error: float
    chains: int
    draws: int
    warmup: int
    thin: int
    missing: str
    transductive: bool
    engine: str
    scheduler: str | None
    n_jobs: int | None
    warm_start: bool
    random_state: RandomState
    progress: bool | Tell
    checkpoint: str | PathLike[str] | None
    supervised: bool
    bins: Bins
    windows: Windows
    categorical: Sequence[object]
    max_levels: int
    _leave_one_out_density = LeaveOneOutBatches

    # Checks before any work

    def _check_parameters(self) -> None:
        check_model(self.model, self.likelihood, None, 1, 1)
        for name in ("supervised", "transductive", "warm_start"):
            check_flag(name, getattr(self, name))
        check_chain_lengths(self.chains, self.draws, self.warmup, self.thin)
        if self.transductive:
            check_sweeps(self.warmup, self.draws, self.thin)
        check_engine(self.engine, "auto")
        check_scheduler(self.scheduler)
        if not isinstance(self.hyper, Hyperparameters) and not (isinstance(self.hyper, str) and self.hyper == "auto"):
            raise ValueError(f"hyper={self.hyper!r} is not a valid value; pass 'auto' or Hyperparameters(...)")
        check_choice("importances", self.importances, ("predictive", "joint"))
        if self.importances == "predictive" and not self.supervised:
            raise ValueError(
                "importances='predictive' are learned from outcomes, which supervised=False does not use; pass "
                "importances='joint'"
            )
        if self.importances == "predictive" and not takes_importances(self.engine):
            raise ValueError(f"engine={self.engine!r} only samples the joint posterior; pass importances='joint'")
        check_choice("votes", self.votes, ("auto", "closed", "sampled"))
        if self.votes == "closed" and not self._votes_are_closed():
            raise ValueError(
                "votes='closed' needs model='I', likelihood='exact', importances='predictive' and transductive=False; "
                "pass these, or votes='sampled'"
            )
        if not (isinstance(self.shown, str) and self.shown == "all") and not self._votes_are_closed():
            raise ValueError(f"shown={self.shown!r} needs closed-form votes; pass shown='all', or restrict parents")
        check_error(self.error)
        progress_meter(self.progress)
        if self.checkpoint is not None:
            check_folder(self.checkpoint)
            if not isinstance(self.random_state, Integral):
                raise ValueError(
                    f"random_state={self.random_state!r} draws a new seed for each fit, but a checkpoint can only be "
                    f"resumed with the same seed; pass a number, such as random_state=0"
                )
        self._n_threads()

    def _feature_names(self, X: TableLike, y: ArrayLike) -> tuple[str, ...] | None:
        """Column names of a training table by scikit-learn's rules, if any; X and y must have the same length."""
        if not is_table(X):
            return None
        reader = _Names()
        column_names(X)  # before scikit-learn reads them, whose error has no remedy
        validate_data(reader, X, skip_check_array=True, reset=True)
        check_consistent_length(X, y)
        names = getattr(reader, "feature_names_in_", None)
        return None if names is None else tuple(names.tolist())

    def _n_threads(self) -> int:
        """The number of threads. As in joblib, -1 means all cores and -2 all but one; None also means all cores.

        joblib's `effective_n_jobs` counts processes: it returns 1 in a daemon process, although threads are available.
        """
        if self.n_jobs is None:
            return cpu_count()
        n_jobs = check_count("n_jobs", self.n_jobs, at_least=-MOST_THREADS, at_most=MOST_THREADS)
        if n_jobs == 0:
            raise ValueError("n_jobs=0 is not a number of threads; pass at least 1, or -1 for all cores")
        return n_jobs if n_jobs > 0 else max(1, cpu_count() + 1 + n_jobs)

    # The work

    def _read_training(
        self,
        X: TableLike,
        y: ArrayLike,
        groups: ArrayLike | None,
        follow_up: FollowUpColumns,
        sample_weight: ArrayLike | None = None,
        *,
        classes: bool = False,
    ) -> TrainingData:
        """The arguments of `fit`. If outcomes are `classes`, a sample includes rows of each class."""
        seed = int(check_random_state(self.random_state).randint(2**31))
        X, y, groups, weighed = self._weighed(X, y, groups, sample_weight)
        X, recorded = split_follow_up(X, follow_up)
        sample = self._sampled(X, y, seed, classes=classes)
        if sample is not None:
            X, y = sample.X, sample.y
        return TrainingData(X, y, groups, weighed, sample, recorded, self._feature_names(X, y), seed)

    def _sampled(self, X: TableLike, y: ArrayLike, seed: int, *, classes: bool) -> Sample | None:
        """The sample of a partitioned table; None for a table in memory."""
        if isinstance(X, Sample):
            sample = X
        elif is_partitioned(X) or hasattr(y, "npartitions"):
            from bayespatch.workers import computed

            categorical = () if isinstance(self.categorical, str) else tuple(map(str, self.categorical))
            table = Partitions.of_dask(X, y, partial(computed, scheduler=self.scheduler))
            sample = table.sample(seed, classes=classes, categorical=categorical, max_levels=self.max_levels)
        else:
            return None
        if not sample.is_all and not (classes and self._votes_elsewhere(sample)):
            if not isinstance(self.parents, str | Integral):
                raise ValueError(
                    f"parents= lists rows, but the model learns from a sample of the {sample.summary.n_rows:,} rows; "
                    f"pass parents='auto', or a number"
                )
            if not isinstance(self.shown, str | Integral):
                raise ValueError(
                    f"shown= lists rows, but the model learns from a sample of the {sample.summary.n_rows:,} rows; "
                    f"pass shown='all', or a number"
                )
            warnings.warn(
                f"the model learns from a random sample of {len(sample.X):,} of {sample.summary.n_rows:,} rows, which "
                f"become its past cases; class shares, levels, ranges and missing values come from all rows",
                ManyCasesWarning,
                stacklevel=5,
            )
        return sample

    def _learn(
        self,
        training: TrainingData,
        y: NDArray[np.int64],
        n_classes: int,
        *,
        class_weight: NDArray[np.float64] | None = None,
        outcomes: NDArray[np.float64] | None = None,
        counts: AnyArray | None = None,
        parts: Parts | None = None,
    ) -> Learned:
        """Code the table, choose the parents and learn the importances; y has the codes of the classes.

        For numeric outcomes, y has the classes into which they were cut. `counts` has the number of rows of each class;
        if the rows are a sample of a larger table, it covers the whole table. With `parts`, all rows of that table
        vote; otherwise only the sample does.
        """
        weights, rows = training.weighed or (None, None)
        groups, seed = self._groups_of(training.groups, training.sample, len(y)), training.seed
        if weights is not None:
            counts = np.bincount(y, weights, n_classes)
        base = base_rates(y, n_classes, class_weight, counts)
        model = Model(cast(ModelKind, self.model), cast(Likelihood, self.likelihood))
        given = self.hyper if isinstance(self.hyper, Hyperparameters) else None
        if given is not None and class_weight is not None and not np.all(class_weight == 1.0):
            given = replace(given, mu=tuple((class_weight * given.mu_per_class(n_classes)).tolist()))
        of_user = model, given, base, class_weight, groups, seed, self._n_threads()
        fit = _Fit(y, n_classes, *of_user, weights, rows, parts)
        tables = self._coded(training, fit, outcomes)
        if groups is None:
            fit = fit._replace(groups=self._repeated_rows(next(iter(tables.values())), fit))
        learn = self._learn_closed if self._votes_are_closed() else self._learn_sampled
        learned = learn(tables, fit)
        shown = choose_shown(self.shown, learned.table.parents, len(y), np.random.default_rng([seed, 41]))
        return learned._replace(tuning=learned.tuning if given is None else None, shown=shown)

    def _parts(self, sample: Sample | None, classes: AnyArray) -> Parts | None:
        """The partitioned table of a sample, if all its rows vote in their partitions."""
        if sample is None or not self._votes_elsewhere(sample):
            return None
        scheduler = self.scheduler or active_scheduler()
        return Parts(sample.table, sample.rows, sample.summary.n_rows, tuple(classes.tolist()), scheduler)

    def _votes_elsewhere(self, sample: Sample) -> bool:
        """Whether all rows of a partitioned table vote in their partitions, instead of only its sample."""
        everybody = all(isinstance(option, str) for option in (self.parents, self.shown)) and self.n_parents is None
        return (
            (sample.summary.n_rows > MOST_HERE or not sample.is_all)
            and self._votes_are_closed()
            and everybody
            and (self.parents in ("auto", "all"), self.shown) == (True, "all")
        )

    def _votes_are_closed(self) -> bool:
        """Whether every past case votes in closed form."""
        return (
            self.votes != "sampled"
            and self.importances == "predictive"
            and (self.model, self.likelihood) == ("I", "exact")
            and not self.transductive
        )

    def _learn_closed(self, tables: dict[str, _TrainingTable], fit: _Fit) -> Learned:
        """A coding that suits the table, and the posterior of the importances: every past case votes."""
        began = time.perf_counter()
        y = fit.y
        n_fits = (len(tables) if len(tables) > 1 else 0) + 1
        with progress_meter(self.progress, "steps")(n_fits * N_STEPS) as report:
            best, trials, found = self._best_coding(tables, fit, report)
            table = tables[best]
            tables.clear()  # free the memory of the other codings
            if fit.parts is not None:
                table = _elsewhere(table, fit.parts)
            past = table.past(fit, np.arange(len(y)))
            density = self._large_density(past, fit, np.arange(len(y)))
            done = (n_fits - 1) * N_STEPS
            tuned_on_all = len(y) <= MOST_TUNED and np.array_equal(table.parents, np.arange(len(y)))
            if found is None or not tuned_on_all or fit.parts is not None:
                found = density.learn(fit.seed, lambda step: report(done + step, "importances"), found)
            report(done + N_STEPS, "importances")
        hyper = constants(past, fit.base) if fit.given is None else fit.given
        model = check_model(fit.model.kind, fit.model.likelihood, hyper, fit.n_classes, past.x.shape[1])
        q, log_weights, steps = density.draw(found, self.chains, self.draws, fit.seed)
        efficiency = density.efficiency(found, fit.seed)
        settings = SamplingSettings(
            engine="cpu",
            chains=self.chains,
            draws=self.draws,
            warmup=self.warmup,
            thin=self.thin,
            seed=fit.seed,
            supervised=self.supervised,
            exclude_self=np.array_equal(table.parents, table.cases),
            missing="ignore" if table.schema.missing == "ignore" else "error",
        )
        timing = Timing(0.0, time.perf_counter() - began, N_STEPS, fit.n_threads)
        posterior = Posterior.closed(
            q, log_weights, density.index.compares_missing, steps, fit.n_classes, model, settings, timing, efficiency
        )
        held_out = []
        few = len(y) <= MOST_AT_ONCE and fit.parts is None
        for rows in _folds(table.encoded.values, fit) if few else ():
            q, log_weights, _ = density.draw(density.without(found, rows), self.chains, self.draws, fit.seed)
            held_out.append(HeldOut(rows, replace(posterior, q=q, log_weights=log_weights)))
        return Learned(fit, table, Tuning(best, hyper, trials), posterior, tuple(held_out))

    def _best_coding(
        self, tables: dict[str, _TrainingTable], fit: _Fit, report: Report
    ) -> tuple[str, tuple[Trial, ...], LargeTable | None]:
        """The coding with the largest evidence on some of the rows, and what was learned from these rows."""
        if len(tables) == 1:
            return next(iter(tables)), (), None

        def report_from(done: int) -> Callable[[int], object]:
            return lambda step: report(done + step, "tuning")

        n = len(fit.y)
        some = np.linspace(0, n - 1, min(n, MOST_TUNED)).round().astype(np.int64)
        trials, best, largest, of_best = [], "", -math.inf, None
        for k, (name, table) in enumerate(tables.items()):
            small = self._large_density(table.part(some, fit), fit, some)
            found = small.learn(fit.seed, report_from(k * N_STEPS))
            evidence = found.log_evidence(small.effects.n_splits)
            trials.append(Trial(name, evidence / len(some)))
            odds = evidence + (GAPS_LOG_PRIOR if name.endswith(GAPS_COUNT) else 0.0)
            if not best or odds > largest:
                best, largest, of_best = name, odds, found
        return best, tuple(trials), of_best

    def _large_density(self, past: Data, fit: _Fit, rows: NDArray[np.int64]) -> LeaveOneOutBatches:
        """The density of the importances; `rows` of the training table are the cases."""
        hyper = constants(past, fit.base) if fit.given is None else fit.given
        model = replace(fit.model, hyper=hyper)
        density = self._leave_one_out_density
        of_fit = fit.base, fit.class_weight, fit.n_threads, self._predicting()
        return density(past, model, *of_fit, case_weight=fit.case_weight(rows, past))

    def _learn_sampled(self, tables: dict[str, _TrainingTable], fit: _Fit) -> Learned:
        """A coding that suits the table, and the posterior with sampled neighbors."""
        if self.importances == "predictive":
            n_features = next(iter(tables.values())).encoded.x.shape[1]
            check_draws_fit(n_features, self.chains, self.warmup, self.draws * self.thin)
        with progress_meter(self.progress, "codings")(len(tables)) as report:
            pasts = {name: table.past(fit) for name, table in tables.items()}
            tuning, density, shape = self._tuned(pasts, fit, report)
        table = tables.pop(tuning.coding)
        tables.clear()  # free the memory of the other codings
        past = table.past(fit)
        begin = self._beginning(table.schema, table.parents)
        settings = SamplingSettings(
            engine=chosen_engine(self.engine, past),
            chains=self.chains,
            draws=self.draws,
            warmup=self.warmup,
            thin=self.thin,
            # The starting points of chains must not depend on the random numbers that the chains will draw.
            seed=fit.seed if begin is None else (fit.seed + begin.seed + 1) % 2**31,
            supervised=self.supervised,
            exclude_self=bool(past.own_parent.max() >= 0),
            missing="ignore" if table.schema.missing == "ignore" else "error",
        )
        model = check_model(fit.model.kind, fit.model.likelihood, tuning.hyper, fit.n_classes, past.x.shape[1])
        check_size(past, model, settings, fit.n_threads, checkpoint=self.checkpoint is not None)
        predictive = None
        if density is not None and shape is not None:
            n_draws = self.draws * self.thin
            with progress_meter(self.progress, "steps")(MAX_STEPS * (self.warmup + n_draws)) as report:
                predictive = draw_importances(
                    density,
                    shape,
                    chains=self.chains,
                    warmup=self.warmup,
                    draws=n_draws,
                    seed=fit.seed,
                    n_threads=fit.n_threads,
                    report=lambda done: report(done, "importances"),
                )
                report(MAX_STEPS * (self.warmup + n_draws), "importances")
        posterior = run_chains(
            past if self.supervised else past._replace(y=np.full_like(past.y, HIDDEN)),
            model,
            settings,
            n_threads=fit.n_threads,
            progress=self.progress,
            begin=begin,
            predictive=predictive,
            checkpoint=self.checkpoint,
            feature_names=table.schema.names,
        )
        return Learned(fit, table, tuning, posterior, ())

    def _tuned(
        self, pasts: dict[str, Data], fit: _Fit, report: Report
    ) -> tuple[Tuning, LeaveOneOut | None, Shape | None]:
        """A coding and constants that suit the table, and the density of the importances if they are predictive."""
        if self.importances == "joint":
            name = next(iter(pasts))
            hyper = constants(pasts[name], fit.base) if fit.given is None else fit.given
            return Tuning(name, hyper, ()), None, None
        if fit.given is None:
            log_prior = {name: GAPS_LOG_PRIOR for name in pasts if name.endswith(GAPS_COUNT)}
            return tune(
                pasts,
                fit.model,
                fit.base,
                fit.class_weight,
                lambda done: report(done, "tuning"),
                log_prior,
                n_threads=fit.n_threads,
            )
        (name,) = pasts
        density = LeaveOneOut(pasts[name], replace(fit.model, hyper=fit.given), fit.base, fit.class_weight)
        return Tuning(name, fit.given, ()), density, density.shape()

    def _compare_in_parts(self, learned: Learned) -> tuple[Learned, LeaveOneOutVotes, Calibration]:
        """Votes of the past cases on each other, comparing all features or, if that predicts better, parts of them."""
        candidates = [learned]
        if learned.held_out and len(learned.table.schema.columns) >= SUBSETS:
            settings = learned.posterior.settings._replace(feature_subsets=True)
            in_parts = [replace(posterior, settings=settings) for posterior in learned.posteriors()]
            folds = [fold._replace(posterior=own) for fold, own in zip(learned.held_out, in_parts[1:], strict=True)]
            candidates.append(learned._replace(posterior=in_parts[0], held_out=tuple(folds)))
        n = n_left_out(learned.fit.y)
        with progress_meter(self.progress, "cases")(n * len(candidates)) as report:
            finished = 0

            def tell(done: int) -> None:
                report(finished + done, "leave-one-out")

            results = []
            for one in candidates:
                results.append((one, *self._leave_one_out(one, tell)))
                finished += n
        return max(results, key=lambda result: _log_score(*result))

    def _leave_one_out(self, learned: Learned, report: Callable[[int], object]) -> tuple[LeaveOneOutVotes, Calibration]:
        """Votes of the past cases on each other, and the calibration learned from them."""
        past, n_threads = learned.past(), self._n_threads()
        loo, by_chain = leave_one_out_votes(
            learned.posterior,
            past,
            held_out=learned.held_out,
            n_threads=n_threads,
            engine=self._predicting(),
            scheduler=self.scheduler,
            report=report,
        )
        blank = blank_votes(learned.posterior, past, n_threads=n_threads)
        return loo, Calibration.learn(by_chain, past.y[loo.rows], learned.fit.base, learned.weights_of(loo.rows), blank)

    def _predicting(self) -> str:
        """The engine for new cases, because not every sampler can predict."""
        return self.engine if self.engine in PREDICTING else "cpu"

    def _coded(
        self, training: TrainingData, fit: _Fit, outcomes: NDArray[np.float64] | None
    ) -> dict[str, _TrainingTable]:
        """The training table under each coding to try."""
        y = fit.y
        options = {name: getattr(self, name) for name in _CODING}
        codings: dict[str, Parameters] = {"as specified": {}}
        tried = self.hyper == "auto" and self.importances == "predictive"
        if isinstance(self.bins, str) and self.bins == "auto":
            options["bins"] = "quantile"
            if self.windows is None:
                several = CLOSED_CODINGS if self._votes_are_closed() else CODINGS
                codings = several if tried else {"quantile bins": {}}
        if self.missing == "auto":
            options["missing"] = "ignore"
            if tried:
                counted = {f"{name}, {GAPS_COUNT}": {**how, "missing": "category"} for name, how in codings.items()}
                codings = {**codings, **counted}
        tables: dict[str, _TrainingTable] = {}
        plain = read_table(training.X)
        whole = None if training.sample is None else training.sample.summary
        if fit.rows is not None and plain.ids is None:
            plain = replace(plain, ids=tuple(map(str, fit.rows.tolist())))
        constant: set[str] = set()
        for name, coding in codings.items():
            schema = Schema.learn(plain, y if outcomes is None else outcomes, whole=whole, **{**options, **coding})
            constant = set(schema.not_compared) & constant if tables else set(schema.not_compared)
            if any(schema.codes_as(table.schema) for table in tables.values()):
                continue
            encoded = schema.encode(plain)
            if len(encoded.x) < 2:
                raise ValueError(f"n_samples={len(y)}: a fit needs at least two rows; pass more")
            parents, cases = self._chosen_parents(encoded.x, schema, fit)
            tables[name] = _TrainingTable(schema, encoded, parents, cases)
        if constant:
            named = ", ".join(repr(name) for name in plain.names if name in constant)
            warnings.warn(
                f"all rows, or all rows but one, have the same value in columns {named}; they are not used to compare "
                f"cases. Drop these columns, or check how they were read",
                ConstantColumnWarning,
                stacklevel=5,
            )
        for column in plain.columns:
            if (number := column.number_among_texts) is not None:
                warnings.warn(
                    f"column {column.name!r} has texts, most of which look like numbers (such as {number!r}); they are "
                    f"compared as categories. Convert them to numbers, or to the type category if they are codes",
                    NumbersAsTextWarning,
                    stacklevel=5,
                )
        return tables

    def _groups_of(self, groups: ArrayLike | None, sample: Sample | None, n_rows: int) -> NDArray[np.int64] | None:
        """The groups of the rows, if the user passed them."""
        if groups is None:
            return None
        if sample is not None:
            raise ValueError("groups= is not supported for a partitioned table; pass a table in memory")
        if not self._votes_are_closed():
            raise ValueError("groups= needs closed-form votes; pass model='I', importances='predictive', votes='auto'")
        return read_groups(groups, n_rows)

    def _weighed(
        self, X: TableLike, y: ArrayLike, groups: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> tuple[TableLike, ArrayLike, ArrayLike | None, WeighedRows | None]:
        """Table, outcomes and groups without the rows of weight 0, and the weights of the others."""
        if sample_weight is None:
            return X, y, groups, None
        if isinstance(X, Sample) or is_partitioned(X) or hasattr(y, "npartitions"):
            raise ValueError("sample_weight is not supported for a partitioned table; pass a table in memory")
        n_rows = _num_samples(y)
        check_consistent_length(X, y)
        weights = read_sample_weight(sample_weight, n_rows)
        if weights is None:
            return X, y, groups, None
        if not self._votes_are_closed():
            raise ValueError(
                "sample_weight needs closed-form votes; pass model='I', importances='predictive', votes='auto' and "
                "transductive=False"
            )
        if self.engine == "cuda":
            raise ValueError("engine='cuda' does not support sample_weight; pass engine='cpu', or no weights")
        rows = np.flatnonzero(weights)
        if len(rows) == n_rows:
            return X, y, groups, WeighedRows(weights, None)
        if groups is not None:
            read_groups(groups, n_rows)
            groups = np.asarray(groups)[rows]
        return _safe_indexing(X, rows), _safe_indexing(y, rows), groups, WeighedRows(weights[rows], rows)

    def _repeated_rows(self, table: _TrainingTable, fit: _Fit) -> NDArray[np.int64] | None:
        """Groups of rows that repeat each other beyond chance, with a warning; None if there are none."""
        repeats = table.schema.duplicates(table.encoded)
        if not repeats:
            return None
        closed = self._votes_are_closed() and fit.parts is None
        done = (
            "they are treated as visits of the same patient, which do not vote on each other"
            if closed
            else "sampled votes do not keep them apart, so leave-one-out scores are too optimistic"
        )
        warnings.warn(
            f"{duplicates_text(repeats, len(table.encoded.x))}; {done}. Pass the patient of each row (groups= in "
            f"Python, --group COLUMN on the command line), or drop the repeated rows",
            RepeatedRowsWarning,
            stacklevel=5,
        )
        return group_labels(repeats, len(table.encoded.x)) if closed else None

    def _chosen_parents(
        self, x: NDArray[np.float64], schema: Schema, fit: _Fit
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Parents and cases, as rows of the training table."""
        way, n_parents = self.parents, self.n_parents
        if isinstance(way, str) and way == "auto":
            way = "all" if n_parents is None else "random"
            if n_parents is None and len(x) > MOST_AUTO and not self._votes_are_closed():
                way, n_parents = "random", MOST_AUTO
                warnings.warn(
                    f"only {MOST_AUTO:,} of the {len(x):,} past cases, drawn at random, may be neighbors. Pass another "
                    f"n_parents or parents='all', or use the defaults model='I' and importances='predictive', with "
                    f"which every past case votes",
                    ManyCasesWarning,
                    stacklevel=6,
                )
        rng = np.random.default_rng(fit.seed)
        return choose_parents(way, x, fit.y, rng, n_parents=n_parents, windows=schema.windows)

    def _beginning(self, schema: Schema, parents: NDArray[np.int64]) -> Posterior | None:
        """The last draws of the previous fit, if `warm_start` is set and the features are the same."""
        fitted: Fitted | None = getattr(self, "fitted_", None)
        if not self.warm_start or fitted is None or fitted.votes_are_closed or fitted.schema.names != schema.names:
            return None
        return fitted.posterior.last_draws(fitted.parents, parents)


def _log_score(learned: Learned, loo: LeaveOneOutVotes, calibration: Calibration) -> float:
    """Weighted log score of the calibrated leave-one-out votes."""
    p = calibration.apply(loo.votes)[np.arange(len(loo.rows)), learned.past().y[loo.rows]]
    return float(learned.weights_of(loo.rows) @ np.log(np.maximum(p, 1e-12)))


def _elsewhere(table: _TrainingTable, parts: Parts) -> _TrainingTable:
    """The training table as a sample, with all past cases in their partitions."""
    ids, named = parts.names(table.encoded.ids)
    encoded = table.encoded._replace(ids=ids)
    return table._replace(encoded=encoded, elsewhere=parts.indexed(table.schema, named))


def split_follow_up(X: TableLike, follow_up: FollowUpColumns) -> tuple[TableLike, FollowUp | None]:
    """The columns to compare, and the follow-up columns; `follow_up` is as in `fit`."""
    roles = follow_up_roles(follow_up)
    if not roles:
        return X, None
    if isinstance(X, Sample) or is_partitioned(X):
        raise ValueError("follow_up is not supported for a partitioned table; pass a table in memory, X.compute()")
    names = column_names(X)
    if names is None:
        raise ValueError("follow_up names columns; pass X as a data frame, whose columns have names")
    rest, recorded = split_columns(X, columns_of(roles, names))
    return rest, FollowUp.learn(read_table(recorded), roles)


def _folds(values: NDArray[np.float64], fit: _Fit) -> list[NDArray[np.int64]]:
    """The rows of each fold, stratified by class, with the rows of a group in the same fold."""
    folds = content_folds(values, fit.y) if fit.groups is None else fit.groups % N_FOLDS
    return [np.flatnonzero(folds == k) for k in np.unique(folds)]


def read_groups(groups: ArrayLike | None, n_rows: int) -> NDArray[np.int64] | None:
    """The group of each row as a number, starting at 0."""
    if groups is None:
        return None
    names = np.asarray(groups)
    if names.shape != (n_rows,):
        raise ValueError(f"groups has shape {names.shape}, but there are {n_rows} rows; pass one group for each row")
    missing = np.flatnonzero([name is None or name != name for name in names.tolist()])
    if len(missing):
        raise ValueError(f"groups has no value in row {missing[0]}; give every row its group, or drop the row")
    numbers = np.unique(names.astype(str), return_inverse=True)[1].astype(np.int64)
    if numbers.max(initial=0) == 0:
        raise ValueError("groups has only one group, so no past case could vote; pass the patient of each row")
    return numbers


def check_error(error: object) -> float:
    """Check a Monte Carlo standard error of a probability."""
    if isinstance(error, bool) or not isinstance(error, int | float | np.number) or not 0.0 < float(error) < 1.0:
        raise ValueError(f"error={error!r} is not a standard error of a probability; pass a number such as 0.01")
    return float(error)


def is_table(X: TableLike) -> bool:
    """Check that X has two dimensions and at least one column; `encode` rejects anything that is not a table."""
    try:
        shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    except ValueError:  # rows of different lengths
        return False
    if len(shape) != 2:
        return False
    if shape[1] == 0:
        raise ValueError(f"Found array with 0 feature(s) (shape={tuple(shape)}) while a minimum of 1 is required.")
    return True
