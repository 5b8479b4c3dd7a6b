import numpy as np

from bayespatch.explain.overview import calibration_curve, most_influential


def test_bins_hold_all_cases_and_their_rates():
    rng = np.random.default_rng(0)
    p = rng.random(203)
    hit = rng.random(203) < p
    curve = calibration_curve(p, hit, 8)
    assert sum(part.n for part in curve) == 203
    assert np.isclose(sum(part.n * part.observed for part in curve), hit.sum())
    assert np.isclose(sum(part.n * part.predicted for part in curve), p.sum())
    assert all(0 <= part.low <= part.observed <= part.high <= 1 for part in curve)
    assert np.all(np.diff([part.predicted for part in curve]) > 0)
    assert len(calibration_curve(p[:3], hit[:3], 8)) == 3


def test_those_who_speak_most_come_first():
    z_mean = np.array([[0.1, 0.5, 0.2], [0.1, 0.4, 0.9]], np.float32)
    assert most_influential(z_mean, 2).tolist() == [2, 1]
