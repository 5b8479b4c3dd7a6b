"""Closed-form votes on a real GPU: agreement with the CPU, and speed.

    python benchmarks/gpu_votes.py --prepare diabetic_data.csv.gz --coded coded.npz    # anywhere, with all packages
    python benchmarks/gpu_votes.py --coded coded.npz --out FOLDER                      # on the GPU machine

The first command codes the readmission file: first stay of each patient, the paper's 19 features, with a fifth of
the patients held out. The second needs only NumPy, SciPy, Numba and numba-cuda. It

1. compares votes, shares of the votes and leave-one-out gradients of random tables on GPU and CPU;
2. learns the importances of readmission and predicts the held-out patients, on the GPU and on the CPU;
3. times one case and 1,000 cases against 1,000,000 past cases x 20.

Results go to ``gpu_votes.json`` in --out (the variable OUT, or benchmarks/results).
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
import tempfile
import time
import tomllib
import types
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
N_SHOWN = 100  # held-out patients whose precedents are listed
N_COMPARED = 300  # held-out patients whose votes are compared with the CPU's
CHAINS, DRAWS = 4, 250
N_VOTING = 100  # draws that vote


def import_parts() -> Any:
    """Import the timed modules, even if bayespatch-cuda or other dependencies of the package are not installed."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "cuda" / "src"), str(ROOT / "benchmarks")]
    vars(np)["row_stack"] = np.vstack  # numba-cuda 0.30 asks for it when it first compiles; NumPy 2.5 has dropped it
    if "cuda" not in metadata.entry_points(group="bayespatch.votes").names:
        offer_entry_points()
    try:
        importlib.import_module("bayespatch")
    except ImportError:
        package = types.ModuleType("bayespatch")
        package.__path__ = [str(ROOT / "src" / "bayespatch")]
        sys.modules["bayespatch"] = package
    names = ("retrieval", "importances_at_scale", "model")
    return types.SimpleNamespace(**{name: importlib.import_module(f"bayespatch.{name}") for name in names})


def offer_entry_points() -> None:
    """Register bayespatch-cuda as its installation would."""
    project = tomllib.loads((ROOT / "cuda" / "pyproject.toml").read_text())["project"]
    folder = Path(tempfile.mkdtemp()) / "bayespatch_cuda-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: bayespatch-cuda\nVersion: 0\n")
    groups = project["entry-points"].items()
    lines = [line for group, points in groups for line in (f"[{group}]", *(f"{k} = {v}" for k, v in points.items()))]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
    sys.path.insert(0, str(folder.parent))


def prepare(file: Path, coded: Path) -> None:
    """Code the readmission file as `PatchworkClassifier` would."""
    import_parts()
    from readmission import cohorts, split

    from bayespatch.encode import Schema
    from bayespatch.fitted import past_data
    from bayespatch.tune import base_rates, constants

    cohort = cohorts(file)[0]
    train, test = split(cohort, None)
    schema = Schema.learn(cohort.X.iloc[train], missing="category")
    x, held_out = (schema.encode(cohort.X.iloc[rows]).x for rows in (train, test))
    y = cohort.y[train].astype(np.int64)
    base = base_rates(y, 2, None, None)
    everyone = np.arange(len(y))
    hyper = constants(past_data(x, y, everyone, everyone, schema, 2), base)
    settings = {"lam0": hyper.lam0, "lam": hyper.lam, "mu0": hyper.mu0, "mu": hyper.mu}
    arrays = {"x": x, "y": y, "held_out": held_out, "outcome": cohort.y[test], "n_values": schema.n_values}
    np.savez_compressed(coded, base=base, hyper=json.dumps(settings), **arrays)


