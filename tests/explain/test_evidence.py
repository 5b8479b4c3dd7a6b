"""Which values count most, and which numbers are close."""

import numpy as np
import pytest

from bayespatch.encode import Column, Schema
from bayespatch.explain.evidence import close_range, mark
from tests.explain.fitted import explained


def test_at_most_a_third_of_what_agrees_is_marked():
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 13, 34):
        for _ in range(50):
            counts, agrees = np.maximum(rng.normal(size=n), 0.0), rng.random(n) < 0.7
            marked = mark(agrees, counts)
            assert not np.any(marked & ~agrees)
            assert np.all(counts[marked] > 0)
            assert marked.sum() <= max(1, agrees.sum() // 3)
            rest = agrees & ~marked
            assert not marked.any() or not rest.any() or counts[marked].min() >= counts[rest].max()
    assert not mark(np.ones(3, bool), np.zeros(3)).any()


def test_what_counts_as_close_is_stated():
    numbers = np.arange(100.0)
    ranked = Schema.learn(numbers[:, None], windows="10%").columns[0]
    low, high = map(float, close_range(ranked, float(ranked.encode(_column(50.0), True)[0][0]), 50.0).split(" to "))
    assert 38 <= low < 50 < high <= 62
    for value in (low, high):
        assert abs(ranked.encode(_column(value), True)[0] - ranked.encode(_column(50.0), True)[0]) <= ranked.window
    assert close_range(Column("a", "categorical", "text", values=("x",)), 0.0, 0.0) is None
    assert close_range(ranked, np.nan, np.nan) is None


def _column(value):
    from bayespatch.encode.table import PlainColumn

    return PlainColumn("x0", "number", np.array([value]), [])


@pytest.mark.parametrize("row", range(3))
def test_marked_values_have_the_most_points(row):
    why = explained(row)
    points = {one.feature: abs(one.precedents) for one in why.attribution.features}
    for part in why.neighbors:
        agree = {name: patch for name, patch in part.features.items() if patch.agrees}
        marked = [points[name] for name, patch in agree.items() if patch.marked]
        rest = [points[name] for name, patch in agree.items() if not patch.marked]
        assert marked
        assert len(marked) <= max(1, len(agree) // 3)
        assert min(marked) >= max(rest, default=0.0) or why.values["pulse"] == "missing"
