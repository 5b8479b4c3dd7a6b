"""Every guard is triggered where it should be, and seldom on ordinary rows."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bayespatch import PatchworkClassifier
from bayespatch.explain import OutOfRangeWarning, warn_out_of_range
from bayespatch.explain.guards import outside
from tests.explain.fitted import BAD, SHORT, fitted, table

ROW = {"age": 44.5, "pain": "none", BAD: "red", "pulse": 70}


def kinds(why):
    return [guard.kind for guard in why.guards]


def fit(X, y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PatchworkClassifier(**{**SHORT, **settings}).fit(X, y)


@pytest.mark.parametrize("settings", [{}, {"windows": {"age": 5.0}}, {"windows": "20%"}])
def test_numbers_out_of_range_are_named_with_how_far(settings):
    X, y = table()
    clf = fit(X, y, **settings)
    high = X["age"].max()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        why = clf.explain({**ROW, "age": high + 1000})
    assert kinds(why).count("range") == 1
    assert "unseen" not in kinds(why)
    (text,) = (guard.text for guard in why.guards if guard.kind == "range")
    assert f"age in years is {high + 1000:g}" in text
    assert "by 1000" in text
    assert "range" not in kinds(clf.explain({**ROW, "age": high + 0.5}))
    assert not any(part.features["age"].marked for part in why.neighbors)
    data = why.to_dict()["case"]
    assert text in data["warnings"]
    assert data["warning_kinds"] == kinds(why)
    assert text in " ".join(why.to_text(1000).split("\n"))


def test_many_cases_warn_once():
    clf = fitted()
    limits = clf.fitted_.ranges
    X, _ = table(20, seed=9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_out_of_range(clf.schema_, clf.schema_.encode(X).values, limits, 1)
    X.loc["patient-3", "age"] = 400.0
    with pytest.warns(OutOfRangeWarning, match=r"'age' \(1 of 20 cases, such as 400") as caught:
        warn_out_of_range(clf.schema_, clf.schema_.encode(X).values, limits, 1)
    assert caught[0].filename == __file__
    assert np.isnan(limits[1]).all()  # pain is no number
    assert outside(clf.values_, limits).any() == False  # noqa: E712


def test_values_never_seen_are_named():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        why = fitted().explain({**ROW, BAD: "green"})
        gone = fitted().explain({**ROW, "age": None})
    assert f"No past case has {BAD} = green, so none can agree with it." in [guard.text for guard in why.guards]
    assert "age in years is missing, but is known for all past cases, so none can agree with it." in [
        g.text for g in gone.guards
    ]


def test_an_unusual_combination_is_named():
    why = fitted().explain({**ROW, "age": 60.5, "pulse": None}, quantile=0.9)
    assert not why.precedent.adequate
    (text,) = (guard.text for guard in why.guards if guard.kind == "combination")
    least = min((f for f in why.features if f.value != "missing"), key=lambda feature: feature.explained)
    assert f"{least.called} = {least.value}" in text
    assert "combination" not in kinds(fitted().explain(ROW, quantile=0.01))


def test_a_class_with_few_cases_is_named():
    X, y = table()
    y = y.copy()
    y.iloc[:4] = 2
    clf = fit(X, y)
    why = clf.explain(ROW)
    assert "Too few past cases had 2 (4) for reliable predictions." in [guard.text for guard in why.guards]
    assert "rare" not in kinds(fitted().explain(ROW))


def test_a_subgroup_in_which_predictions_are_worse_is_named():
    """Half of the cases follow a rule; for the other half the outcome is a coin."""
    rng = np.random.default_rng(0)
    n = 160
    X = pd.DataFrame(
        {
            "site": np.repeat(["A", "B"], n // 2),
            "sign": rng.choice(["yes", "no"], n),
            "other": rng.choice(list("abc"), n),
        }
    )
    y = np.where(X["site"] == "A", X["sign"] == "yes", rng.random(n) < 0.5).astype(int)
    clf = fit(X, y)
    groups = {group.value: group for group in clf.overview().subgroups if group.feature == "site"}
    assert groups["A"].worse is None
    assert groups["B"].worse == "accuracy"
    told = [guard.text for guard in clf.explain(["B", "yes", "a"]).guards if guard.kind == "subgroup"]
    assert any("past cases with site: B" in text for text in told)
    assert not any("site: A" in guard.text for guard in clf.explain(["A", "yes", "a"]).guards)


def test_ordinary_rows_are_left_in_peace():
    """40 new rows from where the past cases came: for each guard at most 7, the 99.9 % quantile of B(40, 5 %).

    But for subgroups: in this table the middle ages are hard to tell, and the guard says so.
    """
    X, _ = table(40, seed=9)
    found = fitted().explain_all(X, top=1)
    for kind in ("range", "unseen", "itself", "combination", "rare"):
        count = sum(kind in kinds(why) for why in found)
        assert count <= 7, [guard.text for why in found for guard in why.guards if guard.kind == kind]
