"""The catalogs are complete, compiled and packaged; texts, numbers and dates follow the language."""

from __future__ import annotations

import ast
import io
import re
import time
from datetime import date, datetime
from html import unescape
from pathlib import Path

import pytest

babel = pytest.importorskip("babel")

from babel.messages.mofile import write_mo  # noqa: E402
from babel.messages.pofile import read_po  # noqa: E402

from bayespatch import language  # noqa: E402
from bayespatch.encode.column import bin_text  # noqa: E402
from bayespatch.explain import follow_up, guards, words  # noqa: E402
from bayespatch.language import gettext, languages, ngettext, stored_text, stored_value, using  # noqa: E402
from bayespatch.subgroups import Subgroup  # noqa: E402
from generators import catalogs  # noqa: E402
from tests.explain.answers import answer  # noqa: E402

CODES = [code for code in languages() if code != language.ENGLISH]
PLACES, TAGS = re.compile(r"{\w+}"), re.compile(r"</?\w+[^>]*>")
REMEDY = "run make catalogs, and translate the new texts in src/bayespatch/locale"


def texts_of(message):
    return message.id if isinstance(message.id, tuple) else (message.id,)


def translations_of(message):
    return message.string if isinstance(message.string, tuple) else (message.string,)


def entries(catalog):
    return {(message.context, message.id): message for message in catalog if message.id}


def test_there_is_german():
    assert CODES == ["de"]
    assert [one.name for one in languages().values()] == ["English", "Deutsch"]


@pytest.mark.parametrize("code", CODES)
def test_every_text_has_a_translation(code):
    """Errors of the case base may lag behind: a page shows them in English until they are translated."""
    found = entries(catalogs.catalog(code))
    wanted = {key for key, message in entries(catalogs.template()).items() if not is_of_case_base(message)}
    assert len(wanted) > 700
    assert wanted <= set(found), REMEDY
    missing = [key for key in wanted if found[key].fuzzy or not all(translations_of(found[key]))]
    assert missing == [], REMEDY


def is_of_case_base(message):
    places = {place for place, _ in message.locations}
    return bool(places) and all(place.startswith(("casebase/", "dictionary.py", "fhir/")) for place in places)


@pytest.mark.parametrize("code", CODES)
def test_translations_keep_placeholders_and_tags(code):
    for message in catalogs.catalog(code):
        if not message.id:
            continue
        wanted = {kind: set().union(*(kind.findall(text) for text in texts_of(message))) for kind in (PLACES, TAGS)}
        for text in filter(None, translations_of(message)):
            for kind, parts in wanted.items():
                assert set(kind.findall(text)) == parts, (message.id, text)


@pytest.mark.parametrize("code", CODES)
def test_the_compiled_catalog_is_that_of_the_texts(code):
    path = catalogs._path(code)
    compiled = io.BytesIO()
    write_mo(compiled, read_po(io.BytesIO(path.read_bytes()), locale=code))
    assert path.with_suffix(".mo").read_bytes() == compiled.getvalue(), REMEDY


def test_the_wheel_has_the_catalogs():
    from hatchling.builders.wheel import WheelBuilder

    root = Path(__file__).parents[1]
    packed = {Path(one.distribution_path).as_posix() for one in WheelBuilder(str(root)).recurse_included_files()}
    for code in CODES:
        assert f"bayespatch/locale/{code}/LC_MESSAGES/bayespatch.mo" in packed


def test_no_call_hides_its_text_from_the_catalogs():
    """Babel sees literal texts outside of f-strings only."""
    known = {text for _, ids in entries(catalogs.template()) for text in (ids if isinstance(ids, tuple) else (ids,))}
    for path in catalogs._files(catalogs.PYTHON):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(getattr(node, "func", None), "id", "")
            if name in catalogs.KEYWORDS:
                place = 1 if name == "pgettext" else 0
                parts = [part for part in node.args[place : place + 2] if isinstance(part, ast.Constant)]
                texts = {part.value for part in parts if isinstance(part.value, str)}
                assert texts <= known, (path.name, node.lineno)


