"""Cross-validation as in the paper: five folds, parents drawn anew in each, the same folds for every method."""

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
# How a classifier of ours is set up, and what it is called in tables.
PAPER, BALANCED, OURS = "paper", "paper, balanced parents", "our defaults"
SETTINGS = (PAPER, BALANCED, OURS)
AS_PRINTED = "as printed"  # the paper's constants, balanced parents, and the likelihood that it prints


@dataclass(frozen=True)
class StudySizes:
    """How much work: the full study, or the quick one that only shows that everything runs.

    Attributes
    ----------
    n_folds : int
        Folds of the cross-validations.
    n_parents : int or None
        At most so many parents; None: as many as the paper.
    chains, warmup, draws : int
        Of the classifiers in the main tables. Votes settle within a few sweeps, so these are short.
    scan_warmup, scan_draws : int
        Of the one chain of a classifier in the sensitivity analyses and on the readmission samples.
    importance_warmup, importance_draws : int
        Of each of two chains where the importance of features itself is shown, which moves slowly.
    prediction_draws : int
        Of the votes that a prediction averages.
    case_sweeps : int
        Of a chain of the Bayesian Case Model.
    readmission : int
        Patients in each readmission sample.
    scan_all : bool
        All values in the sensitivity analyses; False: the first, the middle and the last.
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
    """One way to set up our classifier; called with a fold, it predicts that fold's test cases.

    Attributes
    ----------
    setting : {"paper", "paper, balanced parents", "our defaults", "as printed"}
        The paper's constants and S random parents; the same with as many parents of each class; what
        `PatchworkClassifier()` does when nothing is said; or balanced parents with the likelihood as printed.
    model : {"I", "II", "III"}
    supervised : bool
    sizes : StudySizes
    scan : bool
        One short chain: for sensitivity analyses.
    n_parents : int, optional
        Another number of parents than the paper's.
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
        """The classifier, not yet fitted."""
        sizes = self.sizes
        run: dict[str, Any] = dict(chains=sizes.chains, warmup=sizes.warmup, draws=sizes.draws)
        if self.scan:
            run = dict(chains=1, warmup=sizes.scan_warmup, draws=sizes.scan_draws)
        run.update(supervised=self.supervised, random_state=fold.method_seed)
        if self.setting == OURS:
            # Fewer neighbors make sweeps cheap and chains slower to settle: three times as many.
            longer = {name: 3 * run[name] for name in ("warmup", "draws")}
            # Without outcomes there is nothing that importances could predict.
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
        """The classifier, fitted to the fold's training cases.

        Chains as short as these have not mixed in the importance of features; the votes, which predict, have.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MixingWarning)
            return self.classifier(fold).fit(fold.X_train, fold.y_train)

    def __call__(self, fold: Fold) -> Floats:
        """Probabilities of the condition in the fold's test cases."""
        return predict(self.fit(fold), fold, self.sizes)


def predict(fitted: PatchworkClassifier, fold: Fold, sizes: StudySizes) -> Floats:
    """Probabilities of the condition in the fold's test cases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenValueWarning)  # a rare value may lie in the test fold alone
        warnings.simplefilter("ignore", PrecisionWarning)  # chains are short, and their draws few
        return np.asarray(averaging_more(fitted, sizes).predict_proba(fold.X_test)[:, 1])


def averaging_more(fitted: PatchworkClassifier, sizes: StudySizes) -> PatchworkClassifier:
    """The same classifier, which draws neighbors several times under each draw of the importance of features.

    After short chains there are few draws of importance, and the average of as few votes would be noisy: with 40
    neighbors one draw of a vote has a standard deviation of .08. Neighbors are cheap to draw.
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
        Key -> method; a key is a string or a tuple, one string for each of `keys`. A method may return several
        results by name; then the name is added to the key's last part.
    folds : Folds
    keys : names of the columns that the parts of a key fill
    tell : called with what is being done

    Returns
    -------
    scores : records: cohort, the key, fold, all measures
    predictions : records: cohort, the key, fold, patient (row of the cohort), outcome, probability
    """
    scores, predictions = [], []
    folds = list(folds)
    for key, method in methods.items():
        parts = key if isinstance(key, tuple) else (key,)
        tell(f"{cohort.name}: {', '.join(map(str, parts))}")
        for fold in folds:
            found = method(fold)
            named = found if isinstance(found, Mapping) else {"": found}
            for name, probability in named.items():
                label = (*parts[:-1], f"{parts[-1]}, {name}" if name else parts[-1])
                base = {"cohort": cohort.name, **dict(zip(keys, label, strict=True)), "fold": fold.number + 1}
                scores.append({**base, **measures(fold.y_test, probability)})
                for row, outcome, p in zip(fold.test, fold.y_test, probability, strict=True):
                    predictions.append({**base, "patient": int(row), "outcome": int(outcome), "probability": float(p)})
    return scores, predictions
