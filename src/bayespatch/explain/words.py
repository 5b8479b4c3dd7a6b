"""Sentences and figures that every rendering of an explanation shares, so that all say the same.

Each takes the explanation as plain data, as `Explanation.to_dict` gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NO_PRECEDENT = "No adequate precedent"
DIFFER = 0.2  # two opinions that differ by so much are worth a sentence of their own
MARKED = "●"  # before a value that stands out; shapes say what colors do as well
MARKS = {"same": "=", "close": "≈", "different": "–", "missing": "·"}
LEGEND = {
    "same": "the same value",
    "close": "another number, which counts as close",
    "different": "a different value",
    "missing": "missing in both",
}
STANDS_OUT = "one of the few values through which this past case counts most"

Data = Mapping[str, Any]


def called(feature: Data) -> str:
    """What a feature is called where a person reads it: by the data dictionary, or by its name.

    >>> called({"name": "cp", "description": "chest pain"}), called({"name": "cp", "description": ""})
    ('chest pain', 'cp')
    """
    return str(feature.get("description") or feature["name"])


def percent(p: float) -> str:
    """A probability for a reader: whole percents, and never a certainty that is none.

    >>> percent(0.123), percent(0.004), percent(0.999), percent(0.0)
    ('12%', '<1%', '>99%', '0%')
    """
    if 0.0 < p < 0.01:
        return "<1%"
    return ">99%" if 0.99 < p < 1.0 else f"{p:.0%}"


def points(change: float | None) -> str:
    """A change of a probability, in percentage points; a dash where it is not known.

    >>> points(0.0412), points(-0.2), points(0.0001)
    ('+4.1', '-20.0', '0.0')
    """
    if change is None:
        return "–"
    text = f"{100.0 * change:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def interval(ends: tuple[float, float]) -> str:
    """``12% to 40%``."""
    return f"{percent(ends[0])} to {percent(ends[1])}"


def past_cases(n: int) -> str:
    """``1 past case``, ``24 past cases``."""
    return f"{n} past case{'s' * (n != 1)}"


def title(why: Data) -> str:
    """What the case is called."""
    return "The case" if why["case"]["id"] is None else f"Case {why['case']['id']}"


def likely(p: float) -> str:
    """A probability above one half in a word.

    >>> likely(0.61), likely(0.9)
    ('probably', 'very probably')
    """
    if p >= 0.95:
        return "almost certainly"
    if p >= 0.8:
        return "very probably"
    return "probably" if p >= 0.6 else "undecided, perhaps"


def headline(why: Data) -> str:
    """The question and the answer: ``Heart disease: probably absent, 61% (give or take: 45% to 74%)``."""
    said, target = why["prediction"], why["case"]["target"]
    question = f"{sentence(target)}: " if target else ""
    if said["mean"] is not None:
        return f"{question}{said['mean']:.4g} (give or take: {said['interval'][0]:.4g} to {said['interval'][1]:.4g})"
    name = said["class"]
    p, ends = said["probabilities"][name], said["intervals"][name]
    return f"{question}{likely(p)} {name}, {percent(p)} (give or take: {interval(ends)})"


def sentence(text: str) -> str:
    """A text that begins a sentence."""
    return text[:1].upper() + text[1:]


def prediction(why: Data) -> str:
    """The prediction in one sentence."""
    said, case = why["prediction"], why["case"]
    name = said["class"]
    p = percent(said["probabilities"][name])
    if said["interval"] is None:
        within = f"{said['level']:.0%} credible interval {interval(said['intervals'][name])}"
        text = f"Predicted: {name}, probability {p} ({within})."
    else:
        low, high = said["interval"]
        text = (
            f"Predicted: {case['target'] or 'outcome'} {said['mean']:.4g}, with probability {said['level']:.0%} "
            f"between {low:.4g} and {high:.4g}. Most probable range: {name}, {p}."
        )
    if case["outcome"] is None:
        return text
    return f"Known outcome: {case['outcome']}. It counted in finding the single neighbors. Without it: {text}"


def error(why: Data) -> str | None:
    """How far another run of the same model would be off."""
    found = why["prediction"]["error"]
    if found is None:
        return None
    return (
        f"Repeating the computation would change the probability by about {100 * found:.1f} points (Monte Carlo error)."
    )


def like_this(why: Data) -> str | None:
    """What votes like these were worth."""
    found = why["prediction"]["like_this"]
    if found is None:
        return None
    label = found["class"]
    return (
        f"Of {past_cases(found['n'])} with {found['low']:.0%} to {found['high']:.0%} of the votes for {label}, "
        f"{found['n_class']} ({percent(found['n_class'] / max(1, found['n']))}) had {label}."
    )


def votes(why: Data) -> str:
    """The votes, and how they became the probability."""
    said = why["prediction"]
    shares = ", ".join(f"{percent(v)} for {name}" for name, v in said["votes"].items())
    parts = [f"Votes: {shares}."]
    if (found := like_this(why)) is not None:
        parts.append(found)
    leading, name = max(said["votes"], key=said["votes"].get), said["class"]
    if leading != name:
        parts.append(
            f"Most votes are for {leading}, and yet {name} is more probable: votes are read by what votes like these "
            f"were worth for past cases{', and pooled with the additive score' if why['opinions'] else ''}."
        )
    return " ".join(parts)


def opinions(why: Data) -> str | None:
    """Both opinions in one sentence."""
    both = why["opinions"]
    if both is None:
        return None
    name = why["prediction"]["class"]
    one, other = both["precedents"][name], both["additive"][name]
    text = (
        f"Similar past cases say {percent(one)} for {name}, the risk factors added up say {percent(other)}; pooled, "
        f"with weight {both['weight']:.2f} for the risk factors: {percent(why['prediction']['probabilities'][name])}."
    )
    if both["disagreement"] >= DIFFER:
        text += f" The two differ by {100 * both['disagreement']:.0f} points: find out why before relying on either."
    return text


def strongest_points(why: Data, n: int = 3) -> str | None:
    """The risk factors that add most."""
    both = why["opinions"]
    if both is None or both["points"] is None:
        return None
    ranked = sorted(both["points"], key=lambda part: -abs(part["points"]))[:n]
    names = {feature["name"]: called(feature) for feature in why["features"]}
    listed = ", ".join(f"{names[part['feature']]} ({part['points']:+.1f})" for part in ranked)
    name = why["reliance_class"]
    start = f" from the base rate, {percent(both['base'][name])}" if both["base"] else ""
    return f"Risk factors that move the probability of {name} most{start}, in percentage points: {listed}."


def exemplar(part: Data) -> str:
    """``#80 and 23 past cases like it: 21% of the votes, all for no heart disease``."""
    others = part["stands_for"] - 1
    crowd = f"#{part['id']} and {past_cases(others)} like it" if others else f"#{part['id']} alone"
    return f"{crowd}: {percent(part['vote_share'])} of the votes, {'all ' if others else ''}for {part['label']}"


