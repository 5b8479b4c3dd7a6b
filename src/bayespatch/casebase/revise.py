"""Revise and retain: record decisions and outcomes, and turn open cases into past cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bayespatch.casebase import cases as case_rows
from bayespatch.casebase import consultations, follow_up, repeats
from bayespatch.casebase.cases import Case
from bayespatch.casebase.consultations import Decision
from bayespatch.casebase.database import Database
from bayespatch.casebase.errors import NotFoundError


class Revise:
    """The part of a `CaseBase` that records decisions and outcomes."""

    _database: Database

    def decide(
        self, consultation: int, decided: object, *, by: str, reason: str = "", code: str = "", key: str | None = None
    ) -> Decision:
        """Record the decision after a consultation; overriding the model requires a reason or a code.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     seen = base.consult({"age": 58, "pain": "rest"}, by="Dr. Roe")
        ...     base.decide(seen.id, "well", by="Dr. Roe", reason="the pain is from a broken rib").agrees
        False
        """
        once = repeats.once("decide", key, by, [consultation, decided, reason, code])
        with self._database.writing(by) as transaction:
            if (earlier := repeats.earlier(transaction.connection, once)) is not None:
                decision = consultations.decision_of(transaction.connection, earlier)
                if decision is None:
                    raise NotFoundError(f"consultation {earlier} no longer exists")
                transaction.record("read", consultations.find(transaction.connection, earlier).case_id)
                return decision
            decision = consultations.decide(transaction, consultation, decided, reason, code)
            repeats.keep(transaction, once, consultation)
            return decision

    def decide_together(self, new: Sequence[tuple[int, object, str, str]], *, by: str) -> list[Decision]:
        """Record several decisions, each with its reason and its code, or none if one of them is rejected.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     seen = base.consult({"age": 58, "pain": "rest"}, by="Dr. Roe")
        ...     [one.agrees for one in base.decide_together([(seen.id, "sick", "", "")], by="ward")]
        [True]
        """
        if not new:
            return []
        with self._database.writing(by) as transaction:
            return [consultations.decide(transaction, *one) for one in new]

    def outcome(self, case: int | str, outcome: object, *, by: str, key: str | None = None) -> Case:
        """Record the outcome of a case. A second outcome is rejected.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     seen = base.consult({"age": 58, "pain": "rest"}, by="Dr. Roe")
        ...     base.outcome(seen.case_id, "sick", by="registry").state
        'open'
        """
        once = repeats.once("outcome", key, by, [case, outcome])
        with self._database.writing(by) as transaction:
            if (earlier := repeats.earlier(transaction.connection, once)) is not None:
                transaction.record("read", earlier)
                return case_rows.as_case(case_rows.find(transaction.connection, earlier))
            case_now = case_rows.record_outcome(transaction, case, outcome)
            repeats.keep(transaction, once, case_now.id)
            return case_now

    def record_follow_up(self, case: int | str, values: Mapping[str, object], *, by: str) -> follow_up.Recording:
        """Record follow-up of a case; the values replace earlier ones.

        The data dictionary names the columns (`role: follow-up` or `treatment`). They are never compared. The next
        refit reads them; explanations then summarize them over the past cases that vote.

        Parameters
        ----------
        case : int or str
            Its number, or its external id.
        values : dict
            Values by column; other columns keep their values. None means not known.
        by : str
            Name of the user, for the audit log.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     words = {name: entry.to_dict() for name, entry in base.definition.features.entries.items()}
        ...     words |= {"outcome": {"levels": ["sick", "well"]}, "stay": {"kind": "number", "role": "follow-up"}}
        ...     base.define(words, "outcome", by="data manager")
        ...     _ = base.record_follow_up(3, {"stay": 4}, by="ward")
        ...     _ = base.record_follow_up(3, {"stay": 5}, by="ward")
        ...     [recording.values for recording in base.follow_up(3, by="Dr. Roe")]
        [{'stay': 4}, {'stay': 5}]
        """
        with self._database.writing(by) as transaction:
            return follow_up.record(transaction, case, values)

    def follow_up(self, case: int | str, *, by: str) -> tuple[follow_up.Recording, ...]:
        """Follow-up recordings of a case, oldest first.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     base.follow_up(1, by="Dr. Roe")
        ()
        """
        with self._database.writing(by) as transaction:
            row = case_rows.find(transaction.connection, case)
            transaction.record("read", row.id)
            return follow_up.history(transaction.connection, row.id)

    def retain(self, which: Iterable[int | str] | None = None, *, by: str) -> list[int]:
        """Turn open cases into past cases: those named, or all with a known outcome.

        They vote from the next consultation on, and the next refit learns from them.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     seen = base.consult({"age": 58, "pain": "rest"}, by="Dr. Roe")
        ...     _ = base.outcome(seen.case_id, "sick", by="registry")
        ...     base.retain(by="registry")
        [25]
        """
        with self._database.writing(by) as transaction:
            return case_rows.retain(transaction, which)
