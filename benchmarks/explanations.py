"""Do explanations hold? Exemplars and votes, seeds, simulated parents, what is marked, guards on ordinary rows.

``python benchmarks/explanations.py --suite FOLDER`` takes a few minutes a table on one core; FOLDER has
pima_diabetes.csv. ``--parts`` runs some of the parts, ``--tables`` some of the tables; the result is
results/explanations.json.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from measure import Finding, Row, Section, as_text
from numpy.typing import NDArray
from sets import Table, breast, from_file, heart, table
from sklearn.datasets import make_classification

from bayespatch import Hyperparameters, PatchworkClassifier
from bayespatch.explain import Explanation, words
from bayespatch.explain.ballot import Ballot, ballot_of
from bayespatch.explain.evidence import agreement, log_factors, mark, votes_without_values, weights
from bayespatch.explain.exemplars import Crowds, exemplars_of
from bayespatch.model import HIDDEN, Data
from bayespatch.predict import predict_batches, predict_cases

HOME = Path(__file__).parent
PARTS = ("votes", "seeds", "simulated", "marks", "guards")
KINDS = ("range", "unseen", "itself", "combination", "subgroup", "rare")
N_SPLITS = 5  # of a table, for the guards
N_CHANGED = 60  # cases whose values are set to missing


def wide() -> Table:
    """400 simulated cases with 34 features, every third cut into categories."""
    shape = dict(n_samples=400, n_features=34, n_informative=12, n_redundant=6, n_classes=2, class_sep=1.2)
    values, y = make_classification(**shape, random_state=0)
    X = pd.DataFrame(values).add_prefix("x")
    for k, name in enumerate(X.columns[::3]):
        X[name] = pd.qcut(X[name], 2 + k % 3, labels=list("abcd")[: 2 + k % 3])
    return table("34 features", X, y)


class Look(NamedTuple):
    """One case: its votes, its voters in groups, and what stands out of the exemplars."""

    votes: NDArray[np.float64]
    base_rates: float
    crowds: Crowds
    influence: NDArray[np.float64]
    share: NDArray[np.float64]
    n_neighbors: float


def fitted(some: Table, rows: NDArray[np.int64] | slice, seed: int, options: argparse.Namespace) -> PatchworkClassifier:
    short = {"draws": 60, "warmup": 60, "chains": 2} if options.quick else {}
    clf = PatchworkClassifier(votes="sampled", random_state=seed, n_jobs=options.jobs, **short)
    return clf.fit(some.X.iloc[rows], some.y[rows])


def ballots(clf: PatchworkClassifier, cases: Data) -> Iterator[Ballot]:
    """The votes on cases, with as many draws as a prediction takes."""
    run = {"calibration": clf.calibration_, "n_threads": clf._n_threads()}
    for part in predict_batches(clf.posterior_, cases, detail=True, **run):
        yield ballot_of(part, clf.posterior_.n_chains, clf.y_[clf.parents_])


def left_out(clf: PatchworkClassifier) -> Data:
    """All past cases, their classes hidden; none is its own neighbor."""
    past = clf.fitted_.past
    return past._replace(y=np.full(len(past.x), HIDDEN))


def looks(clf: PatchworkClassifier, cases: Data) -> list[Look]:
    q = clf.feature_importances_
    found = []
    for ballot in ballots(clf, cases):
        each = zip(ballot.votes, ballot.share, ballot.influence, ballot.probability.sum(axis=1), strict=True)
        for votes, share, influence, n_neighbors in each:
            crowds = exemplars_of(share, cases.x_parents, cases.y_parents, cases.windows, q)
            base = max(0.0, 1.0 - float(share.sum()))
            found.append(Look(votes, base, crowds, influence, share, float(n_neighbors)))
    return found


def shown_class(one: Look, y_parents: NDArray[np.int64], n_classes: int) -> int:
    """The class for which the exemplars shown cast most votes."""
    cast = np.bincount(y_parents[one.crowds.exemplars], weights=one.crowds.shares, minlength=n_classes)
    return int(cast.argmax())


def votes_part(section: Section, some: Table, options: argparse.Namespace) -> None:
    """Exemplars and base rates account for the votes, and where the votes and the prediction differ, that is said."""
    clf = fitted(some, slice(None), 0, options)
    past = left_out(clf)
    found = looks(clf, past)
    shares = np.array([one.base_rates + one.crowds.shares.sum() for one in found])
    alike = np.array([one.crowds.differing for one in found]).mean() / np.mean([one.crowds.usual for one in found])
    p = clf.calibration_.apply(np.array([one.votes for one in found]))
    other = [i for i, one in enumerate(found) if shown_class(one, past.y_parents, p.shape[1]) != p[i].argmax()]
    said = sum(explains(clf.explain_past(row, known=False)) for row in other[:20])
    section.tables.setdefault("votes", []).append(
        {
            "table": some.name,
            "cases": len(found),
            "exemplars, mean": float(np.mean([len(one.crowds.exemplars) for one in found])),
            "accounted for, median": float(np.median(shares)),
            "accounted for, least": float(shares.min()),
            "differ from exemplar / from each other": float(alike),
            "votes and prediction differ": len(other),
            "of these looked at, and explained": f"{min(20, len(other))}, {said}",
        }
    )
    section.findings += [
        Finding(f"{some.name}: votes accounted for, median", float(np.median(shares)), 0.95, at_most=False),
        Finding(f"{some.name}: votes accounted for, least", float(shares.min()), 0.90, at_most=False),
        Finding(f"{some.name}: voters differ from exemplar, of what two differ", float(alike), 0.5, at_most=True),
        Finding(
            f"{some.name}: differing cases explained", said / max(1, min(20, len(other))) if other else 1.0, 1.0, False
        ),
    ]


def explains(why: Explanation) -> bool:
    """Whether the page says how the votes became another prediction, or they are for the predicted class after all."""
    text, data = why.to_text(), why.to_dict()
    votes = data["prediction"]["votes"]
    return words.like_this(data) in " ".join(text.split()) and (
        max(votes, key=votes.get) == why.predicted or "and yet" in text
    )


def seeds_part(section: Section, some: Table, options: argparse.Namespace) -> None:
    """Two seeds name the same exemplars."""
    found = []
    for seed in (0, 1):
        clf = fitted(some, slice(None), seed, options)
        found.append(looks(clf, left_out(clf)))
    shared = [
        len(set(one.crowds.exemplars) & set(other.crowds.exemplars))
        / max(len(one.crowds.exemplars), len(other.crowds.exemplars))
        for one, other in zip(*found, strict=True)
    ]
    top = [
        len(set(np.argsort(-a.influence)[:4]) & set(np.argsort(-b.influence)[:4])) / 4
        for a, b in zip(*found, strict=True)
    ]
    mean, four = float(np.mean(shared)), float(np.mean(top))
    section.tables.setdefault("seeds", []).append(
        {"table": some.name, "exemplars shared": mean, "four most influential shared": four}
    )
    section.findings.append(Finding(f"{some.name}: exemplars shared by two seeds", mean, 0.8, at_most=False))


def simulated_part(section: Section, options: argparse.Namespace) -> None:
    """Cases pieced together from two known parents: are these in the crowds, and among the four most influential?"""
    rng = np.random.default_rng(0)
    n_parents, n_cases, n_new, n_features, n_values, n_each = 80, 240, 200, 16, 4, 2
    parents = rng.integers(0, n_values, (n_parents, n_features))
    classes = rng.integers(0, 2, n_parents)

    def pieced(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Values from either of two parents of the same class in three quarters of the features, chance in the rest."""
        first = rng.integers(0, n_parents, n)
        second = np.array([rng.choice(np.flatnonzero(classes == classes[b])) for b in first])
        of = np.column_stack([first, second])
        which = rng.integers(0, n_each, (n, n_features))
        values = parents[np.take_along_axis(of, which, axis=1), np.arange(n_features)]
        chance = rng.random((n, n_features)) < 0.25
        return np.where(chance, rng.integers(0, n_values, (n, n_features)), values), of

    cases, of = pieced(n_cases)
    hyper = Hyperparameters(alpha=3 / n_parents, lam0=0.1, lam=1.0, sigma2=1.0)
    clf = PatchworkClassifier(
        parents=np.arange(n_parents), hyper=hyper, max_levels=n_values, random_state=0, n_jobs=options.jobs
    ).fit(np.concatenate([parents, cases]), np.concatenate([classes, classes[of[:, 0]]]))
    new, true = pieced(n_new)
    _, data, _ = clf._new_cases(clf.fitted_, new)
    crowds, exemplars, four, sizes = [], [], [], []
    for one, both in zip(looks(clf, data), true, strict=True):
        members = set(np.concatenate(one.crowds.members).tolist())
        crowds.append(np.mean([b in members for b in both]))
        exemplars.append(np.mean([b in set(one.crowds.exemplars.tolist()) for b in both]))
        four.append(np.mean([b in set(np.argsort(-one.influence)[:4].tolist()) for b in both]))
        sizes.append(len(members))
    row: Row = {
        "cases": n_new,
        "parents": n_parents,
        "true parents in crowds": float(np.mean(crowds)),
        "true parents among exemplars": float(np.mean(exemplars)),
        "true parents among the four most influential": float(np.mean(four)),
        "past cases in crowds, mean": float(np.mean(sizes)),
    }
    section.tables["simulated"] = [row]
    limit = float(np.mean(four))
    section.findings.append(Finding("simulated: true parents in crowds", float(np.mean(crowds)), limit, at_most=False))


