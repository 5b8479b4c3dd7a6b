"""From values to terms."""

import json

import numpy as np
import pytest

from bayespatch.encode import MISSING_NUMBER, Schema
from bayespatch.second_opinion.design import Design, spline
from tests.second_opinion.tables import clinic, coded


def learned(missing="category", share=0.1, **parts):
    rows, _, _ = clinic(missing=share, **parts)
    schema, values = coded(rows, missing)
    return schema, values, Design.learn(schema, values)


@pytest.mark.parametrize("missing", ["category", "ignore"])
def test_terms_have_mean_zero_over_what_is_known(missing):
    _, values, design = learned(missing)
    terms = design.matrix(values)
    for j in range(4):
        there = terms.presence[:, j] > 0
        means = terms.x[there][:, design.feature == j].mean(axis=0)
        # Under "category" the line is centered over the known rows and 0 at the missing ones: 0 over both.
        assert np.abs(means).max() < 1e-12


def test_a_neutral_value_is_zero():
    schema, _, design = learned("ignore")
    nothing = design.matrix(np.full((1, 4), np.nan))
    assert not nothing.x.any()
    assert not nothing.presence.any()
    stranger = schema.encode([[60, 1.0, 2.0, "unknown"]]).values
    found = design.matrix(stranger)
    assert not found.x[0, design.feature == 3].any()
    np.testing.assert_array_equal(found.presence, [[1, 1, 1, 0]])


def test_missing_counts_as_a_value_where_the_schema_says_so():
    schema, values, design = learned("category")
    found = design.matrix(schema.encode([[None, 1.0, 2.0, "male"]]).values)
    own = found.x[0, design.feature == 0]
    kinds = design.terms[0].kinds
    assert own[:-1].tolist() == [0.0] * (len(kinds) - 1)  # the number at its mean
    assert own[-1] == pytest.approx(1 - np.isnan(values[:, 0]).mean())
    assert found.presence[0, 0] == 1.0


def test_a_row_sparser_than_all_before_counts_in_proportion():
    schema, _, design = learned("category", share=0.05)
    assert design.least_known == 2
    found = design.matrix(schema.encode([[None, None, None, "male"], [None, None, 2.0, "male"], [None] * 4]).values)
    np.testing.assert_array_equal(found.presence, [[0.5, 0.5, 0.5, 1.0], [1.0] * 4, [0.0] * 4])


def test_a_number_far_away_counts_as_the_last_one_seen():
    schema, values, design = learned(share=0.0)
    most = values[:, 1].max()
    near, far = (design.matrix(schema.encode([[60, number, 2.0, "male"]]).values).x for number in (most, 1600.0))
    np.testing.assert_array_equal(near, far)


def test_windowed_numbers_are_numbers():
    rows, _, _ = clinic(missing=0.1)
    schema = Schema.learn(rows, windows={"x1": 0.5})
    values = schema.encode(rows).values
    assert (values[:, 1] == MISSING_NUMBER).any()
    plain = Design.learn(*coded(rows)).matrix(coded(rows)[1]).x
    np.testing.assert_allclose(Design.learn(schema, values).matrix(values).x, plain, atol=1e-12)


def test_curvature_is_what_a_line_does_not_say():
    _, values, design = learned(share=0.0)
    x = design.matrix(values).x[:, design.feature == 1]
    np.testing.assert_allclose(x.T @ x / len(x), np.eye(x.shape[1]), atol=1e-9)  # line and curves: variance 1, apart


def test_spline_is_straight_beyond_its_knots():
    at = np.array([-30.0, -20.0, -10.0, 10.0, 20.0, 30.0])
    bent = spline(at, (-1.0, 0.0, 0.5, 2.0))
    np.testing.assert_allclose(bent[0] - bent[1], bent[1] - bent[2], atol=1e-9)
    np.testing.assert_allclose(bent[3] - bent[4], bent[4] - bent[5], rtol=1e-9)
    inside = spline(np.linspace(-1, 2, 400), (-1.0, 0.0, 0.5, 2.0))
    assert np.abs(np.diff(inside, n=3, axis=0)).max() > 0
    assert np.abs(np.diff(inside, n=2, axis=0)).max() < 1e-4  # no jumps in the slope: steps of 1/133


def test_rare_levels_are_taken_together():
    rng = np.random.default_rng(0)
    ward = [f"w{k}" for k in np.minimum(rng.geometric(0.03, 2000), 90)]
    schema, values = coded([[w] for w in ward])
    design = Design.learn(schema, values)
    seen = len(set(ward))
    assert seen > 60
    assert len(design.terms[0].levels) == 50
    assert len(design.terms[0].others) == seen - 50
    assert design.matrix(values).x.shape[1] == 51


@pytest.mark.parametrize("missing", ["category", "ignore"])
def test_stored_and_restored(missing):
    _, values, design = learned(missing)
    restored = Design.from_dict(json.loads(json.dumps(design.to_dict())))
    assert restored == design
    np.testing.assert_array_equal(restored.matrix(values).x, design.matrix(values).x)


@pytest.mark.parametrize("data", [None, {}, {"terms": [{}], "least_known": 1}, {"terms": [], "least_known": "1"}])
def test_what_is_no_design_is_refused(data):
    with pytest.raises(ValueError, match="save the model again"):
        Design.from_dict(data)
