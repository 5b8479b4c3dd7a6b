"""Mixing of q and of the votes on every case, on the heart data, also compared with the paper's sampler.

``python benchmarks/mixing.py --paper I II III`` runs only these models, with the paper's settings (ten minutes each
on two cores), and writes ``results/mixing_paper.json``. ``python benchmarks/mixing.py --against FOLDER`` compares the
smallest ESS of q per second with that of the source tree in FOLDER (``git worktree add FOLDER COMMIT``), in alternating
runs, and writes ``results/mixing_against.json``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measure import Finding, Row, Say, Section, run_alone
from numpy.typing import NDArray
from problems import heart

import bayespatch
from bayespatch import Hyperparameters, Posterior
from bayespatch.engine.cpu import CpuEngine, CpuState
from bayespatch.engine.installed import BUILT_IN
from bayespatch.model import KINDS, ModelKind
from bayespatch.sampling.diagnostics import MixingWarning

BASE_RATES: dict[ModelKind, tuple[float, ...]] = {"I": (0.1, 0.5, 1.0), "II": (0.5,), "III": (0.5,)}  # lam0
CHAINS = 4
N_LAGS = 200  # sweeps over which the autocorrelation is shown


class SweepAlone(CpuEngine):
    """The production engine without the move of q and q-tilde that sums w out."""

    def move_importance(self, state: CpuState, key: np.uint64, adapt: bool) -> None:
        """Do nothing."""


BUILT_IN["sweep alone"] = f"{__name__}:SweepAlone"


class Length(NamedTuple):
    """The length of a chain."""

    warmup: int
    draws: int
    thin: int

    def shorter(self) -> Length:
        """About a hundredth of the length, to check that it runs."""
        return Length(10, 10, 1)


# Long enough for R-hat < 1.01 and ESS > 400 of every q_j, with some to spare.
GOOD_LENGTHS: dict[ModelKind, Length] = {
    "I": Length(500, 1500, 2),
    "II": Length(1000, 2000, 5),
    "III": Length(500, 2000, 2),
}
# As the paper has it, many neighbors: each sweep costs more, and q is all but unidentified.
PAPER_LENGTHS: dict[float, dict[ModelKind, Length]] = {
    0.1: {"I": Length(500, 2000, 1), "II": Length(500, 2000, 1), "III": Length(500, 2000, 1)},
    0.5: {"I": Length(500, 6000, 2), "II": Length(8000, 5000, 2), "III": Length(400, 3600, 1)},
}
PAPER_RHAT: dict[ModelKind, float] = {"I": 1.01, "II": 1.05, "III": 1.05}


def fit(problem: dict[str, Any], hyper: Hyperparameters, length: Length, **options: Any) -> Posterior:
    """Run four chains without a warning about mixing, which is what this benchmark measures."""
    options = {"chains": CHAINS, "n_threads": 2, "keep_votes": True, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        return bayespatch.sample(**problem, hyper=hyper, **length._asdict(), **options)


def judged(posterior: Posterior) -> Row:
    """Sweeps, seconds, and the worst of R-hat and ESS."""
    run, table = posterior.settings, posterior.diagnostics()
    n_features = posterior.q.shape[2]
    ess = float(np.nanmin(table.ess_bulk[:n_features]))
    row: Row = {
        "warm-up": run.warmup,
        "sweeps": run.draws * run.thin,
        "seconds": posterior.timing.seconds,
        "max R-hat of q": float(np.nanmax(table.rhat[:n_features])),
        "min ESS of q": ess,
        "ESS per 1000 sweeps": ess / (run.chains * run.draws * run.thin) * 1000,
        "ESS per second": ess / posterior.timing.seconds_sampling,
        "neighbors per case": float(posterior.n_neighbors.mean()),
    }
    if posterior.kept_votes is not None:
        row["max R-hat of votes"] = float(np.nanmax(posterior.votes_rhat()))
    return row


def good_settings(quick: bool, section: Section, tell: Say) -> None:
    """All 297 rows as parents, 5 neighbors expected."""
    problem = heart()
    expected = Hyperparameters(alpha=5 / (len(problem["x"]) - 1), gamma=5, sigma1=2, sigma2=5)
    rows: list[Row] = []
    for kind, length in GOOD_LENGTHS.items():
        for lam0 in BASE_RATES[kind]:
            hyper = replace(expected, lam0=lam0)
            posterior = fit(problem, hyper, length.shorter() if quick else length, model=kind)
            rows.append({"model": kind, "lam0": lam0, **judged(posterior)})
            tell("    " + shown(rows[-1]))
    section.tables["mixing_good_settings"] = rows
    for kind in GOOD_LENGTHS:
        mine = [row for row in rows if row["model"] == kind]

        def worst(name: str, pick: Any, mine: list[Row] = mine) -> float:
            return float(pick(float(row[name]) for row in mine))

        where = f"Model {kind}, heart, all parents, lam0 {', '.join(map(str, BASE_RATES[kind]))}"
        section.findings += [
            Finding(f"{where}: largest R-hat of any q_j", worst("max R-hat of q", max), 1.01, at_most=True),
            Finding(f"{where}: smallest bulk ESS of any q_j", worst("min ESS of q", min), 400, at_most=False),
            Finding(
                f"{where}: largest R-hat of any case's votes", worst("max R-hat of votes", max), 1.02, at_most=True
            ),
        ]
        if kind == "I":
            section.findings.append(
                Finding(f"{where}: longest run", worst("seconds", max), 60, at_most=True, unit=" s")
            )


def with_and_without_the_move(quick: bool, section: Section, tell: Say) -> None:
    """A sweep without and with the joint move of q, q-tilde and w."""
    problem = heart()
    length = Length(10, 30, 1) if quick else Length(300, 1500, 1)
    rows: list[Row] = []
    curves: dict[str, NDArray[np.float64]] = {}
    traces: list[Row] = []
    hyper = Hyperparameters(alpha=5 / (len(problem["x"]) - 1), lam0=0.5)
    for kind in GOOD_LENGTHS:
        for engine, name in {"sweep alone": "sweep alone", "cpu": "with the move"}.items():
            short = Length(length.warmup, length.draws // (1 if kind == "I" else 3), 1)
            posterior = fit(problem, hyper, short, model=kind, engine=engine, keep_votes=False)
            row = {"model": kind, "moves": name, **judged(posterior)}
            rows.append(row)
            tell("    " + shown(row))
            if kind == "I":
                slowest = int(np.argmin(posterior.diagnostics().ess_bulk[: posterior.q.shape[2]]))
                curves[name] = autocorrelation(posterior.q[:, :, slowest], min(N_LAGS, length.draws // 2))
                traces += [
                    {"moves": name, "chain": chain, "sweep": t, "q": float(posterior.q[chain, t, slowest])}
                    for chain in range(CHAINS)
                    for t in range(0, posterior.n_draws, 10)
                ]
    section.tables["mixing_moves"] = rows
    section.tables["mixing_autocorrelation"] = [
        {"lag": lag, **{name: float(curve[lag]) for name, curve in curves.items()}}
        for lag in range(len(next(iter(curves.values()))))
    ]
    section.tables["mixing_traces"] = traces


def autocorrelation(draws: NDArray[np.float64], n_lags: int) -> NDArray[np.float64]:
    """Autocorrelation of draws (chains, draws) about the mean of all chains, so it stays high if chains differ."""
    centered = draws - draws.mean()
    n = draws.shape[1]
    return np.array([(centered[:, : n - lag] * centered[:, lag:]).mean() for lag in range(n_lags)]) / centered.var()


def at_the_papers_settings(kind: ModelKind, alpha: float, quick: bool = False) -> Row:
    """80 random parents, the other 217 rows as cases, and the paper's constants."""
    length = Length(5, 10, 1) if quick else PAPER_LENGTHS[alpha][kind]
    began = time.process_time()
    posterior = fit(heart(n_parents=80), replace(Hyperparameters.paper(), alpha=alpha), length, model=kind)
    row: Row = {"model": kind, "alpha": alpha, "processor seconds": time.process_time() - began}
    row["mean q, chain by chain"] = ", ".join(f"{level:.2f}" for level in posterior.q.mean(axis=(1, 2)))
    return row | judged(posterior)


