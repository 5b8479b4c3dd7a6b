"""Commands that show something: the demo, a model, a page about it, the paper's study."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from bayespatch.cli.asking import load_model
from bayespatch.cli.files import check_new, write
from bayespatch.cli.learning import fitted, new_estimator
from bayespatch.cli.options import (
    Again,
    Cases,
    Draws,
    FolderOut,
    Force,
    HideIds,
    Hyper,
    HyperRule,
    IntendedUse,
    Json,
    ModelFile,
    Only,
    PageOut,
    Patient,
    Quick,
    Readmission,
    Seed,
    Top,
    Warmup,
)
from bayespatch.cli.terminal import facts_text, say, show, width, working


def demo(
    patient: Patient = 20,
    out: FolderOut = Path("bayespatch-demo"),
    top: Top = 4,
    hyper: HyperRule = Hyper.auto,
    draws: Draws = 250,
    warmup: Warmup = 250,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn from the bundled heart data, show one patient's patchwork, and write two pages to open in a browser.

    Examples
    --------
    $ bayespatch demo
    $ bayespatch demo --patient 7 --out pages
    """
    from bayespatch.datasets import load_heart
    from bayespatch.report import case_page, model_report

    page, model_page = out / f"patient-{patient}.html", out / "model.html"
    if out.exists():
        check_new(force, page, model_page)
    X, y = load_heart()
    others = X.index != patient
    say(f"Learning from {others.sum()} patients; patient {patient} is not among them.")
    estimator = new_estimator(False, hyper, draws=draws, warmup=warmup, random_state=seed)
    model = fitted(estimator, X[others], y[others])
    why = model.explain(X.loc[patient], top=top)
    truth = y.attrs["labels"][int(y[patient])]
    with working("Writing the pages"):
        out.mkdir(parents=True, exist_ok=True)
        write(case_page(why), page)
        model_report(model, model_page, overwrite=force)
    files = {"patient": str(page), "model": str(model_page)}
    pages = facts_text({"the patient:": files["patient"], "the model:": files["model"]})
    text = f"{why.to_text(width())}\n\nIn truth: {truth}.\n\nPages to open in a browser or to print:\n{pages}"
    text += "\n\nTo consult in a browser, change values and see what they change: bayespatch serve"
    show({"explanation": why.to_dict(), "truth": truth, "pages": files}, json, text)


def report(
    model: ModelFile,
    out: PageOut = Path("model.html"),
    intended_use: IntendedUse = "",
    cases: Cases = None,
    hide_ids: HideIds = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a page about a model: data, settings, how good it is and for whom, intended use and limits.

    Examples
    --------
    $ bayespatch report model.bpatch --out model.html --intended-use 'Triage in our clinic, beside a physician.'
    """
    from bayespatch.report import model_report

    check_new(force, out)
    loaded = load_model(model, cases)
    if hide_ids:
        loaded.ids_ = None
    with working("Summarizing the model"):
        model_report(loaded, out, intended_use=intended_use, overwrite=force)
    show({"report": str(out)}, json, f"the report is in {out}")


def info(model: ModelFile, json: Json = False) -> None:
    """Say what is in a model file, without looking at any past case.

    Examples
    --------
    $ bayespatch info model.bpatch
    $ bayespatch info model.bpatch --json
    """
    from bayespatch.persistence.model_file import read_manifest

    manifest = read_manifest(model)
    show(manifest, json, facts_text(_facts(manifest)))


def study(
    out: FolderOut = Path("study"),
    quick: Quick = False,
    only: Only = None,
    readmission: Readmission = None,
    again: Again = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Run the paper's experiments; what is finished is not run again.

    Examples
    --------
    $ bayespatch study --quick --out study-quick
    $ bayespatch study --readmission diabetic_data.csv
    """
    from bayespatch.study import run

    page = run(out, quick=quick, only=only or (), readmission=readmission, seed=seed, again=again)
    show({"page": str(page)}, json, f"the study is in {page}")


def _facts(manifest: dict[str, Any]) -> dict[str, str]:
    """A manifest in a few lines."""
    held = {part["name"] for part in manifest["parts"]}
    if manifest["holds"] != "model":
        return {"holds": manifest["holds"], "written by": f"bayespatch {manifest['package']}"}
    sizes, run, mixed = manifest["sizes"], manifest["settings"], manifest["diagnostics"]
    columns = manifest["columns"]
    outcome = "a number" if manifest["classes"] is None else f"{sizes['M']} classes"
    kinds = Counter(column["kind"] for column in columns)
    return {
        "model": f"{manifest['estimator']}, model {manifest['model']['kind']}",
        "written by": f"bayespatch {manifest['package']}, format {manifest['format']}",
        "past cases": f"{sizes['n']}, {sizes['S']} of them parents" + ("" if "cases" in held else "; in another file"),
        "outcome": f"{manifest['target'] or 'not named'}: {outcome}",
        "features": ", ".join(column["name"] for column in columns),
        "kinds": ", ".join(f"{count} {kind}" for kind, count in kinds.items()),
        "run": f"{run['chains']} chains of {run['draws']} draws after {run['warmup']}, engine {run['engine']}",
        "mixed": "yes" if mixed["converged"] else f"no (R-hat up to {_short(mixed['max_rhat'])})",
        "size": ", ".join(f"{part['name']} {part['bytes'] / 1024:.0f} KiB" for part in manifest["parts"]),
    }


def _short(number: float | None) -> str:
    return "unknown" if number is None else f"{number:.3g}"
