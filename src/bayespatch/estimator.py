"""scikit-learn's face of the model: thin methods over the rooms that do the work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import check_random_state, column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayespatch.check import check_count
from bayespatch.encode import Schema
from bayespatch.model import HIDDEN, Data, Hyperparameters
from bayespatch.parents import choose_parents
from bayespatch.posterior import Posterior
from bayespatch.predict import Prediction, predict_cases
from bayespatch.sample import available_cores, sample

EXPECTED_NEIGHBORS = 5.0  # of a case, under hyper="auto"


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """Who the neighbors of n cases are, the most influential first.

    Attributes
    ----------
    rows : int array of shape (n, top)
        Who: rows of the training table.
    probability : array of shape (n, top)
        Probability of being a neighbor.
    influence : array of shape (n, top)
        Mean weight of the neighbor's vote.
    features : array of shape (n, top, P)
        Probability of being a neighbor to whom the feature matters.
    """

    rows: NDArray[np.int64]
    probability: NDArray[np.float32]
    influence: NDArray[np.float32]
    features: NDArray[np.float32]


class PatchworkClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A Bayesian case-based classifier: past cases that resemble a new one in what matters vote on its class.

    Parameters
    ----------
    model : {"I", "II", "III"}
        How much a neighbor influences a case: all alike, by the number of features that matter, or freely.
    likelihood : {"exact", "paper"}
        The exact likelihood, or the one that the paper prints.
    supervised : bool
        False finds neighbors without the classes of the training cases; these still vote.
    parents : {"all", "random", "balanced", "medoids"}, int, or array
        Which training cases may be neighbors; see `bayespatch.parents.choose_parents`.
    n_parents : int or float, optional
        How many parents, or which share of the training cases.
    hyper : "auto" or Hyperparameters
        The constants of the model; "auto" takes the defaults with 5 expected neighbors of a case.
    class_weight : dict, "balanced" or None
        Weight of a vote for each class.
    bins, windows, categorical
        How columns are coded; see `bayespatch.encode.Schema.learn`.
    missing : {"category", "ignore", "error"}
        What becomes of missing values.
    transductive : bool
        True predicts as the paper does, by sampling training and new cases together; False samples the new cases under
        the fitted posterior, which is much faster.
    engine : str
        "auto" or the name of an engine.
    chains, draws, warmup, thin : int
        Length of the run.
    n_jobs : int, optional
        Threads; None and -1 take all cores that this process may use. Results do not depend on it.
    random_state : int, RandomState or None
        Pass a number for results that can be repeated.
    warm_start : bool
        True begins a refit where the last fit ended, which saves warm-up when cases were added.
    progress : bool or callable
        Whether fitting shows a progress bar.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    schema_ : Schema
        How the columns are coded.
    posterior_ : Posterior
        The draws.
    diagnostics_ : Diagnostics
        Whether the chains have mixed.
    hyper_ : Hyperparameters
        The constants used.
    parents_ : int array of shape (S,)
        The parents, as rows of the training table.
    feature_importances_ : array of shape (P,)
        Posterior mean of each feature's importance, q; `posterior_.q` has its draws.

    Examples
    --------
    >>> from bayespatch import PatchworkClassifier
    >>> X = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5
    >>> y = ["sick", "sick", "well", "well"] * 5
    >>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit(X, y)
    >>> clf.predict([["yes", 60]])
    array(['sick'], dtype='<U4')
    """

    def __init__(
        self,
        *,
        model: str = "I",
        likelihood: str = "exact",
        supervised: bool = True,
        parents: str | int | ArrayLike = "all",
        n_parents: int | float | None = None,
        hyper: str | Hyperparameters = "auto",
        class_weight: dict[Any, float] | str | None = None,
        bins: Any = "quantile",
        windows: Any = None,
        categorical: Any = (),
        missing: str = "category",
        transductive: bool = False,
        engine: str = "auto",
        chains: int = 4,
        draws: int = 250,
        warmup: int = 250,
        thin: int = 1,
        n_jobs: int | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        progress: Any = False,
    ) -> None:
        self.model = model
        self.likelihood = likelihood
        self.supervised = supervised
        self.parents = parents
        self.n_parents = n_parents
        self.hyper = hyper
        self.class_weight = class_weight
        self.bins = bins
        self.windows = windows
        self.categorical = categorical
        self.missing = missing
        self.transductive = transductive
        self.engine = engine
        self.chains = chains
        self.draws = draws
        self.warmup = warmup
        self.thin = thin
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.progress = progress

    @classmethod
    def paper(cls, model: str = "I", n_parents: int = 80, **parameters: Any) -> PatchworkClassifier:
        """The paper's settings: parents at random, its hyperparameters; other parameters may be given."""
        settings: dict[str, Any] = {"parents": "random", "hyper": Hyperparameters.paper(), **parameters}
        return cls(model=model, n_parents=n_parents, **settings)

    def fit(self, X: Any, y: ArrayLike) -> PatchworkClassifier:
        """Learn how columns are coded, which features matter, and who resembles whom.

        Parameters
        ----------
        X : data frame, array or list of rows, of shape (n, P)
            The training table as it is: numbers, texts, categories, booleans, missing values.
        y : sequence of length n
            Classes.

        Returns
        -------
        PatchworkClassifier
            Itself.
        """
        validate_data(self, X, skip_check_array=True)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        encoder = LabelEncoder().fit(y)
        codes = encoder.transform(y)
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31))

        schema = Schema.learn(
            X, codes, bins=self.bins, windows=self.windows, categorical=self.categorical, missing=self.missing
        )
        x = schema.encode(X).x
        chosen = choose_parents(
            self.parents, x, codes, np.random.default_rng(seed), n_parents=self.n_parents, windows=schema.windows
        )
        hyper = self._resolved_hyper(len(chosen.parents), encoder.classes_, codes)
        posterior = self._sample(
            schema, hyper, x, codes, chosen.parents, chosen.cases, chosen.exclude_self, len(encoder.classes_), seed
        )
        self.classes_, self.schema_, self.hyper_, self.posterior_ = encoder.classes_, schema, hyper, posterior
        self.parents_, self.cases_ = chosen.parents, chosen.cases
        self.x_, self.y_ = x, codes
        self.diagnostics_ = posterior.diagnostics()
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class: the mean share of the neighbors' votes.

        Returns
        -------
        array of shape (n, M)
        """
        probabilities = self._predicted(X).votes.mean(axis=0, dtype=np.float64)
        return probabilities / probabilities.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class.

        Returns
        -------
        array of shape (n,)
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_interval(self, X: Any, level: float = 0.9) -> NDArray[np.float64]:
        """Credible intervals of the class probabilities: how far the draws differ.

        Returns
        -------
        array of shape (n, M, 2)
            Lower and upper end.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level={level!r} is not a probability; pass a number between 0 and 1, such as 0.9")
        ends = np.quantile(self._predicted(X).votes, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
        return np.moveaxis(ends, 0, -1).astype(np.float64)

    def neighbors(self, X: Any, y: ArrayLike | None = None, top: int = 4) -> Neighborhood:
        """The past cases that matter most to each row, how strongly, and through which features.

        Parameters
        ----------
        X : data frame, array or list of rows
            The cases.
        y : sequence, optional
            Their classes, where they are known: then these count too (type III of the paper).
        top : int
            How many to name.

        Returns
        -------
        Neighborhood
        """
        top = min(check_count("top", top, at_least=1), len(self.parents_))
        company = self._predicted(X, y, detail=True).company
        assert company is not None
        order = np.argsort(-company.influence, axis=1, kind="stable")[:, :top]
        return Neighborhood(
            self.parents_[order],
            np.take_along_axis(company.probability, order, axis=1),
            np.take_along_axis(company.influence, order, axis=1),
            np.take_along_axis(company.features, order[:, :, None], axis=1),
        )

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Posterior mean of the importance of each feature."""
        check_is_fitted(self)
        return self.posterior_.q.mean(axis=(0, 1))

    def _resolved_hyper(self, n_parents: int, classes: NDArray[Any], codes: NDArray[np.int64]) -> Hyperparameters:
        if isinstance(self.hyper, Hyperparameters):
            hyper = self.hyper
        elif isinstance(self.hyper, str) and self.hyper == "auto":
            hyper = Hyperparameters(alpha=min(0.5, EXPECTED_NEIGHBORS / n_parents))
        else:
            raise ValueError(f"hyper={self.hyper!r} is not known; pass 'auto' or Hyperparameters(...)")
        if self.class_weight is None:
            return hyper
        weights = compute_class_weight(self.class_weight, classes=classes, y=classes[codes])
        return replace(hyper, mu=tuple((weights * hyper.mu_per_class(len(classes))).tolist()))

    def _sample(
        self,
        schema: Schema,
        hyper: Hyperparameters,
        x: NDArray[np.float64],
        y: NDArray[np.int64],
        parents: NDArray[np.int64],
        cases: NDArray[np.int64],
        exclude_self: bool,
        n_classes: int,
        seed: int,
    ) -> Posterior:
        return sample(
            x[cases],
            y[cases],
            x[parents],
            y[parents],
            n_values=schema.n_values,
            n_classes=n_classes,
            hyper=hyper,
            model=self.model,
            likelihood=self.likelihood,
            supervised=self.supervised,
            exclude_self=exclude_self,
            windows=schema.windows,
            missing="ignore" if self.missing == "ignore" else "error",
            engine="cpu" if self.engine == "auto" else self.engine,
            chains=self.chains,
            draws=self.draws,
            warmup=self.warmup,
            thin=self.thin,
            seed=seed,
            n_threads=self._n_threads(),
            progress=self.progress,
            begin=self._beginning(schema, parents),
        )

    def _beginning(self, schema: Schema, parents: NDArray[np.int64]) -> Posterior | None:
        """The last fit, where warm_start asks for it and it had the same features and the first of these parents."""
        if not (self.warm_start and hasattr(self, "posterior_") and self.schema_.names == schema.names):
            return None
        is_beginning = np.array_equal(self.parents_, parents[: len(self.parents_)])
        return self.posterior_ if is_beginning else None

    def _n_threads(self) -> int:
        if self.n_jobs is None or self.n_jobs == -1:
            return available_cores()
        return check_count("n_jobs", self.n_jobs, at_least=1)

    def _predicted(self, X: Any, y: ArrayLike | None = None, detail: bool = False) -> Prediction:
        check_is_fitted(self)
        validate_data(self, X, skip_check_array=True, reset=False)
        x = self.schema_.encode(X).x
        data = Data(
            x=x,
            y=np.full(len(x), HIDDEN) if y is None else self._codes_of(y, len(x)),
            x_parents=self.x_[self.parents_],
            y_parents=self.y_[self.parents_],
            n_values=self.schema_.n_values,
            n_classes=len(self.classes_),
            windows=self.schema_.windows,
            own_parent=np.full(len(x), -1),
        )
        return predict_cases(self.posterior_, data, detail=detail, n_threads=self._n_threads())

    def _codes_of(self, y: ArrayLike, n: int) -> NDArray[np.int64]:
        known: NDArray[Any] = column_or_1d(y)
        unknown = sorted(set(np.unique(known).tolist()) - set(self.classes_.tolist()), key=str)
        if unknown or len(known) != n:
            raise ValueError(
                f"y has {len(known)} classes for {n} rows, and {unknown} were not there in training; "
                f"pass one of {self.classes_.tolist()} for each row, or leave y out"
            )
        return np.searchsorted(self.classes_, known)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
