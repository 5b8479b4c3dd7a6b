"""A scikit-learn pipeline with a grid search: compare the model's automatic settings with settings from a grid.

``python examples/pipeline.py``; ``--quick`` uses few patients and short chains for a quick test.
"""

from __future__ import annotations

import argparse

import pandas as pd
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import bayespatch
from bayespatch import Hyperparameters


def main() -> None:
    options = parse_options()
    settings = {"chains": 1, "draws": 10, "warmup": 10} if options.quick else {"chains": 2, "draws": 100, "warmup": 100}
    X, y = bayespatch.datasets.load_breast()
    if options.quick:
        X, y = X.iloc[::4], y.iloc[::4]

    pipeline = Pipeline(
        [
            ("columns", FunctionTransformer(without_side)),
            ("patchwork", bayespatch.PatchworkClassifier(random_state=0, **settings)),
        ]
    )
    grid = {
        "patchwork__hyper": ["auto", Hyperparameters(alpha=5 / len(X))],  # tuned automatically in each fold, or fixed
        "patchwork__missing": ["category", "ignore"],
    }
    folds = StratifiedKFold(2 if options.quick else 5, shuffle=True, random_state=0)
    search = GridSearchCV(pipeline, grid, scoring="neg_log_loss", cv=folds, error_score="raise").fit(X, y)

    table = pd.DataFrame(search.cv_results_["params"]).assign(log_loss=-search.cv_results_["mean_test_score"])
    table["patchwork__hyper"] = [h if isinstance(h, str) else f"alpha={h.alpha:.3f}" for h in table["patchwork__hyper"]]
    print(table.sort_values("log_loss").to_string(index=False))

    best = search.best_estimator_
    print(best[-1].explain(best[0].transform(X.iloc[:1])))


def without_side(X: pd.DataFrame) -> pd.DataFrame:
    """Drop a column that should not make patients similar."""
    return X.drop(columns="breast")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few patients and short chains, for a quick test")
    return parser.parse_args()


if __name__ == "__main__":
    main()
