"""The default of this tree beside the default of an earlier one, on the same folds.

    git worktree add FOLDER e28c63c~1   # version 0.2, with sampled votes
    python benchmarks/against.py --old FOLDER --suite FOLDER --jobs 16

Stratified ten-fold cross-validation of the bundled tables and of the CSV files of the suite (target last, blank is
missing). Each tree runs in processes of its own, one thread each; one of its fits comes before the clock starts.
Results: results/against.json and docs/against.md.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from measure import say
from opinions import RIVAL
from sets import Table, available
from sklearn.model_selection import StratifiedKFold

from bayespatch import metrics

HOME = Path(__file__).parent
RESULTS, PAGE = HOME / "results" / "against.json", HOME.parent / "docs" / "against.md"
N_FOLDS = 10
OLD = "version 0.2"
NAMES = (OLD, "precedents", "additive", "pool", RIVAL)

SEED_OF_ONE_TREE = """
import sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np, pandas as pd
from bayespatch import PatchworkClassifier
table, seed, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
X, y, fold_of = (pd.read_pickle(table)[name] for name in ("X", "y", "fold_of"))
PatchworkClassifier(random_state=0, n_jobs=1).fit(X.iloc[:60], y[:60])
found, seconds = {}, []
for fold in range(fold_of[seed].max() + 1):
    train, test = np.flatnonzero(fold_of[seed] != fold), np.flatnonzero(fold_of[seed] == fold)
    began = time.process_time()
    clf = PatchworkClassifier(random_state=seed, n_jobs=1).fit(X.iloc[train], y[train])
    seconds.append(time.process_time() - began)
    for name, p in clf.predict_opinions(X.iloc[test]).items():
        found.setdefault(name, np.empty((len(y), p.shape[1])))[test] = p
np.savez(out, seconds=seconds, **found)
"""


def fold_of_rows(table: Table, seed: int) -> np.ndarray:
    """The fold of each row, (n,)."""
    found = np.empty(len(table.y), dtype=int)
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(table.X, table.y)
    for fold, (_, test) in enumerate(folds):
        found[test] = fold
    return found


def run_tree(tree: Path, table: Path, seed: int, work: Path) -> dict[str, np.ndarray]:
    """Held-out probabilities of each opinion, (n, M), and the seconds of each fit."""
    out = work / f"{tree.resolve().name}-{table.stem}-{seed}.npz"
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", SEED_OF_ONE_TREE, table, str(seed), out], env=environment, check=True)
    with np.load(out) as stored:
        return dict(stored)


def logistic(table: Table, fold_of: np.ndarray) -> np.ndarray:
    """Logistic regression, one-hot and scaled, its strength by inner cross-validation (benchmarks/baselines.py)."""
    from baselines import MODELS

    p = np.empty((len(table.y), table.y.max() + 1))
    for fold in range(N_FOLDS):
        train, test = fold_of != fold, fold_of == fold
        model = MODELS[RIVAL](table.X[train], 0).fit(table.X[train], table.y[train])
        p[test] = model.predict_proba(table.X[test])
    return p


def losses(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-15)))


def compared(
    table: Table, old: list[dict[str, Any]], new: list[dict[str, Any]], rival: list[np.ndarray], folds: list[np.ndarray]
) -> dict[str, Any]:
    """Scores of a table, means over the seeds; the difference is taken fold by fold."""
    y, each = table.y, {OLD: [run["pool"] for run in old], RIVAL: rival}
    each |= {name: [run[name] for run in new] for name in ("precedents", "additive", "pool")}
    gaps = [
        float((losses(now["pool"], y) - losses(before["pool"], y))[fold_of == fold].mean())
        for before, now, fold_of in zip(old, new, folds, strict=True)
        for fold in range(N_FOLDS)
    ]

    def means(score: Any) -> dict[str, float]:
        return {name: float(np.mean([score(p, y) for p in each[name]])) for name in NAMES}

    return {
        "rows": len(y),
        "seeds": len(old),
        "log_loss": means(lambda p, y: losses(p, y).mean()),
        "auc": means(metrics.auc),
        "calibration_error": means(metrics.calibration_error),
        "pool_minus_old": float(np.mean(gaps)),
        # Folds of one seed are taken as independent, seeds are not: they split the same rows.
        "its_standard_error": float(np.std(gaps, ddof=1) / np.sqrt(N_FOLDS)),
        "seconds": {
            OLD: float(np.mean([r["seconds"] for r in old])),
            "pool": float(np.mean([r["seconds"] for r in new])),
        },
    }


def page(found: dict[str, Any]) -> str:
    """docs/against.md."""
    lines = [
        "# Compared with version 0.2",
        "",
        "Version 0.2 sampled a few neighbors of each case; now every past case votes in closed form. Ten-fold "
        "cross-validation, the same folds for all, means over the seeds. Written by `python benchmarks/against.py` "
        "from `benchmarks/results/against.json`; its `--help` says how to get version 0.2.",
    ]
    for key, title in (("log_loss", "Log loss"), ("auc", "AUC"), ("calibration_error", "Calibration error")):
        lines += ["", f"## {title}", "", f"| table | {' | '.join(NAMES)} |", f"|---|{'---|' * len(NAMES)}"]
        for table, part in found.items():
            lines.append(f"| {table} | {' | '.join(f'{part[key][name]:.4f}' for name in NAMES)} |")
        means = [np.mean([part[key][name] for part in found.values()]) for name in NAMES]
        lines.append(f"| mean | {' | '.join(f'{value:.4f}' for value in means)} |")
    lines += [
        "",
        "## Difference and fit time",
        "",
        "| table | rows | seeds | log loss, pool minus version 0.2 | fit in version 0.2, s | fit now, s |",
        "|---|---|---|---|---|---|",
    ]
    for table, part in found.items():
        lines.append(
            f"| {table} | {part['rows']} | {part['seeds']} "
            f"| {part['pool_minus_old']:+.4f} ± {part['its_standard_error']:.4f} "
            f"| {part['seconds'][OLD]:.1f} | {part['seconds']['pool']:.1f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, required=True, help="folder of the earlier tree")
    parser.add_argument("--suite", type=Path)
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="these tables only")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    options = parser.parse_args()
    makers = available(options.suite, None)
    tables = {name: makers[name]() for name in options.sets or makers}
    trees, seeds = (options.old, HOME.parent), range(len(options.seeds))
    folds = {name: [fold_of_rows(table, seed) for seed in options.seeds] for name, table in tables.items()}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name, table in tables.items():
            with (work / f"{name}.pkl").open("wb") as file:
                pickle.dump({"X": table.X, "y": table.y, "fold_of": folds[name]}, file)
        tasks = [(name, tree, seed) for name in tables for tree in trees for seed in seeds]
        runs = Parallel(n_jobs=options.jobs, backend="threading")(
            delayed(run_tree)(tree, work / f"{name}.pkl", seed, work) for name, tree, seed in tasks
        )
    by_task = dict(zip(tasks, runs, strict=True))
    found = {}
    for name, table in tables.items():
        old, new = ([by_task[name, tree, seed] for seed in seeds] for tree in trees)
        found[name] = compared(table, old, new, [logistic(table, one) for one in folds[name]], folds[name])
        say(f"{name}: {json.dumps(found[name])}")
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(page(found))


if __name__ == "__main__":
    main()