def test_templates_have_no_text_beside_the_catalogs():
    for path in catalogs._files(catalogs.TEMPLATES):
        source = path.read_text(encoding="utf-8")
        source = re.sub(r"{#.*?#}|{%.*?%}|{{.*?}}", "", source, flags=re.DOTALL)
        attributes = re.findall(r'(?:aria-label|title|placeholder|alt)="([^"]*[^\W\d_][^"]*)"', source)
        text = re.sub(r"<[^>]*>", " ", source)
        left = set(re.findall(r"[^\W\d_]{2,}", re.sub(r"&\w+;", "", text))) - {"bayespatch", "DOCTYPE", "html"}
        assert (attributes, left) == ([], set()), path.name


def test_numbers_and_dates():
    at = datetime(2026, 11, 5, 9, 7)
    assert (language.moment(at), language.day(date(2026, 11, 5))) == ("2026-11-05 09:07", "2026-11-05")
    assert ngettext("{n} case", "{n} cases", 12345) == "12,345 cases"
    with using("de"):
        assert language.moment(at) == "05.11.2026, 09:07"
        assert ngettext("{n} case", "{n} cases", 12345) == "12.345 Fälle"
        assert ngettext("{n} case", "{n} cases", 1) == "1 Fall"
        assert words.percent(0.004) == "<1\xa0%"
        assert words.interval((0.12, 0.4)) == "12–40\xa0%"
        assert words.interval((0.001, 0.4)) == "<1\xa0% bis 40\xa0%"
        assert words.points(-0.2345) == "−23,4"
        assert follow_up.number(4.256) == "4,26"
    assert gettext("Save") == "Save"


@pytest.mark.parametrize(
    ("text", "german"),
    [
        ("yes", "ja"),
        ("not known", "unbekannt"),
        ("True", "ja"),
        ("61.5 years", "61,5 years"),
        ("45 to 55.5", "45 bis 55,5"),
        ("version 1.2.3", "version 1.2.3"),
        ("asymptomatic", "asymptomatic"),
        (bin_text((0.5, 1.5), 0), "unter 0,5"),
        (bin_text((0.5, 1.5), 2), "1,5 oder mehr"),
        ("two or more", "two or more"),
    ],
)
def test_stored_values(text, german):
    assert stored_value(text) == text
    with using("de"):
        assert stored_value(text) == german


@pytest.mark.parametrize(
    ("text", "german"),
    [
        ("There is no case 7; search for it.", "Es gibt keinen Fall 7; suchen Sie danach."),
        ("case 7 was forgotten; only its number remains", "Fall 7 wurde gelöscht; nur seine Nummer ist noch vorhanden"),
        (
            "This requires the role steward; you are a viewer.",
            "Dafür ist die Rolle „Verwaltung“ nötig; Sie haben die Rolle „Lesezugriff“.",
        ),
        ("610 is outside the possible range, 0 to 120.5; correct it", None),
        (
            "column 'age': the Patient has no birthDate; enter it by hand",
            "Spalte 'age': In den Stammdaten des Patienten fehlt birthDate; tragen Sie den Wert von Hand ein",
        ),
        (
            "The last refit failed: another refit is running; wait for it, or cancel it",
            "Die letzte Neuanpassung ist fehlgeschlagen: eine andere Neuanpassung läuft; warten Sie auf sie oder "
            "brechen Sie sie ab",
        ),
        (
            "This launch has expired or was used before. Open the page from the patient's record again.",
            "Dieser Aufruf ist abgelaufen oder wurde schon verwendet. Öffnen Sie die Seite erneut aus der "
            "Patientenakte.",
        ),
        ("Nothing like this was ever said.", "Nothing like this was ever said."),
    ],
)
def test_stored_messages(text, german):
    assert stored_text(text) == text
    with using("de"):
        expected = german or "610 ist nicht möglich (erlaubt: 0 bis 120,5); korrigieren Sie den Wert"
        assert stored_text(text) == expected