def vote_shares(why: Data) -> str:
    """Who votes, in one sentence; the shares sum to 1."""
    shares = why["vote_shares"]
    n = len(why["exemplars"])
    return (
        f"{n} exemplar{'s' * (n != 1)} and the past cases like them cast {percent(shares['exemplars'])} of the votes, "
        f"other past cases {percent(shares['others'])}, and the base rates {percent(shares['base_rates'])}."
    )


def precedent(why: Data) -> str:
    """Whether the case is like the past cases at all."""
    found = why["precedent"]
    share, limit = percent(found["percentile"]), percent(found["quantile"])
    if not found["adequate"]:
        return (
            f"{NO_PRECEDENT}: only {share} of past cases are as atypical as this one (the limit is {limit}). Do not "
            f"rely on the prediction."
        )
    return f"Precedent: {share} of past cases are as atypical as this one, or more ({limit} or less would be too few)."


def stability(why: Data) -> str:
    """Whether the chains agree."""
    found, name = why["stability"], why["prediction"]["class"]
    if found["overlap"] is None:
        return "There is a single chain, and nothing to compare it with."
    return (
        f"Independent sets of draws share {percent(found['overlap'])} of their most influential past "
        f"cases, and put the probability of {name} at {interval(found['probabilities'][name])}."
    )


def reliance(why: Data) -> str:
    """On which crowd the prediction relies most."""
    shown = why["exemplars"]
    if not shown:
        return "No past case votes on this one."
    if shown[0]["reliance"] is None:
        return "What would be predicted without a crowd was not asked for."
    most = max(shown, key=lambda part: abs(part["reliance"]))
    name = why["reliance_class"]
    p = why["prediction"]["probabilities"][name]
    others = most["stands_for"] - 1
    crowd = f"#{most['id']} and {past_cases(others)} like it" if others else f"#{most['id']}"
    return (
        f"Without {crowd} the probability of {name} would be {percent(min(1.0, max(0.0, p - most['reliance'])))} "
        f"instead of {percent(p)}: no other crowd changes it more."
    )


def explained(why: Data, n: int = 3) -> str:
    """Which values the past cases explain worst."""
    worst = sorted(why["features"], key=lambda feature: feature["explained"])[:n]
    listed = ", ".join(f"{called(f)} = {f['value']} ({percent(f['explained'])})" for f in worst)
    return f"Least expected given the past cases most like this one: {listed}."


def what_counts(why: Data, n: int = 3) -> str:
    """Which values the prediction depends on most."""
    best = sorted(why["features"], key=lambda feature: -abs(feature["worth"]))[:n]
    listed = ", ".join(f"{called(f)} = {f['value']} ({points(f['worth'])})" for f in best if abs(f["worth"]) >= 0.0005)
    if not listed:
        return "No single value changes the prediction."
    return (
        f"What counts most here, in points that the value adds to the probability of {why['reliance_class']}, about: "
        f"{listed}."
    )


def stance(part: Data) -> str:
    """Whether a past case supports the predicted class; of numbers, the most probable range."""
    return "supports" if part["supports"] else "contradicts"


def marks(patch: Data) -> str:
    """The marks before a value: ``= ``, ``●≈ ``."""
    return f"{MARKED if patch['marked'] else ''}{MARKS[patch['comparison']]}"


def meaning(patch: Data) -> str:
    """What the marks mean."""
    text = LEGEND[patch["comparison"]]
    return f"{text}; {STANDS_OUT}" if patch["marked"] else text


def legend() -> dict[str, str]:
    """All marks and what they mean."""
    return {**{mark: LEGEND[name] for name, mark in MARKS.items()}, MARKED: STANDS_OUT}


def close_note(feature: Data) -> str | None:
    """Which numbers count as close, where not only equal values agree."""
    return None if feature["close"] is None else f"close: {feature['close']}"


def caveats(why: Data) -> list[str]:
    """How far to trust it: every sentence that a rendering ends with."""
    found = [precedent(why), reliance(why), explained(why), stability(why)]
    found += [text] if (text := error(why)) else []
    if not why["about"].get("converged", True):
        found.append("The chains have not mixed, or are too short: importances are less certain than they look.")
    return found
