"""What spreading the cases over Dask workers costs: seconds, processor time, bytes and memory, by cases and workers.

    python benchmarks/dask_scale.py --cases 10000 50000 --workers 1 2 4 --sweeps 4

Every row is one chain of Model I: first engine "cpu" with two threads, then engine "dask" with workers in processes of
their own on this machine, on the same data. Sweeps are timed without the first, which begins the shards. Processor time
is that of all processes together. Snapshots are not taken here: what one sends is what a kept draw does, without the
votes. The machine should be idle. Writes results/dask_scale.csv, where rows of other sizes stay, and draws them into
docs/figures/dask_scale.png.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from problems import simulated

from bayespatch.engine import dask
from bayespatch.engine.cpu import CpuEngine
from bayespatch.engine.dask import DaskEngine
from bayespatch.model import Hyperparameters, Model

NEIGHBORS = 5
RESULTS = Path(__file__).parent / "results" / "dask_scale.csv"
PICTURE = Path(__file__).parents[1] / "docs" / "figures" / "dask_scale.png"


def cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system


def on_worker() -> tuple[float, int]:
    """Processor seconds of a worker so far, and the bytes that it holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return cpu_seconds(), pages * os.sysconf("SC_PAGE_SIZE")


def timed(engine: Any, n_sweeps: int, processor: Any) -> dict[str, float]:
    state = engine.start(0, 0)
    for _ in range(2):  # neighbors are found, and lists have their length
        engine.sweep(state, adapt=True)
    spread = getattr(engine, "spread", None)
    travelled = (spread.bytes_sent, spread.bytes_received) if spread else (0, 0)
    seconds, used = time.perf_counter(), processor()
    for _ in range(n_sweeps):
        engine.sweep(state)
    found = {
        "seconds a sweep": (time.perf_counter() - seconds) / n_sweeps,
        "processor seconds a sweep": (processor() - used) / n_sweeps,
    }
    if spread:
        found["kB sent a sweep"] = (spread.bytes_sent - travelled[0]) / n_sweeps / 1e3
        found["kB received a sweep"] = (spread.bytes_received - travelled[1]) / n_sweeps / 1e3
        before = spread.bytes_received
    began = time.perf_counter()
    observed = engine.observe(state)
    found["seconds a kept draw"] = time.perf_counter() - began
    if spread:
        found["bytes a kept draw and case"] = (spread.bytes_received - before) / len(observed.votes)
    found["checksum"] = float(observed.log_joint)
    return found


def measured(n_cases: int, n_parents: int, n_features: int, workers: list[int], n_sweeps: int) -> list[dict[str, Any]]:
    from distributed import LocalCluster

    data = simulated(n_cases, n_parents, n_features)
    model = Model(hyper=Hyperparameters(alpha=NEIGHBORS / n_parents))
    sizes = {"cases": n_cases, "parents": n_parents, "features": n_features}
    rows = [{**sizes, "engine": "cpu, 2 threads", **timed(CpuEngine(data, model, 2), n_sweeps, cpu_seconds)}]
    for n_workers in workers:
        with LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
            (engine,) = DaskEngine.for_chains(1, data, model, 1, cluster.scheduler_address)
            client = engine.spread.client  # type: ignore[attr-defined]

            def processor(client: Any = client) -> float:
                return cpu_seconds() + sum(used for used, _ in client.run(on_worker).values())

            found = timed(engine, n_sweeps, processor)
            found["MB a worker, at most"] = max(held for _, held in client.run(on_worker).values()) / 1e6
            rows.append({**sizes, "engine": f"dask, {n_workers} workers", **found})
            engine.close()
        if rows[-1]["checksum"] != rows[0]["checksum"]:
            raise SystemExit(f"{rows[-1]['engine']}: the draws are not those of the CPU engine")
    for row in rows:
        row["processor time / cpu"] = row["processor seconds a sweep"] / rows[0]["processor seconds a sweep"]
        del row["checksum"]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, nargs="+", default=[10_000, 50_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--parents", type=int, default=500)
    parser.add_argument("--features", type=int, default=19)
    parser.add_argument("--sweeps", type=int, default=4)
    given = parser.parse_args()
    dask.SNAPSHOT_SECONDS = float("inf")
    with RESULTS.open(newline="") as file:
        known = list(csv.DictReader(file))
    rows: list[dict[str, Any]] = []
    for n_cases in given.cases:
        for row in measured(n_cases, given.parents, given.features, given.workers, given.sweeps):
            rows.append(row)
            print({name: round(v, 3) if isinstance(v, float) else v for name, v in row.items()}, flush=True)
        done = {str(row["cases"]) for row in rows}
        write([row for row in known if row["cases"] not in done] + rows)


def write(rows: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for row in rows:
            writer.writerow({name: f"{v:.4g}" if isinstance(v, float | np.floating) else v for name, v in row.items()})


def draw() -> None:
    """Processor time a sweep by cases, and beside engine "cpu" by workers."""
    from matplotlib.figure import Figure

    with RESULTS.open(newline="") as file:
        rows = [{**row, "cases": int(row["cases"])} for row in csv.DictReader(file)]
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    growth, share = figure.subplots(1, 2)
    for engine in sorted({row["engine"] for row in rows}):
        mine = sorted((row for row in rows if row["engine"] == engine), key=lambda row: row["cases"])
        seconds = [float(row["processor seconds a sweep"]) for row in mine]
        growth.plot([row["cases"] for row in mine], seconds, "o-", label=engine, markersize=4)
    growth.set(xscale="log", yscale="log", xlabel="cases", ylabel="processor seconds a sweep")
    growth.legend(frameon=False, fontsize="small")
    for n_cases in sorted({row["cases"] for row in rows}):
        mine = [row for row in rows if row["cases"] == n_cases and row["engine"].startswith("dask")]
        workers = [int(row["engine"].split()[1]) for row in mine]
        share.plot(
            workers, [float(row["processor time / cpu"]) for row in mine], "o-", label=f"{n_cases:,}", markersize=4
        )
    share.axhline(1.0, color="0.6", linewidth=1)
    share.set(xlabel="workers", ylabel="processor time, times that of engine 'cpu'", ylim=(0, None))
    share.legend(title="cases", frameon=False, fontsize="small")
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    main()
    draw()
