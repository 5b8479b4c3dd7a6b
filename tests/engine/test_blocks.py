"""Sums over fixed blocks of cases, which do not depend on who computes them."""

import numpy as np
import pytest

from bayespatch.engine.blocks import block_edges, log_ratio_blocks, sum_blocks, sum_of_blocks


def test_blocks():
    edges = block_edges(1000)
    assert edges[0] == 0
    assert edges[-1] == 1000
    assert (np.diff(edges) >= 0).all()
    values = np.random.default_rng(0).normal(size=(1000, 3))
    np.testing.assert_allclose(sum_of_blocks(sum_blocks(values, edges)), values.sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("n_cases", [3, 700, 20_000])
def test_log_ratios_are_sums_of_logarithms_also_of_the_most_extreme(n_cases):
    rng = np.random.default_rng(n_cases)
    before, after = 10.0 ** -rng.uniform(0.0, 19.0, (2, n_cases, 3))
    before[:, 0], after[:, 0] = 1e-19, 1.0  # all one way
    edges = block_edges(n_cases)
    expected = sum_blocks(np.log(after) - np.log(before), edges)
    np.testing.assert_allclose(log_ratio_blocks(after, before, edges), expected, rtol=1e-11, atol=1e-10)
