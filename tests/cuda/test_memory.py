"""What fits onto a GPU."""

import pytest
from bayespatch_cuda import engine as cuda_engine
from bayespatch_cuda import layout as cuda_layout

from bayespatch.model import Hyperparameters, Model
from tests.problems import random_data


def test_a_problem_too_large_for_the_gpu_is_refused_before_the_work(monkeypatch):
    monkeypatch.setattr(cuda_layout, "require_gpu", lambda: None)
    monkeypatch.setattr(cuda_layout, "free_bytes", lambda: 100.0)
    with pytest.raises(ValueError, match="fewer parents"):
        cuda_engine.CudaEngine(random_data(0, 30, 40, 2), Model("I", "exact", Hyperparameters()))


def test_too_many_features_for_a_group_are_refused(monkeypatch):
    monkeypatch.setattr(cuda_layout, "free_bytes", lambda: 1e9)
    most = cuda_layout.MOST_FEATURES
    cuda_layout.check_fits(10, 10, most)
    with pytest.raises(ValueError, match=f"at most {most} features, got {most + 1}; pass engine='cpu'"):
        cuda_layout.check_fits(10, 10, most + 1)


def test_a_group_is_no_larger_than_what_there_is_to_do():
    assert [cuda_layout.group_size(*size) for size in ((3, 2), (2, 5), (1, 1), (1000, 19))] == [4, 8, 1, 32]
