"""Small tables to fit, and short fits."""

import warnings
from functools import cache

import numpy as np
import pandas as pd

from bayespatch import PatchworkClassifier
from bayespatch.datasets import load_heart

SHORT = dict(chains=2, draws=10, warmup=10, error=0.1)
LONGER = dict(draws=30, warmup=30, error=0.01)  # where probabilities are judged
TINY = dict(chains=1, draws=5, warmup=5, random_state=0)

X = pd.DataFrame({"pain": ["yes", "yes", "no", "no"] * 6, "age": [61, 58, 40, 44] * 6, "smokes": [True, False] * 12})
Y = np.array(["sick", "sick", "well", "well"] * 6)


def heart(n=None):
    table, y = load_heart()
    order = np.random.default_rng(0).permutation(len(table))[:n]
    return table.iloc[order].reset_index(drop=True), y.iloc[order].to_numpy()


def quietly(task):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return task()


def fit(table=X, y=Y, **settings):
    return quietly(lambda: PatchworkClassifier(**{**SHORT, "random_state": 0, **settings}).fit(table, y))


@cache
def fitted():
    """The classifier of this table, for tests that only ask it: it is fitted once, and left as it is."""
    return fit()
