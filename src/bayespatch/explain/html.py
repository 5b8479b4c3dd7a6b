"""An explanation as HTML: one template for notebooks, the page about a case, and the consulting page.

The template engine escapes all text. The HTML has no style attributes and no scripts, so it works under a strict
content security policy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from bayespatch import language
from bayespatch.explain import follow_up, words
from bayespatch.types import JSONMapping

if TYPE_CHECKING:
    from jinja2 import Environment


# Theme attributes of JupyterLab, VS Code and the documentation.
_LIGHT = ('[data-jp-theme-light="true"]', ".vscode-light", '[data-md-color-scheme="default"]')
_DARK = ('[data-jp-theme-light="false"]', ".vscode-dark", '[data-md-color-scheme="slate"]')


def answer(why: JSONMapping, *, case_link: str = "", date: str = "") -> str:
    """The answer: how likely the outcome is, why, and how far to trust the prediction.

    Parameters
    ----------
    why : dict
        From `Explanation.to_dict`.
    case_link : str
        Prefix of a URL to which the number of a past case is appended; if given, past cases are links.
    date : str
        Date of the answer.
    """
    template = environment().get_template("explanation.html")
    return str(template.render(why=why, case_link=case_link, date=date))


def survival_answer(
    why: JSONMapping, *, heading: str, first_row: str, reason: str, groups: Sequence[tuple[str, str]], date: str = ""
) -> str:
    """The answer of a survival model.

    Parameters
    ----------
    why : dict
        From `SurvivalExplanation.to_dict`.
    heading, first_row : str
        Heading of the points of the findings, and the name of their first row.
    reason : str
        What the curve is based on.
    groups : sequence of pairs of str
        The members and the outcome of each group, in words.
    date : str
        Date of the answer.
    """
    template = environment().get_template("survival.html")
    texts = {"heading": heading, "first_row": first_row, "reason": reason, "groups": groups, "date": date}
    return str(template.render(why=why, case_link="", **texts))


def for_notebook(why: JSONMapping) -> str | None:
    """The answer with its style sheet; None without jinja2, so that a notebook shows plain text."""
    try:
        return with_style(answer(why))
    except ImportError:
        return None


def with_style(body: str) -> str:
    """HTML of class ``bp`` with styles for a notebook, whose theme can differ from that of the operating system."""
    light, dark = re.findall(r"{ (color-scheme: [^}]*)}|^  :root { ([^}]*)}", _read("colors.css"), re.MULTILINE)[:2]
    themes = (
        f"{', '.join(f'{theme} .bp' for theme in _LIGHT)} {{ {light[0]} color-scheme: light; }}\n"
        f"{', '.join(f'{theme} .bp' for theme in _DARK)} {{ {dark[1]} color-scheme: dark; }}\n"
    )
    return f"<style>{style('.bp')}@media screen {{\n{themes}}}\n</style>{body}"


def style(selector: str = ":root") -> str:
    """The style sheet of the answer, with the colors defined on the elements that `selector` matches."""
    return _read("colors.css").replace(":root", selector) + _read("explanation.css")


def _read(name: str) -> str:
    return files("bayespatch.explain").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """The template engine with the functions and filters used in templates."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError('pages need jinja2: pip install "bayespatch[report]"') from error
    engine = Environment(
        loader=PackageLoader("bayespatch.explain"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    engine.globals.update(words=words, follow=follow_up, _=_gettext, ngettext=_ngettext, language=language)
    engine.filters.update(
        percent=words.percent,
        points=words.points,
        interval=words.interval,
        number=_number,
        count=language.count,
        decimal=language.decimal,
        value=language.stored_value,
        stored=language.stored_text,
    )
    return engine


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else language.decimal(f"{value:.{digits}f}")


def _gettext(text: str, /, **values: object) -> str:
    """`gettext` for templates: the text may contain HTML, and values are escaped."""
    return _markup(language.gettext(text), values)


def _ngettext(one: str, many: str, n: int, /, **values: object) -> str:
    """`ngettext` for templates; see `_gettext`."""
    text = language.ngettext(one, many, n, **{name: f"{{{name}}}" for name in ("n", *values)})
    return _markup(text, {"n": language.count(n), **values})


def _markup(text: str, values: Mapping[str, object]) -> str:
    from markupsafe import Markup

    return Markup(text).format(**values) if values else Markup(text)
