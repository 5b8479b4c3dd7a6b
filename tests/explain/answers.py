"""Explanations of every kind as plain data, made once for the tests of what renders them."""

import copy
import warnings
from functools import cache

import numpy as np
import pandas as pd

from bayespatch import PatchworkClassifier, PatchworkRegressor
from bayespatch.encode.table import read_table
from bayespatch.follow_up import FollowUp, FollowUpColumn, follow_up_roles
from tests.explain.fitted import BAD, SHORT, explained, fitted, table, without_precedent

KINDS = ("two", "alone", "odd", "classes", "number", "few", "unattributed", "nobody", "followed")
FOLLOW_UP_KINDS = {"treatment <b>": "treatment", "days": ("time", "relapse"), "stay": "number", "ward": "category"}


@cache
def follow_up():
    """Summaries of every kind, one of them suppressed in part."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "treatment <b>": rng.choice(["drug <i>", "none", "rare"], 200, p=[0.4, 0.57, 0.03]),
            "days": rng.exponential(500.0, 200),
            "relapse": rng.random(200) < 0.6,
            "stay": rng.integers(2, 20, 200),
            "ward": rng.choice(["A", "B <b>"], 200),
        }
    )
    table.attrs = {"units": {"days": "days"}, "descriptions": {"stay": "length of stay"}}
    recorded = FollowUp.learn(read_table(table), follow_up_roles(FOLLOW_UP_KINDS))
    y, empty = rng.integers(0, 2, 200).astype(float), np.empty(0, np.int64)
    outcome = FollowUpColumn("outcome", "category", "", "", "", ("well", "sick"), y, empty)
    return recorded.summaries(rng.exponential(size=200), 0.9, outcome)


@cache
def _several_classes():
    X, y = table()
    kinds = np.where(X["age"] > 62, "old", np.where(y == 1, "sick <i>", "well"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PatchworkClassifier(**SHORT).fit(X, kinds)


@cache
def _numbers():
    X, _ = table()
    cost = X["age"].to_numpy() * 10 + np.random.default_rng(1).normal(0, 20, len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PatchworkRegressor(**SHORT).fit(X, cost)


@cache
def _answer(kind):
    case = table(20, seed=9)[0].iloc[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind in ("two", "followed", "few"):
            clf = fitted(second_opinion="auto")
            known = {"age": 61.5, "pain": None, BAD: None, "pulse": None} if kind == "few" else case
            return clf.explain(known, top=5).to_dict()
        if kind == "odd":
            return without_precedent().to_dict()
        if kind in ("classes", "number"):
            return (_several_classes() if kind == "classes" else _numbers()).explain(case, top=5).to_dict()
        return explained().to_dict()


def answer(kind="two"):
    """An explanation of this kind, which the caller may change."""
    why = copy.deepcopy(_answer(kind))
    if kind == "unattributed":
        why["attribution"] = None
    if kind == "nobody":
        why |= {"groups": [], "neighbors": [], "attribution": None}
    if kind == "followed":
        why["follow_up"] = copy.deepcopy(follow_up())
    return why
