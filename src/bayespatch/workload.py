"""How long a fit will take, and how much memory, said before it begins.

The work of every phase is counted: values that are compared, rows that are coded, terms of the second opinion. What one
of them costs was measured (`benchmarks/front_desk.py`), and is scaled by how quickly this machine does a small piece of
the same work now.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from bayespatch.available_memory import shown_bytes
from bayespatch.engine.base import ProblemSizes
from bayespatch.leave_one_out import N_LEFT_OUT
from bayespatch.model import Model
from bayespatch.parents import Plan
from bayespatch.sampling.memory_needed import bytes_needed
from bayespatch.sampling.posterior import SamplingSettings
from bayespatch.sampling.sampler import load_engine
from bayespatch.second_opinion.additive import MOST_CHOOSING
from bayespatch.second_opinion.logistic import AT_ONCE, MOST_JOINT

# Seconds of one thread on the machine of the measurements, where `probe` took PROBE_SECONDS
PROBE_SECONDS = 1.7e-4
CODING = 6.0e-7  # for each value of the table, and coding
SCORE = 2.4e-10  # of the leave-one-out score and its gradient, for each pair of values that are compared
STEP, STEP_PAIR, STEP_VALUE = 5e-4, 5e-9, 2e-10  # of the importances: each, for each pair of cases, and of values
DIAGNOSTICS = 1.0  # and a hundred other small things
SWEEP_CASE, SWEEP_PAIR, SWEEP_VALUE = 4e-6, 5e-9, 6.8e-10  # for each case, pair of a case and a parent, and of values
LOO_VALUE = 2e-7  # for each pair of values of a past case and a parent
MEDOIDS = 2e-5  # for each parent and feature
# Once; for each value of the table; for each row, pair of columns and pair of classes whose coefficients are learned
# jointly, or else for each row and pair of classes. The latter two of the rows that choose priors, and a fifth of all.
OPINION, OPINION_VALUE, OPINION_JOINT, OPINION_APART = 0.5, 1.5e-6, 1.5e-7, 6.5e-7
TERMS = 6  # of a column in the second opinion, about

EVALUATIONS = 50  # of a search for the mode, beside two for each importance
STEPS_PER_DRAW = 3.5  # of the importances, on average: as many as the diagnostics ask for
MOST_SCORED = 2**25  # values that tuning compares, at most; then with so many parents:
PARENTS_SCORED = 1000


class Work(NamedTuple):
    """What a fit will take.

    Attributes
    ----------
    seconds : dict of str to float
        By phase.
    n_bytes : float
        Memory, beside the program and the table itself.
    """

    seconds: dict[str, float]
    n_bytes: float

    @property
    def total(self) -> float:
        """Seconds in all."""
        return sum(self.seconds.values())

    def sentence(self) -> str:
        """For a person.

        Examples
        --------
        >>> Work({"tuning": 20.0, "sampling": 75.0}, 3.2e8).sentence()
        'This will take about 1 min 35 s and 320 MB of memory; the most for sampling.'
        """
        longest = max(self.seconds, key=lambda phase: self.seconds[phase])
        return (
            f"This will take about {shown_seconds(self.total)} and {shown_bytes(float(f'{self.n_bytes:.2g}'))} of "
            f"memory; the most for {longest}."
        )


def shown_seconds(seconds: float) -> str:
    """A time in words.

    >>> shown_seconds(0.4), shown_seconds(95), shown_seconds(4000)
    ('1 s', '1 min 35 s', '1 h 7 min')
    """
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours} h {minutes} min"


def probe(n_repeats: int = 5) -> float:
    """Seconds that a small piece of the work takes on this machine now: the quickest of some repeats."""
    from bayespatch.importances import LeaveOneOut  # loads Numba

    rng = np.random.default_rng(0)
    x = rng.integers(4, size=(200, 10)).astype(np.float64)
    y = rng.integers(2, size=200)
    from bayespatch.model import Data

    data = Data(x, y, x, y, np.full(10, 4.0), 2, np.zeros(10), np.arange(200))
    density = LeaveOneOut(data, Model(), np.array([0.5, 0.5]))
    position = np.zeros(11)
    density(position)
    found = []
    for _ in range(n_repeats):
        began = time.perf_counter()
        density(position)
        found.append(time.perf_counter() - began)
    return min(found)


def estimate_work(
    *,
    n_rows: int,
    n_features: int,
    n_classes: int,
    plan: Plan,
    chosen: bool,
    n_codings: int,
    predictive: bool,
    second_opinion: bool,
    chains: int,
    sweeps: int,
    draws: int,
    n_threads: int,
    n_left_out: int | None = None,
    speed: float | None = None,
) -> Work:
    """What a fit of a table of such a size will take.

    Parameters
    ----------
    n_rows, n_features, n_classes : int
        Of the table.
    plan : Plan
        How many parents and cases there are, and on how many cases tuning rests.
    chosen : bool
        Whether ways of choosing the parents will be compared.
    n_codings : int
        How many codings will be tried.
    predictive, second_opinion : bool
        Whether importances come from prediction, and whether there is a second opinion.
    chains, sweeps, draws, n_threads : int
        Of the sampler; sweeps are those of one chain.
    n_left_out : int, optional
        How many past cases the others predict; None: as many as where no class is rare.
    speed : float, optional
        How many times slower than the machine of the measurements this one is; None measures it.

    Examples
    --------
    >>> work = estimate_work(n_rows=300, n_features=13, n_classes=2, plan=Plan(300, 300, 300), chosen=False,
    ...                      n_codings=2, predictive=True, second_opinion=True, chains=4, sweeps=120, draws=100,
    ...                      n_threads=2, speed=1.0)
    >>> bool(0.5 < work.total < 20)
    True
    """
    slower = probe() / PROBE_SECONDS if speed is None else speed
    n_parents = plan.n_parents or n_rows
    pairs = plan.n_judged * (min(n_parents, PARENTS_SCORED) if chosen else n_parents)
    if pairs * n_features > MOST_SCORED:
        pairs = min(plan.n_judged * min(n_parents, PARENTS_SCORED), MOST_SCORED // n_features)
    side_by_side = max(1, min(n_threads, chains))
    seconds = {"reading": CODING * n_codings * n_rows * n_features}
    if predictive:
        search = (EVALUATIONS + 2 * (n_features + 1)) * pairs * n_features * SCORE
        seconds["tuning"] = n_codings * search / min(n_threads, n_codings)
        if chosen:
            seconds["choosing parents"] = 3 * search / min(n_threads, 3) + MEDOIDS * n_parents * n_features
        steps = chains * (2 * (sweeps - draws) + STEPS_PER_DRAW * draws)
        each = STEP + pairs * (STEP_PAIR + STEP_VALUE * n_features)
        seconds["importances"] = DIAGNOSTICS + steps * each / side_by_side
    a_sweep = plan.n_cases * (SWEEP_CASE + n_parents * (SWEEP_PAIR + SWEEP_VALUE * n_features))
    seconds["sampling"] = chains * sweeps * a_sweep / side_by_side
    left_out = min(n_rows, N_LEFT_OUT) if n_left_out is None else n_left_out
    seconds["leave-one-out"] = left_out * n_parents * LOO_VALUE * n_features / n_threads
    if second_opinion:
        n_sums = n_classes if n_classes > 2 else 1
        joint = n_sums * n_features * TERMS <= MOST_JOINT
        each = OPINION_JOINT * n_features**2 if joint else OPINION_APART
        choosing = min(n_rows, MOST_CHOOSING) + n_rows / 5
        seconds["second opinion"] = OPINION + OPINION_VALUE * n_rows * n_features + choosing * each * n_sums**2
    compared = pairs * n_features
    return Work(
        {phase: slower * time for phase, time in seconds.items()},
        _bytes(n_rows, n_features, n_classes, plan, compared, n_codings, second_opinion, chains, draws, n_threads),
    )


def _bytes(
    n_rows: int,
    n_features: int,
    n_classes: int,
    plan: Plan,
    compared: int,
    n_codings: int,
    second_opinion: bool,
    chains: int,
    draws: int,
    n_threads: int,
) -> float:
    """The larger of what the phases hold, beside what stays."""
    sizes = ProblemSizes(plan.n_cases, plan.n_parents or n_rows, n_features, n_classes)
    settings = SamplingSettings("cpu", chains=chains, draws=draws, warmup=0, thin=1, seed=0)
    run = bytes_needed(sizes, Model(), settings, load_engine("cpu"), n_threads=n_threads)
    # The table as it was read, codes and values of the chosen coding, and what codings leave behind as they are tried
    table = 110 * n_rows * n_features
    tuning = compared * max(n_codings, 3) + 30 * compared / n_features
    opinion = 0
    if second_opinion:
        opinion = 80 * n_rows * (n_features + n_classes) + 24 * min(n_rows * n_classes**2, AT_ONCE)
    return float(15e6 + table + max(tuning, 3 * compared + run.total, run.draws + run.sums + opinion))
