"""Fills the templates. The template engine escapes text from the data, which is never interpreted as HTML."""

from __future__ import annotations

import datetime
import hashlib
import os
from base64 import b64encode
from functools import cache
from importlib.resources import files
from os import PathLike
from typing import TYPE_CHECKING, Protocol

from bayespatch.explain import Explanation, html
from bayespatch.explain.overview import Overview
from bayespatch.explain.survival import SurvivalExplanation, headline
from bayespatch.language import day
from bayespatch.persistence.atomic import check_writable, refuse, replacing
from bayespatch.types import JSONMapping

if TYPE_CHECKING:
    from jinja2 import Environment

Path = str | PathLike[str]


class HasOverview(Protocol):
    """A fitted estimator."""

    def overview(self) -> Overview:
        """The overview of the model."""


def case_report(
    explanation: Explanation | SurvivalExplanation | JSONMapping, path: Path, *, overwrite: bool = False
) -> None:
    """Write the page about a case, for screens of any size, light or dark, and for print (two sheets).

    Parameters
    ----------
    explanation : Explanation, SurvivalExplanation or dict
        Result of `explain`, or of an `Explanation.to_dict`.
    path : path
        The HTML file to write.
    overwrite : bool
        Whether to replace an existing file.
    """
    _check_free(path, overwrite)
    _write(path, case_page(explanation))


def model_report(model: HasOverview, path: Path, *, intended_use: str = "", overwrite: bool = False) -> None:
    """Write the page about a fitted model: the items of TRIPOD+AI that software can fill in.

    Parameters
    ----------
    model : fitted estimator
    path : path
        The HTML file to write.
    intended_use : str, optional
        Which patients and which decisions the model is intended for; if omitted, the page says "not specified".
    overwrite : bool
        Whether to replace an existing file.
    """
    _check_free(path, overwrite)
    if not isinstance(intended_use, str):
        raise ValueError(f"intended_use={intended_use!r} is not text; pass one or two sentences")
    _write(path, model_page(model.overview(), intended_use=intended_use))


def _check_free(path: Path, overwrite: bool) -> None:
    """Check that a path is writable and that no existing file would be lost."""
    check_writable(path)
    if os.path.exists(path) and not overwrite:
        raise refuse(path, "already exists", "pass overwrite=True to replace it, or another name")


def case_page(
    explanation: Explanation | SurvivalExplanation | JSONMapping, counterfactual: JSONMapping | None = None
) -> str:
    """The page about a case, as HTML, optionally with a counterfactual.

    `counterfactual` is the result of `Counterfactual.to_dict`.
    """
    if isinstance(explanation, SurvivalExplanation):
        times = explanation.to_dict()
        return _page("survival.html", why=times, answer=explanation.to_html(), title=headline(times))
    why = _data(explanation)
    return _page("case.html", why=why, answer=case_body(why), counterfactual=counterfactual)


def case_body(explanation: Explanation | JSONMapping, *, case_link: str = "", date: str = "") -> str:
    """The answer about a case as an HTML fragment for your own page.

    The fragment has no style attributes and no scripts; use it with `style` and `script`.

    Parameters
    ----------
    explanation : Explanation or dict
    case_link : str
        Prefix of a URL to which the number of a past case is appended; if given, past cases are links.
    date : str
        Date of the answer; today by default.
    """
    return html.answer(_data(explanation), case_link=case_link, date=date or _today())


def model_body(overview: Overview | JSONMapping, *, case_link: str = "", intended_use: str = "") -> str:
    """The content of the page about a model as an HTML fragment, like `case_body`."""
    return _body("model_body.html", model=_overview(overview), case_link=case_link, intended_use=intended_use)


def model_page(overview: Overview | JSONMapping, *, intended_use: str = "") -> str:
    """The page about a model, as HTML."""
    return _page("model.html", model=_overview(overview), intended_use=intended_use)


def validation_report(validation: JSONMapping, path: Path, *, overwrite: bool = False) -> None:
    """Write the page about a validation, from the result of `Validation.to_dict`."""
    _check_free(path, overwrite)
    _write(path, validation_page(validation))


def validation_page(validation: JSONMapping) -> str:
    """The page about a validation, as HTML."""
    return _page("validation.html", found=validation)


def style() -> str:
    """The style sheet of the pages."""
    return html.style() + _read("style.css")


def script() -> str:
    """The script of the pages, which expands details for printing. The pages work without it."""
    return _read("page.js")


def _data(explanation: Explanation | JSONMapping) -> JSONMapping:
    return explanation.to_dict() if isinstance(explanation, Explanation) else explanation


def _overview(overview: Overview | JSONMapping) -> JSONMapping:
    return overview.to_dict() if isinstance(overview, Overview) else overview


def _body(template: str, **content: object) -> str:
    return str(templates().get_template(template).render(**{"today": _today(), **content}))


def _page(template: str, **content: object) -> str:
    """A page with its style and script inline; the browser runs no other script."""
    from markupsafe import Markup

    parts = {"style": style(), "script": script()}
    hashes = {f"{name}_hash": Markup(_hash(text)) for name, text in parts.items()}
    content |= {name: Markup(text) for name, text in parts.items()}
    if "answer" in content:
        content["answer"] = Markup(content["answer"])
    return str(templates().get_template(template).render(today=_today(), case_link="", **hashes, **content))


def _hash(text: str) -> str:
    """The hash by which a content security policy allows an inline script or style."""
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _read(name: str) -> str:
    return files("bayespatch.report").joinpath("templates", name).read_text(encoding="utf-8")


def _today() -> str:
    return day(datetime.date.today())


def _write(path: Path, page: str) -> None:
    """Write a page atomically."""
    with replacing(path) as file:
        file.write(page.encode("utf-8"))


@cache
def templates() -> Environment:
    """The templates of the pages and of the answer, with their helper functions and filters."""
    answer = html.environment()
    from jinja2 import ChoiceLoader, PackageLoader

    environment = answer.overlay(
        loader=ChoiceLoader([PackageLoader("bayespatch.report"), PackageLoader("bayespatch.explain")])
    )
    environment.filters.update(answer.filters)
    environment.globals.update(answer.globals)
    return environment
