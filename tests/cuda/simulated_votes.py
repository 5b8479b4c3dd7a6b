"""Votes by the GPU kernels in Numba's simulator, against those of the CPU: ``tests/statistical`` runs this file in a
process of its own."""

import math

import numpy as np
import pytest
from bayespatch_cuda import votes as cuda

from bayespatch.retrieval import CaseIndex, LeftOut, leave_one_out, vote, vote_shares
from tests.cuda.simulated_gpu import simulated  # noqa: F401
from tests.retrieval.test_votes import PROBLEMS, Problem

# The simulator runs each thread of a block as a thread of Python: small blocks, and fewer past cases.
SIZES = {"several blocks": 500, "strong": 300, "seventy features": 100}


@pytest.fixture(params=[name for name, given in PROBLEMS.items() if not given.get("own")])  # weighted votes: CPU only
def problem(request):
    given = PROBLEMS[request.param]
    return Problem(0, **given | {"n_past": SIZES.get(request.param, given["n_past"])})


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Eight threads a block, so that tiles, stretches and groups of threads are many, and the last ones incomplete."""
    monkeypatch.setattr(cuda, "THREADS", 8)
    monkeypatch.setattr(cuda, "LEAST_TILES", 2)
    monkeypatch.setattr(cuda, "N_BLOCKS", 12)


def check(p):
    """Votes, shares and leave-one-out scores of a problem are those of the CPU."""
    ranges = p.index.ranges(p.new)
    there, here = (vote(p.index, ranges, p.weights, left_out=p.left_out, engine=engine) for engine in ("cuda", "cpu"))
    np.testing.assert_allclose(there.shares(p.heard), here.shares(p.heard), atol=1e-5)
    np.testing.assert_allclose(there.log_total(), here.log_total(), atol=2e-5)
    n_chains = 2 if len(p.weights) % 2 == 0 else 1
    shares = [
        vote_shares(p.index, ranges, p.weights, here, p.heard, left_out=p.left_out, engine=engine, n_chains=n_chains)
        for engine in ("cuda", "cpu")
    ]
    np.testing.assert_allclose(*shares, atol=1e-5)
    assert shares[0].shape == (len(p.new), n_chains, len(p.y))
    rows = np.maximum(p.rows, 0)
    out = LeftOut.members(p.index, rows, p.groups)
    scores = [
        leave_one_out(
            p.index,
            p.index.ranges(p.x[rows]),
            p.y[rows],
            out,
            p.weights[0],
            slope=1.5,
            heard=p.heard,
            base=p.base,
            engine=engine,
        )
        for engine in ("cuda", "cpu")
    ]
    for one, other in zip(*scores, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)


def test_votes_are_those_of_the_cpu(problem):
    check(problem)


def test_more_draws_and_comparisons_than_threads():
    check(Problem(0, n_past=60, n_features=14, n_classes=3, n_draws=19))


@pytest.mark.parametrize("n_draws", [1, 3])
def test_few_draws_are_shared_out_among_groups_of_threads(n_draws):
    check(Problem(0, n_past=90, n_features=5, n_classes=2, n_draws=n_draws))


def test_tiles_are_smaller_where_keys_are_many(monkeypatch):
    monkeypatch.setattr(cuda, "TILE_ROWS", 9)
    monkeypatch.setattr(cuda, "MOST_BITS", 4)
    monkeypatch.setattr(cuda, "BITS_LEFT_OUT", 4)
    check(Problem(1, n_past=40, n_features=12, n_classes=2))
    monkeypatch.setattr(cuda, "TILE_ROWS", 2)
    with pytest.raises(ValueError, match="comparisons are too many for engine='cuda'; pass engine='cpu'"):
        check(Problem(1, n_past=40, n_features=12, n_classes=2))


def test_keys_are_shorter_where_the_table_is_large(monkeypatch):
    p = Problem(1, n_past=40, n_features=12, n_classes=2)
    longest, _ = cuda._layout(p.index, cuda.MOST_BITS, 4)
    monkeypatch.setattr(cuda, "TABLE_BYTES", 3000)
    shorter, _ = cuda._layout(p.index, cuda.MOST_BITS, 4)
    assert shorter.n_rows * 4 * 4 <= 3000 < longest.n_rows * 4 * 4
    check(p)


def test_batches_of_cases(monkeypatch):
    monkeypatch.setattr(cuda, "BATCH_BYTES", 2 * 8 * 3 * 4)  # two cases at a time, of votes
    check(Problem(2, n_past=50, n_features=6, n_classes=3, groups=True))


def test_a_table_that_does_not_fit(monkeypatch):
    monkeypatch.setattr(cuda.gpu, "free_bytes", lambda: 10.0)
    with pytest.raises(
        ValueError, match=r"past cases x 6 columns need .* GB on the GPU, which has .*pass engine='cpu'"
    ):
        check(Problem(2, n_past=50, n_features=6, n_classes=3))


def test_past_cases_are_copied_once_and_dropped_with_the_index():
    p = Problem(2, n_past=50, n_features=6, n_classes=3)
    first = cuda._past(p.index)
    assert cuda._past(p.index) is first
    assert cuda._past(p.index.with_missing(np.zeros(6, bool))) is first
    key = id(p.index.codes)
    assert key in cuda._on_gpu
    del p
    assert key not in cuda._on_gpu


def test_nobody_votes_where_all_are_left_out():
    x = np.zeros((3, 2))
    index = CaseIndex.build(x, np.array([0, 1, 1]), 2, [(0.0,)] * 2)
    out = LeftOut.members(index, np.array([0]), np.zeros(3, np.int64))
    result = vote(index, index.ranges(x[:1]), np.ones((2, 2)), left_out=out, engine="cuda")
    np.testing.assert_array_equal(result.shares(np.ones(2)), 0.5)
    assert np.all(np.isneginf(result.log_total()))


@pytest.mark.parametrize("n_levels", [200, 300, 70_000])
def test_codes_of_any_number_of_values(n_levels):
    """One, two or four bytes a value."""
    levels = np.arange(n_levels, dtype=float)[:, None]
    index = CaseIndex.build(levels, np.zeros(n_levels, np.int64), 1, [(2.5,)])
    some = np.sort(np.random.default_rng(0).choice(n_levels, 60, replace=False))
    some = np.union1d(some, [98, 103])
    index = CaseIndex(index.codes[:, some], index.levels, np.array([0, len(some)]), some, index.columns, index.reach)
    result = vote(index, index.ranges(np.array([[100.0]])), np.full((1, 1), 1.0), engine="cuda")
    near = np.sum(np.abs(some - 100) <= 2.5)
    assert result.sums[0, 0, 0] == pytest.approx(near + (len(some) - near) * math.exp(-1.0), rel=1e-6)
