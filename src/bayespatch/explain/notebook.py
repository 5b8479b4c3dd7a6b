"""An explanation as a small piece of HTML for a notebook; the page for print is in `bayespatch.report`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from bayespatch.explain import words

_STYLE = {
    "marked": "font-weight:bold;background:#cfe4f5;color:#000",
    "same": "",
    "close": "",
    "different": "opacity:.7",
    "missing": "opacity:.7",
}

Data = Mapping[str, Any]


def as_html(why: Data) -> str:
    """Prediction, warnings, both opinions, and the table of exemplars and features."""
    parts = [f"<p><strong>{escape(words.title(why))}. {escape(words.headline(why))}</strong></p>"]
    if not why["precedent"]["adequate"]:
        warning = escape(words.precedent(why))
        parts.append(f'<p role="alert" style="border:2px solid #b00;padding:.4em"><strong>{warning}</strong></p>')
    if why["case"]["warnings"]:
        parts.append("<ul>" + "".join(f"<li>{escape(text)}</li>" for text in why["case"]["warnings"]) + "</ul>")
    said = [words.prediction(why), words.opinions(why), words.strongest_points(why), words.votes(why)]
    parts += [f"<p>{escape(text)}</p>" for text in said if text]
    parts.append(_table(why))
    legend = "; ".join(f"{mark} {meaning}" for mark, meaning in words.legend().items())
    notes = [words.vote_shares(why), words.what_counts(why), *words.caveats(why)]
    return "".join([*parts, f"<p><small>{escape(legend)}</small></p>", *(f"<p>{escape(note)}</p>" for note in notes)])


def _table(why: Data) -> str:
    shown = why["exemplars"]
    head = "".join(f'<th scope="col">#{escape(part["id"])}</th>' for part in shown)
    about: dict[str, Callable[[Data], str]] = {
        "outcome": lambda part: part["outcome"],
        "the prediction": lambda part: words.stance(part),
        "stands for": lambda part: words.past_cases(part["stands_for"]),
        "share of votes": lambda part: words.percent(part["vote_share"]),
        f"reliance, points of {why['reliance_class']}": lambda part: words.points(part["reliance"]),
    }
    rows = [
        f'<tr><th scope="row">{escape(name)}</th><td></td>'
        + "".join(f"<td>{escape(text(part))}</td>" for part in shown)
        + "<td></td><td></td></tr>"
        for name, text in about.items()
    ]
    for feature in why["features"]:
        cells = []
        for part in shown:
            patch = part["features"][feature["name"]]
            style = _STYLE["marked" if patch["marked"] else patch["comparison"]]
            cells.append(f'<td style="{style}">{words.marks(patch)} {escape(patch["value"])}</td>')
        low, high = feature["importance_interval"]
        rows.append(
            f'<tr><th scope="row">{escape(words.called(feature))}</th><td>{escape(feature["value"])}</td>'
            f"{''.join(cells)}"
            f"<td>{feature['importance']:.2f} ({low:.2f} to {high:.2f})</td>"
            f"<td>{words.percent(feature['explained'])}</td></tr>"
        )
    return (
        f'<table><thead><tr><th scope="col">feature</th><th scope="col">case</th>{head}'
        f'<th scope="col">importance (90% interval)</th><th scope="col">explained</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
