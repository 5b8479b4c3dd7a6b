"""Sentences and numbers used by every rendering of an explanation, so that they never contradict each other.

Most functions take the explanation as plain data, as returned by `Explanation.to_dict`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bayespatch import language
from bayespatch.encode.column import MISSING
from bayespatch.language import decimal, gettext, ngettext, pgettext, stored_value, to_translate
from bayespatch.types import JSONMapping, JSONObject

NO_PRECEDENT = to_translate("No adequate precedent")
DIFFER = 0.2  # opinions that differ by this much are reported as a disagreement
WIDE = 2 * DIFFER  # a wider interval extends beyond DIFFER on at least one side of the answer
FEW_KNOWN = 0.5  # precedent is not assessed if a smaller share of the findings is known
MOST_POINTS = 6  # number of findings whose points are shown individually
DISCLAIMER = to_translate("Supports clinical judgment; does not replace it")
_YES, _NO = ("yes", "true", "1"), ("no", "false", "0")
_PLACES = ("with ", "without ", "who ", "whose ")  # first words of phrases that follow a noun, in sentence order


class Check(NamedTuple):
    """One check of an answer's reliability."""

    passed: bool
    text: str


def called(feature: JSONMapping) -> str:
    """The feature's display name: its description in the data dictionary, or the column's name.

    >>> called({"name": "cp", "description": "chest pain"}), called({"name": "cp", "description": ""})
    ('chest pain', 'cp')
    """
    return str(feature.get("description") or feature["name"])


def percent(p: float) -> str:
    """A probability as a whole percentage; only an exact 0 or 1 is shown as 0% or 100%.

    >>> percent(0.123), percent(0.004), percent(0.999), percent(0.0)
    ('12%', '<1%', '>99%', '0%')
    """
    return language.percent(_percents(p))


def _percents(p: float) -> str:
    if 0.0 < p < 0.01:
        return "<1"
    return ">99" if 0.99 < p < 1.0 else f"{100.0 * p:.0f}"


def points(change: float | None) -> str:
    """A change in a probability, in percentage points; a dash for None.

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
    return decimal(text.replace("-", "−") if text.strip("+-0.") else text[1:])


def interval(ends: Sequence[float]) -> str:
    """An interval of probabilities.

    >>> interval((0.12, 0.4)), interval((0.001, 0.4))
    ('12–40%', '<1% to 40%')
    """
    low, high = _percents(ends[0]), _percents(ends[1])
    if {low[0], high[0]} & {"<", ">"}:
        return gettext("{low} to {high}", low=language.percent(low), high=language.percent(high))
    return f"{low}–{language.percent(high)}"


def patients(n: int) -> str:
    """``1 patient``, ``24 patients``."""
    return ngettext("{n} patient", "{n} patients", n)


def sentence(text: str) -> str:
    """The text with its first letter capitalized."""
    return text[:1].upper() + text[1:]


def listed(texts: Iterable[str], joint: str | None = None) -> str:
    """Items joined into a list, as in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = texts
    joint = gettext("and") if joint is None else joint
    return f"{', '.join(first)} {joint} {last}" if first else last


def title(why: JSONMapping) -> str:
    """``Case 20``."""
    return gettext("The case") if why["case"]["id"] is None else gettext("Case {id}", id=why["case"]["id"])


def is_number(why: JSONMapping) -> bool:
    """Whether the outcome is a number."""
    return why["prediction"].get("mean") is not None


def is_survival(why: JSONMapping) -> bool:
    """Whether the outcome is the time to an event."""
    return "curve" in why["prediction"]


def question(why: JSONMapping) -> str:
    """The question that the headline figure answers."""
    return gettext("How much?") if is_number(why) else gettext("How likely?")


def warnings(why: JSONMapping) -> list[str]:
    """The warnings, except those that only repeat the lack of an adequate precedent."""
    pairs = zip(why["case"]["warnings"], why["case"]["warning_kinds"], strict=True)
    kept = (text for text, kind in pairs if kind != "combination" or why["precedent"]["adequate"])
    return [language.stored_text(text) for text in kept]


