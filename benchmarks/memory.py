"""The memory that a large problem adds to a process: N=20,000 cases, S=1,000 parents, 380 million w."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from importlib import metadata
from pathlib import Path

from measure import Finding, Row, Say, Section, run_alone

DRAWS, WARMUP = 5, 15
PER_MB = 1e6


def memory_now() -> tuple[float, float]:
    """Current and peak memory of this process, in megabytes.

    On Linux from /proc, because the peak of getrusage includes that of the parent process.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / PER_MB  # bytes, on a Mac
        return peak, peak
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
    held, peak = (float(lines[name].split()[0]) * 1024 / PER_MB for name in ("VmRSS", "VmHWM"))
    return held, peak


def measure_here(n_cases: int, n_parents: int, chains: int) -> dict[str, float]:
    """The memory that the first call of `sample` adds, in a separate process."""
    from problems import simulated_arrays

    from bayespatch import Hyperparameters, sample
    from bayespatch.engine.installed import load_engine

    warnings.simplefilter("ignore")
    load_engine("cpu")
    arrays = simulated_arrays(n_cases, n_parents, 19)
    before, _ = memory_now()
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
        "added": peak - before,
        "neighbors": float(posterior.n_neighbors.mean()),
        "z_mean": posterior.z_mean.nbytes / PER_MB,
    }


def measure_apart(n_cases: int, n_parents: int, chains: int, packages: str | None) -> dict[str, float]:
    """`measure_here` in a fresh process with the `packages` of a folder, or (None) all installed packages."""
    apart = ["-S"] if packages else []
    environment = {**os.environ, "PYTHONPATH": packages} if packages else None
    command = [sys.executable, *apart, __file__, "--child", str(n_cases), str(n_parents), str(chains)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    seen: dict[str, float] = json.loads(done.stdout)
    return seen


def required(name: str) -> set[str]:
    """The distributions that `name` requires without extras, including itself."""
    from packaging.requirements import Requirement

    found, todo = set(), {name}
    while todo:
        found.add(name := todo.pop())
        requirements = [Requirement(line) for line in metadata.requires(name) or []]
        todo |= {r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})} - found
    return found


def install_core(folder: str) -> None:
    """Fill a folder with links to the package and its requirements without extras, like a plain `pip install`."""
    import bayespatch

    links = {"bayespatch": Path(bayespatch.__file__).parent}
    for name in required("bayespatch") - {"bayespatch"}:
        distribution = metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}
        links.update({top: Path(str(distribution.locate_file(top))) for top in tops})
    for top, target in links.items():
        (Path(folder) / top).symlink_to(target.resolve())


def main(quick: bool, tell: Say) -> Section:
    """One chain and four chains, each in a fresh process: with the required packages only, and with all extras."""
    section = Section("memory")
    n_cases, n_parents = (500, 50) if quick else (20_000, 1_000)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        install_core(folder)
        for name, packages in (("required packages", folder), ("all packages, including xarray and pandas", None)):
            measure_apart(4, 4, 1, packages)  # compiles what is not in the cache yet: a compiler's memory is not meant
            code = measure_apart(4, 4, 1, packages)["added"]
            for chains in (1, 4):
                seen = measure_apart(n_cases, n_parents, chains, packages)
                rows.append(
                    {
                        "packages": name,
                        "chains": chains,
                        "added, MB": seen["added"],
                        "added by a tiny problem, MB": code,
                        "z_mean, MB": seen["z_mean"],
                        "dense w, MB": n_cases * n_parents * 19 * chains / PER_MB,
                        "neighbors per case": seen["neighbors"],
                    }
                )
                tell(f"    {name}, {chains} chains: {seen['added']:.0f} MB")
    section.tables["memory"] = rows
    for row in (rows[0], rows[2]):
        section.findings.append(
            Finding(
                f"N={n_cases}, S={n_parents}, P=19, one chain, {row['packages']}: memory added by the first call "
                "of `sample`, including code",
                float(row["added, MB"]),
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
