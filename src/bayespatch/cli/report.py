"""The command that writes a page about a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bayespatch.cli.case import check_no_times, decision_of, load_model
from bayespatch.cli.files import check_new
from bayespatch.cli.options import Cases, Cost, Force, HideIds, IntendedUse, Json, ModelFile, PageOut, Threshold
from bayespatch.cli.terminal import show, working


def report(
    model: ModelFile,
    out: PageOut = Path("model.html"),
    intended_use: IntendedUse = "",
    threshold: Threshold = None,
    cost: Cost = None,
    cases: Cases = None,
    hide_ids: HideIds = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a page about a model: data, settings, performance by subgroup, intended use and limits.

    Examples
    --------
    $ bayespatch report model.bpatch --out model.html --intended-use 'Triage, together with a physician.'
    """
    from bayespatch.estimator import PatchworkClassifier
    from bayespatch.report import model_report

    check_new(force, out)
    loaded = load_model(model, cases)
    check_no_times(loaded, "report")
    if hide_ids:
        loaded.fitted_ = replace(loaded.fitted_, ids=None)
    decision = decision_of(loaded, threshold, cost)
    if isinstance(loaded, PatchworkClassifier):
        loaded.fitted_ = replace(loaded.fitted_, decision=decision)
    with working("Summarizing the model"):
        model_report(loaded, out, intended_use=intended_use, overwrite=force)
    show({"report": str(out)}, json, f"wrote the report to {out}")
