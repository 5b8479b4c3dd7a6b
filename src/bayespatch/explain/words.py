"""Sentences and figures that every rendering of an explanation shares, so that they never contradict each other.

Each takes the explanation as plain data, as `Explanation.to_dict` returns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

NO_PRECEDENT = "No adequate precedent"
DIFFER = 0.2  # opinions that differ by this much are reported as a disagreement
FEW_KNOWN = 0.5  # with a smaller share of the findings known, nothing is said about precedent
MOST_POINTS = 6  # findings whose points are shown at once
DISCLAIMER = "Supports clinical judgement; does not replace it"
_YES, _NO = ("yes", "true", "1"), ("no", "false", "0")

Data = Mapping[str, Any]


class Check(NamedTuple):
    """One check of how far an answer can be trusted."""

    passed: bool
    text: str


def called(feature: Data) -> str:
    """The feature's name for a reader: its description in the data dictionary, or the column's name.

    >>> called({"name": "cp", "description": "chest pain"}), called({"name": "cp", "description": ""})
    ('chest pain', 'cp')
    """
    return str(feature.get("description") or feature["name"])


def percent(p: float) -> str:
    """A probability in whole percents; only an exact 0 or 1 is shown as 0% or 100%.

    >>> percent(0.123), percent(0.004), percent(0.999), percent(0.0)
    ('12%', '<1%', '>99%', '0%')
    """
    if 0.0 < p < 0.01:
        return "<1%"
    return ">99%" if 0.99 < p < 1.0 else f"{p:.0%}"


def points(change: float | None) -> str:
    """A change of a probability in percentage points; a dash for None.

    >>> points(0.0412), points(-0.2), points(0.0001)
    ('+4.1', '−20.0', '0.0')
    """
    return "–" if change is None else signed(100.0 * change)


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign.

    >>> signed(4.12), signed(-3.0), signed(-0.04)
    ('+4.1', '−3.0', '0.0')
    """
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−") if text.strip("+-0.") else text[1:]


def interval(ends: Sequence[float]) -> str:
    """Both ends of an interval of probabilities.

    >>> interval((0.12, 0.4)), interval((0.001, 0.4))
    ('12–40%', '<1% to 40%')
    """
    low, high = percent(ends[0]), percent(ends[1])
    return f"{low} to {high}" if {low[0], high[0]} & {"<", ">"} else f"{low[:-1]}–{high}"


def patients(n: int) -> str:
    """``1 patient``, ``24 patients``."""
    return f"{n} patient{'s' * (n != 1)}"


def sentence(text: str) -> str:
    """The text with an upper-case first letter."""
    return text[:1].upper() + text[1:]


