import numpy as np
import pytest
from scipy.special import betaln, polygamma
from scipy.special import digamma as scipy_digamma

from bayespatch.engine.special import digamma, log_beta, trigamma

SHAPES = np.concatenate([10.0 ** np.arange(-290, 291, 8.3), np.random.default_rng(0).uniform(0.01, 40.0, 500)])


def test_digamma_and_trigamma_are_those_of_scipy():
    np.testing.assert_allclose([digamma(x) for x in SHAPES], scipy_digamma(SHAPES), rtol=1e-13, atol=1e-13)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose([trigamma(x) for x in SHAPES], polygamma(1, SHAPES), rtol=1e-13)


@pytest.mark.parametrize("b", [0.05, 0.3, 1.0, 5.0, 50.0, 500.0])
def test_log_beta_is_that_of_scipy(b):
    # SciPy itself loses digits where a is large beside b, but not large enough for its own series.
    np.testing.assert_allclose([log_beta(a, b) for a in SHAPES], betaln(SHAPES, b), rtol=3e-8, atol=1e-12)


def test_log_beta_has_no_jump_where_the_series_begins():
    for b in (0.3, 5.0, 500.0):
        below, above = log_beta(12.0 - 1e-9, b), log_beta(12.0 + 1e-9, b)
        assert abs(above - below) < 1e-7
