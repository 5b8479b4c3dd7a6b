"""Commands for the versions of the model: refit, models, promote, roll-back."""

from __future__ import annotations

import json as json_text
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bayespatch.cli.app import usage_error
from bayespatch.cli.casebase.opening import Opened, Person, counted, open_base, person
from bayespatch.cli.casebase.options import Parameter, Reason, Version
from bayespatch.cli.options import Json
from bayespatch.cli.shared import taking
from bayespatch.cli.terminal import show, table_text, working
from bayespatch.types import JSONObject

if TYPE_CHECKING:
    from bayespatch.casebase.models import ModelVersion


@taking(opened=open_base, by=person)
def refit(opened: Opened, by: Person, settings: Parameter = None, json: Json = False) -> None:
    """Train a new version of the model on all past cases. It is not used until you promote it.

    If the command is interrupted, run it again to continue.

    Examples
    --------
    $ bayespatch casebase refit clinic.db
    $ bayespatch casebase refit clinic.db --set draws=500 --set model='"II"'
    """
    from bayespatch.casebase.models import ModelVersion

    with opened() as base, working("Learning from the past cases"):
        model = base.refit(by=by(), **_parameters(settings or []))
    assert isinstance(model, ModelVersion)
    show(model, json, _comparison_text(model))


@taking(opened=open_base)
def models(opened: Opened, json: Json = False) -> None:
    """List the versions of the model, newest first.

    Examples
    --------
    $ bayespatch casebase models clinic.db
    """
    with opened() as base:
        versions = base.models()
    rows = [
        [str(one.version), one.state, str(one.n_cases), str(one.n_forgotten), one.made_at[:19], one.made_by]
        for one in versions
    ]
    text = table_text(["version", "state", "cases", "forgotten", "made at", "by"], rows) if rows else "no models yet"
    show({"models": versions}, json, text)


@taking(opened=open_base, by=person)
def promote(opened: Opened, version: Version, by: Person, reason: Reason = "", json: Json = False) -> None:
    """Make a version of the model the active one, unless it is worse on recent outcomes.

    Examples
    --------
    $ bayespatch casebase promote clinic.db 2
    $ bayespatch casebase promote clinic.db 2 --reason 'version 1 had a wrong unit for creatinine'
    """
    with opened() as base:
        model = base.promote(version, by=by(), reason=reason)
    show(model, json, f"version {model.version} is active")


@taking(opened=open_base, by=person)
def roll_back(opened: Opened, by: Person, json: Json = False) -> None:
    """Reactivate the previously active version of the model.

    Examples
    --------
    $ bayespatch casebase roll-back clinic.db
    """
    with opened() as base:
        model = base.roll_back(by=by())
    show(model, json, f"version {model.version} is active")


def _parameters(settings: Sequence[str]) -> JSONObject:
    parameters = {}
    for one in settings:
        name, sign, value = one.partition("=")
        try:
            if not sign or not name.isidentifier():
                raise ValueError("no name")
            parameters[name] = json_text.loads(value)
        except ValueError as error:
            raise usage_error(f"--set {one!r} is not NAME=VALUE with the value as JSON, such as draws=500") from error
    return parameters


def _comparison_text(model: ModelVersion) -> str:
    """How an offered version compares with the active one."""
    head = f"version {model.version} was trained on {model.n_cases} past cases; promote it to activate it"
    scores = (model.metrics or {}).get("both")
    if scores is None:
        return head
    names = ("log_score", "brier", "accuracy")
    rows = [[which, *(f"{scores[which][name]:.3f}" for name in names)] for which in ("old", "new")]
    error = "" if scores["gain_error"] is None else f" ± {scores['gain_error']:.3f}"
    changes = [[str(one["case"]), one["old"], one["new"], one["outcome"]] for one in scores["changes"][:20]]
    parts = [
        f"Leave-one-out on the {scores['n']} past cases that are in both models:",
        table_text(["", "log score", "Brier", "accuracy"], rows),
        f"gain in log score {scores['gain']:+.3f}{error}; the predicted class changes for "
        f"{counted(len(scores['changes']), 'case')}",
    ]
    if changes:
        parts.append(table_text(["case", "old", "new", "outcome"], changes))
    return "\n\n".join([*parts, head])
