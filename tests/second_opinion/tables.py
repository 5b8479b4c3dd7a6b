"""Small tables whose probabilities are known."""

import numpy as np

from bayespatch.encode import Schema


def clinic(n=300, n_classes=2, missing=0.0, seed=0):
    """Rows of age, marker (skewed), grade (ordinal), sex; log odds that are a sum, with a curve in the marker."""
    rng = np.random.default_rng(seed)
    age, marker = rng.normal(60, 10, n), rng.lognormal(0, 0.8, n)
    grade, sex = rng.integers(1, 5, n), rng.choice(["female", "male"], n)
    risk = 0.08 * (age - 60) + 1.2 * np.log(marker) + 0.4 * (grade - 2.5) + 0.5 * (sex == "male") - 0.8
    eta = np.stack([np.zeros(n), risk, -0.7 * risk + 0.5 * (grade == 3)][:n_classes], axis=1)
    p = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
    y = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    lost = rng.random((n, 4)) < missing
    columns = [age.tolist(), marker.tolist(), grade.astype(float).tolist(), sex.tolist()]
    rows = [[None if lost[i, j] else column[i] for j, column in enumerate(columns)] for i in range(n)]
    return rows, y, p


def coded(rows, missing="category"):
    """Schema and values."""
    schema = Schema.learn(rows, missing=missing)
    return schema, schema.encode(rows).values
