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
TOP_LEVEL = {*KEYS, "attribution", "opinions", "groups", "base_rates", "neighbors", "features", "follow_up"}
NEIGHBOR = {"index", "id", "outcome", "probability", "influence", "vote_share", "reliance", "features"}
FEATURE = {"name", "value", "importance", "importance_interval", "explained", "neighbors"}
PATCH = {"value", "agrees", "matters", "marked"}


def test_the_keys_that_other_programs_rely_on():
    data = explained().to_dict()
    assert isinstance(explained(), Explanation)
    assert set(data) >= TOP_LEVEL
    for part, keys in KEYS.items():
        assert keys <= set(data[part])
    assert data["neighbors"]
    assert data["opinions"] is None
    assert set(data["prediction"]["like_this"]) >= {"low", "high", "n", "n_class"}
    assert len(data["neighbors"]) == 5
    for part in data["neighbors"]:
        assert set(part) == NEIGHBOR
        assert list(part["features"]) == ["age", "pain", BAD, "pulse"]
        assert all(set(patch) == PATCH for patch in part["features"].values())
    assert all(set(feature) >= FEATURE for feature in data["features"])
    gone = {"exemplars", "tally", "distances", "vote_shares", "contradicting", "reliance_class"}
    assert not gone & set(data)


@pytest.mark.parametrize("model", ["I", "II", "III"])
def test_it_goes_through_json_and_back(model):
    data = explained(model=model).to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data


@pytest.mark.parametrize("model", ["I", "II", "III"])
def test_numbers_add_up(model):
    why = explained(model=model)
    assert sum(why.probabilities.values()) == pytest.approx(1)
    assert sum(why.votes.values()) == pytest.approx(1)
    shares = [*(group.vote_share for group in why.groups), why.ungrouped.vote_share, why.base_rates]
    assert sum(shares) == pytest.approx(1, abs=1e-6)
    for low, high in why.intervals.values():
        assert 0 <= low <= high <= 1
    assert 0 < why.precedent.percentile <= 1


def test_neighbors_are_ranked():
    influence = [neighbor.influence for neighbor in explained().neighbors]
    assert influence == sorted(influence, reverse=True)


def test_features_name_those_who_agree_in_them():
    why = explained()
    for feature in why.features:
        assert feature.neighbors == tuple(one.index for one in why.neighbors if one.features[feature.name].agrees)
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
    assert len(frame) == len(why.neighbors) * len(why.features)
    first = frame.iloc[0]
    assert first["feature"] == "age"
    assert first["value"] == why.neighbors[0].features["age"].value
    assert np.isclose(first["vote_share"], why.neighbors[0].vote_share)
