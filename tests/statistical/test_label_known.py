"""A label that is known draws neighbors of its class: on real patients, in every model."""

import numpy as np
import pytest

from bayespatch.model import KINDS
from tests.estimator.tables import fit, heart


@pytest.mark.parametrize("model", KINDS)
def test_with_the_label_known_the_neighbors_of_its_class_gain(model):
    """Type III: for nearly every patient, told either outcome. 800 draws, so that the noise is less than the gain."""
    table, y = heart(160)
    clf = fit(table[:120], y[:120], model=model, chains=4, draws=200, warmup=100)
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
