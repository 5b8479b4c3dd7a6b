"""Collect the text of the pages into the translation catalogs and compile them.

``make catalogs``. New text has no translation yet; a test fails until it has one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from babel.messages import Catalog
from babel.messages.extract import extract_from_file
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

HOME = Path(__file__).parents[1]
SOURCE = HOME / "src" / "bayespatch"
LOCALE = SOURCE / "locale"
KEYWORDS = {"_": None, "gettext": None, "to_translate": None, "ngettext": (1, 2), "pgettext": ((1, "c"), 2)}

# Text on pages: templates, Python code that passes text to them, and messages written in English elsewhere.
TEMPLATES = (
    "web/templates/*.html",
    *(
        f"explain/templates/{name}.html"
        for name in ("explanation", "trust", "alerts", "points", "closest", "details", "follow_up", "graphics")
    ),
    *(f"report/templates/{name}.html" for name in ("model_body", "charts")),
)
PYTHON = ("web/*.py", "web/pages/*.py", "explain/words.py", "explain/follow_up.py")
CASE_BASE = (
    *("cases", "consultations", "follow_up", "forget", "identities", "models", "people", "refit", "reuse", "revise"),
    *("visits", "base", "promotion", "monitoring"),
)
ERRORS = ("CaseBaseError", "ConflictError", "NotFoundError", "UnavailableError")
MESSAGES = {  # files -> calls, functions and variables that text is passed to, returned by or assigned to
    "web/*.py": ("Refusal", "SignInError", "ConflictError", "NotFoundError", "refit_result", "public"),
    "web/pages/*.py": ("Refusal", "SignInError"),
    "explain/guards.py": ("Guard", "text"),
    "explain/summarize.py": ("_how_found",),
    "follow_up.py": ("suppressed", "NOT_RANDOM"),
    "dictionary.py": ("_refuse",),
    "fhir/choose.py": ("text", "_missing", "_outdated", "_undated"),
    "fhir/extract.py": ("Unusable", "wrong"),
    "fhir/units.py": ("UnitError",),
    **{f"casebase/{name}.py": ERRORS for name in CASE_BASE},
    "casebase/monitoring.py": (*ERRORS, "alarms"),
}
FOR_PROGRAMS = ("cards", "cds_hooks", "client_tokens", "fetching", "record_systems", "settings")  # modules of web
UNITS = ("second", "minute", "hour", "day", "month", "year")
WARNINGS = (  # zxcvbn's, and the names of quantities that a table of diagnostics lists
    "Straight rows of keys are easy to guess.",
    "Short keyboard patterns are easy to guess.",
    'Repeats like "aaa" are easy to guess.',
    'Repeats like "abcabcabc" are only slightly harder to guess than "abc".',
    'Sequences like "abc" or "6543" are easy to guess.',
    "Recent years are easy to guess.",
    "Dates are often easy to guess.",
    "This is a top-10 common password.",
    "This is a top-100 common password.",
    "This is a very common password.",
    "This is similar to a commonly used password.",
    "A word by itself is easy to guess.",
    "Names and surnames by themselves are easy to guess.",
    "Common names and surnames are easy to guess.",
    *("less than a second", *(f"{{0}} {unit}{s}" for unit in UNITS for s in ("", "s")), "centuries"),
    "importance of {0}",
    "the server's working folder is not private; contact its operator",
    "the server cannot write its temporary files; contact its operator",
    "no connection to the database; the change may or may not have been saved; check the audit log before you "
    "repeat it",
    "the database cannot be used at the moment; contact the operator of the server",
)
PLACES = {**dict.fromkeys((*ERRORS, "UnitError"), 0), "Unusable": 2}  # of the text among the arguments; others: 1
PREFIXES = {
    "dictionary.py": "{9} ",
    "fhir/choose.py": "column {9}: ",
    "fhir/extract.py": "column {9}: {8}: ",
}  # what the function puts before the text
VALUES = (
    *("yes", "no", "True", "False", "missing", "not known", "withheld", " to ", "any value"),
    *("accuracy", "log loss", "Brier score", "mutual information", "random forest", "this model"),
    *("categorical", "ordinal", "binned", "windowed", "ranked"),
    *("under {0}", "{0} or more", "{0} to {1}, close if within {2}"),
    "{0} to {1}, close if at most {2}% of the past cases lie in between",
)


def template() -> Catalog:
    """The catalog of all text, without translations."""
    found = Catalog(project="bayespatch", domain="bayespatch", charset="utf-8")
    for method, patterns in (("jinja2", TEMPLATES), ("python", PYTHON)):
        for path in _files(patterns):
            for _, text, _, context in extract_from_file(method, path, KEYWORDS, strip_comment_tags=True):
                found.add(text, locations=[(_place(path), 0)], context=context)
    for pattern, names in MESSAGES.items():
        for path in _files((pattern,)):
            for text in messages(path.read_text(encoding="utf-8"), names):
                text = PREFIXES.get(pattern, "") + text
                found.add(text, locations=[(_place(path), 0)], context="message")
    for text in WARNINGS:
        found.add(text, context="message")
    for text in _values():
        found.add(text, context="value")
    return found


def _values() -> list[str]:
    from bayespatch.casebase.audit import ACTIONS
    from bayespatch.casebase.cases import STATES
    from bayespatch.casebase.drift import PERIODS
    from bayespatch.casebase.models import ACTIVE, OFFERED, REMOVED, RETIRED
    from bayespatch.casebase.people import ROLES

    return [*VALUES, *STATES, *ROLES, OFFERED, ACTIVE, RETIRED, REMOVED, *PERIODS, *ACTIONS]


def _files(patterns: tuple[str, ...]) -> Iterator[Path]:
    for pattern in patterns:
        yield from (path for path in sorted(SOURCE.glob(pattern)) if path.stem not in FOR_PROGRAMS)


def _place(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def messages(source: str, names: tuple[str, ...]) -> list[str]:
    """Texts that belong to these names; what is filled in becomes {0}, {1} and so on.

    Examples
    --------
    >>> messages('raise Refusal(404, f"There is no case {number}.")', ("Refusal",))
    ['There is no case {0}.']
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _name(node.func) in names:
            place = PLACES.get(_name(node.func), 1)
            found += [text for part in node.args[place : place + 1] for text in _texts(part)]
        elif isinstance(node, ast.FunctionDef) and node.name in names:
            found += [text for part in ast.walk(node) for value in _given(part) for text in _texts(value)]
        elif isinstance(node, ast.Assign) and any(_name(target) in names for target in node.targets):
            found += _texts(node.value)
    return [text for text in found if re.search(r"[a-z]{3}.*[a-z]{3}", re.sub(r"{\w+}", "", text))]


