import numpy as np

from bayespatch.explain.overview import most_influential


def test_those_who_vote_most_come_first():
    z_mean = np.array([[0.1, 0.5, 0.2], [0.1, 0.4, 0.9]], np.float32)
    assert most_influential(z_mean, 2).tolist() == [2, 1]
