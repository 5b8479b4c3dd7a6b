"""Predictive performance: ``tab:result1``, ``tab:result2``, ``tab:comparison1``, ``tab:readres``, full data sets."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from study import cohorts, paper
from study.baselines import case_model, usual_classifiers
from study.bcm import CaseModel
from study.cohorts import Cohort
from study.metrics import MEASURES
from study.parts.context import Context
from study.protocol import AS_PRINTED, BALANCED, MODELS, OURS, SETTINGS, Patchwork, evaluate
from study.tables import Table, summary

KEYS = ("setting", "model", "learning")
LEARNING = {True: "supervised", False: "unsupervised"}
CASE_CLUSTERS = (4, 8, 12)
LONGER = 8  # factor for the number of sweeps, to check whether the chains are long enough
CASE_ALPHAS = (0.01, 0.1, 1)


def models_of(cohort: Cohort, context: Context) -> list[Table]:
    """Models I, II and III, supervised and unsupervised, with the paper's settings and ours (``tab:result1``, 2)."""
    methods = {
        (setting, model, LEARNING[supervised]): Patchwork(setting, model, supervised, context.sizes)
        for setting in SETTINGS
        for model in MODELS
        for supervised in (True, False)
    }
    folds = cohort.folds(context.sizes.n_folds, context.seed)
    scores, predictions = evaluate(cohort, methods, folds, KEYS, context.tell)
    by_fold = Table.of_records(f"{cohort.name}-folds", f"{cohort.title}: every fold", scores)
    shown = [row for row in predictions if row["model"] == "II" and row["learning"] == "supervised"]
    return [
        by_fold,
        summary(
            by_fold,
            KEYS,
            MEASURES,
            f"{cohort.name}-summary",
            f"{cohort.title}: mean and SD over folds",
            lambda setting, model, learning: paper.results_of(cohort.name, learning == "supervised", model),
        ),
        Table.of_records(f"{cohort.name}-probabilities", f"{cohort.title}: test cases, Model II supervised", shown),
    ]


def models_on_heart(context: Context) -> list[Table]:
    """``tab:result1``."""
    return models_of(context.both[0], context)


def models_on_breast(context: Context) -> list[Table]:
    """``tab:result2``."""
    return models_of(context.both[1], context)


def printed_likelihood(context: Context) -> list[Table]:
    """Models I and II with the likelihood as printed in the paper (``eq:xphi``; errata, item 1)."""
    scores = []
    for cohort in context.both:
        methods = {
            (model, AS_PRINTED if setting == AS_PRINTED else "exact"): Patchwork(setting, model, True, context.sizes)
            for model in ("I", "II")
            for setting in (BALANCED, AS_PRINTED)
        }
        folds = cohort.folds(context.sizes.n_folds, context.seed)
        scores += evaluate(cohort, methods, folds, ("model", "likelihood"), context.tell)[0]
    by_fold = Table.of_records("likelihood-folds", "The likelihood as printed and the exact one: every fold", scores)
    caption = "The likelihood as printed and the exact one: mean and SD over folds"
    return [by_fold, summary(by_fold, ("cohort", "model", "likelihood"), MEASURES, "likelihood-summary", caption)]


def longer_chains(context: Context) -> list[Table]:
    """Models I and II on heart with chains several times as long, to show the effect of short chains."""
    sizes = context.sizes
    longer = replace(sizes, warmup=LONGER * sizes.warmup, draws=LONGER * sizes.draws)
    cohort = context.both[0]
    methods = {
        (model, str(size.warmup + size.draws)): Patchwork(BALANCED, model, True, size)
        for model in ("I", "II")
        for size in (sizes, longer)
    }
    keys = ("model", "sweeps")
    scores, _ = evaluate(cohort, methods, cohort.folds(sizes.n_folds, context.seed), keys, context.tell)
    by_fold = Table.of_records("length-folds", "Chains of two lengths: every fold", scores)
    return [
        by_fold,
        summary(by_fold, keys, MEASURES, "length-summary", "Chains of two lengths: mean and SD over folds"),
    ]


