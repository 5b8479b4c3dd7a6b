"""Reuse: predictions of the active model, valid only while it is active.

During a consultation, the model may be replaced or a patient forgotten. The answer is stored and returned only if the
same model is still active afterwards; otherwise the consultation is repeated.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection

from bayespatch.casebase import cases as case_rows
from bayespatch.casebase import consultations, models, repeats
from bayespatch.casebase.audit import Transaction, check_by
from bayespatch.casebase.cases import Definition
from bayespatch.casebase.consultations import Consultation
from bayespatch.casebase.database import Database
from bayespatch.casebase.errors import UnavailableError
from bayespatch.casebase.retained import Answering, State, answering, state_of
from bayespatch.casebase.scoring import Admission, Due, Scored, check_admissions, due
from bayespatch.casebase.visits import patient_of, visits_of, without_votes
from bayespatch.dictionary import Value
from bayespatch.estimator import PatchworkClassifier
from bayespatch.estimator.explaining import ERROR
from bayespatch.types import JSONMapping, JSONObject

_TRIES = 10  # attempts while the model keeps changing


class _ModelChanged(Exception):
    """The model changed during a consultation: a patient in the explanation may have been forgotten."""


class Reuse:
    """The part of a `CaseBase` that uses its model."""

    _database: Database

    def __init__(self) -> None:
        self._model: Answering | None = None
        self._n_jobs: int | None = None
        self._loading = threading.Lock()

    def consult(
        self,
        values: Mapping[str, object],
        *,
        by: str,
        case: int | str | None = None,
        external_id: str | None = None,
        patient: str | None = None,
        top: int = 5,
        level: float = 0.9,
        error: float = ERROR,
        key: str | None = None,
    ) -> Consultation:
        """Get the active model's explanation of a case, and store it.

        Parameters
        ----------
        values : dict
            A value for each feature, None if it is missing; labels may be used in place of values.
        by : str
            Name of the user, for the audit log.
        case : int or str, optional
            An existing open case, whose values are replaced by these. By default, a new case is created.
        external_id : str, optional
            The case's id in another system; an open case with this id is updated.
        patient : str, optional
            Identifies the patient, whose past visits do not vote. An existing case keeps its patient.
        top, level, error
            As in `PatchworkClassifier.explain`.
        key : str, optional
            An idempotency key: the same request by the same person under the same key returns the stored consultation.

        Returns
        -------
        Consultation
            With the `explanation`, which is `Explanation.to_dict()`.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     seen = base.consult({"age": 99, "pain": "rest"}, by="Dr. Roe")
        ...     seen.predicted, seen.explanation["case"]["warnings"][0]
        ('sick', 'age is 99 years, outside the range of the past cases, 31 to 80, by 19. Check the value.')
        """
        check_by(by)
        external_id = case_rows.check_external_id(external_id)
        patient = case_rows.check_patient(patient)
        for _ in range(_TRIES):
            with self._database.reading() as connection:
                definition = case_rows.required_definition(connection)
                plain = definition.features.check_row(values)
                request = [plain, case, external_id, *([patient] if patient else [])]
                once = repeats.once("consult", key, by, request)
                if (earlier := repeats.earlier(connection, once)) is not None:
                    with self._database.writing(by) as transaction:
                        return _read_again(transaction, earlier)
                number = consultations.visited(connection, case, external_id)
                named = patient_of(connection, number, patient)
                model = self._active(connection)
                clf = without_votes(model.clf, visits_of(connection, named))
            shown = consultations.explain(clf, plain, consultations.Detail(top, level, error))
            shown["about"] |= model.about(clf)
            try:
                with self._database.writing(by) as transaction:
                    if (earlier := repeats.earlier(transaction.connection, once)) is not None:
                        return _read_again(transaction, earlier)
                    if self._state(transaction.connection) != model.state:
                        raise _ModelChanged
                    number = consultations.visited(transaction.connection, case, external_id)
                    version = model.state.version
                    seen = consultations.store(transaction, number, external_id, plain, shown, version, named)
                    repeats.keep(transaction, once, seen.id)
                    return seen
            except _ModelChanged:
                continue
        raise UnavailableError("the active model keeps changing; try again")

    def score(
        self, admissions: Sequence[Admission], *, by: str, top: int = 5, level: float = 0.9, error: float = ERROR
    ) -> Scored:
        """Consult about many open cases in one transaction, each only if its values or the model have changed.

        Parameters
        ----------
        admissions : sequence of Admission
            A new case is added under its external id.
        by : str
            Name of the user or program, for the audit log.
        top, level, error
            As in `consult`.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> from bayespatch.casebase.scoring import Admission
        >>> with CaseBase.demo() as base:
        ...     today = [Admission("A-1", {"age": 58, "pain": "rest"}), Admission("A-2", {"age": 40, "pain": None})]
        ...     first, again = (base.score(today, by="ward") for _ in range(2))
        ...     first.new, again.new, again.unchanged
        ((25, 26), (), 2)
        """
        check_by(by)
        detail = consultations.Detail(top, level, error)
        shown: dict[str, JSONObject] = {}
        for _ in range(_TRIES):
            with self._database.reading() as connection:
                checked = check_admissions(admissions, case_rows.required_definition(connection))
                model = self._active(connection)
                kinds = due(connection, checked, model.state.version)
                wanted = [one for one in checked if kinds[one.external_id].kind in ("new", "updated")]
                voters = [without_votes(model.clf, visits_of(connection, one.patient)) for one in wanted]
            for one, clf in zip(wanted, voters, strict=True):
                shown[one.external_id] = consultations.explain(clf, one.values, detail)
                shown[one.external_id]["about"] |= model.about(clf)
            try:
                with self._database.writing(by) as transaction:
                    kinds = due(transaction.connection, checked, model.state.version)
                    stale = {one for one, need in kinds.items() if need.kind in ("new", "updated")}
                    if self._state(transaction.connection) != model.state or not stale <= set(shown):
                        raise _ModelChanged
                    return self._store(transaction, checked, kinds, shown, model.state.version)
            except _ModelChanged:
                shown.clear()
        raise UnavailableError("the active model keeps changing; try again")

    def _store(
        self,
        transaction: Transaction,
        admissions: Sequence[Admission],
        kinds: Mapping[str, Due],
        shown: Mapping[str, JSONObject],
        version: int,
    ) -> Scored:
        """Store the consultations of one run."""
        ids: dict[str, list[int]] = {"new": [], "updated": []}
        for one in admissions:
            kind, case = kinds[one.external_id]
            if kind in ids:
                explanation = shown[one.external_id]
                seen = consultations.store(
                    transaction, case, one.external_id, one.values, explanation, version, one.patient
                )
                ids[kind].append(seen.case_id)
        counts = Counter(one.kind for one in kinds.values())
        done = Scored(version, tuple(ids["new"]), tuple(ids["updated"]), counts["unchanged"], counts["closed"])
        n_new, n_updated = len(done.new), len(done.updated)
        transaction.record(
            "score", version=version, new=n_new, updated=n_updated, unchanged=done.unchanged, closed=done.closed
        )
        return done

    def ask(
        self,
        values: Mapping[str, object],
        *,
        by: str,
        patient: str | None = None,
        top: int = 5,
        level: float = 0.9,
        error: float = ERROR,
    ) -> tuple[int, JSONObject]:
        """Get the active model's explanation without storing it; an audit row records which past cases were shown.

        Parameters
        ----------
        values, by, patient, top, level, error
            As in `consult`.

        Returns
        -------
        version : int
            Version of the model.
        explanation : dict
            `Explanation.to_dict()`.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     version, why = base.ask({"age": 58, "pain": "rest"}, by="Dr. Roe")
        ...     version, why["prediction"]["class"], base.search(state="open", by="Dr. Roe").total
        (1, 'sick', 0)
        """
        return self._asked(
            values,
            by,
            lambda clf, plain, _: consultations.explain(clf, plain, consultations.Detail(top, level, error)),
            _named,
            patient=patient,
        )

    def counterfactual(
        self,
        values: Mapping[str, object],
        change: Sequence[str] | None = None,
        *,
        by: str,
        patient: str | None = None,
        to: object = None,
        most: int = 3,
        top: int = 5,
        level: float = 0.9,
        error: float = ERROR,
    ) -> tuple[int, JSONObject]:
        """The smallest change of a case that would change the predicted class; only an audit row is stored.

        Parameters
        ----------
        values : dict
            As in `consult`.
        change : sequence of str, optional
            Features that may change; by default all except those that the data dictionary marks as fixed.
        by : str
            Name of the user, for the audit log.
        patient : str, optional
            As in `consult`.
        to : optional
            The class to reach; by default any class other than the predicted one.
        most : int
            Maximum number of features to change at once.
        top, level, error
            As in `consult`.

        Returns
        -------
        version : int
            Version of the model.
        counterfactual : dict
            `Counterfactual.to_dict()`, with the changed values in stored form under "values".

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     _, found = base.counterfactual({"age": 58, "pain": "rest"}, by="Dr. Roe")
        ...     found["found"], found["before"]["prediction"]["class"], found["after"]["prediction"]["class"]
        (True, 'sick', 'well')
        """
        return self._asked(
            values,
            by,
            lambda clf, plain, definition: consultations.counterfactual(
                clf, plain, definition, change, to, most=most, detail=consultations.Detail(top, level, error)
            ),
            lambda answer: sorted({*_named(answer["before"]), *_named(answer["after"])}),
            patient=patient,
            counterfactual=True,
        )

    def _asked(
        self,
        values: Mapping[str, object],
        by: str,
        question: Callable[[PatchworkClassifier, dict[str, Value], Definition], JSONObject],
        named: Callable[[JSONObject], list[int]],
        *,
        patient: str | None,
        **details: object,
    ) -> tuple[int, JSONObject]:
        """The model's version and its answer; the audit log records the past cases that it shows."""
        check_by(by)
        patient = case_rows.check_patient(patient)
        for _ in range(_TRIES):
            with self._database.reading() as connection:
                definition = case_rows.required_definition(connection)
                plain = definition.features.check_row(values)
                model = self._active(connection)
                clf = without_votes(model.clf, visits_of(connection, patient))
            shown = question(clf, plain, definition)
            for part in (shown, shown.get("before", {}), shown.get("after", {})):
                if "about" in part:
                    part["about"] |= model.about(clf)
            version = model.state.version
            with self._database.writing(by) as transaction:
                changed = self._state(transaction.connection) != model.state
                transaction.record("ask", version=version, shown=[] if changed else named(shown), **details)
            if not changed:
                return version, shown
        raise UnavailableError("the active model keeps changing; try again")

    def record_ask(self, answer: tuple[int, JSONObject], *, by: str) -> None:
        """Record that an answer of `ask` was shown again.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     base.record_ask(base.ask({"age": 58, "pain": "rest"}, by="Dr. Roe"), by="Dr. Roe")
        ...     [entry.details.get("again") for entry in base.audit(action="ask")]
        [True, None]
        """
        version, shown = answer
        with self._database.writing(by) as transaction:
            transaction.record("ask", version=version, shown=_named(shown), again=True)

    def record_report(self, version: int, cases: Sequence[int], *, by: str) -> None:
        """Record that the report of a model was shown, and the past cases in it.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     base.record_report(1, [3], by="Dr. Roe")
        ...     base.audit(limit=1)[0].details
        {'report': 1, 'shown': [3]}
        """
        with self._database.writing(by) as transaction:
            transaction.record("read", report=version, shown=list(cases))

    def explain_past(self, case: int, *, by: str, error: float = ERROR) -> JSONObject | None:
        """The active model's explanation of one of its past cases from all the others, as if it were new.

        Returns
        -------
        dict or None
            `Explanation.to_dict()`; None if this case does not vote in the model.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     base.explain_past(3, by="Dr. Roe")["prediction"]["class"]
        'well'
        """
        with self._database.reading() as connection:
            row = case_rows.find_live(connection, case)
            model = self._active(connection)
        clf = model.clf
        rows = [place for place, name in enumerate(clf.ids_ or ()) if name == str(case)]
        if not rows or not clf.may_be_shown(rows[0]):
            return None
        shown = clf.explain_past(rows[0], known=False, error=error).to_dict()
        shown["about"] |= model.about(clf)
        with self._database.writing(by) as transaction:
            if self._state(transaction.connection) != model.state:
                raise UnavailableError("the model has changed in the meantime; try again")
            transaction.record("read", row.id, shown=_named(shown))
        return shown

    def neighbor_of(self, case: int, *, by: str, most: int = 10) -> list[tuple[int, float]]:
        """Past cases that have this past case as a neighbor in the active model, with the probabilities.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     found = base.neighbor_of(3, by="Dr. Roe", most=2)
        ...     len(found), found[0][1] >= found[1][1]
        (2, True)
        """
        with self._database.writing(by) as transaction:
            neighbors = models.neighbor_of(self._active(transaction.connection).clf, case, most)
            transaction.record("read", case, shown=[one for one, _ in neighbors])
        return neighbors

    def model(self) -> PatchworkClassifier:
        """The active model, a fitted `PatchworkClassifier`, with the past cases retained since it was fitted.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     len(base.model().parents_)
        24
        """
        with self._database.reading() as connection:
            return self._active(connection).clf

    def state(self) -> State | None:
        """The past cases of the active model now; None without an active model.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     before = base.state().n_retained
        ...     _ = base.add([{"age": 70, "pain": "rest", "outcome": "sick"}], by="registry")
        ...     before, base.state().n_retained
        (0, 1)
        """
        with self._database.reading() as connection:
            return self._state(connection)

    def _state(self, connection: Connection) -> State | None:
        model = models.active(connection)
        return None if model is None else state_of(connection, model)

    def _active(self, connection: Connection) -> Answering:
        """The active version, read once, and the past cases retained since."""
        model = models.active(connection)
        if model is None or model.sha256 is None:
            raise UnavailableError("no model is active; refit on the past cases, then promote the new version")
        state = state_of(connection, model)
        with self._loading:  # one model for all threads
            if self._model is None or self._model.state != state:
                now = None if self._model is None else self._model.updated(connection, state)
                if now is None:
                    clf = models.read_model(connection, model.version, model.sha256, self._database.folder)
                    if self._n_jobs is not None:
                        clf.n_jobs = self._n_jobs
                    now = answering(connection, model, state, clf)
                self._model = now
            return self._model


def _read_again(transaction: Transaction, consultation: int) -> Consultation:
    """A stored consultation, shown again under its idempotency key."""
    seen = consultations.find(transaction.connection, consultation)
    transaction.record("read", seen.case_id, consultation=seen.id)
    return seen


def _named(shown: JSONMapping) -> list[int]:
    """The past cases whose values an explanation shows."""
    parts = [*shown["neighbors"], *(group["closest"] for group in shown["groups"] if group["closest"])]
    return sorted({int(part["id"]) for part in parts})
