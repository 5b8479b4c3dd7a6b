"""False alarms of monitoring are as rare as stated, in simulated clinics where nothing changes; changes are found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from bayespatch.casebase import monitoring
from bayespatch.casebase.monitoring import (
    DAYS,
    LEVEL,
    CensoredDays,
    ClassBalance,
    ColumnShift,
    OutcomeLag,
    balance_p,
    judged,
    lag_p,
    stability,
)
from bayespatch.dictionary import Dictionary

ENTRIES = Dictionary.from_dict(
    {"age": {"kind": "number"}, "lab": {"kind": "number"}, "pain": {"kind": "text"}, "sex": {"kind": "boolean"}}
)
PAINS = np.array(["none", "typical", "atypical", "rest", "other"])
N_LEARNED, PER_DAY, PERIOD = 400, 3.0, DAYS + 365


def rows_of(rng, n, shift=0.0):
    """Values of n patients by column, a tenth of the laboratory values missing."""
    age = rng.normal(60 + 12 * shift, 12, n)
    lab = rng.lognormal(0, 0.5, n)
    lost = rng.random(n) < 0.1
    return {
        "age": age.tolist(),
        "lab": [None if gone else value for gone, value in zip(lost, lab.tolist(), strict=True)],
        "pain": PAINS[rng.choice(5, n, p=[0.45, 0.3, 0.15, 0.07, 0.03])].tolist(),
        "sex": (rng.random(n) < 0.6).tolist(),
    }


class Clinic:
    """A model that learned its base rate from past cases, and patients of a year and three months."""

    def __init__(self, rng, slower=1.0, sicker=0.0, older=0.0):
        odds = rng.normal(-1, 1, N_LEARNED)
        sick = rng.random(N_LEARNED) < expit(odds)
        intercept = 0.0
        for _ in range(20):  # maximum likelihood; the rest of the model is right
            p = expit(intercept + odds + 1)
            intercept += (sick - p).sum() / (p * (1 - p)).sum()
        self.reference = rows_of(rng, N_LEARNED)
        n = rng.poisson(PER_DAY * (PERIOD + 365))
        self.day = np.sort(rng.uniform(0, PERIOD + 365, n))
        changed = self.day >= PERIOD
        before, after = rows_of(rng, n), rows_of(rng, n, older)
        self.rows = {
            name: [after[name][i] if changed[i] else before[name][i] for i in range(n)] for name in ENTRIES.names
        }
        odds = rng.normal(-1, 1, n)
        self.p = expit(intercept + odds + 1)
        self.sick = rng.random(n) < expit(odds + sicker * changed)
        self.known_at = self.day + rng.exponential(np.where(changed, 20.0 * slower, 20.0))

    def look(self, today):
        """The alarms on a day: of columns, of the outcome, of the lag."""
        recent = np.flatnonzero((self.day > today - DAYS) & (self.day <= today))
        shifts = [
            ColumnShift(
                name, *(stability(self.reference[name], [self.rows[name][i] for i in recent], entry) or (None,) * 2)
            )
            for name, entry in ENTRIES.entries.items()
        ]
        ended = np.flatnonzero((self.known_at > today - DAYS) & (self.known_at <= today))
        p = balance_p(self.p[ended], int(self.sick[ended].sum()), N_LEARNED)
        balances = [ClassBalance("sick", len(ended), 0, 0, 0, 0, p)]
        earlier = np.flatnonzero((self.day > today - DAYS - monitoring.BEFORE) & (self.day <= today - DAYS))
        sides = [
            CensoredDays(np.minimum(self.known_at[rows], today) - self.day[rows], self.known_at[rows] <= today)
            for rows in (recent, earlier)
        ]
        lag = OutcomeLag(0, 0, 0, None, None, lag_p(*sides))
        found = judged(shifts, balances, lag)
        return np.array([any(one.alarm for one in found[0]), found[1][0].alarm, found[2].alarm])


def test_false_alarms_are_as_rare_as_stated():
    """600 clinics are looked at 5 times, 91 days apart, so that no patient is recent twice."""
    rng = np.random.default_rng(0)
    looks = [Clinic(rng).look(PERIOD - 4 * 91 + 91 * k) for _ in range(600) for k in range(5)]
    n_alarms = int(np.any(looks, axis=1).sum())
    assert n_alarms <= LEVEL * len(looks) + 4 * np.sqrt(LEVEL * len(looks)), n_alarms


@pytest.mark.parametrize("level", [0.05, 0.01])
def test_p_values_are_uniform_enough(level):
    """Each check alone, at levels that can be measured: as rare as the level, within 4 Monte Carlo standard errors."""
    rng = np.random.default_rng(1)
    found = {"population": [], "calibration": [], "lag": []}
    for _ in range(1000):
        clinic = Clinic(rng)
        recent = np.flatnonzero(clinic.day < DAYS)
        for name, entry in ENTRIES.entries.items():
            found["population"].append(
                stability(clinic.reference[name], [clinic.rows[name][i] for i in recent], entry)[1]
            )
        found["calibration"].append(balance_p(clinic.p[recent], int(clinic.sick[recent].sum()), N_LEARNED))
        sides = (recent, np.flatnonzero(clinic.day >= PERIOD))
        days = [(clinic.known_at - clinic.day)[rows] for rows in sides]
        found["lag"].append(lag_p(*(CensoredDays(np.minimum(one, 40.0), one <= 40.0) for one in days)))
    for name, p in found.items():
        rate = float((np.array(p) < level).mean())
        assert rate <= level + 4 * np.sqrt(level * (1 - level) / len(p)), (name, rate)


def test_a_year_of_weekly_looks_seldom_raises_a_false_alarm():
    """Of years in which nothing changes, at most 5 % have a false alarm with a look every week."""
    rng = np.random.default_rng(2)
    n_years, n_false = 120, 0
    for _ in range(n_years):
        clinic = Clinic(rng)
        n_false += any(clinic.look(PERIOD + 7 * week).any() for week in range(52))
    assert n_false / n_years <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / n_years), n_false / n_years


@pytest.mark.parametrize(
    ("change", "which"),
    [({"older": 1.0}, 0), ({"sicker": 1.5}, 1), ({"slower": 4.0}, 2)],
    ids=["older", "sicker", "slower"],
)
def test_large_changes_are_found_within_three_months(change, which):
    rng = np.random.default_rng(3)
    found = [Clinic(rng, **change).look(PERIOD + DAYS)[which] for _ in range(50)]
    assert np.mean(found) >= 0.9
