"""The smallest change to a case that changes its prediction, as data and as text."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from bayespatch.explain import words
from bayespatch.explain.what_if import WhatIf
from bayespatch.types import JSONObject


@dataclass(frozen=True)
class Counterfactual:
    """A change to a case that changes its prediction. It describes the model, not what would happen to a patient.

    Attributes
    ----------
    found : bool
        Whether a change to the allowed features changes the prediction; if not, `what_if` has the change that comes
        closest.
    what_if : WhatIf
        The original and the changed case.
    changeable : tuple of str
        The features that were allowed to change.
    n_tried : int
        Number of changes tried.
    size : float
        Size of the change, summed over the features. A number counts the share of past cases that its new value passes
        or reaches on the way from the old one; a category or a previously missing value counts 1.
    proven : bool
        Whether every smaller change was tried; if no change succeeds, whether every possible change was tried.
    tried_up_to : float
        Size up to which every change was tried.
    """

    found: bool
    what_if: WhatIf
    changeable: tuple[str, ...]
    n_tried: int
    size: float
    proven: bool
    tried_up_to: float

    @property
    def changes(self) -> dict[str, tuple[str, str]]:
        """Values that differ, {feature: (before, after)}."""
        return self.what_if.changes

    def to_dict(self) -> JSONObject:
        """Plain data, ready for JSON: that of `WhatIf`, and whether the prediction changes."""
        return {
            "found": self.found,
            "changeable": list(self.changeable),
            "n_tried": self.n_tried,
            "size": self.size,
            "proven": self.proven,
            "tried_up_to": self.tried_up_to,
            "raw": {
                feature.name: feature.raw for feature in self.what_if.after.features if feature.name in self.changes
            },
            **self.what_if.to_dict(),
            "sentences": self.sentences(),
        }

    def sentences(self) -> list[str]:
        """The change, in words."""
        before, after = self.what_if.before, self.what_if.after
        called = {feature.name: feature.called for feature in before.features}
        changed = ", ".join(f"{called[name]} {new} instead of {old}" for name, (old, new) in self.changes.items())
        moved = (
            f"{after.predicted} ({words.percent(after.probabilities[after.predicted])}) instead of "
            f"{before.predicted} ({words.percent(before.probabilities[before.predicted])})"
        )
        features = ", ".join(map(called.__getitem__, self.changeable))
        if self.found and self.proven:
            texts = [f"The smallest change that changes the prediction: {changed}. The prediction would be {moved}."]
        elif self.found:
            texts = [
                f"A change that changes the prediction: {changed}. The prediction would be {moved}. This change has "
                f"size {self.size:.2f} and may not be the smallest: only changes up to size {self.tried_up_to:.2f} "
                f"were all tried."
            ]
        elif not self.changes:
            texts = [f"No change to {features} brings the prediction closer to another class."]
        else:
            name = before.predicted
            none = "No change" if self.proven else f"None of the {self.n_tried} tested changes"
            texts = [
                f"{none} to {features} changes the prediction; only values of past cases were considered. The closest: "
                f"{changed}; the probability of {name} would be {words.percent(after.probabilities[name])} instead of "
                f"{words.percent(before.probabilities[name])}."
            ]
        texts.append(f"The changed case: {words.precedent(after.to_dict())}")
        if after.neighbors:
            closest = after.neighbors[0]
            texts.append(f"Its closest patient: #{closest.id}, {words.outcome(after.to_dict(), closest.outcome)}.")
        texts.append("This is the model's prediction for the changed case, not the effect of a treatment.")
        return texts

    def to_text(self, width: int = 120) -> str:
        """The sentences, and the explanation of the changed case."""
        return "\n".join([*self.sentences(), "", self.what_if.after.to_text(width)])

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(text)}</p>" for text in self.sentences())
