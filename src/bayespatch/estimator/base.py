"""The parts shared by the estimators: fitted attributes, and predictions for the rows of a table."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from bayespatch.calibrate import Calibration
from bayespatch.encode import EncodedTable, Schema
from bayespatch.estimator.learning import Learner, is_table
from bayespatch.explain.ballot import closed_details
from bayespatch.explain.build import beside
from bayespatch.explain.guards import warn_out_of_range
from bayespatch.fitted import Fitted
from bayespatch.leave_one_out import LeaveOneOutVotes
from bayespatch.model import HIDDEN, Data, Hyperparameters
from bayespatch.persistence.model_file import Storable
from bayespatch.pool import Pool
from bayespatch.predict import (
    MAX_PASSES,
    Detail,
    Neighborhood,
    PrecisionWarning,
    Prediction,
    UnseenValueWarning,
    predict_batches,
    predict_cases,
    sample_together,
)
from bayespatch.sampling.diagnostics import Diagnostics
from bayespatch.sampling.posterior import Posterior
from bayespatch.second_opinion import Opinion
from bayespatch.tune import Tuning
from bayespatch.types import AnyArray, TableLike
from bayespatch.validation import check_count

F = TypeVar("F", bound=Fitted)


class Patchwork(Storable, Learner, Generic[F]):
    """The part of an estimator that is independent of the kind of outcome; see `PatchworkClassifier`.

    Attributes
    ----------
    fitted_ : Fitted
        The result of `fit`, assigned once. All other fitted attributes are read from it.
    """

    fitted_: F

    def _fitted(self) -> F:
        """The result of `fit`. Methods call this once, so that a refit in another thread does not affect them."""
        fitted: F | None = self.__dict__.get("fitted_")
        if fitted is None:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                f"using this estimator."
            )
        return fitted

    @property
    def schema_(self) -> Schema:
        """The coding of the columns."""
        return self._fitted().schema

    @property
    def posterior_(self) -> Posterior:
        """Draws of the importances and of all other sampled quantities."""
        return self._fitted().posterior

    @property
    def hyper_(self) -> Hyperparameters:
        """The constants of the model."""
        return self._fitted().hyper

    @property
    def tuning_(self) -> Tuning | None:
        """The settings that were compared; None if `hyper` was passed."""
        return self._fitted().tuning

    @property
    def parents_(self) -> NDArray[np.int64]:
        """Rows of the training table that may vote, (S,)."""
        return self._fitted().parents

    @property
    def cases_(self) -> NDArray[np.int64]:
        """Rows of the training table used for learning, (N,)."""
        return self._fitted().cases

    @property
    def x_(self) -> NDArray[np.float64]:
        """The training table as codes, (n, P)."""
        return self._fitted().x

    @property
    def y_(self) -> NDArray[np.int64]:
        """Classes of the training table as codes, (n,)."""
        return self._fitted().y

    @property
    def values_(self) -> NDArray[np.float64]:
        """Original values of the training table, (n, P)."""
        return self._fitted().values

    @property
    def groups_(self) -> NDArray[np.int64] | None:
        """Group of each row, (n,); None without groups."""
        return self._fitted().groups

    @property
    def ids_(self) -> tuple[str, ...] | None:
        """Names of the rows; None if they are numbered."""
        return self._fitted().ids

    @property
    def loo_(self) -> LeaveOneOutVotes:
        """Leave-one-out votes on past cases."""
        return self._fitted().loo

    @property
    def calibration_(self) -> Calibration:
        """Maps votes to probabilities."""
        return self._fitted().calibration

    @property
    def pool_(self) -> Pool | None:
        """The pool of both opinions; None without a second opinion."""
        return self._fitted().pool

    @property
    def class_names_(self) -> tuple[str, ...]:
        """Names of the classes."""
        return self._fitted().class_names

    @property
    def target_(self) -> str:
        """Name of the outcome; may be empty."""
        return self._fitted().target

    @property
    def opinion_(self) -> Opinion | None:
        """The second opinion, if any."""
        return self._fitted().opinion

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the training table."""
        return self._fitted().posterior.q.shape[2]

    @property
    def feature_names_in_(self) -> AnyArray:
        """Column names of the training table, if it had any."""
        names = self._fitted().feature_names
        if names is None:
            raise AttributeError("the training table had no column names")
        return np.array(names, dtype=object)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Importance of each feature for predictions, (P,): the share of the base rates' log loss that it removes.

        Measured on past cases, each predicted from all the others, on first access (`bayespatch.feature_importance`).
        `posterior_.q` has the draws of the model's own importance parameters.
        """
        return self._fitted().importance.values

    @property
    def diagnostics_(self) -> Diagnostics:
        """Convergence of the chains or, without chains, quality of the approximation."""
        return self._fitted().diagnostics

    def neighbors(self, X: TableLike, y: ArrayLike | None = None, top: int = 4) -> Neighborhood:
        """The past cases that matter most to each row, with probabilities and matching features.

        Parameters
        ----------
        X : data frame, array or list of rows
            The cases.
        y : sequence, optional
            Their outcomes, if known; they are then used to find the neighbors (type III of the paper).
        top : int
            Number of neighbors, at most the number of parents.

        Returns
        -------
        Neighborhood

        Examples
        --------
        >>> near = clf.neighbors([["yes", 60]], top=3)
        >>> near.rows.shape, [y[row] for row in near.rows[0]]
        ((1, 3), ['sick', 'sick', 'sick'])
        """
        fitted = self._fitted()
        top = check_count("top", top, at_least=1)
        if fitted.votes_are_closed:
            return self._closed_neighbors(fitted, X, y, top)
        _, parts = self._predictions(fitted, X, y, detail=True)
        neighbors = (part.neighbors for part in parts)
        return Neighborhood.joined([Neighborhood.of(part, fitted.parents, top) for part in neighbors if part])

    def _closed_neighbors(self, fitted: Fitted, X: TableLike, y: ArrayLike | None, top: int) -> Neighborhood:
        """`neighbors` with closed-form votes: the largest shares, and details for these only."""
        posterior, new, _ = self._new_cases(fitted, X, y)
        q = posterior.q.mean(axis=(0, 1))
        parts = []
        for i in range(len(new.x)):
            near, case = beside(fitted, new, i, top, self._n_threads())
            may_show = np.isin(near.parents, near.may_show)
            votes = predict_cases(posterior, case, detail="shares", n_threads=self._n_threads())
            assert votes.neighbors is not None
            order = np.argsort(-votes.neighbors.share[0], kind="stable")
            best = order[may_show[order]][:top]
            share = votes.neighbors.share[:, best]
            features = share[:, :, None] * closed_details(case, best, posterior.model, q)[0].astype(np.float32)
            rows = np.array([near.number_of(row) for row in near.parents[best].tolist()])
            parts.append(Neighborhood(rows[None], share, share, features))
        return Neighborhood.joined(parts)

    def _predictions(
        self, fitted: Fitted, X: TableLike, y: ArrayLike | None = None, detail: Detail = False
    ) -> tuple[EncodedTable, Iterator[Prediction]]:
        """The rows of a table as codes, and their predictions in batches."""
        posterior, new, encoded = self._new_cases(fitted, X, y)
        return encoded, self._batches(fitted, posterior, new, detail)

    def _batches(self, fitted: Fitted, posterior: Posterior, new: Data, detail: Detail) -> Iterator[Prediction]:
        """Predictions in batches, with the precision that `error` requires, as far as the draws allow."""
        precedents = 1.0 if fitted.pool is None else max(1.0 - fitted.pool.weight, 0.5)
        worst, n_short = 0.0, 0
        for part in predict_batches(
            posterior,
            new,
            detail=detail,
            calibration=fitted.calibration,
            # The second opinion has no Monte Carlo error, which reduces the error of the pool. The reduction is
            # limited, because the precedents are also shown on their own.
            error=self.error / precedents,
            n_threads=self._n_threads(),
            engine=self._predicting(),
            scheduler=self.scheduler,
        ):
            errors = precedents * fitted.calibration.error(part.votes_by_batch)
            worst, n_short = max(worst, float(errors.max(initial=0.0))), n_short + int((errors > self.error).sum())
            yield part
        if n_short:
            draws = f"all stored draws used {MAX_PASSES} times"
            if fitted.votes_are_closed:
                draws = f"{posterior.n_chains * posterior.n_draws} draws of the importances"
            warnings.warn(
                f"{n_short} of {len(new.x)} probabilities have a Monte Carlo standard error above {self.error} "
                f"(largest: {worst:.4f}, with {draws}); fit with more than {self.draws} draws, or set a larger error",
                PrecisionWarning,
                stacklevel=4,
            )

    def _new_cases(
        self, fitted: Fitted, X: TableLike, y: ArrayLike | None = None
    ) -> tuple[Posterior, Data, EncodedTable]:
        """The posterior for predicting the rows of a table, and the rows as new cases."""
        if is_table(X):
            validate_data(self, X, skip_check_array=True, reset=False)
        encoded = fitted.schema.encode(X)
        if encoded.n_unseen:
            counts = ", ".join(f"{name!r} ({count})" for name, count in encoded.n_unseen.items())
            warnings.warn(
                f"values that no past case has, in columns (number of cases): {counts}",
                UnseenValueWarning,
                stacklevel=5,
            )
        warn_out_of_range(fitted.schema, encoded.values, fitted.ranges, stacklevel=4)
        codes = None if y is None else fitted.outcome_codes(self._read_outcomes(y), len(encoded.x))
        new = fitted.new_cases(encoded.x, codes)
        posterior = fitted.posterior
        if self.transductive:
            if fitted.votes_are_closed:
                raise ValueError("the model was fitted with transductive=False; fit it again with transductive=True")
            past = fitted.past
            if not posterior.settings.supervised:
                past = past._replace(y=np.full_like(past.y, HIDDEN))
            posterior = sample_together(posterior, past, new, n_threads=self._n_threads(), progress=self.progress)
        return posterior, new, encoded

    @abstractmethod
    def _read_outcomes(self, y: ArrayLike) -> AnyArray:
        """Outcomes as a one-dimensional array."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
