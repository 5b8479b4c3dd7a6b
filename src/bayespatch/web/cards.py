"""CDS Hooks cards: what a record system shows about a consultation, and the feedback that it sends."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from bayespatch.casebase.consultations import Consultation
from bayespatch.explain import words
from bayespatch.types import JSONObject
from bayespatch.web.pages.worklist import CODES

LAUNCH = "/smart/launch"
CARD, SUGGESTION = 0, 1  # parts of a card that have an id
_MOST_SUMMARY = 139
_MOST_GROUPS, _MOST_NOTES = 3, 10
_VERSION, _VARIANT = 0x8 << 76, 0b10 << 62  # of ids that contain custom data (RFC 9562, version 8)


class Source(NamedTuple):
    """The server that returns cards, with its label and the common prefix of its ids."""

    address: str
    label: str
    launches: bool = False  # whether the consulting page can be opened from a record

    @property
    def reasons(self) -> str:
        """The code system of the reasons for an override."""
        return f"{self.address}/cds-services/override-reasons"

    def identifier(self, consultation: int, part: int) -> str:
        """The id of a part of the card about a consultation.

        Examples
        --------
        >>> source = Source("https://clinic.example", "Risk")
        >>> source.consultation(source.identifier(17, CARD), CARD)
        17
        """
        number = self._prefix << 80 | _VERSION | part << 64 | _VARIANT | consultation
        return str(uuid.UUID(int=number))

    def consultation(self, identifier: str, part: int) -> int | None:
        """The consultation of an id; None if it is not an id of this part."""
        try:
            number = uuid.UUID(identifier).int & ((1 << 62) - 1)
        except ValueError:
            return None
        return number if self.identifier(number, part) == identifier.lower() else None

    @property
    def _prefix(self) -> int:
        return int.from_bytes(hashlib.sha256(self.address.encode()).digest()[:6])


def card(source: Source, seen: Consultation, classes: Sequence[str], notes: Sequence[str]) -> JSONObject:
    """The card about a consultation.

    Parameters
    ----------
    source : Source
    seen : Consultation
    classes : sequence of str
        The classes of the outcome, in the order of the data dictionary.
    notes : sequence of str
        Notes about missing, outdated or contradictory values in the record.
    """
    why = seen.explanation
    adequate = why["precedent"]["adequate"]
    summary = words.answer(why) if adequate else f"{words.answer(why)} ({words.NO_PRECEDENT.lower()})"
    links = [{"label": "Open the consultation", "url": f"{source.address}/consultations/{seen.id}", "type": "absolute"}]
    if source.launches:
        links.append({"label": "Try other values", "url": f"{source.address}{LAUNCH}", "type": "smart"})
    return {
        "uuid": source.identifier(seen.id, CARD),
        "summary": summary if len(summary) <= _MOST_SUMMARY else f"{summary[: _MOST_SUMMARY - 1]}…",
        "detail": detail(why, notes),
        "indicator": "info" if adequate else "warning",
        "source": {"label": source.label, "url": source.address},
        "suggestions": [
            {
                "label": f"Agree: {words.outcome(why, seen.predicted)}",
                "uuid": source.identifier(seen.id, SUGGESTION),
            }
        ],
        "selectionBehavior": "at-most-one",
        "overrideReasons": override_reasons(source, why, seen.predicted, classes),
        "links": links,
    }


def detail(why: JSONObject, notes: Sequence[str]) -> str:
    """The probability with its interval, the groups in one sentence, and the reliability, as Markdown."""
    parts = [f"{words.headline(why)}.", groups(why), words.precedent(why), *words.warnings(why)]
    text = "\n\n".join(plain(part) for part in parts if part)
    if notes:
        text += "\n\nNot used from the record:\n" + "".join(f"\n- {plain(note)}" for note in notes[:_MOST_NOTES])
        if len(notes) > _MOST_NOTES:
            text += f"\n- and {len(notes) - _MOST_NOTES} more"
    return f"{text}\n\n{words.DISCLAIMER}."


def groups(why: JSONObject) -> str:
    """The groups of similar patients in one sentence; empty without groups."""
    parts = [words.group(why, part) for part in why["groups"][:_MOST_GROUPS]]
    if not parts:
        return ""
    return f"Similar past patients: {words.listed(f'{members} ({had})' for members, had in parts)}."


def override_reasons(source: Source, why: JSONObject, predicted: str, classes: Sequence[str]) -> list[dict[str, str]]:
    """The reasons for an override; with more than two classes, for each of the other classes."""
    others = [(j, name) for j, name in enumerate(classes) if name != predicted]
    return [
        {
            "code": f"{j}-{key}",
            "system": source.reasons,
            "display": words.sentence(text if len(others) == 1 else f"{words.outcome(why, name)}: {text}"),
        }
        for j, name in others
        for key, text in CODES.items()
        if key
    ]


def plain(text: str) -> str:
    r"""Escape all Markdown in a text, addresses that would become links included, and put it on one line.

    Examples
    --------
    >>> plain("[x](y) <b>"), plain("see www.x.example\n# x")
    ('\\[x\\](y) \\<b\\>', 'see www\\.x.example \\# x')
    """
    return re.sub(r"([\\`*_\[\]<>|~#@]|:(?=//)|(?<=www)\.)", r"\\\1", " ".join(text.split()), flags=re.IGNORECASE)