def focus(why: JSONMapping) -> str:
    """The class that all figures refer to: the last of two classes, or the predicted one of several."""
    names = list(why["prediction"]["probabilities"])
    return str(names[-1] if len(names) == 2 and not is_number(why) else why["prediction"]["class"])


def outcome(why: JSONMapping, label: str) -> str:
    """Display name of a class: for the target ``heart disease``, ``yes`` is ``heart disease``, ``no`` its absence."""
    target = why["case"]["target"]
    if target and label.lower() in _YES:
        return str(target)
    return gettext("no {target}", target=target) if target and label.lower() in _NO else label


def had(why: JSONMapping, who: object, label: str) -> str:
    """``11 had heart disease``; ``11 had the outcome malignant`` if the class does not name the target."""
    target, text = why["case"]["target"], outcome(why, label)
    if _is_absence(why, label):
        return gettext("{n} had no {target}", n=who, target=target)
    if _names_target(why, text):
        return gettext("{n} had {outcome}", n=who, outcome=text)
    return gettext("{n} had the outcome {outcome}", n=who, outcome=text)


def _is_absence(why: JSONMapping, label: str) -> bool:
    return bool(why["case"]["target"]) and label.lower() in _NO


def _names_target(why: JSONMapping, text: str) -> bool:
    target = why["case"]["target"]
    return bool(target) and target.lower() in text.lower()


def figure(why: JSONMapping) -> str:
    """The answer as a single figure: ``46%``, or the mean of a numeric outcome."""
    prediction = why["prediction"]
    return number(prediction["mean"]) if is_number(why) else percent(prediction["probabilities"][focus(why)])


def of_what(why: JSONMapping) -> str:
    """What the figure measures: ``risk of heart disease``."""
    if is_number(why):
        return str(why["case"]["target"] or gettext("outcome"))
    label = focus(why)
    if _is_absence(why, label):
        return gettext("probability of no {target}", target=why["case"]["target"])
    text = outcome(why, label)
    if _is_risk(why):
        return gettext("risk of {outcome}", outcome=text)
    return gettext("probability of {outcome}", outcome=text)


def _is_risk(why: JSONMapping) -> bool:
    return _names_target(why, outcome(why, focus(why))) and not _is_absence(why, focus(why))


def raises(why: JSONMapping) -> str:
    """Heading of the points of the findings: ``What raises or lowers the risk``."""
    if is_number(why):
        return gettext("What raises or lowers the value")
    if _is_risk(why):
        return gettext("What raises or lowers the risk")
    return gettext("What raises or lowers the probability")


def within(why: JSONMapping) -> str:
    """``90% interval for patients with similar predictions: 18–75%``, or the prediction interval of a number."""
    prediction = why["prediction"]
    level = percent(prediction["level"])
    if is_number(why):
        low, high = map(number, prediction["interval"])
        return gettext("{level} prediction interval {low} to {high}", level=level, low=low, high=high)
    ends = interval(prediction["intervals"][focus(why)])
    return gettext("{level} interval for patients with similar predictions: {ends}", level=level, ends=ends)


def answer(why: JSONMapping) -> str:
    """A short form of the answer: ``46% risk of heart disease``."""
    return f"{sentence(of_what(why))}: {figure(why)}" if is_number(why) else f"{figure(why)} {of_what(why)}"


def headline(why: JSONMapping) -> str:
    """The answer: ``46% risk of heart disease; 90% interval for patients with similar predictions: 18–75%``."""
    return f"{answer(why)}; {within(why)}"


def base_rate(why: JSONMapping) -> str:
    """``All patients: 35%``; for a numeric outcome, their mean, or empty if there is no attribution."""
    if is_number(why):
        if not why["attribution"]:
            return ""
        return gettext("All patients: {figure}", figure=number(why["attribution"]["base"]))
    return gettext("All patients: {figure}", figure=percent(why["prediction"]["population"][focus(why)]))


def number(value: float) -> str:
    """A number with four significant digits."""
    return decimal(f"{value:.4g}")


