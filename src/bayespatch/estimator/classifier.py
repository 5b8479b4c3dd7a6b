"""The classifier: neighbors vote on the class of a case, and their votes are calibrated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import Tags, column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from bayespatch.calibrate import Calibration
from bayespatch.decisions import DecisionThreshold, read_decision
from bayespatch.encode import EncodedTable, class_order
from bayespatch.encode.schema import Bins, Windows
from bayespatch.estimator.explaining import Explaining, check_abstain
from bayespatch.estimator.learning import Learned, RandomState
from bayespatch.estimator.partitioned import by_partition
from bayespatch.fitted import Fitted, FittedClasses
from bayespatch.follow_up import FollowUpColumns
from bayespatch.leave_one_out import LeaveOneOutVotes, by_fold
from bayespatch.model import Hyperparameters
from bayespatch.persistence.registry import loadable
from bayespatch.pool import Pool
from bayespatch.predict import Prediction
from bayespatch.progress import Meter, Tell, progress_meter, silent
from bayespatch.second_opinion import AdditiveScore, Classifier, UserOpinion, check_user_opinion, out_of_group
from bayespatch.second_opinion.grouped import N_FOLDS
from bayespatch.second_opinion.user import content_folds
from bayespatch.types import AnyArray, Parameters, TableLike
from bayespatch.validation import (
    check_class_weights,
    check_classes,
    check_finite,
    check_flag,
    check_level,
    refuse_masked,
    refuse_missing_outcomes,
)

# In tables of up to this number of rows, the additive score is refitted for the pool without a tenth of the rows: its
# one-step approximation of leave-one-out is too pessimistic there, above all with nearly separable classes.
MOST_REFITTED = 200


class PredictedClasses(NamedTuple):
    """Predictions of a classifier for n cases.

    Attributes
    ----------
    probabilities : array of shape (n, M)
        As returned by `PatchworkClassifier.predict_proba`.
    votes : array of shape (n, M)
        Shares of the neighbors' votes, before calibration.
    percentiles : array of shape (n,)
        Share of the past cases that are at least as unusual, with the same features known. At most 0.05 means that
        there is no adequate precedent. NaN if too few features are known (`Fitted.percentiles`).
    intervals : array of shape (n, M, 2), or None
        Intervals of the probabilities, if a level was given.
    opinions : dict of arrays of shape (n, M), or None
        "precedents", the calibrated votes, and "additive", if there is a second opinion.
    closest, closest_share : arrays of shape (n,), or None
        The past case with the largest vote (a row of the training table), and its share of the votes, if a level was
        given.
    """

    probabilities: NDArray[np.float64]
    votes: NDArray[np.float64]
    percentiles: NDArray[np.float64]
    intervals: NDArray[np.float64] | None
    opinions: dict[str, NDArray[np.float64]] | None = None
    closest: NDArray[np.int64] | None = None
    closest_share: NDArray[np.float64] | None = None


@loadable
class PatchworkClassifier(ClassifierMixin, Explaining[FittedClasses]):  # type: ignore[misc]  # scikit-learn has no types
    """A Bayesian case-based classifier: past cases vote on the class of a new case, weighted by similarity.

    Parameters
    ----------
    model : {"I", "II", "III"}
        Influence of a neighbor on a case: equal for all neighbors, by the number of features that matter, or separate
        for each neighbor.
    likelihood : {"exact", "paper"}
        The exact likelihood, or the one printed in the paper.
    supervised : bool
        If False, neighbors are found without the classes of the training cases, which still vote.
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
    second_opinion : "auto", None or classifier
        A second opinion that is pooled with the precedents (`bayespatch.pool`). "auto": an additive score, a
        regularized logistic regression on the columns of the table (`bayespatch.second_opinion`). None: precedents
        alone. An unfitted scikit-learn classifier is cloned and fitted to the table without preprocessing.
    votes : {"auto", "closed", "sampled"}
        "closed": every past case votes, in closed form (`bayespatch.retrieval`). "sampled": the neighbors of a case are
        sampled, as in the paper. "auto": closed form if available, that is, for model "I" with the exact likelihood
        and predictive importances.
    error : float
        Sampled votes only: target Monte Carlo standard error of predicted probabilities. Votes are drawn until it is
        reached, or until all stored draws have been used 16 times, which gives a `PrecisionWarning`.
    class_weight : dict, "balanced" or None
        Weight of votes for each class, and of its cases in the calibration.
    calibrate : bool
        Whether votes are calibrated on the past cases' leave-one-out votes. If False, the shares of the votes are used
        as probabilities.
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
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.
    schema_ : Schema
        How the columns are coded.
    posterior_ : Posterior
        The draws.
    diagnostics_ : Diagnostics
        Convergence of the chains or, without chains, quality of the approximation.
    hyper_ : Hyperparameters
        The constants used.
    parents_, cases_ : int arrays of shape (S,) and (N,)
        The parents and the cases used for learning, as rows of the training table.
    x_, y_ : arrays of shape (n, P) and (n,)
        The training table and its classes as codes.
    tuning_ : Tuning or None
        The settings that were tried and their scores; None if `hyper` was given.
    loo_ : LeaveOneOutVotes
        Leave-one-out votes on past cases.
    calibration_ : Calibration
        The map from votes to probabilities.
    opinion_ : AdditiveScore, UserOpinion, LinearOpinion or None
        The second opinion.
    pool_ : Pool or None
        How both opinions are pooled; its `log_loss` compares them on the training cases.
    values_, ids_ : array of shape (n, P), and tuple of n strings or None
        The original values of the training table (numbers instead of bins) and the names of its rows (a data frame's
        index), which explanations show.
    class_names_, target_ : tuple of M strings, and str
        Names of classes and outcome: from ``y.attrs["labels"]`` and ``y.attrs["description"]`` of a pandas Series,
        otherwise the classes and the name of the Series.
    feature_importances_ : array of shape (P,)
        Importance of each feature for predictions, measured on first access; `posterior_.q` has the draws of the
        model's importance parameters.

    Examples
    --------
    >>> from bayespatch import PatchworkClassifier
    >>> X = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5
    >>> y = ["sick", "sick", "well", "well"] * 5
    >>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit(X, y)
    >>> clf.predict([["yes", 60]])
    array(['sick'], dtype='<U4')
    >>> clf.predict_proba([["yes", 60], ["no", 41]]).shape, clf.predict_interval([["yes", 60]]).shape
    ((2, 2), (1, 2, 2))
    >>> clf.neighbors([["yes", 60]], top=3).rows.shape
    (1, 3)
    """

    def __init__(
        self,
        *,
        model: str = "I",
        likelihood: str = "exact",
        supervised: bool = True,
        parents: str | int | ArrayLike = "auto",
        n_parents: int | float | None = None,
        shown: str | int | ArrayLike = "all",
        hyper: str | Hyperparameters = "auto",
        importances: str = "predictive",
        second_opinion: str | Classifier | None = "auto",
        votes: str = "auto",
        error: float = 0.01,
        class_weight: dict[Any, float] | str | None = None,
        calibrate: bool = True,
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
        self.parents = parents
        self.n_parents = n_parents
        self.shown = shown
        self.hyper = hyper
        self.importances = importances
        self.second_opinion = second_opinion
        self.votes = votes
        self.error = error
        self.class_weight = class_weight
        self.calibrate = calibrate
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

    @classmethod
    def paper(cls, model: str = "I", n_parents: int | float = 80, **parameters: Any) -> PatchworkClassifier:
        """A classifier with the paper's settings: random parents and the paper's hyperparameters, unless overridden.

        Examples
        --------
        >>> PatchworkClassifier.paper("II", n_parents=60, missing="ignore").hyper.alpha
        0.5
        """
        settings: Parameters = {
            "parents": "random",
            "hyper": Hyperparameters.paper(),
            "importances": "joint",
            "second_opinion": None,
            "calibrate": False,
            "draws": 250,
            "warmup": 250,
            "missing": "category",
            **parameters,
        }
        return cls(model=model, n_parents=n_parents, **settings)

    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        follow_up: FollowUpColumns = None,
        sample_weight: ArrayLike | None = None,
    ) -> PatchworkClassifier:
        """Learn the coding of the columns and the importances of the features from a training table.

        Parameters
        ----------
        X : data frame, array or list of rows, of shape (n, P)
            The raw training table: numbers, text, categories, booleans, missing values. A Dask data frame is read by
            its workers. If it has more than 100,000 rows, all of them vote, on the workers or from files, and a sample
            of 100,000 rows determines the coding, the calibration and the second opinion.
        y : sequence of length n
            Classes; with a Dask data frame, a Dask Series or the name of a column. Ordered categories (pandas) and
            Enums (polars) are ordered classes, whose order the second opinion uses.
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
        PatchworkClassifier
            Itself.

        Examples
        --------
        >>> from bayespatch import PatchworkClassifier
        >>> X, y = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5, ["sick", "sick", "well", "well"] * 5
        >>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit(X, y)
        >>> clf.classes_, clf.schema_.names
        (array(['sick', 'well'], dtype='<U4'), ('x0', 'x1'))
        """
        self._check_parameters()
        check_flag("calibrate", self.calibrate)
        if self.second_opinion is not None and not (
            isinstance(self.second_opinion, str) and self.second_opinion == "auto"
        ):
            check_user_opinion(self.second_opinion)
        training = self._read_training(X, y, groups, follow_up, sample_weight, classes=True)
        y = training.y
        classes, codes = _read_classes(y)
        counts = np.bincount(codes, None if training.weighed is None else training.weighed.weights)
        if training.sample is not None:
            counts = np.array([training.sample.counts[one] for one in classes.tolist()])
        class_weight = _class_weights(self.class_weight, classes, counts)
        learned = self._learn(
            training,
            codes,
            len(classes),
            class_weight=class_weight,
            counts=counts,
            parts=self._parts(training.sample, classes),
        )
        opinion = self._learn_opinion(training.X, learned, class_order(y, classes))
        learned, loo, calibration = self._compare_in_parts(learned)
        if not self.calibrate:
            calibration = Calibration.none(len(classes))
        class_names, target = _read_names(y, classes)
        self.fitted_ = FittedClasses(
            **learned.fields(),
            loo=loo,
            calibration=calibration,
            opinion=opinion,
            pool=None if opinion is None else _learn_pool(learned, loo, calibration, opinion),
            class_names=class_names,
            target=target,
            feature_names=training.names,
            follow_up=training.follow_up,
            classes=classes,
            decision=_read_decision(y, classes, class_names),
        )
        return self

    @property
    def classes_(self) -> AnyArray:
        """The classes, sorted."""
        return self._fitted().classes

    @by_partition
    def predict_proba(self, X: TableLike) -> NDArray[np.float64]:
        """Probability of each class: the neighbors' votes, calibrated, and pooled with the second opinion.

        Returns
        -------
        array of shape (n, M)
            Classes in the order of `classes_`.

        Examples
        --------
        >>> p = clf.predict_proba([["yes", 61], ["no", 40]])
        >>> bool(p[0, 0] > 0.8), bool(p[1, 0] < 0.2)
        (True, True)
        """
        fitted = self._fitted()
        encoded, parts = self._predictions(fitted, X)
        return check_finite("the probability", fitted.pooled(X, encoded.values, _mean_votes(parts)))

    def predict_log_proba(self, X: TableLike) -> NDArray[np.float64]:
        """Logarithm of `predict_proba`.

        Returns
        -------
        array of shape (n, M)

        Examples
        --------
        >>> bool(np.allclose(np.exp(clf.predict_log_proba([["yes", 61]])), clf.predict_proba([["yes", 61]])))
        True
        """
        return np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))

    @by_partition
    def predict_opinions(self, X: TableLike) -> dict[str, NDArray[np.float64]]:
        """Probabilities of each opinion alone and of their pool.

        Returns
        -------
        dict of arrays of shape (n, M)
            "precedents", the calibrated votes; "additive", the second opinion; "pool", as in `predict_proba`.

        Examples
        --------
        >>> sorted(clf.predict_opinions([["yes", 60]]))
        ['additive', 'pool', 'precedents']
        """
        fitted = self._fitted()
        if fitted.pool is None:
            raise ValueError("the model has no second opinion; fit it with second_opinion='auto'")
        encoded, parts = self._predictions(fitted, X)
        precedents, additive = fitted.calibration.apply(_mean_votes(parts)), fitted.opinion_on(X, encoded.values)
        return {"precedents": precedents, "additive": additive, "pool": fitted.pool.combine(additive, precedents)}

    @by_partition
    def predict(self, X: TableLike, abstain: bool | float = False) -> AnyArray:
        """The most probable class; optionally None for cases without an adequate precedent.

        Parameters
        ----------
        X : data frame, array or list of rows
            The cases.
        abstain : bool or float
            If True, the prediction is None for cases without an adequate precedent, that is, if at most 5% of the past
            cases are as unusual. A number sets another limit. See `Explanation.precedent`.

        Returns
        -------
        array of shape (n,)
            With `abstain`, an array of objects that is None for cases without an adequate precedent.

        Examples
        --------
        >>> clf.predict([["yes", 60], ["no", 41]])
        array(['sick', 'well'], dtype='<U4')
        >>> clf.predict([["perhaps", 99]], abstain=True)
        array([None], dtype=object)
        """
        quantile = check_abstain(abstain)
        fitted = self._fitted()
        encoded, batches = self._predictions(fitted, X)
        parts = list(batches)
        classes: AnyArray = fitted.classes[fitted.pooled(X, encoded.values, _mean_votes(parts)).argmax(axis=1)]
        if quantile is None:
            return classes
        classes = classes.astype(object)
        classes[~(_percentiles(fitted, encoded, parts) > quantile)] = None
        return classes

    @by_partition
    def predict_interval(self, X: TableLike, level: float = 0.9) -> NDArray[np.float64]:
        """Intervals of the mean risk of patients with similar predictions.

        The mean risk of all patients with about the same predicted probability is within the interval in at least 90%
        of cases (with ``level=0.9``). An individual patient's risk can lie outside, because outcomes do not show how
        much risks differ among patients with equal predictions. Intervals are wide if few past cases vote, if the
        second opinion is learned from few rows, or if the two opinions differ (`Pool.interval`).

        Returns
        -------
        array of shape (n, M, 2)
            Lower and upper limits.

        Examples
        --------
        >>> low, high = clf.predict_interval([["yes", 60]], level=0.8)[0, 0]
        >>> bool(0 <= low <= high <= 1)
        True
        """
        level = check_level(level)
        fitted = self._fitted()
        encoded, batches = self._predictions(fitted, X, detail="voters")
        parts = list(batches)
        return fitted.intervals(X, encoded.values, _mean_votes(parts), _n_voters(parts), level)

    @by_partition
    def predict_all(self, X: TableLike, level: float | None = None) -> PredictedClasses:
        """Probabilities, votes, percentiles and intervals, all from the same draws.

        Parameters
        ----------
        X : data frame, array or list of rows
            The cases.
        level : float, optional
            Probability of the intervals; None omits them, which is faster.

        Returns
        -------
        PredictedClasses

        Examples
        --------
        >>> seen = clf.predict_all([["yes", 60]], level=0.8)
        >>> bool(seen.intervals[0, 0, 0] <= seen.probabilities[0, 0] <= seen.intervals[0, 0, 1])
        True
        """
        level = None if level is None else check_level(level)
        fitted = self._fitted()
        encoded, batches = self._predictions(fitted, X, detail=False if level is None else "voters")
        parts = list(batches)
        votes, values = _mean_votes(parts), encoded.values
        probabilities = check_finite("the probability", fitted.pooled(X, values, votes))
        percentiles, opinions = _percentiles(fitted, encoded, parts), None
        if fitted.pool is not None:
            opinions = {"precedents": fitted.calibration.apply(votes), "additive": fitted.opinion_on(X, values)}
        if level is None:
            return PredictedClasses(probabilities, votes, percentiles, None, opinions)
        intervals = fitted.intervals(X, values, votes, _n_voters(parts), level)
        rows, shares = zip(*(part.closest(fitted.parents) for part in parts), strict=True)
        closest = np.concatenate(rows), np.concatenate(shares)
        return PredictedClasses(probabilities, votes, percentiles, intervals, opinions, *closest)

    @by_partition
    def predict_votes(self, X: TableLike) -> NDArray[np.float64]:
        """Share of the neighbors' votes for each class, before calibration.

        Returns
        -------
        array of shape (n, M)

        Examples
        --------
        >>> votes = clf.predict_votes([["yes", 60]])
        >>> bool(0.5 < votes[0, 0] <= 1)
        True
        """
        return _mean_votes(self._predictions(self._fitted(), X)[1])

    def _learn_opinion(
        self, X: TableLike, learned: Learned, order: NDArray[np.int64] | None
    ) -> AdditiveScore | UserOpinion | None:
        """The second opinion; `order` lists the classes in order, if they are ordered."""
        if self.second_opinion is None or learned.fit.n_classes < 2:
            return None
        fit, table, values = learned.fit, learned.table, learned.table.encoded.values
        if not isinstance(self.second_opinion, str):
            # The user's own model gets the classes as their codes, which sort as the classes do.
            codes = np.arange(fit.n_classes)
            with progress_meter(self.progress, "tables")(1) as report:
                report(0, "second opinion")
                return UserOpinion.learn(self.second_opinion, X, fit.y, codes, values, fit.groups, fit.weights)

        def learn(rows: NDArray[np.int64] | slice, meter: Meter = silent) -> AdditiveScore:
            y, n_classes = fit.y[rows], fit.n_classes
            if len(np.unique(y)) < n_classes:
                raise ValueError("some classes do not occur")
            own = None if fit.weights is None else fit.weights[rows]
            options = fit.class_weight, order, own, meter
            return AdditiveScore.learn(table.schema, values[rows], y, n_classes, *options)

        score = learn(slice(None), progress_meter(self.progress, "priors"))
        if fit.groups is None and len(fit.y) > MOST_REFITTED:
            return score
        groups = content_folds(values, fit.y, N_FOLDS) if fit.groups is None else fit.groups
        loo = out_of_group(learn, lambda model, rows: model.predict_proba(values[rows]), groups, score.base)
        return replace(score, loo=loo)

    def _read_outcomes(self, y: ArrayLike) -> AnyArray:
        return np.asarray(column_or_1d(y))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # With alpha = 0.5, half of the parents vote on every case, so classes with more parents win.
        tags.classifier_tags.poor_score = self.hyper == Hyperparameters.paper() and not self.calibrate
        return tags


def _percentiles(fitted: Fitted, encoded: EncodedTable, parts: Sequence[Prediction]) -> NDArray[np.float64]:
    """Percentiles of the familiarity of predicted cases, (n,)."""
    return fitted.percentiles(encoded.x, np.concatenate([part.familiarity for part in parts]))


def _mean_votes(parts: Iterable[Prediction]) -> NDArray[np.float64]:
    """Votes on the cases of all batches, (n, M)."""
    return np.concatenate([part.mean_votes() for part in parts])


def _n_voters(parts: Iterable[Prediction]) -> NDArray[np.float64]:
    """Effective number of voters on the cases of all batches, (n,)."""
    return np.concatenate([part.n_voters() for part in parts])


def _learn_pool(
    learned: Learned, loo: LeaveOneOutVotes, calibration: Calibration, opinion: AdditiveScore | UserOpinion
) -> Pool:
    """The weight of each opinion, from predictions of both for held-out past cases.

    The votes of each fold are calibrated on the other folds. Otherwise, the precedents' score would be too good in
    small tables, where the slope fits the rows on which it is learned.
    """
    fit, y = learned.fit, learned.fit.y[loo.rows]
    precedents, counted = calibration.apply(loo.votes), learned.weights_of(loo.rows)
    for places, _ in by_fold(learned.posterior, learned.held_out, loo.rows) if learned.held_out else ():
        rest = np.delete(np.arange(len(y)), places)
        of_rest = loo.votes[rest], y[rest], calibration.base, counted[rest], calibration.anchor
        precedents[places] = Calibration.learn(*of_rest).apply(loo.votes[places])
    weights = np.ones(len(y)) if fit.weights is None else fit.weights[loo.rows]
    if fit.class_weight is not None:
        weights = weights * fit.class_weight[y]
    return Pool.learn(opinion.loo[loo.rows], precedents, y, weights)


def _read_classes(y: ArrayLike) -> tuple[AnyArray, NDArray[np.int64]]:
    """The sorted classes, and the index of each case's class among them."""
    refuse_masked("y", y)
    labels = column_or_1d(y, warn=True)
    refuse_missing_outcomes(labels)
    try:
        check_classification_targets(labels)
    except ValueError as error:
        if "continuous" not in str(error) or labels.dtype.kind != "f":
            raise
        raise ValueError(f"{error} PatchworkRegressor predicts numbers.") from error
    encoder = LabelEncoder()
    return check_classes(encoder.fit(labels).classes_), encoder.transform(labels).astype(np.int64)


