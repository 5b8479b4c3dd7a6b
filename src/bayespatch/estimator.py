"""scikit-learn's face of the model: thin methods over the rooms that do the work."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayespatch.check import check_choice, check_count, check_flag, check_model
from bayespatch.diagnostics import Diagnostics
from bayespatch.encode import Schema
from bayespatch.model import HIDDEN, Data, Hyperparameters
from bayespatch.parents import choose_parents
from bayespatch.posterior import Posterior
from bayespatch.predict import Neighborhood, Prediction, UnseenValueWarning, predict_batches, sample_together
from bayespatch.progress import progress_meter
from bayespatch.sample import ENGINES, available_cores, sample
from bayespatch.storage import Storable

EXPECTED_NEIGHBORS = 5.0  # of a case, under hyper="auto"
# Parameters that go by the same name in `Schema.learn` and in `sample`
_CODING = ("bins", "n_bins", "windows", "categorical", "missing", "max_levels")
_RUN = ("model", "likelihood", "supervised", "chains", "draws", "warmup", "thin", "progress")


class PatchworkClassifier(Storable, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
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
    bins, n_bins, windows, categorical, max_levels
        How columns are coded; see `bayespatch.encode.Schema.learn`.
    missing : {"category", "ignore", "error"}
        What becomes of missing values.
    transductive : bool
        True predicts as the paper does: training and new cases are sampled together, in each call anew, so that a
        prediction depends a little on the other rows. False samples the new cases under the fitted posterior.
    engine : str
        "auto" or the name of an engine.
    chains, draws, warmup, thin : int
        Length of the run.
    n_jobs : int, optional
        Threads; None and -1: all cores that this process may use. Results do not depend on it.
    random_state : int, RandomState or None
        Pass a number for results that can be repeated.
    warm_start : bool
        True begins a refit where the last fit ended, which saves warm-up when cases were added at the table's end.
    progress : bool or callable
        Whether fitting (and transductive prediction) shows a progress bar.

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
    parents_, cases_ : int arrays of shape (S,) and (N,)
        The parents, and the cases that the model has learned from, as rows of the training table.
    x_, y_ : arrays of shape (n, P) and (n,)
        The training table and its classes as codes.
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
        parents: str | int | ArrayLike = "all",
        n_parents: int | float | None = None,
        hyper: str | Hyperparameters = "auto",
        class_weight: dict[Any, float] | str | None = None,
        bins: Any = "quantile",
        n_bins: int = 4,
        windows: Any = None,
        categorical: Any = (),
        max_levels: int = 10,
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
        self.n_bins = n_bins
        self.windows = windows
        self.categorical = categorical
        self.max_levels = max_levels
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
    def paper(cls, model: str = "I", n_parents: int | float = 80, **parameters: Any) -> PatchworkClassifier:
        """The paper's settings: parents at random, its hyperparameters; other parameters may be given.

        >>> PatchworkClassifier.paper("II", n_parents=60, missing="ignore").hyper.alpha
        0.5
        """
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
        self._check_parameters()
        self._check_table(X, y)
        classes, codes = _read_classes(y)
        seed = int(check_random_state(self.random_state).randint(2**31))
        schema = Schema.learn(X, codes, **{name: getattr(self, name) for name in _CODING})
        x = schema.encode(X).x
        if len(x) < 2:
            raise ValueError(f"n_samples={len(x)}: a case needs another one to resemble; pass at least two rows")
        parents, cases, exclude_self = choose_parents(
            self.parents, x, codes, np.random.default_rng(seed), n_parents=self.n_parents, windows=schema.windows
        )
        hyper = self._resolved_hyper(len(parents), classes, codes)
        begin = self._beginning(schema, parents)
        posterior = sample(
            x[cases],
            codes[cases],
            x[parents],
            codes[parents],
            n_values=schema.n_values,
            n_classes=len(classes),
            hyper=hyper,
            exclude_self=exclude_self,
            windows=schema.windows,
            missing="ignore" if self.missing == "ignore" else "error",
            engine="cpu" if self.engine == "auto" else self.engine,
            # Where chains begin must not depend on the random numbers that they will draw.
            seed=seed if begin is None else (seed + begin.seed + 1) % 2**31,
            n_threads=self._n_threads(),
            begin=begin,
            **{name: getattr(self, name) for name in _RUN},
        )
        self.classes_, self.schema_, self.hyper_, self.posterior_ = classes, schema, hyper, posterior
        self.parents_, self.cases_, self.x_, self.y_ = parents, cases, x, codes
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class: the mean share of the neighbors' votes.

        Returns
        -------
        array of shape (n, M)
            Classes in the order of `classes_`.
        """
        return np.concatenate([part.probabilities() for part in self._predictions(X)])

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
        if isinstance(level, str) or not 0.0 < level < 1.0:
            raise ValueError(f"level={level!r} is not a probability; pass a number between 0 and 1, such as 0.9")
        ends = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
        parts = [np.quantile(part.votes, ends, axis=0) for part in self._predictions(X)]
        return np.moveaxis(np.concatenate(parts, axis=1), 0, -1).astype(np.float64)

    def neighbors(self, X: Any, y: ArrayLike | None = None, top: int = 4) -> Neighborhood:
        """The past cases that matter most to each row, how strongly, and through which features.

        Parameters
        ----------
        X : data frame, array or list of rows
            The cases.
        y : sequence, optional
            Their classes, where they are known: then these count too (type III of the paper).
        top : int
            How many to name, at most as many as there are parents.

        Returns
        -------
        Neighborhood
        """
        check_is_fitted(self)
        top = check_count("top", top, at_least=1)
        companies = (part.company for part in self._predictions(X, y, detail=True))
        return Neighborhood.joined([Neighborhood.of(company, self.parents_, top) for company in companies if company])

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Posterior mean of the importance of each feature, (P,); `posterior_.q` has the draws."""
        check_is_fitted(self)
        return self.posterior_.q.mean(axis=(0, 1))

    @property
    def diagnostics_(self) -> Diagnostics:
        """Whether the chains have mixed."""
        check_is_fitted(self)
        return self.posterior_.diagnostics()

    # Before any work: what was asked for

    def _check_parameters(self) -> None:
        check_model(self.model, self.likelihood, None, 1)
        for name in ("supervised", "transductive", "warm_start"):
            check_flag(name, getattr(self, name))
        for name, at_least in {"chains": 1, "draws": 1, "warmup": 0, "thin": 1}.items():
            check_count(name, getattr(self, name), at_least=at_least)
        check_choice("engine", self.engine, ("auto", *ENGINES))
        if not isinstance(self.hyper, Hyperparameters) and not (isinstance(self.hyper, str) and self.hyper == "auto"):
            raise ValueError(f"hyper={self.hyper!r} is not known; pass 'auto' or Hyperparameters(...)")
        progress_meter(self.progress)
        self._n_threads()

    def _check_table(self, X: Any, y: Any = None, reset: bool = True) -> None:
        """What scikit-learn says about shapes and names, in its words; what is no table at all, `encode` refuses."""
        try:
            shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
        except ValueError:  # rows of different lengths
            return
        if len(shape) != 2:
            return
        if shape[1] == 0:
            raise ValueError(f"Found array with 0 feature(s) (shape={tuple(shape)}) while a minimum of 1 is required.")
        validate_data(self, X, skip_check_array=True, reset=reset)
        if y is not None:
            check_consistent_length(X, y)

    def _resolved_hyper(self, n_parents: int, classes: NDArray[Any], codes: NDArray[np.int64]) -> Hyperparameters:
        if isinstance(self.hyper, Hyperparameters):
            hyper = self.hyper
        else:
            hyper = Hyperparameters(alpha=min(0.5, EXPECTED_NEIGHBORS / n_parents))
        if self.class_weight is None:
            return hyper
        weights = compute_class_weight(self.class_weight, classes=classes, y=classes[codes])
        return replace(hyper, mu=tuple((weights * hyper.mu_per_class(len(classes))).tolist()))

    def _n_threads(self) -> int:
        """As joblib counts, -1 is all cores and -2 all but one; but None is all, too."""
        if self.n_jobs is None:
            return available_cores()
        n_jobs = check_count("n_jobs", self.n_jobs, at_least=-(2**31))
        if n_jobs == 0:
            raise ValueError("n_jobs=0 leaves nobody to do the work; pass a number of threads, or -1 for all cores")
        return n_jobs if n_jobs > 0 else max(1, available_cores() + 1 + n_jobs)

    # The work

    def _beginning(self, schema: Schema, parents: NDArray[np.int64]) -> Posterior | None:
        """Where the last fit ended, if warm_start asks for it and the features are the same."""
        if self.warm_start and hasattr(self, "posterior_") and self.schema_.names == schema.names:
            return self.posterior_.last_draws(self.parents_, parents)
        return None

    def _predictions(self, X: Any, y: ArrayLike | None = None, detail: bool = False) -> Iterator[Prediction]:
        """Predictions of the rows, batch by batch."""
        check_is_fitted(self)
        self._check_table(X, reset=False)
        encoded = self.schema_.encode(X)
        if encoded.n_unseen:
            counts = ", ".join(f"{name!r} ({count})" for name, count in encoded.n_unseen.items())
            warnings.warn(
                f"values that no past case has, and which match nobody, in columns (number of cases): {counts}",
                UnseenValueWarning,
                stacklevel=4,
            )
        n = len(encoded.x)
        new = self._data(encoded.x, np.full(n, HIDDEN) if y is None else self._codes_of(y, n), np.full(n, -1))
        posterior, n_threads = self.posterior_, self._n_threads()
        if self.transductive:
            posterior = sample_together(posterior, self._past(), new, n_threads=n_threads, progress=self.progress)
        return predict_batches(posterior, new, detail=detail, n_threads=n_threads)

    def _data(self, x: NDArray[np.float64], y: NDArray[np.int64], own_parent: NDArray[np.int64]) -> Data:
        """Cases beside the parents of the fit."""
        x_parents, y_parents = self.x_[self.parents_], self.y_[self.parents_]
        n_values, windows = self.schema_.n_values, self.schema_.windows
        return Data(x, y, x_parents, y_parents, n_values, len(self.classes_), windows, own_parent)

    def _past(self) -> Data:
        """The cases of the fit, as they were then."""
        own_parent = np.full(len(self.x_), -1)
        own_parent[self.parents_] = np.arange(len(self.parents_))
        y = self.y_ if self.posterior_.settings.supervised else np.full_like(self.y_, HIDDEN)
        return self._data(self.x_[self.cases_], y[self.cases_], own_parent[self.cases_])

    def _codes_of(self, y: ArrayLike, n: int) -> NDArray[np.int64]:
        known: NDArray[Any] = column_or_1d(y)
        unknown = sorted(set(known.tolist()) - set(self.classes_.tolist()), key=str)
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
        # With alpha = .5 half of the parents vote on every case, and the classes that have more of them win.
        tags.classifier_tags.poor_score = self.hyper == Hyperparameters.paper()
        return tags


def _read_classes(y: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The classes in order, and the place among them of the class of each case."""
    labels = column_or_1d(y, warn=True)
    check_classification_targets(labels)
    encoder = LabelEncoder()
    return encoder.fit(labels).classes_, encoder.transform(labels)
