"""What a large problem adds to the memory of a process: N=20,000 cases, S=1,000 parents, 380 million w."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import warnings
from pathlib import Path

from measure import Finding, Row, Say, Section, run_alone

DRAWS, WARMUP = 5, 15
PER_MB = 1e6


def memory_now() -> tuple[float, float]:
    """Megabytes that this process holds, and the most it has held.

    On Linux from /proc: the peak of getrusage begins with that of the process by which this one was started.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / PER_MB  # bytes, on a Mac
        return peak, peak
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
    held, peak = (float(lines[name].split()[0]) * 1024 / PER_MB for name in ("VmRSS", "VmHWM"))
    return held, peak


def measure_here(n_cases: int, n_parents: int, chains: int) -> dict[str, float]:
    """In a process of its own: memory before and after."""
    from problems import simulated_arrays

    from bayespatch import Hyperparameters, sample
    from bayespatch.sample import load_engine

    warnings.simplefilter("ignore")
    load_engine("cpu")
    arrays = simulated_arrays(n_cases, n_parents, 19)
    before, _ = memory_now()
    # Compiled code takes memory whatever the size of the problem; a tiny run loads it.
    sample(**simulated_arrays(4, 4, 19), chains=1, draws=DRAWS, warmup=1, n_threads=1)
    loaded, _ = memory_now()
    posterior = sample(
        **arrays,
        hyper=Hyperparameters(alpha=min(0.5, 10 / n_parents)),
        chains=chains,
        draws=DRAWS,
        warmup=WARMUP,
        n_threads=min(chains, 2),
    )
    _, peak = memory_now()
    return {
        "code": loaded - before,
        "data": peak - loaded,
        "neighbors": float(posterior.n_neighbors.mean()),
        "z_mean": posterior.z_mean.nbytes / PER_MB,
    }


def measure_apart(n_cases: int, n_parents: int, chains: int) -> dict[str, float]:
    """`measure_here`, in a fresh process."""
    command = [sys.executable, __file__, "--child", str(n_cases), str(n_parents), str(chains)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seen: dict[str, float] = json.loads(done.stdout)
    return seen


def main(quick: bool, tell: Say) -> Section:
    """One chain and four, each in a fresh process."""
    section = Section("memory")
    n_cases, n_parents = (500, 50) if quick else (20_000, 1_000)
    rows: list[Row] = []
    measure_apart(4, 4, 1)  # compiles what is not in the cache yet: a compiler's memory is not meant here
    for chains in (1, 4):
        seen = measure_apart(n_cases, n_parents, chains)
        rows.append(
            {
                "chains": chains,
                "added, MB": seen["code"] + seen["data"],
                "of which code, MB": seen["code"],
                "of which data, MB": seen["data"],
                "of which z_mean, MB": seen["z_mean"],
                "w, if dense, MB": n_cases * n_parents * 19 * chains / PER_MB,
                "neighbors per case": seen["neighbors"],
            }
        )
        tell(f"    {chains} chains: {rows[-1]['added, MB']:.0f} MB")
    section.tables["memory"] = rows
    section.findings.append(
        Finding(
            f"N={n_cases}, S={n_parents}, P=19, one chain: memory that `sample` adds, code and all",
            float(rows[0]["added, MB"]),
            250,
            at_most=True,
            unit=" MB",
        )
    )
    return section


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(measure_here(*map(int, sys.argv[2:]))))
    else:
        run_alone(main, __doc__)
