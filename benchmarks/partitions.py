"""Past cases in several parts: time and memory of a prediction.

    python benchmarks/partitions.py                  # predicts from 10,000,000 past cases
    python benchmarks/partitions.py --past 2000000

Four columns of numbers and sixteen of codes, two classes. One process fits three small Parquet files, with a sample of
two thirds of their rows. Another process codes `--past` additional rows, drawn in parts of 50,000, with the schema
of that model, and saves the model with these past cases. A third process loads it and predicts. Each reports its own
memory at the end, and its peak memory including mapped files, whose pages the system may drop at any time.
Writes results/partitions.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src")]

from measure import Finding, Row, Section, environment, say  # noqa: E402

import bayespatch  # noqa: E402
from bayespatch import PatchworkClassifier  # noqa: E402
from bayespatch.encode import partitions  # noqa: E402
from bayespatch.encode.partitions import Part, Partitions  # noqa: E402
from bayespatch.estimator import learning  # noqa: E402
from bayespatch.retrieval import PartitionedIndex  # noqa: E402
from bayespatch.source.parquet_parts import one_after_the_other, training_parts  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "partitions.json"
ROWS_PER_PART = 50_000
N_NUMBERS, N_CODES, N_NEW = 4, 16, 20
BYTES_OF_DOUBLE = 8


def table(part: int, n: int = ROWS_PER_PART) -> tuple[pd.DataFrame, pd.Series]:
    """A part of the past cases, or the new ones, with their outcomes."""
    rng = np.random.default_rng([part, 7])
    numbers, codes = rng.normal(50.0, 10.0, (n, N_NUMBERS)).round(1), rng.integers(4, size=(n, N_CODES))
    score = (numbers[:, :4] - 50.0) @ [0.08, 0.05, 0.03, 0.01] + (codes[:, :3] - 1.5) @ [0.6, 0.4, 0.2] - 0.8
    X = pd.DataFrame(numbers, columns=[f"number {j}" for j in range(N_NUMBERS)])
    for j in range(N_CODES):
        X[f"code {j}"] = pd.Categorical.from_codes(codes[:, j], list("abcd"))
    sick = rng.random(n) < 1.0 / (1.0 + np.exp(-score))
    return X, pd.Series(np.where(sick, "sick", "well"), name="outcome")


def memory() -> Row:
    """Memory of this process in MB: its own at present, and the peak including mapped files."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    own = float(status["RssAnon"].split()[0]) / 1e3
    return {"own memory, MB": own, "with files, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}


def fit(folder: Path, n: int) -> Row:
    """Fit three Parquet files; the parts remain in files."""
    learning.MOST_HERE = partitions.MOST_ROWS = 2 * n // 3
    for k in range(3):
        X, y = table(k, n // 3)
        X.assign(outcome=y).to_parquet(folder / f"{k:05d}.parquet")
    files = sorted(map(str, folder.glob("*.parquet")))
    began = time.perf_counter()
    sample = training_parts(files, "outcome", one_after_the_other).sample(0, classes=True, max_levels=10)
    clf = PatchworkClassifier(random_state=0).fit(sample, None)
    seconds = time.perf_counter() - began
    clf.save(folder / "fitted.bpatch")
    return {"what": "fit", "past cases": clf.fitted_.n_past_cases, "seconds": seconds, **memory()}


def extend(folder: Path, n: int) -> Row:
    """The same importances, calibration and second opinion with n past cases, coded and written part by part."""
    clf = bayespatch.load(folder / "fitted.bpatch")
    assert isinstance(clf, PatchworkClassifier)
    fitted = clf.fitted_
    numbers = tuple(range(1000, 1000 + n // ROWS_PER_PART))
    whole = Partitions(numbers, tuple(map(str, numbers)), lambda k: Part(*table(k)), one_after_the_other)
    windows = [(w, *nested) for w, nested in zip(fitted.schema.windows.tolist(), fitted.schema.nested, strict=True)]
    read, arguments = whole.coding(fitted.schema, fitted.classes.tolist())
    began = time.perf_counter()
    index = PartitionedIndex.build(read, arguments, fitted.n_classes, windows, in_files=True)
    clf.fitted_ = replace(fitted, elsewhere=index)
    clf.save(folder / "large.bpatch")
    return {"what": "code and save", "past cases": n, "seconds": time.perf_counter() - began, **memory()}


def predict(folder: Path, _: int) -> list[Row]:
    """Load the model and predict new cases: probabilities, closest past cases, and an explanation."""
    new = table(999_999, N_NEW)[0]
    began = time.perf_counter()
    clf = bayespatch.load(folder / "large.bpatch")
    assert isinstance(clf, PatchworkClassifier)
    n = clf.fitted_.n_past_cases
    rows: list[Row] = [{"what": "load and check", "past cases": n, "seconds": time.perf_counter() - began, **memory()}]
    clf.predict_proba(new.iloc[:1])  # compiles
    for what, work in (
        ("probabilities, a case", lambda: clf.predict_proba(new)),
        ("20 nearest past cases, a case", lambda: clf.neighbors(new, top=20)),
    ):
        began = time.perf_counter()
        work()
        rows.append({"what": what, "past cases": n, "seconds": (time.perf_counter() - began) / N_NEW, **memory()})
    files = sum(path.stat().st_size for path in (folder / "large.bpatch.parts").iterdir())
    per_value = files / (n * (N_NUMBERS + N_CODES))
    return [{**row, "files, bytes a value": per_value} for row in rows]


STEPS = {"fit": fit, "extend": extend, "predict": predict}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=6_000, help="rows to fit")
    parser.add_argument("--past", type=int, default=10_000_000, help="past cases that vote")
    parser.add_argument("--step", nargs=3, metavar=("STEP", "FOLDER", "ROWS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.step:
        step, folder, n = given.step
        print(json.dumps(STEPS[step](Path(folder), int(n))))
        return
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for step, n in (("fit", given.rows), ("extend", given.past), ("predict", given.past)):
            words = [sys.executable, __file__, "--step", step, folder, str(n)]
            found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
            rows += found if isinstance(found, list) else [found]
            say(str(rows[-1]))
    in_doubles = given.past * (N_NUMBERS + N_CODES) * BYTES_OF_DOUBLE / 1e6
    own = max(
        float(row["own memory, MB"]) for row in rows if row["what"] in ("load and check", "probabilities, a case")
    )
    section = Section("partitions", tables={"parts": rows, "measured with": [dict(environment())]})
    what = f"{given.past:,} past cases: memory of the predicting process, less than as doubles ({in_doubles:.0f} MB)"
    section.findings.append(Finding(what, own, in_doubles / 2, True, " MB"))
    section.show()
    RESULTS.write_text(section.to_json())


if __name__ == "__main__":
    main()
