"""Cross-validation as in the paper: five folds, new parents in each fold, and the same folds for every method."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespatch.estimator import PatchworkClassifier
from bayespatch.model import Hyperparameters
from bayespatch.predict import PrecisionWarning, UnseenValueWarning
from bayespatch.sampling.diagnostics import MixingWarning
from study.cohorts import Cohort, Fold
from study.metrics import measures

Floats = NDArray[np.float64]
Tell = Callable[[str], object]

MODELS = ("I", "II", "III")
# Settings of our classifiers, and their names in tables.
PAPER, BALANCED, OURS = "paper", "paper, balanced parents", "our defaults"
SETTINGS = (PAPER, BALANCED, OURS)
AS_PRINTED = "as printed"  # the paper's constants and printed likelihood, with balanced parents


@dataclass(frozen=True)
class StudySizes:
    """The size of the computations: the full study, or a quick one that only shows that everything runs.

    Attributes
    ----------
    n_folds : int
        Number of folds in cross-validation.
    n_parents : int or None
        Maximum number of parents; None: the same as in the paper.
    chains, warmup, draws : int
        Chains of the classifiers in the main tables. They are short, because votes converge within a few sweeps.
    scan_warmup, scan_draws : int
        Length of the single chain of a classifier in the sensitivity analyses and on the readmission samples.
    importance_warmup, importance_draws : int
        Length of each of two chains for the importance of features, which moves slowly.
    prediction_draws : int
        Number of votes that a prediction averages.
    case_sweeps : int
        Sweeps of a chain of the Bayesian Case Model.
    readmission : int
        Patients in each readmission sample.
    scan_all : bool
        Whether sensitivity analyses use all values; if False, they use the first, the middle and the last.
    """

    n_folds: int = 5
    n_parents: int | None = None
    chains: int = 2
    warmup: int = 15
    draws: int = 30
    scan_warmup: int = 12
    scan_draws: int = 24
    importance_warmup: int = 8000
    importance_draws: int = 4000
    prediction_draws: int = 200
    case_sweeps: int = 300
    readmission: int = 500
    scan_all: bool = True


FULL = StudySizes()
QUICK = StudySizes(
    n_folds=2,
    n_parents=20,
    chains=1,
    warmup=5,
    draws=10,
    scan_warmup=4,
    scan_draws=6,
    importance_warmup=5,
    importance_draws=15,
    prediction_draws=30,
    case_sweeps=20,
    readmission=100,
    scan_all=False,
)


@dataclass(frozen=True)
class Patchwork:
    """A setting of our classifier. Calling it with a fold predicts the test cases of the fold.

    Attributes
    ----------
    setting : {"paper", "paper, balanced parents", "our defaults", "as printed"}
        The paper's constants and S random parents; the same with equal numbers of parents from each class; the defaults
        of `PatchworkClassifier()`; or balanced parents with the likelihood as printed.
    model : {"I", "II", "III"}
    supervised : bool
    sizes : StudySizes
    scan : bool
        Whether to run a single short chain, for sensitivity analyses.
    n_parents : int, optional
        Number of parents, if different from the paper.
    constants : pairs
        Hyperparameters that differ from the paper's.
    """

    setting: str
    model: str
    supervised: bool
    sizes: StudySizes
    scan: bool = False
    n_parents: int | None = None
    constants: tuple[tuple[str, float], ...] = ()

    def classifier(self, fold: Fold) -> PatchworkClassifier:
        """The unfitted classifier."""
        sizes = self.sizes
        run: dict[str, Any] = dict(chains=sizes.chains, warmup=sizes.warmup, draws=sizes.draws)
        if self.scan:
            run = dict(chains=1, warmup=sizes.scan_warmup, draws=sizes.scan_draws)
        run.update(supervised=self.supervised, random_state=fold.method_seed)
        if self.setting == OURS:
            # With fewer neighbors, sweeps are cheaper but chains converge more slowly, so run three times as many.
            longer = {name: 3 * run[name] for name in ("warmup", "draws")}
            # Without outcomes, there is nothing for importances to predict.
            importances = "predictive" if self.supervised else "joint"
            return PatchworkClassifier(model=self.model, importances=importances, **{**run, **longer})
        n_parents = self.n_parents or fold.cohort.n_parents
        if sizes.n_parents is not None:
            n_parents = max(4, n_parents * sizes.n_parents // 80)
        n_parents = min(n_parents, len(fold.train) // 2 * 2 - 2)
        return PatchworkClassifier.paper(
            self.model,
            n_parents,
            parents="random" if self.setting == PAPER else "balanced",
            likelihood="paper" if self.setting == AS_PRINTED else "exact",
            hyper=replace(Hyperparameters.paper(), **dict(self.constants)),
            **run,
        )

    def fit(self, fold: Fold) -> PatchworkClassifier:
        """The classifier, fitted to the training cases of the fold.

        In chains this short, the importances of features have not mixed, but the votes, which determine predictions,
        have.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MixingWarning)
            return self.classifier(fold).fit(fold.X_train, fold.y_train)

    def __call__(self, fold: Fold) -> Floats:
        """Probabilities of the condition for the test cases of the fold."""
        return predict(self.fit(fold), fold, self.sizes)


