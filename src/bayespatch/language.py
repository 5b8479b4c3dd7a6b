"""The language of a page: text from gettext catalogs, and numbers and dates in the conventions of the locale.

English is the default and needs no catalog or other packages. `using` chooses another language for a block of code;
`gettext` and related functions then translate. `stored_text` translates text that is stored in English, such as the
warnings of an explanation, when it is displayed.
"""

from __future__ import annotations

import gettext as catalogs
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cache, cached_property
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable

ENGLISH = "en"
DOMAIN = "bayespatch"
VALUE, MESSAGE = "value", "message"  # contexts of text that is data: values of a case, and messages
_CONTEXT_END = "\x04"  # separates context and text in a catalog, as in GNU gettext
_NUMBER = re.compile(r"(?<![\w.,])(-?\d+)\.(\d+)(?![\w,]|\.\d)")
_RANGE = re.compile(r"(?<=\d) to (?=-?\d)")
_LONGEST = 2000  # characters of a message that is compared with patterns


@dataclass(frozen=True)
class Language:
    """A language with its catalog and its symbols.

    Attributes
    ----------
    code : str
        Language code, as in ``<html lang>``.
    name : str
        Name of the language, in the language itself.
    decimal, group : str
        Symbols in a number.
    percent : str
        Symbol after a percentage.
    texts : gettext translations
    """

    code: str
    name: str = "English"
    decimal: str = "."
    group: str = ","
    percent: str = "%"
    texts: catalogs.NullTranslations = field(default_factory=catalogs.NullTranslations)

    @cached_property
    def messages(self) -> list[tuple[re.Pattern[str], str]]:
        """Patterns of the messages with placeholders, and their translations."""
        return self._patterns(MESSAGE, ".+?")

    @cached_property
    def values(self) -> list[tuple[re.Pattern[str], str]]:
        """The same for values of a case; their placeholders are numbers."""
        return self._patterns(VALUE, r"-?\d[\d.]*(?:e[+-]?\d+)?")

    def _patterns(self, context: str, part: str) -> list[tuple[re.Pattern[str], str]]:
        """Patterns of the messages in a context, the most specific ones first."""
        beginning = f"{context}{_CONTEXT_END}"
        patterns = [
            (text.removeprefix(beginning), translation)
            for text, translation in getattr(self.texts, "_catalog", {}).items()
            if isinstance(text, str) and text.startswith(beginning) and "{" in text
        ]
        patterns.sort(key=lambda pair: -len(re.sub(r"{\w+}", "", pair[0])))
        return [(_pattern(text, part), translation) for text, translation in patterns]


def _pattern(text: str, part: str = ".+?") -> re.Pattern[str]:
    """A pattern that matches a text whose placeholders have been filled in.

    Each placeholder ends at the first place where the text continues. Atomic groups keep the time linear: values are
    chosen by users, and backtracking over several placeholders would take hours for a text made for it.

    >>> _pattern("case {0} has {1} values").fullmatch("Case 7 has 3 values.").groups()
    ('7', '3')
    """
    pieces = re.split(r"{(\w+)}", text.rstrip("."))
    first = pieces[0][:1]
    start = f"[{first.lower()}{first.upper()}]" if first.isalpha() else re.escape(first)
    named = [f"(?P<p{name}>{part}){re.escape(rest)}" for name, rest in zip(pieces[1::2], pieces[2::2], strict=True)]
    *before, last = named or [""]
    atomic = "".join(f"(?>{one})" for one in before)
    return re.compile(f"{start}{re.escape(pieces[0][1:])}{atomic}{last}\\.?", re.DOTALL)


def _translated(text: str, patterns: list[tuple[re.Pattern[str], str]]) -> str | None:
    """The translation of the first pattern that matches a text; None if none does or the text is too long."""
    if len(text) > _LONGEST:
        return None
    for pattern, translation in patterns:
        match = pattern.fullmatch(text)
        if match:
            values = {f"{{{name[1:]}}}": _stored_part(part) for name, part in match.groupdict().items()}
            return "".join(values.get(part, part) for part in re.split(r"({\w+})", translation))
    return None


_english = Language(ENGLISH)
_current: ContextVar[Language] = ContextVar("language", default=_english)


@cache
def languages() -> dict[str, Language]:
    """All languages by code: English, and every language with a compiled catalog.

    Examples
    --------
    >>> list(languages())[0], languages()["de"].name
    ('en', 'Deutsch')
    """
    folder = files("bayespatch").joinpath("locale")
    codes = sorted(path.name for path in folder.iterdir() if _catalog_of(path.name).is_file())
    return {ENGLISH: _english, **{code: _loaded(code) for code in codes}}


def _catalog_of(code: str) -> Traversable:
    return files("bayespatch").joinpath("locale", code, "LC_MESSAGES", f"{DOMAIN}.mo")


def _loaded(code: str) -> Language:
    from babel import Locale
    from babel.numbers import format_percent, get_decimal_symbol, get_group_symbol

    with as_file(_catalog_of(code)) as path, open(path, "rb") as file:
        texts = catalogs.GNUTranslations(file)
    name = Locale.parse(code).get_language_name(code) or code
    symbols = get_decimal_symbol(code), get_group_symbol(code), format_percent(0, locale=code).removeprefix("0")
    return Language(code, name, *symbols, texts)


