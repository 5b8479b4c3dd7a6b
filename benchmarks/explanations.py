"""How concentrated, complete, stable and fast explanations are.

``python benchmarks/explanations.py --suite FOLDER`` takes about a minute per table and core; FOLDER contains
hepatitis.csv and other tables. ``--parts`` and ``--tables`` select parts and tables.

- concentration: how many past cases determine an answer, and the slope that converts their votes to probabilities
- scaling: the log loss with fewer or more voters: all log weights are scaled, slope and pool relearned
- groups: the share of votes in the groups, the number of stated values, and whether two seeds agree
- attribution: points compared with "set each value to missing", sums, errors and run time
- guards: how often each warning occurs on held-out rows, and how often a check fails
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import Finding, Section, as_text
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sets import Table, breast, from_file, heart

from bayespatch import PatchworkClassifier
from bayespatch.calibrate import Calibration
from bayespatch.explain import Explanation, attribution, words
from bayespatch.metrics import log_loss
from bayespatch.model import HIDDEN
from bayespatch.pool import Pool
from bayespatch.predict import blank_votes, predict_batches, predict_cases

KINDS = ("range", "unseen", "itself", "combination", "subgroup", "rare")
SHOWN = ("heart", "breast", "hepatitis")
N_FOLDS = 10
N_SPLITS = 5  # of a table, for the guards
SCALES, N_SCALING_FOLDS = (0.5, 1.0, 1.5, 2.0), 3
N_TIMED = 5  # cases


def fitted(some: Table, rows: NDArray[np.int64], seed: int, options: argparse.Namespace) -> PatchworkClassifier:
    short = {"draws": 60, "warmup": 60, "chains": 2} if options.quick else {}
    clf = PatchworkClassifier(random_state=seed, n_jobs=options.jobs, **short)
    return clf.fit(some.X.iloc[rows], some.y[rows])


def folds(some: Table, n: int, options: argparse.Namespace) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows to learn from, and held-out rows."""
    order = np.random.default_rng(0).permutation(len(some.y))
    for fold in np.array_split(order, n)[: 1 if options.quick else None]:
        yield np.setdiff1d(order, fold), fold


def concentration_part(section: Section, some: Table, options: argparse.Namespace) -> None:
    """How many past cases determine the answer for held-out rows."""
    effective, half, five, slopes, losses = [], [], [], [], []
    for rest, fold in folds(some, N_FOLDS, options):
        clf = fitted(some, rest, 0, options)
        _, cases, _ = clf._new_cases(clf.fitted_, some.X.iloc[fold])
        for part in predict_batches(clf.posterior_, cases, detail="shares"):
            shares = np.sort(part.neighbors.share.astype(np.float64), axis=1)[:, ::-1]
            total = shares.sum(axis=1, keepdims=True)
            effective += (total[:, 0] ** 2 / (shares**2).sum(axis=1)).tolist()
            half += (1 + (np.cumsum(shares, axis=1) < 0.5 * total).sum(axis=1)).tolist()
            five += shares[:, :5].sum(axis=1).tolist()
        slopes.append(clf.calibration_.slope)
        losses.append(log_loss(clf.predict_proba(some.X.iloc[fold]), some.y[fold]) * len(fold) / len(some.y))
    row = {
        "table": some.name,
        "held-out cases": len(effective),
        "effective voters, median": float(np.median(effective)),
        "half of the votes from": float(np.median(half)),
        "votes of the five closest": float(np.median(five)),
        "slope": float(np.mean(slopes)),
        "log loss": float(np.sum(losses)),
    }
    section.tables.setdefault("concentration", []).append(row)
    section.findings.append(Finding(f"{some.name}: slope of the votes", row["slope"], 2.5, at_most=True))
    if some.name == "heart":
        section.findings += [
            Finding("heart: effective voters, median", row["effective voters, median"], 45, at_most=True),
            Finding("heart: half of the votes from", row["half of the votes from"], 20, at_most=True),
            Finding("heart: votes of the five closest", row["votes of the five closest"], 0.22, at_most=False),
        ]