def _given(node: ast.AST) -> list[ast.expr | None]:
    """Values that a function returns or collects in a list."""
    if isinstance(node, ast.Return | ast.ListComp):
        return [node.value if isinstance(node, ast.Return) else node.elt]
    return list(node.args) if isinstance(node, ast.Call) and _name(node.func) == "append" else []


def _name(node: ast.expr) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


def _texts(node: ast.expr | None) -> list[str]:
    """Possible string values of an expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return [*_texts(node.body), *_texts(node.orelse)]
    if not isinstance(node, ast.JoinedStr):
        return []
    pieces, n = [], 0
    for part in node.values:
        if isinstance(part, ast.Constant):
            pieces.append(str(part.value))
        else:
            pieces.append(f"{{{n}}}")
            n += 1
    return ["".join(pieces)]


def catalog(code: str) -> Catalog:
    """Read the catalog of a language from the repository."""
    with open(_path(code), "rb") as file:
        return read_po(file, locale=code)


def _path(code: str) -> Path:
    return LOCALE / code / "LC_MESSAGES" / "bayespatch.po"


def update(code: str) -> None:
    """Update and compile the catalog of a language."""
    path, texts = _path(code), template()
    path.parent.mkdir(parents=True, exist_ok=True)
    found = catalog(code) if path.exists() else Catalog(locale=code)
    texts.creation_date = found.creation_date
    found.update(texts, no_fuzzy_matching=True)
    found.obsolete.clear()
    found.header_comment = f"# Texts of the pages in the language {code}. See docs/languages.md."
    found.project, found.version, found.fuzzy = "bayespatch", "", False
    found.msgid_bugs_address = found.last_translator = found.language_team = ""
    found.revision_date = found.creation_date
    with open(path, "wb") as file:
        write_po(file, found, width=118, include_lineno=False, ignore_obsolete=True)
    with open(path.with_suffix(".mo"), "wb") as file:
        write_mo(file, found)
    missing = sum(not message.string or not all(message.string) for message in found if message.id)
    print(f"{code}: {len(found)} messages, {missing} without a translation")


def main() -> None:
    """Update the existing languages and those named on the command line."""
    codes = {path.name for path in LOCALE.iterdir() if path.is_dir()} | set(sys.argv[1:])
    for code in sorted(codes):
        update(code)


if __name__ == "__main__":
    main()
