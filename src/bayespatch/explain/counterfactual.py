"""The smallest change to a case that changes its prediction, as data and as text."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from bayespatch.explain import words
from bayespatch.explain.what_if import WhatIf
from bayespatch.types import JSONObject


@dataclass(frozen=True)
class Counterfactual:
    """A change that leads to a different prediction. It describes the model's predictions, not what would
    happen.

    Attributes
    ----------
    found : bool
        Whether a change of the allowed features changes the prediction; otherwise `what_if` has the one that comes
        closest.
    what_if : WhatIf
        The original and the changed case.
    changeable : tuple of str
        The features that were allowed to change.
    n_tried : int
        How many changes were tried.
    size : float
        Size of the change: the sum over the features of the share of past cases that the new value passes or reaches on
        the way from the old one; 1 for a category, or a value that was missing.
    proven : bool
        Whether every smaller change was tried; if none changes the prediction, whether every change was.
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
        """JSON-ready data: that of `WhatIf`, and whether the prediction changes."""
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
            f"{after.predicted} with {words.percent(after.probabilities[after.predicted])} instead of "
            f"{before.predicted} with {words.percent(before.probabilities[before.predicted])}"
        )
        features = ", ".join(map(called.__getitem__, self.changeable))
        if self.found and self.proven:
            said = [f"The smallest change that changes the prediction: {changed}. It would be {moved}."]
        elif self.found:
            said = [
                f"A change that changes the prediction: {changed}. It would be {moved}. It may not be the smallest: "
                f"of all changes, those of size {self.tried_up_to:.2f} or less were tried, and this one has size "
                f"{self.size:.2f}."
            ]
        elif not self.changes:
            said = [f"No change of {features} brings it closer."]
        else:
            name = before.predicted
            none = "No change" if self.proven else f"None of {self.n_tried} changes"
            said = [
                f"{none} of {features} to values of past cases changes the prediction. The closest: {changed}; {name} "
                f"would have {words.percent(after.probabilities[name])} instead of "
                f"{words.percent(before.probabilities[name])}."
            ]
        said.append(f"The changed case: {words.precedent(after.to_dict())}")
        if after.neighbors:
            closest = after.neighbors[0]
            said.append(f"Its closest patient: #{closest.id}, {words.outcome(after.to_dict(), closest.outcome)}.")
        said.append("This is the model's prediction for such a case, not the effect of a treatment.")
        return said

    def to_text(self, width: int = 120) -> str:
        """The sentences, and the explanation of the changed case."""
        return "\n".join([*self.sentences(), "", self.what_if.after.to_text(width)])

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(text)}</p>" for text in self.sentences())