def marks_part(section: Section, some: Table, options: argparse.Namespace) -> None:
    """How few of the agreeing values stand out, and whether the prediction depends on them."""
    clf = fitted(some, slice(None), 0, options)
    past = left_out(clf)
    importance = clf.posterior_.q_tilde.mean(axis=(0, 1), dtype=np.float64)
    rng = np.random.default_rng(0)
    found = looks(clf, past)
    before = clf.calibration_.apply(np.array([one.votes for one in found]))
    worths: list[NDArray[np.float64]] = []
    n_agree = n_marked = 0
    changed: dict[str, list[tuple[int, NDArray[np.int64]]]] = {"marked": [], "unmarked": []}
    for i, one in enumerate(found):
        agrees = agreement(past.x[i], past)
        log_f = log_factors(past.x[i], agrees, past, clf.posterior_.model, importance)
        rest = votes_without_values(log_f, one.share, past.y_parents, one.votes, one.n_neighbors)
        worth = before[i, -1] - clf.calibration_.apply(rest)[:, -1]
        if i < N_CHANGED:
            worths.append(worth)
        for k, b in enumerate(one.crowds.exemplars.tolist()):
            chosen = mark(weights(log_f)[b], worth, agrees[b])
            n_agree += int(agrees[b].sum())
            n_marked += int(chosen.sum())
            others = np.flatnonzero(agrees[b] & ~chosen)
            if i < N_CHANGED and k < 3 and 0 < chosen.sum() <= len(others):
                changed["marked"].append((i, np.flatnonzero(chosen)))
                changed["unmarked"].append((i, rng.choice(others, int(chosen.sum()), replace=False)))
    changed["each"] = [(i, np.array([j])) for i in range(len(worths)) for j in range(past.x.shape[1])]
    effect = {}
    for kind, pairs in changed.items():
        rows = np.array([i for i, _ in pairs])
        x = past.x[rows].copy()
        for k, (_, features) in enumerate(pairs):
            x[k, features] = np.nan
        cases = past._replace(x=x, y=np.full(len(rows), HIDDEN), own_parent=past.own_parent[rows])
        seen = predict_cases(clf.posterior_, cases, calibration=clf.calibration_, n_threads=clf._n_threads())
        after = clf.calibration_.apply(seen.mean_votes())
        effect[kind] = (before[rows] - after)[:, -1]
    share = n_marked / max(1, n_agree)
    alike = float(np.corrcoef(effect.pop("each"), np.concatenate(worths))[0, 1])
    effect = {kind: np.abs(values) for kind, values in effect.items()}
    difference = effect["marked"] - effect["unmarked"]
    error = float(difference.std(ddof=1) / np.sqrt(len(difference)))
    section.tables.setdefault("marks", []).append(
        {
            "table": some.name,
            "agreeing values marked": share,
            "change of p, marked missing": float(effect["marked"].mean()),
            "change of p, as many unmarked missing": float(effect["unmarked"].mean()),
            "difference, standard error": error,
            "exemplars": len(difference),
            "worth and change without the value, correlation": alike,
        }
    )
    section.findings += [
        Finding(f"{some.name}: agreeing values marked", share, 1 / 3, at_most=True),
        Finding(f"{some.name}: change by marked less by unmarked", float(difference.mean()), 0.0, at_most=False),
    ]


