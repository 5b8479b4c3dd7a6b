import numpy as np
import pytest

from study.bcm import CaseModel, fit_cases, log_joint, start
from study.tests.bcm.enumerated_cases import sequence_probability


def two_kinds(n=40, seed=0):
    """Cases of two kinds that differ in the first four of six features; the last two are noise."""
    rng = np.random.default_rng(seed)
    kind = np.arange(n) % 2
    x = np.where(rng.random((n, 6)) < 0.05, rng.integers(2, size=(n, 6)), kind[:, None])
    x[:, 4:] = rng.integers(2, size=(n, 2))
    return x, kind


def test_log_joint_is_the_product_of_predictive_probabilities():
    rng = np.random.default_rng(1)
    x, n_values = rng.integers(2, size=(5, 3)), np.array([2, 3, 2])
    model = CaseModel(n_clusters=2, alpha=0.3, base=0.7, boost=5.0, relevance=0.6)
    state = start(x, model, rng)
    expected = -2 * np.log(5)
    for row in state.assignments:
        expected += np.log(sequence_probability(row, [0.15, 0.15]))
    for s in range(2):
        for j in range(3):
            on = state.subspaces[s, j]
            expected += np.log(0.6 if on else 0.4)
            pseudo = [0.7 * (1 + 5.0 * (on and x[state.prototypes[s], j] == v)) for v in range(n_values[j])]
            expected += np.log(sequence_probability(x[state.assignments[:, j] == s, j], pseudo))
    assert log_joint(state, x, n_values, model) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_clusters_that_are_there_are_found(alpha):
    x, kind = two_kinds()
    fitted = fit_cases(x, np.full(6, 2), CaseModel(2, alpha), np.random.default_rng(0), n_sweeps=150)
    new, kind_of_new = two_kinds(n=30, seed=5)
    mixtures = fitted.mixtures(new, np.random.default_rng(1))
    np.testing.assert_allclose(mixtures.sum(axis=1), 1.0)
    agreement = (mixtures.argmax(axis=1) == kind_of_new).mean()
    assert max(agreement, 1 - agreement) > 0.9
    assert {int(kind[row]) for row in fitted.state.prototypes} == {0, 1}


def test_the_same_generator_gives_the_same_chain():
    x, _ = two_kinds()
    runs = [fit_cases(x, np.full(6, 2), CaseModel(3, 0.1), np.random.default_rng(4), n_sweeps=20) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].log_joint, runs[1].log_joint)
    mixtures = [run.mixtures(x, np.random.default_rng(2)) for run in runs]
    np.testing.assert_array_equal(*mixtures)


def test_a_small_alpha_keeps_a_case_to_few_clusters():
    x, _ = two_kinds()
    largest = {}
    for alpha in (0.01, 5.0):
        fitted = fit_cases(x, np.full(6, 2), CaseModel(4, alpha), np.random.default_rng(0), n_sweeps=100)
        largest[alpha] = fitted.mixtures(x, np.random.default_rng(1)).max(axis=1).mean()
    assert largest[0.01] > 0.9 > largest[5.0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(n_clusters=0, alpha=1.0), "n_clusters=0 is too small"),
        (dict(n_clusters=2, alpha=0.0), "alpha=0.0 is not positive"),
        (dict(n_clusters=2, alpha=1.0, relevance=1.0), "relevance=1.0 is not a probability"),
    ],
)
def test_bad_constants_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        CaseModel(**settings)
