"""Votes of all past cases: time and memory of a consultation, prediction of smooth effects, and recall of close cases.

    python benchmarks/retrieval.py                # one consultation, 10,000 to 1,000,000 past cases
    python benchmarks/retrieval.py --smooth       # 200,000 past cases, smooth effects; compared with gradient boosting
    python benchmarks/retrieval.py --resemble     # 100,000 past cases, 20 of them noisy copies of the case

Each part replaces its own tables and targets in ``results/retrieval.json``.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src")]

import pandas as pd  # noqa: E402
from gpu_votes import import_parts  # noqa: E402
from measure import Finding, Row, Section, environment, say  # noqa: E402
from scipy.special import expit  # noqa: E402
from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: E402
from sklearn.metrics import log_loss, roc_auc_score  # noqa: E402

from bayespatch import PatchworkClassifier  # noqa: E402
from bayespatch.encode.ranks import MOST_KNOTS  # noqa: E402
from bayespatch.predict.closed import ClosedForm  # noqa: E402
from bayespatch.retrieval import CaseIndex  # noqa: E402

Array = NDArray[np.float64]

RESULTS = ROOT / "benchmarks" / "results" / "retrieval.json"
SIZES = (10_000, 100_000, 1_000_000)
N_FEATURES, N_CHAINS, N_DRAWS = 20, 4, 24  # the draws that vote by default: 96 in all
N_LEVELS, N_PROTOTYPES, NOISE = 4, 50, 0.1
WINDOWS = (0.10, 0.04, 0.22, 0.40)  # of a number: shares of the past cases
LARGEST_EFFECT = float(np.log1p(2.0 / 0.1))  # log(1 + lam / lam0)
ROUNDS = 5


# One consultation


def past_cases(kind: str, n: int, rng: np.random.Generator) -> tuple[Array, list[tuple[float, ...]]]:
    """n coded past cases and one new case in the last row, with the windows of each column."""
    shape = (n + 1, N_FEATURES)
    if kind == "numbers":
        n_codes = 2 * MOST_KNOTS
        windows = tuple(np.floor(share * n_codes) + 0.5 for share in WINDOWS)
        return rng.integers(n_codes + 1, size=shape).astype(float), [windows] * N_FEATURES
    x = rng.integers(N_LEVELS, size=shape).astype(float)
    if kind == "codes, strong effects":
        prototypes = rng.integers(N_LEVELS, size=(N_PROTOTYPES, N_FEATURES)).astype(float)
        x = np.where(rng.random(shape) < NOISE, x, prototypes[rng.integers(N_PROTOTYPES, size=n + 1)])
    return x, [(0.0,)] * N_FEATURES


def closed_form(index: CaseIndex, strong: bool, rng: np.random.Generator) -> ClosedForm:
    """Draws of effects: from 0 to half of the largest, or close to the largest; divided among nested windows."""
    shape = (N_CHAINS, N_DRAWS, N_FEATURES)
    mean = np.full(N_FEATURES, 0.9) if strong else np.linspace(0.0, 0.5, N_FEATURES)
    effects = LARGEST_EFFECT * np.clip(mean + 0.02 * rng.standard_normal(shape), 0.001, 0.999)
    n_windows = np.bincount(index.columns)
    log_weights = effects[:, :, index.columns] / n_windows[index.columns]
    halves = np.full(index.n_classes, 1.0 / index.n_classes)
    return ClosedForm(index, log_weights, np.exp(-effects), np.ones(index.n_classes), halves, 0.2)


def consultation(kind: str, n: int) -> Row:
    """Processor time and memory of one case's votes and of the share of each past case in them."""
    rng = np.random.default_rng(0)
    x, windows = past_cases(kind, n, rng)
    index = CaseIndex.build(x[:-1], rng.integers(2, size=n), 2, windows)
    closed = closed_form(index, kind.endswith("strong effects"), rng)
    case, unknown = x[-1:], np.array([-1])
    took: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(ROUNDS):
        for detail in took:
            began = time.thread_time()
            found = closed.predict(case, unknown, detail="shares" if detail else False)
            took[detail].append(time.thread_time() - began)
    assert found.neighbors is not None
    parts = (index.codes, index.start, index.rows, *index.levels)
    return {
        "past cases": n,
        "features": kind,
        "comparisons": len(index.columns),
        "draws": N_CHAINS * N_DRAWS,
        "votes, ms": 1e3 * min(took[False]),
        "votes and shares, ms": 1e3 * min(took[True]),
        "past cases not skipped, %": 100.0 * float((found.neighbors.share[0] > 0).mean()),
        "index, MB": sum(part.nbytes for part in parts) / 1e6,
    }


