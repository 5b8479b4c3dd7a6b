"""What a value is worth is what the prediction would lose without it."""

import numpy as np
import pytest

from bayespatch import PatchworkClassifier, datasets
from tests.explain.fitted import fitted, table

X, _ = table()


@pytest.mark.parametrize("settings", [{}, {"missing": "ignore"}, {"second_opinion": None}])
def test_worth_is_the_change_that_setting_the_value_to_missing_makes(settings):
    clf = fitted(**settings)
    for row in (0, 7):
        why = clf.explain(X.iloc[row], exclude_self=False)
        for feature in why.features:
            other = X.iloc[[row]].copy()
            if why.values[feature.name] == "missing":
                continue
            other[feature.name] = other[feature.name].astype(object)
            other.loc[other.index[0], feature.name] = None
            without = clf.predict_proba(other)[0, -1]
            assert feature.worth == pytest.approx(clf.predict_proba(X.iloc[[row]])[0, -1] - without, abs=1e-9)


def test_a_past_case_does_not_vote_on_itself_without_a_value_either():
    X, y = datasets.load_heart()
    clf = PatchworkClassifier(chains=2, draws=24, random_state=0).fit(X, y)
    why = clf.explain_past(3, known=False)
    assert np.abs([feature.worth for feature in why.features]).max() < 0.6
    assert sum(abs(feature.worth) for feature in why.features) > 0.01