def group(why: JSONMapping, part: JSONMapping) -> tuple[str, str]:
    """The members of a group, and how many had the class in focus, or the mean of their numeric outcomes.

    ``61 men without colored vessels, mostly with a normal thallium scan, but without chest pain``, ``11 had heart
    disease``. What follows "but" differs from the case.
    """
    if is_number(why):
        outcomes = gettext("mean {target} {value}", target=of_what(why), value=number(part["mean"]))
    else:
        outcomes = had(why, part["counts"][focus(why)], focus(why))
    return group_members(why, part), outcomes


def group_members(why: JSONMapping, part: JSONMapping) -> str:
    """The size of a group, the values shared by all or most members, and how all of them differ from the case."""
    features = {feature["name"]: feature for feature in why["features"]}
    local = _has_local_phrases(why)
    common: list[_Statement] = []
    most: list[_Statement] = []
    apart: list[_Statement] = []
    for shared in part["shared"]:
        feature = features[shared["feature"]]
        (common if shared["all"] else most).append(_statement(feature, feature["close"] or shared["value"], local))
    for other in part["differs"]:
        feature = features[other["feature"]]
        own, value = feature["close"] or feature["value"], other["value"]
        apart.append(_negation(feature, own, local) if value is None else _statement(feature, value, local))
    if not common and not most and not apart:
        return ngettext("{n} patient with various findings", "{n} patients with various findings", part["size"])
    if part["size"] == 1:
        common, most = common + most, []
    noun = "" if part["size"] == 1 else next((one.phrase for one in common + apart if one.is_noun), "")
    members = f"{language.count(part['size'])} {noun}" if noun else patients(part["size"])
    if not common and not most:
        return gettext("{patients}, unlike this patient", patients=f"{members}{_clause(apart, noun)}")
    text = f"{members}{_clause(common, noun)}"
    if most:
        mostly = next((one.phrase for one in most if one.is_noun), "")
        clause = _without_parentheses(f"{mostly}{_clause(most, mostly)}")
        text = gettext("{patients}, mostly {clause}", patients=text, clause=clause)
    clause = _without_parentheses(_clause(apart, noun))
    return gettext("{patients}, but {clause}", patients=text, clause=clause) if clause else text


def _without_parentheses(clause: str) -> str:
    clause = clause.strip()
    return clause[1:-1] if clause.startswith("(") else clause


class _Statement(NamedTuple):
    """A value in a sentence about patients: as a phrase, if the data dictionary has one, and as name and value."""

    phrase: str
    plain: str

    @property
    def is_noun(self) -> bool:
        """Whether the phrase replaces "patients"."""
        return bool(self.phrase) and not self.phrase.startswith(_places())


def _places() -> tuple[str, ...]:
    """First words of phrases that follow a noun, in the current language."""
    if language.current().code == language.ENGLISH:
        return _PLACES
    words = pgettext("before a phrase", "with"), pgettext("before a phrase", "without")
    return tuple(f"{word} " for word in words)


def _has_local_phrases(why: JSONMapping) -> bool:
    """Whether the phrases of the data dictionary are in the current language, judged by their first words."""
    if language.current().code == language.ENGLISH:
        return True
    return any(text.startswith(_places()) for feature in why["features"] for text in feature["phrases"].values())


def _statement(feature: JSONMapping, value: str, local: bool = True) -> _Statement:
    phrase = feature["phrases"].get(value, "") if local else ""
    if not phrase and value in ("yes", "no") and language.current().code == language.ENGLISH:
        phrase = f"{'with' if value == 'yes' else 'without'} {called(feature)}"
    return _Statement(phrase, named_value(feature, value))


def _negation(feature: JSONMapping, value: str, local: bool = True) -> _Statement:
    """Patients without a value: ``without a normal scan``, ``chest pain: not typical angina``."""
    phrase = feature["phrases"].get(value, "") if local else ""
    if phrase.startswith(("with a ", "with an ")):
        phrase = phrase.replace("with", "without", 1)
    elif phrase.startswith("without "):
        phrase = phrase.replace("without", "with", 1)
    else:
        phrase = ""
    name = called(feature)
    if value == "yes":
        return _Statement(phrase, gettext("{name}: no or missing", name=name))
    if value == "no":
        return _Statement(phrase, gettext("{name}: yes or missing", name=name))
    if _is_numeric(feature, value):
        return _Statement(phrase, gettext("{name} not {value}", name=name, value=stored_value(_dashed(value))))
    return _Statement(phrase, gettext("{name}: not {value}", name=name, value=stored_value(value)))