def consultations(section: Section) -> None:
    """Three sizes of three kinds of table."""
    rows = []
    for kind in ("codes", "codes, strong effects", "numbers"):
        consultation(kind, 1000)  # compiles
        for n in SIZES:
            rows.append(consultation(kind, n))
            say("  ".join(f"{k}: {v:.3g}" if isinstance(v, float) else f"{k}: {v}" for k, v in rows[-1].items()))
        most, before = rows[-1], rows[-2]
        where = f"{most['past cases']:,} past cases, 20 features ({kind})"
        both = "votes and shares, ms"
        section.findings += [
            Finding(f"{where}: one consultation", most[both] / 1e3, 0.3, True, " s"),
            Finding(f"{where}: memory of the past cases", most["index, MB"], 200, True, " MB"),
            Finding(f"{where}: time over that of a tenth as many", most[both] / before[both], 12, True),
        ]
    section.tables["consultation"] = rows


# Smooth effects


def smooth_table(n: int, seed: int) -> tuple[pd.DataFrame, NDArray[np.int64], Array]:
    """n x 16: fourteen normal columns, two categorical; outcomes and their true probabilities."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 14))
    ward, sex = rng.integers(4, size=n), rng.integers(2, size=n)
    score = (
        -0.6
        + 1.1 * np.sin(2.0 * x[:, 0])
        + 0.5 * (x[:, 1] ** 2 - 1.0)
        + 0.8 * x[:, 2] * x[:, 3]
        - 0.7 * x[:, 4]
        + 0.9 * np.where(sex == 1, x[:, 5], -x[:, 5])
        + 0.5 * np.sin(x[:, 6] + x[:, 7])
        + 0.3 * x[:, 8]
        + 0.2 * x[:, 9] * (ward == 2)
        + np.array([-0.4, 0.0, 0.3, 0.6])[ward]
    )
    p = expit(score)
    X = pd.DataFrame(x, columns=[f"x{j}" for j in range(14)])
    X["ward"], X["sex"] = pd.Categorical.from_codes(ward, list("ABCD")), pd.Categorical.from_codes(sex, ["f", "m"])
    return X, (rng.random(n) < p).astype(np.int64), p


def smooth(section: Section, n: int, engine: str, n_new: int = 5000) -> None:
    """The estimator's opinions, gradient boosting, and the best possible log loss."""
    X, y, _ = smooth_table(n, 0)
    new, outcomes, truth = smooth_table(n_new, 1)
    rows: list[Row] = []

    def add(name: str, p: Array, fit: float, predict: float) -> float:
        loss = float(log_loss(outcomes, p))
        rows.append({"model": name, "log loss": loss, "AUC": float(roc_auc_score(outcomes, p)), "fit, s": fit})
        rows[-1]["predict, s"] = predict
        say(f"{name}: log loss {loss:.4f}, fit {fit:.0f} s, predict {predict:.0f} s")
        return loss

    boosting = HistGradientBoostingClassifier(
        max_iter=1000, early_stopping=True, categorical_features="from_dtype", random_state=0
    )
    losses = {}
    for name, model in (
        ("gradient boosting", boosting),
        ("patchwork", PatchworkClassifier(random_state=0, engine=engine)),
    ):
        times = [time.perf_counter()]
        model.fit(X, y)
        times.append(time.perf_counter())
        own = isinstance(model, PatchworkClassifier)
        opinions = model.predict_opinions(new) if own else {name: model.predict_proba(new)}
        times.append(time.perf_counter())
        for opinion, p in opinions.items():
            losses[opinion] = add(opinion, p[:, 1], *np.diff(times).tolist())
    add("true probabilities", truth, 0.0, 0.0)
    ahead = losses["pool"] - losses["gradient boosting"]
    section.tables["smooth effects"] = rows
    section.findings.append(Finding(f"{n:,} x 16, smooth effects: pool less boosting, log loss", ahead, 0.005, True))


