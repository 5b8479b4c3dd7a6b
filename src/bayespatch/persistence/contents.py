"""The parts of a fitted model that a file may contain without the past cases.

`Fitted` and `Posterior` mark these fields with the metadata `STORED_WITHOUT_CASES`: they are totals over all rows
(importances, constants, calibration, names of columns and classes). Everything else belongs to individual rows or
reveals a value of a row, such as a bin edge, and is stored with the past cases. A new field is therefore private unless
marked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from typing import TypeAlias

from bayespatch.fitted import Fitted, FittedClasses, FittedNumbers
from bayespatch.fitted_times import FittedTimes
from bayespatch.leave_one_out import LeaveOneOutVotes
from bayespatch.sampling.posterior import STORED_WITHOUT_CASES, Posterior
from bayespatch.types import JSONObject

# Parts of a model by their path in `STORED`, such as "posterior.q"; each part has the type of its field.
Parts: TypeAlias = JSONObject


class Stored(Enum):
    """Where a part of a model is stored."""

    ALWAYS = "in every model file"
    WITH_CASES = "with the past cases, in their part or in their file"


def _places(owner: type[Fitted | Posterior], prefix: str = "") -> Iterator[tuple[str, Stored]]:
    for part in fields(owner):
        if part.name in ("posterior", "loo"):
            continue  # their fields follow
        totals = STORED_WITHOUT_CASES.items() <= part.metadata.items()
        yield prefix + part.name, Stored.ALWAYS if totals else Stored.WITH_CASES


# By path: "calibration", "posterior.q", "loo.votes"
STORED: dict[str, Stored] = {
    **dict(_places(FittedClasses)),
    **dict(_places(FittedNumbers)),
    **dict(_places(FittedTimes)),
    **dict(_places(Posterior, "posterior.")),
    **{f"loo.{name}": Stored.WITH_CASES for name in LeaveOneOutVotes._fields},
}
