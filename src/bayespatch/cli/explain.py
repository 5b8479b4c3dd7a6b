"""The command that explains one case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from bayespatch.cli.app import usage_error
from bayespatch.cli.case import ChosenCase, find_case
from bayespatch.cli.files import check_new, write
from bayespatch.cli.options import Change, Force, Form, Format, Horizon, Json, Level, MaybeOut, Top
from bayespatch.cli.shared import taking
from bayespatch.cli.terminal import as_json, show, visible, width
from bayespatch.types import JSONObject

if TYPE_CHECKING:
    from bayespatch.explain import Explanation
    from bayespatch.explain.survival import SurvivalExplanation


@taking(find=find_case)
def explain(
    find: Callable[[], ChosenCase],
    form: Form = None,
    out: MaybeOut = None,
    change: Change = None,
    at: Horizon = None,
    top: Top = 5,
    level: Level = 0.9,
    force: Force = False,
    json: Json = False,
) -> None:
    """Explain one case: similar past cases, the findings that matter, and how far to trust the answer.

    The extension of --out sets the format: .txt, .json, .html, .png or .pdf. With --change, a page (.html) also shows
    the smallest change of these features that would change the prediction.

    Examples
    --------
    $ bayespatch explain model.bpatch new.csv --row 0
    $ bayespatch explain model.bpatch new.csv --id-column patient --id P-17 --out P-17.html
    $ bayespatch explain model.bpatch --id P-03 --format json
    $ bayespatch explain model.bpatch --json-row '{"age": 61, "pain": "none"}' --out case.png
    $ bayespatch explain relapse.bpatch new.csv --row 0 --at 365
    """
    chosen = _format(form, out, json)
    if change and chosen != "html":
        raise usage_error("--change needs a page: --out case.html. For text, use 'bayespatch counterfactual'")
    check_new(force, out)
    why, other = _explained(find(), change, at, top, level)
    write(_rendered(why, chosen, other), out)
    if out is not None:
        show({"explanation": str(out)}, json, f"wrote the explanation to {out}")


def _explained(
    case: ChosenCase, change: Sequence[str] | None, at: float | None, top: int, level: float
) -> tuple[Explanation | SurvivalExplanation, JSONObject | None]:
    """The explanation, and the counterfactual if features may change."""
    from bayespatch.estimator import PatchworkSurvival

    model = case.model
    if isinstance(model, PatchworkSurvival):
        if change:
            raise usage_error("--change does not apply to survival models; remove it")
        if case.past_row is not None:
            raise usage_error("survival models can explain only new cases; pass DATA or --json-row")
        return model.explain(case.row, top, time=at, level=level), None
    if at is not None:
        raise usage_error("--at applies to survival models; remove it")
    if case.past_row is not None:
        why = model.explain_past(case.past_row, known=False, top=top, level=level)
    else:
        why = model.explain(case.row, top=top, level=level)
    return why, model.counterfactual(case.row, change, top=top, level=level).to_dict() if change else None


def _format(form: Format | None, out: Path | None, json: bool) -> Format:
    endings: dict[str, Format] = {".json": "json", ".html": "html", ".htm": "html", ".png": "png", ".pdf": "pdf"}
    endings |= {".txt": "text", "": "text"}
    by_name = None if out is None else endings.get(out.suffix.lower())
    if out is not None and form is None and by_name is None:
        supported = ", ".join(ending for ending in endings if ending)
        raise usage_error(f"--out {str(out)!r}: {out.suffix!r} is not a supported format; use one of {supported}")
    if form is not None and by_name is not None and out is not None and out.suffix and form != by_name:
        raise usage_error(f"--format {form} cannot be written to {str(out)!r}; use the extension .{form}")
    chosen = form or by_name or ("json" if json else "text")
    if chosen in ("png", "pdf") and out is None:
        raise usage_error(f"an image needs a file name: --out case.{chosen}")
    return chosen


def _rendered(why: Explanation | SurvivalExplanation, form: Format, counterfactual: JSONObject | None) -> str | bytes:
    """An explanation in the requested format."""
    if form == "text":
        return visible(why.to_text(width()))
    if form == "json":
        return as_json(why.to_dict())
    if form == "html":
        from bayespatch.report import case_page

        return case_page(why, counterfactual)
    from bayespatch import plot
    from bayespatch.explain.survival import SurvivalExplanation

    figure = plot.survival(why) if isinstance(why, SurvivalExplanation) else plot.patchwork(why).figure
    file = BytesIO()
    figure.savefig(file, format=form, dpi=150, bbox_inches="tight")
    return file.getvalue()
