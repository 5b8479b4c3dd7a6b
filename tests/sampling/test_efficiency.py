"""The normal approximation of the importances is held against their exact posterior, so the diagnostics can fail."""

import numpy as np
import pytest

import bayespatch
from bayespatch import Hyperparameters, PatchworkClassifier
from bayespatch.importances_at_scale import LeaveOneOutBatches
from bayespatch.model import Data, Model
from bayespatch.sampling.diagnostics import MIN_EFFICIENCY
from tests.persistence.fitted import SHORT


@pytest.fixture(scope="module")
def density():
    rng = np.random.default_rng(0)
    x = rng.integers(3, size=(400, 3)).astype(float)
    y = (x[:, 0] + rng.integers(2, size=400) > 1).astype(int)
    past = Data(x, y, x, y, np.full(3, 3.0), 2, np.zeros(3), np.arange(400))
    return LeaveOneOutBatches(past, Model(), np.bincount(y) / 400)


def test_the_approximation_is_good_where_there_are_many_cases(density):
    found = density.learn(seed=0)
    assert density.efficiency(found, seed=0) > 0.5


@pytest.mark.parametrize("scale", [0.1, 8.0])
def test_a_wrong_covariance_is_found(density, scale):
    found = density.learn(seed=0)
    wrong = found._replace(factor=scale * found.factor)
    assert density.efficiency(wrong, seed=0) < 0.5 * density.efficiency(found, seed=0)


def test_a_wrong_mode_is_found(density):
    found = density.learn(seed=0)
    wrong = found._replace(mode=found.mode + 5.0 * found.factor.sum(axis=1))
    assert density.efficiency(wrong, seed=0) < MIN_EFFICIENCY


def test_the_diagnostics_say_so(tmp_path):
    from dataclasses import replace

    X = np.random.default_rng(0).integers(3, size=(40, 2)).tolist()
    clf = PatchworkClassifier(hyper=Hyperparameters(), **{**SHORT, "draws": 150}).fit(X, [str(row[0]) for row in X])
    assert 0.0 < clf.diagnostics_.efficiency <= 1.0
    assert "reweighted to the exact posterior" in str(clf.diagnostics_)
    clf.save(tmp_path / "model.bpatch")
    assert bayespatch.load(tmp_path / "model.bpatch").diagnostics_.efficiency == clf.diagnostics_.efficiency
    rough = replace(clf.posterior_, efficiency=np.array([0.02])).diagnostics()
    assert (rough.converged, rough.verdict) == (False, "rough")
    assert "Pass votes='sampled'" in rough.warning()