def repeated(n, *pieces):
    """A text of n characters in which every piece occurs many times."""
    return "".join((piece * n)[: n // len(pieces)] for piece in pieces)


RANGE = "a value of 7 is outside the possible range, 0 to "


@pytest.mark.parametrize(
    "text",
    [
        repeated(1900, " is ", ", outside the range of the past cases, ", " to ", ", by "),
        repeated(30_000, " is ", ", outside the range of the past cases, ", " to ", ", by "),
        "column 'a'" + repeated(1900, ": x has y (z) and x has y (z) "),
        repeated(1900, RANGE) + repeated(100, "; correct it"),
        repeated(30_000, RANGE) + repeated(9000, "; correct it"),
    ],
    ids=["range", "long range", "column", "nested", "long nested"],
)
def test_no_message_takes_long_to_translate(text):
    """Messages repeat what users wrote, and matching holds up every other request."""
    with using("de"):
        stored_text("x")  # compiles the patterns
        began = time.perf_counter()
        stored_text(text)
        assert time.perf_counter() - began < 1.0


def test_every_warning_of_an_explanation_is_translated():
    group = {"feature": "sex", "label": "sex", "value": "male", "n": 120, "flagged": 0.1, "auc": 0.7}
    group |= {"accuracy": 0.6, "accuracy_interval": (0.5, 0.7), "stated": {"sick": 0.2}, "actual": {"sick": 0.4}}
    fields = {name: group.get(name) for name in Subgroup.__dataclass_fields__}
    groups = [Subgroup(**{**fields, "worse": worse}) for worse in ("accuracy", "calibration")]
    found = [
        *guards.guard_subgroups(groups, 0.8),
        *guards.guard_rare({"sick": 3}, ("dead",)),
        guards.guard_itself("7", "H-7"),
        guards.guard_itself("7", None),
    ]
    assert len(found) == 6
    assert "sex: male, 60% were predicted correctly, compared with 80% of all" in found[0].text
    with using("de"):
        for guard in found:
            assert stored_text(guard.text) != guard.text
        assert stored_text(found[0].text) == (
            "Von 120 früheren Fällen mit sex: male wurden 60\xa0% richtig vorhergesagt, von allen dagegen 80\xa0%."
        )


def test_phrases_are_used_in_their_own_language():
    why = {"features": [feature("sex", "männlich", {"männlich": "Männer"}), feature("scan", "normal", {})]}
    part = {"size": 1234, "shared": [{"feature": "sex", "value": "männlich", "all": True}], "differs": []}
    with using("de"):
        why["features"][1]["phrases"] = {"normal": "with a normal scan"}
        assert words.group_members(why, part) == "1.234 Patienten (sex: männlich)"
        why["features"][1]["phrases"] = {"normal": "mit normalem Szintigramm"}
        assert words.group_members(why, part) == "1.234 Männer"
        part["shared"].append({"feature": "scan", "value": "normal", "all": False})
        assert words.group_members(why, part) == "1.234 Männer, meist mit normalem Szintigramm"


def feature(name, value, phrases):
    return {"name": name, "description": "", "value": value, "close": None, "phrases": phrases}


ENGLISH_WORDS = {"the", "of", "and", "with", "this", "are", "is", "not", "than", "by", "from", "to", "no", "all", "yes"}


def data_in(part):
    """All texts of an explanation that come from the table, not from the program."""
    if isinstance(part, dict):
        kept = [value for key, value in part.items() if key not in ("warnings", "suppressed", "note")]
        return {*map(str, part), *(text for value in kept for text in data_in(value))}
    if isinstance(part, list | tuple):
        return {text for value in part for text in data_in(value)}
    return {part} if isinstance(part, str) else set()


@pytest.mark.parametrize("kind", ["odd", "number", "followed"])
def test_an_answer_in_german_has_no_english_sentence(kind):
    pytest.importorskip("jinja2")
    from bayespatch.explain import html

    why = answer(kind)
    texts = {text for text in data_in(why) if len(text) > 3}
    data = sorted({*texts, *map(words.sentence, texts)}, key=len, reverse=True)
    with using("de"):
        german = unescape(re.sub(r"<[^>]*>", "\n", html.answer(why, date=language.day(date(2026, 11, 5)))))
    for text in data:
        german = german.replace(text, "")
    assert "Wie weit kann ich der Antwort vertrauen?" in german
    left = [line for line in german.splitlines() if ENGLISH_WORDS & set(re.findall(r"[a-z]+", line.lower()))]
    assert left == []
