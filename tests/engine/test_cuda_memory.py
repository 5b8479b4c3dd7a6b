"""What fits onto a card."""

import pytest

from bayespatch.engine import cuda, cuda_memory
from bayespatch.model import Hyperparameters, Model
from tests.problems import random_data


def test_a_problem_too_large_for_the_card_is_refused_before_the_work(monkeypatch):
    monkeypatch.setattr(cuda, "require_card", lambda: None)
    monkeypatch.setattr(cuda_memory, "free_bytes", lambda: 100.0)
    with pytest.raises(ValueError, match="fewer parents"):
        cuda.CudaEngine(random_data(0, 30, 40, 2), Model("I", "exact", Hyperparameters()))


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_groups_fit_into_shared_memory(kind):
    for n_features in (1, 19, 64, 100, 300, 1000):
        group = cuda_memory.group_size(kind, n_features)
        assert 1 <= group <= cuda_memory.GROUP
        assert group * n_features * cuda_memory.BYTES_PER_FEATURE[kind] <= cuda_memory.SHARED_BYTES
    assert cuda_memory.group_size(kind, 19) == cuda_memory.GROUP
    with pytest.raises(ValueError, match="features"):
        cuda_memory.group_size(kind, 10_000)
