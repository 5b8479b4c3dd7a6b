"""The Cox model: against lifelines' own predictions, and recovery of known effects."""

import numpy as np
import pandas as pd
import pytest
from lifelines import CoxPHFitter

from bayespatch.encode import Schema
from bayespatch.second_opinion import CoxScore
from bayespatch.survival import harrell_concordance


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice(["no", "yes"], n), "noise": rng.normal(size=n)})
    rate = np.exp(0.9 * X.a + 0.7 * (X.b == "yes")).to_numpy()
    time, end = rng.exponential(size=n) / rate, rng.exponential(2.0, n)
    return X, np.minimum(time, end), time <= end, rate


def learn(X, time, event, **given):
    schema = Schema.learn(X, windows="10%")
    values = schema.encode(X).values
    cuts = np.quantile(time[event], [0.25, 0.5, 0.75])
    return CoxScore.learn(schema, values, time, event, cuts, seed=0, **given), values, cuts


def test_hazards_are_those_of_lifelines():
    X, time, event, _ = table()
    cox, values, _ = learn(X, time, event)
    chosen = max(cox.choices, key=lambda one: one.score)
    x = cox.design.matrix(values).x
    used = np.flatnonzero((cox.coef != 0.0) & (x.std(axis=0) > 0))
    frame = pd.DataFrame(x[:, used]).assign(time=time, event=event)
    frame.columns = frame.columns.astype(str)
    fitter = CoxPHFitter(penalizer=1.0 / (chosen.strength * len(x))).fit(frame, "time", "event")
    np.testing.assert_allclose(cox.coef[used], fitter.params_.to_numpy(), atol=1e-6)
    at = np.sort(time[event])[[20, 120, 200]]
    expected = fitter.predict_cumulative_hazard(frame.iloc[:30], times=at).T.to_numpy()
    np.testing.assert_allclose(cox.cumulative_hazard(values[:30], at), expected, rtol=1e-6)


def test_effects_are_recovered_and_held_out_rows_are_ranked():
    X, time, event, rate = table(n=1000)
    cox, values, cuts = learn(X, time, event)
    risk = cox.log_hazard(values)
    assert np.corrcoef(risk, np.log(rate))[0, 1] > 0.97
    assert cox.loo.shape == (1000, len(cuts) + 1)
    assert harrell_concordance(time, event, cox.loo.sum(axis=1)) > 0.7
    np.testing.assert_allclose(cox.points(values).sum(axis=1), risk)
    assert np.all(cox.log_error(values, cuts) > 0)


def test_rows_of_one_group_are_held_out_together():
    X, time, event, _ = table(n=120)
    twice = pd.concat([X, X], ignore_index=True)
    groups = np.tile(np.arange(120), 2)
    cox, _, _ = learn(twice, np.tile(time, 2), np.tile(event, 2), groups=groups)
    np.testing.assert_allclose(cox.loo[:120], cox.loo[120:])


@pytest.mark.parametrize("value", [1.0, "same"])
def test_columns_that_say_nothing_leave_the_baseline(value):
    _, time, event, _ = table(n=60)
    cox, values, _ = learn(pd.DataFrame({"x": [value] * 60}), time, event)
    np.testing.assert_allclose(cox.log_hazard(values), 0.0, atol=1e-12)
