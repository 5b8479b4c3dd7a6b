"""An explanation as a small piece of HTML for a notebook; the page for print is the room `report`."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from bayespatch.explain import words
from bayespatch.explain.parts import Findings, Neighbor

_STYLE = {
    "marked": "font-weight:bold;background:#cfe4f5;color:#000",
    "agrees": "",
    "differs": "color:#666",
}


def as_html(why: Findings) -> str:
    """Prediction, the warning where there is no precedent, and the table of neighbors and features."""
    parts = [f"<p><strong>{escape(words.title(why))}.</strong> {escape(words.prediction(why))}</p>"]
    if not why.precedent.adequate:
        warning = escape(words.precedent(why))
        parts.append(f'<p role="alert" style="border:2px solid #b00;padding:.4em"><strong>{warning}</strong></p>')
    parts.append(_table(why))
    notes = [words.precedent(why)] if why.precedent.adequate else []
    notes += [words.vote_shares(why), words.reliance(why), words.stability(why)]
    notes += [note] if (note := words.unseen(why)) else []
    legend = "; ".join(f"{words.MARKS[state]} {meaning}" for state, meaning in words.LEGEND.items())
    return "".join([*parts, f"<p><small>{escape(legend)}</small></p>", *(f"<p>{escape(note)}</p>" for note in notes)])


def _table(why: Findings) -> str:
    shown = why.shown
    head = "".join(f'<th scope="col">{escape(neighbor.id)}</th>' for neighbor in shown)
    about: dict[str, Callable[[Neighbor], str]] = {
        "outcome": lambda n: n.outcome,
        "speaks": lambda n: words.stance(n),
        "neighbor": lambda n: words.percent(n.probability),
        "influence": lambda n: f"{n.influence:.2f}",
        "share of votes": lambda n: words.percent(n.vote_share),
        "reliance, points": lambda n: words.points(n.reliance),
    }
    rows = [
        f'<tr><th scope="row">{name}</th><td></td>'
        + "".join(f"<td>{escape(text(neighbor))}</td>" for neighbor in shown)
        + "<td></td><td></td></tr>"
        for name, text in about.items()
    ]
    for feature in why.features:
        cells = []
        for neighbor in shown:
            patch = neighbor.features[feature.name]
            state = words.state(patch)
            cells.append(f'<td style="{_STYLE[state]}">{words.MARKS[state]} {escape(patch.value)}</td>')
        rows.append(
            f'<tr><th scope="row">{escape(feature.name)}</th><td>{escape(feature.value)}</td>{"".join(cells)}'
            f"<td>{feature.importance:.2f}</td><td>{words.percent(feature.explained)}</td></tr>"
        )
    return (
        f'<table><thead><tr><th scope="col">feature</th><th scope="col">case</th>{head}'
        f'<th scope="col">importance</th><th scope="col">explained</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
