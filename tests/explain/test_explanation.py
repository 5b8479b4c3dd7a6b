import json

import numpy as np
import pandas as pd
import pytest

from bayespatch import Explanation
from tests.explain.fitted import BAD, explained, fitted

KEYS = {  # fixed: other programs rely on them
    "case": {"id", "values", "warnings"},
    "prediction": {"class", "probabilities", "intervals", "votes", "error", "like_this"},
    "precedent": {"adequate", "percentile"},
    "stability": {"overlap"},
}
NEIGHBOR = {"index", "id", "outcome", "probability", "influence", "vote_share", "reliance", "features"}
EXEMPLAR = {"index", "id", "outcome", "stands_for", "vote_share", "features"}
FEATURE = {"name", "value", "importance", "importance_interval", "explained", "neighbors"}
PATCH = {"value", "agrees", "matters"}


def test_the_keys_that_other_programs_rely_on():
    data = explained().to_dict()
    assert isinstance(explained(), Explanation)
    for part, keys in KEYS.items():
        assert keys <= set(data[part])
    assert data["neighbors"]
    assert data["opinions"] is None
    assert set(data["prediction"]["like_this"]) >= {"low", "high", "n", "n_class"}
    assert data["base_rates"] == data["vote_shares"]["base_rates"]
    for keys, parts in ((NEIGHBOR, [*data["neighbors"], *data["contradicting"]]), (EXEMPLAR, data["exemplars"])):
        assert parts
        for part in parts:
            assert set(part) >= keys
            assert list(part["features"]) == ["age", "pain", BAD, "pulse"]
            assert all(set(patch) >= PATCH for patch in part["features"].values())
    assert all(set(feature) >= FEATURE for feature in data["features"])


@pytest.mark.parametrize("model", ["I", "II", "III"])
def test_it_goes_through_json_and_back(model):
    data = explained(model=model).to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data


@pytest.mark.parametrize("model", ["I", "II", "III"])
def test_numbers_add_up(model):
    why = explained(model=model)
    assert sum(why.probabilities.values()) == pytest.approx(1)
    assert sum(why.votes.values()) == pytest.approx(1)
    assert sum(why.to_dict()["vote_shares"].values()) == pytest.approx(1, abs=1e-6)
    for name, p in why.probabilities.items():
        low, high = why.intervals[name]
        assert 0 <= low <= high <= 1
        least, most = why.stability.probabilities[name]
        assert least - 1e-9 <= p <= most + 1e-9 or least == pytest.approx(most)
    assert 0 < why.precedent.percentile <= 1


def test_exemplars_and_base_rates_are_all_votes():
    why = explained()
    data = why.to_dict()
    assert data["vote_shares"]["exemplars"] == pytest.approx(sum(part.vote_share for part in why.exemplars))
    for name, by in data["tally"].items():
        assert sum(by.values()) == pytest.approx(why.votes[name], abs=1e-6)
        crowds = sum(part.vote_share for part in why.exemplars if part.label == name)
        assert by["exemplars"] == pytest.approx(crowds, abs=1e-6)
    assert data["vote_shares"]["others"] <= 0.1
    shares = [part.vote_share for part in why.exemplars]
    assert shares == sorted(shares, reverse=True)
    members = [member.index for part in why.exemplars for member in part.members]
    assert len(set(members)) == len(members)
    for part in why.exemplars:
        assert part.stands_for == len(part.members)
        assert part.index in [member.index for member in part.members]
        assert sum(member.vote_share for member in part.members) == pytest.approx(part.vote_share)
        assert all(member.outcome == part.outcome for member in part.members)
        assert part.supports == (part.outcome == why.predicted)
    assert why.distances.to_exemplar < why.distances.between_voters


def test_neighbors_are_ranked_and_the_contradicting_ones_contradict():
    why = explained()
    influence = [neighbor.influence for neighbor in why.neighbors]
    assert influence == sorted(influence, reverse=True)
    assert why.contradicting
    assert all(not other.supports and other.outcome != why.predicted for other in why.contradicting)
    assert all(neighbor.supports == (neighbor.outcome == why.predicted) for neighbor in why.shown)
    indices = [neighbor.index for neighbor in why.shown]
    assert len(set(indices)) == len(indices)


def test_features_name_those_who_agree_in_them():
    why = explained()
    for feature in why.features:
        for named, shown in ((feature.neighbors, why.shown), (feature.exemplars, why.exemplars)):
            agree = {part.index for part in shown if part.features[feature.name].comparison in ("same", "close")}
            assert set(named) == agree
        assert feature.value == why.values[feature.name]
        low, high = feature.importance_interval
        assert low <= feature.importance <= high


def test_importances_are_those_of_the_model():
    clf, why = fitted(), explained()
    np.testing.assert_allclose([feature.importance for feature in why.features], clf.feature_importances_)
    found = [feature.importance_interval for feature in why.features]
    np.testing.assert_allclose(found, clf.fitted_.importance.intervals)


def test_the_frame_has_a_row_for_each_past_case_and_feature():
    why = explained()
    frame = why.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == (len(why.exemplars) + len(why.shown)) * len(why.features)
    first = frame.iloc[0]
    assert (first["shown"], first["feature"]) == ("exemplar", "age")
    assert first["value"] == why.exemplars[0].features["age"].value
    assert np.isclose(first["vote_share"], why.exemplars[0].vote_share)
