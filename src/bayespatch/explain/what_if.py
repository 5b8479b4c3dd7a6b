"""What if the case had other values: two explanations, and what changed between them."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from bayespatch.explain import words
from bayespatch.explain.explanation import Explanation


@dataclass(frozen=True)
class WhatIf:
    """A case as it is and as it might be. It says what the model would say, not what an intervention would do.

    Attributes
    ----------
    before, after : Explanation
    """

    before: Explanation
    after: Explanation

    @property
    def changes(self) -> dict[str, tuple[str, str]]:
        """Values that differ, {feature: (before, after)}."""
        before, after = self.before.values, self.after.values
        return {name: (before[name], after[name]) for name in before if before[name] != after[name]}

    @property
    def shift(self) -> dict[str, float]:
        """By how much the probability of each class changes."""
        after = self.after.probabilities
        return {name: after[name] - p for name, p in self.before.probabilities.items()}

    @property
    def neighbors(self) -> dict[str, list[int]]:
        """Which neighbors stay, leave and come (rows of the training table)."""
        before = [neighbor.index for neighbor in self.before.neighbors]
        after = [neighbor.index for neighbor in self.after.neighbors]
        return {
            "stay": [index for index in before if index in after],
            "leave": [index for index in before if index not in after],
            "come": [index for index in after if index not in before],
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "changes": {name: list(values) for name, values in self.changes.items()},
            "shift": self.shift,
            "neighbors": self.neighbors,
        }

    def sentences(self) -> list[str]:
        """What changed, in words."""
        before, after = self.before, self.after
        changed = ", ".join(f"{name} from {old} to {new}" for name, (old, new) in self.changes.items())
        said = [f"What if: {changed or 'nothing changed'}."]
        if before.mean is not None and after.mean is not None:
            change = f"{before.mean:.4g} before, {after.mean:.4g} after ({after.mean - before.mean:+.4g})"
            said.append(f"Mean of {before.target or 'the outcome'}: {change}.")
        said += [
            f"Probability of {name}: {words.percent(p)} before, {words.percent(after.probabilities[name])} after "
            f"({words.points(self.shift[name])} points)."
            for name, p in before.probabilities.items()
        ]
        ids = {neighbor.index: neighbor.id for neighbor in (*before.neighbors, *after.neighbors)}
        moves = self.neighbors
        listed = {how: ", ".join(ids[index] for index in indices) or "none" for how, indices in moves.items()}
        said.append(f"Neighbors that stay: {listed['stay']}; leave: {listed['leave']}; come: {listed['come']}.")
        said += [f"{when}: {words.precedent(why)}" for when, why in (("Before", before), ("After", after))]
        return said

    def to_text(self, width: int = 120) -> str:
        """What changed, and the explanation of the changed case."""
        return "\n".join([*self.sentences(), "", self.after.to_text(width)])

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(text)}</p>" for text in self.sentences()) + self.after._repr_html_()
