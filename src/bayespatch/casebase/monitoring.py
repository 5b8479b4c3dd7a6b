"""Monitoring: whether recent patients, outcomes and the time until outcomes are known differ from earlier ones.

Three kinds of checks, each of the last `DAYS` days:

- *population*, one check for each column: the population stability index of recent consultations compared with the past
  cases from which the active model learned, over deciles (of both together) or categories. An alarm needs an index of
  at least 0.1 and a significant chi-square test of the same table.
- *calibration*, one check for each class (with two classes, for the last one): the observed number of recent outcomes
  of the class, compared with the expected number. The p value is exact for the stated probabilities (Poisson binomial
  distribution), averaged over the sampling error of the model's base rate, which was learned from limited data.
- *outcome lag*, one check: whether outcomes become known more slowly than in the year before (log-rank test).

If nothing has changed, all checks together raise a false alarm at most at the rate `LEVEL` (Bonferroni). Overlapping
windows share patients, so false alarms occur in series.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import CensoredData, chi2_contingency, logrank
from sqlalchemy import Connection, func, select

from bayespatch.casebase import models
from bayespatch.casebase.audit import time_text
from bayespatch.casebase.cases import WITHDRAWN, Definition
from bayespatch.casebase.errors import CaseBaseError, UnavailableError
from bayespatch.casebase.tables import Row, cases, consultations, training
from bayespatch.dictionary import Entry, Value
from bayespatch.metrics import rate_interval
from bayespatch.survival import kaplan_meier

DAYS = 90  # length of the window
BEFORE = 365  # days before the window, with which the outcome lag is compared
LEVEL = 0.001  # maximum rate of false alarms if nothing has changed
MODERATE = 0.1  # a smaller population stability index raises no alarm
LEAST = 50  # cases on each side
LEAST_EXPECTED = 5  # recent cases in a bin
N_BINS = 10
MOST = 2000  # recent cases to check, the newest ones
MOST_REFERENCE = 10_000  # past cases that they are compared with, evenly spaced
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


@dataclass(frozen=True)
class ColumnShift:
    """Recent consultations compared with the past cases of the model, in one column; None: too few to tell.

    Attributes
    ----------
    column : str
    index : float or None
        Population stability index: the sum over bins of (a - e) ln(a / e), with the recent share a and the share e
        among the past cases.
    p : float or None
        p value of the chi-square test.
    alarm : bool
    """

    column: str
    index: float | None
    p: float | None
    alarm: bool = False


@dataclass(frozen=True)
class ClassBalance:
    """Expected and observed shares of one class among recent outcomes.

    Attributes
    ----------
    label : str
    n : int
        Number of recent outcomes.
    expected, observed : float
        Shares of the class.
    low, high : float
        95% interval of the observed share.
    p : float or None
        Probability that a calibrated model is at least this far off; None with too few cases.
    alarm : bool
    """

    label: str
    n: int
    expected: float
    observed: float
    low: float
    high: float
    p: float | None
    alarm: bool = False


@dataclass(frozen=True)
class OutcomeLag:
    """Days from the first consultation until the outcome is known, recently and in the year before.

    Attributes
    ----------
    n, n_known : int
        Number of recent cases, and of those with an outcome.
    n_before : int
        Cases of the year before.
    median, median_before : float or None
        Kaplan-Meier medians; None: not reached.
    p : float or None
        p value of the log-rank test that outcomes are not slower; None: too few to tell.
    alarm : bool
    """

    n: int
    n_known: int
    n_before: int
    median: float | None
    median_before: float | None
    p: float | None
    alarm: bool = False


@dataclass(frozen=True)
class Monitoring:
    """The results of all checks.

    Attributes
    ----------
    at : str
        Time of the checks.
    days : int
        Length of the window.
    version : int
        Version of the active model.
    consultations : int
        Cases with a consultation in the window.
    population : tuple of ColumnShift
    calibration : tuple of ClassBalance
    lag : OutcomeLag
    alarms : tuple of str
        The alarms as sentences.
    """

    at: str
    days: int
    version: int
    consultations: int
    population: tuple[ColumnShift, ...]
    calibration: tuple[ClassBalance, ...]
    lag: OutcomeLag
    alarms: tuple[str, ...] = field(default=())


# One check


def stability(reference: Sequence[Value], recent: Sequence[Value], entry: Entry) -> tuple[float, float] | None:
    """Population stability index of a column and the p value of the chi-square test; None with too few cases.

    Numbers are binned at deciles, other columns by category; missing values are a category. Rare bins are merged. Bins
    are computed from all cases together, so that they do not depend on a difference between the two sides.

    Examples
    --------
    >>> from bayespatch.dictionary import Dictionary
    >>> age = Dictionary.from_dict({"age": {"kind": "number"}})["age"]
    >>> index, p = stability(list(range(100)), list(range(40, 100)), age)
    >>> round(index, 2), p < 0.001
    (1.12, True)
    """
    n, m = len(recent), len(reference)
    if min(n, m) < LEAST:
        return None
    counts = _counts(reference, recent, entry)
    order = np.argsort(counts.sum(axis=0), kind="stable")
    counts = counts[:, order]
    share = n / (n + m)
    while counts.shape[1] > 1 and counts[:, 0].sum() * share < LEAST_EXPECTED:  # merge the rarest bin with the next one
        merged = np.column_stack([counts[:, 0] + counts[:, 1], counts[:, 2:]])
        counts = merged[:, np.argsort(merged.sum(axis=0), kind="stable")]
    if counts.shape[1] < 2:
        return 0.0, 1.0
    smoothed = counts + 0.5
    e, a = (row / row.sum() for row in smoothed)
    return float(((a - e) * np.log(a / e)).sum()), float(chi2_contingency(counts, correction=False).pvalue)


def _counts(reference: Sequence[Value], recent: Sequence[Value], entry: Entry) -> NDArray[np.float64]:
    """Cases in each bin, (2, bins): of the reference, and recent ones."""
    sides = (reference, recent)
    if entry.kind == "number" and not entry.levels:
        known = np.array([value for side in sides for value in side if value is not None], dtype=np.float64)
        n_bins = max(2, min(N_BINS, len(recent) // (2 * LEAST_EXPECTED)))
        edges = np.unique(np.quantile(known, np.arange(1, n_bins) / n_bins)) if len(known) else np.array([0.0])
        last = len(edges) + 1  # the bin of missing values
        codes = [
            [last if value is None else int(np.searchsorted(edges, float(value))) for value in side] for side in sides
        ]
    else:
        names = sorted({json.dumps(value) for side in sides for value in side})
        place = {name: i for i, name in enumerate(names)}
        codes = [[place[json.dumps(value)] for value in side] for side in sides]
        last = len(names) - 1
    counts = np.array([np.bincount(side, minlength=last + 1) for side in codes], dtype=np.float64)
    return counts[:, counts.sum(axis=0) > 0]


def balance_p(p: NDArray[np.float64], n_observed: int, n_learned: int) -> float | None:
    """Probability of outcomes of a class at least this extreme if the model is calibrated except for sampling error.

    The number of outcomes is Poisson binomial given the probabilities. The log odds of all of them share an error that
    is normal with the standard error of an intercept learned from `n_learned` past cases. Two-sided.

    Parameters
    ----------
    p : array of shape (n,)
        Stated probabilities of the class.
    n_observed : int
        Outcomes of the class.
    n_learned : int
        Past cases from which the model learned.

    Examples
    --------
    >>> p = np.full(100, 0.2)
    >>> balance_p(p, 20, 500) > 0.5, balance_p(p, 45, 500) < 1e-6
    (True, True)
    """
    if len(p) == 0 or n_learned < 1:
        return None
    p = np.clip(p, 1e-9, 1.0 - 1e-9)
    information = n_learned * float((p * (1.0 - p)).mean())
    shifted = expit(logit(p)[:, None] + _NODES / math.sqrt(information))  # (n, nodes)
    mass = np.zeros((len(p) + 1, len(_NODES)))
    mass[0] = 1.0
    for i, chance in enumerate(shifted):  # after i cases, mass[k] is the probability of k outcomes
        mass[1 : i + 2] = mass[1 : i + 2] * (1.0 - chance) + mass[: i + 1] * chance
        mass[0] *= 1.0 - chance
    total = mass @ (_WEIGHTS / _WEIGHTS.sum())
    return float(min(1.0, 2.0 * min(total[: n_observed + 1].sum(), total[n_observed:].sum())))


def lag_p(recent: CensoredDays, before: CensoredDays) -> float | None:
    """p value of the log-rank test that recent outcomes do not come later; None with too few cases.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> quick, slow = (CensoredDays(rng.exponential(mean, 100), np.ones(100, bool)) for mean in (10, 30))
    >>> lag_p(slow, quick) < 1e-6, lag_p(quick, slow) > 0.99
    (True, True)
    """
    if min(len(recent.days), len(before.days)) < LEAST or before.known.sum() < LEAST:
        return None
    sides = [CensoredData(uncensored=one.days[one.known], right=one.days[~one.known]) for one in (recent, before)]
    with np.errstate(invalid="ignore"):
        p = float(logrank(*sides, alternative="less").pvalue)
    return None if math.isnan(p) else p  # no outcome occurred while cases on both sides were waiting


@dataclass(frozen=True)
class CensoredDays:
    """Days until the outcome was known, or without an outcome until now."""

    days: NDArray[np.float64]
    known: NDArray[np.bool_]

    @property
    def median(self) -> float | None:
        """The Kaplan-Meier median; None if it is not reached."""
        return kaplan_meier(self.days, self.known).median()[0] if len(self.days) else None


# All checks


def judged(
    population: Sequence[ColumnShift], calibration: Sequence[ClassBalance], lag: OutcomeLag
) -> tuple[tuple[ColumnShift, ...], tuple[ClassBalance, ...], OutcomeLag]:
    """The checks with their alarms: each p value is compared with `LEVEL`, divided by the number of checks."""
    values = [*(one.p for one in population), *(one.p for one in calibration), lag.p]
    made = [p for p in values if p is not None]
    level = LEVEL / max(1, len(made))
    shifts = tuple(replace(one, alarm=_is_below(one.p, level) and (one.index or 0.0) >= MODERATE) for one in population)
    balances = tuple(replace(one, alarm=_is_below(one.p, level)) for one in calibration)
    return shifts, balances, replace(lag, alarm=_is_below(lag.p, level))


def _is_below(p: float | None, level: float) -> bool:
    return p is not None and p < level


def alarms(shifts: Sequence[ColumnShift], balances: Sequence[ClassBalance], lag: OutcomeLag) -> tuple[str, ...]:
    """The alarms as sentences."""
    texts = [
        f"Column {one.column!r}: recent patients differ from the past cases "
        f"(population stability index {one.index:.2f}). Check how it is recorded, and consider a refit."
        for one in shifts
        if one.alarm
    ]
    texts += [
        f"{one.label}: {one.observed:.0%} of {one.n} recent outcomes, but {one.expected:.0%} were expected. "
        f"Check how outcomes are recorded, and consider a refit."
        for one in balances
        if one.alarm
    ]
    if lag.alarm:
        texts.append(
            "Outcomes become known more slowly than in the year before. Check whether they are still recorded."
        )
    return tuple(texts)


# From the database


def monitor(connection: Connection, definition: Definition, days: int = DAYS) -> Monitoring:
    """All checks of the last `days` days."""
    if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= 3650:
        raise CaseBaseError(f"days={days!r} is not a valid number of days; pass a number from 1 to 3650")
    model = models.active(connection)
    if model is None:
        raise UnavailableError("there is no active model to monitor; refit on the past cases, and promote the result")
    now = datetime.now(UTC)
    since = time_text(now - timedelta(days=days))
    recent = _recent_values(connection, since)
    reference = _reference_values(connection, model.version, set(recent))
    population = []
    for name, entry in definition.features.entries.items():
        values = [[row.get(name) for row in side] for side in (reference, list(recent.values()))]
        shift = stability(values[0], values[1], entry)
        population.append(ColumnShift(name, *(shift or (None, None))))
    calibration = _calibration(connection, definition, since, model.n_cases)
    lag = _lag(connection, now, days)
    shifts, balances, lag = judged(population, calibration, lag)
    texts = alarms(shifts, balances, lag)
    return Monitoring(time_text(now), days, model.version, len(recent), shifts, balances, lag, texts)


def _recent_values(connection: Connection, since: str) -> dict[int, Mapping[str, Value]]:
    """The values of each case at its last consultation in the window."""
    last = select(func.max(consultations.c.id)).where(consultations.c.at >= since).group_by(consultations.c.case_id)
    query = select(consultations.c.case_id, consultations.c["values"]).where(consultations.c.id.in_(last))
    rows = connection.execute(query.order_by(consultations.c.id.desc()).limit(MOST))
    return {row.case_id: row.values for row in rows}


def _reference_values(connection: Connection, version: int, without: set[int]) -> list[Mapping[str, Value]]:
    """The values of past cases from which the model learned, except those in `without`."""
    query = select(training.c.case_id).where(training.c.version == version).order_by(training.c.case_id)
    ids = [number for number in connection.execute(query).scalars() if number not in without]
    chosen = ids[:: max(1, math.ceil(len(ids) / MOST_REFERENCE))]
    values: list[Mapping[str, Value]] = []
    for start in range(0, len(chosen), 500):
        part = select(cases.c["values"]).where(cases.c.id.in_(chosen[start : start + 500]), cases.c.state != WITHDRAWN)
        values += connection.execute(part).scalars()
    return values


def _calibration(connection: Connection, definition: Definition, since: str, n_learned: int) -> list[ClassBalance]:
    """Expected and observed outcomes of each class; of two classes, the last one."""
    last = select(func.max(consultations.c.id)).group_by(consultations.c.case_id)
    query = (
        select(consultations.c.explanation["prediction"]["probabilities"].label("probabilities"), cases.c.outcome)
        .join(cases, cases.c.id == consultations.c.case_id)
        .where(consultations.c.id.in_(last), cases.c.outcome.is_not(None), cases.c.outcome_at >= since)
        .order_by(cases.c.outcome_at.desc())
    )
    rows: list[Row] = list(connection.execute(query.limit(MOST)))
    if not rows:
        return []
    labels = list(definition.classes)
    happened = [definition.class_name(json.loads(row.outcome)) for row in rows]
    balances = []
    for label in labels[1:] if len(labels) == 2 else labels:
        p = np.array([row.probabilities.get(label, 0.0) for row in rows])
        n, n_observed = len(rows), happened.count(label)
        chance = balance_p(p, n_observed, n_learned) if n >= LEAST else None
        balances.append(ClassBalance(label, n, float(p.mean()), n_observed / n, *rate_interval(n_observed, n), chance))
    return balances


def _lag(connection: Connection, now: datetime, days: int) -> OutcomeLag:
    """How long outcomes take, of cases in the window and of those in the year before."""
    since, earliest = time_text(now - timedelta(days=days)), time_text(now - timedelta(days=days + BEFORE))
    first = func.min(consultations.c.at).label("first")
    query = (
        select(first, cases.c.outcome_at)
        .join(cases, cases.c.id == consultations.c.case_id)
        .where(cases.c.state != WITHDRAWN)
        .group_by(cases.c.id, cases.c.outcome_at)
        .having(first >= earliest)
    )
    sides: dict[bool, list[tuple[float, bool]]] = {True: [], False: []}
    for row in connection.execute(query):
        begun = datetime.fromisoformat(row.first)
        ended = now if row.outcome_at is None else datetime.fromisoformat(row.outcome_at)
        lasted = max(0.0, (ended - begun) / timedelta(days=1))
        sides[row.first >= since].append((lasted, row.outcome_at is not None))
    recent, before = (
        CensoredDays(np.array([one for one, _ in side]), np.array([known for _, known in side], dtype=np.bool_))
        for side in (sides[True], sides[False])
    )
    n_known = int(recent.known.sum())
    p = lag_p(recent, before)
    return OutcomeLag(len(recent.days), n_known, len(before.days), recent.median, before.median, p)
