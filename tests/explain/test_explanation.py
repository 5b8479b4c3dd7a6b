import json

import numpy as np
import pandas as pd
import pytest

from bayespatch import Explanation
from tests.explain.fitted import BAD, explained

KEYS = {  # fixed: other programs rely on them
    "case": {"id", "values"},
    "prediction": {"class", "probabilities", "intervals", "votes"},
    "precedent": {"adequate", "percentile"},
    "stability": {"overlap"},
}
NEIGHBOR = {"index", "id", "outcome", "probability", "influence", "vote_share", "reliance", "features"}
FEATURE = {"name", "value", "importance", "explained", "neighbors"}


def test_the_keys_that_other_programs_rely_on():
    data = explained().to_dict()
    assert isinstance(explained(), Explanation)
    for part, keys in KEYS.items():
        assert keys <= set(data[part])
    assert data["neighbors"]
    for neighbor in [*data["neighbors"], *data["dissenting"]]:
        assert set(neighbor) >= NEIGHBOR
        assert list(neighbor["features"]) == ["age", "pain", BAD, "pulse"]
        assert all(set(patch) == {"value", "agrees", "matters"} for patch in neighbor["features"].values())
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


def test_neighbors_are_ranked_and_the_dissenting_ones_dissent():
    why = explained()
    influence = [neighbor.influence for neighbor in why.neighbors]
    assert influence == sorted(influence, reverse=True)
    assert why.dissenting
    assert all(other.dissents and other.outcome != why.predicted for other in why.dissenting)
    assert all(neighbor.dissents == (neighbor.outcome != why.predicted) for neighbor in why.shown)
    indices = [neighbor.index for neighbor in why.shown]
    assert len(set(indices)) == len(indices)


def test_features_name_the_neighbors_that_explain_them():
    why = explained()
    by_index = {neighbor.index: neighbor for neighbor in why.shown}
    for feature in why.features:
        marked = {index for index, neighbor in by_index.items() if neighbor.features[feature.name].marked}
        assert set(feature.neighbors) == marked
        assert feature.value == why.values[feature.name]


def test_the_frame_has_a_row_for_each_neighbor_and_feature():
    why = explained()
    frame = why.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == len(why.shown) * len(why.features)
    first = frame.iloc[0]
    assert first["feature"] == "age"
    assert first["value"] == why.shown[0].features["age"].value
    assert np.isclose(first["influence"], why.shown[0].influence)
