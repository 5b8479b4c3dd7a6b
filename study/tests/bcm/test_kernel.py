import numpy as np
import pytest

from study.bcm import CaseModel, log_joint, pseudo_counts, start
from study.bcm.kernel import exchange_clusters, update_assignments


@pytest.fixture
def at_hand():
    rng = np.random.default_rng(3)
    x, n_values = rng.integers(3, size=(12, 4)), np.array([3, 3, 3, 3])
    model = CaseModel(n_clusters=3, alpha=0.7, boost=4.0)
    state = start(x, model, rng)
    counts = np.zeros((3, 4, 3), dtype=np.int64)
    np.add.at(counts, (state.assignments, np.arange(4), x), 1)
    by_case = np.eye(3, dtype=np.int64)[state.assignments].sum(axis=1)
    return x, n_values, model, state, counts, by_case, pseudo_counts(state, x, n_values, model)


def test_the_counts_stay_those_of_the_assignments(at_hand):
    x, _, model, state, counts, by_case, pseudo = at_hand
    assignments = state.assignments.copy()
    for seed in range(5):
        uniforms = np.random.default_rng(seed).random((12, 7))
        update_assignments(x, assignments, by_case, counts, pseudo, model.alpha / 3, uniforms)
    again = np.zeros_like(counts)
    np.add.at(again, (assignments, np.arange(4), x), 1)
    np.testing.assert_array_equal(counts, again)
    np.testing.assert_array_equal(by_case, np.eye(3, dtype=np.int64)[assignments].sum(axis=1))
    assert (assignments != state.assignments).any()


def test_the_exchange_is_accepted_by_the_ratio_of_joint_probabilities(at_hand):
    x, n_values, model, state, counts, by_case, pseudo = at_hand
    n_changed = 0
    for i in range(len(x)):
        swapped = state.assignments.copy()
        swapped[i] = np.array([1, 0, 2])[swapped[i]]
        ratio = np.exp(
            log_joint(state._replace(assignments=swapped), x, n_values, model) - log_joint(state, x, n_values, model)
        )
        for u, accepted in ((min(ratio, 1.0) - 1e-9, True), (ratio + 1e-9, False)):
            if not 0.0 < u < 1.0:
                continue
            assigned, clusters, tally = state.assignments[i].copy(), by_case[i].copy(), counts.copy()
            totals = (pseudo + counts).sum(axis=2)
            exchange_clusters(x[i], assigned, clusters, tally, pseudo, totals, np.array([0.1, 0.5, u]))
            np.testing.assert_array_equal(assigned, swapped[i] if accepted else state.assignments[i])
            n_changed += accepted
    assert n_changed > 5
