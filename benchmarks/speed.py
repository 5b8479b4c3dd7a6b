"""The time for an update: relative to a random number, by model, on two threads, and as the problem grows."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from measure import Finding, Row, Say, Section, interleaved, ratio, run_alone
from numpy.typing import NDArray
from problems import simulated

from bayespatch import Hyperparameters
from bayespatch.engine.cpu import CpuEngine, CpuState
from bayespatch.engine.importance import N_MOVES
from bayespatch.engine.streams import chain_key, subkey
from bayespatch.model import KINDS, Model, ModelKind

EXPECTED_NEIGHBORS = 10
N_DOUBLES = 100_000  # filled at a time: stays in the cache
FILLS = 40


class Chain:
    """A chain after its warm-up, ready to be timed."""

    def __init__(
        self, n_cases: int, n_parents: int, n_features: int, kind: ModelKind, n_threads: int = 1, warmup: int = 20
    ) -> None:
        alpha = min(0.5, EXPECTED_NEIGHBORS / n_parents)
        model = Model(kind=kind, hyper=Hyperparameters(alpha=alpha, lam0=0.1))
        self.engine = CpuEngine(simulated(n_cases, n_parents, n_features), model, n_threads)
        self.state: CpuState = self.engine.start(seed=0, chain=0)
        self.n_updates = n_cases * n_parents * n_features
        self.n_calls = 0
        for _ in range(warmup):
            self.engine.sweep(self.state, adapt=True)

    def update_cases(self) -> None:
        """z and w of every case, given q-tilde."""
        self.n_calls += 1
        self.engine.update_cases(self.state, subkey(chain_key(1, 0), self.n_calls))

    def sweep(self) -> None:
        """The same, plus the moves of q and q-tilde."""
        self.engine.sweep(self.state)

    @property
    def neighbors(self) -> float:
        """Current number of neighbors per case."""
        return float(self.state.neighbors.n.mean())


def fill_with_doubles() -> Callable[[], None]:
    generator, doubles = np.random.default_rng(0), np.empty(N_DOUBLES)

    def fill() -> None:
        for _ in range(FILLS):
            generator.random(out=doubles)

    return fill


def beside_a_random_number(n_cases: int, n_parents: int, rounds: int, section: Section) -> None:
    """One (case, parent, feature) update of Model I, in units of one double from Generator.random."""
    chain = Chain(n_cases, n_parents, 19, "I")
    tasks = {"double": fill_with_doubles(), "update": chain.update_cases, "sweep": chain.sweep}
    seconds = interleaved(tasks, rounds, time.thread_time)
    each = {name: seconds[name] / chain.n_updates for name in ("update", "sweep")}
    each["double"] = seconds["double"] / (N_DOUBLES * FILLS)
    names = {
        "double": "one double from numpy.random.Generator.random",
        "update": "update of z and w",
        "sweep": "complete sweep",
    }
    section.tables["speed_update"] = [
        {
            "what": text,
            "ns per (case, parent, feature)": float(np.median(each[name]) * 1e9),
            "best ns": float(each[name].min() * 1e9),
            "relative to one double": ratio(each[name], each["double"]),
            "neighbors per case": chain.neighbors if name != "double" else "",
        }
        for name, text in names.items()
    ]
    where = f"Model I, N={n_cases}, S={n_parents}, P=19, one thread"
    doubles = "relative to drawing one double with `numpy.random.Generator.random`"
    each_update, each_sweep = (ratio(each[name], each["double"]) for name in ("update", "sweep"))
    section.findings += [
        Finding(f"{where}: one (case, parent, feature) update of z and w, {doubles}", each_update, 0.6, at_most=True),
        Finding(f"{where}: a complete sweep per (case, parent, feature), {doubles}", each_sweep, 0.9, at_most=True),
    ]


def between_models(n_cases: int, n_parents: int, rounds: int, section: Section) -> None:
    """Models II and III in units of Model I."""
    chains = {kind: Chain(n_cases, n_parents, 13, kind) for kind in KINDS}
    updates = interleaved({kind: chain.update_cases for kind, chain in chains.items()}, rounds, time.thread_time)
    sweeps = interleaved({kind: chain.sweep for kind, chain in chains.items()}, rounds, time.thread_time)
    section.tables["speed_models"] = [
        {
            "model": kind,
            "update of z and w, ms": float(np.median(updates[kind]) * 1e3),
            "update / Model I": ratio(updates[kind], updates["I"]),
            "sweep, ms": float(np.median(sweeps[kind]) * 1e3),
            "sweep / Model I": ratio(sweeps[kind], sweeps["I"]),
            "moves of q per sweep": N_MOVES[kind],
            "neighbors per case": chains[kind].neighbors,
        }
        for kind in KINDS
    ]
    where = f"N={n_cases}, S={n_parents}, P=13"
    section.findings += [
        Finding(f"Model II / Model I, {where}: complete sweep", ratio(sweeps["II"], sweeps["I"]), 5, at_most=True),
    ]


def on_two_threads(n_cases: int, n_parents: int, rounds: int, section: Section) -> None:
    """The same chain (same seed, same draws) on one thread and on two, in wall-clock time."""
    one, two = (Chain(n_cases, n_parents, 19, "I", n_threads=n) for n in (1, 2))
    # One after the other in the same round, so that both do exactly the same work.
    tasks = {"update 1": one.update_cases, "update 2": two.update_cases, "sweep 1": one.sweep, "sweep 2": two.sweep}
    seconds = interleaved(tasks, rounds, time.perf_counter)
    speedups = {name: ratio(seconds[f"{name} 1"], seconds[f"{name} 2"]) for name in ("update", "sweep")}
    section.tables["speed_threads"] = [
        {
            "what": text,
            "1 thread, ms": float(np.median(seconds[f"{name} 1"]) * 1e3),
            "2 threads, ms": float(np.median(seconds[f"{name} 2"]) * 1e3),
            "speedup": speedups[name],
        }
        for name, text in {"update": "update of z and w", "sweep": "complete sweep"}.items()
    ]
    where = f"Model I, N={n_cases}, S={n_parents}, P=19"
    section.findings += [
        Finding(f"speedup with 2 threads, {where}: complete sweep", speedups["sweep"], 1.8, at_most=False),
        Finding(f"speedup with 2 threads, {where}: update of z and w", speedups["update"], 1.8, at_most=False),
    ]


def when_threads_pay(sizes: list[int], n_parents: int, rounds: int, section: Section, tell: Say) -> None:
    """The number of cases from which a sweep is faster on two threads."""
    rows: list[Row] = []
    for n_cases in sizes:
        one, two = (Chain(n_cases, n_parents, 19, "I", n_threads=n) for n in (1, 2))
        repeats = max(1, 500 // n_cases)

        def several(chain: Chain, repeats: int = repeats) -> None:
            for _ in range(repeats):
                chain.sweep()

        tasks = {"1": lambda one=one: several(one), "2": lambda two=two: several(two)}
        seconds = interleaved(tasks, rounds, time.perf_counter)
        rows.append(
            {
                "cases": n_cases,
                "1 thread, ms": float(np.median(seconds["1"]) * 1e3 / repeats),
                "2 threads, ms": float(np.median(seconds["2"]) * 1e3 / repeats),
                "speedup": ratio(seconds["1"], seconds["2"]),
            }
        )
        tell(f"    {n_cases} cases: {rows[-1]['speedup']:.2f}")
    section.tables["speed_threads_by_cases"] = rows


def as_the_problem_grows(
    base: dict[str, int], grid: dict[str, list[int]], rounds: int, section: Section, tell: Say
) -> None:
    """One of N, S and P grows, while the others and the expected number of neighbors are fixed."""
    rows: list[Row] = []
    for symbol, sizes in grid.items():
        for kind in KINDS:
            for size in sizes:
                n = {**base, symbol: size}
                chain = Chain(n["N"], n["S"], n["P"], kind, warmup=10)
                tasks = {"update": chain.update_cases, "sweep": chain.sweep}
                seconds = interleaved(tasks, rounds, time.thread_time)
                rows.append(
                    {
                        "grows": symbol,
                        "model": kind,
                        **n,
                        "update of z and w, ms": float(seconds["update"].min() * 1e3),
                        "sweep, ms": float(seconds["sweep"].min() * 1e3),
                        "neighbors per case": chain.neighbors,
                    }
                )
            tell(f"    {symbol}, Model {kind}: up to {rows[-1]['sweep, ms']:.0f} ms a sweep")
    section.tables["speed_growth"] = rows
    section.tables["speed_straight_lines"] = [
        {"grows": symbol, "R² of the update": fits[0], "R² of the sweep": fits[1]}
        for symbol in grid
        for fits in [straightness([row for row in rows if row["grows"] == symbol and row["model"] == "I"], symbol)]
    ]


def straightness(rows: list[Row], symbol: str) -> tuple[float, float]:
    """R² of a straight line through the costs, update and sweep."""
    size = np.array([float(row[symbol]) for row in rows])

    def r_squared(cost: NDArray[np.float64]) -> float:
        residual = cost - np.polyval(np.polyfit(size, cost, 1), size)
        return float(1.0 - residual.var() / cost.var())

    update, sweep = (np.array([float(row[name]) for row in rows]) for name in ("update of z and w, ms", "sweep, ms"))
    return r_squared(update), r_squared(sweep)


def main(quick: bool, tell: Say) -> Section:
    """All parts; `quick` uses sizes that are too small for meaningful results."""
    section = Section("speed")
    n_cases, n_parents, rounds = (100, 50, 3) if quick else (2000, 500, 15)
    tell("  an update and a random number")
    beside_a_random_number(n_cases, n_parents, rounds, section)
    tell("  Models II and III, and Model I")
    between_models(n_cases, n_parents, min(rounds, 9), section)
    tell("  two threads and one")
    on_two_threads(n_cases, n_parents, 2 * rounds, section)
    tell("  cases from which on two threads pay")
    when_threads_pay([5, 20] if quick else [5, 10, 20, 50, 100, 200, 500, 1000, 2000], n_parents, rounds, section, tell)
    tell("  cost as the problem grows")
    if quick:
        base, grid = dict(N=20, S=20, P=5), dict(N=[20, 40, 60], S=[20, 40, 60], P=[4, 8, 16])
    else:
        base = dict(N=300, S=200, P=13)
        grid = dict(
            N=[100, 200, 300, 400, 600, 800],
            S=[100, 200, 300, 400, 600, 800],
            P=[4, 8, 13, 16, 20, 24, 32, 40, 48],
        )
    as_the_problem_grows(base, grid, 3 if quick else 7, section, tell)
    return section


if __name__ == "__main__":
    run_alone(main, __doc__)
