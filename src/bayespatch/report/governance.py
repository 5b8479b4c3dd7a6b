"""Governance documents about a fitted model, as Markdown files to complete and approve.

The overview of the model provides the known information. Everything else is marked "To complete".
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from bayespatch.explain.overview import Overview, Performance
from bayespatch.persistence.atomic import check_writable, refuse, replacing
from bayespatch.report.pages import templates
from bayespatch.subgroups import Subgroup

DOCUMENTS = ("model-card", "intended-use", "risk-analysis", "tripod-ai", "regulation", "change-log")
MISSING = {
    "category": "Missing values count as a separate value.",
    "ignore": "Missing values are not compared.",
    "error": "Missing values are rejected.",
}
FEW = 50  # past cases; scores of smaller subgroups are too uncertain


def governance_pack(
    overview: Overview,
    folder: str | os.PathLike[str],
    *,
    intended_use: str = "",
    sha256: str = "**To complete**",
    history: Sequence[Mapping[str, object]] = (),
    overwrite: bool = False,
) -> list[Path]:
    """Write model card, intended use, risk analysis, TRIPOD+AI checklist, notes on regulation and change log.

    Parameters
    ----------
    overview : Overview
        From `clf.overview()`.
    folder : path
        Output folder; created if it does not exist.
    intended_use : str, optional
        One or two sentences: which patients and which decisions the model is intended for.
    sha256 : str, optional
        Checksum of the model file.
    history : sequence of dicts, optional
        Versions of the model, newest first: the fields of `casebase.models.ModelVersion`.
    overwrite : bool
        Whether to replace existing documents, which may contain your entries.

    Returns
    -------
    list of paths
        The files written.

    Examples
    --------
    >>> import os, tempfile
    >>> from bayespatch import PatchworkClassifier
    >>> X = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5
    >>> clf = PatchworkClassifier(draws=50, random_state=0).fit(X, ["sick", "sick", "well", "well"] * 5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in governance_pack(clf.overview(), folder)][:3]
    ['model-card.md', 'intended-use.md', 'risk-analysis.md']
    """
    paths = [Path(folder) / f"{name}.md" for name in DOCUMENTS]
    for path in paths:
        if path.exists() and not overwrite:
            raise refuse(path, "already exists", "pass overwrite=True to replace it, or another folder")
    Path(folder).mkdir(parents=True, exist_ok=True)
    plain = {**_content(overview), "intended_use": intended_use, "history": history}
    content = {name: _escaped(value) for name, value in plain.items()}
    content |= {
        "sha256": sha256,
        "scores": _scores(overview.performance),
        "by_group": _by_group(overview.subgroups),
        "share": _share,
        "comparison": _comparison,
    }
    environment = templates().overlay(autoescape=False, trim_blocks=False)
    environment.filters.update(day=_day, values=_values)
    texts = [environment.get_template(f"governance/{path.name}").render(**content) for path in paths]
    for path, text in zip(paths, texts, strict=True):
        check_writable(path)
        with replacing(path) as file:
            file.write(text.rstrip().encode("utf-8") + b"\n")
    return paths


def _content(overview: Overview) -> dict[str, object]:
    """The variables of the templates."""
    features, subgroups, decision = overview.features, overview.subgroups, overview.performance.decision
    return overview.to_dict() | {
        "today": datetime.date.today().isoformat(),
        "target": overview.about["target"] or "outcome",
        "compared": [one.description for one in features if one.compared],
        "left_out": [one.description for one in features if not one.compared],
        "missing": [one.description for one in features if one.n_missing],
        "missing_rule": MISSING[overview.about["missing"]],
        "coding": overview.how_found.rpartition(": ")[2],
        "settings": overview.how_found.partition(";")[0],
        "decision": ""
        if decision is None
        else f"{decision['label']} at a probability of {100 * decision['at']:.3g}% or more",
        "headline": _headline(overview.performance),
        "small": [_group(one) for one in subgroups if one.n < FEW],
        "worse": [f"{_group(one)} ({one.worse})" for one in subgroups if one.worse],
    }


def _headline(performance: Performance) -> str:
    """The first two scores with their intervals."""
    return ", ".join(
        f"{name} {value:.3g} (95% interval {_range(performance.intervals[name])})"
        for name, value in list(performance.scores.items())[:2]
        if value is not None
    )


def _scores(performance: Performance) -> str:
    """All scores as a table, next to those of the base rates."""
    ranges, reference = performance.intervals, performance.reference
    rows = [
        f"| {name} | {_number(value)} | {_range(ranges[name])} | {_number(reference.get(name))} |"
        for name, value in performance.scores.items()
    ]
    return "\n".join(["| score | value | 95% interval | base rates alone |", "|---|---|---|---|", *rows])


def _by_group(subgroups: Sequence[Subgroup]) -> str:
    """Scores by subgroup as a table."""
    if not subgroups:
        return "No column divides the past cases into subgroups large enough for scores."
    rows = [f"| {_cell(_group(one))} | {one.n} | {_number(one.accuracy)} | {_number(one.auc)} |" for one in subgroups]
    return "\n".join(["| subgroup | past cases | accuracy | AUC |", "|---|---|---|---|", *rows])


def _group(subgroup: Subgroup) -> str:
    return f"{subgroup.label} {subgroup.value}"


def _share(feature: Mapping[str, float | Sequence[float]]) -> str:
    """Importance of a feature with its interval, from the overview's plain data."""
    low, high = cast(Sequence[float], feature["importance_interval"])
    return f"{100 * cast(float, feature['importance']):.0f}% ({100 * low:.0f} to {100 * high:.0f}%)"


def _comparison(version: Mapping[str, object]) -> str:
    """How a version compared with the model that was active at the time."""
    metrics = version["metrics"]
    both = metrics.get("both") if isinstance(metrics, Mapping) else None
    if not isinstance(both, Mapping):
        return "no earlier model"
    error = "" if both["gain_error"] is None else f" (standard error {both['gain_error']:.3f})"
    return f"mean log score {both['gain']:+.3f}{error}"


def _values(feature: Mapping[str, Sequence[str]]) -> str:
    """The range or the levels of a feature, without how close values are compared."""
    return ", ".join(text.partition(", close if")[0] for text in feature["values"])


def _range(interval: Sequence[float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.3g} to {interval[1]:.3g}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _escaped(value: object) -> object:
    """Plain data in which all strings are safe for Markdown."""
    if isinstance(value, Mapping):
        return {_escaped(key): _escaped(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(one) for one in value]
    return _cell(value) if isinstance(value, str) else value


def _cell(text: str) -> str:
    """Escape text from the data for a table cell, so that it adds no columns or HTML."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
    return " ".join(escaped.split())


def _day(moment: object) -> str:
    return "" if moment is None else str(moment)[:10]