def problem(parts: Any, seed: int) -> dict[str, Any]:
    """A random table with missing values, nested windows, groups, and draws of weights."""
    rng = np.random.default_rng(seed)
    n_past, n_features = int(rng.integers(50, 20_000)), int(rng.integers(1, 71))
    n_classes = int(rng.integers(2, 13))
    x = rng.integers(0, 5, (n_past, n_features)).astype(float)
    is_number = rng.random(n_features) < 0.4
    x[:, is_number] = rng.normal(size=(n_past, is_number.sum())).round(2)
    x[rng.random(x.shape) < 0.1] = np.nan
    windows = [(0.3, 0.1, 0.8)[: rng.integers(1, 4)] if number else (0.0,) for number in is_number]
    y = rng.integers(0, n_classes, n_past)
    index = parts.retrieval.CaseIndex.build(x, y, n_classes, windows)
    rows = rng.choice(n_past, 40, replace=False)
    groups = rng.integers(0, n_past // 3, n_past) if seed % 2 else None
    weights = rng.uniform(0.0, 50.0 / len(index.columns), (int(rng.integers(1, 130)), len(index.columns)))
    return {
        "index": index,
        "ranges": index.ranges(x[rows]),
        "weights": np.where(np.isnan(index.reach), -weights, weights),
        "left_out": parts.retrieval.LeftOut.members(index, rows, groups),
        "y": y[rows],
        "heard": rng.uniform(0.5, 2.0, n_classes),
        "base": rng.dirichlet(np.full(n_classes, 5.0)),
    }


def agreement(parts: Any, n_tables: int) -> dict[str, float]:
    """Largest differences between GPU and CPU over random tables; gradients relative to their largest value."""
    worst = {"votes": 0.0, "shares": 0.0, "log likelihood": 0.0, "gradients": 0.0}
    for seed in range(n_tables):
        p = problem(parts, seed)
        given = {"left_out": p["left_out"]}
        found = []
        for engine in ("cuda", "cpu"):
            totals = parts.retrieval.vote(p["index"], p["ranges"], p["weights"], engine=engine, **given)
            shares = parts.retrieval.vote_shares(
                p["index"], p["ranges"], p["weights"], totals, p["heard"], engine=engine, **given
            )
            rule = {"slope": 1.5, "heard": p["heard"], "base": p["base"], "engine": engine}
            scores = parts.retrieval.leave_one_out(
                p["index"], p["ranges"], p["y"], p["left_out"], p["weights"][0], **rule
            )
            found.append((totals.shares(p["heard"]), shares, scores.log_p, scores.by_comparison))
        for name, there, here in zip(worst, *found, strict=True):
            scale = max(1.0, float(np.abs(here).max())) if name == "gradients" else 1.0
            worst[name] = max(worst[name], float(np.abs(there - here).max()) / scale)
    return worst


def readmission(parts: Any, coded: Path, engine: str, n_threads: int) -> dict[str, Any]:
    """Learn, and predict the held-out patients; the first of two runs compiles."""
    table = np.load(coded)
    x, y, held_out = table["x"], table["y"], table["held_out"]
    model = parts.model.Model(hyper=parts.model.Hyperparameters(**json.loads(str(table["hyper"]))))
    n = len(y)
    data = parts.model.Data(x, y, x, y, table["n_values"], 2, np.zeros(x.shape[1]), np.arange(n))
    found: dict[str, Any] = {}
    for run in ("first", "second") if engine == "cuda" else ("second",):
        began = time.perf_counter()
        density = parts.importances_at_scale.LeaveOneOutBatches(data, model, table["base"], None, n_threads, engine)
        learned = density.learn(0)
        _, weights, _ = density.draw(learned, CHAINS, DRAWS, 0)
        weights = weights.reshape(CHAINS * DRAWS, -1)[:: CHAINS * DRAWS // N_VOTING]
        found[f"seconds to learn, {run} run"] = time.perf_counter() - began
        began = time.perf_counter()
        index, retrieval = density.index, parts.retrieval
        ranges = index.ranges(held_out)
        heard = np.ones(2)
        sums = [retrieval.vote(index, ranges.part(slice(a, a + 4096)), weights, n_threads=n_threads, engine=engine)
                for a in range(0, len(held_out), 4096)]  # fmt: skip
        share = np.concatenate([part.shares(heard).mean(axis=1) for part in sums])
        found[f"seconds for {len(held_out)} predictions, {run} run"] = time.perf_counter() - began
        began = time.perf_counter()
        few = ranges.part(slice(0, N_SHOWN))
        totals = retrieval.vote(index, few, weights, n_threads=n_threads, engine=engine)
        retrieval.vote_shares(index, few, weights, totals, heard, n_threads=n_threads, engine=engine)
        found[f"seconds for the precedents of {N_SHOWN} patients, {run} run"] = time.perf_counter() - began
    share = 0.99 * share + 0.01 * table["base"]
    slope = math.exp(learned.mode[-1])
    logs = slope * np.log(share) + (1.0 - slope) * np.log(table["base"])
    p = 1.0 / (1.0 + np.exp(logs[:, 0] - logs[:, 1]))
    found |= scores(table["outcome"], p)
    found["first probabilities"] = p[:N_COMPARED].tolist()
    return found


def scores(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
    """AUC and log loss."""
    from scipy.stats import rankdata

    n_one = int(y.sum())
    auc = (rankdata(p)[y == 1].sum() - n_one * (n_one + 1) / 2) / (n_one * (len(y) - n_one))
    return {"AUC": float(auc), "log loss": float(-np.log(np.where(y == 1, p, 1.0 - p)).mean())}


def million(parts: Any, engine: str) -> dict[str, float]:
    """Votes of 1,000,000 past cases with 20 columns on one case and on 1,000."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, (1_000_000, 20)).astype(float)
    index = parts.retrieval.CaseIndex.build(x, rng.integers(0, 2, len(x)), 2, [(0.0,)] * 20)
    weights = rng.normal(0.5, 0.1, (N_VOTING, 20))
    found: dict[str, float] = {}
    for n in (1, 1000) if engine == "cuda" else (1,):
        ranges = index.ranges(x[:n])
        parts.retrieval.vote(index, ranges, weights, engine=engine)
        began = time.perf_counter()
        parts.retrieval.vote(index, ranges, weights, engine=engine)
        found[f"seconds for {n}"] = time.perf_counter() - began
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepare", type=Path, help="UCI's diabetic_data.csv.gz")
    parser.add_argument("--coded", type=Path, required=True)
    parser.add_argument("--tables", type=int, default=30)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ROOT / "benchmarks" / "results")))
    given = parser.parse_args()
    if given.prepare is not None:
        prepare(given.prepare, given.coded)
        return
    parts, results = import_parts(), {}
    given.out.mkdir(parents=True, exist_ok=True)
    steps = {
        "largest difference between GPU and CPU": lambda: agreement(parts, given.tables),
        "readmission, GPU": lambda: readmission(parts, given.coded, "cuda", given.threads),
        "1,000,000 x 20, GPU": lambda: million(parts, "cuda"),
        "1,000,000 x 20, one core": lambda: million(parts, "cpu"),
        f"readmission, CPU, {given.threads} threads": lambda: readmission(parts, given.coded, "cpu", given.threads),
    }
    for name, step in steps.items():
        results[name] = step()
        shown = {key: value for key, value in results[name].items() if key != "first probabilities"}
        print(name, json.dumps(shown, indent=2), flush=True)
        (given.out / "gpu_votes.json").write_text(json.dumps(results, indent=2))
    two = [np.array(part.pop("first probabilities")) for part in results.values() if "first probabilities" in part]
    results["largest difference of a probability"] = {"readmission": float(np.abs(two[0] - two[1]).max())}
    print("readmission: largest difference of a probability", results["largest difference of a probability"])
    (given.out / "gpu_votes.json").write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
