"""The most similar methods: KNN with extensions (``fig:comp3``) and decision trees (``fig:comd31``, ``fig:comd32``)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.tree import DecisionTreeClassifier

from study.baselines import nearest
from study.cohorts import Cohort, Fold
from study.metrics import measures
from study.parts.context import Context
from study.protocol import evaluate, predict
from study.tables import Table

Floats = NDArray[np.float64]
N_PARENTS = 80
N_NEIGHBORS = (10, 20, 30, 40)  # K of KNN, and S * alpha of our models
K_FOR_WEIGHTS = 20  # K of the KNN for comparing weights and rankings
CHOICES = ("all, equal", "all, weighted", "top 3", "top 6", "top 9")


def nearest_neighbors(context: Context) -> list[Table]:
    """KNN, KNN by distance, KNN with feature weights, and our models with the same number of neighbors."""
    scores = []
    for cohort in context.both:
        for k in N_NEIGHBORS if context.sizes.scan_all else N_NEIGHBORS[1::2]:
            weights: dict[int, Floats] = {}

            def model_two(fold: Fold, k: int = k, weights: dict[int, Floats] = weights) -> Floats:
                fitted = context.scan("II", constants=(("alpha", k / N_PARENTS),)).fit(fold)
                weights[fold.number] = fitted.feature_importances_
                return predict(fitted, fold, context.sizes)

            def weighted(fold: Fold, k: int = k, weights: dict[int, Floats] = weights) -> Floats:
                return nearest(k, fold, weights=weights[fold.number])

            methods: dict[Any, Any] = {
                ("Model I", k): context.scan("I", constants=(("alpha", k / N_PARENTS),)),
                ("Model II", k): model_two,
                ("KNN", k): partial(nearest, k),
                ("KNN, votes by distance", k): partial(nearest, k, by_distance=True),
                ("KNN, features weighted", k): weighted,
            }
            folds = cohort.folds(context.sizes.n_folds, context.seed)
            scores += evaluate(cohort, methods, folds, ("method", "neighbors"), context.tell)[0]
    return [Table.of_records("knn", "KNN, its extensions and our models: every fold", scores)]


def decision_trees(context: Context) -> list[Table]:
    """Feature rankings of Model II and of a decision tree, and KNN with the weights and rankings of each."""
    rankings, scores = [], []
    for cohort in context.both:
        for fold in cohort.folds(context.sizes.n_folds, context.seed):
            context.tell(f"{cohort.name}: fold {fold.number + 1}")
            found = {"Model II": context.scan("II").fit(fold).feature_importances_, "decision tree": _tree(fold)}
            rankings += _ranking(cohort, fold, found)
            for source, weights in found.items():
                for choice in CHOICES:
                    probability = nearest(K_FOR_WEIGHTS, fold, weights=_chosen(weights, choice))
                    base = {"cohort": cohort.name, "source": source, "choice": choice, "fold": fold.number + 1}
                    scores.append({**base, **measures(fold.y_test, probability)})
    return [
        Table.of_records("tree-ranking", "Share of importance by feature, every fold", rankings),
        Table.of_records("tree-knn", f"KNN ({K_FOR_WEIGHTS}) with weights and rankings: every fold", scores),
    ]


def _tree(fold: Fold) -> Floats:
    """Importances of a tree on the codes, one for each feature."""
    tree = DecisionTreeClassifier(random_state=fold.method_seed, min_samples_leaf=5)
    return np.asarray(tree.fit(fold.codes[0], fold.y_train).feature_importances_)


def _ranking(cohort: Cohort, fold: Fold, found: dict[str, Floats]) -> list[dict[str, Any]]:
    records = []
    for source, weights in found.items():
        ranks = rankdata(-weights, method="ordinal")
        for j, feature in enumerate(cohort.X.columns):
            base = {"cohort": cohort.name, "source": source, "fold": fold.number + 1, "feature": feature}
            records.append({**base, "share": float(weights[j] / weights.sum()), "rank": int(ranks[j])})
    return records


def _chosen(weights: Floats, choice: str) -> Floats:
    """Weights in the distance: equal, unchanged, or 1 for the first few features and 0 for the others."""
    if choice == "all, equal":
        return np.ones_like(weights)
    if choice == "all, weighted":
        return weights
    n = int(choice.removeprefix("top "))
    kept = np.zeros_like(weights)
    kept[np.argsort(-weights, kind="stable")[:n]] = 1.0
    return kept
