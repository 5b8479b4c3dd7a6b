"""The command that demonstrates the program on the bundled heart data."""

from __future__ import annotations

from pathlib import Path

from bayespatch.cli.estimators import fitted, new_estimator
from bayespatch.cli.files import check_new, write
from bayespatch.cli.options import Draws, FolderOut, Force, HyperRule, Json, Patient, Seed, Top, Warmup
from bayespatch.cli.terminal import say, show, width, working


def demo(
    patient: Patient = 20,
    out: FolderOut = Path("bayespatch-demo"),
    top: Top = 5,
    hyper: HyperRule = "auto",
    draws: Draws = 250,
    warmup: Warmup = 250,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn from the bundled heart data, explain one patient's risk, and write two pages to open in a browser.

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
    estimator = new_estimator(False, hyper=hyper, draws=draws, warmup=warmup, random_state=seed)
    model = fitted(estimator, X[others], y[others])
    why = model.explain(X.loc[patient], top=top)
    truth = y.attrs["labels"][int(y[patient])]
    with working("Writing the pages"):
        out.mkdir(parents=True, exist_ok=True)
        write(case_page(why), page)
        model_report(model, model_page, overwrite=force)
    files = {"patient": str(page), "model": str(model_page)}
    text = f"{why.to_text(width())}\n\nWhat happened to this patient: {truth}\n"
    text += f"Pages on the patient and the model: {page} {model_page}\nTo change values in a browser: bayespatch serve"
    show({"explanation": why.to_dict(), "truth": truth, "pages": files}, json, text)
