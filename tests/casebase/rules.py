"""Random sequences of operations on a case base, beside a plain Python model of what must come of them."""

from __future__ import annotations

import random
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bayespatch.casebase import CaseBase, CaseBaseError
from bayespatch.casebase.refit import learn
from tests.casebase.clinic import BY, Places, outcome, patient
from tests.casebase.invariants import check

SEEDS = st.integers(0, 10**6)
REFITS = 2  # in a sequence: they take longest


class Expected:
    """The rules in plain Python."""

    def __init__(self, base: CaseBase) -> None:
        self.cases = {
            case.id: {"values": case.values, "outcome": case.outcome, "state": case.state, "name": case.external_id}
            for case in base.search(by=BY, limit=1000).items
        }
        self.seen: dict[int, dict[str, Any]] = {}
        self.trained = {1: set(self.cases)}
        self.states = {1: "active"}
        self.once_active = {1}
        self.n_log = base.verify_audit().n_entries

    @property
    def active(self) -> int | None:
        return next((version for version, state in self.states.items() if state == "active"), None)

    def live(self) -> list[int]:
        return [case for case, row in self.cases.items() if row["state"] != "withdrawn"]


def machine(places: Places) -> type[RuleBasedStateMachine]:
    """A state machine whose case bases come from there."""

    class Rules(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.folder = Path(tempfile.mkdtemp())
            self.base = CaseBase.open(places.copy(), folder=self.folder)
            self.expected = Expected(self.base)

        def teardown(self) -> None:
            check(self.base)
            found = {
                case.id: {"values": case.values, "outcome": case.outcome, "state": case.state, "name": case.external_id}
                for case in self.base.search(by=BY, limit=1000).items
            }
            assert found == self.expected.cases
            path = self.base._database.path
            self.base.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            if path is not None:
                path.unlink()
            places.drop()

        def refused(self, complaint: str, call: Any) -> None:
            with pytest.raises(CaseBaseError, match=complaint):
                call()

        def any_case(self, seed: int) -> int:
            """Mostly a case that is there, now and then one that is not."""
            rng = random.Random(seed)
            return rng.choice([*self.expected.cases, max(self.expected.cases) + 1])

        @rule(seed=SEEDS, known=st.booleans())
        def add(self, seed: int, known: bool) -> None:
            values = patient(random.Random(seed))
            row = {**values, "outcome": outcome(values)} if known else values
            [case] = self.base.add([row], by=BY)
            assert case == max(self.expected.cases) + 1
            self.expected.cases[case] = {
                "values": values,
                "outcome": outcome(values) if known else None,
                "state": "past" if known else "open",
                "name": None,
            }
            self.expected.n_log += 1

        @rule(seed=SEEDS, named=st.booleans(), again=st.booleans())
        def consult(self, seed: int, named: bool, again: bool) -> None:
            values = patient(random.Random(seed))
            case = self.any_case(seed) if again else None
            name = f"N-{seed % 5}" if named and not again else None
            rows = self.expected.cases
            if name is not None:
                case = next((i for i, row in rows.items() if row["name"] == name), None)
                again = case is not None

            def ask() -> Any:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    return self.base.consult(values, by=BY, case=None if name else case, external_id=name)

            if case is not None and case not in rows:
                return self.refused("there is no case", ask)
            if case is not None and rows[case]["state"] == "withdrawn":
                return self.refused("was forgotten", ask)
            if case is not None and rows[case]["state"] == "past":
                return self.refused("would be its own precedent", ask)
            if self.expected.active is None:
                return self.refused("no model is active", ask)
            seen = ask()
            self.expected.n_log += 1
            assert seen.id == self.expected.n_log
            assert seen.version == self.expected.active
            if case is None:
                assert seen.case_id == max(rows) + 1
                rows[seen.case_id] = {"values": values, "outcome": None, "state": "open", "name": name}
            else:
                assert seen.case_id == case
                rows[case]["values"] = values
            shown = {int(one["id"]) for one in seen.explanation["neighbors"]}
            assert shown <= self.expected.trained[seen.version]
            self.expected.seen[seen.id] = {"case": seen.case_id, "class": seen.predicted, "decided": False}

        @precondition(lambda self: self.expected.seen)
        @rule(seed=SEEDS, agrees=st.booleans(), why=st.sampled_from(["", "a reason"]))
        def decide(self, seed: int, agrees: bool, why: str) -> None:
            number = random.Random(seed).choice(list(self.expected.seen))
            seen = self.expected.seen[number]
            other = {"well": "sick", "sick": "well"}[seen["class"]]

            def say() -> Any:
                return self.base.decide(number, seen["class"] if agrees else other, by=BY, reason=why)

            if seen["decided"]:
                return self.refused("already has a decision", say)
            if not agrees and not why:
                return self.refused("give a reason", say)
            assert say().agrees == agrees
            seen["decided"] = True
            self.expected.n_log += 1

        @rule(seed=SEEDS, value=st.sampled_from([0, 1]))
        def record_outcome(self, seed: int, value: int) -> None:
            case = self.any_case(seed)
            row = self.expected.cases.get(case)
            if row is None:
                return self.refused("there is no case", lambda: self.base.outcome(case, value, by=BY))
            if row["state"] == "withdrawn":
                return self.refused("was forgotten", lambda: self.base.outcome(case, value, by=BY))
            if row["outcome"] is not None:
                return self.refused("already has an outcome", lambda: self.base.outcome(case, value, by=BY))
            self.base.outcome(case, value, by=BY)
            row["outcome"] = value
            self.expected.n_log += 1

        @rule()
        def retain(self) -> None:
            ready = [
                case
                for case, row in self.expected.cases.items()
                if row["state"] == "open" and row["outcome"] is not None
            ]
            assert self.base.retain(by=BY) == ready
            for case in ready:
                self.expected.cases[case]["state"] = "past"
            self.expected.n_log += max(1, len(ready))

        @precondition(lambda self: len(self.expected.states) <= REFITS)
        @rule()
        def refit(self) -> None:
            past = {case for case, row in self.expected.cases.items() if row["state"] == "past"}
            if len({self.expected.cases[case]["outcome"] for case in past}) < 2:
                return
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = learn(self.base._database, BY)
            assert model.version == max(self.expected.states) + 1
            self.expected.states[model.version] = "offered"
            self.expected.trained[model.version] = past
            self.expected.n_log += 1

        @rule(seed=SEEDS)
        def promote(self, seed: int) -> None:
            states = self.expected.states
            version = random.Random(seed).choice([*states, max(states) + 1])
            if version not in states:
                return self.refused("there is no model version", lambda: self.base.promote(version, by=BY))
            if states[version] in ("active", "removed"):
                return self.refused("is already active|was removed", lambda: self.base.promote(version, by=BY))
            self.base.promote(version, by=BY)
            self._activate(version)

        @rule()
        def roll_back(self) -> None:
            active, states = self.expected.active, self.expected.states
            older = [v for v in self.expected.once_active if active and v < active and states[v] == "retired"]
            if not older:
                return self.refused("no version before|no model is active", lambda: self.base.roll_back(by=BY))
            assert self.base.roll_back(by=BY).version == max(older)
            self._activate(max(older))

        def _activate(self, version: int) -> None:
            active = self.expected.active
            if active is not None:
                self.expected.states[active] = "retired"
            self.expected.states[version] = "active"
            self.expected.once_active.add(version)
            self.expected.n_log += 1

        @rule(seed=SEEDS)
        def forget(self, seed: int) -> None:
            case = self.any_case(seed)
            row = self.expected.cases.get(case)
            if row is None or row["state"] == "withdrawn":
                return self.refused("there is no case|was forgotten", lambda: self.base.forget(case, "asked", by=BY))
            done = self.base.forget(case, "asked", by=BY)
            row |= {"values": None, "outcome": None, "state": "withdrawn", "name": None}
            self.expected.seen = {i: one for i, one in self.expected.seen.items() if one["case"] != case}
            knew = [version for version, known in self.expected.trained.items() if case in known]
            assert sorted([*done.versions, *done.removed]) == sorted(knew)
            for version in knew:
                self.expected.trained[version].discard(case)
            for version in done.removed:
                self.expected.states[version] = "removed"
            self.expected.n_log += 2  # and the disk

        @rule(seed=SEEDS)
        def search(self, seed: int) -> None:
            rng = random.Random(seed)
            low, state = rng.randint(25, 85), rng.choice(["open", "past"])
            page = self.base.search([("age", ">=", low)], by=BY, state=state, limit=1000)
            assert [case.id for case in page.items] == [
                case
                for case, row in sorted(self.expected.cases.items())
                if row["state"] == state and row["values"]["age"] >= low
            ]
            self.expected.n_log += 1

        @invariant()
        def the_log_has_a_row_for_everything(self) -> None:
            found = self.base.verify_audit()
            assert found.intact
            assert found.n_entries == self.expected.n_log

        @invariant()
        def the_models_are_as_they_should_be(self) -> None:
            assert {model.version: model.state for model in self.base.models()} == self.expected.states

    return Rules


def run(places: Places, sequences: int, steps: int) -> None:
    """So many sequences of so many operations, all without a difference."""
    from hypothesis import HealthCheck
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        machine(places),
        settings=settings(
            max_examples=sequences,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
