from __future__ import annotations

import re

from bayespatch.parents import Plan, plan_parents
from bayespatch.workload import estimate_work, probe

USUAL = dict(n_codings=2, predictive=True, second_opinion=True, chains=4, sweeps=120, draws=100, n_threads=2, speed=1.0)


def work(n_rows, n_features, **other):
    plan = plan_parents(n_rows, n_features)
    chosen = plan.n_parents is not None
    plan = plan if chosen else Plan(n_rows, n_rows, n_rows)
    sizes = dict(n_rows=n_rows, n_features=n_features, n_classes=2, plan=plan, chosen=chosen)
    return estimate_work(**{**sizes, **USUAL, **other})


def test_more_work_takes_longer():
    small, large = work(300, 10), work(2_000, 10)
    assert small.total < large.total
    assert small.n_bytes < large.n_bytes
    assert set(large.seconds) < set(work(50_000, 10).seconds)  # parents are chosen there, too
    assert work(300, 10, speed=2.0).total == 2 * small.total


def test_work_is_bounded_however_large_the_table():
    seconds = work(500_000, 20).seconds
    assert seconds["sampling"] < 2 * work(50_000, 20).seconds["sampling"]
    assert seconds["importances"] < 2 * work(50_000, 20).seconds["importances"]


def test_a_sentence():
    assert re.fullmatch(
        r"This will take about (\d+ min|\d+ s)( \d+ s)? and [\d.]+ MB of memory; the most for [a-z-]+\.",
        work(50_000, 10).sentence(),
    )


def test_the_probe_takes_a_moment():
    assert 0 < probe(2) < 1
