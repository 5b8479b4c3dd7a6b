"""A small fitted classifier and explanations from it, made once for all tests."""

import warnings
from functools import cache

import numpy as np
import pandas as pd

from bayespatch import Hyperparameters, PatchworkClassifier

# Constants are given, because tuning takes longer than all else.
HYPER = Hyperparameters(alpha=5 / 60, lam0=0.1, mu0=0.1)
SHORT = dict(
    chains=2, draws=30, warmup=30, random_state=0, n_jobs=1, hyper=HYPER, missing="category", second_opinion=None
)
BAD = "<script>alert(1)</script>"  # a name that must come out as text


def table(n=60, seed=0):
    """Sick people are old and in pain; the color says nothing."""
    rng = np.random.default_rng(seed)
    sick = rng.random(n) < 0.5
    X = pd.DataFrame(
        {
            "age": np.where(sick, 60, 40) + rng.integers(-8, 9, n) + 0.5,
            "pain": pd.Categorical(np.where(rng.random(n) < 0.85, sick, ~sick).astype(int), categories=[0, 1]),
            BAD: rng.choice(["red", "<b>blue</b>"], n),
            "pulse": np.where(rng.random(n) < 0.1, np.nan, rng.integers(50, 99, n)),
        },
        index=[f"patient-{k}" for k in range(n)],
    )
    X.attrs["labels"] = {"pain": {0: "none", 1: "severe & lasting"}}
    X.attrs["descriptions"] = {"age": "age in years"}
    y = pd.Series(sick.astype(int), index=X.index, name="num")
    y.attrs = {"labels": {0: "well", 1: "sick <i>"}, "description": "illness"}
    return X, y


@cache
def fitted(**settings):
    X, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PatchworkClassifier(**{**SHORT, **settings}).fit(X, y)


@cache
def explained(row=0, **settings):
    """The explanation of a case that the classifier has not seen."""
    X, _ = table(20, seed=9)
    return fitted(**settings).explain(X.iloc[row])


@cache
def without_precedent():
    """The explanation of a case unlike all others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fitted().explain({"age": 30, "pain": 1, BAD: "green", "pulse": None}, quantile=0.5)
