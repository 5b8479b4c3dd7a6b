"""The default of this tree beside the default of another one (an earlier commit), on the same folds.

``python benchmarks/against.py --old FOLDER --suite FOLDER [--readmission FILE]`` fits ``PatchworkClassifier()`` of both
source trees in 10 folds of the bundled tables, of the CSV files of the suite (target last, blank is missing) and of a
sample of the readmission table, each tree in processes of its own, and compares log loss fold by fold, processor time
of the fits and calibration error. ``git worktree add FOLDER COMMIT`` makes an old tree; FOLDER/src is put on the path.
Finished folds are kept in build/against. Results: results/against.json and docs/against.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from sets import Table, available
from sklearn.model_selection import StratifiedKFold

from bayespatch import metrics

HOME = Path(__file__).parent
RESULTS, PAGE = HOME / "results" / "against.json", HOME.parent / "docs" / "against.md"
N_FOLDS = 10

FOLD = """
import sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np, pandas as pd
from bayespatch import PatchworkClassifier
X, y, out = pd.read_pickle(sys.argv[1]), np.load(sys.argv[2]), sys.argv[3]
for rows in sys.argv[4:]:
    fold, train, test = (np.load(rows, allow_pickle=False)[name] for name in ("fold", "train", "test"))
    if int(fold) == -1:  # compile and load before the clock starts
        PatchworkClassifier(random_state=0, n_jobs=1).fit(X.iloc[:60], y[:60])
        continue
    began = time.process_time()
    clf = PatchworkClassifier(random_state=int(fold), n_jobs=1).fit(X.iloc[train], y[train])
    cpu = time.process_time() - began
    parts = clf.predict_opinions(X.iloc[test]) if hasattr(clf, "predict_opinions") else {}
    np.savez(f"{out}-{int(fold)}.npz", p=clf.predict_proba(X.iloc[test]), cpu=cpu, test=test, **parts)
"""


def folds_of(table: Table) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(table.X, table.y))


def run(tree: Path, label: str, table: Table, work: Path, n_folds: int) -> dict[str, np.ndarray]:
    """Probabilities of the rows of the first folds, each predicted by a fit that has not seen it; NaN for the others.
    Finished folds are not run again.
    """
    work.mkdir(parents=True, exist_ok=True)
    stem = work / f"{table.name}-{table.digest}"
    table.X.to_pickle(f"{stem}.X")
    np.save(f"{stem}.y.npy", table.y)
    todo = []
    warm = f"{stem}.warm.npz"
    np.savez(warm, fold=-1, train=[0], test=[0])
    for k, (train, test) in enumerate(folds_of(table)[:n_folds]):
        np.savez(f"{stem}.rows{k}.npz", fold=k, train=train, test=test)
        if not Path(f"{stem}.{label}-{k}.npz").exists():
            todo.append(f"{stem}.rows{k}.npz")
    if todo:
        environment = {
            **os.environ,
            "PYTHONPATH": str(tree / "src"),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        command = [sys.executable, "-c", FOLD, f"{stem}.X", f"{stem}.y.npy", f"{stem}.{label}", warm, *todo]
        subprocess.run(command, env=environment, check=True)
    found: dict[str, np.ndarray] = {}
    cpu = []
    for k in range(n_folds):
        with np.load(f"{stem}.{label}-{k}.npz") as part:
            cpu.append(float(part["cpu"]))
            for name in set(part.files) - {"cpu", "test"}:
                found.setdefault(name, np.full((len(table.y), part[name].shape[1]), np.nan))[part["test"]] = part[name]
    return {**found, "cpu": np.array(cpu)}


def logistic(table: Table) -> np.ndarray:
    """Logistic regression, one-hot and scaled, its strength by inner cross-validation (benchmarks/baselines.py)."""
    from baselines import MODELS

    p = np.empty((len(table.y), table.y.max() + 1))
    for train, test in folds_of(table):
        model = MODELS["logistic regression"](table.X.iloc[train], 0).fit(table.X.iloc[train], table.y[train])
        p[test] = model.predict_proba(table.X.iloc[test])
    return p


def losses(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -np.log(np.maximum(p[np.arange(len(y)), y], 1e-15))


def compare(table: Table, old: Path, work: Path, n_folds: int) -> dict[str, object]:
    before, after = run(old, "old", table, work, n_folds), run(HOME.parent, "new", table, work, n_folds)
    each = {
        "earlier default": before["p"],
        "precedents": after.get("precedents", after["p"]),
        "additive": after.get("additive"),
        "pool": after["p"],
        "logistic regression": logistic(table),
    }
    tested = [test for _, test in folds_of(table)[:n_folds]]
    rows = np.concatenate(tested)
    y, each = table.y[rows], {name: p[rows] for name, p in each.items() if p is not None}
    fold = np.repeat(np.arange(n_folds), [len(test) for test in tested])
    gap = losses(each["pool"], y) - losses(each["earlier default"], y)
    gaps = np.array([gap[fold == k].mean() for k in range(n_folds)])
    return {
        "rows": len(y),
        "folds": n_folds,
        "log_loss": {name: float(losses(p, y).mean()) for name, p in each.items()},
        "auc": {name: metrics.auc(p, y) for name, p in each.items()},
        "calibration_error": {name: metrics.calibration_error(p, y) for name, p in each.items()},
        "pool_minus_earlier": float(gaps.mean()),
        "its_standard_error": float(gaps.std(ddof=1) / np.sqrt(n_folds)),
        "processor_seconds": {"earlier": float(before["cpu"].mean()), "now": float(after["cpu"].mean())},
    }


def page(found: dict[str, dict]) -> str:
    names = ("earlier default", "precedents", "additive", "pool", "logistic regression")
    lines = [
        "# Closed-form votes compared with version 0.2",
        "",
        "Written by `python benchmarks/against.py` from benchmarks/results/against.json. Ten folds, the same for all; "
        "mean over the rows. *Earlier default*: version 0.2, with sampled votes.",
    ]
    for key, title in (("log_loss", "Log loss"), ("auc", "AUC"), ("calibration_error", "Calibration error")):
        lines += ["", f"## {title}", "", f"| table | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
        for table, part in found.items():
            lines.append(f"| {table} | {' | '.join(f'{part[key][name]:.4f}' for name in names)} |")
        means = [np.mean([part[key][name] for part in found.values()]) for name in names]
        lines.append(f"| mean | {' | '.join(f'{value:.4f}' for value in means)} |")
    lines += [
        "",
        "## Pool minus earlier default, and time",
        "",
        "| table | folds of ten | log loss, by folds | fit, s of one core: earlier | now | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for table, part in found.items():
        cpu = part["processor_seconds"]
        lines.append(
            f"| {table} | {part['folds']} | {part['pool_minus_earlier']:+.4f} ± {part['its_standard_error']:.4f} "
            f"| {cpu['earlier']:.1f} | {cpu['now']:.1f} | {cpu['now'] / cpu['earlier']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, required=True, help="folder of the other tree")
    parser.add_argument("--suite", type=Path)
    parser.add_argument("--readmission", type=Path)
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--folds", type=int, default=N_FOLDS, help="only the first so many of the ten, at least two")
    parser.add_argument("--work", type=Path, default=HOME.parent / "build" / "against")
    wanted = parser.parse_args()
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, make in available(wanted.suite, wanted.readmission).items():
        if wanted.tables and name not in wanted.tables:
            continue
        found[name] = compare(make(), wanted.old, wanted.work, wanted.folds)
        print(name, json.dumps(found[name]), flush=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        PAGE.write_text(page(found))


if __name__ == "__main__":
    main()
