"""An explanation for a terminal, fitted to its width. Long values are wrapped, never truncated."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from bayespatch.explain import follow_up, words
from bayespatch.types import JSONMapping

_NARROWEST = 60
_BAR = 10  # characters of the longest bar
GROUPS = "Similar patients in groups, with the weight of each group (more similar patients weigh more):"


def as_text(why: JSONMapping, width: int) -> str:
    """The answer: how likely the outcome is, how far to trust the prediction, and why."""
    if width < _NARROWEST:
        raise ValueError(f"width={width} is too narrow for the explanation; pass at least {_NARROWEST}")
    lines: list[str] = [_headline(why), *_known_outcome(why)]
    lines += trust(why, width)
    lines += _classes(why) if len(why["prediction"]["probabilities"]) > 2 and not words.is_number(why) else []
    if why["case"]["known"]["n"]:
        lines += ["", *_groups(why)]
        if why["attribution"] is not None:
            lines += ["", *points(why, width, f"{words.raises(why)}, from", "for all patients")]
        if why["neighbors"] and words.compared(why):
            lines += ["", *closest(why)]
    else:
        lines += ["", words.nothing_known(why)]
    if why["follow_up"]:
        lines += ["", *follow_up.as_text(why["follow_up"], words.focus(why))]
    return "\n".join(part for line in lines for part in fit_width(line, width))


def trust(why: JSONMapping, width: int) -> list[str]:
    """Warnings and checks."""
    lines = [] if why["precedent"]["adequate"] else ["", *_boxed(wrap(words.precedent(why), width - 4))]
    lines += [f"! {warning}" for warning in words.warnings(why)]
    failed = ", ".join(f"! {check.text}" for check in words.checks(why) if not check.passed)
    passed = ", ".join(check.text for check in words.checks(why) if check.passed)
    lines += [f"{words.verdict(why)}: {failed or passed}."]
    lines += [f"Passed: {passed}."] if failed and passed else []
    return lines


def _headline(why: JSONMapping) -> str:
    parts = (f"{words.title(why)}: {words.headline(why)}", words.base_rate(why))
    return "; ".join(part[:1].lower() + part[1:] if k else part for k, part in enumerate(parts) if part)


def fit_width(line: str, width: int) -> list[str]:
    """Wrap a line; continuation lines are indented to the start of its text."""
    indent = len(line) - len(line.lstrip())
    hanging = indent + (7 if indent and line.lstrip()[:1] in "0123456789<#" else 2)
    return wrap(line, width, subsequent_indent=" " * hanging, drop_whitespace=True) or [""]


def _known_outcome(why: JSONMapping) -> Iterator[str]:
    if why["case"]["outcome"] is not None:
        yield (
            f"Known outcome: {why['case']['outcome']}. It affects the choice of the closest patients, but not "
            "the prediction."
        )


def _classes(why: JSONMapping) -> Iterator[str]:
    """The most probable classes, one per line."""
    prediction = why["prediction"]
    ranked = sorted(prediction["probabilities"].items(), key=lambda pair: -pair[1])
    for name, p in ranked[:6]:
        ends = words.interval(prediction["intervals"][name])
        everybody = words.percent(prediction["population"][name])
        yield f"  {words.percent(p):>4} {words.outcome(why, name)} ({ends}; all patients: {everybody})"


def _groups(why: JSONMapping) -> Iterator[str]:
    """The groups of similar patients with their share of the votes, and what the votes mean."""
    if not why["groups"]:
        yield "No past patient contributes to this prediction."
        return
    yield GROUPS
    for part in why["groups"]:
        yield f"  {words.percent(part['vote_share']):>4} {': '.join(words.group(why, part))}"
    yield " ".join(text for text in (words.votes(why), words.opinions(why)) if text)


def points(why: JSONMapping, width: int, heading: str, first_row: str) -> Iterator[str]:
    """The findings with the most points, as bars on either side of a center line."""
    steps = words.steps(why)
    first, last = words.ends(why)
    unit = "contribution" if words.is_number(why) else "percentage points"
    yield f"{heading} {first} {first_row} to {last} ({unit}):"
    most = max((abs(step.points) for step in steps), default=0.0) or 1.0
    names = [step.text for step in steps]
    longest = min(max(map(len, names)), width - 2 * _BAR - 13)
    for name, step in zip(names, steps, strict=True):
        *before, end = wrap(name, longest)
        yield from (f"  {line}" for line in before)
        bar = "█" * round(_BAR * abs(step.points) / most)
        left, right = (bar, "") if step.points < 0 else ("", bar)
        yield f"  {end:<{longest}} {words.step_points(why, step.points):>7} {left:>{_BAR}}|{right}"


def closest(why: JSONMapping) -> Iterator[str]:
    """The closest patients, and the values in which they differ from the case."""
    features = words.compared(why)
    listed = ", ".join(words.named_value(feature, feature["value"]) for feature in features)
    where = "the findings above" if why["attribution"] else listed
    yield f"The closest patients with their weights, compared on {where}:"
    for part in why["neighbors"]:
        other = [
            words.past_value(feature, patch["value"])
            for feature in features
            if not (patch := part["features"][feature["name"]])["agrees"]
        ]
        differs = f"differs: {', '.join(other)}" if other else "agrees on all of these"
        patient = f"#{part['id']} {words.outcome(why, part['outcome'])}"
        yield f"  {words.percent(part['vote_share']):>4} {patient}; {differs}"


def _boxed(lines: list[str]) -> list[str]:
    longest = max(map(len, lines))
    edge = f"+{'-' * (longest + 2)}+"
    return [edge, *(f"| {line:<{longest}} |" for line in lines), edge]