def listed(texts: Iterable[str]) -> str:
    """Texts as a list in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def title(why: Data) -> str:
    """``Case 20``."""
    return "The case" if why["case"]["id"] is None else f"Case {why['case']['id']}"


def is_number(why: Data) -> bool:
    """Whether the outcome is a number."""
    return why["prediction"]["mean"] is not None


def question(why: Data) -> str:
    """What the figure answers."""
    return "How much?" if is_number(why) else "How likely?"


def warnings(why: Data) -> list[str]:
    """The warnings, without those that repeat that there is no adequate precedent."""
    said = zip(why["case"]["warnings"], why["case"]["warning_kinds"], strict=True)
    return [text for text, kind in said if kind != "combination" or why["precedent"]["adequate"]]


def focus(why: Data) -> str:
    """The class that every figure refers to: the last of two classes, otherwise the predicted one."""
    names = list(why["prediction"]["probabilities"])
    return str(names[-1] if len(names) == 2 and not is_number(why) else why["prediction"]["class"])


def outcome(why: Data, label: str) -> str:
    """A class for a reader: ``yes`` of the target ``heart disease`` is ``heart disease``, ``no`` is its absence."""
    target = why["case"]["target"]
    if target and label.lower() in _YES:
        return str(target)
    return f"no {target}" if target and label.lower() in _NO else label


def had(why: Data, n: int, label: str) -> str:
    """``11 had heart disease``; ``11 were malignant`` where the class does not name the target."""
    text = outcome(why, label)
    if is_number(why):
        return f"{n} had {why['case']['target'] or 'an outcome of'} {label}"
    return f"{n} {'had' if _names_target(why, text) else 'were' if n != 1 else 'was'} {text}"


def _names_target(why: Data, text: str) -> bool:
    target = why["case"]["target"]
    return bool(target) and target.lower() in text.lower()


def figure(why: Data) -> str:
    """The answer as one figure: ``46%``, or the mean of a number."""
    said = why["prediction"]
    return number(said["mean"]) if is_number(why) else percent(said["probabilities"][focus(why)])


def of_what(why: Data) -> str:
    """What the figure is: ``risk of heart disease``."""
    if is_number(why):
        return str(why["case"]["target"] or "outcome")
    text = outcome(why, focus(why))
    is_risk = _names_target(why, text) and not text.startswith("no ")
    return f"{'risk' if is_risk else 'probability'} of {text}"


def quantity(why: Data) -> str:
    """What the points of a finding raise or lower: ``risk``, ``probability``, ``value``."""
    return "value" if is_number(why) else of_what(why).partition(" ")[0]


def within(why: Data) -> str:
    """``90% interval 18–75%``."""
    said = why["prediction"]
    if is_number(why):
        return f"{said['level']:.0%} interval {number(said['interval'][0])} to {number(said['interval'][1])}"
    return f"{said['level']:.0%} interval {interval(said['intervals'][focus(why)])}"


def headline(why: Data) -> str:
    """The answer: ``46% risk of heart disease (90% interval 18–75%)``."""
    if is_number(why):
        return f"{sentence(of_what(why))}: {figure(why)} ({within(why)})"
    return f"{figure(why)} {of_what(why)} ({within(why)})"


def base_rate(why: Data) -> str:
    """``All patients: 35%``; their mean where the outcome is a number and there is an attribution."""
    if is_number(why):
        return f"All patients: {number(why['attribution']['base'])}" if why["attribution"] else ""
    return f"All patients: {percent(why['prediction']['population'][focus(why)])}"


def number(value: float) -> str:
    """A number in four significant digits."""
    return f"{value:.4g}"


def group(why: Data, part: Data) -> tuple[str, str]:
    """Who the members are, and how many had the class in focus.

    ``61 patients with vessels colored 0 and thallium scan normal``, ``11 had heart disease``.
    """
    values = [shared_value(why, value) for value in part["shared"]]
    who = f"{patients(part['size'])} {f'with {listed(values)}' if values else 'of other kinds'}"
    label = focus(why)
    return who, had(why, part["counts"][label], label)


def shared_value(why: Data, shared: Data) -> str:
    """A value that a group shares: ``thallium scan normal``, ``no angina``, ``age 61 to 67`` if close numbers agree."""
    feature = next(one for one in why["features"] if one["name"] == shared["feature"])
    name, value = called(feature), str(feature["close"] or shared["value"])
    if value in ("yes", "no"):
        return name if value == "yes" else f"no {name}"
    return f"{name} {value}"


def votes(why: Data) -> str:
    """How the votes of similar patients become a probability, in natural frequencies."""
    said, label = why["prediction"], focus(why)
    name = f"{why['case']['target'] or 'outcome'} {label}" if is_number(why) else outcome(why, label)
    share, base = percent(said["votes"][label]), percent(said["population"][label])
    text = f"{share} of their votes are for {name}; the base rate among all patients is {base}."
    found = like_this(why)
    return text if found is None else f"{text} Of {found['n']} past patients with votes like these, {found['had']}."


def like_this(why: Data) -> dict[str, Any] | None:
    """Past patients with votes like these: how many (`n`), and how many of them `had` the class in focus."""
    found, label = why["prediction"]["like_this"], focus(why)
    if found is None:
        return None
    n_class = found["n_class"] if found["class"] == label else found["n"] - found["n_class"]
    return {"n": found["n"], "had": had(why, n_class, label)}


def opinions(why: Data) -> str | None:
    """What similar patients and risk factors say, each alone and combined; None without a second opinion."""
    both, label = why["opinions"], focus(why)
    if both is None:
        return None
    one, other = both["precedents"][label], both["additive"][label]
    about = f" {label}" if is_number(why) else ""
    text = f"Similar patients alone say {percent(one)}{about}, risk factors alone {percent(other)}"
    text += f", both together {percent(why['prediction']['probabilities'][label])}."
    if both["disagreement"] >= DIFFER:
        text += f" They differ by {100 * both['disagreement']:.0f} points: find out why before you rely on the answer."
    return text


def checks(why: Data) -> list[Check]:
    """How far the answer can be trusted, one check for each question."""
    known, both, typical = why["case"]["known"], why["opinions"], why["precedent"]
    few = known["n"] < FEW_KNOWN * known["of"] or typical["percentile"] is None
    count = f"{known['n']} of {known['of']} findings known"
    found = []
    if typical["percentile"] is not None and not typical["adequate"]:
        found.append(Check(False, NO_PRECEDENT))
    elif not few:
        found.append(Check(True, "Adequate precedent"))
    if both is not None:
        apart = both["disagreement"]
        verb = "agree within" if apart < DIFFER else "differ by"
        text = f"Similar patients and risk factors {verb} {100 * apart:.0f} points"
        found.append(Check(apart < DIFFER, text))
    n = len(warnings(why))
    found.append(Check(n == 0, "No warnings" if n == 0 else f"{n} warning{'s' * (n > 1)}"))
    found.append(Check(not few, f"Only {count}" if few else sentence(count)))
    if not why["about"].get("converged", True):
        found.append(Check(False, "The importances are not known well"))
    return found


def verdict(why: Data) -> str:
    """The checks in a few words."""
    found = checks(why)
    failed = sum(not check.passed for check in found)
    return f"{failed} of {len(found)} checks failed" if failed else f"All {len(found)} checks passed"


def precedent(why: Data) -> str:
    """How the case compares with the past patients as a whole."""
    found, known = why["precedent"], why["case"]["known"]
    if found["percentile"] is None:
        return (
            f"{NO_PRECEDENT}: too little is known, {known['n']} of {known['of']} features. Do not rely on the answer."
        )
    share, limit = percent(found["percentile"]), percent(found["quantile"])
    if not found["adequate"]:
        return (
            f"{NO_PRECEDENT}: only {share} of past patients are as unusual as this one (limit: {limit}). Do not rely "
            f"on the answer."
        )
    return f"Precedent: {share} of past patients are at least as unusual as this one (limit: {limit})."


def stability(why: Data) -> str | None:
    """Whether independent chains agree; None with a single chain."""
    overlap = why["stability"]["overlap"]
    return None if overlap is None else f"Independent chains share {percent(overlap)} of the closest patients."


def error(why: Data) -> str | None:
    """The Monte Carlo error; None where the computation is exact."""
    found = why["prediction"]["error"]
    return None if not found else f"Monte Carlo error: {100 * found:.1f} points."


def unexpected(why: Data, n: int = 3) -> str:
    """The values that are least expected given similar patients."""
    worst = sorted(why["features"], key=lambda feature: feature["explained"])[:n]
    texts = [f"{called(f)} {f['value']} ({percent(f['explained'])})" for f in worst]
    return f"Least expected values, given similar patients: {', '.join(texts)}."


def caveats(why: Data) -> list[str]:
    """Details of the checks, and the limits of every answer."""
    found = [precedent(why), opinions(why), unexpected(why), stability(why), error(why)]
    limits = (
        "These patients look similar to the model; similarity is not a cause.",
        "The answer holds for patients from the same place and time as the past ones.",
    )
    return [text for text in (*found, *limits) if text]


class Step(NamedTuple):
    """Points of one finding; of all findings that are not shown one by one, `name` is empty."""

    name: str
    value: str
    points: float


def steps(why: Data, most: int = MOST_POINTS) -> tuple[Step, ...]:
    """From the base rate to the answer: the findings with the most points, then all others together."""
    attribution = why["attribution"]
    if attribution is None:
        return ()
    names = {feature["name"]: called(feature) for feature in why["features"]}
    parts = attribution["features"]
    shown = [Step(names[part["feature"]], part["value"], part["points"]) for part in parts[:most]]
    rest = parts[most:]
    if rest:
        text = f"{len(rest)} other finding{'s' * (len(rest) > 1)}"
        shown.append(Step("", text, sum(part["points"] for part in rest)))
    return tuple(shown)


def step_points(why: Data, value: float) -> str:
    """Points of a finding: percentage points, or units of the outcome where it is a number."""
    return f"{value:+.3g}".replace("-", "−") if is_number(why) else signed(value)


def ends(why: Data) -> tuple[str, str]:
    """Where the points begin and end: at the base rate, and at the answer."""
    show = number if is_number(why) else percent
    return show(why["attribution"]["base"]), show(why["attribution"]["total"])


def compared(why: Data, most: int = MOST_POINTS) -> list[Data]:
    """The features in which the closest patients are compared with the case: those that matter most."""
    attribution = why["attribution"]
    if attribution is None:
        return sorted(why["features"], key=lambda feature: -feature["importance"])[:most]
    by_name = {feature["name"]: feature for feature in why["features"]}
    return [by_name[part["feature"]] for part in attribution["features"][:most]]


def comparison(feature: Data, patch: Data) -> str:
    """``same``, ``close`` or ``different``: a past patient's value beside the case's."""
    if not patch["agrees"]:
        return "different"
    return "same" if patch["value"] == feature["value"] else "close"
