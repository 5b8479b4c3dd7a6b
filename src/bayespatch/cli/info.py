"""The command that describes a model file."""

from __future__ import annotations

from collections import Counter

from bayespatch.cli.options import Json, ModelFile
from bayespatch.cli.terminal import facts_text, show
from bayespatch.sampling.diagnostics import MAX_RHAT
from bayespatch.types import JSONObject


def info(model: ModelFile, json: Json = False) -> None:
    """Describe a model file without reading its past cases.

    Examples
    --------
    $ bayespatch info model.bpatch
    $ bayespatch info model.bpatch --json
    """
    from bayespatch.persistence.model_file import read_manifest

    manifest = read_manifest(model)
    show(manifest, json, facts_text(_facts(manifest)))


def _facts(manifest: JSONObject) -> dict[str, str]:
    """A short summary of a manifest."""
    held = {part["name"] for part in manifest["parts"]}
    if manifest["holds"] != "model":
        return {"holds": manifest["holds"], "written by": f"bayespatch {manifest['package']}"}
    sizes, run, mixed = manifest["sizes"], manifest["settings"], manifest["diagnostics"]
    columns = manifest["columns"]
    number = "a time to an event" if manifest["estimator"] == "PatchworkSurvival" else "a number"
    outcome = number if manifest["classes"] is None else f"{sizes['M']} classes"
    kinds = Counter(column["kind"] for column in columns)
    return {
        "model": f"{manifest['estimator']}, model {manifest['model']['kind']}",
        "written by": f"bayespatch {manifest['package']}, format {manifest['format']}",
        "past cases": f"{sizes['n']}, {sizes['S']} of them vote" + ("" if "cases" in held else "; in a separate file"),
        "outcome": f"{manifest['target'] or 'not named'}: {outcome}",
        "features": ", ".join(column["name"] for column in columns),
        "kinds": ", ".join(f"{count} {kind}" for kind, count in kinds.items()),
        "run": f"{run['chains']} chains of {run['draws']} draws after {run['warmup']}, engine {run['engine']}",
        "converged": _mixed(mixed),
        "size": ", ".join(f"{part['name']} {part['bytes'] / 1024:.0f} KiB" for part in manifest["parts"]),
    }


def _mixed(diagnostics: JSONObject) -> str:
    """Whether the chains have mixed, according to the manifest."""
    rhat, ess = diagnostics["max_rhat"], diagnostics["min_ess"]
    if diagnostics["converged"]:
        return "yes"
    if rhat is not None and rhat <= MAX_RHAT:
        return f"the chains agree, but there are too few draws (effective sample size from {_short(ess)})"
    return f"no (R-hat up to {_short(rhat)})"


def _short(number: float | None) -> str:
    return "unknown" if number is None else f"{number:.3g}"