# Who leads the list


def resemble(section: Section, n: int, n_cases: int = 10, n_copies: int = 20) -> None:
    """Hide noisy copies of a few cases among n past cases, and count those at the top of `neighbors`.

    A copy's eight numbers are off by 5% of a standard deviation; each of its four codes is replaced with
    probability 5%.
    """
    rng = np.random.default_rng(2)
    x, codes = rng.standard_normal((n, 8)), rng.integers(4, size=(n, 4))
    cases, case_codes = rng.standard_normal((n_cases, 8)), rng.integers(4, size=(n_cases, 4))
    copies = rng.choice(n, (n_cases, n_copies), replace=False)
    for i, rows in enumerate(copies):
        x[rows] = cases[i] + 0.05 * rng.standard_normal((n_copies, 8))
        changed = rng.random((n_copies, 4)) < 0.05
        codes[rows] = np.where(changed, codes[rows], case_codes[i])
    weights = np.linspace(1.0, 0.3, 8)
    steps = np.array([[-0.5, -0.2, 0.2, 0.5]] * 4)
    score = np.sin(x) @ weights + steps[np.arange(4), codes].sum(axis=1)
    y = (rng.random(n) < expit(score)).astype(int)

    def frame(numbers: Array, levels: NDArray[np.int64]) -> pd.DataFrame:
        table = pd.DataFrame(numbers, columns=[f"x{j}" for j in range(8)])
        for j in range(4):
            table[f"c{j}"] = np.array(list("abcd"))[levels[:, j]]
        return table

    clf = PatchworkClassifier(random_state=0, second_opinion=None)
    began = time.perf_counter()
    clf.fit(frame(x, codes), y)
    fitted = time.perf_counter()
    who = clf.neighbors(frame(cases, case_codes), top=50 * n_copies)
    took = (time.perf_counter() - fitted) / n_cases
    is_copy = np.array([np.isin(who.rows[i], copies[i]) for i in range(n_cases)])
    found = is_copy[:, :n_copies].sum(axis=1).tolist()
    say(f"fit {fitted - began:.0f} s; copies among the first {n_copies}: {found}")
    section.tables["copies among the neighbors"] = [
        {
            "case": i,
            "copies": n_copies,
            "of them with another code": int((codes[copies[i]] != case_codes[i]).any(axis=1).sum()),
            f"copies among the first {n_copies}": found[i],
            "rank of the last copy": int(np.flatnonzero(is_copy[i])[-1]) + 1,
            f"votes of the first {n_copies}, %": 100.0 * float(who.influence[i, :n_copies].sum()),
            "seconds": took,
        }
        for i in range(n_cases)
    ]
    section.findings.append(
        Finding(
            f"{n:,} past cases: fewest of {n_copies} copies among the first {n_copies}", min(found), n_copies, False
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smooth", action="store_true", help="smooth effects and interactions")
    parser.add_argument("--resemble", action="store_true", help="whether copies of a case are its closest neighbors")
    parser.add_argument("--engine", default="auto", choices=("auto", "cpu", "cuda"), help="engine of --smooth")
    parser.add_argument("--rows", type=int, help="past cases of --smooth (200,000) and --resemble (100,000)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = Section("retrieval")
    if options.smooth:
        if options.engine == "cuda":
            import_parts()  # finds bayespatch-cuda where it is not installed
        smooth(found, options.rows or 200_000, options.engine)
    if options.resemble:
        resemble(found, options.rows or 100_000)
    if not options.smooth and not options.resemble:
        consultations(found)
    found.show()
    if options.out.exists():
        earlier = Section.from_json(options.out.read_text())
        replaced = {finding.what for finding in found.findings}
        found.findings = [f for f in earlier.findings if f.what not in replaced] + found.findings
        found.tables = {**earlier.tables, **found.tables}
    found.tables["measured with"] = [dict(environment())]
    options.out.write_text(found.to_json())


if __name__ == "__main__":
    main()
