"""The whole readmission file: predict readmission within 30 days, compared with the usual classifiers.

    python benchmarks/readmission.py FILE --out FOLDER
    python benchmarks/readmission.py FILE --out FOLDER --engine cuda --models patchwork    # on a GPU machine

Two cohorts with the paper's 19 features (tab:read): the first stay of every patient, and all stays. A fifth of the
patients is held out; no patient is in both parts. `PatchworkClassifier` runs with its defaults: every stay of the
training part votes, on the CPU or, with ``--engine cuda``, on a GPU. A small fit compiles its kernels before it is
timed. Results are written to ``readmission.json`` in --out (default: the environment variable OUT, or
benchmarks/results) after every model, so an interrupted run keeps its results.

Needs bayespatch's dependencies, pandas and, for a GPU, numba-cuda; neither package has to be installed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src")]

import pandas as pd  # noqa: E402
from baselines import RIVALS  # noqa: E402
from gpu_votes import import_parts  # noqa: E402
from scores import calibration_errors, fold_scores  # noqa: E402
from sklearn.base import clone  # noqa: E402

from bayespatch import PatchworkClassifier  # noqa: E402
from bayespatch.datasets import load_readmission  # noqa: E402
from bayespatch.engine.installed import gpu_is_present  # noqa: E402

OURS = "patchwork"
HELD_OUT = 0.2  # of the patients
WARM_UP = 5000, 500  # stays of the fit and of the prediction that compile


class Cohort(NamedTuple):
    """Stays, readmissions within 30 days, and the patient of each stay."""

    name: str
    X: pd.DataFrame
    y: np.ndarray
    patient: np.ndarray


def cohorts(path: Path) -> list[Cohort]:
    """The first stay of every patient, and all stays."""
    X, outcome = load_readmission(path, discretize="paper")
    stay, patient = (X.index.get_level_values(name).to_numpy() for name in ("encounter_id", "patient_nbr"))
    X, y = X.reset_index(drop=True), (outcome == "readmitted").to_numpy().astype(int)
    _, first = np.unique(patient[np.argsort(stay, kind="stable")], return_index=True)
    rows = np.argsort(stay, kind="stable")[first]
    return [
        Cohort("one stay a patient", X.iloc[rows].reset_index(drop=True), y[rows], patient[rows]),
        Cohort("all stays", X, y, patient),
    ]


def split(cohort: Cohort, n_cases: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Training and held-out rows, no patient in both; of the first `n_cases` stays in random order, or of all."""
    rng = np.random.default_rng(0)
    _, number = np.unique(cohort.patient, return_inverse=True)
    place = rng.permutation(number.max() + 1)[number]  # of the patient, in a random order
    rows = np.argsort(place, kind="stable")[:n_cases]
    held = place[rows] < np.quantile(place[rows], HELD_OUT)
    return rows[~held], rows[held]


def on_all_cores(model: Any) -> Any:
    """The same model on all cores."""
    own = {
        name: -1 for name in model.get_params() if name == "n_jobs" or name.endswith("randomforestclassifier__n_jobs")
    }
    return model.set_params(**own)


def run(cohort: Cohort, options: argparse.Namespace) -> Any:
    """Fit and score one model after another."""
    train, test = split(cohort, options.cases)
    X, y, patient = cohort.X.iloc[train].reset_index(drop=True), cohort.y[train], cohort.patient[train]
    for name in options.models:
        if name == OURS:
            model = PatchworkClassifier(engine=options.engine, random_state=0)
            first, new = X.iloc[: WARM_UP[0]], cohort.X.iloc[test[: WARM_UP[1]]]
            clone(model).fit(first, y[: WARM_UP[0]]).predict_opinions(new)
        else:
            model = on_all_cores(RIVALS[name](X, 0))
        began = time.perf_counter()
        repeated = name == OURS and len(set(patient)) < len(patient)
        model.fit(X, y, **({"groups": patient} if repeated else {}))
        fitted = time.perf_counter()
        new = cohort.X.iloc[test].reset_index(drop=True)
        opinions = model.predict_opinions(new) if name == OURS else {}
        p = opinions["pool"] if name == OURS else model.predict_proba(new)
        ended = time.perf_counter()
        error, debiased = calibration_errors(cohort.y[test], p)
        row = {"cohort": cohort.name, "model": name, "training": len(train), "held out": len(test)}
        row |= fold_scores(cohort.y[test], p) | {"calibration error": error, "debiased": debiased}
        row |= {"fit, s": fitted - began, "predict, s": ended - fitted}
        if name == OURS:
            row |= {"engine": options.engine, "GPU": engine_is_gpu(options.engine), "past cases": len(model.parents_)}
            row |= {"coding": model.tuning_.coding, "weight": model.pool_.weight, "slope": model.calibration_.slope}
            for opinion in ("precedents", "additive"):
                alone = fold_scores(cohort.y[test], opinions[opinion])
                row |= {f"{opinion}: {score}": value for score, value in alone.items()}
        yield row


def engine_is_gpu(engine: str) -> bool:
    """Whether the votes of this many past cases are computed on a GPU."""
    return engine == "cuda" or (engine == "auto" and gpu_is_present())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="UCI's diabetic_data.csv")
    parser.add_argument("--cohorts", nargs="*", help="run only these")
    parser.add_argument("--models", nargs="*", default=[OURS, *RIVALS], choices=[OURS, *RIVALS], help="run only these")
    parser.add_argument("--engine", default="auto", choices=("auto", "cpu", "cuda"), help="where votes are computed")
    parser.add_argument("--cases", type=int, help="use only this many stays")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ROOT / "benchmarks" / "results")))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.engine != "cpu":
        import_parts()  # finds bayespatch-cuda where it is not installed
    if options.engine == "cuda" and not gpu_is_present():
        parser.error("--engine cuda: no GPU, or numba-cuda is not installed")
    rows: list[dict[str, Any]] = []
    options.out.mkdir(parents=True, exist_ok=True)
    for cohort in cohorts(options.file):
        if options.cohorts and cohort.name not in options.cohorts:
            continue
        for row in run(cohort, options):
            print("  ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()), flush=True)
            rows.append(row)
            fresh = options.out / "readmission.json.new"
            fresh.write_text(json.dumps(rows, indent=1) + "\n")
            fresh.replace(options.out / "readmission.json")


if __name__ == "__main__":
    main()
