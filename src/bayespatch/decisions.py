"""Decision thresholds: the probability at which a class is flagged, and which predictions are undecided.

A threshold follows from costs: if a missed case costs as much as f false alarms, flagging is worthwhile at a
probability of 1 / (1 + f) or more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class DecisionThreshold:
    """A class that is flagged at or above a probability.

    Attributes
    ----------
    label : str
        Name of the class.
    threshold : float
        The class is flagged if its probability is at least this.

    Examples
    --------
    >>> DecisionThreshold("sick", 0.2).called(np.array([0.1, 0.2, 0.3]))
    array([False,  True,  True])
    """

    label: str
    threshold: float

    def __post_init__(self) -> None:
        if not isinstance(self.label, str) or not isinstance(self.threshold, float) or not 0.0 < self.threshold < 1.0:
            raise ValueError(f"threshold={self.threshold!r} is not a probability; pass a number between 0 and 1")

    def called(self, p: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether the class is flagged, given its probabilities."""
        return np.asarray(p >= self.threshold)


def undecided(
    p: NDArray[np.float64],
    intervals: NDArray[np.float64],
    names: Sequence[str],
    decision: DecisionThreshold | None = None,
) -> NDArray[np.bool_]:
    """Whether each prediction, (n, M), is undecided, given its intervals, (n, M, 2).

    With a decision, the interval of its class includes the threshold. Otherwise, the interval of the most probable
    class includes the probability of another class.

    Examples
    --------
    >>> p, ends = np.array([[0.7, 0.3]]), np.array([[[0.5, 0.9], [0.1, 0.5]]])
    >>> undecided(p, ends, ["well", "sick"]), undecided(p, ends, ["well", "sick"], DecisionThreshold("sick", 0.2))
    (array([False]), array([ True]))
    """
    if decision is not None:
        low, high = intervals[:, list(names).index(decision.label)].T
        return np.asarray((low < decision.threshold) & (decision.threshold <= high))
    if p.shape[1] < 2:
        return np.zeros(len(p), dtype=np.bool_)
    best = p.argmax(axis=1)
    second = np.sort(p, axis=1)[:, -2]
    return np.asarray(intervals[np.arange(len(p)), best, 0] < second)


def read_decision(
    threshold: str | float | None, cost: str | None, names: Sequence[str], values: Sequence[object] = ()
) -> DecisionThreshold | None:
    """The decision given by a threshold or by costs; None without either.

    Parameters
    ----------
    threshold : str or float, optional
        0.2, or "sick=0.2".
    cost : str, optional
        Costs of a missed case and a false alarm: "10:1", or "sick=10:1".
    names : sequence of str
        Names of the classes; with two classes, the default is the last one.
    values : sequence, optional
        The classes themselves, as alternative names.

    Examples
    --------
    >>> read_decision("0.2", None, ["well", "sick"])
    DecisionThreshold(label='sick', threshold=0.2)
    >>> read_decision(None, "well=1:4", ["well", "sick"])
    DecisionThreshold(label='well', threshold=0.8)
    """
    if threshold in (None, "") and not cost:
        return None
    if threshold not in (None, "") and cost:
        raise ValueError("threshold and cost are alternatives; pass one of them")
    name, text = "cost" if cost else "threshold", str(cost or threshold)
    label, _, number = text.rpartition("=")
    if not label:
        if len(names) != 2:
            raise ValueError(
                f"{name} {text!r} does not name one of the {len(names)} classes; pass, for example, {names[-1]}={text}"
            )
        label = names[-1]
    called = {**{str(value): name for value, name in zip(values, names, strict=False)}, **{one: one for one in names}}
    if label not in called:
        raise ValueError(f"{name} {text!r}: {label!r} is not a class; the classes are {', '.join(map(repr, names))}")
    return DecisionThreshold(called[label], _probability(name, text, number))


def check_texts(threshold: str, cost: str) -> str | None:
    """The error in a threshold or in costs passed as text, for any classes; None if valid."""
    if threshold and cost:
        return "threshold and cost are alternatives; remove one of them"
    for name, text in {"threshold": threshold, "cost": cost}.items():
        try:
            if text:
                _probability(name, text, text.rpartition("=")[2])
        except ValueError as error:
            return str(error)
    return None


def _probability(name: str, text: str, number: str) -> float:
    """Convert a number or a pair of costs to a threshold."""
    try:
        parts = [float(part) for part in number.split(":")]
    except ValueError:
        parts = []
    if name == "threshold":
        if len(parts) == 1 and 0.0 < parts[0] < 1.0:
            return parts[0]
        raise ValueError(f"threshold {text!r} is not a probability; pass a number between 0 and 1, such as 0.2")
    if len(parts) == 2 and min(parts) > 0.0 and all(map(math.isfinite, parts)):
        return parts[1] / sum(parts)
    raise ValueError(
        f"cost {text!r} is not a pair of costs; pass the costs of a missed case and a false alarm, such as 10:1"
    )
