"""The command that writes governance documents: model card, risk analysis, checklist, change log."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path

from bayespatch.cli.app import usage_error
from bayespatch.cli.case import check_no_times, load_model
from bayespatch.cli.options import CaseBaseUrl, Cases, FolderOut, Force, IntendedUse, Json, ModelFile
from bayespatch.cli.terminal import show, working


def governance(
    model: ModelFile,
    out: FolderOut = Path("governance"),
    casebase: CaseBaseUrl = None,
    intended_use: IntendedUse = "",
    cases: Cases = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write documents to complete: model card, intended use, risk analysis, TRIPOD+AI, regulation, change log.

    Examples
    --------
    $ bayespatch governance model.bpatch --out governance --intended-use 'Triage, together with a physician.'
    $ bayespatch governance model.bpatch --out governance --casebase clinic.db --force
    """
    from bayespatch.report.governance import DOCUMENTS, governance_pack

    existing = [name for name in DOCUMENTS if (out / f"{name}.md").exists()]
    if existing and not force:
        raise usage_error(
            f"{out / existing[0]}.md already exists and may contain your entries. Choose another folder with --out, or "
            f"pass --force to replace the documents"
        )
    history = [] if casebase is None else _versions(casebase)
    loaded = load_model(model, cases)
    check_no_times(loaded, "governance")
    with working("Summarizing the model"):
        paths = governance_pack(
            loaded.overview(),
            out,
            intended_use=intended_use,
            sha256=hashlib.sha256(model.read_bytes()).hexdigest(),
            history=history,
            overwrite=force,
        )
    show({"documents": list(map(str, paths))}, json, f"wrote {len(paths)} documents to {out}; search for 'To complete'")


def _versions(url: str) -> list[dict[str, object]]:
    """The versions of a case base's model, newest first."""
    from bayespatch.casebase import CaseBase

    with CaseBase.open(url, create=False) as base:
        return [asdict(version) for version in base.models()]
