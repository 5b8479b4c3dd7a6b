"""Constants and values at the edge of the floats: refused in one sentence, or worked with; never NaN, never a hang."""

import datetime
import re
import warnings

import numpy as np
import pandas as pd
import pytest

from bayespatch import Hyperparameters, PatchworkClassifier, PatchworkRegressor
from bayespatch.encode import Schema
from bayespatch.model import LARGEST, SMALLEST_SHAPE, SMALLEST_VOTE
from bayespatch.sampling.sampler import sample
from bayespatch.validation import check_data, check_finite
from tests.persistence.fitted import SHORT, fit

X = [["yes", 61.0], ["yes", 58.0], ["no", 40.0], ["no", 44.0]] * 3
Y = ["sick", "sick", "well", "well"] * 3
VOTES, SHAPES = ("lam0", "lam", "mu0", "mu"), ("gamma", "sigma1", "sigma2", "tau", "sigma3")


@pytest.mark.parametrize("name", [*VOTES, *SHAPES])
@pytest.mark.parametrize("value", [1e300, 1e7, 1e-7, 1e-300])
def test_constants_that_floats_cannot_carry_are_refused(name, value):
    with pytest.raises(ValueError, match=rf"{name} must lie between .* got {re.escape(str(value))}"):
        Hyperparameters(**{name: value})


@pytest.mark.parametrize("model", ["I", "II", "III"])
def test_at_the_limits_every_number_is_finite(model):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 3, (12, 3)), rng.integers(0, 2, 12)
    low, high = dict.fromkeys(VOTES, SMALLEST_VOTE), dict.fromkeys(VOTES, LARGEST)
    thin, thick = dict.fromkeys(SHAPES, SMALLEST_SHAPE), dict.fromkeys(SHAPES, LARGEST)
    corners = [{**low, **thin}, {**high, **thin}, {**low, **thick}, {**high, **thick}]
    corners += [{**low, "lam0": LARGEST, "mu0": LARGEST}, {**high, "lam0": SMALLEST_VOTE, "mu0": SMALLEST_VOTE}]
    corners += [{"sigma1": SMALLEST_SHAPE}, {"gamma": SMALLEST_SHAPE}]
    for constants in corners:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = sample(
                x, y, x, y, n_values=[3] * 3, n_classes=2, exclude_self=True, hyper=Hyperparameters(**constants),
                model=model, draws=5, warmup=5, chains=1, n_threads=1,
            )  # fmt: skip
        for name in ("q", "q_tilde", "z_mean", "votes_mean", "log_joint"):
            assert np.isfinite(getattr(found, name)).all(), (constants, name)


@pytest.mark.parametrize("weight", [1e300, 1e-300, np.inf])
def test_weights_of_classes_are_numbers_that_can_be_weighed(weight):
    with pytest.raises(ValueError, match=r"class_weight gives class .*'sick'.* the weight"):
        PatchworkClassifier(class_weight={"sick": weight, "well": 1.0}, **SHORT).fit(X, Y)


def test_an_answer_is_a_number_or_an_error(monkeypatch):
    with pytest.raises(FloatingPointError, match="the probability of row 1 is not a finite number"):
        check_finite("the probability", np.array([[0.5, 0.5], [np.nan, np.nan]]))
    clf = fit(PatchworkClassifier(**SHORT), X, Y)
    monkeypatch.setattr(type(clf.calibration_), "apply", lambda self, votes: votes * np.nan)
    with pytest.raises(FloatingPointError, match="of row 0 is not a finite number"):
        clf.predict_proba(X)


def test_what_lies_below_a_mask_is_no_value():
    masked = np.ma.array([[1.0, 2.0], [3.0, 666.0], [1.0, 2.0], [3.0, 4.0]], mask=[[0, 0], [0, 1], [0, 0], [0, 0]])
    plain = np.where(masked.mask, np.nan, masked.data)
    assert Schema.learn(masked) == Schema.learn(plain)
    assert 666.0 not in Schema.learn(masked).columns[1].values
    np.testing.assert_array_equal(Schema.learn(plain).encode(masked).x, Schema.learn(plain).encode(plain).x)
    texts = np.ma.array([["a", "b"], ["a", "secret"]], mask=[[0, 0], [0, 1]])
    assert Schema.learn(texts).columns[1].values == ("b",)
    past = dict(x_parents=[[0], [1]], y_parents=[0, 1], n_values=[2], n_classes=2)
    assert np.isnan(check_data(np.ma.array([[1]], mask=[[True]]), [0], **past, missing="ignore").x).all()


@pytest.mark.parametrize("estimator", [PatchworkClassifier, PatchworkRegressor])
def test_masked_outcomes_are_refused(estimator):
    y = np.ma.array([1.0, 2.0, 1.0, 2.0] * 3, mask=[True] + [False] * 11)
    with pytest.raises(ValueError, match="y has 1 masked values"):
        estimator(**SHORT).fit(X, y)


@pytest.mark.parametrize("estimator", [PatchworkClassifier, PatchworkRegressor])
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_outcomes_are_refused_with_their_rows(estimator, missing):
    y = pd.Series([1, missing, 1, 2, 1, missing] * 2, dtype=object)
    with pytest.raises(ValueError, match=r"y has 4 missing outcomes \(rows 1, 5, 7, 11\); drop the rows"):
        estimator(**SHORT).fit(X, y)


def test_numbers_as_classes_are_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"Unknown label type: .* PatchworkRegressor predicts numbers"):
        PatchworkClassifier(**SHORT).fit(X, np.linspace(0.1, 1.3, 12))


@pytest.mark.parametrize(
    "day", [datetime.date, lambda *day: np.datetime64(datetime.date(*day)), lambda *day: datetime.timedelta(day[2])]
)
def test_dates_as_classes_are_refused_before_the_work(day):
    with pytest.raises(ValueError, match=r"y holds classes such as|Unknown label type"):
        PatchworkClassifier(**SHORT).fit(X, np.array([day(2020, 1, 1), day(2020, 1, 2)] * 6))


def test_what_a_file_could_not_ask_for_is_refused_before_the_work():
    with pytest.raises(ValueError, match=r"n_jobs=10000000 is too large; pass an integer of at most 1024"):
        PatchworkClassifier(**{**SHORT, "n_jobs": 10**7}).fit(X, Y)
    with pytest.raises(ValueError, match=r"transductive=True takes .* = 10000006 sweeps .* at most 100000"):
        PatchworkClassifier(**{**SHORT, "warmup": 10**7, "transductive": True}).fit(X, Y)
    with pytest.raises(ValueError, match=r"y has outcomes beyond 1e\+100"):
        PatchworkRegressor(**SHORT).fit(X, [1e101] + [0.0] * 11)
