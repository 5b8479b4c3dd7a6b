"""The time for a prediction, in seconds and relative to the sampler's updates that it consists of."""

from __future__ import annotations

import time
import warnings

import numpy as np
from measure import Finding, Row, Say, Section, interleaved, ratio, run_alone

from bayespatch import PatchworkClassifier, datasets
from bayespatch.engine.cpu import CpuEngine
from bayespatch.engine.streams import chain_key, subkey
from bayespatch.model import HIDDEN, KINDS, Data, ModelKind
from bayespatch.predict import predict_cases

SETTLED = 10  # sweeps after which the cost of an update is that of the long run


def fitted(kind: ModelKind, n_parents: int, draws: int) -> PatchworkClassifier:
    """A classifier with default settings on the heart data, except for the length of the run."""
    X, y = datasets.load_heart()
    clf = PatchworkClassifier(model=kind, draws=draws, warmup=draws, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clf.fit(X[:n_parents], y[:n_parents])


def beside_the_sampler(n_cases: int, draws: int, rounds: int, section: Section, tell: Say) -> None:
    """Prediction time relative to (cases x parents x features x draws used) updates of z and w, on one thread."""
    X, _ = datasets.load_heart()
    many = X.iloc[np.resize(np.arange(len(X)), n_cases)]
    rows: list[Row] = []
    for kind in KINDS:
        clf = fitted(kind, len(X), draws)
        posterior = clf.posterior_
        x = clf.schema_.encode(many).x
        past = clf.x_[clf.parents_], clf.y_[clf.parents_]
        nobody = np.full(len(x), -1)  # none of them is a parent
        new = Data(x, np.full(len(x), HIDDEN), *past, clf.schema_.n_values, 2, clf.schema_.windows, nobody)
        n_draws = posterior.n_chains * posterior.n_draws
        engine = CpuEngine(new, posterior.model)
        state = engine.start(seed=0, chain=0)
        engine.set_importance(state, posterior.q[0, -1], posterior.q_tilde[0, -1])
        key = chain_key(1, 0)
        for sweep in range(SETTLED):
            engine.update_cases(state, subkey(key, sweep))

        def update(engine=engine, state=state, key=key, n_draws=n_draws) -> None:
            for sweep in range(n_draws):
                engine.update_cases(state, subkey(key, SETTLED + sweep))

        def predict(posterior=posterior, new=new) -> None:
            predict_cases(posterior, new, error=1e-9, max_passes=1)  # all stored draws, once

        seconds = interleaved({"update": update, "predict": predict}, rounds, time.thread_time)
        times = ratio(seconds["predict"], seconds["update"])
        rows.append(
            {
                "model": kind,
                "cases": n_cases,
                "parents": len(clf.parents_),
                "draws used": n_draws,
                "same number of updates, s": float(np.median(seconds["update"])),
                "prediction, s": float(np.median(seconds["predict"])),
                "ratio": times,
            }
        )
        section.findings.append(
            Finding(f"Prediction time relative to the same number of updates, Model {kind}", times, 1.3, at_most=True)
        )
        tell(f"    Model {kind}: {times:.2f}")
    section.tables["prediction_cost"] = rows


def by_the_clock(sizes: list[int], draws: int, rounds: int, section: Section, tell: Say) -> None:
    """Seconds of predict_proba with default settings on two threads."""
    X, _ = datasets.load_heart()
    clf = fitted("I", len(X), draws).set_params(n_jobs=2)
    rows: list[Row] = []
    for n_cases in sizes:
        many = X.iloc[np.resize(np.arange(len(X)), n_cases)]
        clf.predict_proba(many[:1])
        seconds = interleaved({"": lambda many=many: clf.predict_proba(many)}, rounds, time.perf_counter)[""]
        rows.append({"cases": n_cases, "parents": len(X), "predict_proba, s": float(np.median(seconds))})
        tell(f"    {n_cases} cases: {rows[-1]['predict_proba, s']:.2f} s")
    section.tables["prediction_seconds"] = rows
    what = f"predict_proba of {sizes[-1]} heart-sized cases, {len(X)} parents, 2 threads"
    section.findings.append(Finding(what, float(rows[-1]["predict_proba, s"]), 10.0, at_most=True, unit=" s"))


def main(quick: bool, tell: Say) -> Section:
    """All parts; `quick` uses sizes that are too small for meaningful results."""
    section = Section("prediction")
    draws = 10 if quick else 250
    tell("  a prediction and as many updates")
    beside_the_sampler(20 if quick else 300, draws, 2 if quick else 5, section, tell)
    tell("  seconds by number of cases")
    by_the_clock([1, 20] if quick else [1, 10, 100, 1000], draws, 2 if quick else 5, section, tell)
    return section


if __name__ == "__main__":
    run_alone(main, __doc__)
