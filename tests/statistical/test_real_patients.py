"""On real patients: a label that is known draws neighbors of its class, and both ways to predict agree."""

import numpy as np
import pytest

from bayespatch.model import KINDS
from tests.estimator.tables import fit, heart, quietly


@pytest.mark.parametrize("model", KINDS)
def test_with_the_label_known_the_neighbors_of_its_class_gain(model):
    """Type III: for nearly every patient, told either outcome. 800 draws, so that the noise is less than the gain."""
    table, y = heart(160)
    clf = fit(table[:120], y[:120], model=model, chains=4, draws=200, warmup=100, error=0.01)
    new = table[120:]
    hidden = clf.neighbors(new, top=120)
    for label in clf.classes_:
        known = clf.neighbors(new, y=[label] * len(new), top=120)
        shares = [
            (near.probability * (y[near.rows] == label)).sum(axis=1) / near.probability.sum(axis=1)
            for near in (hidden, known)
        ]
        gain = np.subtract(shares[1], shares[0])
        assert gain.mean() > 0.03
        assert (gain > 0).mean() > 0.85


def test_inductive_and_transductive_agree():
    """No further apart than two fits with other seeds: within the Monte Carlo error."""
    table, y = heart(150)
    run = dict(chains=2, draws=200, warmup=150, error=0.01, votes="sampled")
    clf, other = (fit(table[:120], y[:120], random_state=seed, **run) for seed in (0, 1))
    new = table[120:]
    inductive = clf.predict_proba(new)[:, 1]
    transductive = quietly(lambda: clf.set_params(transductive=True).predict_proba(new)[:, 1])
    error = np.sqrt(np.mean((inductive - other.predict_proba(new)[:, 1]) ** 2))
    assert np.sqrt(np.mean((inductive - transductive) ** 2)) < 1.5 * error
    assert abs(np.mean(inductive - transductive)) < 0.02