def others_on_both(context: Context) -> list[Table]:
    """The other methods of ``tab:comparison1``, and BCM for ``fig:bcmcompare``, on the same folds."""
    tables = []
    for cohort in context.both:
        scores = others(cohort, context, CASE_CLUSTERS, CASE_ALPHAS)
        by_fold = Table.of_records(f"{cohort.name}-others-folds", f"{cohort.title}: other methods, every fold", scores)
        tables += [by_fold, summary_of_methods(by_fold, cohort.name, cohort.title)]
    return tables


def others(
    cohort: Cohort, context: Context, clusters: tuple[int, ...], alphas: tuple[float, ...]
) -> list[dict[str, Any]]:
    """Scores of BCM and of the usual classifiers."""
    cases = {
        f"BCM (S={n}, alpha={alpha})": partial(case_model, CaseModel(n, alpha), context.sizes.case_sweeps)
        for n in clusters
        for alpha in alphas
    }
    folds = cohort.folds(context.sizes.n_folds, context.seed)
    return evaluate(cohort, {**cases, **usual_classifiers()}, folds, tell=context.tell)[0]


def summary_of_methods(by_fold: Table, name: str, title: str) -> Table:
    """Mean and SD of each method, with the paper's accuracy, which is the same for both classifiers with BCM."""

    def printed(method: str) -> dict[str, float]:
        return paper.measures_of(name, method.split("), ")[0] + ")" if method.startswith("BCM") else method)

    caption = f"{title}: other methods, mean and SD over folds"
    return summary(by_fold, ("method",), MEASURES, f"{name}-others-summary", caption, printed)


def readmission(context: Context) -> list[Table]:
    """``tab:readres``: two balanced samples, with means over the folds of both."""
    if context.readmission is None:
        raise ValueError("the readmission table is missing; pass its path")
    samples = cohorts.readmission(context.readmission, context.seed, context.sizes.readmission)
    scores: list[dict[str, Any]] = []
    for cohort in samples:
        folds = cohort.folds(context.sizes.n_folds, context.seed)
        ours = {
            f"Model {model} ({setting})": Patchwork(setting, model, True, context.sizes, scan=True)
            for setting in SETTINGS
            for model in MODELS
        }
        scores += evaluate(cohort, ours, folds, tell=context.tell)[0]
        scores += others(cohort, context, (4, 8), (1,))
    by_fold = Table.of_records("readmission-folds", "Readmission: every fold of both samples", scores)

    def printed(method: str) -> dict[str, float]:
        known = [name for name in paper.READMISSION if method == name or method.startswith((f"{name} (", f"{name}, "))]
        return paper.measures_of("readmission", max(known, key=len)) if known else {}

    caption = "Readmission: mean and SD over the folds of both samples"
    return [by_fold, summary(by_fold, ("method",), MEASURES, "readmission-summary", caption, printed)]


def full_sets(context: Context) -> list[Table]:
    """All patients of both small tables with their original values: our settings and the baseline classifiers."""
    tables = []
    for cohort in (cohorts.full_heart(), cohorts.full_breast()):
        folds = cohort.folds(context.sizes.n_folds, context.seed)
        ours = {
            f"Model {model} ({setting})": Patchwork(setting, model, True, context.sizes)
            for setting in (BALANCED, OURS)
            for model in MODELS
        }
        scores = evaluate(cohort, {**ours, **usual_classifiers((30, 10))}, folds, tell=context.tell)[0]
        by_fold = Table.of_records(f"{cohort.name}-folds", f"{cohort.title}: every fold", scores)
        caption = f"{cohort.title}: mean and SD over folds"
        tables += [by_fold, summary(by_fold, ("method",), MEASURES, f"{cohort.name}-summary", caption)]
    return tables
