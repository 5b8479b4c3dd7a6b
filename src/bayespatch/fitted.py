"""Everything that `fit` learns, as one immutable object.

An estimator stores a single `Fitted` and replaces it in one assignment, so a prediction in another thread sees either
the old model or the new one. Predictions, explanations, files and the case base all use a `Fitted`. The attributes with
a trailing underscore, as in scikit-learn, are properties that read from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from bayespatch.calibrate import Calibration
from bayespatch.decisions import DecisionThreshold
from bayespatch.encode import MISSING_NUMBER, Schema, describe_values
from bayespatch.encode.column import number_text
from bayespatch.feature_importance import FeatureImportance, PooledModel, measure_importance
from bayespatch.follow_up import FollowUp, FollowUpColumn
from bayespatch.kernel_density import KernelDensity, calibrated_weights, quantile_between, vote_weights
from bayespatch.leave_one_out import LeaveOneOutVotes
from bayespatch.metrics import accuracy
from bayespatch.model import HIDDEN, Data, Hyperparameters
from bayespatch.pool import Pool
from bayespatch.predict import ClosedForm, predict_batches, predict_cases
from bayespatch.retrieval import PartitionedIndex, PastCases
from bayespatch.sampling.diagnostics import Diagnostics
from bayespatch.sampling.posterior import STORED_WITHOUT_CASES, Posterior
from bayespatch.second_opinion import AdditiveMean, AdditiveScore, ClassOpinion, Opinion
from bayespatch.subgroups import Subgroups
from bayespatch.tune import Tuning
from bayespatch.types import AnyArray, JSONObject, TableLike

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

# Number of past cases from which values are withheld, and of the draws per chain that vote on them
MOST_COMPARED, FEW_DRAWS = 300, 20
# Cached properties that explanations use and that are independent of the case
_OF_ALL_CASES = ("importance", "subgroups", "familiarity", "loo_probabilities", "ranges", "sample_past", "_withheld")
MOST_AROUND = 2000  # past cases fetched for an explanation if they are partitioned
MOST_COUNTED = 300  # past cases for which `neighbor_totals` and `has_as_neighbor` count votes


class OpinionOnCases(NamedTuple):
    """The second opinion on n cases, to be pooled with the votes.

    Attributes
    ----------
    probabilities : array of shape (n, M)
    pool : Pool
        How both opinions are pooled.
    interval : array of shape (n, M, 2), or None
        Intervals of `probabilities`; None if the opinion has none.
    points : array of shape (n, P), or None
        Percentage points that each feature adds to the probability of the last class, starting at the base rate.
    number : function, optional
        Numeric outcomes only: maps shares of the votes, (1, S), a level and the row of the case to the pooled mean and
        the lower and upper end of its interval, (3,).
    base : array of shape (M,), or None
        Base rates, from which `points` start.
    of_known : function, optional
        Maps a row and sets of known features, (k, P), to the opinion's predictions if nothing else is known:
        probabilities, (k, M), or means, (k,), for numeric outcomes.
    uses : bool array of shape (n, P), or None
        Whether each feature contributes; missing values contribute if missing is a value.
    """

    probabilities: Array
    pool: Pool
    interval: Array | None = None
    points: Array | None = None
    number: Callable[[NDArray[np.float32], float, int], Array] | None = None
    base: Array | None = None
    of_known: Callable[[int, NDArray[np.bool_]], Array] | None = None
    uses: NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted(ABC):
    """The result of `fit` on n past cases with P features and M classes.

    Attributes
    ----------
    schema : Schema
        The coding of the columns.
    x, values : arrays of shape (n, P)
        The training table as codes, and as `EncodedTable.values` (numbers instead of bins).
    y : int array of shape (n,)
        Classes; a numeric outcome is divided into classes.
    groups : int array of shape (n,), or None
        Group of each row. Rows of a group, such as a patient's visits, never vote on each other.
    ids : tuple of n strings, or None
        Names of the rows; None if they are numbered.
    parents, cases : int arrays of shape (S,) and (N,)
        Rows that may vote, and rows used for training.
    posterior : Posterior
        Draws of the importances and of all other sampled quantities.
    tuning : Tuning or None
        The settings that were compared; None if the user passed `hyper`.
    loo : LeaveOneOutVotes
        Leave-one-out votes on past cases.
    calibration : Calibration
        Maps votes to probabilities.
    opinion, pool
        The second opinion, and its pool with the precedents; None without a second opinion.
    class_names : tuple of M strings
    target : str
        Name of the outcome; may be empty.
    feature_names : tuple of P strings, or None
        Column names of the training table, if it had any (scikit-learn's `feature_names_in_`).
    salt : bytes
        32 random bytes, stored with the past cases so that their checksum reveals nothing about them.
    shown : int array, or None
        Parents that may be named and shown; None means all of them.
    follow_up : FollowUp or None
        Follow-up columns of the past cases.
    sample_weight : array of shape (n,), or None
        Weight of each row; None means equal weights.
    elsewhere : PartitionedIndex or None
        All past cases, if there are too many for this process. The training table is then a random sample of them, used
        for calibration and the second opinion; all past cases vote in their partitions.
    rows : int array of shape (n,), or None
        If the training table is a sample, the row numbers of its rows in the whole table.

    Fields with the metadata `STORED_WITHOUT_CASES` contain totals over all rows. Only these fields may be stored in a
    model file without the past cases.
    """

    schema: Schema
    x: Array
    y: Rows
    values: Array
    groups: Rows | None
    ids: tuple[str, ...] | None
    parents: Rows
    cases: Rows
    posterior: Posterior
    tuning: Tuning | None = field(metadata=STORED_WITHOUT_CASES)
    loo: LeaveOneOutVotes
    calibration: Calibration = field(metadata=STORED_WITHOUT_CASES)
    opinion: Opinion | None
    pool: Pool | None = field(metadata=STORED_WITHOUT_CASES)
    class_names: tuple[str, ...]
    target: str = field(metadata=STORED_WITHOUT_CASES)
    feature_names: tuple[str, ...] | None = field(metadata=STORED_WITHOUT_CASES)
    salt: bytes
    shown: Rows | None = None
    follow_up: FollowUp | None = None
    sample_weight: Array | None = None
    elsewhere: PartitionedIndex | None = None
    rows: Rows | None = None

    def __getstate__(self) -> JSONObject:
        # Pickles and copies contain what was learned, but not cached properties.
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @property
    def has_cases(self) -> bool:
        """Whether the past cases are present; a model file may have been loaded without them."""
        return isinstance(self.x, np.ndarray)

    @property
    def hyper(self) -> Hyperparameters:
        """The constants of the model."""
        return self.posterior.model.hyper

    @property
    def n_classes(self) -> int:
        """Number of classes, M."""
        return len(self.class_names)

    @property
    def votes_are_closed(self) -> bool:
        """Whether every past case votes in closed form; otherwise neighbors are sampled."""
        return self.posterior.log_weights is not None

    @property
    def diagnostics(self) -> Diagnostics:
        """Convergence of the chains or, without chains, quality of the approximation."""
        names = self.feature_names or [f"x{j}" for j in range(self.posterior.q.shape[2])]
        return self.posterior.diagnostics().with_features(list(names))

    @cached_property
    def past(self) -> Data:
        """The cases that the model was trained on, with the parents that vote on them."""
        if self.elsewhere is not None and self.rows is not None:
            data = data_elsewhere(self.x, self.y, self.rows, self.schema, self.elsewhere, self.parents)
            return data._replace(x=_at(self.x, self.cases), y=self.y[self.cases], own_parent=self.rows[self.cases])
        of_table = self.schema, self.n_classes, self.groups, self.sample_weight
        return past_data(self.x, self.y, self.parents, self.cases, *of_table)

    @cached_property
    def sample_past(self) -> Data:
        """Like `past`, but if the past cases are partitioned, only the cases of the training table vote."""
        if self.elsewhere is None:
            return self.past
        return past_data(self.x, self.y, self.cases, self.cases, self.schema, self.n_classes)

    def around(self, case: Data, k: int = MOST_AROUND, n_threads: int = 1) -> Fitted:
        """The model with the past cases that matter to a single case, `case`, as parents.

        If the past cases are partitioned, the k with the largest shares of the votes are fetched and appended to the
        training table; all the others still vote. Otherwise, this is the model itself.
        """
        if self.elsewhere is None or self.rows is None:
            return self
        closed = ClosedForm.of(self.posterior, self.past)
        rows = closed.largest(case.x, case.y, k, closed.left_out(case), n_threads).rows[0]
        near, n = self.elsewhere.cases(rows), len(self.x)
        names = tuple(map(str, rows.tolist())) if near.ids is None else tuple(near.ids)
        nearby = replace(
            self,
            x=np.concatenate([self.x, near.x]),
            values=np.concatenate([self.values, near.values]),
            y=np.concatenate([self.y, near.y]),
            ids=None if self.ids is None else (*self.ids, *names),
            rows=np.concatenate([self.rows, rows]),
            parents=n + np.arange(len(rows)),
        )
        nearby.__dict__.update({name: self.__dict__[name] for name in _OF_ALL_CASES if name in self.__dict__})
        return nearby

    def compute_once(self) -> None:
        """Compute the parts shared by all explanations; `around` passes them on."""
        for name in _OF_ALL_CASES:
            getattr(self, name)

    def number_of(self, row: int) -> int:
        """Row number of a past case in the whole table, given its row in the training table."""
        return row if self.rows is None else int(self.rows[row])

    def past_cases(self, numbers: Rows) -> PastCases:
        """Some past cases by row number (in the whole table if it is partitioned)."""
        if self.elsewhere is not None:
            cases = self.elsewhere.cases(numbers)
            return cases if self.ids is not None else cases._replace(ids=None)
        ids = None if self.ids is None else [self.ids[row] for row in numbers.tolist()]
        return PastCases(self.x[numbers], self.y[numbers], self.values[numbers], ids)

    def rows_named(self, name: str) -> Rows:
        """Row numbers of the past cases with this name (in the whole table if it is partitioned)."""
        if self.elsewhere is not None:
            return self.elsewhere.rows_named(name)
        return np.flatnonzero([own == name for own in self.ids or ()])

    @property
    def n_voting(self) -> int:
        """Number of past cases that vote."""
        return len(self.parents) if self.elsewhere is None else self.elsewhere.n_cases

    @property
    def n_past_cases(self) -> int:
        """Number of past cases that the model was trained on."""
        return len(self.cases) if self.elsewhere is None else self.elsewhere.n_cases

    def class_sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number of past cases of each class that vote, (M,), and number of all past cases of each class."""
        if self.elsewhere is not None:
            return self.elsewhere.n_by_class, self.elsewhere.n_by_class
        voting = np.bincount(self.y[self.parents], minlength=self.n_classes)
        return voting, np.bincount(self.y, minlength=self.n_classes)

    @property
    def class_shares(self) -> Array:
        """Frequencies of the classes among the cases that the model was trained on, (M,)."""
        if self.elsewhere is not None:
            return self.elsewhere.weight_by_class / self.elsewhere.total_weight
        weights = None if self.sample_weight is None else self.sample_weight[self.cases]
        sizes = np.bincount(self.y[self.cases], weights, self.n_classes)
        return np.asarray(sizes / max(sizes.sum(), np.finfo(np.float64).tiny))

    def new_cases(self, x: Array, y: Rows | None = None) -> Data:
        """Coded new cases, (n, P), with their classes if known."""
        hidden = np.full(len(x), HIDDEN)
        return self.past._replace(x=x, y=hidden if y is None else y, own_parent=np.full(len(x), -1))

    # Past cases in the user's terms

    @cached_property
    def outcome_texts(self) -> Sequence[str]:
        """Outcome of each row of the training table."""
        return self.describe_outcomes(self.y, None)

    @abstractmethod
    def describe_outcomes(self, codes: Rows, y: object) -> Sequence[str]:
        """Known outcomes as text, given their codes and the user's y."""

    @abstractmethod
    def outcome_codes(self, y: ArrayLike, n: int) -> Rows:
        """Codes of n known outcomes."""

    def named(self, row: int) -> str:
        """Name of a row of the training table."""
        return str(self.number_of(row)) if self.ids is None else self.ids[row]

    def name_of(self, number: int) -> str:
        """Name of a past case by row number (in the whole table if it is partitioned)."""
        ids = self.past_cases(np.array([number])).ids
        return str(number) if ids is None else ids[0]

    def may_be_shown(self, number: int) -> bool:
        """Whether a past case, given by row number, may be named or shown: only parents, or a selection of them.

        If the past cases are partitioned, the row number refers to the whole table, and all of them may be shown.
        """
        return self.elsewhere is not None or bool(np.isin(number, self.may_show))

    @property
    def may_show(self) -> Rows:
        """Rows of the training table that may be named or shown."""
        return self.parents if self.shown is None else self.shown

    def place_of(self, row: int) -> int:
        """Position of a past case among the parents, or -1; with partitioned past cases, its row number."""
        if self.elsewhere is not None:
            return row
        places = np.flatnonzero(self.parents == row)
        return int(places[0]) if len(places) else -1

    def texts_of(self, row: int) -> dict[str, str]:
        """Values of a row of the training table as text, {feature: text}."""
        if row not in self._texts:
            self._texts[row] = describe_values(self.schema, self.values[row])
        return self._texts[row]

    @cached_property
    def _texts(self) -> dict[int, dict[str, str]]:
        return {}

    def row_with(self, values: Array, id: str | None) -> int:
        """The past case with exactly these values, (P,), and this name; -1 if there is none.

        A case without a name matches only if a single past case has its values.
        """
        if self.elsewhere is not None:
            rows = self.elsewhere.rows_with(values[None])[0].tolist()
            ids = None if id is None else self.past_cases(np.array(rows, np.int64)).ids
            names = list(map(str, rows)) if ids is None else ids
        else:
            same = np.all((self.values == values) | (np.isnan(self.values) & np.isnan(values)), axis=1)
            rows = np.flatnonzero(same).tolist()
            names = list(map(self.named, rows))
        if id is None:
            return rows[0] if len(rows) == 1 else -1
        return next((row for row, name in zip(rows, names, strict=True) if name == id), -1)

    # Quantities derived from the past cases

    @cached_property
    def ranges(self) -> Array:
        """Smallest and largest number in each column, (P, 2); NaN if it has no numbers."""
        limits = np.full((len(self.schema.columns), 2), np.nan)
        for j, column in enumerate(self.schema.columns):
            numbers = self.values[:, j][np.isfinite(self.values[:, j]) & (self.values[:, j] > MISSING_NUMBER)]
            if not column.is_coded and numbers.size:
                limits[j] = numbers.min(), numbers.max()
        return limits

    @cached_property
    def familiarity(self) -> Array:
        """Sorted familiarity of the past cases, each predicted from all the others.

        Only training cases are included, because chosen parents may differ from the rest. If none of these has
        leave-one-out votes, all rows with such votes are included.
        """
        learned = np.isin(self.loo.rows, self.cases)
        return np.sort(self.loo.familiarity[learned if learned.any() else slice(None)])

    def percentile(self, familiarity: Array) -> Array:
        """Share of past cases, including the case itself, that are no more familiar than the case.

        If cases are exchangeable, the percentile is at most u with probability at most u.
        """
        n_below = np.searchsorted(self.familiarity, familiarity, side="right").astype(np.float64)
        return (1.0 + n_below) / (1.0 + len(self.familiarity))

    def percentiles(self, x: Array, familiarity: Array) -> Array:
        """`percentile` of coded cases, (n, P), each compared with past cases reduced to the same known features.

        Features that are missing in a case are also withheld from the past cases (up to `MOST_COMPARED` of them, with
        closed-form votes), so that missing values do not make a case look familiar. NaN if too few features are known:
        none, or fewer than half of them and fewer than in any past case.
        """
        percentiles = self.percentile(familiarity)
        compared = np.array([column.is_compared for column in self.schema.columns])
        counts_missing = [column.missing_code if column.missing_is_value else np.nan for column in self.schema.columns]
        n_known = (compared & ~np.isnan(x) & (x != counts_missing)).sum(axis=1)
        least = min(compared.sum() / 2.0, self.schema.least_known - (~compared).sum())
        unknown = compared & np.isnan(x)
        for withheld in np.unique(unknown[unknown.any(axis=1)], axis=0):
            if self.votes_are_closed:
                own = (unknown == withheld).all(axis=1)
                past = self._familiarity_without(withheld)
                n_below = np.searchsorted(past, familiarity[own], side="right").astype(np.float64)
                percentiles[own] = (1.0 + n_below) / (1.0 + len(past))
        percentiles[n_known < max(1.0, least)] = np.nan
        return percentiles

    def _familiarity_without(self, withheld: NDArray[np.bool_]) -> Array:
        """Sorted familiarity of past cases if these features, (P,), are withheld."""
        key = withheld.tobytes()
        if key not in self._withheld:
            past = self.past
            rows = np.linspace(0, len(past.x) - 1, min(len(past.x), MOST_COMPARED)).round().astype(np.int64)
            closed = ClosedForm.of(self.posterior, past).thinned(FEW_DRAWS)
            out = closed.left_out(past._replace(own_parent=past.own_parent[rows]))
            self._withheld[key] = np.sort(closed.familiarity(np.where(withheld, np.nan, past.x[rows]), out))
        return self._withheld[key]

    @cached_property
    def _withheld(self) -> dict[bytes, Array]:
        return {}

    @cached_property
    def loo_probabilities(self) -> Array:
        """Leave-one-out probabilities of the past cases `loo.rows`, (R, M)."""
        opinions = self.loo_opinions()
        return opinions["pool"] if opinions is not None else self.calibration.apply(self.loo.votes)

    def loo_opinions(self) -> dict[str, Array] | None:
        """Leave-one-out probabilities of each opinion and of the pool, (R, M); None without a second opinion."""
        return None

    @cached_property
    def subgroups(self) -> Subgroups:
        """Subgroups of the past cases, with the performance of leave-one-out predictions in each."""
        rows, unflagged = self.loo.rows, np.zeros(len(self.loo.rows), dtype=np.bool_)
        x, values, y = self.x[rows], self.values[rows], self.y[rows]
        return Subgroups.learn(self.schema, x, values, self.loo_probabilities, y, self.class_names, unflagged)

    @cached_property
    def loo_accuracy(self) -> float:
        """Share of past cases whose class is predicted correctly from all the others."""
        return accuracy(self.loo_probabilities, self.y[self.loo.rows])

    @cached_property
    def importance(self) -> FeatureImportance:
        """Importance of each feature for predictions; `posterior.q` has the importance parameters of the model."""
        return measure_importance(
            self._pooled_model(), n_threads=self.posterior.timing.n_threads, seed=self.posterior.seed
        )

    @abstractmethod
    def _pooled_model(self) -> PooledModel:
        """The model that predicts the past cases, in the form needed to measure importances."""

    def neighbor_totals(self, n_threads: int) -> Array:
        """Average number of past cases on which each parent votes, (S,).

        With closed-form votes, this is an estimate from `MOST_COUNTED` past cases.
        """
        if not self.votes_are_closed:
            return self.posterior.z_mean.sum(axis=0, dtype=np.float64)
        past = self.past
        some = np.linspace(0, len(past.x) - 1, min(len(past.x), MOST_COUNTED)).round().astype(np.int64)
        cases = past._replace(x=past.x[some], y=np.full(len(some), HIDDEN), own_parent=past.own_parent[some])
        total = np.zeros(len(past.x_parents))
        for part in predict_batches(self.posterior, cases, detail="shares", n_threads=n_threads):
            assert part.neighbors is not None
            total += part.neighbors.share.sum(axis=0, dtype=np.float64)
        return total * (len(past.x) / len(some))

    def has_as_neighbor(self, parent: int, n_threads: int) -> tuple[Rows, Array]:
        """Rows of past cases, and the probability that a parent (its position in `parents`) is their neighbor.

        With closed-form votes, these are the past cases most similar to the parent, and the probability is its share of
        the votes on them.
        """
        if not self.votes_are_closed:
            return self.cases, self.posterior.z_mean[:, parent].astype(np.float64)
        past = self.past
        itself = parent if past.rows_of_parents is None else past.rows_of_parents[parent]
        own = past._replace(x=past.x_parents[[parent]], y=np.array([HIDDEN]), own_parent=np.array([itself]))
        near = predict_cases(self.posterior, own, detail="shares", n_threads=n_threads).neighbors
        assert near is not None
        order = np.argsort(-near.share[0], kind="stable")[:MOST_COUNTED]
        rows = np.setdiff1d(self.parents[order], self.parents[[parent]])
        rows = rows[np.isin(rows, self.may_show)]
        cases = np.flatnonzero(np.isin(self.cases, rows))
        some = past._replace(x=past.x[cases], y=np.full(len(cases), HIDDEN), own_parent=past.own_parent[cases])
        parts = predict_batches(self.posterior, some, detail="shares", n_threads=n_threads)
        shares = [part.neighbors.share[:, parent] for part in parts if part.neighbors is not None]
        return self.cases[cases], np.concatenate([np.empty(0), *shares])

    # Outcomes and follow-up of the past cases

    @property
    @abstractmethod
    def outcome_column(self) -> FollowUpColumn:
        """The outcome column of the training table, to be summarized by treatment."""

    def follow_up_among(
        self, share: Array, level: float, landmarks: Sequence[float] | None = None
    ) -> JSONObject | None:
        """Summaries of the follow-up columns, weighted by each parent's share of the votes, (S,); None without any.

        `landmarks` are the times at which the outcomes of treatments are compared, if outcomes are times.
        """
        if self.follow_up is None:
            return None
        weights = np.zeros(len(self.x))
        weights[self.parents] = share
        return self.follow_up.summaries(weights, level, self.outcome_column, landmarks)

    # The second opinion

    @abstractmethod
    def second_opinion(self, X: TableLike, values: Array, level: float) -> OpinionOnCases | None:
        """The second opinion on new cases: the rows of X, with their `EncodedTable.values`."""

    @abstractmethod
    def second_opinion_of_past(self, rows: Rows) -> OpinionOnCases | None:
        """The second opinion on rows of the training table, each as if the model had been trained without it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedClasses(Fitted):
    """A fitted classifier.

    Attributes
    ----------
    classes : array of shape (M,)
        The classes themselves, sorted.
    decision : Decision or None
        The threshold probability at which a class is flagged, if specified.
    """

    opinion: ClassOpinion | None
    classes: AnyArray = field(metadata=STORED_WITHOUT_CASES)
    decision: DecisionThreshold | None = None

    def describe_outcomes(self, codes: Rows, y: object) -> list[str]:
        """Names of the classes."""
        return [self.class_names[code] for code in codes.tolist()]

    def outcome_codes(self, y: ArrayLike, n: int) -> Rows:
        """Positions of n known classes in `classes`."""
        labels = np.asarray(y)
        unknown = sorted(set(labels.tolist()) - set(self.classes.tolist()), key=str)
        if unknown or len(labels) != n:
            raise ValueError(
                f"y has {len(labels)} classes for {n} rows, and {unknown} are not in the training table; "
                f"pass one of {self.classes.tolist()} for each row, or omit y"
            )
        return np.searchsorted(self.classes, labels)

    def loo_opinions(self) -> dict[str, Array] | None:
        """Leave-one-out probabilities: "precedents", "additive" and "pool"."""
        if self.pool is None or self.opinion is None:
            return None
        precedents, additive = self.calibration.apply(self.loo.votes), self.opinion.loo[self.loo.rows]
        return {"precedents": precedents, "additive": additive, "pool": self.pool.combine(additive, precedents)}

    @property
    def outcome_column(self) -> FollowUpColumn:
        """The classes as a category."""
        values, name = self.y.astype(np.float64), self.target or "outcome"
        return FollowUpColumn(name, "category", "", "", "", self.class_names, values, np.empty(0, np.int64))

    def opinion_on(self, X: TableLike, values: Array) -> Array:
        """Probabilities from the second opinion alone, (n, M)."""
        assert self.opinion is not None
        opinion = self.opinion
        return opinion.predict_proba(values) if isinstance(opinion, AdditiveScore) else opinion.predict_proba(X)

    def pooled(self, X: TableLike, values: Array, votes: Array) -> Array:
        """Probabilities, (n, M), from the votes on the rows of X and the second opinion."""
        precedents = self.calibration.apply(votes)
        return precedents if self.pool is None else self.pool.combine(self.opinion_on(X, values), precedents)

    def intervals(self, X: TableLike, values: Array, votes: Array, n_voters: Array, level: float) -> Array:
        """Intervals of the probabilities, (n, M, 2), from votes and their effective numbers of voters, (n,)."""
        ends = self.calibration.interval(votes, n_voters, level)
        if self.pool is None:
            return ends
        additive = self.opinion.predict_interval(values, level) if isinstance(self.opinion, AdditiveScore) else None
        return self.pool.interval(self.opinion_on(X, values), additive, self.calibration.apply(votes), ends, level)

    def second_opinion(self, X: TableLike, values: Array, level: float) -> OpinionOnCases | None:
        """Probabilities of new cases, with intervals and points if the opinion is the additive score."""
        if self.pool is None or self.opinion is None:
            return None
        if not isinstance(self.opinion, AdditiveScore):
            return OpinionOnCases(self.opinion.predict_proba(X), self.pool)
        opinion = self.opinion
        probabilities, intervals, points = opinion.explained(values, level)
        return OpinionOnCases(
            probabilities,
            self.pool,
            intervals,
            points[:, :, -1],
            base=opinion.base,
            of_known=lambda row, known: opinion.predict_known(values[[row]], known),
            uses=opinion.design.matrix(values).presence > 0.0,
        )

    def _pooled_model(self) -> PooledModel:
        opinion = self.opinion
        other = opinion if opinion is None or isinstance(opinion, AdditiveScore) else opinion.loo
        of_table = (self.values, self.y, self.cases, np.empty(0))
        model = PooledModel(self.posterior, self.sample_past, self.calibration, other, self.pool, *of_table)
        return model._replace(weights=self.sample_weight)

    def second_opinion_of_past(self, rows: Rows) -> OpinionOnCases | None:
        """Leave-one-out probabilities, without intervals and points, which would come from a model trained on the row.

        Predictions from some of a row's values use the score learned with the row. The change in log odds due to
        leaving out the row is added in proportion to the number of known values.
        """
        if self.pool is None or self.opinion is None:
            return None
        left_out = self.opinion.loo[rows]
        if not isinstance(self.opinion, AdditiveScore):
            return OpinionOnCases(left_out, self.pool)
        opinion, values = self.opinion, self.values[rows]
        uses = opinion.design.matrix(values).presence > 0.0

        def of_known(row: int, known: NDArray[np.bool_]) -> Array:
            sets = np.concatenate([known & uses[row], uses[[row]]])
            log_p = np.log(np.maximum(opinion.predict_known(values[[row]], sets), 1e-12))
            share = sets.sum(axis=1, keepdims=True) / max(1, int(uses[row].sum()))
            moved = np.log(np.maximum(left_out[row], 1e-12)) - log_p[-1]
            return np.asarray(softmax(log_p + share * moved, axis=1))[:-1]

        return OpinionOnCases(left_out, self.pool, of_known=of_known, uses=uses)


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedNumbers(Fitted):
    """A fitted regressor.

    Attributes
    ----------
    outcomes : array of shape (n,)
        Outcomes of the training table.
    edges : array of shape (M - 1,)
        Edges of the outcome classes; an edge belongs to the class above it.
    kernel_density : KernelDensity
        Maps weighted outcomes of neighbors to a distribution.
    """

    opinion: AdditiveMean | None
    outcomes: Array
    edges: Array
    kernel_density: KernelDensity

    def describe_outcomes(self, codes: Rows, y: object) -> list[str]:
        """The outcomes as text."""
        return [number_text(outcome) for outcome in np.asarray(self.outcomes if y is None else y, float).tolist()]

    def outcome_codes(self, y: ArrayLike, n: int) -> Rows:
        """Classes of n known outcomes."""
        outcomes = np.asarray(y, dtype=np.float64)
        if len(outcomes) != n:
            raise ValueError(f"y has {len(outcomes)} outcomes for {n} rows; pass one for each row, or omit y")
        return outcome_classes(outcomes, self.edges)

    @property
    def outcome_column(self) -> FollowUpColumn:
        """The outcomes as numbers."""
        return FollowUpColumn(self.target or "outcome", "number", "", "", "", (), self.outcomes, np.empty(0, np.int64))

    def weights(self, share: NDArray[np.float32]) -> Array:
        """Weights of the parents' outcomes, (n, S), from their shares of the votes."""
        plain = vote_weights(share, np.full(len(share), -1), self.past.weights)
        return calibrated_weights(plain, self.y[self.parents], self.calibration)

    def means(self, weights: Array, values: Array) -> Array:
        """Pooled means, (n,), from weights of the parents' outcomes, (n, S)."""
        precedents = self.kernel_density.mean(weights, self.outcomes[self.parents])
        if self.pool is None or self.opinion is None:
            return precedents
        return self.pool.combine(self.opinion.predict(values), precedents)

    def quantiles(self, weights: Array, values: Array, levels: Array) -> Array:
        """Quantiles of the pooled distribution, (n, L): the mixture of the distributions of both opinions."""
        outcomes, pool, opinion = self.outcomes[self.parents], self.pool, self.opinion
        precedents = self.kernel_density.quantiles(weights, outcomes, levels)
        if pool is None or opinion is None:
            return precedents
        additive, means = opinion.predict_quantiles(values, levels), opinion.predict(values)
        low, high = np.minimum(precedents, additive), np.maximum(precedents, additive)

        def below(at: Array) -> Array:
            return pool.combine(opinion.below(means, at), self.kernel_density.below(weights, outcomes, at))

        return np.column_stack(
            [quantile_between(low[:, k], high[:, k], level, below) for k, level in enumerate(levels.tolist())]
        )

    def read_number(self, share: NDArray[np.float32], level: float) -> Array:
        """Mean and interval from the precedents alone, (n, 3), from shares of the votes, (n, S)."""
        weights, outcomes = self.weights(share), self.outcomes[self.parents]
        ends = self.kernel_density.quantiles(weights, outcomes, tails(level))
        return np.column_stack([self.kernel_density.mean(weights, outcomes), ends])

    def means_of_classes(self, cast: Array, outcomes: Array) -> Array:
        """Means from the precedents alone, (k,), from votes by class, (k, M), and their sums of outcomes, (k, M)."""
        y, rest = self.y[self.parents], 1.0 - cast.sum(axis=1, keepdims=True)  # divided equally among all parents
        weights = np.ones(len(y)) if self.past.weights is None else self.past.weights
        counts = np.bincount(y, weights, self.n_classes)
        totals = np.bincount(y, weights * self.outcomes[self.parents], self.n_classes)
        votes = cast + rest * counts / counts.sum()
        means = (outcomes + rest * totals / counts.sum()) / np.maximum(votes, np.finfo(np.float64).tiny)
        return self.kernel_density.mean(self.calibration.apply(votes), means)

    def second_opinion(self, X: TableLike, values: Array, level: float) -> OpinionOnCases | None:
        """The additive mean as probabilities of the outcome classes, and the pooled mean and interval."""
        if self.pool is None or self.opinion is None:
            return None
        opinion = self.opinion
        means = opinion.predict(values)
        ends = [opinion.below(means, np.full(len(means), edge)) for edge in self.edges.tolist()]
        below = np.column_stack([np.zeros(len(values)), *ends, np.ones(len(values))])

        def number(share: NDArray[np.float32], level: float, row: int) -> Array:
            weights = self.weights(share)
            mean = self.means(weights, values[[row]])
            return np.append(mean, self.quantiles(weights, values[[row]], tails(level))[0])

        points, base = opinion.points(values), opinion.base
        return OpinionOnCases(
            np.diff(below, axis=1),
            self.pool,
            number=number,
            of_known=lambda row, known: base + known @ points[row],
            uses=points != 0.0,
        )

    def _pooled_model(self) -> PooledModel:
        of_table = (self.values, self.outcomes, self.cases, self.edges)
        model = PooledModel(self.posterior, self.sample_past, self.calibration, self.opinion, self.pool, *of_table)
        return model._replace(weights=self.sample_weight)

    def second_opinion_of_past(self, rows: Rows) -> OpinionOnCases | None:
        """The additive mean on rows of the training table."""
        return self.second_opinion(None, self.values[rows], 0.9)


class HasFitted(Protocol):
    """An estimator with a `Fitted`."""

    @property
    def fitted_(self) -> Fitted:
        """The result of `fit`."""


def tails(level: float) -> Array:
    """The probabilities of the two quantiles that limit a central interval."""
    return np.array([(1.0 - level) / 2.0, (1.0 + level) / 2.0])


def outcome_classes(outcomes: Array, edges: Array) -> Rows:
    """Class of each outcome; an edge belongs to the class above it."""
    return np.searchsorted(edges, outcomes, side="right").astype(np.int64)


def _at(x: Array, rows: Rows) -> Array:
    """Rows of a table; the table itself, without a copy, if these are all its rows in order."""
    return x if np.array_equal(rows, np.arange(len(x))) else x[rows]


def data_elsewhere(
    x: Array, y: Rows, rows: Rows, schema: Schema, elsewhere: PartitionedIndex, parents: Rows | None = None
) -> Data:
    """A sample of the past cases, with their row numbers; all past cases vote in their partitions.

    `parents` are the rows of the sample for which shares of the votes are needed; None means all of them.
    """
    chosen = np.arange(len(x)) if parents is None else parents
    return Data(
        x=x,
        y=y,
        x_parents=_at(x, chosen),
        y_parents=y[chosen],
        n_values=schema.n_values,
        n_classes=elsewhere.n_classes,
        windows=schema.windows,
        own_parent=rows,
        nested=schema.nested,
        elsewhere=elsewhere,
        rows_of_parents=rows[chosen],
    )


def past_data(
    x: Array,
    y: Rows,
    parents: Rows,
    cases: Rows,
    schema: Schema,
    n_classes: int,
    groups: Rows | None = None,
    weights: Array | None = None,
) -> Data:
    """Rows of the training table as cases, with the parents that vote on them.

    The `own_parent` of a row that is not a parent itself is a parent of its group, if any, so that no parent of the
    group votes on it.
    """
    own_parent = np.full(len(x), -1)
    if groups is not None:
        of_group = np.full(int(groups.max(initial=0)) + 1, -1)
        of_group[groups[parents]] = np.arange(len(parents))
        own_parent = of_group[groups]
    own_parent[parents] = np.arange(len(parents))
    return Data(
        x=_at(x, cases),
        y=y[cases],
        x_parents=_at(x, parents),
        y_parents=y[parents],
        n_values=schema.n_values,
        n_classes=n_classes,
        windows=schema.windows,
        own_parent=own_parent[cases],
        nested=schema.nested,
        groups=None if groups is None else groups[parents],
        weights=None if weights is None else weights[parents],
    )