def predict(fitted: PatchworkClassifier, fold: Fold, sizes: StudySizes) -> Floats:
    """Probabilities of the condition for the test cases of the fold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenValueWarning)  # a rare value may occur only in the test fold
        warnings.simplefilter("ignore", PrecisionWarning)  # chains are short, so there are few draws
        return np.asarray(averaging_more(fitted, sizes).predict_proba(fold.X_test)[:, 1])


def averaging_more(fitted: PatchworkClassifier, sizes: StudySizes) -> PatchworkClassifier:
    """The same classifier, but with several draws of neighbors for each draw of the importances.

    Short chains have few draws of the importances, and an average over equally few votes would be noisy: with 40
    neighbors, a single vote has a standard deviation of 0.08. Drawing neighbors is cheap.
    """
    posterior = fitted.posterior_
    times = sizes.prediction_draws // (posterior.n_chains * posterior.n_draws)
    if times < 2:
        return fitted
    twin = copy(fitted)
    repeated = replace(
        posterior,
        q=np.repeat(posterior.q, times, axis=1),
        q_tilde=np.repeat(posterior.q_tilde, times, axis=1),
        n_neighbors=np.repeat(posterior.n_neighbors, times, axis=1),
        log_joint=np.repeat(posterior.log_joint, times, axis=1),
    )
    twin.fitted_ = replace(fitted.fitted_, posterior=repeated)
    return twin


def evaluate(
    cohort: Cohort,
    methods: Mapping[Any, Callable[[Fold], Floats | Mapping[str, Floats]]],
    folds: Iterable[Fold],
    keys: tuple[str, ...] = ("method",),
    tell: Tell = lambda line: None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Run methods over the folds of a cohort.

    Parameters
    ----------
    cohort : Cohort
    methods : dict
        Key -> method. A key is a string, or a tuple with one string for each of `keys`. If a method returns several
        results by name, the name is added to the last part of the key.
    folds : Folds
    keys : names of the columns for the parts of a key
    tell : called with a description of the current step

    Returns
    -------
    scores : records with cohort, key, fold and all measures
    predictions : records with cohort, key, fold, patient (row of the cohort), outcome and probability
    """
    scores, predictions = [], []
    folds = list(folds)
    for key, method in methods.items():
        parts = key if isinstance(key, tuple) else (key,)
        tell(f"{cohort.name}: {', '.join(map(str, parts))}")
        for fold in folds:
            result = method(fold)
            named = result if isinstance(result, Mapping) else {"": result}
            for name, probability in named.items():
                label = (*parts[:-1], f"{parts[-1]}, {name}" if name else parts[-1])
                base = {"cohort": cohort.name, **dict(zip(keys, label, strict=True)), "fold": fold.number + 1}
                scores.append({**base, **measures(fold.y_test, probability)})
                for row, outcome, p in zip(fold.test, fold.y_test, probability, strict=True):
                    predictions.append({**base, "patient": int(row), "outcome": int(outcome), "probability": float(p)})
    return scores, predictions
