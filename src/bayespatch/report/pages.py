"""Fills the templates. Texts from the data are escaped by the template engine; no text is ever taken for HTML."""

from __future__ import annotations

from datetime import date
from os import PathLike
from typing import Any

from bayespatch.explain import Explanation, words
from bayespatch.explain.overview import Overview
from bayespatch.files import check_writable, replacing

Path = str | PathLike[str]


def case_report(explanation: Explanation, path: Path) -> None:
    """Write the page about a case: printable on two pages, for a reader with or without colors, ears or a network.

    Parameters
    ----------
    explanation : Explanation
        From `clf.explain`.
    path : path
        Of the HTML file.
    """
    check_writable(path)
    _write(path, case_page(explanation))


def model_report(model: Any, path: Path, *, intended_use: str = "") -> None:
    """Write the page about a fitted model: the items of TRIPOD+AI that software can fill.

    Parameters
    ----------
    model : fitted estimator
    path : path
        Of the HTML file.
    intended_use : str, optional
        For whom and for what the model is meant; without it, the page says that nobody has said so.
    """
    check_writable(path)
    if not isinstance(intended_use, str):
        raise ValueError(f"intended_use={intended_use!r} is not a text; pass one or two sentences")
    _write(path, model_page(model.overview(), intended_use=intended_use))


def case_page(explanation: Explanation) -> str:
    """The page about a case, as HTML."""
    return str(_templates().get_template("case.html").render(why=explanation, today=date.today().isoformat()))


def model_page(overview: Overview, *, intended_use: str = "") -> str:
    """The page about a model, as HTML."""
    template = _templates().get_template("model.html")
    return str(template.render(model=overview, intended_use=intended_use, today=date.today().isoformat()))


def _write(path: Path, page: str) -> None:
    """All of a page or nothing."""
    with replacing(path) as file:
        file.write(page.encode("utf-8"))


def _templates() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError('pages need jinja2: pip install "bayespatch[report]"') from error
    found = Environment(
        loader=PackageLoader("bayespatch.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals["words"] = words
    found.filters.update(percent=words.percent, points=words.points, interval=words.interval, number=_number)
    return found


def _number(value: float | None, digits: int = 2) -> str:
    """A number, or a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"