def current() -> Language:
    """The language into which text is translated."""
    return _current.get()


@contextmanager
def using(code: str) -> Iterator[None]:
    r"""Translate into a language while a block of code runs.

    Examples
    --------
    >>> with using("de"):
    ...     percent("46"), decimal("1,234.5")
    ('46\xa0%', '1.234,5')
    """
    before = _current.set(languages()[code])
    try:
        yield
    finally:
        _current.reset(before)


def preferred(header: str) -> str:
    """The language among `languages` that an Accept-Language header prefers; English if it names none of them.

    Examples
    --------
    >>> preferred("de-AT,de;q=0.9,en;q=0.8"), preferred("fr, en;q=0.7, de;q=0.3"), preferred("fr"), preferred("de;q=x")
    ('de', 'en', 'en', 'en')
    """
    choices: list[tuple[float, int, str]] = []
    for place, part in enumerate(header[:1000].split(",")):
        name, _, weight = part.partition(";")
        code = name.strip().partition("-")[0].lower()
        match = re.fullmatch(r"\s*q\s*=\s*(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\s*", weight) if weight else None
        quality = float(match[1]) if match else 0.0 if weight else 1.0
        if code in languages() and quality > 0.0:
            choices.append((-quality, place, code))
    return min(choices)[2] if choices else ENGLISH


# Texts


def to_translate(text: str) -> str:
    """Mark a text for the catalogs and return it unchanged; it is translated when it is displayed."""
    return text


def gettext(text: str, /, **values: object) -> str:
    """A text in the current language, with its placeholders filled in."""
    return _filled(current().texts.gettext(text), values)


def pgettext(context: str, text: str, /, **values: object) -> str:
    """A text whose translation depends on `context`."""
    return _filled(current().texts.pgettext(context, text), values)


def ngettext(one: str, many: str, n: int, /, **values: object) -> str:
    """The singular or plural text for a number, which fills the placeholder ``n``.

    Examples
    --------
    >>> ngettext("{n} case", "{n} cases", 1), ngettext("{n} case", "{n} cases", 1234)
    ('1 case', '1,234 cases')
    """
    return _filled(current().texts.ngettext(one, many, n), {"n": count(n), **values})


def _filled(text: str, values: dict[str, object]) -> str:
    return text.format(**values) if values else text


def stored_text(text: str) -> str:
    """Translate a message stored in English into the current language; unchanged if there is no translation."""
    language = current()
    if language.code == ENGLISH:
        return text
    bare = text.rstrip(".")
    lower = bare[:1].lower() + bare[1:]
    for plain in (text, bare, f"{bare}.", lower, f"{lower}."):
        translated = language.texts.pgettext(MESSAGE, plain)
        translated = language.texts.gettext(plain) if translated == plain and plain else translated
        if translated != plain:
            return _ended(translated, text)
    translation = _translated(text, language.messages)
    return text if translation is None else _ended(translation, text)


def _stored_part(text: str) -> str:
    """Translate a text that fills a placeholder of a message: another message, a date, or a value."""
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        with suppress(ValueError):
            return day(date.fromisoformat(text))
    translation = stored_text(text) if len(text.split()) > 2 else text
    return stored_value(text) if translation == text else translation


def _ended(translation: str, text: str) -> str:
    """A translation with the capital letter and the final period of the text."""
    first = translation[:1].upper() if text[:1].isupper() else translation[:1]
    return f"{first}{translation[1:].rstrip('.')}{'.' * text.endswith('.')}"


def stored_value(text: str) -> str:
    """Translate a value of a case stored in English, such as "yes", "not known" or a number."""
    language = current()
    if language.code == ENGLISH:
        return text
    translated = language.texts.pgettext(VALUE, text)
    if translated != text:
        return translated
    translation = _translated(text, language.values)
    if translation is not None:
        return translation
    text = re.sub(r"(?<=\d)%", language.percent, text)
    text = _RANGE.sub(pgettext(VALUE, " to "), text)
    return _NUMBER.sub(rf"\1{language.decimal}\2", text)


# Numbers and dates


def decimal(text: str) -> str:
    """Convert a number in English notation to the symbols of the current language."""
    language = current()
    return text.translate(str.maketrans(".,", f"{language.decimal}{language.group}"))


def count(n: int) -> str:
    """A count, with the group separators of the current language."""
    return decimal(f"{n:,}")


def percent(digits: str) -> str:
    """A percentage in the current language."""
    return f"{decimal(digits)}{current().percent}"


def day(at: date) -> str:
    """A date; see `moment`."""
    code = current().code
    if code == ENGLISH:
        return at.isoformat()
    from babel.dates import format_date

    return format_date(at, "medium", locale=code)


def moment(at: datetime) -> str:
    """Date and time. English pages use ISO 8601, which is unambiguous in the US and the UK."""
    code = current().code
    if code == ENGLISH:
        return at.strftime("%Y-%m-%d %H:%M")
    from babel.dates import format_time

    return f"{day(at.date())}, {format_time(at, 'short', locale=code)}"
