"""Small fitted estimators, one of each sort."""

import warnings

import numpy as np
import pandas

from bayespatch import Hyperparameters, PatchworkClassifier, PatchworkRegressor

SHORT = dict(chains=2, draws=6, warmup=4, random_state=0, n_jobs=1, error=0.05)
JOINT = {**SHORT, "importances": "joint"}


def fit(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y)


def table(n=24, seed=0):
    """Texts, categories, booleans, numbers, missing values."""
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "pain": rng.choice(["none", "some", "Schmerz ☹"], n),
            "stage": pandas.Categorical(rng.choice(["low", "high"], n), ["low", "mid", "high"], ordered=True),
            "smokes": rng.random(n) < 0.5,
            "age": np.where(rng.random(n) < 0.2, np.nan, rng.integers(30, 80, n) + 0.5),
            "chol": rng.normal(230, 40, n),
        }
    )


def classes(values, n=24, seed=1):
    return np.random.default_rng(seed).permutation(np.resize(np.array(values), n))


def tiny():
    """The smallest that has both texts and numbers: damaged thousands of times."""
    X = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 2
    return fit(PatchworkClassifier(**{**SHORT, "draws": 3}), X, ["sick", "sick", "well", "well"] * 2)


def tiny_regressor():
    X = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 2
    return fit(PatchworkRegressor(**{**SHORT, "draws": 3}), X, [7.5, 6.0, 1.0, 2.0, 7.0, 6.5, 1.5, 2.0])


X, Y = table(), classes(["sick", "well"])
NUMBERS = np.random.default_rng(5).normal(100, 15, 24)
REGRESSORS = {
    "numbers": (PatchworkRegressor(**SHORT), X, NUMBERS),
    "whole numbers": (PatchworkRegressor(model="II", n_outcome_bins=2, **SHORT), X, NUMBERS.astype(int)),
    "one number": (PatchworkRegressor(transductive=True, parents=8, **SHORT), X, np.full(24, 3.0)),
    "an array": (PatchworkRegressor(windows=1.0, **SHORT), X[["age", "chol"]].fillna(0).to_numpy(), NUMBERS),
}
FRAMES = {
    "model I": (PatchworkClassifier(**SHORT), X, Y),
    "model II": (PatchworkClassifier(model="II", **SHORT), X, Y),
    "model III, windows": (
        PatchworkClassifier(model="III", windows={"chol": 20}, bins={"age": [45, 55]}, **SHORT),
        X,
        Y,
    ),
    "ranks": (PatchworkClassifier(windows="10%", **SHORT), X, Y),
    "one in ranks": (PatchworkClassifier(windows={"age": "12.5%", "chol": 20}, missing="ignore", **SHORT), X, Y),
    "paper": (PatchworkClassifier.paper("II", n_parents=9, likelihood="paper", **SHORT), X, Y),
    "missing ignored": (PatchworkClassifier(missing="ignore", bins={None: ("uniform", 3)}, **SHORT), X, Y),
    "transductive": (PatchworkClassifier(transductive=True, parents=8, **SHORT), X, Y),
    "unsupervised": (PatchworkClassifier(supervised=False, parents="medoids", n_parents=0.5, **JOINT), X, Y),
    "given parents": (PatchworkClassifier(parents=np.array([2, 5, 11]), engine="paper", **JOINT), X, Y),
    "mask": (PatchworkClassifier(parents=np.arange(24) % 2 == 0, categorical=["chol"], **SHORT), X, Y),
    "array": (PatchworkClassifier(bins={"x0": [0.0]}, **SHORT), X[["age", "chol"]].fillna(0).to_numpy(), Y),
    "integers": (PatchworkClassifier(class_weight={0: 1.0, 7: 2.5}, **SHORT), X, classes([0, 7])),
    "unsigned": (PatchworkClassifier(**SHORT), X, classes([1, 2, 3]).astype(np.uint8)),
    "booleans": (PatchworkClassifier(class_weight="balanced", **SHORT), X, classes([False, True])),
    "floats": (PatchworkClassifier(**SHORT), X, classes([0.0, 1.0])),
    "objects": (PatchworkClassifier(**SHORT), X, classes(["é", "z"]).astype(object)),
    "wide texts": (PatchworkClassifier(**SHORT), X, Y.astype("U40")),
    "series": (PatchworkClassifier(**SHORT), X, pandas.Series(Y, dtype="category")),
    "precedents alone": (PatchworkClassifier(second_opinion=None, **SHORT), X, Y),
    "hyper": (PatchworkClassifier(hyper=Hyperparameters(alpha=0.3, mu=(1.0, 2.0)), **SHORT), X, Y),
}
