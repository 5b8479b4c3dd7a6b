"""Request bodies of the REST interface, and responses that extend the results of the case base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from bayespatch.casebase.audit import LogEntry
from bayespatch.casebase.consultations import Consultation, Decision
from bayespatch.casebase.follow_up import Recording
from bayespatch.casebase.models import ModelVersion
from bayespatch.dictionary import Entry, Value
from bayespatch.types import JSONObject

LARGEST = 2**63 - 1

Values = Annotated[dict[str, Value], Field(description="A value for each feature of the dictionary.")]
Class = Annotated[str | bool | int | float, Field(description="The class, by value or label.")]
CaseNumber = Annotated[int, Field(ge=1, le=LARGEST)]
Number = Annotated[int, Path(ge=1, le=LARGEST, description="The number of the case or consultation.")]
Version = Annotated[int, Path(ge=1, le=2**31 - 1, description="The version of the model.")]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1, description="Number of items to skip.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of items to return.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="A random string, such as a UUID. Requests with the same key take effect once.",
    ),
]

# Requests


class Strict(BaseModel):
    """Base class of requests; unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid")


Patient = Annotated[
    str | None,
    Field(min_length=1, max_length=200, description="Identifies the patient, whose past visits then do not vote."),
]


class Question(Strict):
    """A case to predict."""

    values: Values
    patient: Patient = None


class CounterfactualQuestion(Strict):
    """A case and the prediction to reach."""

    values: Values
    change: list[Annotated[str, Field(max_length=1000)]] | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="Features that may change. Null: all features that are not fixed.",
    )
    to: str | bool | int | float | None = Field(
        None, description="The class to reach, by value or label. Null: any class other than the predicted one."
    )
    patient: Patient = None
    most: int = Field(3, ge=1, le=3, description="Maximum number of features to change at once.")


class NewConsultation(Strict):
    """A consultation to store."""

    values: Values
    case: CaseNumber | None = Field(None, description="The open case of a returning patient.")
    external_id: str | None = Field(
        None, min_length=1, max_length=200, description="The identifier of the case in another system."
    )
    patient: Patient = None


class NewDecision(Strict):
    """A decision; overriding the model requires a reason or a code."""

    decided: Class
    reason: str = Field("", max_length=10_000, description="Why the decision overrides the model.")
    code: str = Field("", max_length=200, description="A code for the reason.")


class NewOutcome(Strict):
    """The outcome of a case."""

    outcome: Class


class NewFollowUp(Strict):
    """Values of follow-up columns; omitted columns keep their values, null means unknown."""

    values: dict[str, Value] = Field(
        min_length=1, max_length=1000, description="Values by follow-up column; null means unknown."
    )


class Retention(Strict):
    """Open cases to turn into past cases; null: all with a recorded outcome."""

    cases: list[CaseNumber] | None = Field(
        None, max_length=1000, description="Numbers of open cases. Null: all with a recorded outcome."
    )


class Reason(Strict):
    """A reason. It is stored, so it must not contain the patient's values."""

    reason: str = Field(min_length=1, max_length=1000, description="Stored; must not contain the patient's values.")


class Promotion(Strict):
    """Why a version is promoted although it is worse on recent outcomes; it is stored."""

    reason: str = Field("", max_length=1000, description="Why to promote a version that is worse on recent outcomes.")


# Responses without a dataclass in the case base


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


@dataclass(frozen=True)
class About:
    """The features and the outcome of the cases."""

    target: str
    classes: dict[str, Value]
    features: dict[str, Entry]
    follow_up: dict[str, Entry]


@dataclass(frozen=True)
class Recordings:
    """Follow-up recordings of a case, oldest first."""

    items: tuple[Recording, ...]


@dataclass(frozen=True)
class Answer:
    """A prediction that is not stored; `explanation` is `Explanation.to_dict()`."""

    version: int
    explanation: JSONObject


@dataclass(frozen=True)
class Different:
    """A change that is not stored: `Counterfactual.to_dict()` and the changed "values"."""

    version: int
    counterfactual: JSONObject


@dataclass(frozen=True)
class DecidedConsultation(Consultation):
    """A consultation with the displayed explanation, and the decision."""

    decision: Decision | None = None


@dataclass(frozen=True)
class Retained:
    """The new past cases."""

    cases: list[int]


@dataclass(frozen=True)
class ModelList:
    """All versions of the model, newest first."""

    items: list[ModelVersion]


@dataclass(frozen=True)
class DriftList:
    """One row for each period."""

    items: list[JSONObject]


@dataclass(frozen=True)
class LogEntryList:
    """Rows of the audit log."""

    items: list[LogEntry]
