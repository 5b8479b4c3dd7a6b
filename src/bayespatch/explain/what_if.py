"""What-if comparisons: explanations of a case before and after a change, and the differences."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from bayespatch.explain import words
from bayespatch.explain.explanation import Explanation
from bayespatch.types import JSONObject


@dataclass(frozen=True)
class WhatIf:
    """A case with some values changed. It describes the model's predictions, not the effect of an intervention.

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
        """Change in the probability of each class."""
        after = self.after.probabilities
        return {name: after[name] - p for name, p in self.before.probabilities.items()}

    def to_dict(self) -> JSONObject:
        """Plain data, ready for JSON."""
        return {
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "changes": {name: list(values) for name, values in self.changes.items()},
            "shift": self.shift,
            "sentences": self.sentences(),
        }

    def sentences(self) -> list[str]:
        """The differences, in words."""
        before, after = self.before, self.after
        called = {feature.name: feature.called for feature in before.features}
        changed = ", ".join(f"{called[name]} from {old} to {new}" for name, (old, new) in self.changes.items())
        texts = [f"What if: {changed or 'nothing changed'}."]
        if before.mean is not None and after.mean is not None:
            change = f"{before.mean:.4g} before, {after.mean:.4g} after ({after.mean - before.mean:+.4g})"
            texts.append(f"Mean of {before.target or 'the outcome'}: {change}.")
        texts += [
            f"Probability of {name}: {words.percent(p)} before, {words.percent(after.probabilities[name])} after "
            f"({words.points(self.shift[name])} points)."
            for name, p in before.probabilities.items()
        ]
        if before.opinions is not None and after.opinions is not None:
            name = list(before.probabilities)[-1]
            pairs = (("past cases", "precedents"), ("risk factors", "additive"))
            each = (
                f"{source} {words.percent(getattr(before.opinions, how)[name])} before, "
                f"{words.percent(getattr(after.opinions, how)[name])} after"
                for source, how in pairs
            )
            texts.append(f"Opinions on {name}: {'; '.join(each)}.")
        was, now = ([part.id for part in why.neighbors] for why in (before, after))
        kinds = {
            "unchanged": [id for id in was if id in now],
            "removed": [id for id in was if id not in now],
            "added": [id for id in now if id not in was],
        }
        lists = [f"{kind}: {', '.join(f'#{id}' for id in ids) or 'none'}" for kind, ids in kinds.items()]
        texts.append(f"Closest patients, {'; '.join(lists)}.")
        texts += [
            words.precedent(why.to_dict()).replace(":", f" {when}:", 1)
            for when, why in (("before", before), ("after", after))
        ]
        new = [guard.text for guard in after.guards if guard not in before.guards]
        return [*texts, *(f"Warning after the change: {text}" for text in new)]

    def to_text(self, width: int = 120) -> str:
        """The changes, and the explanation of the changed case."""
        return "\n".join([*self.sentences(), "", self.after.to_text(width)])

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        changed = "".join(f"<p>{escape(text)}</p>" for text in self.sentences())
        return changed + (self.after._repr_html_() or "")
