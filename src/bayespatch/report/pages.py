"""Fills the templates. Texts from the data are escaped by the template engine; no text is ever taken for HTML."""

from __future__ import annotations

import datetime
import hashlib
import os
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from os import PathLike
from typing import Any, Protocol

from bayespatch.explain import Explanation, words
from bayespatch.explain.overview import Overview
from bayespatch.persistence.atomic import check_writable, refuse, replacing

Path = str | PathLike[str]
Data = Mapping[str, Any]


class HasOverview(Protocol):
    """A fitted estimator."""

    def overview(self) -> Overview:
        """What the model has learned as a whole."""


def case_report(explanation: Explanation | Data, path: Path, *, overwrite: bool = False) -> None:
    """Write the page about a case: for a screen of any size, in the light or in the dark, or printed on two sheets.

    Parameters
    ----------
    explanation : Explanation or dict
        From `clf.explain`, or what its `to_dict` has returned.
    path : path
        Of the HTML file.
    overwrite : bool
        Whether a file that is there is replaced.
    """
    _check_free(path, overwrite)
    _write(path, case_page(explanation))


def model_report(model: HasOverview, path: Path, *, intended_use: str = "", overwrite: bool = False) -> None:
    """Write the page about a fitted model: the items of TRIPOD+AI that software can fill.

    Parameters
    ----------
    model : fitted estimator
    path : path
        Of the HTML file.
    intended_use : str, optional
        For whom and for what the model is meant; without it, the page says that it is not specified.
    overwrite : bool
        Whether a file that is there is replaced.
    """
    _check_free(path, overwrite)
    if not isinstance(intended_use, str):
        raise ValueError(f"intended_use={intended_use!r} is not a text; pass one or two sentences")
    _write(path, model_page(model.overview(), intended_use=intended_use))


def _check_free(path: Path, overwrite: bool) -> None:
    """A path that can be written to, and where nothing is that would be lost."""
    check_writable(path)
    if os.path.exists(path) and not overwrite:
        raise refuse(path, "already exists", "pass overwrite=True to replace it, or another name")


def case_page(explanation: Explanation | Data, counterfactual: Data | None = None) -> str:
    """The page about a case, as HTML; with what would have to change for another prediction, where that is given.

    `counterfactual` is what `Counterfactual.to_dict` has returned.
    """
    return _page("case.html", why=_data(explanation), counterfactual=counterfactual)


def case_body(explanation: Explanation | Data, *, case_link: str = "", date: str = "") -> str:
    """What stands on the page about a case, without the page around it: for a page of one's own.

    It has no style attributes and no scripts; `style` and `script` are what goes with it.

    Parameters
    ----------
    explanation : Explanation or dict
    case_link : str
        Beginning of an address to which the number of a past case is added: past cases are then links.
    date : str
        When it was said; today by default.
    """
    return _body("case_body.html", why=_data(explanation), case_link=case_link, today=date or _today())


def model_body(overview: Overview | Data, *, case_link: str = "", intended_use: str = "") -> str:
    """What stands on the page about a model, without the page around it; as `case_body`."""
    return _body("model_body.html", model=_overview(overview), case_link=case_link, intended_use=intended_use)


def model_page(overview: Overview | Data, *, intended_use: str = "") -> str:
    """The page about a model, as HTML."""
    return _page("model.html", model=_overview(overview), intended_use=intended_use)


def validation_report(validation: Data, path: Path, *, overwrite: bool = False) -> None:
    """Write the page about a validation, from what `Validation.to_dict` has returned."""
    _check_free(path, overwrite)
    _write(path, validation_page(validation))


def validation_page(validation: Data) -> str:
    """The page about a validation, as HTML."""
    return _page("validation.html", found=validation)


def style() -> str:
    """The style sheet of the pages."""
    return _read("style.css")


def script() -> str:
    """The script of the pages: it orders and highlights, and everything can be read without it."""
    return _read("page.js")


def _data(explanation: Explanation | Data) -> Data:
    return explanation.to_dict() if isinstance(explanation, Explanation) else explanation


def _overview(overview: Overview | Data) -> Data:
    return overview.to_dict() if isinstance(overview, Overview) else overview


def _body(template: str, **content: Any) -> str:
    return str(templates().get_template(template).render(**{"today": _today(), **content}))


def _page(template: str, **content: Any) -> str:
    """A page with its style and script inside; the browser runs this script and no other."""
    from markupsafe import Markup

    parts = {"style": style(), "script": script()}
    hashes = {f"{name}_hash": Markup(_hash(text)) for name, text in parts.items()}
    texts = {name: Markup(text) for name, text in parts.items()}
    return str(templates().get_template(template).render(today=_today(), case_link="", **hashes, **texts, **content))


def _hash(text: str) -> str:
    """By which a content security policy knows an inline text."""
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _read(name: str) -> str:
    return files("bayespatch.report").joinpath("templates", name).read_text(encoding="utf-8")


def _today() -> str:
    return datetime.date.today().isoformat()


def _write(path: Path, page: str) -> None:
    """All of a page or nothing."""
    with replacing(path) as file:
        file.write(page.encode("utf-8"))


@cache
def templates() -> Any:
    """The templates, with the words and the filters that they use."""
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