def _clause(statements: Sequence[_Statement], noun: str | None) -> str:
    """The words after a noun: phrases in the order of `_places`, then the other statements in parentheses."""
    parts = []
    for k, place in enumerate(_places()):
        rest = [one.phrase.removeprefix(place) for one in statements if one.phrase.startswith(place)]
        if rest:
            parts.append(place + listed(rest, gettext("or") if k == 1 else None))
    plain = [one.plain for one in statements if not one.phrase or (one.is_noun and one.phrase != noun)]
    text = f" {', '.join(parts)}" if parts else ""
    return f"{text} ({'; '.join(plain)})" if plain else text


def named_value(feature: JSONMapping, value: str) -> str:
    """Name and value: ``age 55–61``, ``chest pain: asymptomatic``.

    >>> named_value({"name": "cp", "description": "chest pain"}, "asymptomatic"), named_value({"name": "age"}, "55-61")
    ('chest pain: asymptomatic', 'age 55–61')
    """
    if _is_numeric(feature, value):
        return f"{called(feature)} {stored_value(_dashed(value))}"
    return f"{called(feature)}: {stored_value(value)}"


def _is_numeric(feature: JSONMapping, value: str) -> bool:
    return value == feature.get("close") or value[:1].isdigit() or value[:2].strip("-").isdigit()


def _dashed(text: str) -> str:
    return re.sub(r"(?<=\d)-(?=\d)", "–", text)


def past_value(feature: JSONMapping, value: str) -> str:
    """A past patient's value: ``with a reversible defect`` if there is a phrase, otherwise name and value."""
    one = _statement(feature, value)
    return one.phrase if one.phrase and not one.is_noun else one.plain


def others(why: JSONMapping) -> float:
    """Share of the past patients outside the groups."""
    return max(0.0, 1.0 - sum(part["vote_share"] for part in why["groups"]))


def votes(why: JSONMapping) -> str:
    """The outcomes of similar patients, weighted, and how often such votes were right, in natural frequencies."""
    prediction, label = why["prediction"], focus(why)
    if is_number(why):
        mean = {"target": of_what(why), "value": number(prediction["votes_mean"])}
        if not why["attribution"]:
            return gettext("Weighted by similarity, their mean {target} is {value}.", **mean)
        base = number(why["attribution"]["base"])
        return gettext(
            "Weighted by similarity, their mean {target} is {value} (all patients: {base}).", base=base, **mean
        )
    share = gettext("{share} of them", share=percent(prediction["votes"][label]))
    shares = gettext(
        "Weighted by similarity, {had} (all patients: {base}).",
        had=had(why, share, label),
        base=percent(prediction["population"][label]),
    )
    like = like_this(why)
    if like is None:
        return shares
    of_these = ngettext(
        "Of {n} past patient for whom this share was similar, {had}.",
        "Of {n} past patients for whom this share was similar, {had}.",
        like["n"],
        had=like["had"],
    )
    return f"{shares} {of_these}"


def like_this(why: JSONMapping) -> JSONObject | None:
    """Past patients with similar votes: their number (`n`), and how many `had` the class in focus, in words."""
    like, label = why["prediction"]["like_this"], focus(why)
    if like is None:
        return None
    n_class = like["n_class"] if like["class"] == label else like["n"] - like["n_class"]
    return {"n": like["n"], "had": had(why, n_class, label)}


def nothing_known(why: JSONMapping) -> str:
    """The reason for the answer about a case without known values."""
    if is_number(why):
        return gettext("No findings are known, so this is the mean of all past patients.")
    return gettext("No findings are known, so this is the share among all past patients.")