def paper_settings(quick: bool, section: Section, tell: Say) -> None:
    """All models, with as many neighbors as in the paper and with fewer."""
    rows: list[Row] = []
    for alpha, lengths in PAPER_LENGTHS.items():
        for kind in lengths:
            rows.append(at_the_papers_settings(kind, alpha, quick))
            tell("    " + shown(rows[-1]))
            if alpha == Hyperparameters.paper().alpha:
                where = f"Model {kind}, heart, the paper's settings: largest R-hat of any q_j"
                section.findings.append(
                    Finding(where, float(rows[-1]["max R-hat of q"]), PAPER_RHAT[kind], at_most=True)
                )
    section.tables["mixing_paper_settings"] = rows


def beside_the_papers_sampler(quick: bool, section: Section, tell: Say) -> None:
    """20 cases and 10 parents, so that both engines converge. Both run in one thread, one after the other."""
    problem = heart(n_cases=20, n_parents=10)
    hyper = Hyperparameters(alpha=0.3, lam0=0.5, gamma=2, sigma1=2, sigma2=5)
    lengths = {"paper": Length(500, 2500, 2), "cpu": Length(500, 2500, 2)}
    if quick:
        lengths = {"paper": Length(20, 50, 1), "cpu": Length(20, 500, 1)}
    fit(problem, hyper, Length(5, 5, 1), n_threads=1)  # the kernels are loaded
    rows: list[Row] = []
    for engine, length in lengths.items():
        posterior = fit(problem, hyper, length, engine=engine, n_threads=1, keep_votes=False)
        rows.append({"engine": engine, "chains": CHAINS, **judged(posterior)})
        tell("    " + shown(rows[-1]))
    section.tables["mixing_engines"] = rows
    per_second = {str(row["engine"]): float(row["ESS per second"]) for row in rows}
    section.findings.append(
        Finding(
            'Model I, heart, N=20, S=10: smallest ESS of q per second, relative to engine="paper"',
            per_second["cpu"] / per_second["paper"],
            100,
            at_most=False,
        )
    )


