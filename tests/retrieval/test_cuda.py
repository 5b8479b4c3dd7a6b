"""Which engine votes; the GPU's kernels run in tests/statistical/test_cuda_simulated.py."""

import numpy as np
import pytest

from bayespatch.importances_at_scale import LeaveOneOutBatches
from bayespatch.model import HIDDEN, Data, Model
from bayespatch.predict.closed import ClosedForm
from bayespatch.retrieval import leave_one_out, vote, vote_shares, votes
from tests.retrieval.test_votes import Problem


def by_engine(p, engine):
    ranges = p.index.ranges(p.new)
    totals = vote(p.index, ranges, p.weights, left_out=p.left_out, engine=engine)
    shares = vote_shares(p.index, ranges, p.weights, totals, p.heard, left_out=p.left_out, engine=engine)
    given = dict(slope=1.0, heard=p.heard, base=p.base, engine=engine)
    scores = leave_one_out(p.index, ranges, np.zeros(len(p.new), np.int64), p.left_out, p.weights[0], **given)
    return [*totals, shares, *scores]


@pytest.mark.parametrize(("large", "present"), [(0, False), (10**9, True)])
def test_auto_is_the_cpu_without_a_gpu_or_for_small_problems(monkeypatch, large, present):
    monkeypatch.setattr(votes, "LARGE", large)
    monkeypatch.setattr(votes, "gpu_is_present", lambda: present)
    monkeypatch.setattr(votes, "load_votes", lambda name: 1 / 0)
    p = Problem(0, n_past=30, n_features=4, n_classes=2)
    for one, other in zip(by_engine(p, "auto"), by_engine(p, "cpu"), strict=True):
        np.testing.assert_array_equal(one, other)


def test_auto_is_the_gpu_for_large_problems(monkeypatch):
    monkeypatch.setattr(votes, "gpu_is_present", lambda: True)
    p = Problem(0, n_past=30, n_features=4, n_classes=2)
    n = -(-votes.LARGE // (30 * len(p.index.columns)))
    assert votes._on_gpu("auto", p.index, n)
    assert not votes._on_gpu("auto", p.index, n - 1)


def test_an_unknown_engine():
    p = Problem(0, n_past=30, n_features=4, n_classes=2)
    with pytest.raises(ValueError, match="engine='gpu' is not valid; choose one of 'cpu', 'cuda'"):
        by_engine(p, "gpu")


@pytest.mark.parametrize("function", ["vote", "vote_shares", "leave_one_out"])
def test_cuda_without_a_gpu(function, monkeypatch):
    from numba import cuda

    monkeypatch.setattr(cuda, "is_available", lambda: False)
    p = Problem(0, n_past=30, n_features=4, n_classes=2)
    ranges = p.index.ranges(p.new)
    calls = {
        "vote": lambda: vote(p.index, ranges, p.weights, engine="cuda"),
        "vote_shares": lambda: vote_shares(
            p.index, ranges, p.weights, vote(p.index, ranges, p.weights), p.heard, engine="cuda"
        ),
        "leave_one_out": lambda: leave_one_out(
            p.index, ranges, p.y[:5], p.left_out, p.weights[0], slope=1.0, heard=p.heard, base=p.base, engine="cuda"
        ),
    }
    with pytest.raises(RuntimeError, match="engine='cuda' needs an NVIDIA GPU"):
        calls[function]()


def test_predictions_and_learning_pass_the_engine_on(monkeypatch):
    chosen = []
    monkeypatch.setattr(votes, "_on_gpu", lambda engine, *_: chosen.append(engine))
    p = Problem(0, n_past=30, n_features=4, n_classes=2)
    closed = ClosedForm(p.index, p.weights[None], np.full((1, 4, 4), 0.5), p.heard, p.base, 1.0)
    closed.predict(p.new, np.full(len(p.new), HIDDEN), detail=True, engine="auto")
    assert chosen == ["auto", "auto"]  # votes and shares
    x = np.random.default_rng(0).integers(3, size=(30, 2)).astype(float)
    data = Data(x, p.y, x, p.y, np.array([3.0, 3.0]), 2, np.zeros(2), np.arange(30))
    batches = LeaveOneOutBatches(data, Model(), p.base, engine="auto")
    batches.scores(batches._start(), np.arange(5))
    assert chosen == ["auto"] * 3