def _class_weights(option: dict[Any, float] | str | None, classes: AnyArray, counts: AnyArray) -> NDArray[np.float64]:
    """The weight of each class; "balanced" as in scikit-learn, from the number of rows of each class."""
    if isinstance(option, str) and option == "balanced":
        weights = counts.sum() / (len(classes) * counts)
    else:
        weights = compute_class_weight(option, classes=classes, y=classes)
    return check_class_weights(weights, classes)


def _read_decision(y: ArrayLike, classes: AnyArray, names: tuple[str, ...]) -> DecisionThreshold | None:
    """The decision threshold in ``y.attrs``, set by a data dictionary."""
    attrs = getattr(y, "attrs", None)
    attrs = attrs if isinstance(attrs, dict) else {}
    return read_decision(attrs.get("threshold"), attrs.get("cost"), names, classes.tolist())


def _read_names(y: ArrayLike, classes: AnyArray) -> tuple[tuple[str, ...], str]:
    """Names of the classes and of the outcome."""
    attrs = getattr(y, "attrs", None)
    attrs = attrs if isinstance(attrs, dict) else {}
    labels = attrs.get("labels")
    values = classes.tolist()
    names = tuple(str(labels.get(value, value)) if isinstance(labels, dict) else str(value) for value in values)
    if len(set(names)) < len(names):
        names = tuple(map(repr, values))
    return names, str(attrs.get("description") or getattr(y, "name", None) or "")