def scaling_part(section: Section, some: Table, options: argparse.Namespace) -> None:
    """Held-out log loss and effective voters with all log weights scaled."""
    losses: dict[float, list[float]] = {scale: [] for scale in SCALES}
    effective: dict[float, list[float]] = {scale: [] for scale in SCALES}
    for rest, fold in folds(some, N_SCALING_FOLDS, options):
        clf = fitted(some, rest, 0, options)
        model = clf.fitted_
        _, cases, encoded = clf._new_cases(model, some.X.iloc[fold])
        additive, hidden = model.opinion_on(some.X.iloc[fold], encoded.values), np.full(len(model.past.x), HIDDEN)
        for scale in SCALES:
            posterior = replace(model.posterior, log_weights=scale * model.posterior.log_weights)
            votes = predict_cases(posterior, model.past._replace(y=hidden)).mean_votes()
            calibration = Calibration.learn(
                votes, model.past.y, model.calibration.base, anchor=blank_votes(posterior, model.past)
            )
            pool = Pool.learn(model.opinion.loo[model.cases], calibration.apply(votes), model.past.y)
            seen = predict_cases(posterior, cases, detail="shares")
            p = pool.combine(additive, calibration.apply(seen.mean_votes()))
            losses[scale] += (-np.log(p[np.arange(len(fold)), some.y[fold]])).tolist()
            shares = seen.neighbors.share.astype(np.float64)
            effective[scale] += (shares.sum(axis=1) ** 2 / (shares**2).sum(axis=1)).tolist()
    section.tables.setdefault("scaling", []).extend(
        {
            "table": some.name,
            "log weights times": scale,
            "effective voters, median": float(np.median(effective[scale])),
            "log loss of the pool": float(np.mean(losses[scale])),
        }
        for scale in SCALES
    )


def groups_part(section: Section, some: Table, options: argparse.Namespace) -> None:
    """The share of the votes in groups, and whether two seeds find the same groups."""
    rest, fold = next(folds(some, 4, options))
    both = [fitted(some, rest, seed, options).explain_all(some.X.iloc[fold], exclude_self=False) for seed in (0, 1)]
    counts = [len(why.groups) for why in both[0]]
    accounted = [sum(group.vote_share for group in why.groups) for why in both[0]]
    named = [
        sum(g.vote_share for g in why.groups if g.shared or g.differs) / sum(g.vote_share for g in why.groups)
        for why in both[0]
    ]
    alike = [matching(first, second) for first, second in zip(*both, strict=True)]
    section.tables.setdefault("groups", []).append(
        {
            "table": some.name,
            "held-out cases": len(counts),
            "groups, mean": float(np.mean(counts)),
            "fewest, most": f"{min(counts)}, {max(counts)}",
            "values stated, mean": float(
                np.mean([len(g.shared) + len(g.differs) for why in both[0] for g in why.groups])
            ),
            "votes of groups with a stated value": float(np.mean(named)),
            "votes in groups, least": float(np.min(accounted)),
            "voters in the same group, two seeds": float(np.mean(alike)),
        }
    )
    section.findings += [
        Finding(f"{some.name}: votes in groups, least", float(np.min(accounted)), 0.95, at_most=False),
        Finding(f"{some.name}: voters in the same group, two seeds", float(np.mean(alike)), 0.8, at_most=False),
    ]


def matching(first: Explanation, second: Explanation) -> float:
    """Share of the grouped voters whose group overlaps with one of the other explanation."""
    one, two = ([set(group.rows) for group in why.groups] for why in (first, second))
    return sum(max((len(a & b) for b in two), default=0) for a in one) / max(1, sum(map(len, one)))


def attribution_part(section: Section, some: Table, options: argparse.Namespace) -> None:
    """Points compared with the changes when each value is set to missing, one at a time."""
    rest, fold = next(folds(some, 4, options))
    clf = fitted(some, rest, 0, options)
    X = some.X.iloc[fold]
    found = [why.to_dict()["attribution"] for why in clf.explain_all(X)]
    off = [abs(100 * (one["total"] - one["base"]) - sum(f["points"] for f in one["features"])) for one in found]
    whole = clf.predict_proba(X)[:, -1]
    changes = np.empty(X.shape)
    for j, name in enumerate(X.columns):
        changes[:, j] = 100 * (whole - clf.predict_proba(X.assign(**{name: without(X[name])}))[:, -1])
    alike = []
    for one, change in zip(found, changes, strict=True):
        points = {feature["feature"]: feature["points"] for feature in one["features"]}
        alike.append(spearmanr([points[name] for name in X.columns], change).statistic)
    cost = attribution_cost(clf, X.iloc[:N_TIMED])
    row = {
        "table": some.name,
        "held-out cases": len(found),
        "features": X.shape[1],
        "rank correlation with set to missing": float(np.nanmean(alike)),
        "points missing from the sum, most": float(np.max(off)),
        "standard error in points, largest": float(max(one["error"] for one in found)),
        "cost, over the rest": cost,
    }
    section.tables.setdefault("attribution", []).append(row)
    section.findings += [
        Finding(
            f"{some.name}: points missing from the sum", row["points missing from the sum, most"], 1e-6, at_most=True
        ),
        Finding(f"{some.name}: cost of the points over the rest of an explanation", cost, 3.0, at_most=True),
    ]
    if some.name == "heart":
        limit = row["rank correlation with set to missing"]
        section.findings.append(Finding("heart: rank correlation with set to missing", limit, 0.8, at_most=False))