def opinions(why: JSONMapping) -> str | None:
    """Predictions from similar patients and risk factors, alone and combined; None without a second opinion."""
    both, label = why["opinions"], focus(why)
    if both is None:
        return None
    if is_number(why):
        text = gettext("Calibrated and combined with the risk factors, this gives {figure}.", figure=figure(why))
    else:
        text = gettext(
            "Similar patients alone suggest {similar}, risk factors alone {factors}; combined, they give {both}.",
            similar=percent(both["precedents"][label]),
            factors=percent(both["additive"][label]),
            both=percent(why["prediction"]["probabilities"][label]),
        )
    if both["disagreement"] < DIFFER:
        return text
    warning = gettext("The two disagree: find out why before you rely on the answer.")
    return f"{text} {warning}"


def checks(why: JSONMapping) -> list[Check]:
    """The reliability checks of the answer, failed ones first."""
    known, both, typical = why["case"]["known"], why["opinions"], why["precedent"]
    few = known["n"] < FEW_KNOWN * known["of"] or typical["percentile"] is None
    results = []
    if typical["percentile"] is not None and not typical["adequate"]:
        results.append(Check(False, gettext(NO_PRECEDENT)))
    elif not few:
        results.append(Check(True, gettext("Adequate precedent")))
    if both is not None:
        apart = both["disagreement"]
        n, limit = round(100 * apart), f"{100 * DIFFER:.0f}"
        if is_number(why):
            text = ngettext(
                "Probabilities from similar patients and risk factors differ by {n} point (limit: {limit})",
                "Probabilities from similar patients and risk factors differ by {n} points (limit: {limit})",
                n,
                limit=limit,
            )
        else:
            text = ngettext(
                "Similar patients and risk factors differ by {n} point (limit: {limit})",
                "Similar patients and risk factors differ by {n} points (limit: {limit})",
                n,
                limit=limit,
            )
        results.append(Check(apart < DIFFER, text))
    results.append(_width(why))
    n = len(warnings(why))
    results.append(Check(n == 0, gettext("No warnings") if n == 0 else ngettext("{n} warning", "{n} warnings", n)))
    if few:
        text = gettext("Only {n} of {of} findings known", n=known["n"], of=known["of"])
    else:
        text = gettext("{n} of {of} findings known", n=known["n"], of=known["of"])
    results.append(Check(not few, text))
    if not why["about"].get("converged", True):
        results.append(Check(False, gettext("Uncertain importances")))
    return sorted(results, key=lambda check: check.passed)


def _width(why: JSONMapping) -> Check:
    """Whether the interval is narrow: at most 40 points or, for a numeric outcome, narrower than for all patients."""
    prediction = why["prediction"]
    if is_number(why):
        low, high = prediction["population_interval"]
        part = (prediction["interval"][1] - prediction["interval"][0]) / (high - low) if high > low else 1.0
        text = gettext(
            "Interval {part} as wide as for all patients (limit: {limit})",
            part=language.percent(f"{100 * part:.0f}"),
            limit=language.percent("100"),
        )
        return Check(part < 1.0, text)
    low, high = prediction["interval"] if is_survival(why) else prediction["intervals"][focus(why)]
    figures = {"points": f"{100 * (high - low):.0f}", "limit": f"{100 * WIDE:.0f}"}
    if high - low > WIDE:
        return Check(False, gettext("Wide interval: {points} points (limit: {limit})", **figures))
    return Check(True, gettext("Interval: {points} points (limit: {limit})", **figures))


def verdict(why: JSONMapping) -> str:
    """A short summary of the checks."""
    results = checks(why)
    failed = sum(not check.passed for check in results)
    if failed:
        return ngettext("{n} of {of} checks failed", "{n} of {of} checks failed", failed, of=len(results))
    return ngettext("All {n} checks passed", "All {n} checks passed", len(results))