def guards_part(section: Section, some: Table, options: argparse.Namespace) -> None:
    """How often each guard warns on held-out rows."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(some.y))
    counts = dict.fromkeys(KINDS, 0)
    n = 0
    for fold in np.array_split(order, N_SPLITS)[: 1 if options.quick else None]:
        rest = np.setdiff1d(order, fold)
        clf = fitted(some, rest, 0, options)
        for why in clf.explain_all(some.X.iloc[fold], top=1, reliance=False):
            n += 1
            for kind in {guard.kind for guard in why.guards}:
                counts[kind] += 1
    section.tables.setdefault("guards", []).append(
        {"table": some.name, "held-out rows": n, **{kind: count / n for kind, count in counts.items()}}
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
        makers["pima"] = partial(from_file, options.suite / "pima_diabetes.csv")
    tables = {name: make() for name, make in makers.items() if name in options.tables}
    section = Section("explanations")
    each: dict[str, Callable[[Section, Table, Any], None]] = {
        "votes": votes_part,
        "seeds": seeds_part,
        "marks": marks_part,
        "guards": guards_part,
    }
    for part in options.parts:
        start = time.perf_counter()
        if part == "simulated":
            simulated_part(section, options)
        else:
            chosen = {**tables, **({"34 features": wide()} if part == "marks" else {})}
            for some in chosen.values():
                each[part](section, some, options)
                print(f"{part}, {some.name}: {time.perf_counter() - start:.0f} s", flush=True)
        print(f"\n{part}: {time.perf_counter() - start:.0f} s\n{as_text(section.tables[part])}", flush=True)
    print(f"\n{as_text([finding.row() for finding in section.findings])}")
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(section.to_json(), encoding="utf-8")
        print(f"\n{options.out}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", type=Path, metavar="FOLDER", help="folder with pima_diabetes.csv")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="run these parts only")
    parser.add_argument("--tables", nargs="+", default=["heart", "breast", "pima"], help="on these tables only")
    parser.add_argument("--jobs", type=int, default=1, help="threads")
    parser.add_argument("--quick", action="store_true", help="short chains, one split: to see that it runs")
    parser.add_argument("--out", type=Path, help="JSON file (default: results/explanations.json, unless quick)")
    options = parser.parse_args()
    if options.out is None and not options.quick and list(options.parts) == list(PARTS):
        options.out = HOME / "results" / "explanations.json"
    return options


if __name__ == "__main__":
    main()