def without(column: Any) -> Any:
    """The column with all values missing."""
    return column.where(column.isna() & ~column.isna())


def attribution_cost(clf: PatchworkClassifier, X: Any) -> float:
    """Seconds for the points, divided by the seconds for everything else in an explanation."""
    seconds = [0.0]
    original = attribution.attribute

    def timed(*arguments: Any) -> attribution.Points:
        start = time.perf_counter()
        points = original(*arguments)
        seconds[0] += time.perf_counter() - start
        return points

    def explained() -> None:
        seconds[0] = 0.0
        clf.explain_all(X)

    attribution.attribute = timed
    try:
        explained()
        shares = []
        for _ in range(5):
            start = time.perf_counter()
            explained()
            shares.append(seconds[0] / (time.perf_counter() - start - seconds[0]))
    finally:
        attribution.attribute = original
    return float(np.median(shares))


def guards_part(section: Section, some: Table, options: argparse.Namespace) -> None:
    """How often each guard warns on held-out rows, and how often a check fails."""
    counts, failed = dict.fromkeys(KINDS, 0), {"wide interval": 0, "opinions differ": 0, "any check": 0}
    n = 0
    for rest, fold in folds(some, N_SPLITS, options):
        clf = fitted(some, rest, 0, options)
        for why in clf.explain_all(some.X.iloc[fold], top=1):
            n += 1
            for kind in {guard.kind for guard in why.guards}:
                counts[kind] += 1
            texts = [check.text for check in words.checks(why.to_dict()) if not check.passed]
            failed["wide interval"] += any(text.startswith("Wide interval") for text in texts)
            failed["opinions differ"] += any(text.startswith("Similar patients and") for text in texts)
            failed["any check"] += bool(texts)
    section.tables.setdefault("guards", []).append(
        {"table": some.name, "held-out rows": n, **{kind: count / n for kind, count in (counts | failed).items()}}
    )
    # Two standard errors of a rate of 5 %: the limit of the unusual combination is such a rate by its definition.
    limit = 0.05 + 2.0 * float(np.sqrt(0.05 * 0.95 / n))
    section.findings += [
        Finding(f"{some.name}: held-out rows with the warning {kind!r}", count / n, limit, at_most=True)
        for kind, count in counts.items()
    ]


def main() -> None:
    warnings.simplefilter("ignore")
    options = parse_options()
    makers: dict[str, Callable[[], Table]] = {"heart": heart, "breast": breast}
    if options.suite is not None:
        makers |= {path.stem: partial(from_file, path) for path in sorted(options.suite.glob("*.csv"))}
    section = Section("explanations")
    for part in options.parts:
        start = time.perf_counter()
        for name in options.tables:
            if name in makers:
                PARTS[part](section, makers[name](), options)
                print(f"{part}, {name}: {time.perf_counter() - start:.0f} s", flush=True)
        print(f"\n{part}\n{as_text(section.tables[part])}", flush=True)
    if section.findings:
        print(f"\n{as_text([finding.row() for finding in section.findings])}")
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(section.to_json(), encoding="utf-8")
        print(f"\n{options.out}")


PARTS: dict[str, Callable[[Section, Table, argparse.Namespace], None]] = {
    "concentration": concentration_part,
    "scaling": scaling_part,
    "groups": groups_part,
    "attribution": attribution_part,
    "guards": guards_part,
}


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", type=Path, metavar="FOLDER", help="folder with hepatitis.csv")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="run these parts only")
    parser.add_argument("--tables", nargs="+", default=list(SHOWN), help="use these tables only")
    parser.add_argument("--jobs", type=int, default=1, help="threads")
    parser.add_argument(
        "--quick", action="store_true", help="use short chains and one fold, to check that everything runs"
    )
    parser.add_argument("--out", type=Path, help="JSON file")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
