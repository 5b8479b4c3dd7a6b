"""Interpretation of the models: neighbors of individual patients, importances, the patient of ``fig:sample1``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from study import paper
from study.bcm import CaseModel, fit_cases
from study.cohorts import Cohort, Fold
from study.parts.context import Context
from study.protocol import BALANCED, OURS, PAPER, Patchwork, averaging_more, evaluate
from study.tables import Table

TOP = 4
N_EACH = 2  # sample patients with and without the condition
GROUPS = {"top 3": slice(0, 3), "next 3": slice(3, 6), "3 after these": slice(6, 9), "all": slice(None)}


def sample_patients(context: Context) -> list[Table]:
    """Four patients of each cohort and their four most influential parents (``fig:network1`` and following)."""
    records: list[dict[str, Any]] = []
    for cohort in context.both:
        fold = cohort.folds(context.sizes.n_folds, context.seed)[0]
        model = averaging_more(Patchwork(BALANCED, "II", True, context.sizes).fit(fold), context.sizes)
        places = np.concatenate([np.flatnonzero(fold.y_test == outcome)[:N_EACH] for outcome in (1, 0)])
        X = fold.X_test.iloc[places]
        probability, around = model.predict_proba(X)[:, 1], model.neighbors(X, top=TOP)
        for k, place in enumerate(places):
            patient = int(fold.test[place])
            base = {"cohort": cohort.name, "patient": patient, "probability": float(probability[k])}
            members = [(0, patient, None, None)] + [
                (rank + 1, int(fold.train[row]), float(around.influence[k, rank]), around.features[k, rank])
                for rank, row in enumerate(around.rows[k])
            ]
            records += _members(base, cohort, patient, members)
    return [Table.of_records("patients", "Sample patients and their most influential parents (Model II)", records)]


def _members(base: dict[str, Any], cohort: Cohort, patient: int, members: list[Any]) -> Iterator[dict[str, Any]]:
    """One record for each feature of a patient (rank 0) and of the similar cases; values are codes from 1."""
    codes = np.column_stack([cohort.X[name].cat.codes for name in cohort.X.columns]) + 1
    for rank, row, similarity, matters in members:
        for j, feature in enumerate(cohort.X.columns):
            yield {
                **base,
                "rank": rank,
                "row": row,
                "outcome": int(cohort.y[row]),
                "similarity": similarity,
                "feature": feature,
                "code": int(codes[row, j]),
                "value": str(cohort.X[feature].iloc[row]),
                "agrees": bool(codes[row, j] == codes[patient, j]),
                "matters": None if matters is None else float(matters[j]),
            }


def importance(context: Context) -> list[Table]:
    """Draws of the importances in unsupervised Model II (``fig:posteriorbox1``), with convergence diagnostics."""
    records = []
    warmup, draws = context.sizes.importance_warmup, context.sizes.importance_draws
    full = replace(context.sizes, chains=2, warmup=warmup, draws=draws)
    # Our default chains are three times as long; here all settings have chains of equal length.
    sizes = {PAPER: full, OURS: replace(full, warmup=max(1, warmup // 3), draws=max(1, draws // 3))}
    for cohort in context.both:
        fold = cohort.folds(context.sizes.n_folds, context.seed)[0]
        for setting in sizes:
            context.tell(f"{cohort.name}: {setting}")
            model = Patchwork(setting, "II", False, sizes[setting]).fit(fold)
            q, judged = model.posterior_.q, model.posterior_.diagnostics()
            for j, feature in enumerate(cohort.X.columns):
                low, first, median, third, high = np.quantile(q[:, :, j], (0.05, 0.25, 0.5, 0.75, 0.95))
                records.append(
                    dict(cohort=cohort.name, setting=setting, feature=feature, mean=q[:, :, j].mean())
                    | {"5 %": low, "25 %": first, "50 %": median, "75 %": third, "95 %": high}
                    | {"R-hat": judged.rhat[j], "ESS": judged.ess_bulk[j]}
                )
    return [Table.of_records("importance", "Importance of features, unsupervised Model II", records)]


def ranked_features(context: Context) -> list[Table]:
    """Accuracy with groups of features by rank (``fig:posteriorbox2``); features are ranked in each fold."""
    scores = []
    method = context.scan("II", supervised=False)
    for cohort in context.both:
        for fold in cohort.folds(context.sizes.n_folds, context.seed):
            context.tell(f"{cohort.name}: fold {fold.number + 1}")
            order = np.argsort(-method.fit(fold).feature_importances_, kind="stable")
            names = [cohort.X.columns[j] for j in order]
            for group, which in GROUPS.items():
                narrowed = replace(fold, cohort=cohort.only(names[which]))
                found = evaluate(cohort, {(group,): method}, [narrowed], ("features",))[0]
                scores += [{**row, "used": " ".join(names[which])} for row in found]
    return [Table.of_records("ranked-features", "Accuracy by ranked features: every fold", scores)]


def sample_patient(context: Context) -> list[Table]:
    """The patient of ``fig:sample1``, left out and explained by sparse BCM, BCM and Model II."""
    cohort = context.both[0]
    codes = np.column_stack([cohort.X[name].cat.codes for name in cohort.X.columns])
    patient = _nearest_patient(codes + 1, cohort.y)
    rest = np.flatnonzero(np.arange(len(cohort.y)) != patient)
    fold = Fold(cohort, 0, rest, np.array([patient]), context.seed)
    base = {"cohort": cohort.name, "patient": patient}
    itself = (0, patient, None, None)
    records = list(_members({**base, "model": "patient"}, cohort, patient, [itself]))
    n_values = codes.max(axis=0) + 1
    for name, alpha in (("sparse BCM (alpha=0.01)", 0.01), ("BCM (alpha=1)", 1.0)):
        rng = np.random.default_rng(context.seed)
        fitted = fit_cases(codes[rest], n_values, CaseModel(4, alpha), rng, context.sizes.case_sweeps)
        mixture, shares = fitted.shares(codes[[patient]], rng)
        order = [s for s in np.argsort(-mixture[0], kind="stable") if mixture[0, s] > 0.05]
        members = [
            (rank + 1, int(rest[fitted.state.prototypes[s]]), float(mixture[0, s]), shares[0, :, s])
            for rank, s in enumerate(order)
        ]
        records += _members({**base, "model": name}, cohort, patient, members)
    model = averaging_more(Patchwork(BALANCED, "II", True, context.sizes).fit(fold), context.sizes)
    around = model.neighbors(fold.X_test, top=TOP)
    influence = around.influence[0] / max(float(around.influence[0, 0]), 1e-12)
    members = [
        (rank + 1, int(rest[row]), float(influence[rank]), around.features[0, rank])
        for rank, row in enumerate(around.rows[0])
    ]
    records += _members({**base, "model": "Model II"}, cohort, patient, members)
    return [Table.of_records("sample-patient", "The patient of fig:sample1, explained in three ways", records)]


def _nearest_patient(codes: NDArray[Any], y: NDArray[np.int64]) -> int:
    """The ill patient whose codes differ least from the codes printed in the paper."""
    differing = (codes != np.array(paper.SAMPLE_PATIENT)).sum(axis=1)
    differing[(y == 1) != paper.SAMPLE_PATIENT_IS_ILL] = codes.shape[1] + 1
    return int(differing.argmin())
