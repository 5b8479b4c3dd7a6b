"""The paper's figures, drawn from the tables of the study."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from study.figures.canvas import COHORTS, Tables, check_matplotlib, to_png
from study.figures.comparisons import bcm, knn, sensitivity_to, time_per_sweep, tree_knn, tree_ranking
from study.figures.people import importance, patients_of, probabilities, ranked_features, sample_patient

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PICTURES", "Picture", "check_matplotlib", "to_png"]


class Picture(NamedTuple):
    """A figure: file, caption, required tables, and function that draws it."""

    name: str
    caption: str
    needs: tuple[str, ...]
    draw: Callable[[Tables], Figure]


PROBABILITIES = tuple(f"{cohort}-probabilities" for cohort in COHORTS)
OTHERS = tuple(f"{cohort}-others-folds" for cohort in COHORTS)
PICTURES = (
    Picture(
        "probabilities",
        "Estimated probability of the condition (Model II, supervised); dashed: the threshold",
        PROBABILITIES,
        probabilities,
    ),
    Picture(
        "patients-heart",
        "Four patients and their most influential parents (Model II), in codes of tab:heart; red: agrees and matters",
        ("patients",),
        patients_of("heart"),
    ),
    Picture("patients-breast", "The same for the breast cancer data", ("patients",), patients_of("breast")),
    Picture(
        "importance",
        "Importance of features, unsupervised Model II: 5%, 25%, 50%, 75% and 95% quantiles of the draws",
        ("importance",),
        importance,
    ),
    Picture(
        "ranked-features",
        "Accuracy and AUC by ranked features (Model II, unsupervised); bars: standard error over folds",
        ("ranked-features",),
        ranked_features,
    ),
    Picture(
        "sensitivity-parents",
        "Models I and II with different numbers of parents",
        ("sensitivity-parents",),
        sensitivity_to("parents", "parents, S"),
    ),
    Picture(
        "sensitivity-alpha",
        "Models I and II with different values of alpha",
        ("sensitivity-alpha",),
        sensitivity_to("alpha", "alpha"),
    ),
    Picture(
        "sensitivity-shape",
        "Models I and II with different priors of importance",
        ("sensitivity-shape",),
        sensitivity_to("shape", "(gamma, sigma1)"),
    ),
    Picture(
        "sensitivity-rest",
        "Models I and II with one of the other constants changed",
        ("sensitivity-rest",),
        sensitivity_to("rest", ""),
    ),
    Picture("knn", "KNN, its two extensions, and our models with the same number of neighbors", ("knn",), knn),
    Picture(
        "bcm",
        "Our models by S, compared with BCM (logistic regression on its mixtures)",
        ("sensitivity-parents", *OTHERS),
        bcm,
    ),
    Picture(
        "sample-patient",
        "The patient of fig:sample1 with prototypes of BCM and parents of Model II; red: agrees and matters",
        ("sample-patient",),
        sample_patient,
    ),
    Picture(
        "tree-ranking", "Share of importance by feature: Model II and a decision tree", ("tree-ranking",), tree_ranking
    ),
    Picture(
        "tree-knn", "KNN with the weights and rankings of Model II and of a decision tree", ("tree-knn",), tree_knn
    ),
    Picture("time", "Time per sweep by S and P", ("time",), time_per_sweep),
)
