"""Sentences and figures that every rendering of an explanation shares, so that all say the same."""

from __future__ import annotations

from bayespatch.explain.parts import Findings, Neighbor, Patch

NO_PRECEDENT = "No adequate precedent"
LEGEND = {
    "marked": "has the case's value, and it probably matters",
    "agrees": "has the case's value, but it probably does not matter",
    "differs": "has another value",
}
MARKS = {"marked": "●", "agrees": "○", "differs": "–"}  # differ in shape and not in color alone


def percent(p: float) -> str:
    """A probability for a reader: whole percents, and never a certainty that is none.

    >>> percent(0.123), percent(0.004), percent(0.999), percent(0.0)
    ('12%', '<1%', '>99%', '0%')
    """
    if 0.0 < p < 0.01:
        return "<1%"
    return ">99%" if 0.99 < p < 1.0 else f"{p:.0%}"


def points(change: float) -> str:
    """A change of a probability, in percentage points.

    >>> points(0.0412), points(-0.2), points(0.0001)
    ('+4.1', '-20.0', '0.0')
    """
    text = f"{100.0 * change:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def interval(ends: tuple[float, float]) -> str:
    """``12% to 40%``."""
    return f"{percent(ends[0])} to {percent(ends[1])}"


def title(why: Findings) -> str:
    """What the case is called."""
    return "The case" if why.id is None else f"Case {why.id}"


def answer(why: Findings) -> str:
    """The predicted class, or the mean where the outcome is a number, and what it is called."""
    if why.mean is not None:
        return f"{why.target or 'outcome'} {why.mean:.4g}"
    target = f"{why.target}: " if why.target.lower() not in why.predicted.lower() else ""
    return f"{target}{why.predicted}"


def prediction(why: Findings) -> str:
    """The prediction in one sentence."""
    p = percent(why.probabilities[why.predicted])
    if why.interval is None:
        within = f"{why.level:.0%} credible interval {interval(why.intervals[why.predicted])}"
        said = f"Predicted: {answer(why)}, probability {p} ({within})."
    else:
        low, high = why.interval
        said = (
            f"Predicted: {answer(why)}, with probability {why.level:.0%} between {low:.4g} and {high:.4g}. "
            f"Most probable range: {why.predicted}, {p}."
        )
    if why.outcome is None:
        return said
    return f"Known outcome: {why.outcome}. It counted in finding the neighbors. Without it: {said}"


def precedent(why: Findings) -> str:
    """Whether the case is like the past at all."""
    found = why.precedent
    if not found.adequate:
        return (
            f"{NO_PRECEDENT}. This case resembles the past less than all but {percent(found.percentile)} of the past "
            f"cases resemble one another (the limit is {percent(found.quantile)}). Do not rely on the prediction."
        )
    return (
        f"Precedent: this case resembles the past better than {percent(found.percentile)} of the past cases resemble "
        f"one another ({percent(found.quantile)} or less would be too little)."
    )


def stability(why: Findings) -> str:
    """Whether the chains agree."""
    ends = why.stability.probabilities[why.predicted]
    same = f"put the probability of {why.predicted} at {interval(ends)}"
    if why.stability.overlap is None:
        return "There is a single chain, and nothing to compare it with."
    return (
        f"Independent chains of the sampler share {percent(why.stability.overlap)} of their most influential past "
        f"cases, and {same}."
    )


def reliance(why: Findings) -> str:
    """On which single past case the prediction relies most."""
    if not why.shown:
        return "No past case speaks on this one."
    most = max(why.shown, key=lambda neighbor: abs(neighbor.reliance))
    before = why.probabilities[why.predicted]
    return (
        f"Of the past cases shown, #{most.id} changes the prediction most: without it the probability of "
        f"{why.predicted} would be {percent(before - most.reliance)} instead of {percent(before)}."
    )


def vote_shares(why: Findings) -> str:
    """Who votes, in one sentence; the shares sum to 1."""
    mine = sum(neighbor.vote_share for neighbor in why.neighbors)
    return (
        f"Of the votes, {percent(mine)} are cast by the {len(why.neighbors)} most influential past cases, "
        f"{percent(why.vote_share_others)} by the other past cases, and {percent(why.vote_share_base)} are the base "
        f"rates'."
    )


def unseen(why: Findings) -> str | None:
    """Values that no past case has."""
    names = [feature.name for feature in why.features if feature.unseen]
    return f"No past case has the value of {', '.join(names)}: nobody can agree with it." if names else None


def stance(neighbor: Neighbor) -> str:
    """Whether a neighbor speaks for the predicted class; of numbers, the most probable range."""
    return "against it" if neighbor.dissents else "for it"


def state(patch: Patch) -> str:
    """Which of the three kinds of `LEGEND` a value is."""
    return "marked" if patch.marked else "agrees" if patch.agrees else "differs"
