"""A hundred thousand cases on two cores: memory and seconds per sweep, and the time for choosing the parents."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings

import numpy as np
from measure import Finding, Row, Say, Section, run_alone
from memory import PER_MB, memory_now

N_CASES, N_PARENTS, N_FEATURES, NEIGHBORS = 101_766, (200, 1_000), 19, 5
DRAWS, WARMUP, THREADS = 2, 3, 2
FULL = 500  # draws of each of 4 chains, as `sample` takes where nothing is said
WAYS = ("random", "balanced", "medoids")


def sampled_here(n_cases: int, n_parents: int, chains: int) -> dict[str, float]:
    """In a separate process: a few sweeps, the peak memory of the whole process, and the estimate."""
    from problems import simulated_arrays

    from bayespatch import Hyperparameters, sample
    from bayespatch.engine.base import ProblemSizes
    from bayespatch.engine.installed import load_engine
    from bayespatch.sampling.memory_needed import bytes_needed

    warnings.simplefilter("ignore")
    hyper = Hyperparameters(alpha=NEIGHBORS / n_parents)
    sample(**simulated_arrays(4, 4, N_FEATURES), chains=1, draws=DRAWS, warmup=1, n_threads=1)
    arrays = simulated_arrays(n_cases, n_parents, N_FEATURES)
    before, _ = memory_now()
    posterior = sample(**arrays, hyper=hyper, chains=chains, draws=DRAWS, warmup=WARMUP, n_threads=THREADS)
    _, peak = memory_now()
    sizes = ProblemSizes(n_cases, n_parents, N_FEATURES, 2)
    needs = [
        bytes_needed(sizes, posterior.model, settings, load_engine("cpu"), n_threads=THREADS).total / PER_MB
        for settings in (posterior.settings, posterior.settings._replace(draws=FULL))
    ]
    timing = posterior.timing
    return {
        "before": before,
        "peak": peak,
        "needed": needs[0],
        "needed full": needs[1],
        "seconds": timing.seconds * min(chains, THREADS) / timing.sweeps,
        "neighbors": float(posterior.n_neighbors.mean()),
    }


def sampled_apart(n_cases: int, n_parents: int, chains: int) -> dict[str, float]:
    """`sampled_here`, in a fresh process."""
    command = [sys.executable, __file__, "--child", str(n_cases), str(n_parents), str(chains)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seen: dict[str, float] = json.loads(done.stdout)
    return seen


def sampling(section: Section, quick: bool, tell: Say) -> None:
    n_cases = 2_000 if quick else N_CASES
    rows: list[Row] = []
    sampled_apart(4, 50, 1)  # compiles what is not in the cache yet: a compiler's memory is not meant here
    for n_parents in (50,) if quick else N_PARENTS:
        for chains in (1, 4):
            seen = sampled_apart(n_cases, n_parents, chains)
            added = seen["peak"] - seen["before"]
            rows.append(
                {
                    "cases": n_cases,
                    "parents": n_parents,
                    "chains": chains,
                    "seconds per sweep": seen["seconds"],
                    "ns per (case, parent, feature)": 1e9 * seen["seconds"] / (n_cases * n_parents * N_FEATURES),
                    "added, MB": added,
                    "estimated, MB": seen["needed"],
                    "added / estimated": added / seen["needed"],
                    "peak of the process, MB": seen["peak"],
                    f"with {FULL} draws, MB": seen["peak"] + seen["needed full"] - seen["needed"],
                    "neighbors per case": seen["neighbors"],
                }
            )
            tell(f"    S={n_parents}, {chains} chains: {seen['seconds']:.2f} s per sweep, {seen['peak']:.0f} MB")
    section.tables["scale"] = rows
    full = next(row for row in rows if row["chains"] == 4)
    what = f"N={n_cases}, S={full['parents']}, P={N_FEATURES}, 4 chains on {THREADS} threads"
    most = float(full[f"with {FULL} draws, MB"])
    section.findings.append(
        Finding(f"{what}: peak of the process with {FULL} draws", most, 2000, at_most=True, unit=" MB")
    )
    worst = max(float(row["added / estimated"]) for row in rows)
    section.findings.append(Finding("memory added by `sample`, relative to the estimate", worst, 1.25, at_most=True))


def parents(section: Section, quick: bool, tell: Say) -> None:
    from problems import simulated_arrays

    from bayespatch.parents import choose_parents

    arrays = simulated_arrays(2_000 if quick else N_CASES, 1_000, N_FEATURES)
    x, y = arrays["x"].astype(np.float64), arrays["y"]
    rows: list[Row] = []
    for n_parents in (20,) if quick else N_PARENTS:
        for way in WAYS:
            began = time.perf_counter()
            chosen = choose_parents(way, x, y, np.random.default_rng(0), n_parents=n_parents)
            seconds = time.perf_counter() - began
            rows.append(
                {
                    "cases": len(x),
                    "parents": n_parents,
                    "method": way,
                    "seconds": seconds,
                    "features that differ from the nearest parent": nearest(x[chosen.cases], x[chosen.parents]),
                }
            )
            tell(f"    {n_parents} {way}: {seconds:.2f} s")
    section.tables["scale_parents"] = rows
    slowest = max(float(row["seconds"]) for row in rows)
    section.findings.append(
        Finding(
            f"choosing up to {rows[-1]['parents']} of {len(x)} cases as parents: slowest method",
            slowest,
            30,
            True,
            " s",
        )
    )


def nearest(x: np.ndarray, x_parents: np.ndarray) -> float:
    """The number of features in which a case differs from its most similar parent, averaged over 2,000 cases."""
    some = x[np.linspace(0, len(x) - 1, 2_000).astype(int)]
    return float(np.mean([(row != x_parents).sum(axis=1).min() for row in some]))


def seconds_a_sweep(sections: list[Section]) -> dict[tuple[int, int], float]:
    """Seconds per sweep of one chain on two threads, by cases and parents, if measured."""
    rows = [row for section in sections if section.name == "scale" for row in section.tables["scale"]]
    return {
        (int(row["cases"]), int(row["parents"])): float(row["seconds per sweep"]) for row in rows if row["chains"] == 1
    }


def main(quick: bool, tell: Say) -> Section:
    """Sampling first, each run in a fresh process; then the parents."""
    section = Section("scale")
    sampling(section, quick, tell)
    parents(section, quick, tell)
    return section


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(sampled_here(*map(int, sys.argv[2:]))))
    else:
        run_alone(main, __doc__)