def precedent(why: JSONMapping) -> str:
    """How unusual the case is compared with all past patients."""
    typical, known = why["precedent"], why["case"]["known"]
    if typical["percentile"] is None:
        return gettext(
            "No adequate precedent: too few findings are known ({n} of {of}). Do not rely on the answer.",
            n=known["n"],
            of=known["of"],
        )
    share, limit = percent(typical["percentile"]), percent(typical["quantile"])
    if not typical["adequate"]:
        return gettext(
            "No adequate precedent: only {share} of past patients are as unusual as this one (limit: {limit}). "
            "Do not rely on the answer.",
            share=share,
            limit=limit,
        )
    return gettext(
        "Precedent: {share} of past patients are at least as unusual as this one (limit: {limit}).",
        share=share,
        limit=limit,
    )


def stability(why: JSONMapping) -> str | None:
    """How well independent chains agree; None with a single chain."""
    overlap = why["stability"]["overlap"]
    if overlap is None:
        return None
    return gettext("Independent chains agree on {share} of the closest patients.", share=percent(overlap))


def error(why: JSONMapping) -> str | None:
    """The Monte Carlo error of the prediction; None if it is computed exactly."""
    value = why["prediction"]["error"]
    return gettext("Monte Carlo error: {points} points.", points=decimal(f"{100 * value:.1f}")) if value else None


def unexpected(why: JSONMapping, n: int = 3) -> str:
    """The case's values that are least expected given similar patients."""
    worst = sorted(why["features"], key=lambda feature: feature["explained"])[:n]
    texts = [f"{named_value(f, f['value'])} ({percent(f['explained'])})" for f in worst]
    return gettext("Least expected values given similar patients: {values}.", values=", ".join(texts))


def caveats(why: JSONMapping) -> list[str]:
    """Details of the checks, and the limits that apply to every answer."""
    details = [precedent(why), *(() if is_survival(why) else (unexpected(why), stability(why), error(why)))]
    limits = (
        gettext("Similarity and points describe associations among past patients, not causes."),
        gettext("The answer applies to patients from the same setting and period as the past patients."),
    )
    return [text for text in (*details, *limits) if text]


class Step(NamedTuple):
    """Points of a finding, with its name and value, also combined as `text`.

    The name is empty for the entry that sums up all other findings.
    """

    name: str
    value: str
    points: float
    text: str


def steps(why: JSONMapping, most: int = MOST_POINTS) -> tuple[Step, ...]:
    """Steps from the base rate to the answer: the findings with the most points, then all the others combined."""
    attribution = why["attribution"]
    if attribution is None:
        return ()
    features = {feature["name"]: feature for feature in why["features"]}
    parts = [part for part in attribution["features"] if part["points"]]  # a missing value has no points
    shown = []
    for part in parts[:most]:
        feature = features[part["feature"]]
        text = named_value(feature, part["value"])
        shown.append(Step(called(feature), stored_value(part["value"]), part["points"], text))
    rest = parts[most:]
    if rest:
        text = ngettext("{n} other finding", "{n} other findings", len(rest))
        shown.append(Step("", text, sum(part["points"] for part in rest), text))
    return tuple(shown)


def step_points(why: JSONMapping, value: float) -> str:
    """Points of a finding as text: percentage points, or units of a numeric outcome."""
    return decimal(f"{value:+.3g}".replace("-", "−")) if is_number(why) else signed(value)


def ends(why: JSONMapping) -> tuple[str, str]:
    """Where the points start and end: the base rate and the answer."""
    show = number if is_number(why) else percent
    return show(why["attribution"]["base"]), show(why["attribution"]["total"])


def compared(why: JSONMapping, most: int = MOST_POINTS) -> list[JSONMapping]:
    """The features on which the closest patients are compared with the case: the known ones that matter most."""
    attribution = why["attribution"]
    if attribution is None:
        ranked = sorted(why["features"], key=lambda feature: -feature["importance"])
    else:
        by_name = {feature["name"]: feature for feature in why["features"]}
        ranked = [by_name[part["feature"]] for part in attribution["features"]]
    return [feature for feature in ranked if feature["value"] != MISSING][:most]


def comparison(feature: JSONMapping, patch: JSONMapping) -> str:
    """``same``, ``close`` or ``different``: a past patient's value compared with the case's."""
    if not patch["agrees"]:
        return "different"
    return "same" if patch["value"] == feature["value"] else "close"
