"""The cost of reading a table in many Parquet files before a fit: seconds, bytes, memory of the calling process.

    python benchmarks/dask_frames.py --rows 200000 1000000 4000000

One Dask worker with one thread reads files of 100,000 rows and 19 columns (10 of numbers, 6 of strings, 3 of small
integers): once for all rows, once for a sample of 100,000. Each size runs in a separate process, whose memory after the
first file is compared with that after all files. Writes results/dask_frames.csv.
"""

from __future__ import annotations

import argparse
import csv
import json
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

RESULTS = Path(__file__).parent / "results" / "dask_frames.csv"
ROWS_PER_FILE = 100_000


def table(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {f"number {j}": rng.normal(50, 10, n).round(1) for j in range(10)}
    columns |= {f"text {j}": rng.choice(list("abcde"), n) for j in range(6)}
    columns |= {f"count {j}": rng.integers(0, 4, n) for j in range(3)}
    sick = columns["number 0"] + 5 * columns["count 0"] + rng.normal(0, 10, n) > 60
    return pd.DataFrame({**columns, "outcome": np.where(sick, "sick", "well")})


def peak() -> float:
    """Peak memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def measured(folder: str, scheduler: str) -> dict[str, float]:
    from bayespatch.source.parquet_parts import parquet_files, training_parts
    from bayespatch.workers import computed

    passes: list[tuple[float, int]] = []

    def each(function: Any, arguments: Any) -> list[Any]:
        began = time.perf_counter()
        found = computed(function, arguments, scheduler)
        passes.append((time.perf_counter() - began, len(pickle.dumps(found))))
        return found

    files = parquet_files(folder) or []
    training_parts(files[:1], "outcome", each).sample(0, classes=True)  # what is imported on the way is no part of it
    passes.clear()
    before = peak()
    sample = training_parts(files, "outcome", each).sample(0, classes=True)
    (first, first_bytes), (second, second_bytes) = passes
    return {
        "rows": sample.summary.n_rows,
        "files": len(files),
        "seconds for all rows": first,
        "kB back": first_bytes / 1e3,
        "seconds for the sample": second,
        "MB of the sample": second_bytes / 1e6,
        "MB of the calling process, more than for one file": peak() - before,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000, 1_000_000])
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "SCHEDULER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measured(*given.measure)))
        return
    from distributed import LocalCluster

    rows = []
    for n_rows in given.rows:
        with tempfile.TemporaryDirectory() as folder:
            in_memory = 0.0
            for k in range(n_rows // ROWS_PER_FILE):
                part = table(ROWS_PER_FILE, k)
                in_memory += part.memory_usage(deep=True).sum() / 1e6
                part.to_parquet(Path(folder) / f"{k:05d}.parquet")
            with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
                words = [sys.executable, __file__, "--measure", folder, cluster.scheduler_address]
                found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        rows.append({**found, "MB of the table in pandas": float(in_memory)})
        print({name: round(value, 2) for name, value in rows[-1].items()}, flush=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({name: f"{value:.4g}" for name, value in row.items()} for row in rows)


if __name__ == "__main__":
    main()