def shown(row: Row) -> str:
    first, second = (f"{name} {row[name]}" for name in list(row)[:2])
    return (
        f"{first}, {second}: R-hat {row['max R-hat of q']:.4f}, ESS {row['min ESS of q']:.0f}, {row['seconds']:.0f} s"
    )


def main(quick: bool, tell: Say) -> Section:
    """All parts; `quick` uses chains that are too short for meaningful results."""
    section = Section("mixing")
    tell("  comparison with the paper's sampler")
    beside_the_papers_sampler(quick, section, tell)
    tell("  the sweep alone, and with the joint move")
    with_and_without_the_move(quick, section, tell)
    tell("  good settings")
    good_settings(quick, section, tell)
    tell("  the paper's settings")
    paper_settings(quick, section, tell)
    return section


def paper_alone(kinds: list[ModelKind]) -> None:
    """Some of the models with the paper's settings; results of the others are kept."""
    file = Path(__file__).parent / "results/mixing_paper.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    for kind in kinds:
        known[kind] = at_the_papers_settings(kind, Hyperparameters.paper().alpha)
        print(shown(known[kind]), flush=True)
        file.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


CHAIN = """
import sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
import bayespatch
problem = dict(np.load(sys.argv[1]))
kind, seed, warmup, draws, expected = sys.argv[2], *map(int, sys.argv[3:])
flags = dict(n_classes=2, exclude_self=True, model=kind, seed=seed, chains=4, n_threads=1)
hyper = bayespatch.Hyperparameters(alpha=expected / (len(problem["x"]) - 1), gamma=5, sigma1=2, sigma2=5, lam0=0.5)
bayespatch.sample(**problem, **flags, hyper=hyper, warmup=2, draws=2)  # the kernels are loaded
began = time.process_time()
posterior = bayespatch.sample(**problem, **flags, hyper=hyper, warmup=warmup, draws=draws)
seconds = (time.process_time() - began) * draws / (warmup + draws)
print(float(np.nanmin(posterior.diagnostics().ess_bulk[: problem["x"].shape[1]])) / seconds)
"""


def against(folder: Path) -> None:
    """Smallest ESS of q per processor second, for this tree and the one in `folder` in turn; all rows are parents."""
    here, rounds = Path(__file__).parents[1], 2
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        arrays = Path(scratch) / "heart.npz"
        np.savez(arrays, **{name: heart()[name] for name in ("x", "y", "x_parents", "y_parents", "n_values")})
        for kind, draws in {"I": 1000, "II": 300, "III": 300}.items():
            found: dict[Path, list[float]] = {folder: [], here: []}
            for seed in range(rounds):
                for tree, rates in found.items():
                    command = [sys.executable, "-c", CHAIN, arrays, kind, seed, 200, draws, 5]
                    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
                    done = subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True)
                    if done.returncode:
                        raise SystemExit(f"{tree}: {done.stderr}")
                    rates.append(float(done.stdout.split()[-1]))
            before, after = (float(np.mean(rates)) for rates in found.values())
            rows.append({"model": kind, "before": before, "after": after, "times": after / before, "rounds": rounds})
            print(f"model {kind}: {before:.2f} before, {after:.2f} now, {after / before:.2f} times", flush=True)
    file = Path(__file__).parent / "results/mixing_against.json"
    commit = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    name = subprocess.run(commit, capture_output=True, text=True, check=True).stdout.strip()
    file.write_text(json.dumps({"commit": name, "smallest ESS of q a processor second": rows}, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--against"]:
        against(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["--paper"]:
        paper_alone([kind for kind in KINDS if kind in sys.argv[2:]])
    else:
        run_alone(main, __doc__)
